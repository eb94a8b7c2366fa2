"""What a program writes is what the client reads: encodings, cuts, floods, order, and both streams."""

import pytest

import snippets
from snippets import TIMED_OUT, killed, python
from support import KEPT, MARKER

REPLACED = "\ufffd"


def truncated(stream, total=None):
    """The stream was cut at the limit: kept bytes, marker, flag and true total."""
    def look(result):
        text = result[stream]
        assert text.endswith(MARKER)
        kept = len(text[:-len(MARKER)].encode())
        assert KEPT - 3 <= kept <= KEPT, kept
        assert result[f"{stream}_truncated"] is True
        if total is not None:
            assert result[f"{stream}_bytes"] == total
    return look


def whole(stream, size):
    def look(result):
        assert MARKER not in result[stream]
        assert len(result[stream].encode()) == size
        assert result[f"{stream}_truncated"] is False
    return look


def writes(data, **rest):
    """A Python program that writes exactly these bytes."""
    return f"import sys\nsys.stdout.buffer.write({data!r})\n"


CASES = [
    python("nothing", "pass\n", "", err=""),
    python("no-newline-at-the-end", "print('x', end='')\n", "x"),
    python("control-characters", writes(b"\x1b[1mbold\x1b[0m\x07\x08\x0b\x0c\x7f\x01\x1f|\n"),
           "\x1b[1mbold\x1b[0m\x07\x08\x0b\x0c\x7f\x01\x1f|\n"),
    python("line-ends-are-kept", writes(b"a\r\nb\rc\n\rd\n"), "a\r\nb\rc\n\rd\n"),
    python("nul-bytes", writes(b"a\0b\0\0c"), "a\0b\0\0c"),
    python("quotes-and-backslashes", writes(b'"\\u0041\\n"\'</script>'), '"\\u0041\\n"\'</script>'),
    python("line-separators", writes("a\u2028b\u2029c\u0085d".encode()), "a\u2028b\u2029c\u0085d"),
    python("byte-order-mark", writes(b"\xef\xbb\xbfhi"), "\ufeffhi"),
    python("beyond-the-basic-plane", writes("\U0001f378 \U0001c0d6 \U0010ffff".encode()), "\U0001f378 \U0001c0d6 \U0010ffff"),
    python("noncharacters", writes("\ufffe|\uffff|\ufdd0|\U0001fffe".encode()), "\ufffe|\uffff|\ufdd0|\U0001fffe"),
    python("replacement-character-itself", writes("\ufffd".encode()), REPLACED),
    python("stray-bytes", writes(b"a\xff\xfeb\x80c"), f"a{REPLACED}{REPLACED}b{REPLACED}c"),
    python("overlong-form", writes(b"<\xc0\xaf>"), f"<{REPLACED * 2}>"),
    python("encoded-surrogate", writes(b"<\xed\xa0\x80>"), f"<{REPLACED * 3}>"),
    python("beyond-unicode", writes(b"<\xf4\x90\x80\x80>"), f"<{REPLACED * 4}>"),
    python("cut-short-at-the-end", writes(b"ok\xe2\x82"), f"ok{REPLACED * 2}"),
    python("cut-short-in-the-middle", writes(b"\xf0\x9f\x8d.\xe2\x82\xac"), f"{REPLACED * 3}.\u20ac"),
    python("utf-16", writes("hi".encode("utf-16-le")), "h\0i\0"),
    python("character-written-in-two-halves", """
        import os, time
        for byte in '\\u20ac'.encode():
            os.write(1, bytes([byte]))
            time.sleep(0.05)
        """, "\u20ac"),
    python("text-is-utf-8", "import sys\nprint('\u00fc\u4f60', sys.stdout.encoding, sys.stderr.encoding)\n",
           "\u00fc\u4f60 utf-8 utf-8\n"),
    python("streams-stay-apart", "import sys\nprint('o')\nprint('e', file=sys.stderr)\n", "o\n", err="e\n"),
    python("exactly-the-limit", f"print('x' * {KEPT}, end='')\n", "x" * KEPT, checks=(whole("stdout", KEPT),)),
    python("one-byte-over", f"print('x' * {KEPT + 1}, end='')\n", "x" * KEPT + MARKER,
           checks=(truncated("stdout", KEPT + 1),)),
    python("cut-between-characters", f"print('x' + '\u20ac' * {KEPT // 3 + 10}, end='')\n",
           checks=(truncated("stdout", 1 + 3 * (KEPT // 3 + 10)),), out_lacks=REPLACED),
    python("cut-in-a-four-byte-character", f"print('abc' + '\U0001f378' * {KEPT // 4}, end='')\n",
           checks=(truncated("stdout"),), out_lacks=REPLACED),
    python("stray-bytes-at-the-cut", f"import os, sys\nsys.stdout.buffer.write(b'x' * {KEPT - 1} + bytes([255]) * 9)\n",
           "x" * (KEPT - 1) + REPLACED + MARKER),
    python("errors-over-the-limit", "import sys\nsys.stderr.write('e' * 150000)\n", "", checks=(truncated("stderr", 150000),)),
    python("eight-mebibytes", "import os\nfor _ in range(128):\n    os.write(1, b'z' * 65536)\nprint('done')\n",
           checks=(truncated("stdout", (8 << 20) + 5),)),
    python("both-streams-flood", """
        import os
        for _ in range(64):
            os.write(1, b'o' * 65536)
            os.write(2, b'e' * 65536)
        """, checks=(truncated("stdout", 4 << 20), truncated("stderr", 4 << 20))),
    python("both-streams-from-two-processes", """
        import os
        stream = 1 if os.fork() else 2
        for _ in range(64):
            os.write(stream, b'x' * 65536)
        if stream == 1:
            os.wait()
        """, checks=(truncated("stdout", 4 << 20), truncated("stderr", 4 << 20))),
    python("one-long-line", "print('ab' * 40000)\n", "ab" * 40000 + "\n"),
    python("many-short-lines", "for i in range(9000):\n    print(i)\n", "".join(f"{i}\n" for i in range(9000))),
    python("byte-by-byte", "import os\nfor c in b'abcdef' * 50:\n    os.write(1, bytes([c]))\n", "abcdef" * 50),
    python("partial-output-at-the-timeout", "import time\nprint('begun')\ntime.sleep(30)\n", "begun\n", timeout=1, **TIMED_OUT),
    python("partial-character-at-the-timeout", "import os, time\nos.write(1, b'a\\xe2\\x82')\ntime.sleep(30)\n",
           f"a{REPLACED * 2}", timeout=1, **TIMED_OUT),
    python("partial-output-at-a-crash", "import os\nos.write(1, b'before')\nos.kill(os.getpid(), 11)\n", "before", **killed(11)),
    python("output-after-the-streams-swap", "import os\nos.dup2(2, 9); os.dup2(1, 2); os.dup2(9, 1)\nos.write(1, b'e')\nos.write(2, b'o')\n",
           "o", err="e"),
    python("streams-can-be-opened-by-name", """
        with open('/dev/stdout', 'w') as f: f.write('o')
        with open('/dev/stderr', 'w') as f: f.write('e')
        with open('/proc/self/fd/1', 'w') as f: f.write('p')
        """, "op", err="e"),
    python("closed-standard-output", "import os, sys\nos.close(1)\nsys.stdout = None\nsys.stderr.write('still here')\n", "",
           err="still here"),
    python("the-marker-itself", f"print({MARKER!r}, end='')\n", MARKER,
           checks=(lambda result: result["stdout_truncated"] is False or pytest.fail("said to be truncated"),)),
    python("not-a-terminal", "import os\nprint([os.isatty(n) for n in range(3)])\n", "[False, False, False]\n"),
]

# What never ends is ended: at the timeout, or at the ceiling for output.
ENDLESS = [
    python("endless-flood", "import os\nb = b'y' * 65536\nwhile True:\n    os.write(1, b)\n"),
    python("endless-flood-of-errors", "import os\nb = b'y' * 65536\nwhile True:\n    os.write(2, b)\n"),
    python("endless-flood-by-a-child", "import os\nos.fork()\nb = b'y' * 4096\nwhile True:\n    os.write(1, b)\n"),
]


@pytest.mark.parametrize("case", snippets.rows(CASES))
def test_output(case, server, as_each):
    snippets.check(case, snippets.perform(case, server, as_each))


@pytest.mark.parametrize("case", snippets.rows(ENDLESS))
def test_endless_output(case, server):
    result = server.run_code("python", case.code, 1)
    assert (result["status"], result["reason"]) in (("timeout", "timeout"), ("error", "output_limit")), result["reason"]
    stream = "stderr" if "errors" in case.name else "stdout"
    truncated(stream)(result)
    assert result[f"{stream}_bytes"] > KEPT
    assert result["duration_ms"] < 3000
