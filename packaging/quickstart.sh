#!/bin/sh
# From a fresh checkout to two snippets run in sandboxes. See usage() below.
#
# Idempotent: each step looks at what is there first. Writes to build/ of the checkout and to the user's data
# folder (images, history); on the system it changes nothing but apt packages.
set -eu

usage() {
        cat <<'TEXT'
usage: sh packaging/quickstart.sh

On Debian 12 or 13, as root or as a user with sudo:
  1. installs the packages that are missing, with apt
  2. builds the program: build/sandbox-runner
  3. prepares an image for Python and one for C++: from a registry where one answers within a few seconds,
     else from Debian packages with the recipes under rootfs/
  4. runs one Python and one C++ snippet through an MCP session on stdio and shows what came back
Takes a few minutes the first time and a few seconds when run again.
TEXT
}

# What is needed to build, and to make images.
build_packages="cmake ninja-build gcc libc6-dev pkg-config libcap-dev libseccomp-dev libcjson-dev libsqlite3-dev
        libarchive-dev libssl-dev libsystemd-dev"
image_packages="mmdebstrap debian-archive-keyring ca-certificates"
# Seconds that a registry has to answer, and to deliver an image, before the recipe is used instead.
registry_answer=5
registry_delivery=60

cd "$(dirname -- "$0")/.."
top=$(pwd)
program=$top/build/sandbox-runner
log=$top/build/quickstart.log
began=$(date +%s)
scratch=
child=
number=0

say() { printf '%s\n' "$*"; }

fail() {
        printf '\nquickstart: %s\n' "$*" >&2
        exit 1
}

cleanup() {
        [ -z "$child" ] || kill "$child" 2>/dev/null || :
        [ -z "$scratch" ] || rm -rf -- "$scratch"
}

# step TITLE: begins a numbered step.
step() {
        number=$((number + 1))
        printf '\n[%s/4] %s\n' "$number" "$1"
}

# Redraws one line with the task's title, its seconds and the last line of its output, until it is killed.
progress() {
        size=$(stty size 2>/dev/null </dev/tty) || size='24 80'
        width=$((${size#* } - 1))
        [ "$width" -ge 40 ] || width=79 # some terminals do not know their size
        while :; do
                line=$(tail -c 400 "$log" | tr '\r' '\n' | tail -n 1 | LC_ALL=C tr -cd '[:print:]')
                printf '\r\033[K%s' "$(printf '      %s: %d s  %s' "$1" "$(($(date +%s) - task_began))" "$line" |
                        cut -c "1-$width")"
                sleep 0.3
        done
}

# task TITLE COMMAND…: runs the command with its output in $log, shows that something happens, and how long it
# took. Returns what the command returned.
task() {
        title=$1
        shift
        task_began=$(date +%s)
        : >"$log"
        if [ -t 1 ]; then
                progress "$title" &
                child=$!
        else
                say "      $title…"
        fi
        status=0
        "$@" >"$log" 2>&1 </dev/null || status=$?
        if [ -n "$child" ]; then
                kill "$child" 2>/dev/null || :
                wait "$child" 2>/dev/null || :
                child=
                printf '\r\033[K'
        fi
        took=$(($(date +%s) - task_began))
        if [ "$status" -eq 0 ]; then
                say "      $title: done in $took s"
        else
                say "      $title: failed after $took s"
        fi
        return "$status"
}

# The end of the log, for a person who has to find out why.
show_log() {
        {
                say "      --- the last lines of $log"
                tail -n "${1:-25}" "$log" | sed 's/^/      | /'
        } >&2
}

# --- 1: packages

# Those of the arguments that dpkg does not know as installed.
missing_of() {
        for package in "$@"; do
                dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
                        printf '%s ' "$package"
        done
}

images_missing() {
        ! has_image python:3.12-slim sandbox-runner/python:3.12 sandbox-runner/python:3 ||
                ! has_image gcc:14 sandbox-runner/gcc:14
}

# has_image REFERENCE…: whether one of them is in the store.
has_image() {
        [ -x "$program" ] || return 1
        "$program" image list --json >"$scratch/images" 2>/dev/null || return 1
        for reference in "$@"; do
                grep -q "\"reference\": *\"$reference\"" "$scratch/images" && return 0
        done
        return 1
}

install_packages() {
        if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
                fail "this is written for Debian 12 and 13 and there is no apt here. README.md says what to install" \
                        "and how to build on other systems."
        fi
        # shellcheck disable=SC2086 # lists of words
        set -- $build_packages
        optional=
        if images_missing; then
                # shellcheck disable=SC2086
                set -- "$@" $image_packages
                [ "$(id -u)" -eq 0 ] || set -- "$@" uidmap
                # Only a help: a registry cannot be asked without it, but the recipes can do the work.
                command -v skopeo >/dev/null || optional=skopeo
        fi
        missing=$(missing_of "$@")
        if [ -z "$missing$optional" ]; then
                say "      nothing is missing"
                return
        fi
        say "      missing: $missing$optional"
        as_root=
        if [ "$(id -u)" -ne 0 ]; then
                if ! command -v sudo >/dev/null; then
                        [ -z "$missing" ] || fail "there is no sudo. As root: apt-get install $missing"
                        return
                fi
                say "      sudo is used for apt-get alone"
                sudo -v || fail "sudo did not let $(id -un) in. As root: apt-get install $missing"
                as_root=sudo
        fi
        # A repository that cannot be reached need not be one that is needed.
        task "reading package lists" $as_root apt-get update || say "      going on with the lists that are there"
        [ -z "$optional" ] || apt-cache show "$optional" >/dev/null 2>&1 || optional=
        [ -n "$missing$optional" ] || return 0
        # shellcheck disable=SC2086
        task "installing" $as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y --no-install-recommends $missing $optional || {
                show_log
                fail "apt-get could not install the packages. Try it by hand: apt-get install $missing"
        }
}

# --- 2: the program

build_program() {
        # A tree that is configured already keeps its choice about tests, which need more packages.
        tests=-DSR_TESTS=OFF
        [ ! -e build/CMakeCache.txt ] || tests=
        cmake --preset default $tests &&
                cmake --build --preset default --target sandbox-runner sandbox-runner-spawner sandbox-runner-image
}

# --- 3: images

# prepare LANGUAGE IMAGE RECIPE FALLBACK…
prepare() {
        language=$1
        image=$2
        recipe=$3
        shift 3
        if has_image "$image" "$@"; then
                say "      $language: there already ($reference)"
                return
        fi
        if registry_answers; then
                if task "$language: $image from the registry" from_registry "$image"; then
                        return
                fi
                # What failed once would most likely cost as long again for the next image.
                registry=no
                say "      the registry did not deliver; making images from Debian packages instead"
        fi
        task "$language: image from Debian packages" "$program" image build "$recipe" || {
                show_log 12
                fail "the image for $language could not be made; the reason is above. When it is settled," \
                        "run this again: it goes on from here."
        }
}

# Asks once. An ordinary request for a small document tells whether images can be had.
registry_answers() {
        if [ -z "${registry-}" ]; then
                registry=no
                if ! command -v skopeo >/dev/null; then
                        say "      no skopeo: images are made from Debian packages"
                elif timeout "$registry_answer" skopeo inspect --raw docker://python:3.12-slim >/dev/null 2>&1; then
                        registry=yes
                else
                        say "      no registry answers within $registry_answer s: images are made from Debian packages"
                fi
        fi
        [ "$registry" = yes ]
}

from_registry() {
        result=0
        rm -rf -- "$scratch/oci"
        timeout "$registry_delivery" skopeo copy "docker://$1" "oci:$scratch/oci:image" &&
                "$program" image import "$scratch/oci" --name "$1" || result=$?
        rm -rf -- "$scratch/oci"
        return $result
}

# --- 4: two snippets

# The lines of an MCP session; the server answers what it received and exits at the end of its input.
session() {
        cat <<'LINES'
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"quickstart","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"python","code":"import os, platform, socket\nprint(f'Hello from Python {platform.python_version()}, process {os.getpid()} of its own namespace')\nprint('sum of squares below 1000:', sum(n * n for n in range(1000)))\ntry:\n    socket.create_connection(('192.0.2.1', 80), timeout=3)\n    print('the network can be reached')\nexcept OSError as error:\n    print('network:', error.strerror)\ntry:\n    open('/var/tmp/file', 'w')\n    print('the root file system can be written')\nexcept OSError as error:\n    print('root file system:', error.strerror)\n"}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"cpp","code":"#include <algorithm>\n#include <iostream>\n#include <numeric>\n#include <vector>\n\nint main()\n{\n        std::vector<int> numbers(20);\n        std::iota(numbers.begin(), numbers.end(), 1);\n        std::rotate(numbers.begin(), numbers.begin() + 7, numbers.end());\n        std::cout << \"Hello from C++\" << __cplusplus / 100 % 100 << \", GCC \" << __VERSION__ << '\\n';\n        for (int number : numbers)\n                std::cout << number << ' ';\n        std::cout << '\\n';\n}\n"}}}
LINES
}

# unescape: a JSON string's inside (as sed finds it) to text.
unescape() {
        sed 's/\\\\/\x01/g; s/\\n/\n/g; s/\\t/\t/g; s/\\"/"/g; s/\x01/\\/g'
}

# member NAME: the value of a member of the object in $scratch/object, which has one member a line.
member() {
        sed -n "s/^  \"$1\": \(.*[^,]\),\{0,1\}\$/\1/p" "$scratch/object" | sed 's/^"\(.*\)"$/\1/; s/^"$//' | unescape
}

# show ID TITLE: the answer to request ID.
show() {
        grep "\"id\": *$1[,}]" "$scratch/answers" >"$scratch/answer" || {
                sed 's/^/      | /' "$scratch/errors" >&2
                fail "the server gave no answer for the $2 snippet; what it logged is above." \
                        "\`$program doctor\` looks for the cause."
        }
        # The text block of the result holds the object; its inside is a JSON string.
        sed -n 's/.*"text": *"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$scratch/answer" | unescape >"$scratch/object"
        status=$(member status)
        say ""
        say "      $2 in image $(member image): ${status:-no result}, exit code $(member exit_code), $(member duration_ms) ms"
        member stdout | sed '/^$/d; s/^/      | /'
        if [ "$status" != success ]; then
                if [ -s "$scratch/object" ]; then
                        member stderr
                else
                        cat "$scratch/answer"
                fi | sed 's/^/      ! /' >&2
                fail "the $2 snippet did not succeed. \`$program doctor\` looks for the cause."
        fi
}

# --- all of it

case ${1-} in
'') ;;
-h | --help)
        usage
        exit 0
        ;;
*)
        usage >&2
        exit 2
        ;;
esac
[ -e CMakePresets.json ] || fail "$top is no checkout of SandboxRunner."
# shellcheck disable=SC2015 # nothing runs when all three hold
mkdir -p build && [ -w build ] && { [ ! -e "$log" ] || [ -w "$log" ]; } ||
        fail "$top/build cannot be written to. Was it made by root or another user?"
scratch=$(mktemp -d)
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

step "packages"
install_packages

step "the program"
task "compiling" build_program || {
        show_log 40
        fail "the program did not build; the whole output is in $log"
}

step "images"
[ -z "${SUDO_USER-}" ] || [ "$(id -u)" -ne 0 ] ||
        say "      run by sudo: program and images will be root's; without sudo they would be $SUDO_USER's"
prepare Python python:3.12-slim python sandbox-runner/python:3.12 sandbox-runner/python:3
prepare C++ gcc:14 gcc sandbox-runner/gcc:14

step "two snippets through MCP on stdio"
session | timeout 120 "$program" >"$scratch/answers" 2>"$scratch/errors" || {
        sed 's/^/      | /' "$scratch/errors" >&2
        fail "the server ended with an error; what it logged is above. \`$program doctor\` looks for the cause."
}
show 2 Python
show 3 C++

cat <<TEXT

Ready after $(($(date +%s) - began)) s.

Try it:
  $program run -l python -c 'print(6 * 7)'
  $program doctor         what this host offers and what is missing
  $program --help

Use it from an MCP client; Claude Desktop and Cursor take it so (README.md has Claude Code, VS Code and others):
  {
    "mcpServers": {
      "sandbox-runner": { "command": "$program" }
    }
  }

README.md tells the rest.
TEXT
