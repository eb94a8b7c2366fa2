#!/bin/sh
# Every manual page passes mandoc's lint without a warning.
set -eu
cd "$(dirname "$0")/.."

set -- man/*.[1-8]
[ -e "$1" ] || {
        echo 'no manual pages under man/' >&2
        exit 1
}
mandoc -T lint -W warning "$@"
echo "$# manual pages are clean"
