"""A store that changes under a running server: brought in late, replaced, cleaned while runs go on."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import support


def copied_store(prepared, place, identity):
    """A small store of one's own: of the prepared one the python image alone."""
    prepared, place = pathlib.Path(prepared), pathlib.Path(place)
    wanted = {"format", "lock"}
    for reference in (prepared / "refs").glob("sandbox-runner+python:*"):
        facts = json.loads(reference.read_text())
        wanted |= {f"refs/{reference.name}", f"trees/{facts['chain_id']}"}
        digests = [facts["manifest"]]
        manifest = json.loads((prepared / "blobs" / digests[0].replace(":", "/")).read_text())
        digests += [part["digest"] for part in [manifest["config"], *manifest["layers"]]]
        wanted |= {"blobs/" + digest.replace(":", "/") for digest in digests}
    place.mkdir(parents=True)
    subprocess.run(["cp", "-a", "--parents", *sorted(name for name in wanted if (prepared / name).exists()), str(place)],
                   cwd=prepared, check=True)
    subprocess.run(["chown", "-R", f"{identity.uid}:{identity.gid}", str(place)], check=True)


def without_store(place):
    return {"SANDBOX_RUNNER_IMAGES_LOWER_STORE": None, "SANDBOX_RUNNER_IMAGES_STORE": str(place)}


def test_a_store_that_comes_late_is_seen(as_each, store):
    place = as_each.place / "late-store"
    server = as_each.serve(env=without_store(place))
    before = server.run_code("python", "print(1)\n")
    assert (before["status"], before["reason"], before["exit_code"]) == ("error", "refused", None), before
    assert "sandbox-runner image build python" in before["stderr"]
    copied_store(store, place, as_each.identity)
    assert server.run_code("python", "print(2)\n")["stdout"] == "2\n"
    # A directory of the same name that is another one.
    os.rename(place, str(place) + "-old")
    copied_store(store, place, as_each.identity)
    shutil.rmtree(str(place) + "-old")
    assert server.run_code("python", "print(3)\n")["stdout"] == "3\n"
    assert server.close() == 0


def test_a_run_under_way_is_not_disturbed_by_a_new_store(as_each, store):
    place = as_each.place / "store"
    copied_store(store, place, as_each.identity)
    server = as_each.serve(env={**without_store(place), "SANDBOX_RUNNER_SERVER_SLOTS": "2"})
    going = server.submit_code("python", "import time\nprint('begun', flush=True)\ntime.sleep(2)\nimport json\nprint('ended')\n")
    assert support.wait_until(lambda: support.spawner_of(server.pid), 10)
    time.sleep(0.7)
    os.rename(place, str(place) + "-old")
    copied_store(store, place, as_each.identity)
    assert server.run_code("python", "print('other')\n")["stdout"] == "other\n"
    assert server.code_result(going, 20)["stdout"] == "begun\nended\n"
    assert server.close() == 0


def test_gc_waits_for_the_run_that_uses_the_image(runner, store):
    place = runner.place / "store"
    copied_store(store, place, runner.identity)
    env = without_store(place)
    run = runner.start("run", "-l", "python", "-c", "import time\ntime.sleep(2)\nimport decimal\nprint('whole')\n", env=env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    for reference in ("sandbox-runner/python:3.12", "sandbox-runner/python:3.11", "sandbox-runner/python:3.13",
                      "sandbox-runner/python:3"):
        runner.run("image", "rm", reference, env=env)
    out, err = run.communicate(timeout=20)
    assert (run.returncode, out) == (0, b"whole\n"), err
    # Now nobody uses it, and it goes.
    assert runner.run("image", "gc", env=env).code == 0
    refused = runner.run("run", "--json", "-l", "python", "-c", "print(1)", env=env).json()
    assert refused["reason"] == "refused", refused


def test_a_store_that_somebody_has_locked_does_not_hold_a_run_for_ever(runner, store):
    place = runner.place / "store"
    copied_store(store, place, runner.identity)
    (place / "lock").touch()
    with open(place / "lock") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        server = runner.serve(env=without_store(place))
        began = time.monotonic()
        waiting = server.submit_code("python", "print(1)\n")
        time.sleep(0.3)
        server.notify("notifications/cancelled", {"requestId": waiting.id})
        assert server.run_code("python", "print(2)\n")["reason"] == "refused"
        assert 4 < time.monotonic() - began < 12
    assert server.run_code("python", "print(3)\n")["stdout"] == "3\n"
    assert server.close() == 0
