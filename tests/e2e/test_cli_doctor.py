"""`doctor`: what it says of this host, and of hosts that forbid or lack something."""

import os

import pytest

from sentences import one_sentence


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


if os.geteuid() != 0:
    del FORBIDDING["user ids"]  # root there is an ordinary user outside, and one id will do


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
