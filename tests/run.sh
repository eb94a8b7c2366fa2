#!/bin/sh
# The test command: installs what the tests need, builds every preset, prepares the images once and runs every
# suite through ctest on the sanitizer build. Ends with ctest's closing lines and exits with its code.
#
#   sh tests/run.sh [--full] [ctest argument…]        (for instance: -R e2e-snippets, -L unit, -j 1)
#
# --full adds the suites that take long. Images are kept outside the checkout, in
# ${XDG_CACHE_HOME:-~/.cache}/sandbox-runner-tests, and built again when their recipes change.
set -eu

# What building needs, what preparing images needs, what the suites need. One word each: kind:name:package,
# where kind says how to see that it is there (a command, a pkg-config module, a file).
needs='
command:gcc:gcc command:clang:clang command:cmake:cmake command:ninja:ninja-build command:pkg-config:pkg-config
file:/usr/include/stdio.h:libc6-dev
module:libcap:libcap-dev module:libseccomp:libseccomp-dev module:libcjson:libcjson-dev
module:sqlite3:libsqlite3-dev module:libarchive:libarchive-dev module:libcrypto:libssl-dev module:libsystemd:libsystemd-dev
command:mmdebstrap:mmdebstrap command:newuidmap:uidmap
file:/usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring
file:/etc/ssl/certs/ca-certificates.crt:ca-certificates
module:cmocka:libcmocka-dev file:/usr/bin/python3:python3 file:/usr/lib/python3/dist-packages/pytest:python3-pytest
command:shellcheck:shellcheck command:mandoc:mandoc command:readelf:binutils command:setpriv:util-linux
command:useradd:passwd command:bwrap:bubblewrap command:node:nodejs command:npm:npm
command:qemu-system-x86_64:qemu-system-x86 command:mke2fs:e2fsprogs
file:/usr/sbin/dockerd:docker.io file:/usr/bin/docker:docker-cli
'
recipes='minimal python gcc'

cd "$(dirname "$0")/.."
top=$(pwd)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # useradd and friends, for a user whose PATH lacks them
export PATH

full=
if [ "${1:-}" = --full ]; then
        full=1
        shift
fi

say() {
        printf '== %s\n' "$*"
}

die() {
        printf 'tests/run.sh: %s\n' "$*" >&2
        exit 2
}

# The packages of what is not there, one a word.
missing_packages() {
        for need in $needs; do
                kind=${need%%:*}
                rest=${need#*:}
                name=${rest%:*}
                case $kind in
                command) command -v "$name" >/dev/null 2>&1 ;;
                module) command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "$name" ;;
                file) [ -e "$name" ] ;;
                esac || printf '%s ' "${rest##*:}"
        done
}

install_missing() {
        packages=$(missing_packages)
        [ -n "$packages" ] || return 0
        say "installing: $packages"
        as_root=
        if [ "$(id -u)" -ne 0 ]; then
                command -v sudo >/dev/null 2>&1 ||
                        die "these packages are missing and there is no sudo; as root: apt-get install $packages"
                as_root='sudo'
        fi
        $as_root apt-get update -q || true # an index from before may do
        # Debian 12 has the client in docker.io.
        if ! apt-cache show docker-cli >/dev/null 2>&1; then
                packages=$(printf '%s' "$packages" | sed 's/docker-cli/docker.io/')
        fi
        # The tests start a dockerd of their own. The package's would change the firewall: it is not started, now
        # or with the machine.
        policy=/usr/sbin/policy-rc.d
        failed=
        case " $packages" in
        *' docker.io '*) [ ! -e "$policy" ] || policy= ;;
        *) policy= ;;
        esac
        [ -z "$policy" ] || printf '#!/bin/sh\nexit 101\n' | $as_root install -m 755 /dev/stdin "$policy"
        # shellcheck disable=SC2086 # a list of words
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $packages || failed=1
        if [ -n "$policy" ]; then
                $as_root rm -f "$policy"
                $as_root systemctl disable docker.service docker.socket containerd.service >/dev/null 2>&1 || true
        fi
        [ -z "$failed" ] || die 'apt-get could not install them'
        packages=$(missing_packages)
        [ -z "$packages" ] || die "still missing after the installation: $packages"
}

# build PRESET [TARGET…]: quiet unless it fails.
build() {
        preset=$1
        shift
        say "building: $preset"
        cmake --preset "$preset" >"$notes/cmake.$preset" 2>&1 || {
                cat "$notes/cmake.$preset"
                die "configuring preset $preset failed"
        }
        cmake --build --preset "$preset" ${1:+--target "$@"} >"$notes/build.$preset" 2>&1 || {
                cat "$notes/build.$preset"
                die "building preset $preset failed"
        }
}

# What an image depends on, as one digest: its recipe, what all recipes share, and the layout of the store.
recipe_key() {
        {
                find rootfs -type f ! -path 'rootfs/*/*' -print
                find "rootfs/$1" rootfs/common src/image/store.h -type f -print 2>/dev/null
        } | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d ' ' -f 1
}

prepare_image() {
        key=$(recipe_key "$1")
        stamp=$cache/$1.key
        if [ "$(cat "$stamp" 2>/dev/null)" = "$key" ]; then
                echo "image $1: ready"
                return 0
        fi
        echo "image $1: building"
        rm -f "$stamp"
        # Settings of the person who runs the tests must not reach the program.
        XDG_CONFIG_HOME=$notes SANDBOX_RUNNER_IMAGES_STORE=$store build/sandbox-runner image build "$1" </dev/null ||
                return 1
        printf '%s\n' "$key" >"$stamp"
        echo "image $1: built"
}

prepare_images() {
        (
                flock 9
                for recipe in $recipes; do
                        prepare_image "$recipe" || exit 1
                done
        ) 9>"$cache/lock"
}

# Passes ctest's output on; just before its closing lines, says what did not run and why.
with_notes() {
        while IFS= read -r line; do
                case $line in
                *'% tests passed'*)
                        touch "$notes/notes"
                        count=$(sort -u "$notes/notes" | grep -c '^skipped' || true)
                        printf '\nSkipped tests: %s\n' "$count"
                        sort -u "$notes/notes"
                        echo
                        ;;
                esac
                printf '%s\n' "$line"
        done
}

install_missing

notes=$(mktemp -d)
images=
# An image that is being made when something else fails is finished first, or the next run would make it again.
trap '[ -z "$images" ] || wait "$images" || :; rm -rf "$notes"' EXIT
trap 'images=; exit 130' INT TERM
HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d : -f 6)}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-runner-tests
store=$cache/store
mkdir -p "$cache"

# The programs first: they prepare the images while the other presets are built.
build default sandbox-runner sandbox-runner-spawner sandbox-runner-image escape escape-driver
prepare_images >"$notes/images" 2>&1 &
images=$!
build asan
build clang
say 'preparing images'
wait "$images" || {
        images=
        cat "$notes/images"
        die 'an image could not be prepared'
}
images=
cat "$notes/images"

say 'running the suites'
SANDBOX_RUNNER_TEST_STORE=$store
SANDBOX_RUNNER_TEST_CACHE=$cache
SANDBOX_RUNNER_TEST_NOTES=$notes/notes
export SANDBOX_RUNNER_TEST_STORE SANDBOX_RUNNER_TEST_CACHE SANDBOX_RUNNER_TEST_NOTES
[ -n "$full" ] || set -- -LE full "$@"
{
        status=0
        ctest --test-dir "$top/build-asan" --output-on-failure --no-tests=error -j "$(nproc)" "$@" 2>&1 || status=$?
        echo "$status" >"$notes/status"
} | with_notes
exit "$(cat "$notes/status")"
