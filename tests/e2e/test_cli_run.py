"""`run` as people and scripts use it: arguments, streams, exit statuses, refusals, strange callers.

What snippets may do inside is the business of test_snippets_*; here it is how their end reaches the caller.
"""

import fcntl
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import time

import pytest

import support
from sentences import one_sentence

CONTRACT = ["status", "exit_code", "stdout", "stderr", "duration_ms", "language"]

HELLO_CPP = """
#include <iostream>
int main(int argc, char **argv)
{
        for (int i = 1; i < argc; i++)
                std::cout << argv[i] << '\\n';
        return argc;
}
"""


# run: the program's output and end are ours


def test_a_line_of_python(as_each):
    done = as_each.run("run", "-c", "print(6*7)", "-l", "python")
    assert (done.code, done.out, done.err) == (0, "42\n", "")


def test_a_file_tells_its_language(as_each):
    done = as_each.run("run", as_each.file("a.b.py", "import sys; print(sys.argv[1:])"), "--", "-x", "--", "y z")
    assert (done.code, done.out, done.err) == (0, "['-x', '--', 'y z']\n", "")


def test_cpp_compiles_and_gets_its_arguments(as_each):
    done = as_each.run("run", "-t", "20", as_each.file("hello.cpp", HELLO_CPP), "--", "--help", "b")
    assert (done.code, done.out, done.err) == (3, "--help\nb\n", "")


@pytest.mark.parametrize("args", [["-lPython", "-"], ["--language=py", "-"], ["-l", " python3 ", "--", "-"]])
def test_the_snippet_from_standard_input(runner, args):
    assert runner.run("run", *args, input="print('piped')").out == "piped\n"


def test_a_file_after_the_dashes(runner):
    runner.file("-odd.py", "import sys; print(sys.argv[1:])")
    done = runner.run("run", "--", "-odd.py", "-a", "--")
    assert (done.code, done.out) == (0, "['-a', '--']\n")


@pytest.mark.parametrize("code, status, told", [
    ("raise SystemExit(3)", 3, None),
    ("raise SystemExit(255)", 255, None),
    ("import os; os.abort()", 134, "signal 6"),
    ("import os; os.kill(os.getpid(), 9)", 137, "signal 9"),
    ("import ctypes; ctypes.string_at(0)", 139, "signal 11"),
])
def test_the_exit_status_is_the_programs(runner, code, status, told):
    done = runner.run("run", "-l", "python", "-c", code)
    assert done.code == status, repr(done)
    assert (told is None and done.err == "") or (told is not None and told in done.err), repr(done)


def test_a_compile_error_has_the_compilers_words_and_status(runner):
    done = runner.run("run", runner.file("bad.cpp", "int main() { return x; }\n"))
    assert done.code == 1 and done.out == "", repr(done)
    assert "error:" in done.err and "'x' was not declared" in done.err.replace("‘", "'").replace("’", "'")
    assert done.err.count("was not declared") == 1, repr(done)


def test_a_compiler_that_runs_out_of_time_is_124_and_said(runner):
    done = runner.run("run", "--set", "compile.timeout=0.1", "-l", "cpp", "-c", "#include <bits/stdc++.h>\nint main() {}")
    assert done.code == 124 and done.out == "", repr(done)
    assert len(done.err.splitlines()) == 1 and "compil" in done.err and "timed out" in done.err, repr(done)


def test_warnings_of_a_compiler_are_not_output(runner):
    code = "#warning careful\n#include <cstdio>\nint main() { puts(\"ran\"); }\n"
    done = runner.run("run", "-l", "cpp", "-c", code)
    assert (done.code, done.out) == (0, "ran\n"), repr(done)


def test_running_out_of_time_is_124_and_said(as_each):
    began = time.monotonic()
    done = as_each.run("run", "-l", "python", "-t", "1", "-c", "print('before', flush=True)\nwhile True: pass")
    assert done.code == 124, repr(done)
    one_sentence(done, "it took longer than 1 second", "-t", "run.max_timeout", out="before\n")
    assert time.monotonic() - began < 6


def test_output_comes_as_it_is_written(runner):
    code = "import sys, time\nprint('first', flush=True)\ntime.sleep(8)\nprint('second')"
    process = runner.start("run", "-l", "python", "-c", code, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    began = time.monotonic()
    assert process.stdout.readline() == b"first\n"
    assert time.monotonic() - began < 6
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143


def test_output_is_not_touched(runner):
    """Bytes of every value, and more of them than a result keeps."""
    code = ("import sys\nall = bytes(range(256)) * 2000\n"
            "sys.stdout.buffer.write(all)\nsys.stdout.buffer.flush()\nsys.stderr.buffer.write(all[:700])\n")
    done = runner.run("run", "-l", "python", "-c", code)
    assert done.code == 0
    assert done.raw_out == bytes(range(256)) * 2000
    assert done.raw_err == (bytes(range(256)) * 3)[:700]


def test_standard_input_is_empty_unless_asked_for(runner):
    code = "import sys; print(repr(sys.stdin.buffer.read()))"
    path = runner.file("input", b"from\0a file\xff")
    snippet = runner.file("read.py", code)
    assert runner.run("run", snippet, input="ours").out == "b''\n"
    assert runner.run("run", snippet, "--stdin", "-", input="ours").out == "b'ours'\n"
    assert runner.run("run", snippet, f"--stdin={path}", input="ours").out == "b'from\\x00a file\\xff'\n"


def test_a_program_need_not_read_its_input(runner):
    done = runner.run("run", "-l", "python", "-c", "print('done')", "--stdin", "/dev/zero")
    assert (done.code, done.out) == (0, "done\n"), repr(done)


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_run_and_all_it_started(runner, number, status):
    code = ("import os, sys, time\n"
            "for i in range(3):\n    os.fork()\n"
            "os.write(1, b'up\\n')\ntime.sleep(60)\n")
    process = runner.start("run", "-l", "python", "-t", "30", "-c", code, stdout=subprocess.PIPE,
                           start_new_session=True)
    assert process.stdout.readline() == b"up\n"
    below = support.descendants(process.pid)
    assert len(below) >= 3
    os.killpg(process.pid, number)  # a terminal sends it to the whole foreground group
    assert process.wait(10) == status
    assert support.wait_until(lambda: not support.alive(below), 2), support.alive(below)


def test_a_signal_is_heard_while_nobody_reads(runner):
    process = runner.start("run", "-l", "python", "-t", "30", "-c", "while True: print('x' * 1000)",
                           stdout=subprocess.PIPE)
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    assert select.select([process.stdout], [], [], 20)[0]
    time.sleep(0.5)  # until the pipe is full
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130


def test_an_ignored_signal_stays_ignored(runner):
    """As a background job of a shell without job control, or under nohup."""
    process = runner.start("run", "-l", "python", "-c", "import time; print('up', flush=True); time.sleep(1.5)",
                           stdout=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_goes_away_ends_the_run(runner, stream):
    code = f"import sys\nwhile True: print('x' * 100, file=sys.{stream}, flush=True)"
    process = runner.start("run", "-l", "python", "-t", "30", "-c", code, **{stream: subprocess.PIPE})
    pipe = getattr(process, stream)
    assert pipe.read(10) == b"x" * 10
    below = support.descendants(process.pid)
    pipe.close()
    assert process.wait(10) == 141
    assert support.wait_until(lambda: not support.alive(below), 2)


def test_a_full_disk_is_said(runner):
    with open("/dev/full", "wb") as full:
        process = runner.start("run", "-l", "python", "-c", "print('lost')", stdout=full, stderr=subprocess.PIPE)
        _out, err = process.communicate(timeout=30)
    assert process.returncode == 125
    assert b"standard output" in err and b"No space left" in err


@pytest.mark.parametrize("args, status", [
    (["languages"], 1), (["config"], 1), (["config", "--json"], 1), (["doctor"], 1), (["history"], 1),
    (["--help"], 1), (["--version"], 1), (["run", "--help"], 125),
    (["run", "--json", "-l", "python", "-c", "1"], 125)])
def test_no_listing_is_lost_in_silence(runner, args, status):
    with open("/dev/full", "wb") as full:
        process = runner.start(*args, stdout=full, stderr=subprocess.PIPE)
        _out, err = process.communicate(timeout=30)
    assert process.returncode == status
    assert b"cannot write to standard output: No space left" in err


def test_a_listing_nobody_reads_is_141(runner):
    read, write = os.pipe()
    os.close(read)
    process = runner.start("config", stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _out, err = process.communicate(timeout=30)
    assert process.returncode == 141 and b"standard output" in err


# run --json


def test_json_is_the_whole_result(as_each):
    done = as_each.run("run", "--json", "-l", "python", "-c", "import sys; print('é\\0'); print(1, file=sys.stderr)")
    assert done.code == 0 and done.err == ""
    result = done.json()
    assert list(result)[:6] == CONTRACT
    assert result["status"] == "success" and result["exit_code"] == 0 and result["language"] == "python"
    assert result["stdout"] == "é\0\n" and result["stderr"] == "1\n" and result["reason"] == "exit"
    assert done.out == json.dumps(result, indent=2, ensure_ascii=False) + "\n"


def test_the_readme_explains_every_member(runner):
    readme = (support.CHECKOUT / "README.md").read_text()
    table = readme[readme.index("## The result"):readme.index("## Languages")]
    explained = set(re.findall(r"`([a-z_]+)`", table))
    results = [runner.snippet("cpp", code) for code in
               ("#warning w\nint main() { __builtin_trap(); }", "int main() { return 0; }")]
    results.append(runner.snippet("cpp", "int main() {}", options=["--db", "/proc/none"]))
    for result in results:
        members = set(result) | {name for stage in result["stages"] for name in stage}
        assert members <= explained, members - explained
        assert result["reason"] in explained and result["status"] in explained
    assert "compiler_output" in results[0] and "history_problem" in results[2]


@pytest.mark.parametrize("args, status, reason, exit_code", [
    (["-l", "python", "-c", "raise SystemExit(7)"], "error", "exit", 7),
    (["-l", "python", "-t", "1", "-c", "while True: pass"], "timeout", "timeout", None),
    (["-l", "cpp", "-c", "nonsense"], "compile_error", "exit", 1),
    (["-l", "klingon", "-c", "1"], "error", "refused", None),
    (["-l", "python", "-c", " \n\t"], "error", "refused", None),
    (["-l", "python", "-t", "31", "-c", "1"], "error", "refused", None),
    (["-l", "python", "--image", "no/such:image", "-c", "1"], "error", "refused", None),
])
def test_json_exits_with_0_whatever_became_of_the_program(runner, args, status, reason, exit_code):
    done = runner.run("run", "--json", *args)
    assert done.code == 0, repr(done)
    result = done.json()
    assert (result["status"], result["reason"], result["exit_code"]) == (status, reason, exit_code)


@pytest.mark.parametrize("args, language, words", [
    (["big.py"], "python", ["big.py", "51200", "run.max_code"]),
    (["-l", " Python ", "/dev/zero"], "python", ["/dev/zero", "51200"]),
    (["-l", "cpp", "-"], "cpp", ["standard input", "51200"]),
    (["snippet.klingon"], "", ["snippet.klingon", "-l"]),
])
def test_json_of_what_never_reaches_the_runner(runner, args, language, words):
    """The object is that of any refusal, to the last member."""
    runner.file("big.py", "#" * 51201)
    runner.file("snippet.klingon", "print(1)")
    done = runner.run("run", "--json", *args, input="x" * 51201)
    assert done.code == 0 and done.err == "", repr(done)
    result = done.json()
    for word in words:
        assert word in result["stderr"], result
    usual = runner.run("run", "--json", "-l", "python", "-c", " ").json()
    assert usual["limits"] and result["limits"] is None  # nobody was asked what holds them
    usual["limits"] = None
    assert result | {"stderr": ""} == usual | {"stderr": "", "language": language}


def test_json_of_a_spawner_that_cannot_start(runner):
    lonely = runner.place / "lonely"
    lonely.mkdir()
    copy = shutil.copy(runner.program, lonely / "sandbox-runner")
    process = subprocess.run([copy, "run", "--json", "-l", "python", "-c", "1"], env=runner.env, cwd=runner.place,
                             capture_output=True, timeout=60)
    assert process.returncode == 0 and process.stderr == b"", process
    result = json.loads(process.stdout)
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "internal", None)
    assert list(result)[:6] == CONTRACT and "sandbox-runner-spawner" in result["stderr"]


@pytest.mark.parametrize("args", [["missing.py"], ["-l", "python"], ["-l", "python", "-c", "1", "--stdin", "missing"]])
def test_json_does_not_cover_the_command_line(runner, args):
    done = runner.run("run", "--json", *args)
    assert done.code == 125 and done.out == "" and done.err.startswith("sandbox-runner: "), repr(done)


def test_json_tells_which_limits_were_hit(runner):
    for count, hit in ((1000, []), (200000, ["output"])):
        result = runner.run("run", "--json", "-l", "python", "-c", f"print('x' * {count})").json()
        assert result["limits_hit"] == hit and result["cached"] is False and result["status"] == "success"


def test_a_fault_of_ours_is_told_behind_the_output_that_came(runner):
    code = "import sys, time\nprint('before', file=sys.stderr, flush=True)\ntime.sleep(30)"
    process = runner.start("run", "-l", "python", "-t", "30", "-c", code, stderr=subprocess.PIPE)
    assert process.stderr.readline() == b"before\n"
    os.kill(support.spawner_of(process.pid), signal.SIGKILL)
    _out, err = process.communicate(timeout=20)
    assert process.returncode == 125
    assert re.fullmatch(rb"sandbox-runner: .+\n", err), err


def test_json_of_an_interrupted_run(runner):
    process = runner.start("run", "--json", "-l", "python", "-t", "30", "-c", "import time; time.sleep(30)",
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert support.wait_until(lambda: len(support.descendants(process.pid)) >= 3, 20)
    process.send_signal(signal.SIGINT)
    out, _err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert json.loads(out)["reason"] == "cancelled"


# run: refusals


@pytest.mark.parametrize("args, words", [
    (["-l", "klingon", "-c", "1"], ["klingon"]),
    (["-l", "python", "-c", " \n\t"], []),
    (["-l", "python", "-c", "1", "-t", "31"], ["30"]),
    (["missing.py"], ["missing.py", "No such file"]),
    (["."], [".", "Is a directory"]),
    (["-l", "python", "-c", "1", "--stdin", "missing"], ["missing", "No such file"]),
    (["-l", "python", "-c", "1", "--stdin", "."], [".", "Is a directory"]),
    (["snippet"], ["snippet", "-l"]),
    (["snippet.klingon"], ["snippet.klingon", "-l"]),
    (["big.py"], ["big.py", "51200", "run.max_code"]),
    (["-l", "python", "/dev/zero"], ["/dev/zero", "51200"]),
    (["--set", "run.timeout=fast", "snippet.py"], ["run.timeout", "fast"]),
    (["--set", "run.tmieout=5", "snippet.py"], ["run.tmieout", "run.timeout"]),
    (["--config", "missing.json", "snippet.py"], ["missing.json"]),
])
def test_a_refusal_is_one_sentence_and_125(runner, args, words):
    for name in ("snippet", "snippet.klingon", "snippet.py"):
        runner.file(name, "print(1)")
    runner.file("big.py", "#" * 51201)
    done = runner.run("run", *args)
    assert done.code == 125, repr(done)
    one_sentence(done, *words)


def test_a_snippet_of_exactly_the_limit_runs(runner):
    done = runner.run("run", runner.file("big.py", "print('fits')\n" + "#" * (51200 - 14)))
    assert (done.code, done.out) == (0, "fits\n"), repr(done)


def test_standard_input_that_is_too_long_is_refused(runner):
    done = runner.run("run", "-l", "python", "-", input="#" * 51201)
    assert done.code == 125
    one_sentence(done, "standard input", "51200")


def test_an_absent_image_names_what_brings_it(runner):
    done = runner.run("run", "-l", "python", "-c", "1", env={"SANDBOX_RUNNER_IMAGES_LOWER_STORE": None})
    assert done.code == 125 and done.out == ""
    assert "sandbox-runner image build python" in done.err and "sandbox-runner image import" in done.err


def test_another_image(runner):
    done = runner.run("run", "-l", "python", "--image", "no/such:image", "-c", "1")
    assert done.code == 125 and "no/such:image" in done.err, repr(done)


# What a caller may have done to us


def limit_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))


def close_all():
    for fd in (0, 1, 2):
        os.close(fd)


def test_started_with_closed_descriptors(runner):
    database = runner.place / "history.db"
    process = runner.start("run", "--db", database, "-l", "python", "-c", "print(1)", preexec_fn=close_all)
    assert process.wait(30) == 0
    assert runner.run("history", "--db", database, "--json").json()[0]["status"] == "success"


def test_a_closed_output_is_said(runner):
    done = runner.run("languages", preexec_fn=lambda: os.close(1))
    assert done.code == 1
    one_sentence(done, "standard output")


@pytest.mark.parametrize("spoil", [
    lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGALRM}),
    lambda: os.umask(0o777),
    lambda: os.umask(0),
    lambda: os.chdir("/"),
    limit_files,
    os.setsid,
], ids=["SIGCHLD", "SIGPIPE", "mask", "umask 777", "umask 0", "root", "files", "session"])
def test_a_strange_start_changes_nothing(runner, spoil):
    done = runner.run("run", "-l", "python", "-c", "import subprocess; print(subprocess.run(['true']).returncode)",
                      preexec_fn=spoil)
    assert (done.code, done.out, done.err) == (0, "0\n", "")


def test_nobody_else_can_read_what_is_kept(runner):
    assert runner.run("run", "-l", "python", "-c", "1", preexec_fn=lambda: os.umask(0)).code == 0
    kept = runner.run("config", "--json").json()
    database = next(entry["value"] for entry in kept if entry["name"] == "history.database")
    assert os.stat(database).st_mode & 0o077 == 0
    assert os.stat(os.path.dirname(database)).st_mode & 0o077 == 0


def test_without_any_home(runner):
    nowhere = {name: None for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
                                       "XDG_CACHE_HOME")}
    done = runner.run("config", "--json", env=nowhere)
    assert done.code == 0, repr(done)
    places = {entry["name"]: entry["value"] for entry in done.json()}
    assert places["images.store"].startswith("/") and places["history.database"].startswith("/")
    done = runner.run("run", "--db", "here.db", "--store", "images", "-l", "python", "-c", "print(1)", env=nowhere)
    assert (done.code, done.out, done.err) == (0, "1\n", "")
    assert (runner.place / "here.db").exists()


def test_a_compilers_warnings_come_before_the_programs_output(runner):
    source = runner.file("warned.cpp", "#include <cstdio>\nint main() { int a = 1 / 0; (void)a; std::fputs(\"ran\\n\", stderr); }\n")
    done = runner.run("run", source)
    assert "division by zero" in done.err and done.err.rstrip().endswith("ran"), done
