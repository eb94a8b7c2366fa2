"""A program's standard streams under their names in /dev, and what many runs at once need."""

import support


def test_standard_streams_can_be_opened_by_name(as_each):
    result = as_each.snippet("python", """
import os
open('/dev/stdout', 'w').write('by /dev/stdout\\n')
open('/dev/fd/1', 'w').write('by /dev/fd/1\\n')
open('/proc/self/fd/1', 'w').write('by /proc/self/fd/1\\n')
open('/dev/stderr', 'w').write('to stderr\\n')
print(repr(open('/dev/stdin').read()))
os.system('echo from a shell > /dev/stderr')
""", stdin="given")
    assert result["stdout"] == "by /dev/stdout\nby /dev/fd/1\nby /proc/self/fd/1\n'given'\n", result
    assert result["stderr"] == "to stderr\nfrom a shell\n"


def test_setting_a_stream_non_blocking_loses_nothing(as_each):
    result = as_each.snippet("python", """
import fcntl, os, sys
fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
sent = 0
while sent < 90000:
    try:
        sent += os.write(1, b'x' * 1000)
    except BlockingIOError:
        pass
""")
    assert (result["status"], len(result["stdout"])) == ("success", 90000)


def test_more_runs_at_once_than_a_default_server_would_take(as_user):
    server = as_user.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "40"})
    waiting = [server.submit_code("python", f"print({n})\n", 30) for n in range(40)]
    assert [server.code_result(one, 60)["stdout"] for one in waiting] == [f"{n}\n" for n in range(40)]
    assert support.wait_until(lambda: len(support.descendants(server.pid)) == 1, 5), "only the spawner is left"
    assert server.close() == 0


def test_limits_hit_names_the_output(as_each):
    quiet = as_each.snippet("python", "print(1)\n")
    assert (quiet["limits_hit"], quiet["cached"]) == ([], False)
    loud = as_each.snippet("python", "print('x' * 200000)\n")
    assert (loud["status"], loud["limits_hit"]) == ("success", ["output"])
    killed = as_each.snippet("python", "while True:\n    print('x' * 10000)\n", env={"SANDBOX_RUNNER_OUTPUT_KILL": "1M"})
    assert (killed["reason"], killed["exit_code"], killed["limits_hit"]) == ("output_limit", 137, ["output"])
