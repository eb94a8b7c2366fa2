"""A sandbox whose init is not what it should be: it writes garbage into its report, dies at any moment of its set-up,
or is stopped. The run then has an end that says so, the server lives, and the next run works."""

import os
import random
import signal
import time

import pytest

import support

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to reach into init from outside")

SLEEPER = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"


def children(spawner):
    """The first process of each sandbox there is, whatever it is at: the spawner's children."""
    with open(f"/proc/{spawner}/task/{spawner}/children") as file:
        return [int(pid) for pid in file.read().split()]


def inits(server):
    return children(support.spawner_of(server.pid))


def report_pipes(init):
    """init's descriptors that are the writing end of a pipe, beyond the program's three."""
    found = []
    for fd in os.listdir(f"/proc/{init}/fd"):
        path = f"/proc/{init}/fd/{fd}"
        try:
            flags = int(open(f"/proc/{init}/fdinfo/{fd}").read().split("flags:")[1].split()[0], 8)
            if int(fd) > 2 and os.readlink(path).startswith("pipe:") and flags & os.O_ACCMODE == os.O_WRONLY:
                found.append(path)
        except OSError:
            pass
    return found


def begin(server):
    """A run that sleeps, and its init."""
    waiting = server.submit_code("python", SLEEPER, 1)
    assert support.wait_until(lambda: any(report_pipes(pid) for pid in inits(server)), 10)
    (init,) = inits(server)
    # Until the program runs there is more to come in the report than what a test writes.
    assert support.wait_until(lambda: len(support.descendants(init)) >= 1, 10)
    time.sleep(0.3)
    return waiting, init


def works_again(server):
    assert server.run_code("python", "print('next')\n")["stdout"] == "next\n"


GARBAGE = {
    "zeros": b"\0" * 64,
    "text": b"this is no report\n",
    "half a record": b"\x03\x00",
    "an unknown kind": (0x53520077).to_bytes(4, "little") + b"\xff" * 28,
    "a failure of a step that there is not": (0x53520002).to_bytes(4, "little") + b"\xff" * 28,
    "an end, twice": ((0x53520003).to_bytes(4, "little") + b"\0" * 28) * 2,
    "as much as fits": b"\xa5" * 65536,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_in_the_report(as_each, garbage):
    server = as_each.serve()
    waiting, init = begin(server)
    (pipe,) = report_pipes(init)
    fd = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(fd, garbage)
    finally:
        os.close(fd)
    result = server.code_result(waiting, 15)
    assert result["status"] in ("timeout", "error", "success"), result
    assert result["reason"] in ("timeout", "internal", "exit"), result
    works_again(server)
    assert server.close() == 0


def test_init_dies_at_any_moment(as_each):
    """The kill comes after a time that grows from nothing to past the program's start."""
    server = as_each.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "2"})
    works_again(server)
    spawner = support.spawner_of(server.pid)
    order = random.Random(7)
    ends = set()
    for turn in range(60):
        waiting = server.submit_code("python", "print('whole')\n", 5)
        until = time.monotonic() + order.uniform(0, 0.012)
        killed = False
        while not killed and not waiting.event.is_set():
            for pid in children(spawner):
                if time.monotonic() >= until:
                    try:
                        os.kill(pid, signal.SIGKILL)
                        killed = True
                    except ProcessLookupError:
                        pass
        result = server.code_result(waiting, 15)
        ends.add(result["reason"])
        assert result["reason"] in ("internal", "exit", "signal"), (turn, result)
        if result["reason"] == "internal":
            assert "killed from outside" in result["stderr"] or "could not be made" in result["stderr"], result
        else:
            assert result["stdout"] == "whole\n" and result["status"] == "success", (turn, result)
    assert "internal" in ends, "none of them was hit"
    works_again(server)
    assert server.close() == 0


def test_stopped_init_meets_the_deadline(as_each):
    server = as_each.serve()
    waiting, init = begin(server)
    os.kill(init, signal.SIGSTOP)
    began = time.monotonic()
    result = server.code_result(waiting, 15)
    assert (result["status"], result["reason"]) == ("timeout", "timeout"), result
    assert result["stdout"] == "begun\n"
    assert time.monotonic() - began < 5
    works_again(server)
    assert server.close() == 0


def test_stopped_during_set_up_meets_the_deadline(as_each):
    server = as_each.serve()
    works_again(server)
    spawner = support.spawner_of(server.pid)
    for _ in range(5):
        waiting = server.submit_code("python", "print('whole')\n", 1)
        stopped = []
        while not stopped and not waiting.event.is_set():
            for pid in children(spawner):
                try:
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
                except ProcessLookupError:
                    pass
        result = server.code_result(waiting, 15)
        assert result["reason"] in ("timeout", "exit"), result
    works_again(server)
    assert server.close() == 0
