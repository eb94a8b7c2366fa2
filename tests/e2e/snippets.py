"""A snippet and its right answer: the table rows of the test_snippets_*.py files and the check behind them.

Conventions of every row: death by signal N is exit code 128+N; bytes that are not UTF-8 become U+FFFD, one for
each; a program is ended at its timeout and what it wrote until then is there.
"""

from dataclasses import dataclass, field
from textwrap import dedent

import pytest


@dataclass
class Case:
    name: str
    language: str
    code: str
    status: object = "success"  # one, or a tuple of allowed ones
    exit_code: object = 0  # one, or a tuple of allowed ones
    reason: str = ""
    out: object = None  # the whole standard output
    out_has: tuple = ()
    out_lacks: tuple = ()
    err: object = None
    err_has: tuple = ()
    err_lacks: tuple = ()
    timeout: int = 10
    within: float = 8  # seconds the run may take
    stdin: object = None
    args: tuple = ()
    checks: tuple = field(default_factory=tuple)  # functions of the result


def python(name, code, out=None, **rest):
    return Case(name, "python", dedent(code), out=out, **rest)


def cpp(name, code, out=None, **rest):
    rest.setdefault("within", 15)
    return Case(name, "cpp", dedent(code), out=out, **rest)


def killed(number):
    """What a run says that ended by this signal."""
    return {"status": "error", "exit_code": 128 + number, "reason": "signal"}


TIMED_OUT = {"status": "timeout", "exit_code": None, "reason": "timeout"}
REJECTED = {"status": "compile_error", "exit_code": 1, "out": ""}


def one_of(value):
    return value if isinstance(value, tuple) else (value,)


def tuple_of(value):
    return (value,) if isinstance(value, str) else tuple(value)


def check(case, result):
    shown = {key: value if not isinstance(value, str) else value[:1500] for key, value in result.items()}
    assert result["status"] in one_of(case.status), shown
    assert result["exit_code"] in one_of(case.exit_code), shown
    assert result["language"] == case.language
    if case.reason:
        assert result["reason"] == case.reason, shown
    if case.out is not None:
        assert result["stdout"] == case.out, shown
    if case.err is not None:
        assert result["stderr"] == case.err, shown
    for part in tuple_of(case.out_has):
        assert part in result["stdout"], shown
    for part in tuple_of(case.out_lacks):
        assert part not in result["stdout"], shown
    for part in tuple_of(case.err_has):
        assert part in result["stderr"], shown
    for part in tuple_of(case.err_lacks):
        assert part not in result["stderr"], shown
    assert result["duration_ms"] < 1000 * (case.within if case.status != "timeout" else case.timeout + 2), shown
    for further in case.checks:
        further(result)


def perform(case, server, runner):
    """Through the server of the module, or by `run` where the snippet needs standard input or arguments."""
    if case.stdin is not None or case.args:
        return runner.snippet(case.language, case.code, case.timeout, stdin=case.stdin, args=case.args)
    return server.run_code(case.language, case.code, case.timeout)


def rows(cases):
    names = [case.name for case in cases]
    assert len(names) == len(set(names)), "two cases of one name"
    return [pytest.param(case, id=case.name) for case in cases]
