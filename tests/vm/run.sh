#!/bin/sh
# A Debian virtual machine with Debian's kernel, systemd and nothing but cgroup v2, run by qemu under software
# emulation: for what the machine of the person who tests cannot show.
#
#   sh tests/vm/run.sh [--full] [SITUATION…]            the vm-marked tests, or all, in these situations (default: all)
#   sh tests/vm/run.sh [--as SITUATION] --command CMD   one shell command in the machine; its output, its exit code
#   sh tests/vm/run.sh --shell                          a root shell on this terminal; the machine ends with it
#
# Situations: root, user, lone, service, service-user; guest/as.sh says what they are.
#
# In the machine the checkout (with the programs of build/) is in /srv/checkout, the image store in /srv/store.
# The base system is made once with mmdebstrap and kept in ${XDG_CACHE_HOME:-~/.cache}/sandbox-runner-tests/vm,
# as is a disk with the image store; what a run changes on either is thrown away with the machine.
#
# Environment: SANDBOX_RUNNER_TEST_VM_SUITE (bookworm), SANDBOX_RUNNER_TEST_VM_LIMIT (seconds, 900),
# SANDBOX_RUNNER_TEST_BUILD (build): the folder of the programs.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
suite=${SANDBOX_RUNNER_TEST_VM_SUITE:-bookworm}
limit=${SANDBOX_RUNNER_TEST_VM_LIMIT:-900}
build=${SANDBOX_RUNNER_TEST_BUILD:-build}
all_situations='root user service service-user lone'
PATH=$PATH:/usr/sbin:/sbin
export PATH

die() {
        printf 'tests/vm/run.sh: %s\n' "$*" >&2
        exit 2
}

situation=root
command=
shell=
mark=vm
while [ $# -gt 0 ]; do
        case $1 in
        --as)
                [ $# -gt 1 ] || die '--as wants a situation'
                situation=$2
                shift
                ;;
        --command)
                [ $# -gt 1 ] || die '--command wants a shell command'
                command=$2
                shift
                ;;
        --shell) shell=1 ;;
        --full) mark='vm or not vm' ;;
        -*) die "unknown option $1" ;;
        *) break ;;
        esac
        shift
done
situations=${*:-$all_situations}
for one in $situation $situations; do
        case " $all_situations " in
        *" $one "*) ;;
        *) die "there is no situation '$one'; there are: $all_situations" ;;
        esac
done

# A test that cannot run says why; tests/run.sh counts that in its closing lines.
skip() {
        [ -z "${SANDBOX_RUNNER_TEST_NOTES-}" ] || printf 'skipped: vm: %s\n' "$*" >>"$SANDBOX_RUNNER_TEST_NOTES"
        printf 'skipped: %s\n' "$*"
        exit 77
}
[ "$(id -u)" -eq 0 ] || skip 'making the virtual machine needs root'
for tool in qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap mke2fs:e2fsprogs setpriv:util-linux; do
        command -v "${tool%%:*}" >/dev/null 2>&1 || skip "${tool%%:*} is missing: apt-get install ${tool##*:}"
done

cache=${SANDBOX_RUNNER_TEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sandbox-runner-tests}
store=${SANDBOX_RUNNER_TEST_STORE:-$cache/store}
if ! [ -d "$store/refs" ]; then # not prepared by tests/run.sh yet: those of the person who tests will do
        store=${XDG_DATA_HOME:-${HOME:-/root}/.local/share}/sandbox-runner/images
        [ -d "$store/refs" ] || die "there are no images in $cache/store: sh tests/run.sh prepares them"
fi
for program in sandbox-runner sandbox-runner-spawner sandbox-runner-image; do
        [ -x "$top/$build/$program" ] || die "there is no $build/$program: build first"
done

mkdir -p "$cache/vm"
work=$(mktemp -d "$cache/vm/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# The base system, made again when its recipe changes.
base_key=$({ echo "$suite" && cat "$here/image.sh" "$here/guest/sr-job.sh" "$here/guest/sr-job.service"; } |
        sha256sum | cut -c 1-16)
base=$cache/vm/$suite-$base_key
make_base() {
        [ -e "$base/vmlinuz" ] && return
        echo "making the $suite machine (once; about a minute)" >&2
        mkdir "$work/base"
        sh "$here/image.sh" "$suite" "$work/base" >"$work/base.log" 2>&1 || {
                cat "$work/base.log"
                die "the base system of the machine could not be made"
        }
        rm -rf "$base"
        mv "$work/base" "$base"
}

# A disk with the image store: made again when an image changes. References name everything by digest.
store_key=$(cd "$store" && find refs format -type f -exec sha256sum {} + | LC_ALL=C sort | sha256sum | cut -c 1-16)
store_disk=$cache/vm/store-$store_key.img
make_store() {
        [ -e "$store_disk" ] && return
        kib=$(du -sk "$store" | cut -f 1)
        truncate -s "$((kib * 5 / 4 + 65536))K" "$work/store.img"
        mke2fs -q -t ext4 -O ^has_journal -N "$(($(find "$store" | wc -l) + 1000))" -m 0 -d "$store" "$work/store.img"
        mv "$work/store.img" "$store_disk"
}

{
        flock 9
        find "$cache/vm" -mindepth 1 -maxdepth 1 -mtime +14 ! -name lock -exec rm -rf {} +
        make_base
        make_store
        touch "$base" "$store_disk"
} 9>"$cache/vm/lock"

# The job: what the machine does after it has booted.
{
        echo 'cd /srv/checkout'
        echo 'export HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 SANDBOX_RUNNER_IMAGES_LOWER_STORE=/srv/store'
        if [ -n "$shell" ]; then
                echo "export TERM=${TERM:-linux}"
                echo 'setsid --ctty bash -l </dev/ttyS0 >/dev/ttyS0 2>&1'
        elif [ -n "$command" ]; then
                echo "sh tests/vm/guest/as.sh $situation sh -c \"\$(cat /srv/command)\""
        else
                echo "export SANDBOX_RUNNER_TEST_STORE=/srv/store SANDBOX_RUNNER=/srv/checkout/$build/sandbox-runner"
                echo "export HOST_HELLO_MS=$(/usr/bin/python3 "$here/guest/hello.py")"
                echo "sh /srv/checkout/tests/vm/guest/suite.sh '$mark' $situations"
        fi
} >"$work/job"
printf '%s\n' "$command" >"$work/command"

# What changes with every commit comes as a plain tar file in place of a disk.
tar -cf "$work/payload.tar" -C "$work" job command
tar -rf "$work/payload.tar" -C "$top" --transform='s,^\.,checkout,' --owner=0 --group=0 --mode=a+rX \
        --exclude='./build*' --exclude=./.git --exclude=./src --exclude=node_modules .
set -- "$build/sandbox-runner" "$build/sandbox-runner-spawner" "$build/sandbox-runner-image"
[ ! -d "$top/$build/tests/escape" ] || set -- "$@" "$build/tests/escape"
tar -rf "$work/payload.tar" -C "$top" --transform='s,^,checkout/,' --owner=0 --group=0 --mode=a+rX "$@"

# disk NAME FILE OPTIONS
disks=
disk() {
        disks="$disks -drive if=none,id=$1,format=raw,file=$2,$3"
}
disk root "$base/root.img" snapshot=on
disk store "$store_disk" readonly=on,file.locking=off
disk payload "$work/payload.tar" readonly=on
# Debian's kernel has NVMe and ext4 built in: no initial RAM disk is needed. The others are found by their names: of several on NVMe, any may come first.
disks="$disks -device nvme,serial=root,drive=root"
for name in store payload; do
        disks="$disks -device virtio-blk-pci,serial=$name,drive=$name"
done

# Without the mitigations of processor faults, which cost much under emulation and prove nothing there.
arguments='root=/dev/nvme0n1 rw console=ttyS0 quiet panic=-1 systemd.unified_cgroup_hierarchy=1'
arguments="$arguments mitigations=off nokaslr audit=0 tsc=reliable no_timer_check systemd.show_status=0"

# machine SERIAL…: ended with us, whatever ends us. It gives way to what else runs: the other suites watch the clock.
# The processor lacks what is slow to emulate: long page tables, and the promise that copying bytes by `rep` is fast.
machine() {
        # shellcheck disable=SC2086 # a list of words
        TMPDIR=$work exec setpriv --pdeathsig KILL timeout --foreground --signal KILL "$limit" \
                nice -n 5 setpriv --pdeathsig KILL qemu-system-x86_64 -M q35 -cpu max,la57=off,erms=off,fsrm=off -smp 2 -m 3072 \
                -accel tcg,thread=multi,tb-size=512 -nodefaults -no-user-config -display none -no-reboot \
                -kernel "$base/vmlinuz" -append "$arguments" $disks "$@"
}

if [ -n "$shell" ]; then
        limit=0
        (machine -serial mon:stdio -serial null)
        exit 0
fi

# The machine's output passes through; its last line says how the job ended.
mkfifo "$work/output"
began=$(date +%s)
machine -serial "file:$work/console" -serial stdio </dev/null >"$work/output" 2>"$work/qemu" &
qemu=$!
trap 'kill -KILL "$qemu" 2>/dev/null || :; rm -rf "$work"' EXIT

end='the job in the machine ended with code '
code=
while IFS= read -r line; do
        case $line in
        *"$end"*)
                printf '%s' "${line%%"$end"*}" # what had no line end of its own
                code=${line##* }
                break # whatever the job left running
                ;;
        'note: '*) [ -z "${SANDBOX_RUNNER_TEST_NOTES-}" ] || printf '%s\n' "${line#note: }" >>"$SANDBOX_RUNNER_TEST_NOTES" ;;
        *) printf '%s\n' "$line" ;;
        esac
done <"$work/output"
[ -z "$code" ] || kill -KILL "$qemu" 2>/dev/null || :
wait "$qemu" 2>/dev/null || :

if [ -z "$code" ]; then
        echo '--- the end of the machine'"'"'s console:'
        tail -n 40 "$work/console" | tr -d '\r'
        cat "$work/qemu"
        [ "$(($(date +%s) - began))" -lt "$limit" ] || die "the machine did not finish within $limit s"
        die 'the machine ended before its job did'
fi
exit "$code"
