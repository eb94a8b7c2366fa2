"""What the suites of the command check again and again."""


def one_sentence(done, *words, out=""):
    """The reason is one line on stderr that names what it is about; on stdout is what the program wrote, if any."""
    lines = done.err.splitlines()
    assert len(lines) == 1, repr(done)
    assert lines[0].startswith("sandbox-runner: "), repr(done)
    for word in words:
        assert word in lines[0], repr(done)
    assert done.out == out, repr(done)
