#!/bin/sh
# The end-to-end tests in each of the named situations, three at a time; fails when one of them fails.
#
#   suite.sh MARK SITUATION…     MARK: pytest's expression for what to run, "vm" or, for everything, "vm or not vm"
#
# HOST_HELLO_MS is what hello.py says on the host; how much more it says here tells the tests how long to wait.
set -u

# in_situation SITUATION: the tests in that one, with FILES and MARK. What did not run here is counted with what did
# not run on the host: the lines that begin with "note:" are passed on.
in_situation() {
        as=$1
        identity=self
        limits=cgroup2
        case $1 in
        root) identity=root ;;
        lone) limits=watchdog ;;
        # Here each process of the program is a service, and not the suite.
        service | service-user) as=root identity=$1 ;;
        esac
        export SANDBOX_RUNNER_TEST_IDENTITIES="$identity" SANDBOX_RUNNER_TEST_LIMITS="$limits"
        export SANDBOX_RUNNER_TEST_NOTES="$PLACE/notes/$1"
        printf '\n== in the situation %s\n' "$1"
        # shellcheck disable=SC2086 # a list of words
        sh ../vm/guest/as.sh "$as" /usr/bin/python3 -m pytest -m "$MARK" --durations=5 $FILES &&
                touch "$PLACE/passed/$1"
        [ ! -e "$PLACE/notes/$1" ] || sed -n "s/^skipped: /note: skipped: vm $1: /p" "$PLACE/notes/$1"
}

if [ "$1" = --one ]; then
        in_situation "$2" >"$PLACE/$2" 2>&1
        cat "$PLACE/$2" # at once, so that two do not mix
        exit
fi

MARK=$1
shift
cd /srv/checkout/tests/e2e || exit 2
FILES=.
[ "$MARK" != vm ] || FILES=$(grep -l 'pytest\.mark\.vm' test_*.py) # collecting all of them takes its time here
here=$(/usr/bin/python3 ../vm/guest/hello.py)
factor=$((here * 3 / (HOST_HELLO_MS * 2) + 1)) # half as much again: how busy the host is changes
echo "a Python hello takes $here ms here and $HOST_HELLO_MS ms on the host: the tests wait $factor times as long"
PLACE=$(mktemp -d)
mkdir "$PLACE/notes" "$PLACE/passed"
chmod 755 "$PLACE"
chmod 1777 /var/tmp "$PLACE/notes"
export MARK FILES PLACE TMPDIR=/var/tmp
export SANDBOX_RUNNER_TEST_TIME_FACTOR="$factor" SANDBOX_RUNNER_TEST_SHARED=1 SANDBOX_RUNNER_TEST_USER=tester
if [ $# -eq 1 ]; then
        in_situation "$1" # to be seen as it comes
else
        # More at once than there are processors: much of a test is waiting, for what is held to half a processor too.
        printf '%s\n' "$@" | xargs -P 3 -I '{}' sh "$0" --one '{}'
fi
failed=
for situation in "$@"; do
        [ -e "$PLACE/passed/$situation" ] || failed="$failed $situation"
done
[ -z "$failed" ] || {
        echo "failed in:$failed"
        exit 1
}
