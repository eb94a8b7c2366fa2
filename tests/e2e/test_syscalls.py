"""Which system calls of the running kernel get through from a sandbox, number by number.

tests/syscalls/probe.c finds out and says how it can. It runs as an ordinary user on the host and in a sandbox over
the host's own directories; what our filters should answer is evaluated from their instructions besides
(filter-answers). The number that README.md gives is the number found.
"""

import re
import shutil
import subprocess

import pytest

import support

EPERM, ENOSYS = "1", "38"
X86 = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
# Newer than the C library's headers; the same on every architecture.
NEWER = {"memfd_secret": 447, "process_mrelease": 448, "set_mempolicy_home_node": 450, "cachestat": 451, "statmount": 457,
         "listmount": 458, "open_tree_attr": 467}

DANGEROUS = """
    mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree open_tree_attr move_mount mount_setattr statmount listmount
    unshare setns clone3 ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp
    bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register io_setup io_submit modify_ldt fanotify_init fanotify_mark
    add_key keyctl request_key name_to_handle_at open_by_handle_at
    kexec_load kexec_file_load init_module finit_module delete_module create_module quotactl quotactl_fd swapon swapoff reboot
    iopl ioperm acct syslog settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup lookup_dcookie
    uselib nfsservctl _sysctl mbind set_mempolicy migrate_pages move_pages memfd_secret
""".split()


class Tools:
    """The programs of tests/syscalls where `identity` can run them."""

    def __init__(self, directory, identity):
        self.directory = directory
        self.identity = identity

    def run(self, identity, *command):
        done = subprocess.run([self.directory / command[0], *command[1:]], cwd="/", capture_output=True, text=True, timeout=120,
                              env={"PATH": "/usr/bin:/bin", "HOME": "/"}, **identity.popen())
        support.assert_no_sanitizer_report(done.stderr)
        assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-500:]}{done.stderr}"
        return done

    def answers(self, *arguments):
        return by_number(self.run(self.identity, "filter-answers", *arguments).stdout)

    def in_sandbox(self, *arguments):
        """What the probe says in a sandbox, and which of the two filters that was."""
        done = self.run(self.identity, "in-sandbox", self.directory / "sandbox-runner-spawner", self.directory / "syscall-probe", *arguments)
        watched = re.search(r"^memory: (\w+)$", done.stderr, re.M).group(1) == "watchdog"
        return by_number(done.stdout), ["watched"] if watched else []


def by_number(text):
    numbers = {}
    for line in text.splitlines():
        number, answer = line.split(" ", 1)
        numbers[int(number)] = answer
    assert sorted(numbers) == list(range(len(numbers))) and len(numbers) >= 500, text[-500:]
    return numbers


def named():
    with open(X86, encoding="ascii") as header:
        return NEWER | {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", header.read())}


def through(answers):
    return {number for number, answer in answers.items() if answer == "through"}


@pytest.fixture(scope="module")
def tools(lab, identity, program, base):
    directory = base / f"syscalls-{identity.label}"
    directory.mkdir()
    for path in (program.parent / "sandbox-runner-spawner", *(program.parent / "tests" / "syscalls" / name for name in ("syscall-probe", "in-sandbox", "filter-answers"))):
        shutil.copy(path, directory / path.name)
    return Tools(directory, identity)


@pytest.fixture(scope="module")
def user(lab, identity):
    """An ordinary user: what a call answers on the host must not depend on root's powers."""
    return lab.identity("user") if identity.is_root else identity


def asked(tools, user, *entry):
    """Numbers of one way into the kernel: verdicts on the host, in a sandbox, and those evaluated."""
    host = by_number(tools.run(user, "syscall-probe", "ask", *entry).stdout)
    sandbox, profile = tools.in_sandbox("ask", *entry)
    return host, sandbox, tools.answers(*profile, *entry)


def test_every_number_is_answered_as_the_filter_says(tools, user):
    host, sandbox, expected = asked(tools, user)
    assert len(through(host)) > len(through(expected)), "the suite itself runs under a filter; it must run outside"
    # What does not get through on the host (335 and 336, which the kernel keeps from filters) tells nothing.
    open_here = through(host)
    assert len(open_here) >= len(host) - 2
    assert {n: sandbox[n] for n in open_here} == {n: expected[n] for n in open_here}


@pytest.mark.parametrize("entry", ["x32", "i386"])
def test_other_ways_into_the_kernel_are_closed(tools, user, entry):
    host, sandbox, expected = asked(tools, user, entry)
    assert set(expected.values()) == {ENOSYS}
    # A kernel without 32-bit calls ends a program that makes one, whatever the filter.
    assert {n for n in sandbox if sandbox[n] != ENOSYS and not host[n].startswith("killed")} == set()


def test_calls_answer_as_asked(tools, user):
    """Makes the calls: what was refused when asked answers just that; what was not is the kernel's to answer."""
    host = by_number(tools.run(user, "syscall-probe", "call").stdout)
    sandbox, profile = tools.in_sandbox("call")
    expected = tools.answers(*profile)
    for number in range(len(host)):
        if "skipped" in (host[number], sandbox[number]) or number in (335, 336):
            continue
        told = f"call {number}: {host[number]} on the host, {sandbox[number]} in a sandbox, expected {expected[number]}"
        if expected[number] != "through":
            assert sandbox[number] == expected[number], told
        else:
            assert "killed" not in sandbox[number] and "hung" not in sandbox[number], told
            assert (sandbox[number] == ENOSYS) == (host[number] == ENOSYS), told
    assert sum(answer == "skipped" for answer in sandbox.values()) == 5


def test_dangerous_calls_are_refused(tools):
    sandbox, _profile = tools.in_sandbox("ask")
    numbers = named()
    assert {name: sandbox[numbers[name]] for name in DANGEROUS if sandbox[numbers[name]] not in (EPERM, ENOSYS)} == {}


def test_the_documented_number_is_the_real_one(tools):
    text = (support.CHECKOUT / "README.md").read_text(encoding="utf-8")
    documented = int(re.search(r"lets (\d+) calls through", text).group(1))
    sandbox, profile = tools.in_sandbox("ask")
    lacking = {named()[name] for name in ("memfd_create", "msgget", "semget", "shmget")} if profile else set()
    assert len(through(sandbox) | lacking) == documented
