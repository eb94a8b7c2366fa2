#!/bin/sh
# The optimised programs are hardened: position independent, fully read-only relocations, no executable stack,
# stack protector, fortified calls; and the command's start-up loads none of the rarely used libraries.
#   check_hardening.sh BUILD_DIRECTORY
set -eu
cd "$(dirname "$0")/.."
directory=${1:?usage: check_hardening.sh BUILD_DIRECTORY}
LC_ALL=C
export LC_ALL
failures=0

fail() {
        printf '%s: %s\n' "$program" "$*" >&2
        failures=$((failures + 1))
}

# calls PATTERN: whether a function of ours calls one whose name fits. Looked up in the code itself: a statically
# linked program holds the C library, whose own calls would tell nothing about ours.
calls() {
        objdump -d --no-show-raw-insn "$program" | awk -v wanted="<$1(@plt)?>" '
                /^[0-9a-f]+ </ { ours = $2 ~ /^<sr_/ }
                ours && $0 ~ wanted { found = 1 }
                END { exit !found }'
}

# shows PATTERN READELF-OPTION…: whether readelf's answer about the program has the pattern.
shows() {
        pattern=$1
        shift
        readelf -W "$@" "$program" | grep -Eq "$pattern"
}

for name in sandbox-runner sandbox-runner-spawner sandbox-runner-image; do
        program=$directory/$name
        [ -x "$program" ] || {
                fail 'not built'
                continue
        }
        shows 'Type:[[:space:]]+DYN' -h || fail 'not position independent'
        shows 'FLAGS_1.*PIE' -d || fail 'not marked as a position-independent executable'
        shows 'GNU_RELRO' -l || fail 'relocations stay writable (no GNU_RELRO)'
        shows 'FLAGS_1.*NOW|BIND_NOW' -d || fail 'relocations are resolved lazily, so RELRO is partial'
        shows 'GNU_STACK.*RW ' -l || fail 'no GNU_STACK header that says RW'
        ! shows 'GNU_STACK.*E' -l || fail 'executable stack'
        ! shows 'TEXTREL' -d || fail 'text relocations'
        calls '__stack_chk_fail' || fail 'no stack protector'
        calls '__[a-z0-9_]+_chk' || fail 'no fortified call'
        ! shows '(RPATH|RUNPATH)' -d || fail 'a run path is built in'
done

program=$directory/sandbox-runner
for library in libarchive libcrypto libssl libcurl libmicrohttpd libsystemd; do
        ! shows "NEEDED.*$library" -d || fail "loads $library at its start"
done

[ "$failures" -eq 0 ] || exit 1
echo 'the programs are hardened'
