"""MCP on stdio as a client sees it: the protocol byte by byte, the three tools, and every way a session can end."""

import json
import os
import re
import select
import signal
import sqlite3
import subprocess
import time

import pytest

import support

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
SIX = ["status", "exit_code", "stdout", "stderr", "duration_ms", "language"]
RECORD = ["id", "timestamp", "language", "code_snippet", "status", "exit_code", "duration_ms", "stdout_size",
          "stderr_size"]
MAX_CODE = 50 * 1024


class Raw:
    """A server and its pipes without a client between: for what must be seen byte by byte."""

    def __init__(self, runner, env=None):
        self.process = runner.start(env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.received = b""

    def put(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self, timeout=60):
        """The next line without its end, as bytes; b"" at the end of the output."""
        end = time.monotonic() + timeout
        while b"\n" not in self.received:
            assert select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0], \
                f"no line within {timeout} s"
            block = os.read(self.process.stdout.fileno(), 65536)
            if not block:
                assert self.received == b"", "half a line at the end of the output"
                return b""
            self.received += block
        line, self.received = self.received.split(b"\n", 1)
        return line

    def answer(self):
        return json.loads(self.line())

    def begin(self, version="2025-06-18"):
        self.put(json.dumps({"jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "suite", "version": "1"}}}).encode() + b"\n")
        answer = self.answer()
        assert answer["id"] == "begin"
        self.put(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return answer["result"]

    def call(self, request_id, code, language="python", **more):
        """One tools/call of run_code, as bytes; request_id is text as it shall stand there."""
        arguments = {"language": language, "code": code, **more}
        return (f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call","params":'
                f'{{"name":"run_code","arguments":{json.dumps(arguments)}}}}}\n').encode()

    def end(self, code=0):
        """Ends the input; the server must exit with this code, its log free of sanitizer reports."""
        self.process.stdin.close()
        self.leave(code)

    def leave(self, code, timeout=20):
        assert self.process.wait(timeout) == code
        support.assert_no_sanitizer_report(self.process.stderr.read().decode(errors="replace"))


@pytest.fixture
def raw(runner):
    return Raw(runner)


@pytest.fixture(scope="module")
def begun(lab):
    """One session for the tests that leave it as it was."""
    runner = lab.runner(lab.identity("root" if os.geteuid() == 0 else "self"))
    raw = Raw(runner)
    raw.begin()
    yield raw
    raw.end()
    runner.close()


def snippets(pid):
    """The sandboxed programs below a server, as {pid: start time}."""
    found = {}
    for child, began in support.descendants(pid).items():
        try:
            with open(f"/proc/{child}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(b"/scratch/") for word in words):
            found[child] = began
    return found


def wait_for_snippets(pid, count):
    assert support.wait_until(lambda: len(snippets(pid)) >= count, 30), "the runs did not begin"
    return snippets(pid)


def history(server, limit=1000):
    return server.tool("get_execution_history", {"limit": limit})["structuredContent"]["result"]


def refused(result):
    assert {name: result[name] for name in SIX[:3]} == {"status": "error", "exit_code": None, "stdout": ""}
    assert result["duration_ms"] == 0
    assert result["reason"] == "refused"
    assert result["stderr"].strip()
    return result["stderr"]


# ---- The protocol

@pytest.mark.parametrize("version", VERSIONS)
def test_initialize_echoes_a_version_it_knows(raw, version):
    result = raw.begin(version)
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "sandbox-runner"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", result["serverInfo"]["version"])
    assert set(result["capabilities"]) == {"tools"}
    raw.end()


@pytest.mark.parametrize("version", ["2026-07-28", "2030-01-01", "x"])
def test_initialize_offers_the_newest_legacy_version_for_any_other(raw, version):
    assert raw.begin(version)["protocolVersion"] == "2025-11-25"
    raw.end()


def test_tools_wait_for_initialize(raw):
    raw.put(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')
    assert raw.answer()["error"]["code"] == -32600
    raw.put(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    assert raw.answer() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    raw.begin()
    raw.put(b'{"jsonrpc":"2.0","id":3,"method":"tools/list"}\n')
    assert len(raw.answer()["result"]["tools"]) == 3
    raw.end()


@pytest.mark.parametrize("request_id", [
    b"0", b"-1", b"1e3", b"1.50", b"12345678901234567890", b"1E+2", b'""', b'"1"', b'"\\u0061\\n\\"\\\\"',
    b'"\\ud83c\\udf78"', "\"é\u2028\"".encode(), b'"\\u0000"'])
def test_an_id_comes_back_letter_for_letter(begun, request_id):
    begun.put(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}\n' % request_id)
    assert begun.line() == b'{"jsonrpc":"2.0","id":%s,"result":{}}' % request_id
    begun.put(b'{"id" : %s , "method":"nope","jsonrpc":"2.0"}\n' % request_id)
    assert begun.line().startswith(b'{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,' % request_id)
    begun.put(begun.call(request_id.decode(), ""))
    assert begun.line().startswith(b'{"jsonrpc":"2.0","id":%s,"result":{' % request_id)


@pytest.mark.parametrize("message, code, request_id", [
    (b"{", -32700, None),
    (b"nonsense", -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}', -32700, None),
    (b"\x00", -32700, None),
    (b"[" * 100000, -32700, None),
    (b"5", -32600, None),
    (b"null", -32600, None),
    (b"{}", -32600, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
    (b'{"id":1,"method":"ping"}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"prompts/list"}', -32601, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', -32601, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}', -32601, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no_such_tool"}}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":"x"}}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', -32602, 1),
])
def test_each_mistake_gets_its_error_and_is_survived(begun, message, code, request_id):
    begun.put(message + b"\n")
    answer = begun.answer()
    assert answer["error"]["code"] == code
    assert answer["id"] == request_id
    assert answer["error"]["message"]
    begun.put(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    assert begun.answer() == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_notifications_are_never_answered(begun):
    begun.put(b'{"jsonrpc":"2.0","method":"notifications/no/such"}\n{"jsonrpc":"2.0","method":"tools/call","params":[]}\n'
              b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}\n'
              b'{"jsonrpc":"2.0","id":5,"result":{}}\n\n \r\n')
    begun.put(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n')
    assert begun.answer() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_batches_exist_in_one_version(raw):
    raw.begin("2025-03-26")
    raw.put(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},'
            + raw.call("2", "print(1)").strip() + b"]\n")
    answers = {answer["id"]: answer["result"] for answer in raw.answer()}
    assert answers[1] == {}
    assert answers[2]["structuredContent"]["stdout"] == "1\n"
    raw.end()


def test_lines_are_cut_at_newline_alone(begun):
    # U+2028, U+2029, U+0085, VT and FF end lines elsewhere; here they are data.
    code = "print(ascii('a\u2028b\u2029c\x85d'))"
    begun.put(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_code", "arguments": {"language": "python", "code": code}}}, ensure_ascii=False).encode() + b"\n")
    assert begun.answer()["result"]["structuredContent"]["stdout"] == "'a\\u2028b\\u2029c\\x85d'\n"
    begun.put(begun.call("2", "print('a\u2028b')"))
    line = begun.line()
    assert "\u2028".encode() in line  # not escaped, and the line is whole
    assert json.loads(line)["result"]["structuredContent"]["stdout"] == "a\u2028b\n"


def test_a_message_may_come_in_pieces_and_several_at_once(begun):
    for byte in '{"jsonrpc":"2.0","id":"é","method":"ping"}\n'.encode():
        begun.put(bytes([byte]))
    assert begun.answer()["id"] == "é"
    begun.put(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % i for i in range(500)))
    assert [begun.answer()["id"] for _ in range(500)] == list(range(500))


def test_messages_of_several_mib(begun):
    begun.put(begun.call("1", "#" * (8 << 20)))
    result = begun.answer()["result"]
    assert result["isError"] is False
    refused(result["structuredContent"])
    # Code as long as is allowed, each character written in the longest way.
    code = "print(1)#" + "x" * (MAX_CODE - 9)
    spelled = "".join(f"\\u{ord(c):04x}" for c in code)
    begun.put(f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"run_code","arguments":'
              f'{{"language":"python","code":"{spelled}"}}}}}}\n'.encode())
    assert begun.answer()["result"]["structuredContent"]["stdout"] == "1\n"


def test_a_message_without_end_is_refused_and_skipped(begun):
    for _ in range(20):
        begun.put(b'"' + b" " * (1 << 20))
    begun.put(b'\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    answer = begun.answer()
    assert answer["id"] is None and answer["error"]["code"] == -32600 and "MiB" in answer["error"]["message"]
    assert begun.answer() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_nothing_but_protocol_on_stdout(raw):
    raw.begin()
    raw.put(raw.call("1", "import sys; print('to stdout'); print('to stderr', file=sys.stderr)"))
    for line in (raw.line(),):
        assert json.loads(line)["jsonrpc"] == "2.0"
    raw.process.stdin.close()
    assert raw.line() == b""
    raw.leave(0)


# ---- tools/list

def test_tools_list_has_both_schemas(server):
    tools = {tool["name"]: tool for tool in server.request("tools/list")["tools"]}
    assert list(tools) == ["run_code", "list_supported_languages", "get_execution_history"]
    for tool in tools.values():
        assert tool["title"] and len(tool["description"]) > 40
        assert tool["inputSchema"]["type"] == "object" and tool["outputSchema"]["type"] == "object"
        assert tool["annotations"]["destructiveHint"] is False
    run = tools["run_code"]
    assert run["inputSchema"]["required"] == ["language", "code"]
    assert run["inputSchema"]["properties"]["timeout_seconds"]["default"] == 10
    assert run["outputSchema"]["additionalProperties"] is True
    assert "python" in run["description"] and "cpp" in run["description"]
    for name in ("list_supported_languages", "get_execution_history"):
        schema = tools[name]["outputSchema"]
        assert schema["required"] == ["result"] and schema["properties"]["result"]["type"] == "array"
    assert tools["get_execution_history"]["inputSchema"]["properties"]["limit"]["default"] == 20


# ---- run_code

def test_the_result_in_both_forms(server):
    result = server.tool("run_code", {"language": "python", "code": "print('é\\t\"\\u2028')"})
    assert set(result) == {"content", "structuredContent", "isError"}
    assert result["isError"] is False
    assert [block["type"] for block in result["content"]] == ["text"]
    structured = result["structuredContent"]
    assert result["content"][0]["text"] == json.dumps(structured, indent=2, ensure_ascii=False)
    assert list(structured)[:6] == SIX
    assert structured["status"] == "success" and structured["exit_code"] == 0
    assert structured["stdout"] == 'é\t"\u2028\n' and structured["stderr"] == ""
    assert structured["reason"] == "exit" and structured["signal"] is None
    assert 0 < structured["duration_ms"] < 60000
    assert round(structured["duration_ms"], 2) == structured["duration_ms"]


@pytest.mark.parametrize("language", ["python", "PYTHON", "  Python\t\n"])
def test_the_language_is_normalised(server, language):
    result = server.run_code(language, "print(6*7)")
    assert result["stdout"] == "42\n" and result["language"] == "python"


def test_cpp_is_compiled_and_run(server):
    result = server.run_code("cpp", '#include <iostream>\nint main() { std::cout << 6 * 7 << std::endl; }')
    assert (result["status"], result["exit_code"], result["stdout"]) == ("success", 0, "42\n")


def test_a_compile_error_has_the_compilers_words(server):
    result = server.run_code("cpp", "int main() { return nothing_of_that_name; }")
    assert result["status"] == "compile_error" and result["exit_code"] == 1 and result["stdout"] == ""
    assert "error:" in result["stderr"] and "nothing_of_that_name" in result["stderr"]
    assert "snippet.cpp" in result["stderr"]


@pytest.mark.parametrize("language, code, exit_code, number", [
    ("python", "import sys; sys.exit(3)", 3, None),
    ("python", "raise ValueError('x')", 1, None),
    ("python", "import os; os.abort()", 134, signal.SIGABRT),
    ("python", "import os; os.kill(os.getpid(), 9)", 137, signal.SIGKILL),
    ("python", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139, signal.SIGSEGV),
    ("python", "import os; os._exit(137)", 137, None),
    ("cpp", "#include <cstdlib>\nint main() { std::abort(); }", 134, signal.SIGABRT),
    ("cpp", "int main() { volatile int *p = nullptr; return *p; }", 139, signal.SIGSEGV),
    ("cpp", "#include <signal.h>\nint main() { raise(SIGKILL); }", 137, signal.SIGKILL),
    ("cpp", "int main() { return 7; }", 7, None),
])
def test_exit_codes_and_signals(server, language, code, exit_code, number):
    result = server.run_code(language, code)
    assert result["status"] == "error" and result["exit_code"] == exit_code
    assert result["signal"] == number
    assert result["reason"] == ("exit" if number is None else "signal")


def test_a_timeout_gives_what_was_printed_so_far(server):
    result = server.run_code("python", "import time\nprint('begun', flush=True)\ntime.sleep(60)", timeout_seconds=1)
    assert result["status"] == "timeout" and result["exit_code"] is None and result["reason"] == "timeout"
    assert result["stdout"] == "begun\n"
    assert 1000 <= result["duration_ms"] < 20000


def test_output_is_cut_with_a_marker(server):
    result = server.run_code("python", "import sys\nsys.stdout.write('x' * 300000)\nsys.stderr.write('y' * 102400)")
    assert result["stdout"] == "x" * support.KEPT + support.MARKER
    assert result["stderr"] == "y" * support.KEPT  # all of it: nothing was cut
    assert result["status"] == "success"
    assert result["stdout_truncated"] is True and result["stderr_truncated"] is False
    assert result["stdout_bytes"] == 300000 and result["stderr_bytes"] == 102400


@pytest.mark.parametrize("before, character", [("a", "é"), ("", "€"), ("a", "€"), ("a", "🍸"), ("ab", "🍸"), ("abc", "🍸")])
def test_a_cut_does_not_split_a_character(server, before, character):
    result = server.run_code("python", f"print('{before}' + '{character}' * 60000)")
    kept = result["stdout"][:-len(support.MARKER)]
    assert result["stdout"].endswith(support.MARKER)
    size = len(character.encode())
    assert kept == before + character * ((support.KEPT - len(before)) // size)


def test_bytes_that_are_no_utf8_are_replaced_one_by_one(server):
    result = server.run_code("python", r"import os; os.write(1, b'a\xff\xfe\xe2\x82z\xf0\x9f\x8d\xb8\xc3')")
    assert result["stdout"] == "a\ufffd\ufffd\ufffd\ufffdz🍸\ufffd"


def test_control_characters_survive(server):
    result = server.run_code("python", "import sys; sys.stdout.write(''.join(map(chr, range(128))))")
    assert result["stdout"] == "".join(map(chr, range(128)))


def test_a_nul_in_the_code_is_kept(server):
    # g++ keeps it in a literal: 'a', NUL, 'b', NUL.
    result = server.run_code("cpp", '#include <cstdio>\nint main() { printf("%zu", sizeof "a\0b"); }')
    assert result["stdout"] == "4"
    # Python's own reader differs by version in what it makes of one; the file in the sandbox holds it.
    result = server.run_code("python", "data = open(__file__, 'rb').read()\nprint(data.count(b'\\0'), data[-4:])\n# \0 end\n")
    assert result["stdout"] == "1 b'end\\n'\n" or "null byte" in result["stderr"], result


def test_half_a_surrogate_pair_does_not_lose_the_call(begun):
    begun.put(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":'
            b'{"language":"python","code":"print(ascii(\'\\ud83c\\udf78 \\ud83c\'))"}}}\n')
    assert begun.answer()["result"]["structuredContent"]["stdout"] == "'\\U0001f378 \\ufffd'\n"


@pytest.mark.parametrize("timeout", [1, 30, "7", " 7 ", 7.0, "30"])
def test_timeouts_that_are_taken(server, timeout):
    assert server.run_code("python", "print(1)", timeout)["status"] == "success"


@pytest.mark.parametrize("timeout", [0, -1, 31, "31", "0", 10**30, -(10**30)])
def test_timeouts_that_are_refused(server, timeout):
    before = len(history(server))
    message = refused(server.run_code("python", "print(1)", timeout))
    assert "timeout" in message and "30" in message
    assert len(history(server)) == before


@pytest.mark.parametrize("language", ["", "cobol", "python2", "pyth\0on", "python\0", "x" * 5000, "a" + "é" * 3000])
def test_unknown_languages_are_refused(server, language):
    before = len(history(server))
    message = refused(server.run_code(language, "print(1)"))
    assert "python" in message and "cpp" in message  # what there is
    assert len(message) < 2000
    assert len(history(server)) == before


@pytest.mark.parametrize("code", ["", " ", "\n\t \r\n"])
def test_blank_code_is_refused(server, code):
    before = len(history(server))
    refused(server.run_code("python", code))
    assert len(history(server)) == before


def test_the_code_limit_is_in_bytes(server):
    longest = "print(1)#" + "é" * ((MAX_CODE - 9) // 2)
    longest += "x" * (MAX_CODE - len(longest.encode()))
    assert len(longest.encode()) == MAX_CODE
    assert server.run_code("python", longest)["stdout"] == "1\n"
    before = len(history(server))
    message = refused(server.run_code("python", longest + "x"))
    assert str(MAX_CODE) in message or "50 KiB" in message
    refused(server.run_code("python", "#" + "é" * (MAX_CODE // 2)))
    assert len(history(server)) == before


@pytest.mark.parametrize("arguments, named", [
    ({}, ["language", "code"]),
    ({"language": "python"}, ["code"]),
    ({"code": "print(1)"}, ["language"]),
    ({"language": 5, "code": "print(1)"}, ["language"]),
    ({"language": None, "code": "print(1)"}, ["language"]),
    ({"language": "python", "code": ["print(1)"]}, ["code"]),
    ({"language": "python", "code": {"a": 1}}, ["code"]),
    ({"language": "python", "code": 7}, ["code"]),
    ({"language": "python", "code": "print(1)", "timeout_seconds": "soon"}, ["timeout_seconds"]),
    ({"language": "python", "code": "print(1)", "timeout_seconds": 1.5}, ["timeout_seconds"]),
    ({"language": "python", "code": "print(1)", "timeout_seconds": []}, ["timeout_seconds"]),
])
def test_wrong_types_are_error_results_that_name_the_argument(server, arguments, named):
    before = len(history(server))
    result = server.tool("run_code", arguments)
    assert result["isError"] is True
    text = result["content"][0]["text"]
    assert all(name in text for name in named)
    assert not any(name in text for name in ("language", "code", "timeout_seconds") if name not in named)
    assert len(history(server)) == before


def test_unknown_arguments_are_ignored(server):
    result = server.tool("run_code", {"language": "python", "code": "print(1)", "colour": "red", "image": 5})
    assert result["structuredContent"]["stdout"] == "1\n"


# ---- The lists

def test_languages(server):
    result = server.tool("list_supported_languages", {"ignored": True})
    languages = result["structuredContent"]["result"]
    assert result["isError"] is False
    by_name = {language["language"]: language for language in languages}
    assert by_name["python"]["image"] == "python:3.12-slim" and by_name["cpp"]["image"] == "gcc:14"
    assert all(list(language) == ["language", "image", "description"] for language in languages)
    assert all(language["description"] for language in languages)
    assert [block["text"] for block in result["content"]] == \
        [json.dumps(language, indent=2, ensure_ascii=False) for language in languages]


def test_an_empty_history_is_an_empty_list(runner):
    server = runner.serve()
    result = server.tool("get_execution_history")
    assert result == {"content": [], "structuredContent": {"result": []}, "isError": False}
    assert server.close() == 0


def test_history_records(runner):
    server = runner.serve()
    code = "print('é')#" + "€" * 600
    server.run_code("Python", code)
    server.run_code("python", "import time; time.sleep(9)", timeout_seconds=1)
    server.run_code("python", "import sys; print('no', file=sys.stderr); sys.exit(4)")
    server.run_code("cpp", "int main() { broken }")
    server.run_code("python", "", 10)  # refused: no row
    result = server.tool("get_execution_history", {"limit": 10})
    records = result["structuredContent"]["result"]
    assert [block["text"] for block in result["content"]] == \
        [json.dumps(record, indent=2, ensure_ascii=False) for record in records]
    assert [(r["language"], r["status"], r["exit_code"]) for r in records] == [
        ("cpp", "compile_error", 1), ("python", "error", 4), ("python", "timeout", None), ("python", "success", 0)]
    assert all(list(record) == RECORD for record in records)
    oldest = records[-1]
    assert oldest["code_snippet"] == code[:500]
    assert (oldest["stdout_size"], oldest["stderr_size"]) == (3, 0)
    assert records[1]["stderr_size"] == 3
    assert [r["id"] for r in records] == sorted((r["id"] for r in records), reverse=True)
    for record in records:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", record["timestamp"])
        assert record["duration_ms"] > 0
    assert records[2]["duration_ms"] >= 1000
    assert server.close() == 0


@pytest.mark.parametrize("limit, count", [(1, 1), (2, 2), (0, 1), (-5, 1), ("2", 2), (2.0, 2), (10**12, 3), (None, 3)])
def test_the_limit_of_the_history(server, limit, count):
    while len(history(server)) < 3:
        server.run_code("python", "pass")
    records = server.tool("get_execution_history", {} if limit is None else {"limit": limit})
    given = records["structuredContent"]["result"]
    if limit is None or (isinstance(limit, int) and limit > 100):
        assert len(given) >= count
    else:
        assert len(given) == count


def test_a_locked_history_holds_nothing_up(runner):
    """Another program keeps the file locked: neither the other calls nor the runs themselves wait for long."""
    path = runner.place / "locked.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL, "
                  "language TEXT NOT NULL, code_snippet TEXT NOT NULL, status TEXT NOT NULL, exit_code INTEGER, "
                  "duration_ms REAL NOT NULL, stdout_size INTEGER NOT NULL DEFAULT 0, "
                  "stderr_size INTEGER NOT NULL DEFAULT 0)")
    other.execute("BEGIN EXCLUSIVE")
    server = runner.serve("--db", path)
    began = time.monotonic()
    listing = server.submit("tools/call", {"name": "get_execution_history", "arguments": {}})
    runs = [server.submit_code("python", "print(1)") for _ in range(4)]
    server.request("ping")
    assert not listing.event.is_set()  # it waits for the lock; the ping did not wait for it
    for waiting in runs:
        result = server.code_result(waiting)
        assert result["status"] == "success" and "locked" in result["history_problem"], result
    answer = listing.wait()["result"]
    assert answer["isError"] is True and "locked" in answer["content"][0]["text"]
    assert time.monotonic() - began < 10
    other.execute("COMMIT")
    other.close()
    assert "history_problem" not in server.run_code("python", "print(2)")
    assert [record["code_snippet"] for record in history(server)] == ["print(2)"]
    assert server.close() == 0


def test_a_limit_of_the_wrong_type_is_named(server):
    for limit in ("all", True, [1], None, 1.5):
        result = server.tool("get_execution_history", {"limit": limit})
        assert result["isError"] is True and "limit" in result["content"][0]["text"]


# ---- Several at once, cancellation

def test_runs_side_by_side(runner):
    server = runner.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "2"})
    server.run_code("python", "pass")
    began = time.monotonic()
    code = "import time; time.sleep(1)"
    waiting = [server.submit_code("python", code) for _ in range(2)]
    results = [server.code_result(w) for w in waiting]
    took = time.monotonic() - began
    assert all(r["status"] == "success" and r["queue_ms"] < 500 for r in results), results
    assert took < sum(r["duration_ms"] for r in results) / 1000  # less than one after the other
    assert server.close() == 0


def test_more_runs_than_slots_wait_their_turn(runner):
    server = runner.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "1"})
    waiting = []
    for i in range(3):
        waiting.append(server.submit_code("python", f"import time; time.sleep(0.5); print({i})"))
        time.sleep(0.1)
    results = [server.code_result(w) for w in waiting]
    assert [r["stdout"] for r in results] == ["0\n", "1\n", "2\n"]
    assert results[2]["queue_ms"] > results[1]["queue_ms"] > 200
    assert server.close() == 0


def test_a_full_queue_refuses_at_once(runner):
    server = runner.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "1", "SANDBOX_RUNNER_SERVER_MAX_QUEUE": "1"})
    first = server.submit_code("python", "import time; time.sleep(3)")
    wait_for_snippets(server.pid, 1)
    others = [server.submit_code("python", "print(1)") for _ in range(40)]
    results = [w.wait()["result"] for w in others]
    ran = [r for r in results if r["isError"] is False and r["structuredContent"]["status"] == "success"]
    assert len(ran) == 1
    for result in results:
        if result not in ran and not result["isError"]:
            refused(result["structuredContent"])
    assert server.code_result(first)["status"] == "success"
    assert server.close() == 0


def test_an_answer_does_not_wait_for_a_slower_run(server):
    slow = server.submit_code("python", "import time; time.sleep(3); print('slow')")
    assert server.request("ping") == {}
    assert server.tool("list_supported_languages")["isError"] is False
    assert not slow.event.is_set()
    assert server.code_result(slow)["stdout"] == "slow\n"


def test_cancelling_kills_the_run(as_each):
    server = as_each.serve()
    waiting = server.submit_code("python", "import time\nprint('begun', flush=True)\ntime.sleep(25)", 30)
    running = wait_for_snippets(server.pid, 1)
    server.notify("notifications/cancelled", {"requestId": waiting.id, "reason": "not wanted"})
    assert support.wait_until(lambda: not support.alive(running), 10), "the cancelled run goes on"
    assert support.wait_until(lambda: history(server), 10)
    record = history(server)[0]
    assert record["status"] == "error" and record["exit_code"] is None
    assert record["code_snippet"].startswith("import time")
    # The protocol has no answer for a cancelled request, and the session goes on.
    assert server.run_code("python", "print(1)")["stdout"] == "1\n"
    assert not waiting.event.is_set() and server.stray == []
    assert server.close() == 0


def test_cancelling_the_compiler(runner):
    server = runner.serve()
    # Templates that keep the compiler busy for longer than its limit.
    code = "template<int N, int M> struct T { static const int v = T<N - 1, M>::v + T<N - 1, M + 1>::v; };\n" \
           "template<int M> struct T<0, M> { static const int v = M; };\nint main() { return T<800, 0>::v; }"
    waiting = server.submit_code("cpp", code)
    running = wait_for_snippets(server.pid, 1)
    server.notify("notifications/cancelled", {"requestId": waiting.id})
    assert support.wait_until(lambda: not support.alive(running), 10), "the compiler goes on"
    assert server.run_code("python", "print(1)")["stdout"] == "1\n"
    assert server.close() == 0


def test_cancelling_one_that_waits_for_a_slot(runner):
    server = runner.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "1"})
    first = server.submit_code("python", "import time; time.sleep(2); print('first')")
    wait_for_snippets(server.pid, 1)
    second = server.submit_code("python", "print('second')")
    server.notify("notifications/cancelled", {"requestId": second.id})
    assert server.code_result(first)["stdout"] == "first\n"
    assert support.wait_until(lambda: len(history(server)) == 2, 10)
    assert sorted(record["status"] for record in history(server)) == ["error", "success"]
    assert not second.event.is_set()
    assert server.close() == 0


def test_cancelling_what_is_not_there_changes_nothing(server):
    for request_id in (99999, "x", None, {"a": 1}, [1]):
        server.notify("notifications/cancelled", {"requestId": request_id})
    server.notify("notifications/cancelled")
    assert server.request("ping") == {}


# ---- Ends

def test_calls_received_are_answered_after_the_end_of_input(raw):
    raw.begin()
    raw.put(raw.call("1", "import time; time.sleep(1); print('late')") + raw.call("2", "print('early')")
            + b'{"jsonrpc":"2.0","id":3,"method":"ping"}')  # and the last line needs no end
    raw.process.stdin.close()
    answers = {}
    for line in iter(raw.line, b""):
        answer = json.loads(line)
        answers[answer["id"]] = answer["result"]
    assert answers[1]["structuredContent"]["stdout"] == "late\n"
    assert answers[2]["structuredContent"]["stdout"] == "early\n"
    assert answers[3] == {}
    raw.leave(0)


def test_an_empty_session_ends_at_once(runner):
    done = runner.run(input=b"", timeout=20)
    assert done.code == 0 and done.raw_out == b""


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_kills_what_runs(as_each, number, code):
    server = as_each.serve()
    server.submit_code("python", "import time; time.sleep(25)", 30)
    server.submit_code("python", "while True: pass", 30)
    wait_for_snippets(server.pid, min(2, os.cpu_count()))
    below = support.descendants(server.pid)
    began = time.monotonic()
    server.process.send_signal(number)
    assert server.process.wait(20) == code
    assert time.monotonic() - began < 10
    assert support.wait_until(lambda: not support.alive(below), 5), "something of the server is left"
    assert server.stray == []


def test_a_client_that_closes_its_end_takes_its_runs_with_it(as_each):
    raw = Raw(as_each)
    raw.begin()
    raw.put(raw.call("1", "import time; time.sleep(25)", timeout_seconds=30))
    wait_for_snippets(raw.process.pid, 1)
    below = support.descendants(raw.process.pid)
    raw.process.stdout.close()
    raw.leave(0)
    assert support.wait_until(lambda: not support.alive(below), 5), "something of the server is left"


def test_a_client_that_does_not_read_is_still_heard(raw):
    raw.begin()
    raw.put(raw.call("1", "import time; time.sleep(25)", timeout_seconds=30))
    running = wait_for_snippets(raw.process.pid, 1)
    # More than the pipe holds, and nobody reads.
    for i in range(100, 110):
        raw.put(raw.call(str(i), "print('x' * 200000)"))
    for _ in range(3000):
        raw.put(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    raw.put(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n')
    assert support.wait_until(lambda: not support.alive(running), 20), "the cancellation was not heard"
    raw.process.stdin.close()
    answers = [json.loads(line) for line in iter(raw.line, b"")]
    ids = [answer["id"] for answer in answers]
    assert sorted(ids) == sorted([2] * 3000 + list(range(100, 110)))
    for answer in answers:
        if answer["id"] >= 100:
            assert answer["result"]["structuredContent"]["stdout"] == "x" * support.KEPT + support.MARKER
    raw.leave(0)


def test_a_file_as_input_and_output(runner):
    messages = [{"jsonrpc": "2.0", "id": 1, "method": "initialize",
                 "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                            "clientInfo": {"name": "suite", "version": "1"}}},
                {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                 "params": {"name": "run_code", "arguments": {"language": "python", "code": "print(42)"}}}]
    source = runner.file("messages", "".join(json.dumps(message) + "\n" for message in messages))
    target = runner.file("answers", "")
    with open(source, "rb") as stdin, open(target, "wb") as stdout:
        process = runner.start(stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
        assert process.wait(60) == 0
    answers = [json.loads(line) for line in target.read_bytes().splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["stdout"] == "42\n"


def test_a_session_does_not_grow(runner):
    """Thousands of requests of every kind leave the server no larger than the first few hundred did."""
    # A sanitizer keeps what was freed; not here.
    server = runner.serve(env={"ASAN_OPTIONS": "quarantine_size_mb=1:thread_local_quarantine_size_kb=64"})

    def resident():
        with open(f"/proc/{server.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def some(count):
        for _ in range(count):
            server.tool("run_code", {"language": "python", "code": "#" * 60000})
            server.tool("list_supported_languages")
            server.submit("no/such").wait()

    some(200)
    before = resident()
    some(1000)
    assert resident() - before < 8 << 20
    assert server.close() == 0
