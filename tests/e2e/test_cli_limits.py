"""Limits as a caller sees them: what may be asked for, what is refused, what a language brings along, what a
result and a terminal say of a run that met one, and strict limits.

That the limits hold is the business of test_limits.py and test_snippets_limits.py.
"""

import json
import shutil

import pytest

import support
from sentences import one_sentence

MIB = 1 << 20
HOG = "x = bytearray(600 << 20)"
CONTROLLERS = ["memory", "cpu", "pids"]


def given(result, stage=-1):
    stage = result["stages"][stage]
    return stage["memory_limit_bytes"], stage["cpu_limit"], stage["pids_limit"]


def catalogue(runner, **changes):
    """Options that make `run` use copies of our languages with these members changed."""
    folder = runner.place / "languages"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(support.CHECKOUT / "images", folder)
    for language, members in changes.items():
        path = folder / f"{language}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | members))
    return ["--set", f"languages.directories={folder}"]


# What may be asked for


def test_the_defaults(as_each):
    result = as_each.snippet("cpp", "int main() {}")
    assert given(result, 0) == (512 * MIB, 1.0, 64) and given(result, 1) == (256 * MIB, 0.5, 64)
    assert list(result["limits"]) == CONTROLLERS
    assert set(result["limits"].values()) <= {"cgroup2", "cgroup1", "watchdog", "none"}, result["limits"]


def test_a_run_gets_what_it_asks_for_and_its_compiler_does_not(runner):
    result = runner.snippet("cpp", "int main() {}", options=["--memory", "300m", "--cpus=1.5", "--pids", "7"])
    assert given(result, 0) == (512 * MIB, 1.0, 64) and given(result, 1) == (300 * MIB, 1.5, 7)


@pytest.mark.parametrize("option, value", [("--memory", "4g"), ("--memory", "8m"), ("--memory", "4294967296"),
                                           ("--cpus", "4"), ("--cpus", "0.01"), ("--pids", "1024")])
def test_the_bounds_themselves_are_not_refused(runner, option, value):
    result = runner.snippet("python", "print(1)", options=[option, value])
    assert result["reason"] != "refused", result


@pytest.mark.parametrize("option, words", [
    (["--memory", "4097m"], ["4097 MiB", "4 GiB", "run.max_memory"]),
    (["--memory", "99999999999999999999t"], ["is too large", "4 GiB", "run.max_memory"]),
    (["--timeout", "31"], ["--timeout", "timeout_seconds", "31 s", "from 1 to 30", "run.max_timeout"]),
    (["--memory", "1k"], ["1 KiB", "8 MiB"]),
    (["--cpus", "4.001"], ["4.001", "at most 4", "run.max_cpus"]),
    (["--cpus", "99999999999"], ["run.max_cpus"]),
    (["--cpus", "0.001"], ["0.001", "0.01"]),
    (["--pids", "1025"], ["1025", "1024", "run.max_pids"]),
    (["--pids", "4294967297"], ["4294967297", "run.max_pids"]),
    (["--memory", "129m", "--set", "run.max_memory=128M"], ["129 MiB", "128 MiB", "run.max_memory"]),
])
def test_more_or_less_than_may_be_is_refused_in_a_sentence(runner, option, words):
    done = runner.run("run", "-l", "python", "-c", "print(1)", *option)
    assert done.code == 125, repr(done)
    one_sentence(done, *words)
    result = runner.run("run", "--json", "-l", "python", "-c", "print(1)", *option).json()
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "refused", None)
    assert result["stdout"] == "" and result["duration_ms"] == 0 and result["image"] is None
    assert "sandbox-runner: " + result["stderr"] + "\n" == done.err
    assert list(result["limits"]) == CONTROLLERS
    assert runner.run("history", "--json").json() == []


@pytest.mark.parametrize("option, words", [
    (["--memory", "0"], "--memory must be at least 8 MiB, not 0"),
    (["--memory", "much"], "--memory: \"much\" is not a size"),
    (["--memory", "64MB"], "--memory: \"64MB\" is not a size"),
    (["--cpus", "0"], "--cpus must be at least 0.01, not 0"),
    (["--cpus", "-1"], "--cpus: \"-1\" is not"),
    (["--pids", "0"], "--pids must be at least 1, not 0"),
    (["--pids", "1.5"], "--pids: \"1.5\" is not a whole number"),
    (["--strict-limits=yes"], "takes no value"),
])
def test_what_is_no_limit_is_a_wrong_command_line(runner, option, words):
    done = runner.run("run", "-l", "python", "-c", "print(1)", *option)
    assert done.code == 125 and done.out == "" and words in done.err.splitlines()[0], repr(done)


def test_settings_above_their_ceiling_are_said(runner):
    done = runner.run("run", "-l", "python", "-c", "1", "--set", "run.memory=5G")
    assert done.code == 125
    one_sentence(done, "run.memory (5G, from --set)", "run.max_memory (4G, from default)", "raise the second")


# What a language brings along


def test_a_language_has_limits_of_its_own(runner):
    options = catalogue(runner, cpp={"limits": {"compile": {"memory": "600M", "cpus": 2, "pids": 99, "timeout": 20},
                                                "run": {"memory": "128M", "pids": 32}}})
    result = runner.snippet("cpp", "int main() {}", options=options)
    assert given(result, 0) == (600 * MIB, 2.0, 99) and given(result, 1) == (128 * MIB, 0.5, 32)
    result = runner.snippet("cpp", "int main() {}", options=[*options, "--memory", "64m"])
    assert given(result, 1) == (64 * MIB, 0.5, 32)


def test_languages_shows_limits_that_differ_from_the_settings(runner):
    assert "LIMITS" not in runner.run("languages").out
    assert all(entry["limits"] == {} for entry in runner.run("languages", "--json").json())
    limits = {"compile": {"memory": "600M", "timeout": 1.5}, "run": {"memory": "256M", "pids": 32}}
    options = catalogue(runner, cpp={"limits": limits}, python={"limits": {"run": {"cpus": 2}}})
    listed = {entry["language"]: entry["limits"] for entry in runner.run("languages", "--json", *options).json()}
    assert listed == {"cpp": {"compile": {"timeout": "1500ms", "memory": "600M"}, "run": {"pids": "32"}},
                      "python": {"run": {"cpus": "2"}}}
    title, cpp, python = runner.run("languages", *options).out.splitlines()
    assert title.endswith("LIMITS") and python.endswith("  run: cpus 2"), title
    assert cpp.endswith("  compile: timeout 1500ms, memory 600M; run: pids 32"), cpp


def test_the_room_of_a_language(runner):
    fill = ("import os\nfor path in ('/tmp/f', '/scratch/f'):\n"
            "    try:\n        n = 0\n        with open(path, 'wb', buffering=0) as f:\n"
            "            while True:\n                n += f.write(b'x' * 65536)\n"
            "    except OSError as e:\n        print(path, e.errno, n >> 20)\n")
    options = catalogue(runner, python={"limits": {"run": {"tmp": "2M", "scratch": "4M"}}})
    result = runner.snippet("python", fill, options=options)
    assert result["stdout"] == "/tmp/f 28 2\n/scratch/f 28 3\n", result
    assert result["limits_hit"] == ["tmp", "scratch"], result


def test_a_language_above_a_ceiling_is_refused_until_somebody_asks_for_less(runner):
    options = catalogue(runner, python={"limits": {"run": {"memory": "5G"}}})
    assert "python" in runner.run("languages", *options).out
    done = runner.run("run", *options, "-l", "python", "-c", "print(1)")
    assert done.code == 125
    one_sentence(done, "python.json", "5 GiB", "run.max_memory (4 GiB)")
    done = runner.run("run", *options, "--memory", "256m", "-l", "python", "-c", "print(1)")
    assert (done.code, done.out) == (0, "1\n"), repr(done)


def test_a_faulty_limit_is_a_fault_of_the_file(runner):
    options = catalogue(runner, cpp={"limits": {"run": {"memory": "1K"}}})
    done = runner.run("languages", *options)
    assert "cpp.json is not used" in done.err and "must be from 8M to 64T" in done.err, repr(done)
    assert "python" in done.out and "cpp" not in done.out


# A run that met a limit


def test_too_much_memory_is_said_with_the_knob(as_each):
    done = as_each.run("run", "-l", "python", "-c", HOG)
    assert done.code == 137, repr(done)
    one_sentence(done, "memory limit of 256 MiB", "--memory", "4 GiB of run.max_memory")
    result = as_each.snippet("python", HOG)
    assert (result["status"], result["exit_code"], result["signal"]) == ("error", 137, 9), result
    assert (result["reason"], result["limits_hit"]) == ("memory_limit", ["memory"]), result
    assert result["stages"][0]["exit_code"] == 137 and result["peak_memory_bytes"] > 200 * MIB, result


def test_more_memory_is_enough(as_each):
    done = as_each.run("run", "-l", "python", "--memory", "1g", "-c", "print(len(bytearray(400 << 20)) >> 20)")
    assert (done.code, done.out, done.err) == (0, "400\n", ""), repr(done)


def test_a_compiler_without_memory_is_no_compile_error(as_each):
    code = "#include <bits/stdc++.h>\nint main() {}\n"
    result = as_each.snippet("cpp", code, options=["--set", "compile.memory=24M"])
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "memory_limit", 137), result
    assert result["stderr"].splitlines()[0] == \
        "The compile stage ran out of memory: it may have 24 MiB (compile.memory).", result
    assert [stage["name"] for stage in result["stages"]] == ["compile"] and "memory" in result["limits_hit"]
    done = as_each.run("run", "-l", "cpp", "-c", code, "--set", "compile.memory=24M")
    assert done.code == 137, repr(done)
    assert done.err.splitlines()[-1] == "sandbox-runner: the compile stage ran out of memory: it may have 24 MiB " \
        "(--set compile.memory=48M gives it more)", repr(done)
    assert done.err.count("The compile stage") == 0 and done.out == "", repr(done)


def test_whose_limit_a_compiler_met(runner):
    code = "#include <bits/stdc++.h>\nint main() {}\n"
    options = catalogue(runner, cpp={"limits": {"compile": {"memory": "24M"}}})
    line = runner.snippet("cpp", code, options=options)["stderr"].splitlines()[0]
    assert "24 MiB (limits of its language)" in line
    options = catalogue(runner, cpp={"limits": {"compile": {"timeout": 0.1}}})
    result = runner.snippet("cpp", code, options=options)
    assert (result["status"], result["reason"], result["exit_code"]) == ("timeout", "timeout", None), result
    assert result["stderr"].startswith("The compile stage timed out after 0.1 seconds (limits of its language).\n")
    done = runner.run("run", *options, "-l", "cpp", "-c", code)
    assert done.code == 124
    one_sentence(done, "the compile stage timed out after 0.1 seconds", "cpp.json gives it that")
    result = runner.snippet("cpp", code, options=["--set", "compile.timeout=1", "--set", "compile.cpus=0.1"])
    assert result["stderr"].startswith("The compile stage timed out after 1 second (compile.timeout).\n"), result
    done = runner.run("run", "-l", "cpp", "-c", code, "--set", "compile.timeout=100ms")
    assert done.code == 124
    one_sentence(done, "timed out after 0.1 seconds", "--set compile.timeout=200ms gives it more")


def test_a_compiler_that_says_too_much(runner):
    options = ["--set", "output.keep=100", "--set", "output.kill=500"]
    result = runner.snippet("cpp", "int main() { return a + b + c + d + e + f + g + h; }", options=options)
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "output_limit", 137), result
    assert result["stderr"].startswith("The compile stage was ended: it wrote more than 500 bytes (output.kill).\n")
    assert result["limits_hit"] == ["output"]


def test_what_a_compiler_met_is_told_of_a_run_that_went_well(runner):
    warnings = "".join(f"#warning number {i}\n" for i in range(20))
    result = runner.snippet("cpp", warnings + "int main() {}\n", options=["--set", "output.keep=1K"])
    assert result["status"] == "success" and result["limits_hit"] == ["output"], result
    assert result["stdout_truncated"] is result["stderr_truncated"] is False


def test_too_much_output_is_said_with_the_knob(runner):
    code = "while True: print('x' * 1000)"
    done = runner.run("run", "-l", "python", "-c", code, "--set", "output.kill=1M")
    assert done.code == 137
    one_sentence(done, "wrote more than 1 MiB", "output.kill", out=done.out)
    result = runner.snippet("python", code, options=["--set", "output.kill=1M"])
    assert (result["reason"], result["exit_code"], result["signal"]) == ("output_limit", 137, 9), result
    assert result["limits_hit"] == ["output"]


def test_a_full_tmp_says_so_before_the_size_of_a_file_does(as_each):
    code = ("import errno\nn = 0\ntry:\n    with open('/tmp/f', 'wb', buffering=0) as f:\n        while True:\n"
            "            n += f.write(b'x' * (1 << 20))\nexcept OSError as e:\n    print(errno.errorcode[e.errno], n >> 20)\n")
    result = as_each.snippet("python", code)
    assert result["stdout"] == "ENOSPC 64\n" and result["limits_hit"] == ["tmp"], result
    result = as_each.snippet("python", code, options=["--set", "run.file_size=3M"])
    assert result["stdout"] == "EFBIG 3\n" and result["limits_hit"] == [], result


def test_a_limit_that_ended_nothing_is_said_too(as_each):
    code = ("import threading, time\ntry:\n    for _ in range(9):\n"
            "        threading.Thread(target=time.sleep, args=(0.5,)).start()\n"
            "except RuntimeError:\n    print('no more')\n")
    done = as_each.run("run", "-l", "python", "--pids", "5", "-c", code)
    assert done.code == 0, repr(done)
    one_sentence(done, "the program reached its limit of 5 processes and threads", "--pids", out="no more\n")
    code = ("try:\n    with open('/tmp/f', 'wb', buffering=0) as f:\n        while True:\n"
            "            f.write(b'x' * 65536)\nexcept OSError:\n    print('full')\n")
    done = as_each.run("run", "-l", "python", "--set", "run.tmp=2M", "-c", code)
    assert done.code == 0, repr(done)
    one_sentence(done, "/tmp", "was full (2 MiB", "run.tmp", out="full\n")
    options = catalogue(as_each, python={"limits": {"run": {"scratch": "3M"}}})
    done = as_each.run("run", *options, "-l", "python", "-c", code.replace("/tmp", "/scratch"))
    assert done.code == 0, repr(done)
    one_sentence(done, "/scratch was full (3 MiB", "python.json", out="full\n")


def test_output_that_a_result_would_cut_is_no_limit_on_a_terminal(runner):
    done = runner.run("run", "-l", "python", "-c", "print('x' * 300000)")
    assert (done.code, len(done.out), done.err) == (0, 300001, ""), repr(done)


# Strict limits


def test_strict_limits_refuse_what_no_cgroup_holds(as_each):
    held = as_each.snippet("python", "print(1)")["limits"]
    without = [name for name in CONTROLLERS if not held[name].startswith("cgroup")]
    done = as_each.run("run", "--strict-limits", "-l", "python", "-c", "print(1)")
    result = as_each.snippet("python", "print(1)", env={"SANDBOX_RUNNER_SANDBOX_STRICT_LIMITS": "yes"})
    assert result["limits"] == held
    if not without:
        assert (done.code, done.out, done.err) == (0, "1\n", "") and result["reason"] == "exit", repr(done)
        return
    assert done.code == 125, repr(done)
    one_sentence(done, "sandbox.strict_limits", *without)
    assert len(done.err) > len("sandbox-runner: Strict limits are wanted (sandbox.strict_limits), but no cgroup "
                               "holds memory, cpu and pids here: ") + 20, "why, and what to do"
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "refused", None), result
    assert "sandbox-runner: " + result["stderr"] + "\n" == done.err
    assert result["stages"] == [] and result["duration_ms"] == 0
    assert len(as_each.run("history", "--json").json()) == 1  # the first


def test_a_server_with_strict_limits(as_each):
    held = as_each.snippet("python", "print(1)")["limits"]
    strict = all(by.startswith("cgroup") for by in held.values())
    server = as_each.serve("--strict-limits")
    result = server.run_code("python", "print(1)")
    assert server.close() == 0
    assert result["reason"] == ("exit" if strict else "refused"), result
    assert strict or "sandbox.strict_limits" in result["stderr"]


def test_strict_limits_before_a_command(runner):
    held = runner.snippet("python", "print(1)")["limits"]
    strict = all(by.startswith("cgroup") for by in held.values())
    assert runner.run("--strict-limits", "run", "-l", "python", "-c", "1").code == (0 if strict else 125)
    done = runner.run("--strict-limits", "languages")
    assert done.code == 2 and "--strict-limits is for the server, `run` and `doctor`" in done.err, repr(done)


# What a model is told


def test_the_tool_tells_the_limits_of_the_configuration(runner):
    server = runner.serve("--set", "run.memory=300M", "--set", "run.cpus=1", "--set", "run.pids=33",
                          *catalogue(runner, cpp={"limits": {"run": {"memory": "512M", "pids": 200}}}))
    tool = next(tool for tool in server.request("tools/list")["tools"] if tool["name"] == "run_code")
    assert "300 MiB of memory, 1 processor, 33 processes and threads; cpp: 512 MiB of memory, 200 processes" \
        in tool["description"]
    assert "memory_limit (exit_code 137)" in tool["description"]
    assert "300 MiB of memory" in server.info["instructions"]
    assert server.close() == 0
