"""Every step of making a sandbox that fails ends the run and is named; where there is another way, it is taken.

Each case runs the program under a filter that answers one system call with an errno (tests/tools/fail_syscall.c),
as a kernel without the call or a host that forbids it would.
"""

import os
import time
from pathlib import Path

import pytest

import support
from sentences import one_sentence

TOO_OLD = "Linux 5.12"
RUN = ("run", "-l", "python", "-c", "print(6*7)")

# Rule of fail-syscall → words of the one sentence.
FATAL = {
    # The spawner's start.
    "clone3=ENOSYS": ["creating the user, mount and pid namespaces", "5.12"],
    "setsid=EPERM": ["starting a session"],
    "close_range=ENOSYS": ["arranging descriptors", TOO_OLD],
    "prctl:4=EPERM": ["hiding the spawner"],  # PR_SET_DUMPABLE
    "open_tree=ENOSYS": ["binding the image store", TOO_OLD],
    "mount_setattr=ENOSYS": ["binding the image store", TOO_OLD],
    "move_mount=ENOSYS": ["binding the image store", TOO_OLD],
    "move_mount=EPERM": ["binding the image store"],
    "mount=EPERM": ["making mounts private"],
    "pivot_root=EPERM": ["leaving the host's mount tree"],
    "umount2=EPERM": ["leaving the host's mount tree"],
    # A sandbox.
    "openat2=ENOSYS": ["opening the root file system", TOO_OLD],
    "unshare:0x02000000=EPERM": ["making the cgroup namespace"],
    "sethostname=EPERM": ["setting the host name"],
    "keyctl=EPERM": ["making a session keyring"],
    "keyctl=EDQUOT": ["making a session keyring", "maxkeys"],
    "sched_setaffinity=EPERM": ["setting the CPU affinity"],
    "unshare:0x10000000=EPERM": ["making the program's user namespace"],
    "prlimit64:1.12=EPERM": ["setting a resource limit"],  # RLIMIT_MSGQUEUE
    "prctl:47=EPERM": ["dropping capabilities"],  # PR_CAP_AMBIENT
    "prctl:24=EPERM": ["dropping capabilities"],  # PR_CAPBSET_DROP
    "prctl:24=EINVAL": ["dropping capabilities"],  # which at the end of the list is no failure
    "capset=EPERM": ["dropping capabilities"],
    "prctl:38=EINVAL": ["setting no_new_privs"],
    "landlock_create_ruleset=EPERM": ["putting up the Landlock rules"],
    "seccomp:1=EINVAL": ["installing the seccomp filter"],
}
if os.geteuid() == 0:
    # An ordinary user with one id has no other to take.
    FATAL |= {
        "setgroups=EPERM": ["changing to the spawner's user"],
        "setresuid:0=EPERM": ["changing to the spawner's user"],
        "setresgid:1000=EPERM": ["changing the user"],
        "setresuid:1000=EPERM": ["changing the user"],
        "fchownat=EPERM": ["making /scratch"],
    }

# What there is another way for, or nothing to be lost.
HARMLESS = ["keyctl=ENOSYS", "landlock_create_ruleset=ENOSYS", "landlock_create_ruleset=EOPNOTSUPP",
            "pidfd_send_signal=ENOSYS", "pidfd_open=ENOSYS"]
LANDLOCK = ["landlock_add_rule=EINVAL", "landlock_restrict_self=EPERM"]


@pytest.fixture(scope="module")
def tool(program):
    path = Path(program).parent / "tests" / "fail-syscall"
    assert path.is_file(), f"{path} is not there: it is built with the tests"
    return path


def under(runner, tool, rule, *args, **options):
    return runner.run(rule, "--", runner.program, *args, argv0=str(tool), **options)


@pytest.mark.parametrize("rule", FATAL)
def test_a_step_that_fails_is_named(runner, tool, rule):
    done = under(runner, tool, rule, *RUN)
    assert done.code == 125, repr(done)
    one_sentence(done, *FATAL[rule])


@pytest.mark.parametrize("rule", LANDLOCK)
def test_landlock_that_is_there_must_hold(runner, tool, rule):
    done = under(runner, tool, rule, *RUN)
    if support.landlock_version() < 2:  # never called there, so that only their absence can be seen
        assert (done.code, done.out) == (0, "42\n"), repr(done)
    else:
        assert done.code == 125, repr(done)
        one_sentence(done, "putting up the Landlock rules")


@pytest.mark.parametrize("rule", HARMLESS)
def test_what_can_be_done_without(runner, tool, rule):
    done = under(runner, tool, rule, *RUN)
    assert (done.code, done.out, done.err) == (0, "42\n", ""), repr(done)


def test_a_deadline_holds_where_pidfds_may_not_be_signalled(runner, tool):
    began = time.monotonic()
    done = under(runner, tool, "pidfd_send_signal=EPERM", "run", "-t", "1", "-l", "python", "-c", "while True: pass")
    assert done.code == 124 and time.monotonic() - began < 30, repr(done)


@pytest.mark.parametrize("rule", ["openat2=ENOSYS", "mount_setattr=ENOSYS", "close_range=ENOSYS", "clone3=ENOSYS",
                                  "capset=EPERM"])
def test_doctor_repeats_it(runner, tool, rule):
    done = under(runner, tool, rule, "doctor")
    call = rule.split("=")[0]
    assert done.code == 1, repr(done)
    assert FATAL[rule][0] in done.out or call in done.out, repr(done)


def test_a_server_answers_with_the_reason(runner, tool):
    """A step of a stage that fails is the result of that run; the server lives on."""
    wrapped, runner.program = runner.program, str(tool)
    server = runner.serve("capset=EPERM", "--", wrapped)
    for _ in range(2):
        result = server.run_code("python", "print(1)\n")
        assert result["status"] == "error" and result["reason"] == "internal", result
        assert "dropping capabilities" in result["stderr"] and result["stdout"] == "", result
    assert server.close() == 0
