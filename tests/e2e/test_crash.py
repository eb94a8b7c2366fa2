"""Sudden deaths: of the server, of the spawner, of one sandbox's init. What ran ends, what follows works."""

import json
import os
import signal
import subprocess
import time

import pytest

import support

STUBBORN = [
    "import time\ntime.sleep(600)\n",
    "while True:\n    pass\n",
    "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)\ntime.sleep(600)\n",
    "import signal, time\nfor n in range(1, 65):\n    try:\n        signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass\n"
    "time.sleep(600)\n",
    "import os\nwhile True:\n    os.write(1, b'x' * 100)\n",
    "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.fork()\n    time.sleep(600)\nos.kill(os.getpid(), 19)\n",
    "import threading, time\nfor _ in range(20):\n    threading.Thread(target=time.sleep, args=(600,)).start()\n",
    "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'sleep 600 & sleep 600'])\n",
]


def running_snippets(pid):
    """Processes below the server that run a snippet's command line."""
    found = {}
    for child, began in support.descendants(pid).items():
        try:
            if b"/scratch/snippet.py" in open(f"/proc/{child}/cmdline", "rb").read():
                found[child] = began
        except OSError:
            pass
    return found


@pytest.fixture
def busy(as_each):
    """A server with eight stubborn runs going, and what waits for them."""
    server = as_each.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "8"})
    waiting = [server.submit_code("python", code, 30) for code in STUBBORN]
    assert support.wait_until(lambda: len(running_snippets(server.pid)) >= 8 + 3, 20), "the eight runs did not start"
    return server, waiting


def gone_within(processes, seconds):
    support.wait_until(lambda: not support.alive(processes), seconds)
    return support.alive(processes)


def test_killed_server_takes_everything_along(busy):
    server, _waiting = busy
    everything = support.descendants(server.pid)
    assert len(everything) >= 8 * 2 + 1
    server.process.kill()
    assert gone_within(everything, 1) == []


def test_killed_spawner_is_replaced(busy):
    server, waiting = busy
    spawner = support.spawner_of(server.pid)
    assert spawner is not None
    everything = support.descendants(server.pid)
    os.kill(spawner, signal.SIGKILL)
    assert gone_within(everything, 1) == []
    for one in waiting:
        result = server.code_result(one, 10)
        assert (result["status"], result["reason"], result["exit_code"]) == ("error", "internal", None), result
        assert result["stderr"], "an internal fault says what happened"
    assert server.run_code("python", "print('next')\n")["stdout"] == "next\n"
    replaced = support.spawner_of(server.pid)
    assert replaced not in (None, spawner)
    assert server.close() == 0


def test_spawner_killed_while_idle(as_each):
    server = as_each.serve()
    for _ in range(3):
        assert server.run_code("python", "print('before')\n")["stdout"] == "before\n"
        spawner = support.spawner_of(server.pid)
        began = {spawner: support.process_stat(spawner)[1]}
        os.kill(spawner, signal.SIGKILL)
        assert gone_within(began, 5) == []
    assert server.run_code("python", "print('after')\n")["stdout"] == "after\n"
    assert server.close() == 0


def test_killed_init_ends_its_run_alone(as_each):
    """Pid 1 of one sandbox dies (the kernel may choose it when memory is short): the other run goes on."""
    server = as_each.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "2"})
    victim = server.submit_code("python", "import time\nprint('so far', flush=True)\ntime.sleep(600)\n", 20)
    assert support.wait_until(lambda: running_snippets(server.pid), 10)
    time.sleep(0.5)
    (snippet,) = running_snippets(server.pid)
    init = support.process_stat(snippet)[0]
    other = server.submit_code("python", "import time\ntime.sleep(1)\nprint('went on')\n", 20)
    assert support.wait_until(lambda: len(running_snippets(server.pid)) == 2, 10)
    os.kill(init, signal.SIGKILL)
    result = server.code_result(victim, 5)
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "internal", None), result
    assert result["stdout"] == "so far\n", "what was written before is not lost"
    assert "killed from outside" in result["stderr"]
    assert server.code_result(other, 10)["stdout"] == "went on\n"
    assert server.close() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_asked_to_end(busy, number):
    server, _waiting = busy
    everything = support.descendants(server.pid)
    began = time.monotonic()
    server.process.send_signal(number)
    server.process.wait(5)
    assert time.monotonic() - began < 3
    assert gone_within(everything, 1) == []


def test_nobody_reads_any_more(as_each):
    """When the client has closed the server's output, what runs is ended at once."""
    server = as_each.start(env={"SANDBOX_RUNNER_SERVER_SLOTS": "2"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = [{"id": "hello", "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                                "clientInfo": {"name": "suite", "version": "1"}}},
             {"method": "notifications/initialized"}]
    lines += [{"id": n, "method": "tools/call", "params": {"name": "run_code", "arguments": {
        "language": "python", "code": code, "timeout_seconds": 30}}} for n, code in enumerate(STUBBORN[:2])]
    for line in lines:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
    server.stdin.flush()
    assert support.wait_until(lambda: len(running_snippets(server.pid)) == 2, 15)
    everything = support.descendants(server.pid)
    server.stdout.close()
    server.wait(5)
    assert gone_within(everything, 1) == []


def test_killed_command(as_each):
    """`run` killed in the middle leaves nothing either."""
    command = as_each.start("run", "-l", "python", "-t", "30", "-c", STUBBORN[2], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert support.wait_until(lambda: len(running_snippets(command.pid)) >= 4, 15)
    everything = support.descendants(command.pid)
    command.kill()
    assert gone_within(everything, 1) == []
