"""The benchmark still works: one short pass prints every row. Its figures are not looked at."""

import os
import re
import subprocess

import support


def test_short_pass():
    env = dict(os.environ)
    env.pop("SANDBOX_RUNNER", None)  # the optimised program, as when it is measured
    done = subprocess.run(["sh", str(support.CHECKOUT / "tests" / "bench" / "run.sh"), "--smoke"], env=env, capture_output=True,
                          text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    tables = 2 if os.geteuid() == 0 else 1
    cell = r"\s+\d+\.\d\d \(\d+\.\d\d\)"
    for way in ("bare exec in a chroot", "resident server: launch to end", "resident server: whole run",
                "resident server: request to answer", "one command", "bubblewrap"):
        assert len(re.findall(rf"^{way}.*?{cell}{cell}{cell}$", done.stdout, re.M)) == tables, done.stdout
    assert len(re.findall(r"^target for .*: (?:met|missed)$", done.stdout, re.M)) == 2 * tables, done.stdout
