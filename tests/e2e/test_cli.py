"""The command as people and scripts use it: arguments, streams, exit statuses, listings, help.

What snippets may do inside is the business of test_snippets_*; here it is how their end reaches the caller.
"""

import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import sqlite3
import subprocess
import termios
import time

import pytest

import support

VERBS = ["run", "languages", "history", "image", "config", "doctor", "help"]
LISTINGS = ["languages", "history", "config", "doctor"]
CONTRACT = ["status", "exit_code", "stdout", "stderr", "duration_ms", "language"]
HISTORY = ["id", "timestamp", "language", "code_snippet", "status", "exit_code", "duration_ms", "stdout_size",
           "stderr_size"]

HELLO_CPP = """
#include <iostream>
int main(int argc, char **argv)
{
        for (int i = 1; i < argc; i++)
                std::cout << argv[i] << '\\n';
        return argc;
}
"""


def one_sentence(done, *words):
    """The reason is one line on stderr that names what it is about; nothing is on stdout."""
    lines = done.err.splitlines()
    assert len(lines) == 1, repr(done)
    assert lines[0].startswith("sandbox-runner: "), repr(done)
    for word in words:
        assert word in lines[0], repr(done)
    assert done.out == "", repr(done)


# Help and mistakes


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"], ["--log-level", "debug", "--help"]])
def test_help_lists_every_command(runner, args):
    done = runner.run(*args)
    assert done.code == 0 and done.err == ""
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", done.out, re.M), verb


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "image"])
def test_every_command_explains_itself(runner, verb):
    asked = [runner.run(verb, "--help"), runner.run(verb, "-h"), runner.run("help", verb)]
    for done in asked:
        assert done.code == 0 and done.err == "" and done.out == asked[0].out, repr(done)
    assert asked[0].out.startswith(f"Usage: sandbox-runner {verb}")
    assert "--set NAME=VALUE" in asked[0].out


def test_image_explains_itself(runner):
    direct, through_help = runner.run("image", "--help"), runner.run("help", "image")
    assert direct.code == 0 and "build" in direct.out and "import" in direct.out and "list" in direct.out
    assert through_help.code == 0 and through_help.out == direct.out


@pytest.mark.parametrize("args", [["--version"], ["run", "--version"], ["history", "show", "--version"],
                                  ["--version", "--nonsense"]])
def test_version(runner, args):
    done = runner.run(*args)
    assert done.code == 0 and re.fullmatch(r"sandbox-runner \d+\.\d+\.\d+\n", done.out), repr(done)


@pytest.mark.parametrize("args, words, page", [
    (["nonsense"], ["nonsense"], "sandbox-runner --help"),
    (["--nonsense"], ["--nonsense"], "sandbox-runner --help"),
    (["--set", "run.timeout"], ["--set", "run.timeout"], "sandbox-runner --help"),
    (["--set"], ["--set", "NAME=VALUE"], "sandbox-runner --help"),
    (["--transport", "stdio", "config"], ["--transport", "config"], "sandbox-runner --help"),
    (["--transport", "sse"], ["sse", "stdio"], "sandbox-runner --help"),
    (["languages", "extra"], ["extra"], "sandbox-runner languages --help"),
    (["languages", "--json=yes"], ["--json"], "sandbox-runner languages --help"),
    (["languages", "-l", "python"], ["-l"], "sandbox-runner languages --help"),
    (["config", "run.timeout=3"], ["--set"], "sandbox-runner config --help"),
    (["doctor", "me"], ["me"], "sandbox-runner doctor --help"),
    (["help", "nonsense"], ["nonsense"], "sandbox-runner help --help"),
    (["help", "run", "config"], ["one"], "sandbox-runner help --help"),
    (["history", "--limit", "many"], ["--limit", "many"], "sandbox-runner history --help"),
    (["history", "list"], ["list"], "sandbox-runner history --help"),
    (["history", "show"], ["which"], "sandbox-runner history --help"),
    (["history", "show", "one"], ["one"], "sandbox-runner history --help"),
    (["history", "show", "1", "2"], ["2"], "sandbox-runner history --help"),
    (["history", "prune"], ["--keep", "--older-than"], "sandbox-runner history --help"),
    (["history", "prune", "--keep", "-1"], ["--keep", "-1"], "sandbox-runner history --help"),
    (["history", "--keep", "3"], ["--keep", "prune"], "sandbox-runner history --help"),
    (["history", "show", "1", "--limit", "3"], ["--limit"], "sandbox-runner history --help"),
])
def test_a_wrong_command_line_is_exit_2(runner, args, words, page):
    done = runner.run(*args)
    assert done.code == 2 and done.out == "", repr(done)
    reason, hint = done.err.splitlines()
    assert reason.startswith("sandbox-runner: ") and all(word in reason for word in words), repr(done)
    assert hint == f"See {page}.", repr(done)


@pytest.mark.parametrize("args, words", [
    ([], ["what to run"]),
    (["-c", "1"], ["-l"]),
    (["-"], ["-l"]),
    (["-l", "python", "-c", "1", "file.py"], ["file.py", "--"]),
    (["file.py", "-c", "1"], ["one snippet"]),
    (["-l", "python", "-c", "1", "-c", "2"], ["one snippet"]),
    (["-l", "python", "-c", "1", "-t", "abc"], ["--timeout", "abc"]),
    (["-l", "python", "-c", "1", "-t", "1.5"], ["--timeout", "1.5"]),
    (["-l", "python", "-c", "1", "-t", ""], ["--timeout"]),
    (["-l", "python", "-c", "1", "-t", "0"], ["--timeout", "from 1"]),
    (["-l", "python", "-c", "1", "-t", "-3"], ["--timeout", "from 1"]),
    (["-l", "python", "-c", "1", "--nonsense"], ["--nonsense"]),
    (["-l", "python", "-c"], ["--code"]),
    (["-l", "python", "-", "--stdin", "-"], ["standard input"]),
])
def test_run_keeps_2_for_programs_and_answers_mistakes_with_125(runner, args, words):
    done = runner.run("run", *args)
    assert done.code == 125 and done.out == "", repr(done)
    assert all(word in done.err.splitlines()[0] for word in words), repr(done)
    assert "See sandbox-runner run --help." in done.err


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def test_help_and_manual_page_name_the_same_things(runner):
    """Every command and option that help names is in the page, and the page names no option that help lacks."""
    page = subprocess.run(["mandoc", "-T", "ascii", support.CHECKOUT / "man" / "sandbox-runner.1"],
                          stdout=subprocess.PIPE, check=True).stdout.decode()
    page = re.sub(".\x08", "", page)  # overstrikes
    helps = [runner.run("--help").out] + [runner.run(verb, "--help").out for verb in VERBS if verb != "image"]
    named = set().union(*map(options_of, helps))
    # The companion has a page or help of its own; the page names none of its options.
    assert options_of(page) == named
    for verb in VERBS:
        assert re.search(rf"^   {verb}$", page, re.M), verb
    for text in helps:
        for letter in re.findall(r"^  (-[a-z]),", text, re.M):
            assert re.search(rf"^     {letter}, --", page, re.M), letter


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


def test_warnings_of_a_compiler_are_not_output(runner):
    code = "#warning careful\n#include <cstdio>\nint main() { puts(\"ran\"); }\n"
    done = runner.run("run", "-l", "cpp", "-c", code)
    assert (done.code, done.out) == (0, "ran\n"), repr(done)


def test_running_out_of_time_is_124_and_said(as_each):
    began = time.monotonic()
    done = as_each.run("run", "-l", "python", "-t", "1", "-c", "print('before', flush=True)\nwhile True: pass")
    assert done.code == 124 and done.out == "before\n", repr(done)
    assert "longer than 1 second" in done.err and len(done.err.splitlines()) == 1, repr(done)
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
])
def test_json_exits_with_0_whatever_became_of_the_program(runner, args, status, reason, exit_code):
    done = runner.run("run", "--json", *args)
    assert done.code == 0, repr(done)
    result = done.json()
    assert (result["status"], result["reason"], result["exit_code"]) == (status, reason, exit_code)


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


# languages


def test_languages(as_each):
    listed = as_each.run("languages", "--json").json()
    by_name = {entry["language"]: entry for entry in listed}
    assert list(by_name) == sorted(by_name)
    assert by_name["python"]["image"] == "python:3.12-slim" and by_name["cpp"]["image"] == "gcc:14"
    assert by_name["python"]["compiled"] is False and by_name["cpp"]["compiled"] is True
    for name in ("python", "cpp"):
        entry = by_name[name]
        assert entry["ready"] in [entry["image"], *entry["fallback_images"]] and entry["description"]
        assert entry["ready"] == as_each.snippet(name, "int main() {}\n" if name == "cpp" else "1")["image"]
    table = as_each.run("languages")
    lines = table.out.splitlines()
    assert lines[0].split() == ["LANGUAGE", "IMAGE", "READY", "DESCRIPTION"] and len(lines) == len(listed) + 1
    for line, entry in zip(lines[1:], listed):
        assert line.split()[:3] == [entry["language"], entry["image"], entry["ready"] or "no"]


def test_languages_without_images(runner):
    nothing = {"SANDBOX_RUNNER_IMAGES_LOWER_STORE": None}
    assert all(entry["ready"] is None for entry in runner.run("languages", "--json", env=nothing).json())
    assert "  no  " in runner.run("languages", env=nothing).out


def test_a_faulty_language_file_is_named_and_harms_nothing(runner):
    here = runner.place / "languages"
    here.mkdir()
    (here / "broken.json").write_text("{ not json")
    (here / "half.json").write_text('{"description": "half of a language"}')
    setting = f"languages.directories={support.CHECKOUT / 'images'}:{here}"
    done = runner.run("languages", "--json", "--set", setting)
    assert done.code == 0 and {"python", "cpp"} <= {entry["language"] for entry in done.json()}
    assert "broken.json" in done.err and "half.json" in done.err
    ran = runner.run("run", "--set", setting, "-l", "python", "-c", "print(1)")
    assert (ran.code, ran.out) == (0, "1\n"), repr(ran)
    checks = {check["name"]: check for check in runner.run("doctor", "--json", "--set", setting).json()["checks"]}
    assert checks["languages"]["state"] == "warning" and "broken.json" in checks["languages"]["detail"]


# history


def test_history_of_nothing_makes_nothing(runner):
    database = runner.place / "deep" / "history.db"
    assert runner.run("history", "--db", database, "--json").json() == []
    done = runner.run("history", "--db", database)
    assert done.code == 0 and done.out.split() == ["ID", "TIME", "LANGUAGE", "STATUS", "EXIT", "MS", "CODE"]
    assert runner.run("history", "prune", "--keep", "0", "--db", database).out == "Deleted 0 runs.\n"
    done = runner.run("history", "show", "1", "--db", database)
    assert done.code == 1
    one_sentence(done, "1")
    assert not database.parent.exists()


def test_history_lists_shows_and_prunes(runner):
    for code in ("print(1)", "print('two')\nraise SystemExit(2)", "\x1b[2Jwhile"):
        runner.run("run", "-l", "python", "-c", code)
    runner.run("run", "-l", "klingon", "-c", "refused runs are not recorded")
    listed = runner.run("history", "--json").json()
    assert [entry["exit_code"] for entry in listed] == [1, 2, 0]
    assert all(list(entry) == HISTORY for entry in listed)
    assert listed[1]["code_snippet"] == "print('two')\nraise SystemExit(2)" and listed[1]["stdout_size"] == 4
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", listed[0]["timestamp"])
    for limit, count in (("2", 2), ("0", 1), ("-5", 1), ("1000", 3)):
        assert len(runner.run("history", "--limit", limit, "--json").json()) == count

    table = runner.run("history").out
    assert "\x1b" not in table and "\\x1b[2Jwhile" in table and len(table.splitlines()) == 4

    shown = runner.run("history", "show", listed[1]["id"], "--json").json()
    assert {name: shown[name] for name in HISTORY} == listed[1]
    assert shown["facts"]["reason"] == "exit" and shown["facts"]["image"]
    text = runner.run("history", "show", listed[1]["id"]).out
    assert text.endswith("\n\nprint('two')\nraise SystemExit(2)\n")
    assert "\x1b" not in runner.run("history", "show", listed[0]["id"]).out

    assert runner.run("history", "prune", "--older-than", "1").out == "Deleted 0 runs.\n"
    assert runner.run("history", "prune", "--keep", "2").out == "Deleted 1 run.\n"
    assert [entry["id"] for entry in runner.run("history", "--json").json()] == [e["id"] for e in listed[:2]]
    assert runner.run("history", "prune", "--older-than", "0", "--json").json() == {"deleted": 2}
    assert runner.run("history", "--json").json() == []


def test_a_damaged_history_is_a_sentence_and_stays(runner):
    damaged = runner.file("damaged.db", b"this is no database" * 500)
    before = damaged.read_bytes()
    for args in (["history"], ["history", "show", "1"], ["history", "prune", "--keep", "1"]):
        done = runner.run(*args, "--db", damaged)
        assert done.code == 1, repr(done)
        one_sentence(done, str(damaged))
    assert damaged.read_bytes() == before
    done = runner.run("run", "--db", damaged, "-l", "python", "-c", "print(1)")
    assert (done.code, done.out) == (0, "1\n"), repr(done)


def test_a_history_that_cannot_be_written_is_said_and_the_run_goes_on(runner):
    runner.file("not-a-directory", "")
    done = runner.run("run", "--db", "not-a-directory/history.db", "-l", "python", "-c", "print(1); exit(4)")
    assert (done.code, done.out) == (4, "1\n")
    assert len(done.err.splitlines()) == 1 and "not-a-directory" in done.err, repr(done)


def test_a_database_with_rows_of_the_older_server(runner):
    path = runner.place / "old.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs(id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL,"
                         " language TEXT NOT NULL, code_snippet TEXT NOT NULL, status TEXT NOT NULL,"
                         " exit_code INTEGER, duration_ms REAL NOT NULL, stdout_size INTEGER NOT NULL DEFAULT 0,"
                         " stderr_size INTEGER NOT NULL DEFAULT 0)")
        database.execute("INSERT INTO runs(timestamp, language, code_snippet, status, exit_code, duration_ms)"
                         " VALUES (1700000000.25, 'python', 'old', 'timeout', NULL, 10000.5)")
    database.close()
    if runner.identity.switching:
        runner.identity.own(path)
    shown = runner.run("history", "show", "1", "--db", path, "--json").json()
    assert shown["facts"] is None and shown["exit_code"] is None and shown["duration_ms"] == 10000.5
    assert shown["timestamp"] == "2023-11-14T22:13:20.250000+00:00"
    assert "2023-11-14" in runner.run("history", "show", "1", "--db", path).out


# config


def tunables(done):
    return {entry["name"]: entry for entry in done.json()}


def test_each_source_is_stronger_than_the_one_before(runner):
    weak = tunables(runner.run("config", "--json"))["run.timeout"]
    assert weak["value"] == 10 and weak["source"] == "default"
    file = runner.file("settings.json", '{"run": {"timeout": 11}}')
    steps = [(["--config", file], {}, 11, str(file)),
             ([], {"SANDBOX_RUNNER_CONFIG": file}, 11, str(file)),
             (["--config", file], {"SANDBOX_RUNNER_RUN_TIMEOUT": "12"}, 12, "SANDBOX_RUNNER_RUN_TIMEOUT"),
             (["--config", file, "--set", "run.timeout=13"], {"SANDBOX_RUNNER_RUN_TIMEOUT": "12"}, 13, "flag")]
    for args, env, value, source in steps:
        for order in (["config", "--json", *args], [*args, "config", "--json"]):
            entry = tunables(runner.run(*order, env=env))["run.timeout"]
            assert entry["value"] == value and source in entry["source"], entry
    assert tunables(runner.run("config", "--json", "--set", "run.timeout=4", "--set=run.timeout=5")
                    )["run.timeout"]["value"] == 5


def test_the_short_forms_set_what_they_say(runner):
    entries = tunables(runner.run("--db", "a.db", "config", "--json", "--store=b", "--log-level", "debug"))
    assert entries["history.database"]["value"] == str(runner.place / "a.db")
    assert entries["images.store"]["value"] == str(runner.place / "b")
    assert entries["log.level"]["value"] == "debug"


def test_variables_of_others_are_left_alone(runner):
    env = {"SANDBOX_RUNNER_URL": "http://127.0.0.1:1", "SANDBOX_RUNNER_NO_SUCH_THING": "1"}
    assert runner.run("config", env=env).code == 0
    assert runner.run("run", "-l", "python", "-c", "import os; print(len([n for n in os.environ if 'RUNNER' in n]))",
                      env=env).out == "0\n"


@pytest.mark.parametrize("verb", ["config", "languages", "history", "doctor", "image"])
def test_a_wrong_setting_is_a_sentence(runner, verb):
    args = ["--set", "run.timeout=soon", verb] if verb == "image" else [verb, "--set", "run.timeout=soon"]
    done = runner.run(*args)
    assert done.code == 1, repr(done)
    one_sentence(done, "run.timeout", "soon")


@pytest.mark.parametrize("verb", LISTINGS)
def test_json_of_every_listing_is_one_bare_value(runner, verb):
    value = runner.run(verb, "--json").json()
    assert isinstance(value, dict if verb == "doctor" else list)


# doctor


def test_doctor_says_that_snippets_run(as_each):
    done = as_each.run("doctor")
    assert done.code == 0 and done.out.endswith("Snippets can run here.\n"), repr(done)
    report = as_each.run("doctor", "--json").json()
    assert report["ready"] is True
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert set(states.values()) <= {"ok", "warning", "missing"}
    assert all(check["state"] != "missing" for check in report["checks"] if check["needed"])
    assert states["trial run"] == "ok" and states["user namespaces"] == "ok" and states["/proc"] == "ok"
    assert as_each.run("history", "--json").json() == []


def test_doctor_says_what_is_missing_and_what_brings_it(runner):
    env = {"SANDBOX_RUNNER_IMAGES_LOWER_STORE": None}
    done = runner.run("doctor", env=env)
    assert done.code == 1 and "Snippets cannot run here" in done.out
    assert "→ sandbox-runner image build" in done.out
    report = runner.run("doctor", "--json", env=env).json()
    assert report["ready"] is False
    assert {check["name"] for check in report["checks"] if check["state"] == "missing"} >= {"images", "trial run"}


def test_doctor_looks_at_what_is_set(runner):
    runner.file("file", "")
    damaged = runner.file("damaged.db", b"this is no database" * 500)
    checks = {check["name"]: check for check in
              runner.run("doctor", "--json", "--db", damaged, "--store", "file/images").json()["checks"]}
    assert checks["history"]["state"] == "warning" and str(damaged) in checks["history"]["detail"]
    assert checks["image store"]["state"] != "ok", checks["image store"]


# Hosts that forbid something, made in a user namespace of the test's own: the shell is root in it, not on the host.
FORBIDDING = {
    "user namespaces": ("echo 0 >/proc/sys/user/max_user_namespaces", "max_user_namespaces"),
    "other namespaces": ("echo 0 >/proc/sys/user/max_net_namespaces", "/proc/sys/user"),
    "/proc": ("mount -t tmpfs none /proc/sys", "/proc"),
    "user ids": ("true", "sandbox.root_id_base"),
}


@pytest.mark.parametrize("check", FORBIDDING)
def test_doctor_names_what_a_host_forbids(runner, check):
    spoil, word = FORBIDDING[check]
    script = f'{spoil} && exec "$0" "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script,
              runner.program]
    done = runner.run(*inside[1:], "doctor", "--json", argv0=inside[0])
    assert done.code == 1, repr(done)
    report = done.json()
    found = {entry["name"]: entry for entry in report["checks"]}
    assert report["ready"] is False and found[check]["state"] == "missing"
    assert word in found[check]["detail"] + found[check]["advice"] and found[check]["advice"]
    run = runner.run(*inside[1:], "run", "-l", "python", "-c", "print(1)", argv0=inside[0])
    assert run.code == 125, repr(run)
    one_sentence(run)


def test_doctor_without_the_spawner(runner):
    """A copy of the command alone: what it needs is not beside it."""
    alone = runner.place / "alone"
    alone.mkdir()
    program = alone / "sandbox-runner"
    program.write_bytes(open(runner.program, "rb").read())
    program.chmod(0o755)
    done = runner.run("doctor", "--json", argv0=str(program))
    checks = {check["name"]: check for check in done.json()["checks"]}
    assert done.code == 1 and checks["spawner"]["state"] == "missing"
    assert "sandbox-runner-spawner" in checks["spawner"]["detail"] and checks["spawner"]["advice"]
    done = runner.run("run", "-l", "python", "-c", "1", argv0=str(program))
    assert done.code == 125 and "sandbox-runner-spawner" in done.err


# image


def test_image_hands_its_arguments_and_settings_on(runner):
    assert runner.run("image", "list").code == 0
    listed = runner.run("image", "list", "--json").json()
    assert any(entry["reference"] for entry in listed)
    empty = runner.run("--store", "nothing-here", "--set", "images.lower_store=", "image", "list", "--json",
                       env={"SANDBOX_RUNNER_IMAGES_LOWER_STORE": None})
    assert empty.json() == [], repr(empty)
    wrong = runner.run("image", "nonsense")
    assert wrong.code == 2 and "nonsense" in wrong.err, repr(wrong)


# The server, as far as the command line has a say in it


@pytest.mark.parametrize("args, env", [([], {}), (["--transport", "stdio"], {"MCP_TRANSPORT": "sse"}),
                                       (["--transport=stdio"], {}), ([], {"MCP_TRANSPORT": "stdio"}),
                                       ([], {"MCP_TRANSPORT": ""}), (["--log-level", "error"], {})])
def test_the_server_is_what_no_command_means(runner, args, env):
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
    done = runner.run(*args, input=ping, env=env)
    assert done.code == 0 and json.loads(done.out) == {"jsonrpc": "2.0", "id": 1, "result": {}}, repr(done)
    assert done.err == "", repr(done)


def test_a_transport_that_does_not_exist(runner):
    for args, env in ((["--transport", "sse"], {}), ([], {"MCP_TRANSPORT": "sse"})):
        done = runner.run(*args, env=env)
        assert done.code == 2 and "sse" in done.err and "stdio" in done.err and done.out == "", repr(done)
    assert "MCP_TRANSPORT" in runner.run(env={"MCP_TRANSPORT": "sse"}).err


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_server_and_what_it_runs(runner, number, status):
    session = runner.serve()
    session.submit_code("python", "import time; time.sleep(30)", 30)
    assert support.wait_until(lambda: len(support.descendants(session.pid)) >= 3, 20)
    below = support.descendants(session.pid)
    session.process.send_signal(number)
    assert session.process.wait(10) == status, session.stderr
    assert support.wait_until(lambda: not support.alive(below), 2)


def test_a_person_at_a_terminal_gets_a_hint(runner):
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    process = runner.start(stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(slave)
    try:
        line = process.stderr.readline().decode()
        assert "MCP" in line and "sandbox-runner --help" in line
        os.write(master, settings[6][termios.VEOF])  # Ctrl-D
        assert process.wait(10) == 0
        assert process.stdout.read() == b""
    finally:
        os.close(master)
