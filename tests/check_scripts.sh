#!/bin/sh
# Every shell script of the project passes shellcheck. A script is what ends in .sh or opens with a shell's #!.
set -eu
cd "$(dirname "$0")/.."

list=$(mktemp)
trap 'rm -f "$list"' EXIT
find .ci packaging rootfs tests -type f ! -path '*/node_modules/*' | LC_ALL=C sort | while IFS= read -r file; do
        case $file in
        *.sh) printf '%s\n' "$file" ;;
        *) head -n 1 "$file" | LC_ALL=C grep -aqE '^#! ?/(usr/)?bin/(env )?(sh|bash|dash)( |$)' && printf '%s\n' "$file" ;;
        esac || true
done >"$list"
[ -s "$list" ] || {
        echo 'no scripts found: has the tree moved?' >&2
        exit 1
}
xargs shellcheck <"$list"
echo "$(wc -l <"$list") scripts are clean"
