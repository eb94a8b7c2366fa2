"""`ps` and `stop`: what runs and waits, in servers and in `run`, is seen and can be ended from outside."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

import support
from sentences import one_sentence

SLEEP = "import time\ntime.sleep(60)\n"
MEMBERS = ["id", "language", "state", "asked", "elapsed_ms", "timeout_ms", "code", "server"]
TITLES = ["ID", "LANGUAGE", "STATE", "ELAPSED", "TIMEOUT", "SERVER", "CODE"]


def listed(runner):
    return runner.run("ps", "--json").json()


def states(runner):
    return [(entry["language"], entry["state"]) for entry in listed(runner)]


def until(condition, timeout=30):
    value = support.wait_until(condition, timeout)
    assert value, "what was waited for did not come"
    return value


def sockets(runner):
    place = runner.place / "control"
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


def rows(runner):
    return runner.run("history", "--json").json()


def start_run(runner, *args, **options):
    """`run` of a program that sleeps, once it can be seen."""
    before = len(listed(runner))
    process = runner.start("run", "-t", "30", "-l", "python", "-c", SLEEP, *args, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    until(lambda: len(listed(runner)) > before)
    return process


# ps


def test_nothing_runs(as_each):
    done = as_each.run("ps")
    assert (done.code, done.out.split(), done.err) == (0, TITLES, "")
    assert listed(as_each) == []
    for args in (["ps", "-q"], ["ps", "--quiet"], ["stop", "--all"], ["stop", "-a"]):
        done = as_each.run(*args)
        assert (done.code, done.out, done.err) == (0, "", ""), repr(done)
    assert not (as_each.place / "control").exists()  # looking makes nothing
    server = as_each.serve()
    assert listed(as_each) == [] and sockets(as_each) == [f"{server.pid}.sock"]
    assert server.close() == 0
    assert sockets(as_each) == []


def test_what_runs_and_waits_is_listed_in_order(as_each):
    server = as_each.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "2"})
    waiting = [server.submit_code("python", f"#  number {number}\n{SLEEP}", 25) for number in range(4)]
    until(lambda: states(as_each) == [("python", "run")] * 2 + [("python", "waiting")] * 2)
    entries = listed(as_each)
    assert [entry["id"] for entry in entries] == [f"{server.pid}.{number}" for number in range(1, 5)]
    assert [entry["code"] for entry in entries] == [f"#  number {number}" for number in range(4)]
    for entry in entries:
        assert list(entry) == MEMBERS and entry["server"] == {"pid": server.pid, "kind": "serve"}
        assert entry["timeout_ms"] == 25000 and 0 <= entry["elapsed_ms"] < 25000
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", entry["asked"])
    table = as_each.run("ps").out.splitlines()
    assert table[0].split() == TITLES and len(table) == 5
    assert table[1].split()[:3] == [entries[0]["id"], "python", "run"]
    assert re.search(rf" \d+\.\ds +25\.0s +{server.pid} \(serve\)  #  number 0$", table[1]), table[1]
    assert as_each.run("ps", "-q").out.split() == [entry["id"] for entry in entries]
    done = as_each.run("stop", "--all")
    assert done.code == 0 and done.out.split() == [entry["id"] for entry in entries], repr(done)
    for answer in waiting:
        assert server.code_result(answer)["reason"] == "cancelled"
    assert listed(as_each) == []
    assert server.close() == 0


def test_the_stages_of_a_compiled_language(runner):
    server = runner.serve()
    # Much to compile, then much to wait for.
    code = ("#include <bits/stdc++.h>\n#include <unistd.h>\n"
            + "".join(f"std::map<int, std::regex> f{n}() {{ return {{{{{n}, std::regex(\"a\")}}}}; }}\n" for n in range(9))
            + "int main() { sleep(60); }\n")
    answer = server.submit_code("C++", code, 20)
    until(lambda: states(runner) == [("cpp", "compile")])
    assert listed(runner)[0]["timeout_ms"] == 30000
    until(lambda: states(runner) == [("cpp", "run")])
    assert listed(runner)[0]["timeout_ms"] == 20000
    assert runner.run("stop", listed(runner)[0]["id"]).code == 0
    result = server.code_result(answer)
    assert (result["reason"], [stage["name"] for stage in result["stages"]]) == ("cancelled", ["compile", "run"])
    answer = server.submit_code("cpp", code, 20)
    until(lambda: states(runner) == [("cpp", "compile")])
    assert runner.run("stop", f"{server.pid}").out == f"{server.pid}.2\n"
    result = server.code_result(answer)
    assert (result["status"], result["reason"]) == ("error", "cancelled")
    assert server.close() == 0


@pytest.mark.parametrize("code, shown, printed", [
    (b"\n\n   \t\nimport time ; time.sleep(60)  \r\n", "import time ; time.sleep(60)", None),
    (b"x = '\x1b[31m\x07'; import time; time.sleep(60)\n", "x = '\x1b[31m\x07'; import time; time.sleep(60)",
     "x = '\\x1b[31m\\x07'; import time; time.sleep(60)"),
    ("# é".encode() + b"x" * 5000 + b"\nimport time; time.sleep(60)", "# é" + "x" * 57 + "…", None),
    ("# ".encode() + "é".encode() * 300 + b"\nimport time; time.sleep(60)", "# " + "é" * 58 + "…", None),
    ("# \uf8ff0".encode() + b"\nimport time; time.sleep(60)", "# \uf8ff0", None),
    (b"# latin \xe9 -*- coding: latin-1 -*-\nimport time; time.sleep(60)", "# latin \ufffd -*- coding: latin-1 -*-", None),
])
def test_the_first_line_of_the_code(runner, code, shown, printed):
    process = runner.start("run", "-l", "python", runner.file("code", code), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    entries = until(lambda: listed(runner))
    assert [entry["code"] for entry in entries] == [shown]
    table = runner.run("ps").out
    assert (printed or shown) in table and "\x1b" not in table
    assert runner.run("stop", "-a").code == 0
    process.communicate(timeout=20)
    assert process.returncode == 143


def test_several_servers(as_each):
    first, second = as_each.serve(), as_each.serve()
    answers = [first.submit_code("python", SLEEP), second.submit_code("python", SLEEP)]
    until(lambda: len(states(as_each)) == 2)
    answers.append(first.submit_code("python", SLEEP))
    until(lambda: len(states(as_each)) == 3)
    ids = [entry["id"] for entry in listed(as_each)]
    assert sorted(ids) == sorted([f"{first.pid}.1", f"{second.pid}.1", f"{first.pid}.2"]) and ids[2] == f"{first.pid}.2"
    # The number of the process is enough where it leaves no doubt.
    done = as_each.run("stop", first.pid)
    assert done.code == 1
    one_sentence(done, str(first.pid), "2 runs")
    done = as_each.run("stop", second.pid, f"{first.pid}.2")
    assert done.code == 0 and sorted(done.out.split()) == sorted([f"{second.pid}.1", f"{first.pid}.2"]), repr(done)
    assert first.code_result(answers[2])["reason"] == "cancelled"
    assert second.code_result(answers[1])["reason"] == "cancelled"
    assert [entry["id"] for entry in listed(as_each)] == [f"{first.pid}.1"]
    done = as_each.run("stop", second.pid)
    assert done.code == 1
    one_sentence(done, "nothing runs", str(second.pid))
    assert as_each.run("stop", "--all").out == f"{first.pid}.1\n"
    assert first.code_result(answers[0])["reason"] == "cancelled"
    assert first.close() == 0 and second.close() == 0


# stop


def test_stopping_one_run_ends_that_one(as_each):
    server = as_each.serve()
    slept = server.submit_code("python", "print('before', flush=True)\n" + SLEEP, 20)
    other = server.submit_code("python", "import time\ntime.sleep(3)\nprint('whole')\n", 20)
    until(lambda: states(as_each) == [("python", "run")] * 2)
    time.sleep(0.3)
    began = time.monotonic()
    done = as_each.run("stop", f"{server.pid}.1")
    assert (done.code, done.out, done.err) == (0, f"{server.pid}.1\n", "")
    assert time.monotonic() - began < 2.5
    # It is in the history by now.
    assert [(row["status"], row["exit_code"]) for row in rows(as_each)] == [("error", None)]
    result = server.code_result(slept, 5)
    assert (result["status"], result["exit_code"], result["reason"]) == ("error", None, "cancelled")
    assert result["stdout"] == "before\n"
    assert server.code_result(other)["stdout"] == "whole\n"
    # And once more: it is no error that it has ended.
    done = as_each.run("stop", f"{server.pid}.1")
    assert (done.code, done.out) == (0, "")
    one_sentence(done, f"{server.pid}.1", "ended already")
    assert server.close() == 0


def test_a_waiting_run_can_be_stopped(as_each):
    server = as_each.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "1"})
    running = server.submit_code("python", SLEEP, 20)
    waiting = server.submit_code("python", "print('never')\n", 20)
    last = server.submit_code("python", "print('last')\n", 20)
    until(lambda: [state for _language, state in states(as_each)] == ["run", "waiting", "waiting"])
    assert as_each.run("stop", f"{server.pid}.2").out == f"{server.pid}.2\n"
    result = server.code_result(waiting, 5)
    assert (result["status"], result["reason"], result["stdout"]) == ("error", "cancelled", "")
    assert [state for _language, state in states(as_each)] == ["run", "waiting"]
    assert as_each.run("stop", f"{server.pid}.1").out == f"{server.pid}.1\n"
    assert server.code_result(running, 5)["reason"] == "cancelled"
    assert server.code_result(last)["stdout"] == "last\n"
    assert len(rows(as_each)) == 3
    assert server.close() == 0


def test_unknown_ids_are_said_and_the_others_still_stopped(runner):
    server = runner.serve()
    answer = server.submit_code("python", SLEEP, 20)
    until(lambda: states(runner) == [("python", "run")])
    # None of these is near enough to the one that runs.
    unknown = ["nonsense", f"{server.pid}.2", f"{server.pid}.", f"{server.pid}.1.1", f"{server.pid}.01", "1.1", "",
               f"{server.pid}.18446744073709551617", f"{server.pid}.-1", f"{server.pid}. 1", str(server.pid)[:-1], "\x1b[1m"]
    for id in unknown:
        done = runner.run("stop", "--", id)
        assert done.code == 1, repr(done)
        one_sentence(done, "there is no run", "sandbox-runner ps")
        assert "\x1b" not in done.err
    assert states(runner) == [("python", "run")]
    done = runner.run("stop", "nonsense", f"{server.pid}.1", f"{server.pid}.1", "1.1")
    assert done.code == 1 and done.out == f"{server.pid}.1\n" and len(done.err.splitlines()) == 2, repr(done)
    assert server.code_result(answer)["reason"] == "cancelled"
    assert server.close() == 0


def test_runs_that_end_by_themselves_meanwhile_are_no_error(runner):
    server = runner.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "4"})
    for round in range(6):
        answers = [server.submit_code("python", f"import time\ntime.sleep({0.02 * number})\n") for number in range(8)]
        done = runner.run("stop", "--all")
        assert done.code == 0, repr(done)
        for answer in answers:
            assert server.code_result(answer)["reason"] in ("exit", "cancelled")
    assert listed(runner) == []
    assert server.close() == 0


def test_hundreds_of_runs(runner):
    """More than one request can tell of."""
    server = runner.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "1", "SANDBOX_RUNNER_SERVER_MAX_QUEUE": "1000"})
    answers = [server.submit_code("python", SLEEP, 20) for _ in range(350)]
    until(lambda: len(states(runner)) == 350)
    ids = [entry["id"] for entry in listed(runner)]
    assert ids == [f"{server.pid}.{number}" for number in range(1, 351)]
    done = runner.run("stop", "--all")
    assert done.code == 0 and sorted(done.out.split()) == sorted(ids), repr(done)
    assert {server.code_result(answer)["reason"] for answer in answers} == {"cancelled"}
    assert server.close() == 0


# The command `run`


def test_run_is_seen_and_stopped_too(as_each):
    process = start_run(as_each)
    entry = listed(as_each)[0]
    assert entry["server"] == {"pid": process.pid, "kind": "run"} and entry["id"] == f"{process.pid}.1"
    assert entry["timeout_ms"] == 30000
    assert as_each.run("stop", process.pid).out == f"{process.pid}.1\n"
    out, err = process.communicate(timeout=20)
    assert process.returncode == 143 and out == b""
    assert err == b"sandbox-runner: the program was ended with `sandbox-runner stop`\n"
    assert sockets(as_each) == []
    assert [row["status"] for row in rows(as_each)] == ["error"]


def test_run_with_json_is_a_cancelled_result(runner):
    process = start_run(runner, "--json")
    assert runner.run("stop", "--all").code == 0
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0 and err == b"" and json.loads(out)["reason"] == "cancelled"


def test_run_can_be_stopped_when_nobody_reads_its_output(runner):
    process = runner.start("run", "-l", "python", "-t", "30", "-c", "while True: print('x' * 1000)",
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: listed(runner))
    time.sleep(0.3)
    done = runner.run("stop", process.pid)
    assert done.code == 0 and done.out == f"{process.pid}.1\n", repr(done)
    process.communicate(timeout=20)
    assert process.returncode == 143


def test_a_short_run_leaves_no_trace(runner):
    assert runner.run("run", "-l", "python", "-c", "print(1)").out == "1\n"
    assert sockets(runner) == []


def test_signals_still_end_run(runner):
    process = start_run(runner)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130 and sockets(runner) == []


def test_a_server_that_is_told_to_end_takes_its_socket_along(runner):
    server = runner.serve()
    assert sockets(runner) == [f"{server.pid}.sock"]
    server.kill(signal.SIGTERM)
    assert server.process.returncode == 0 and sockets(runner) == []


# Servers that are gone, stuck or not ours


def test_a_killed_server_vanishes(as_each):
    server, other = as_each.serve(), as_each.serve()
    server.submit_code("python", SLEEP, 20)
    answer = other.submit_code("python", SLEEP, 20)
    until(lambda: len(listed(as_each)) == 2)
    server.kill()
    assert f"{server.pid}.sock" in sockets(as_each)
    done = as_each.run("ps", "--json")
    assert [entry["server"]["pid"] for entry in done.json()] == [other.pid] and done.err == ""
    assert sockets(as_each) == [f"{other.pid}.sock"]
    done = as_each.run("stop", f"{server.pid}.1")
    assert done.code == 1
    one_sentence(done, "there is no run")
    other.kill()
    third = as_each.serve()  # a new server tidies up as well
    until(lambda: sockets(as_each) == [f"{third.pid}.sock"])
    assert third.close() == 0
    assert answer.event.wait(10)


def test_a_server_that_does_not_answer_hides_no_other(runner):
    stuck, other = runner.serve(), runner.serve()
    answer = other.submit_code("python", SLEEP, 20)
    until(lambda: len(listed(runner)) == 1)
    os.kill(stuck.pid, signal.SIGSTOP)
    try:
        done = runner.run("ps", "--json", timeout=30)
        assert done.code == 1 and [entry["server"]["pid"] for entry in done.json()] == [other.pid]
        assert done.err == f"sandbox-runner: process {stuck.pid} does not answer\n"
        done = runner.run("stop", "--all", timeout=30)
        assert done.code == 1 and done.out == f"{other.pid}.1\n", repr(done)
    finally:
        os.kill(stuck.pid, signal.SIGCONT)
    assert other.code_result(answer)["reason"] == "cancelled"
    assert listed(runner) == []
    assert stuck.close() == 0 and other.close() == 0


def test_stuck_clients_hold_up_nobody(runner):
    server = runner.serve()
    server.run_code("python", "print(1)\n")  # opens the history
    answer = server.submit_code("python", SLEEP, 20)
    until(lambda: listed(runner))
    path = str(runner.place / "control" / f"{server.pid}.sock")
    time.sleep(0.3)  # the last client of `ps` is gone
    if os.geteuid() == 0:
        descriptors = os.listdir(f"/proc/{server.pid}/fd")
    held = []
    for half in (b"", b'{"method":', b"x" * 10000) * 5:
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        client.connect(path)
        if half:
            client.send(half)
        held.append(client)
    began = time.monotonic()
    assert server.run_code("python", "print(1)\n")["stdout"] == "1\n"
    assert time.monotonic() - began < 5
    until(lambda: runner.run("ps", "-q").out == f"{server.pid}.2\n", 20)
    for client in held:
        client.close()
    if os.geteuid() == 0:  # nobody else can look into a server
        until(lambda: os.listdir(f"/proc/{server.pid}/fd") == descriptors)
    assert runner.run("stop", "-a").code == 0
    assert server.code_result(answer)["reason"] == "cancelled"
    assert server.close() == 0


ASK_AS_ANOTHER = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.settimeout(10)
client.connect(sys.argv[1])
try:
    client.sendall(b'{"method":"list"}\\n')
    print(client.recv(1000))
except ConnectionError:
    print(b"")
"""


def test_others_are_not_answered(as_each):
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    server = as_each.serve()
    path = as_each.place / "control" / f"{server.pid}.sock"
    place = path.parent
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    place.chmod(0o711)  # as nobody should
    path.chmod(0o666)

    def ask(user):
        done = subprocess.run([sys.executable, "-c", ASK_AS_ANOTHER, str(path)], capture_output=True, text=True,
                              user=user, group=user, extra_groups=[])
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert ask(23456) == "b''\n"
    assert '"runs":[]' in ask(as_each.identity.uid) and '"runs":[]' in ask(0)
    # And the directory is not trusted any more.
    done = as_each.run("ps")
    assert done.code == 1
    one_sentence(done, str(place), "0711")
    place.chmod(0o700)
    assert server.close() == 0


# The directory


def test_where_sockets_are_without_a_setting(as_user):
    runtime = as_user.place / "runtime"
    runtime.mkdir(0o700)
    as_user.identity.own(runtime)
    env = {"SANDBOX_RUNNER_CONTROL_DIRECTORIES": None, "XDG_RUNTIME_DIR": runtime}
    server = as_user.serve(env=env)
    path = runtime / "sandbox-runner" / f"{server.pid}.sock"
    assert stat.S_ISSOCK(path.stat().st_mode) and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    answer = server.submit_code("python", SLEEP, 20)
    until(lambda: f"{server.pid}.1" in as_user.run("ps", "-q", env=env).out)
    assert as_user.run("stop", f"{server.pid}.1", env=env).code == 0
    assert server.code_result(answer)["reason"] == "cancelled"
    assert server.close() == 0


def test_a_server_without_a_runtime_directory_is_found_from_a_login(as_user):
    """Clients start servers with a bare environment."""
    env = {"SANDBOX_RUNNER_CONTROL_DIRECTORIES": None, "XDG_RUNTIME_DIR": None}
    server = as_user.serve(env=env)
    answer = server.submit_code("python", SLEEP, 20)
    env["XDG_RUNTIME_DIR"] = as_user.place
    until(lambda: f"{server.pid}.1" in as_user.run("ps", "-q", env=env).out)
    assert as_user.run("stop", f"{server.pid}.1", env=env).code == 0
    assert server.code_result(answer)["reason"] == "cancelled"
    assert server.close() == 0


def link(place):
    (place / "target").mkdir(0o700)
    (place / "control").symlink_to("target")


def open_to_others(place):
    (place / "control").mkdir()
    (place / "control").chmod(0o755)


def of_another_user(place):
    (place / "control").mkdir(0o700)
    os.chown(place / "control", 23456, 23456)


def file(place):
    (place / "control").touch()


@pytest.mark.parametrize("make, words", [(link, ["symbolic link"]), (open_to_others, ["0755", "0700"]), (file, ["no directory"]),
                                         *([(of_another_user, ["23456"])] if os.geteuid() == 0 else [])])
def test_a_directory_that_cannot_be_trusted(as_user, make, words):
    make(as_user.place)
    for name in ("control", "target"):
        if make is not of_another_user and (as_user.place / name).exists():
            as_user.identity.own(as_user.place / name)
    for args in (["ps"], ["ps", "--json"], ["stop", "--all"], ["stop", "1.1"]):
        done = as_user.run(*args)
        assert done.code == 1, repr(done)
        one_sentence(done, str(as_user.place / "control"), *words)
    # A server goes on, and says so once.
    server = as_user.serve()
    assert server.run_code("python", "print(1)\n")["stdout"] == "1\n"
    assert server.close() == 0
    assert len(server.stderr.splitlines()) == 1 and "warning" in server.stderr and words[0] in server.stderr
    assert as_user.run("run", "-l", "python", "-c", "import time; time.sleep(0.3); print(2)").out == "2\n"


def test_the_next_directory_does_as_well(runner):
    open_to_others(runner.place)
    second = runner.place / "second"
    env = {"SANDBOX_RUNNER_CONTROL_DIRECTORIES": f"{runner.place / 'control'}:{second}"}
    server = runner.serve(env=env)
    assert (second / f"{server.pid}.sock").exists() and server.stderr == ""
    done = runner.run("ps", "--json", env=env)
    assert done.code == 0 and done.json() == [] and "0755" in done.err
    assert server.close() == 0


def test_no_directory_at_all(runner):
    server = runner.serve("--set", "control.directories=")
    assert server.run_code("python", "print(1)\n")["stdout"] == "1\n"
    assert runner.run("ps", "--json", "--set", "control.directories=").json() == []
    assert server.close() == 0 and server.stderr == ""
