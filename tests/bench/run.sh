#!/bin/sh
# The benchmark: bare exec in a chroot, this program (one command, and through a resident server) and bubblewrap,
# side by side in one run, as root and as an ordinary user.
#
#   sh tests/bench/run.sh [--smoke] [--passes N] [--only trivial,python,cpp]
#
# Needs the optimised build and the prepared images: sh tests/run.sh makes both.
set -eu
cd "$(dirname "$0")"

SANDBOX_RUNNER=${SANDBOX_RUNNER:-$(cd ../.. && pwd)/build/sandbox-runner}
export SANDBOX_RUNNER PYTHONDONTWRITEBYTECODE=1
[ -x "$SANDBOX_RUNNER" ] || {
        echo "tests/bench/run.sh: no program at $SANDBOX_RUNNER; build the preset default first" >&2
        exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# shellcheck disable=SC2046 # flags, one a word
"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror measure.c -o "$work/measure" \
        $(pkg-config --cflags --libs libseccomp)
"${CC:-cc}" -O2 -static trivial.c -o "$work/trivial"
/usr/bin/python3 bench.py --measure "$work/measure" "$@"
