"""`doctor`: what it says of this host, and of hosts that forbid or lack something, which are made here where a
namespace of the test's own can make them. Causes that no namespace makes are unit tests (test_doctor.c)."""

import json
import os
import pwd

import pytest

import docker
import support
from sentences import one_sentence

IDS = ["configuration", "environment", "kernel", "user-namespaces", "namespaces", "proc", "seccomp", "landlock",
       "limits", "ids", "spawner", "image-program", "store", "languages", "images", "history", "trial-run"]
ENFORCERS = {"cgroup2", "cgroup1", "watchdog", "none"}


def examined(done):
    """The report, and its checks by id."""
    report = done.json()
    return report, {check["id"]: check for check in report["checks"]}


def inside(runner, script, *args, unshare=("--user", "--map-root-user"), **options):
    """Runs the program after `script` in namespaces made by unshare; the script is root in them alone."""
    return runner.run(*unshare, "sh", "-c", f'set -e; {script}; exec "$0" "$@"', runner.program, *args,
                      argv0="unshare", **options)


def needs_root(test):
    """For tests that mount over the host's files, in a namespace of their own. Where an ordinary user started the
    suite there is no such test, and the closing line says that nothing ran as root."""
    return test if os.geteuid() == 0 else None


def test_doctor_says_that_snippets_run(as_each):
    done = as_each.run("doctor")
    assert done.code == 0 and done.out.endswith("Snippets can run here.\n"), repr(done)
    report, checks = examined(as_each.run("doctor", "--json"))
    assert report["ready"] is True and [check["id"] for check in report["checks"]] == IDS
    for check in report["checks"]:
        assert set(check) == {"id", "title", "state", "needed", "found", "fix"}
        assert check["state"] in ("ok", "warning") and check["found"]
        assert check["fix"] is None if check["state"] == "ok" else check["fix"] is not None, check
    for name in ("trial-run", "user-namespaces", "proc", "configuration"):
        assert checks[name]["state"] == "ok", checks[name]
    assert as_each.run("history", "--json").json() == []


def test_doctor_says_what_holds_each_limit_and_whose_ids_programs_have(as_each):
    report, checks = examined(as_each.run("doctor", "--json"))
    assert set(report["limits"]) == {"memory", "cpu", "pids"} and set(report["limits"].values()) <= ENFORCERS
    for controller, enforcer in report["limits"].items():
        assert f"{controller}: {enforcer}" in checks["limits"]["found"]
    held = all(enforcer.startswith("cgroup") for enforcer in report["limits"].values())
    assert (checks["limits"]["state"] == "ok") == held, checks["limits"]
    assert report["ids"] in ("range", "single")
    assert (checks["ids"]["state"] == "ok") == (report["ids"] == "range"), checks["ids"]


def test_doctor_says_what_is_missing_and_what_brings_it(runner):
    env = {"SANDBOX_RUNNER_IMAGES_LOWER_STORE": None}
    done = runner.run("doctor", env=env)
    assert done.code == 1 and "Snippets cannot run here" in done.out
    assert f"→ {runner.program} image build" in done.out
    report, checks = examined(runner.run("doctor", "--json", env=env))
    assert report["ready"] is False
    assert {name for name, check in checks.items() if check["state"] == "error"} >= {"images", "trial-run"}


def test_doctor_looks_at_what_is_set(runner):
    runner.file("file", "")
    damaged = runner.file("damaged.db", b"this is no database" * 500)
    _report, checks = examined(runner.run("doctor", "--json", "--db", damaged, "--store", "file/images"))
    assert checks["history"]["state"] == "warning" and str(damaged) in checks["history"]["found"]
    assert checks["store"]["state"] != "ok", checks["store"]


def test_doctor_prints_the_program_as_it_was_started(runner):
    """So that what it says can be typed: the program need not be in PATH."""
    bin_directory, name = os.path.split(runner.program)
    env = {"SANDBOX_RUNNER_IMAGES_LOWER_STORE": None}
    (runner.place / "here").symlink_to(bin_directory)
    done = runner.run("doctor", "--json", argv0=f"here/{name}", env=env)
    _report, checks = examined(done)
    assert checks["images"]["fix"].startswith(f"here/{name} image build "), checks["images"]
    done = runner.run("doctor", "--json", argv0=name, env={**env, "PATH": f"{bin_directory}:{os.environ['PATH']}"})
    _report, checks = examined(done)
    assert checks["images"]["fix"].startswith(f"{name} image build "), checks["images"]


def test_doctor_tries_another_language_than_one_above_a_ceiling(runner):
    languages = runner.place / "languages"
    languages.mkdir()
    plain = json.loads((support.CHECKOUT / "images" / "python.json").read_text())
    for name in ("aaa", "bbb"):
        plain.update(aliases=[], extensions=[f".{name}"], limits={"run": {"memory": "4G"}})
        (languages / f"{name}.json").write_text(json.dumps(plain))
    (languages / "ccc.json").write_text("{")
    (languages / "ddd.json").write_text("[]")
    env = {"SANDBOX_RUNNER_LANGUAGES_DIRECTORIES": f"{support.CHECKOUT / 'images'}:{languages}",
           "SANDBOX_RUNNER_RUN_MAX_MEMORY": "2G"}
    _report, checks = examined(done := runner.run("doctor", "--json", env=env))
    assert done.code == 0 and checks["trial-run"]["state"] == "ok", repr(done)
    assert "python program ran" in checks["trial-run"]["found"]
    assert checks["languages"]["state"] == "warning" and "run.max_memory" in checks["languages"]["found"]
    assert "\n" not in checks["languages"]["found"]
    for name in ("aaa", "bbb", "ccc", "ddd"):
        assert str(languages / f"{name}.json") in checks["languages"]["found"], checks["languages"]
    lines = runner.run("doctor", env=env).out.splitlines()
    for name in ("aaa", "bbb", "ccc", "ddd"):
        assert sum(str(languages / f"{name}.json") in line for line in lines) == 1, lines
    assert not [line for line in lines if line.count(str(languages)) > 1], lines
    # With no other language left it says why none ran.
    for name in ("ccc", "ddd"):
        (languages / f"{name}.json").unlink()
    env["SANDBOX_RUNNER_LANGUAGES_DIRECTORIES"] = str(languages)
    _report, checks = examined(done := runner.run("doctor", "--json", env=env))
    assert done.code == 1 and "ceiling" in checks["trial-run"]["found"], checks["trial-run"]


def test_doctor_names_an_image_once(runner):
    plain = json.loads((support.CHECKOUT / "images" / "python.json").read_text())
    languages = runner.place / "languages"
    languages.mkdir()
    for name in ("aaa", "bbb"):
        plain.update(aliases=[], extensions=[f".{name}"])
        (languages / f"{name}.json").write_text(json.dumps(plain))
    env = {"SANDBOX_RUNNER_LANGUAGES_DIRECTORIES": str(languages)}
    _report, checks = examined(runner.run("doctor", "--json", env=env))
    assert checks["images"]["found"].endswith(" for aaa, bbb") and checks["images"]["found"].count(":") == 1
    _report, checks = examined(runner.run("doctor", "--json", env={**env, "SANDBOX_RUNNER_IMAGES_LOWER_STORE": None}))
    assert checks["images"]["fix"].count("image build") == 1, checks["images"]


def test_doctor_writes_for_the_width_of_the_screen(runner):
    env = {"SANDBOX_RUNNER_IMAGES_LOWER_STORE": None, "SANDBOX_RUNNER_LOG_LEVEL": "x"}
    wide = runner.run("doctor", env=env).out.splitlines()
    assert any(len(line) > 100 for line in wide)
    narrow = runner.run("doctor", env={**env, "COLUMNS": "80"}).out.splitlines()
    long = [line for line in narrow if len(line) > 80]
    assert len(narrow) > len(wide) and all(len(line.split()[-1]) > 40 or "/" in line for line in long), long
    mended = [line.split() for line in narrow]
    assert "".join(sum(mended, [])).replace("\\", "") == "".join(sum((line.split() for line in wide), []))


def test_doctor_takes_strict_limits(as_each):
    for arguments in (["doctor", "--strict-limits", "--json"], ["--strict-limits", "doctor", "--json"]):
        done = as_each.run(*arguments)
        report, checks = examined(done)
        held = all(enforcer.startswith("cgroup") for enforcer in report["limits"].values())
        assert (done.code == 0) == held and report["ready"] == held, repr(done)
        assert checks["limits"]["state"] == ("ok" if held else "error")
        assert held or "Strict limits are wanted" in checks["trial-run"]["found"]
    assert as_each.run("--strict-limits", "config").code == 2


def test_doctor_says_how_to_make_a_place_writable(as_user):
    def shell(command):
        assert as_user.run("-c", command, argv0="sh").code == 0, command

    state, store = as_user.place / "records", as_user.place / "my pictures"
    options = ("--db", state / "history.db", "--store", store)
    shell(f"mkdir '{state}' '{store}'")
    assert as_user.run("run", "-l", "python", "-c", "1", *options).code == 0 and (state / "history.db").exists()
    shell(f"chmod 500 '{state}' '{store}'")
    _report, checks = examined(as_user.run("doctor", "--json", *options))
    for name, word in (("history", state), ("store", f"'{store}'")):
        assert checks[name]["state"] == "warning", checks[name]
        command, another = checks[name]["fix"].splitlines()
        assert command == f"chmod u+rwX {word}" and another.startswith("export SANDBOX_RUNNER_"), checks[name]
        shell(command)
    _report, checks = examined(as_user.run("doctor", "--json", *options))
    assert checks["history"]["state"] == checks["store"]["state"] == "ok", checks


@needs_root
def test_doctor_gives_back_what_root_made(lab, as_user):
    """The store and the history of somebody who began with sudo."""
    state, store = as_user.place / "sandbox-runner", as_user.place / "pictures"
    options = ("--db", state / "history.db", "--store", store)
    for place in (state, store):
        place.mkdir()
        (place / "history.db").touch()
    _report, checks = examined(as_user.run("doctor", "--json", *options))
    owner = f"{as_user.identity.uid}:{as_user.identity.gid}"
    for name, place in (("history", state), ("store", store)):
        assert checks[name]["fix"].splitlines()[0] == f"sudo chown -R {owner} {place}", checks[name]
    # A directory that others may use is not given away.
    _report, checks = examined(as_user.run("doctor", "--json", "--db", "/etc/history.db"))
    assert checks["history"]["fix"].startswith("export "), checks["history"]


# Configuration and environment


def test_doctor_goes_on_with_a_configuration_in_error(runner):
    file = runner.file("bad.json", '{"run.tiemout": 3, "run": {"memory": "x", "pids": 30}}')
    done = runner.run("doctor", "--json", "--config", file)
    report, checks = examined(done)
    assert done.code == 1 and report["ready"] is False and done.err == ""
    found = checks["configuration"]
    assert found["state"] == "error" and found["needed"] and found["fix"]
    for words in (str(file), "run.tiemout", "run.timeout", "run.memory"):
        assert words in found["found"], found
    assert all(check["state"] != "error" for name, check in checks.items() if name != "configuration")
    assert checks["trial-run"]["state"] == "ok"


@pytest.mark.parametrize("content", ["{", "[]", None])
def test_doctor_goes_on_without_a_configuration_that_is_none(runner, content):
    file = runner.file("bad.json", content) if content is not None else runner.place / "absent.json"
    done = runner.run("doctor", "--json", env={"SANDBOX_RUNNER_CONFIG": file})
    _report, checks = examined(done)
    assert done.code == 1 and str(file) in checks["configuration"]["found"]
    assert checks["trial-run"]["state"] == "ok"
    for verb in (["config"], ["languages"]):
        refused = runner.run(*verb, env={"SANDBOX_RUNNER_CONFIG": file})
        assert refused.code == 1
        one_sentence(refused, file.name)


def test_doctor_goes_on_with_a_variable_in_error(runner):
    env = {"SANDBOX_RUNNER_RUN_TIMEOUT": "soon", "SANDBOX_RUNNER_RUN_MAX_TIMEOUT": "5", "SANDBOX_RUNNER_LOG_LEVEL": "x"}
    done = runner.run("doctor", "--json", env=env)
    _report, checks = examined(done)
    assert done.code == 1
    for words in ("SANDBOX_RUNNER_RUN_TIMEOUT", "soon", "SANDBOX_RUNNER_LOG_LEVEL"):
        assert words in checks["configuration"]["found"], checks["configuration"]
    assert checks["trial-run"]["state"] == "ok"


def test_doctor_warns_of_variables_without_a_meaning(runner):
    env = {"SANDBOX_RUNNER_RUN_TIEMOUT": "5", "SANDBOX_RUNNER_MEMORY": "64M", "SANDBOX_RUNNER_ZZZZZZZZ": "1",
           "SANDBOX_RUNNER_URL": "http://127.0.0.1:1", "SANDBOX_RUNNER_RUN_PIDS": "30"}
    done = runner.run("doctor", "--json", env=env)
    _report, checks = examined(done)
    found = checks["environment"]
    assert done.code == 0 and found["state"] == "warning" and not found["needed"]
    assert "SANDBOX_RUNNER_RUN_TIEMOUT (did you mean SANDBOX_RUNNER_RUN_TIMEOUT?)" in found["found"]
    assert "SANDBOX_RUNNER_MEMORY (did you mean SANDBOX_RUNNER_RUN_MEMORY?)" in found["found"]
    assert "SANDBOX_RUNNER_ZZZZZZZZ" in found["fix"] and "SANDBOX_RUNNER_ZZZZZZZZ (" not in found["found"]
    for known in ("SANDBOX_RUNNER_URL", "SANDBOX_RUNNER_RUN_PIDS", "SANDBOX_RUNNER_IMAGES_LOWER_STORE"):
        assert known not in found["found"]


# Hosts that forbid something


ALL = ("--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")
FORBIDDING = {
    "user-namespaces": ("echo 0 >/proc/sys/user/max_user_namespaces", "user.max_user_namespaces is 0",
                        "echo user.max_user_namespaces="),
    "namespaces": ("echo 0 >/proc/sys/user/max_net_namespaces", "user.max_net_namespaces is 0",
                   "echo user.max_net_namespaces="),
    "proc": ("mount -t tmpfs none /proc/sys", "(/proc/sys)", "systempaths=unconfined"),
    "ids": ("true", "not mapped", "sandbox.root_id_base"),
}


if os.geteuid() != 0:
    del FORBIDDING["ids"]  # root there is an ordinary user outside, and one id will do


@pytest.mark.parametrize("check", FORBIDDING)
def test_doctor_names_what_a_host_forbids(runner, check):
    spoil, found, fix = FORBIDDING[check]
    done = inside(runner, spoil, "doctor", "--json", unshare=ALL)
    assert done.code == 1, repr(done)
    report, checks = examined(done)
    assert report["ready"] is False and checks[check]["state"] == "error"
    assert found in checks[check]["found"] and fix in checks[check]["fix"], checks[check]
    order = list(checks)
    assert all(checks[name]["state"] == "ok" for name in ("kernel", "user-namespaces", "namespaces", "proc")
               if order.index(name) < order.index(check)), "an earlier check is blamed"
    run = inside(runner, spoil, "run", "-l", "python", "-c", "print(1)", unshare=ALL)
    assert run.code == 125, repr(run)
    one_sentence(run)


def as_user_after(lab, as_user, script, *args):
    """Root prepares a mount namespace, and the ordinary user runs the program in it."""
    identity = as_user.identity
    become = f'exec setpriv --reuid {identity.uid} --regid {identity.gid} --clear-groups "$0" "$@"'
    root = lab.runner(lab.identity("root"))
    try:
        return root.run("--mount", "sh", "-c", f"set -e; {script}; {become}", as_user.program, *args,
                        argv0="unshare", env=as_user.env, cwd=as_user.place)
    finally:
        root.close()


def ranges(as_user):
    """A line that gives this user ids, in files of the test's own."""
    return f"printf '%s:600000:65536\\n' {pwd.getpwuid(as_user.identity.uid).pw_name} >$HOME/subid; "


IDS_MISSING = {
    "no range of uids": ("mount --bind $HOME/subid /etc/subgid; mount --bind /dev/null /etc/subuid",
                         "no range in /etc/subuid", "usermod --add-subuids"),
    "no range of gids": ("mount --bind $HOME/subid /etc/subuid; mount --bind /dev/null /etc/subgid",
                         "no range in /etc/subgid", "--add-subgids"),
    "no newuidmap": ("mount --bind /dev/null /usr/bin/newuidmap", "newuidmap is not installed",
                     "apt-get install uidmap"),
    "newuidmap has no power": ("cp /usr/bin/newuidmap $HOME/plain; chmod 755 $HOME/plain; "
                               "mount --bind $HOME/plain /usr/bin/newuidmap",
                               "neither the set-id bit", "--reinstall uidmap"),
    "nosuid": ("mount --bind /usr/bin /usr/bin; mount -o remount,bind,nosuid /usr/bin", "nosuid", "remount,suid"),
}


@needs_root
@pytest.mark.parametrize("cause", IDS_MISSING)
def test_doctor_says_why_programs_share_an_id(lab, as_user, cause):
    spoil, found, fix = IDS_MISSING[cause]
    if "mount --bind $HOME/subid /etc/sub" not in spoil:
        spoil = f"mount --bind $HOME/subid /etc/subuid; mount --bind $HOME/subid /etc/subgid; {spoil}"
    done = as_user_after(lab, as_user, ranges(as_user) + spoil, "doctor", "--json")
    report, checks = examined(done)
    assert done.code == 0 and report["ids"] == "single", repr(done)
    assert checks["ids"]["state"] == "warning" and checks["trial-run"]["state"] == "ok"
    assert found in checks["ids"]["found"] and fix in checks["ids"]["fix"], checks["ids"]


@needs_root
def test_doctor_says_that_programs_have_ids_of_their_own(lab, as_user):
    spoil = "mount --bind $HOME/subid /etc/subuid; mount --bind $HOME/subid /etc/subgid"
    report, checks = examined(as_user_after(lab, as_user, ranges(as_user) + spoil, "doctor", "--json"))
    assert report["ids"] == "range" and checks["ids"]["state"] == "ok", checks["ids"]


def test_doctor_says_that_no_new_privileges_takes_the_ids(as_user):
    done = as_user.run("--no-new-privs", as_user.program, "doctor", "--json", argv0="setpriv")
    report, checks = examined(done)
    assert done.code == 0 and report["ids"] == "single" and checks["ids"]["state"] == "warning"
    assert "no_new_privs" in checks["ids"]["found"] and "NoNewPrivileges=" in checks["ids"]["fix"]


@needs_root
@pytest.mark.parametrize("who", ["root", "user"])
def test_doctor_says_that_no_cgroup_is_mounted(lab, as_user, who):
    spoil = "mount -t tmpfs none /sys/fs/cgroup"
    if who == "user":
        done = as_user_after(lab, as_user, spoil, "doctor", "--json")
    else:
        runner = lab.runner(lab.identity("root"))
        done = inside(runner, spoil, "doctor", "--json", unshare=("--mount",))
        runner.close()
    report, checks = examined(done)
    assert done.code == 0 and report["limits"] == {"memory": "watchdog", "cpu": "none", "pids": "watchdog"}
    assert checks["limits"]["state"] == "warning"
    assert "no cgroup hierarchy" in checks["limits"]["found"]
    assert "mount -t cgroup2 none /sys/fs/cgroup" in checks["limits"]["fix"]


@needs_root
def test_what_doctor_advises_in_docker_mends_it(runner):
    """The options it names are added, container by container, until programs run."""
    options, seen = ["--network", "none"], []
    folders = {"/usr": "/usr", "/bin": "/usr/bin", "/lib": "/usr/lib", "/lib64": "/usr/lib64", "/etc": "/etc"}
    ours = (support.CHECKOUT, os.path.dirname(runner.program), runner.env["SANDBOX_RUNNER_IMAGES_LOWER_STORE"])
    for inside_path, path in [*folders.items(), *((path, path) for path in map(str, ours))]:
        options += ["--volume", f"{path}:{inside_path}:ro"]
    for name in runner.env:
        if name.startswith("SANDBOX_RUNNER_"):
            options += ["--env", f"{name}={runner.env[name]}"]
    with docker.Engine() as engine:
        engine.import_image("empty:1", {".keep": b""}, ("tmp", "proc", "sys", "dev"))
        for _attempt in range(3):
            done = engine.run(*options, "--env", "HOME=/tmp", "empty:1", runner.program, "doctor", "--json")
            report = json.loads(done.stdout)
            seen.append({check["id"]: check["found"] for check in report["checks"] if check["state"] == "error"})
            if report["ready"]:
                break
            for check in report["checks"]:
                if check["state"] == "error" and check["fix"]:
                    words = check["fix"].split()
                    assert words[:2] == ["docker", "run"] and words[-1] == "…", check
                    options += words[2:-1]
    assert report["ready"] and done.returncode == 0, seen
    assert "system call filter" in seen[0]["user-namespaces"], seen
    limits = next(check for check in report["checks"] if check["id"] == "limits")
    assert "read-only" in limits["found"] and "writable-cgroups" in limits["fix"], limits


def test_doctor_without_the_spawner(runner):
    """A copy of the command alone: what it needs is not beside it."""
    alone = runner.place / "alone"
    alone.mkdir()
    program = alone / "sandbox-runner"
    program.write_bytes(open(runner.program, "rb").read())
    program.chmod(0o755)
    done = runner.run("doctor", "--json", argv0=str(program))
    _report, checks = examined(done)
    assert done.code == 1 and checks["spawner"]["state"] == "error"
    assert "sandbox-runner-spawner" in checks["spawner"]["found"] and checks["spawner"]["fix"]
    done = runner.run("run", "-l", "python", "-c", "1", argv0=str(program))
    assert done.code == 125 and "sandbox-runner-spawner" in done.err
