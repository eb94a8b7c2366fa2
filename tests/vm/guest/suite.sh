#!/bin/sh
# The vm-marked end-to-end tests in each of the named situations; fails when one of them fails.
#
#   suite.sh MARK SITUATION…     MARK: pytest's expression for what to run, "vm" or, for everything, "vm or not vm"
set -u
mark=$1
shift
cd /srv/checkout/tests/e2e || exit 2
failed=
for situation in "$@"; do
        echo "== in the situation $situation"
        sh ../vm/guest/as.sh "$situation" /usr/bin/python3 -m pytest -m "$mark" . || failed="$failed $situation"
done
[ -z "$failed" ] || {
        echo "failed in:$failed"
        exit 1
}
