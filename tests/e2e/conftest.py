"""Fixtures of the end-to-end suites; support.py holds the classes behind them.

  program      path of the program under test (SANDBOX_RUNNER, else build-asan/, else build/)
  store        the prepared image store (made by tests/run.sh), used read-only as images.lower_store
  env          environment of a fresh, private HOME with all XDG directories, for the suite's own user
  runner       a Runner of the suite's own user, private directories per test
  identity     parametrised: "root" and "user", or "self" when an ordinary user started the suite
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
import tempfile
from pathlib import Path

import pytest

import support

USER_NAME = "sr-test"

# Test id pattern → reason. An entry here is the only way for a test to be skipped.
EXPECTED_SKIPS = {}

_notes = set()


def _default_store():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "sandbox-runner-tests", "store")


def _find_program():
    named = os.environ.get("SANDBOX_RUNNER")
    places = [named] if named else [support.CHECKOUT / "build-asan" / "sandbox-runner",
                                    support.CHECKOUT / "build" / "sandbox-runner"]
    for place in places:
        if os.access(place, os.X_OK):
            return Path(place).resolve()
    pytest.exit("no program at " + " or ".join(map(str, places)) + ": build first, or run sh tests/run.sh", 2)


@pytest.fixture(scope="session")
def program():
    return _find_program()


@pytest.fixture(scope="session")
def store():
    path = Path(os.environ.get("SANDBOX_RUNNER_TEST_STORE") or _default_store())
    if not (path / "refs").is_dir():
        pytest.exit(f"no images in {path}: sh tests/run.sh prepares them", 2)
    return path


@pytest.fixture(scope="session")
def base():
    """A directory everybody can enter. Not under /tmp: that may be a small tmpfs, and links cannot reach it."""
    path = Path(tempfile.mkdtemp(prefix="sandbox-runner-tests-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _account():
    if os.geteuid() != 0:
        return support.Identity("self", os.geteuid(), os.getegid(), False)
    entry = support.find_or_make_user(USER_NAME)
    return support.Identity("user", entry.pw_uid, entry.pw_gid, True)


_OWN = support.Identity("root" if os.geteuid() == 0 else "self", os.geteuid(), os.getegid(), False)
_LABELS = ["root", "user"] if os.geteuid() == 0 else ["self"]


class Lab:
    """Makes Runners: knows the program and the store as each identity can reach them."""

    def __init__(self, base, program, store):
        self.base = base
        self.program = program
        self.store = store
        self.account = None
        self.copies = None
        self.count = 0

    def identity(self, label):
        if label != "user":
            return _OWN
        self.account = self.account or _account()
        return self.account

    def _copied(self):
        if not self.copies:
            top = self.base / "copy"
            (top / "build").mkdir(parents=True)
            for name in support.PROGRAMS:
                shutil.copy(self.program.parent / name, top / "build" / name)
            for name in ("images", "rootfs"):
                shutil.copytree(support.CHECKOUT / name, top / name)
            top.chmod(0o755)
            os.system(f"chmod -R a+rX {top}")
            support.copy_readable(self.store, self.base / "store")
            self.copies = (top / "build" / "sandbox-runner", self.base / "store")
        return self.copies

    def environment(self, identity, place):
        _program, store = self._copied() if identity.switching else (self.program, self.store)
        names = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state",
                 "XDG_CACHE_HOME": "cache", "TMPDIR": "tmp"}
        env = {}
        for variable, folder in names.items():
            (place / folder).mkdir()
            identity.own(place / folder)
            env[variable] = str(place / folder)
        env.update({
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SANDBOX_RUNNER_IMAGES_LOWER_STORE": str(store),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "strict_string_checks=1:detect_stack_use_after_return=1"),
            "UBSAN_OPTIONS": os.environ.get("UBSAN_OPTIONS", "print_stacktrace=1"),
        })
        return env

    def runner(self, identity):
        self.count += 1
        place = self.base / f"{identity.label}-{self.count}"
        place.mkdir()
        identity.own(place)
        program = self._copied()[0] if identity.switching else self.program
        return support.Runner(program, identity, place, self.environment(identity, place))


@pytest.fixture(scope="session")
def lab(base, program, store):
    return Lab(base, program, store)


@pytest.fixture(scope="module", params=_LABELS)
def identity(request, lab):
    if os.geteuid() != 0:
        _notes.add("not run: the tests as root (an ordinary user started the suite)")
    return lab.identity(request.param)


@pytest.fixture
def env(lab):
    runner = lab.runner(_OWN)
    yield runner.env
    runner.close()


@pytest.fixture
def runner(lab):
    runner = lab.runner(_OWN)
    yield runner
    runner.close()


@pytest.fixture
def as_each(lab, identity):
    runner = lab.runner(identity)
    yield runner
    runner.close()


@pytest.fixture
def as_user(lab):
    runner = lab.runner(lab.identity("user" if os.geteuid() == 0 else "self"))
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
