#!/bin/sh
# The end-to-end tests in each of the named situations; fails when one of them fails.
#
#   suite.sh MARK SITUATION…     MARK: pytest's expression for what to run, "vm" or, for everything, "vm or not vm"
#
# HOST_HELLO_MS is what hello.py says on the host; how much more it says here tells the tests how long to wait.
set -u
mark=$1
shift
cd /srv/checkout/tests/e2e || exit 2
files=.
[ "$mark" != vm ] || files=$(grep -l 'pytest\.mark\.vm' test_*.py) # collecting all of them takes its time here

here=$(/usr/bin/python3 ../vm/guest/hello.py)
factor=$((here / HOST_HELLO_MS + 1))
echo "a hello takes $here ms here and $HOST_HELLO_MS ms on the host: waiting $factor times as long"
export SANDBOX_RUNNER_TEST_TIME_FACTOR="$factor" SANDBOX_RUNNER_TEST_SHARED=1 TMPDIR=/var/tmp
chmod 1777 /var/tmp

failed=
for situation in "$@"; do
        echo "== in the situation $situation"
        case $situation in
        # Here each process of the program is a service, not the suite.
        service | service-user) as=root ;;
        *) as=$situation ;;
        esac
        case $situation in
        root | service*) identity=$situation ;;
        *) identity=self ;;
        esac
        case $situation in
        lone) limits=watchdog ;;
        *) limits=cgroup2 ;;
        esac
        # shellcheck disable=SC2086 # a list of words
        SANDBOX_RUNNER_TEST_IDENTITIES=$identity SANDBOX_RUNNER_TEST_LIMITS=$limits SANDBOX_RUNNER_TEST_USER=tester \
                sh ../vm/guest/as.sh "$as" /usr/bin/python3 -m pytest -m "$mark" --durations=5 $files || failed="$failed $situation"
done
[ -z "$failed" ] || {
        echo "failed in:$failed"
        exit 1
}
