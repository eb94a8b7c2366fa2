"""The command as people and scripts use it: help, mistakes, listings, settings, and the server's start.

`run` has a file of its own, test_cli_run.py, and so has `doctor`.
"""

import fcntl
import json
import os
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import termios

import pytest

import support
from sentences import one_sentence

VERBS = ["run", "ps", "stop", "languages", "history", "image", "config", "doctor", "help"]
LISTINGS = ["ps", "languages", "history", "config", "doctor"]
HISTORY = ["id", "timestamp", "language", "code_snippet", "status", "exit_code", "duration_ms", "stdout_size",
           "stderr_size"]


# Help and mistakes


def test_help_fits_80_columns(runner):
    for args in ([], *([verb] for verb in VERBS), *(["image", verb] for verb in ("build", "import", "rm", "list", "gc"))):
        for line in runner.run(*args, "--help").out.splitlines():
            assert len(line) <= 80, (args, line)


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"], ["--log-level", "debug", "--help"]])
def test_help_lists_every_command(runner, args):
    done = runner.run(*args)
    assert done.code == 0 and done.err == ""
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", done.out, re.M), verb


@pytest.mark.parametrize("verb", [name for name in VERBS if name != "image"])
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
    (["ps", "me"], ["me"], "sandbox-runner ps --help"),
    (["ps", "--json", "-q"], ["--json", "--quiet"], "sandbox-runner ps --help"),
    (["stop"], ["--all", "ps"], "sandbox-runner stop --help"),
    (["stop", "--all", "1.1"], ["--all"], "sandbox-runner stop --help"),
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
    helps = [runner.run("--help").out] + [runner.run(verb, "--help").out for verb in VERBS]
    image_verbs = re.findall(r"^  ([a-z]+)  ", helps[1 + VERBS.index("image")], re.M)
    assert "build" in image_verbs
    helps += [runner.run("image", verb, "--help").out for verb in image_verbs]
    assert options_of(page) == set().union(*map(options_of, helps))
    for verb in image_verbs:
        assert f"sandbox-runner image {verb}" in page and re.search(rf"^     {verb}\b", page, re.M), verb
    for verb in VERBS:
        assert re.search(rf"^   {verb}$", page, re.M), verb
    for text in helps:
        for letter in re.findall(r"^  (-[a-z]),", text, re.M):
            assert re.search(rf"^     {letter}, --", page, re.M), letter


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
    checks = {check["id"]: check for check in runner.run("doctor", "--json", "--set", setting).json()["checks"]}
    assert checks["languages"]["state"] == "warning" and "broken.json" in checks["languages"]["found"]


def test_a_run_says_what_is_wrong_with_the_file_of_its_language(runner):
    here = runner.place / "languages"
    here.mkdir()
    (here / "half.json").write_text('{"description": "half of a language"}')
    (here / "python.json").write_text("{ not json")
    options = ["--set", f"languages.directories={support.CHECKOUT / 'images'}:{here}"]
    refused = runner.run("run", *options, "-l", " Half", "-c", "1")
    assert refused.code == 125
    one_sentence(refused, "half.json is not used: ", "\"image\"", "\"run\"")
    ran = runner.run("run", *options, "-l", "python", "-c", "print(1)")
    assert (ran.code, ran.out) == (0, "1\n"), repr(ran)
    one_sentence(ran, f"warning: {here}/python.json is not used: ", "stays in use", out="1\n")
    ran = runner.run("run", *options, "-l", "cpp", "-c", "int main() {}")
    assert (ran.code, ran.err) == (0, ""), repr(ran)
    quiet = runner.run("run", *options, "--log-level", "error", "-l", "python", "-c", "print(1)")
    assert (quiet.code, quiet.out, quiet.err) == (0, "1\n", ""), repr(quiet)


def test_directories_without_a_language_are_named(runner):
    options = ["--set", "languages.directories=/nonexist:/nor/this"]
    done = runner.run("languages", *options)
    assert done.code == 0
    one_sentence(done, "no language file", "/nonexist:/nor/this", "languages.directories", out=done.out)
    done = runner.run("run", *options, "-l", "python", "-c", "1")
    assert done.code == 125
    one_sentence(done, "'python'", "/nonexist:/nor/this", "languages.directories")


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
    assert all(list(entry) == HISTORY + ["reason"] for entry in listed)
    assert listed[1]["code_snippet"] == "print('two')\nraise SystemExit(2)" and listed[1]["stdout_size"] == 4
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", listed[0]["timestamp"])
    for limit, count in (("2", 2), ("0", 1), ("-5", 1), ("1000", 3)):
        assert len(runner.run("history", "--limit", limit, "--json").json()) == count

    table = runner.run("history").out
    assert "\x1b" not in table and "\\x1b[2Jwhile" in table and len(table.splitlines()) == 4

    shown = runner.run("history", "show", listed[1]["id"], "--json").json()
    assert {name: shown[name] for name in HISTORY} | {"reason": "exit"} == listed[1]
    assert shown["facts"]["reason"] == "exit" and shown["facts"]["image"]
    text = runner.run("history", "show", listed[1]["id"]).out
    assert text.endswith("\n\nprint('two')\nraise SystemExit(2)\n")
    lines = {line[:17].strip(): line[17:].strip() for line in text.splitlines()}
    assert lines["ended by"] == "exit" and lines["written to stdout"] == "4 bytes" and "{" not in text, text
    assert re.fullmatch(r"memory \w+, cpu \w+, pids \w+", lines["limits held by"]), text
    assert "\x1b" not in runner.run("history", "show", listed[0]["id"]).out

    assert runner.run("history", "prune", "--older-than", "1").out == "Deleted 0 runs.\n"
    assert runner.run("history", "prune", "--keep", "2").out == "Deleted 1 run.\n"
    assert [entry["id"] for entry in runner.run("history", "--json").json()] == [e["id"] for e in listed[:2]]
    assert runner.run("history", "prune", "--older-than", "0", "--json").json() == {"deleted": 2}
    assert runner.run("history", "--json").json() == []


def test_history_says_why_a_run_ended(runner):
    database = runner.place / "why.db"
    for options in (["-t", "1", "-c", "while True: pass"], ["-c", "import os; os.kill(os.getpid(), 9)"],
                    ["-c", "raise SystemExit(3)"], ["-c", "x = bytearray(600 << 20)"]):
        runner.run("run", "--db", database, "-l", "python", *options)
    assert [entry["reason"] for entry in runner.run("history", "--db", database, "--json").json()] == \
        ["memory_limit", "exit", "signal", "timeout"]
    lines = runner.run("history", "--db", database).out.splitlines()[1:]
    for line, words in zip(lines, ["error (memory_limit)  137", "error                 3", "error (signal)        137",
                                   "timeout               -"]):
        assert f"  {words}  " in line, line
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM run_facts")  # as the Python server leaves it
    assert all(list(entry) == HISTORY for entry in runner.run("history", "--db", database, "--json").json())
    assert "error (" not in runner.run("history", "--db", database).out


def at_a_terminal(runner, columns, *args):
    """What the command writes to a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = runner.start(*args, stdin=slave, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    text = b""
    try:
        while block := os.read(master, 65536):
            text += block
    except OSError:  # EIO: nobody has the other side open any more
        pass
    finally:
        os.close(master)
    assert process.wait(10) == 0
    return text.decode().replace("\r\n", "\n").splitlines()


def test_a_list_fits_its_terminal(runner):
    runner.run("run", "-l", "python", "-c", "print('é' * 10) # " + "é" * 100)
    piped = runner.run("history").out.splitlines()
    assert max(map(len, piped)) > 100, piped
    for columns in (80, 97):
        lines = at_a_terminal(runner, columns, "history")
        assert len(lines) == 2 and len(lines[1]) == columns and lines[1].endswith("é…"), lines
    assert at_a_terminal(runner, 500, "history") == piped
    assert at_a_terminal(runner, 0, "history") == piped  # a terminal that does not tell


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


@pytest.mark.parametrize("args", [["config"], ["languages"], ["history"], ["doctor"], ["image", "list"], ["ps"],
                                  ["stop", "--all"]])
def test_a_wrong_setting_is_a_sentence(runner, args):
    done = runner.run("--set", "run.timeout=soon", *args)
    assert done.code == 1, repr(done)
    one_sentence(done, "run.timeout", "soon")


@pytest.mark.parametrize("verb", LISTINGS)
def test_json_of_every_listing_is_one_bare_value(runner, verb):
    value = runner.run(verb, "--json").json()
    assert isinstance(value, dict if verb == "doctor" else list)


# image


def test_image_hands_its_arguments_and_settings_on(runner):
    assert runner.run("image", "list").code == 0
    listed = runner.run("image", "list", "--json").json()
    assert any(entry["reference"] for entry in listed)
    empty = runner.run("--store", "nothing-here", "--set", "images.lower_store=", "image", "list", "--json")
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
