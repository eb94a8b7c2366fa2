# shellcheck shell=sh
# What the recipes share. A recipe is `rootfs/<name>/build OUTPUT_DIR`: it sources this file and calls
#
#   recipe_begin "$@"              arguments, tools, a private directory in $work
#   recipe_bootstrap SUITE "PACKAGE…" HOOK
#   recipe_image …                 what the image is called
#   recipe_finish                  leaves OUTPUT_DIR/rootfs.tar and OUTPUT_DIR/image.json
#
# Theory of operation: mmdebstrap resolves, verifies and downloads the packages and unpacks them with
# --variant=extract. No maintainer script runs, so no shell, dpkg or apt needs to be in the tree, nothing is
# mounted, and the same steps work for root (also in a container that may not mount) and, inside a user
# namespace, for an ordinary user. What maintainer scripts would have done and a snippet can see, tree.sh does.
#
# Hooks are handed over as text in variables, not as paths: an ordinary user's checkout need not be readable to
# the ids of the user namespace.

recipe_say() {
        printf '%s: %s\n' "$recipe" "$*" >&2
}

recipe_fail() {
        recipe_say "$*"
        exit 1
}

recipe_begin() {
        recipe_directory=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
        recipe=$(basename -- "$recipe_directory")
        if [ $# -ne 1 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
                echo "usage: rootfs/$recipe/build OUTPUT_DIR" >&2
                echo "Leaves rootfs.tar and image.json in OUTPUT_DIR." >&2
                [ "${1-}" = --help ] || [ "${1-}" = -h ] || exit 2
                exit 0
        fi
        # What would change how the tools below behave, or end up in the tree.
        unset LD_PRELOAD LD_LIBRARY_PATH PYTHONHOME PYTHONPATH PYTHONSTARTUP TAR_OPTIONS XZ_OPT GREP_OPTIONS
        export LC_ALL=C
        PATH=$PATH:/usr/sbin:/sbin
        export PATH
        umask 022
        recipe_choose_mode
        mkdir -p -- "$1" 2>/dev/null || recipe_fail "$1 cannot be made; choose a directory you may write to."
        output=$(CDPATH='' cd -- "$1" && pwd) || recipe_fail "$1 is no directory."
        work=$(mktemp -d "$output/work.XXXXXX") || recipe_fail "$output cannot be written to."
        # Without this, the traps below would run the exit trap twice in some shells.
        trap 'rm -rf -- "$work"' EXIT
        trap 'exit 129' HUP
        trap 'exit 130' INT
        trap 'exit 143' TERM
}

# root: plain. Otherwise a user namespace with a range of ids from /etc/subuid, which needs newuidmap.
recipe_choose_mode() {
        command -v mmdebstrap >/dev/null ||
                recipe_fail "mmdebstrap is not installed. On Debian: apt-get install mmdebstrap"
        for keyring in /usr/share/keyrings/debian-archive-keyring.pgp /usr/share/keyrings/debian-archive-keyring.gpg ''; do
                [ ! -e "$keyring" ] || break
        done
        [ -n "$keyring" ] || recipe_fail "the keys of the Debian archive are not installed." \
                "On Debian: apt-get install debian-archive-keyring"
        if [ "$(id -u)" -eq 0 ]; then
                mode=root
                return
        fi
        mode=unshare
        user=$(id -un)
        command -v newuidmap >/dev/null ||
                recipe_fail "newuidmap is not installed; an ordinary user needs it to build images." \
                        "On Debian: apt-get install uidmap (or build the image as root)."
        for file in /etc/subuid /etc/subgid; do
                # mmdebstrap wants a range of at least 65536.
                awk -F: -v user="$user" -v id="$(id -u)" '($1 == user || $1 == id) && $3 >= 65536 { ok = 1 }
                        END { exit !ok }' "$file" 2>/dev/null ||
                        recipe_fail "$file gives no range of 65536 ids to $user. As root:" \
                                "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $user" \
                                "(choose other numbers when another line has these)."
        done
        unshare --user true 2>/dev/null ||
                recipe_fail "this host does not let $user make user namespaces (look at the sysctls" \
                        "kernel.unprivileged_userns_clone, user.max_user_namespaces and" \
                        "kernel.apparmor_restrict_unprivileged_userns), so only root can build images here."
}

# The code name of the build host's Debian, empty on other systems.
recipe_host_suite() {
        [ -r /etc/os-release ] || return 0
        # shellcheck disable=SC1091 # read in a shell of its own
        (. /etc/os-release && [ "${ID-}" = debian ] && echo "${VERSION_CODENAME-}") || true
}

# Prints the sources.list lines for a suite ($1). The archive is the one that the host's own apt uses: known by
# the origin in its package lists or, when apt has none, as the only one with the host's suite, or with its updates.
# On other hosts it is mmdebstrap's default, for which nothing is printed.
recipe_sources() {
        main=${SANDBOX_RUNNER_DEBIAN_MIRROR-}
        security=
        if [ -z "$main" ] && command -v apt-get >/dev/null; then
                host=$(recipe_host_suite)
                # shellcheck disable=SC2016 # apt's own variables
                apt-get indextargets --format '$(ORIGIN) $(LABEL) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' \
                        >"$work/targets" 2>/dev/null || :
                main=$(awk '$1 == "Debian" && $2 == "Debian" { print $4; exit }' "$work/targets")
                security=$(awk '$1 == "Debian" && $2 == "Debian-Security" { print $4; exit }' "$work/targets")
                if [ -z "$main" ] && [ -n "$host" ]; then
                        apt-get --print-uris update 2>/dev/null |
                                sed -n "s|^'\(.*/\)dists/\([^']*\)/InRelease'.*|\2 \1|p" >"$work/releases" || :
                        main=$(awk -v s="$host" '$1 == s && !($2 in seen) { seen[$2]; only = $2; count++ }
                                $1 == s "-updates" && $2 in seen { found = $2 }
                                END { if (found || count == 1) print found ? found : only }' "$work/releases")
                        security=$(awk -v s="$host-security" '$1 == s { print $2; exit }' "$work/releases")
                fi
        fi
        [ -n "$main" ] || return 0
        printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$main" "$1"
        [ -z "$security" ] || printf 'deb [signed-by=%s] %s %s-security main\n' "$keyring" "$security" "$1"
}

# How the host's apt reaches its archive: proxies and the like, from its own configuration.
recipe_apt_options() {
        command -v apt-config >/dev/null || return 0
        apt-config dump --format '%f "%v";%n' 2>/dev/null |
                grep -E '^Acquire::(http|https|ftp|Retries|ForceIPv[46]|Queue-Mode)(::| )' | grep -v ' "";$' || :
}

# recipe_bootstrap SUITE "PACKAGE…" HOOK [TAR]: makes $work/rootfs.tar. TAR is unpacked to /usr/local. Then HOOK
# runs, shell text that has the path of the tree in $1. It writes the version of what the image is for to
# /version, which ends up in $version.
# shellcheck disable=SC2016 # hooks run by mmdebstrap
recipe_bootstrap() {
        suite=$1
        packages=$(echo "$2" | tr -s ' \n\t' ',' | sed 's/^,//; s/,$//')
        recipe_hook=$3
        recipe_tree=$(cat "$recipe_directory/../tree.sh")
        recipe_start=$(date +%s)
        export recipe_hook recipe_tree recipe_start
        archive=${4-}
        sources=$(recipe_sources "$suite")
        recipe_apt_options >"$work/apt.conf"
        # Nothing is mounted, cleaned or turned off: nothing of the tree is started, and tree.sh cleans.
        skip=check/canmount,chroot/mount,chroot/policy-rc.d,chroot/start-stop-daemon,cleanup,output/dev
        [ -z "$sources" ] || skip=$skip,check/signed-by
        set --
        [ -z "$archive" ] ||
                set -- '--extract-hook=mkdir -p "$1/usr/local"' "--extract-hook=tar-in \"$archive\" /usr/local"
        recipe_say "getting Debian packages ($suite, $mode)"
        # A user's TMPDIR may be closed to the ids of the namespace; mmdebstrap then takes /tmp.
        [ "$mode" = root ] || unset TMPDIR
        set -- --mode="$mode" --format=tar --variant=extract --skip="$skip" --include="$packages" \
                --aptopt='Acquire::Languages "none"' --aptopt="$work/apt.conf" --setup-hook="$recipe_merge_usr" \
                "$@" --extract-hook='eval "$recipe_hook"' \
                --extract-hook="download /version \"$work/version\"" --extract-hook='eval "$recipe_tree"' \
                "$suite" "$work/rootfs.tar"
        # With - the sources come on standard input.
        [ -z "$sources" ] || set -- "$@" -
        printf '%s\n' "$sources" | mmdebstrap "$@" >"$work/log" 2>&1 || {
                tail -n 20 "$work/log" >&2
                recipe_fail "mmdebstrap failed (its last lines are above)." \
                        "Most often the Debian archive cannot be reached: check the network, or name a mirror" \
                        "in SANDBOX_RUNNER_DEBIAN_MIRROR."
        }
        version=$(cat "$work/version")
        [ -n "$version" ] || recipe_fail "the version of what was installed is unknown."
        # mmdebstrap leaves ./dev out when it is told to make no devices; sandboxes mount theirs there.
        mkdir -p "$work/dev"
        tar --append --file="$work/rootfs.tar" --owner=0 --group=0 --numeric-owner --mtime=@0 \
                -C "$work" ./dev || recipe_fail "the archive could not be completed."
        recipe_say "root file system made in $(($(date +%s) - recipe_start)) s"
}

# Packages unpack into a merged /usr.
# shellcheck disable=SC2016 # run by mmdebstrap
recipe_merge_usr='
        mkdir -p "$1/usr/bin" "$1/usr/sbin" "$1/usr/lib" "$1/usr/lib64"
        for name in bin sbin lib lib64; do ln -s "usr/$name" "$1/$name"; done
        rm -f "$1/etc/resolv.conf" "$1/etc/hostname"'

# recipe_image "REFERENCE…" TITLE VERSION DESCRIPTION: writes $work/image.json. The texts hold no quotes.
recipe_image() {
        {
                printf '{\n  "references": ['
                separator=
                for reference in $1; do
                        printf '%s"%s"' "$separator" "$reference"
                        separator=', '
                done
                printf '],\n  "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin"},\n'
                printf '  "labels": {\n    "org.opencontainers.image.title": "%s",\n' "$2"
                printf '    "org.opencontainers.image.version": "%s",\n' "$3"
                printf '    "org.opencontainers.image.description": "%s"\n  }\n}\n' "$4"
        } >"$work/image.json"
}

# Publishes both files; image.json last, so that it never stands beside an older root file system.
recipe_finish() {
        rm -f "$output/image.json"
        mv -f "$work/rootfs.tar" "$output/rootfs.tar"
        mv -f "$work/image.json" "$output/image.json"
        recipe_say "$(sed -n 's/.*image.description": "\(.*\)"/\1/p' "$output/image.json"):" \
                "$(($(wc -c <"$output/rootfs.tar") / 1000000)) MB"
}
