"""The official MCP SDK's client (npm) connects over stdio, lists and calls the three tools, and validates."""

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

import support

SOURCE = Path(__file__).parent / "sdk"


@pytest.fixture(scope="session")
def client():
    """The client with its packages, installed once outside the checkout; a changed package.json installs anew."""
    wanted = (SOURCE / "package.json").read_bytes()
    top = support.cache_directory() / "sdk"
    top.mkdir(parents=True, exist_ok=True)
    with open(top / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = top / hashlib.sha256(wanted).hexdigest()[:16]
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            (place / "package.json").write_bytes(wanted)
            done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"],
                                  cwd=place, capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, done.stderr[-3000:]
            (place / "complete").touch()
        shutil.copy(SOURCE / "client.mjs", place / "client.mjs")
    return place / "client.mjs"


@pytest.fixture(scope="module")
def report(client, lab):
    runner = lab.runner(lab.identity("self"))
    done = subprocess.run(["node", str(client), runner.program], env=runner.env, cwd=runner.place, capture_output=True,
                          text=True, timeout=120)
    runner.close()
    assert done.returncode == 0, done.stderr[-4000:]
    support.assert_no_sanitizer_report(done.stderr)
    return json.loads(done.stdout)


def test_no_complaint(report):
    assert report["errors"] == []
    assert report["invalidSchemas"] == []
    assert report["server"]["name"] and report["server"]["version"]
    assert "tools" in report["capabilities"]


def test_tools(report):
    tools = {tool["name"]: tool for tool in report["tools"]}
    assert {"run_code", "list_supported_languages", "get_execution_history"} <= set(tools)
    arguments = tools["run_code"]["inputSchema"]
    assert {"language", "code", "timeout_seconds"} <= set(arguments["properties"])
    assert sorted(arguments["required"]) == ["code", "language"]
    assert all(tool["description"] for tool in tools.values())


def test_results(report):
    assert report["python"]["structuredContent"]["stdout"] == "42\n"
    assert report["cpp"]["structuredContent"]["stdout"] == "from C++\n"
    assert report["broken"]["structuredContent"]["status"] == "compile_error"
    assert report["broken"]["isError"] is False
    assert report["unicode"]["structuredContent"]["stdout"] == "\U0001f378 \u2028|\n"
    assert json.loads(report["python"]["content"][0]["text"]) == report["python"]["structuredContent"]


def test_lists(report):
    languages = report["languages"]["structuredContent"]["result"]
    assert {"python", "cpp"} <= {entry["language"] for entry in languages}
    assert [json.loads(block["text"]) for block in report["languages"]["content"]] == languages
    history = report["history"]["structuredContent"]["result"]
    assert len(history) == 3
    assert history[0]["language"] == "python"


def test_refusals(report):
    refused = report["refused"]
    assert refused["isError"] is False
    assert (refused["structuredContent"]["status"], refused["structuredContent"]["exit_code"]) == ("error", None)
    assert "cobol" in refused["structuredContent"]["stderr"]
    for name, argument in (("wrongType", "code"), ("missing", "code")):
        assert report[name].get("isError") is True, report[name]
        assert argument in report[name]["content"][0]["text"]
    assert report["unknownTool"] == {"thrown": -32602}


def test_concurrency_and_cancellation(report):
    assert report["order"] == ["quick", "slow"]
    assert report["cancelled"] == "cancelled"
    assert report["afterCancel"]["structuredContent"]["stdout"] == "free\n"
    assert report["cancelMs"] < 8000
