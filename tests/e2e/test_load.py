"""Hundreds of very short runs, eight at once: every one is answered, rightly, and none is mistaken for another.

What ends and what begins overlap all the time here, so whatever a slot still holds of its last run shows.
"""

import json

CODES = (0, 1, 7, 42, 255)


def test_short_runs_overlap(lab, identity):
    runner = lab.runner(identity)
    languages = runner.place / "languages"
    languages.mkdir()
    # The least there is to run, so that launching and ending is all there is: a shell that exits.
    (languages / "exits.json").write_text(json.dumps({
        "description": "exits", "image": "sandbox-runner/minimal:latest", "extensions": [".exits"], "source": "snippet.sh",
        "run": ["/bin/sh", "/scratch/snippet.sh"]}))
    server = runner.serve(env={"SANDBOX_RUNNER_LANGUAGES_DIRECTORIES": str(languages), "SANDBOX_RUNNER_SERVER_SLOTS": "8"})
    flying, wrong = [], []

    def land():
        number, code, waiting = flying.pop(0)
        result = server.code_result(waiting, 60)
        if (result["exit_code"], result["stdout"], result["reason"]) != (code, f"{number}\n", "exit"):
            wrong.append((number, code, result["exit_code"], result["stdout"], result["reason"], result["stderr"][:300]))

    for number in range(400):
        code = CODES[number % len(CODES)]
        if len(flying) >= 16:
            land()
        flying.append((number, code, server.submit_code("exits", f"echo {number}; exit {code}\n", 10)))
    while flying:
        land()
    assert wrong == [], f"{len(wrong)} wrong, such as {wrong[:3]}"
    assert server.close() == 0
    runner.close()


def test_those_who_wait_are_served_in_the_order_of_arrival(lab, identity):
    """Sent in one go, so that only the order on the wire tells who came first."""
    runner = lab.runner(identity)
    server = runner.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "1"})
    ids = [f"run {number}" for number in range(40)]
    waiting = [server.expect(name) for name in ids]
    server.send_bytes(b"".join(json.dumps({
        "jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {"name": "run_code", "arguments": {
            "language": "python", "code": "import time\nprint(time.monotonic_ns())\n"}}}).encode() + b"\n"
        for name in ids))
    began = [int(server.code_result(answer)["stdout"]) for answer in waiting]
    assert began == sorted(began)
    assert server.close() == 0
    runner.close()
