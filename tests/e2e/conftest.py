"""Fixtures of the end-to-end suites; support.py holds the classes behind them.

  program      path of the program under test (SANDBOX_RUNNER, else build-asan/, else build/)
  store        the prepared image store (made by tests/run.sh), used read-only as images.lower_store
  env          environment of a fresh, private HOME with all XDG directories, for the suite's own user
  runner       a Runner of the suite's own user, private directories per test
  identity     parametrised: "root" and "user", or "self" when an ordinary user started the suite, or what
               SANDBOX_RUNNER_TEST_IDENTITIES says (identity.py)
  as_each      a Runner for `identity`: the test runs once for each
  as_user      a Runner for the ordinary user (the suite's own when that is one)
  server       an Mcp session per module and identity, for tests that only need some server

The ordinary user gets copies of the program, languages and recipes, because the checkout may lie where only
root can enter. Nothing is skipped silently: a skip is a failure unless EXPECTED_SKIPS gives its reason, and
both those and what an unprivileged suite cannot do are counted in the closing line of tests/run.sh.
"""

import fnmatch
import os
import shutil

import pytest

import support
from identity import labels

# Test id pattern → reason. An entry here is the only way for a test to be skipped.
EXPECTED_SKIPS = {
    "*test_hostile_init.py::*": "not run: a hostile init (an ordinary user started the suite, and only root reaches into init)",
    "*test_limits.py::test_memory_that_runs_out_above_*": "not run: no memory left above a sandbox's cgroup (only where cgroups hold memory)",
    "*test_ps.py::test_others_are_not_answered*": "not run: asking as another user (an ordinary user started the suite)",
    "*test_escape.py::test_every_attempt_of_a_user_without_*": "only root can become a user without subordinate ids",
    "*test_escape.py::test_docker_*": "only root can start dockerd",
    "*test_escape.py::test_the_manual_says_so": "only root can start dockerd; and the manual describes one version",
}

_notes = set()


@pytest.fixture(scope="session")
def program():
    try:
        return support.find_program()
    except FileNotFoundError as problem:
        pytest.exit(str(problem), 2)


@pytest.fixture(scope="session")
def store():
    try:
        return support.find_store()
    except FileNotFoundError as problem:
        pytest.exit(str(problem), 2)


@pytest.fixture(scope="session")
def base():
    """A directory everybody can enter, for copies and private homes."""
    path = support.make_base()
    yield path
    shutil.rmtree(path, ignore_errors=True)


_LABELS = labels()


@pytest.fixture(scope="session")
def lab(base, program, store):
    return support.Lab(base, program, store)


@pytest.fixture(scope="module", params=_LABELS)
def identity(request, lab):
    if os.geteuid() != 0:
        _notes.add("not run: the tests as root (an ordinary user started the suite)")
    return lab.identity(request.param)


@pytest.fixture
def env(lab):
    runner = lab.runner(lab.identity(_LABELS[0]))
    yield runner.env
    runner.close()


@pytest.fixture
def runner(lab):
    runner = lab.runner(lab.identity(_LABELS[0]))
    yield runner
    runner.close()


@pytest.fixture
def as_each(lab, identity):
    runner = lab.runner(identity)
    yield runner
    runner.close()


@pytest.fixture
def as_user(lab):
    runner = lab.runner(lab.identity(_LABELS[-1]))
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def server(lab, identity):
    runner = lab.runner(identity)
    session = runner.serve()
    yield session
    try:
        assert session.close() == 0, session.stderr[-3000:]
    finally:
        runner.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    for pattern, reason in EXPECTED_SKIPS.items():
        if fnmatch.fnmatch(item.nodeid, pattern):
            _notes.add(f"skipped: {item.nodeid}: {reason}")
            return
    report.outcome = "failed"
    report.longrepr = f"skipped, and EXPECTED_SKIPS in conftest.py gives no reason for it: {report.longrepr}"


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    outcome = yield
    report = outcome.get_result()
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"the whole file was skipped: {report.longrepr}"


def pytest_sessionfinish(session, exitstatus):
    path = os.environ.get("SANDBOX_RUNNER_TEST_NOTES")
    if path and _notes:
        with open(path, "a", encoding="utf-8") as notes:
            notes.writelines(note + "\n" for note in sorted(_notes))
