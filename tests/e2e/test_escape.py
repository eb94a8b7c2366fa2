"""Every attempt of tests/escape meets its wall, and the manual's table of them says what happens, here and in Docker.

Each attempt asserts by itself what it must meet; see tests/escape/escape.h. Here they are made by escape-driver as
root and as an ordinary user, over the tree of an image and over the host's own programs; and all but those that
need our own interface are made once more in containers of a real Docker Engine with its defaults. An attempt that
is let through there is no way out of a container by itself: it is a wall that is not there.
"""

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import docker
import support
from identity import Identity

MANUAL = support.CHECKOUT / "man" / "sandbox-runner-security.7"
LONE_ID = 64999  # nobody's, so that /etc/subuid has nothing for it
TOOLS = ("escape", "escape-driver")
IMAGE = "escape:1"

# What is open and known: name → why. Once one is closed, its entry must go.
KNOWN = {
    "pair-lock": "runs of one image share its files, and with them advisory locks",
    "job-directory": "without Landlock the helper that unpacks layers can read what lies above the directory it writes into",
}


class Tools:
    """The programs, where an identity can run them and as it would own them."""

    def __init__(self, lab, identity):
        self.identity = identity
        built = lab.program.parent / "tests" / "escape"
        missing = [name for name in TOOLS if not (built / name).exists()]
        assert not missing, f"{missing} not in {built}: build them first"
        self.place = lab.base / f"escape-{identity.label}"
        if not self.place.exists():
            self.place.mkdir()
            for path in [built / name for name in TOOLS] + [lab.program.parent / "sandbox-runner-spawner"]:
                shutil.copy(path, self.place)
                identity.own(self.place / path.name)
            self.place.chmod(0o755)
        self.escape = self.place / "escape"

    def run(self, program, *args, timeout=200):
        done = self.identity.run([self.place / program, *args], self.place, timeout)
        support.assert_no_sanitizer_report(done.stderr)
        return done

    def catalogue(self):
        """{name: (kind, subject)} in the order of the list."""
        lines = self.run("escape", "--list").stdout.splitlines()
        return {name: (kind, subject) for name, kind, subject, _what in (line.split("\t") for line in lines)}


def read_results(text):
    """{name: (verdict, what was said)} of a driver's output."""
    return {name: (verdict, said) for name, verdict, said in (line.split("\t", 2) for line in text.splitlines())}


def tree_of(store):
    """The chain id of the smallest image that is there."""
    references = {}
    for path in sorted((Path(store) / "refs").glob("*.json")):
        reference = json.loads(path.read_text())
        references.setdefault(reference["size"], reference["chain_id"])
    return references[min(references)]


_made = {}


def make_attempts(lab, identity, root):
    """The results of all of them, made once."""
    if (identity.label, root) in _made:
        return _made[identity.label, root]
    tools = Tools(lab, identity)
    options = []
    if root == "image":
        store = lab.store_of(identity)
        options = ["--store", store / "trees", "--tree", tree_of(store)]
    done = tools.run("escape-driver", *options)
    results = read_results(done.stdout)
    assert results, f"exit {done.returncode}: {done.stderr[-3000:]}"
    _made[identity.label, root] = results
    return results


def open_ones(results):
    return {name: said for name, (verdict, said) in results.items() if verdict != "held"}


def expected_open(tools, name):
    if name == "job-directory" and support.landlock_version() >= 2:
        return False
    return name in KNOWN


def check_attempts(lab, identity, root):
    results = make_attempts(lab, identity, root)
    tools = Tools(lab, identity)
    assert list(results) == list(tools.catalogue()), "some were not made"
    through = {name: said for name, said in open_ones(results).items() if not expected_open(tools, name)}
    assert not through, "\n".join(f"{name}: {said}" for name, said in through.items())
    closed = [name for name in KNOWN if expected_open(tools, name) and name not in open_ones(results)]
    assert not closed, f"{closed} held: take them off KNOWN and out of the manual"


@pytest.mark.parametrize("root", [pytest.param("image", marks=pytest.mark.vm), "host"])
def test_every_attempt_meets_its_wall(lab, identity, root):
    check_attempts(lab, identity, root)


def test_every_attempt_of_a_user_without_subordinate_ids(lab):
    """A program then has the id of who started it on the host: the other walls must do."""
    if os.geteuid() != 0:
        pytest.skip("only root can become such a user")
    check_attempts(lab, Identity("lone", LONE_ID, LONE_ID, True), "image")


@pytest.mark.vm
def test_nothing_is_made_outside_a_sandbox(lab, identity):
    """The program refuses on a host, where some attempts would do harm."""
    tools = Tools(lab, identity)
    for args in (["kill-init"], ["--all"], ["kill-everybody", "first"]):
        done = tools.run("escape", *args)
        assert (done.returncode, done.stdout) == (2, "") and "escape-driver" in done.stderr


@pytest.mark.vm
def test_a_missing_wall_is_seen(lab, identity):
    """Run without a sandbox, harmless attempts say that they were let through: the assertions can fail."""
    tools = Tools(lab, identity)
    for name in ("personality-no-randomize", "int-80" if os.uname().machine == "x86_64" else "kernel-aio",
                 "image-inotify", "host-loopback", "host-abstract-socket", "host-secret", "socket-netlink-route"):
        done = tools.run("escape-driver", "--host", tools.escape, name)
        assert done.returncode == 1, (name, done)


# The same in Docker.

class Containers:
    """Makes attempts in containers, the way escape-driver does in sandboxes."""

    BASE = ("--network", "none", "--env", "ESCAPE_SANDBOXED=1")
    KNOWS = ("PID", "PORT", "SOCKET", "DIRECTORY", "KEY")

    def __init__(self, engine, tools):
        self.engine = engine
        self.tools = tools
        self.catalogue = tools.catalogue()
        some = b"x" * 4096
        engine.import_image(IMAGE, {"escape": tools.escape, "bin/sh": some, "usr/bin/env": some,
                                    "etc/ld.so.cache": some, "etc/passwd": b"root:x:0:0::/:/bin/sh\n"},
                            ["tmp", "scratch", "var/tmp", "usr/lib", "home", "root", "run/lock", "opt"])

    def alone(self):
        """All that need no partner, one after another in one container."""
        knows = [word for name in self.KNOWS for word in ("--env", f"ESCAPE_{name}")]
        done = self.tools.run("escape-driver", "--host", docker.CLIENT, "--host", self.engine.host, "run", "--rm",
                              *self.BASE, *knows, IMAGE, "/escape", "--all")
        assert "escape-driver:" not in done.stderr, done.stderr
        results = {}
        for line in done.stdout.splitlines():
            name, said = line.split("\t", 1)
            if name != "=":
                last = name, said
            else:
                results[last[0]] = (("held", "open", "undecided")[int(said)], last[1])
        return results

    def decide(self, name):
        done = self.engine.run(*self.BASE, IMAGE, "/escape", name)
        said = done.stdout.rstrip("\n").partition("\t")[2] or done.stderr[-300:]
        return ("held", "open", "undecided")[min(done.returncode, 2)], said

    def sequel(self, name):
        first = self.engine.run(*self.BASE, IMAGE, "/escape", name, "first")
        return self.decide(name) if first.returncode == 0 else ("undecided", first.stdout + first.stderr)

    def pair(self, name):
        partner = self.engine.command("run", "--detach", *self.BASE, IMAGE, "/escape", name, "first").stdout.strip()
        try:
            ready = support.wait_until(lambda: "ready" in self.engine.command("logs", partner).stdout, 20, 0.05)
            result = self.decide(name) if ready else ("undecided", "the first half did not get ready")
            running = self.engine.command("inspect", "--format", "{{.State.Running}}", partner).stdout.strip()
            return result if running == "true" else ("open", "the other container was ended")
        finally:
            self.engine.command("rm", "--force", partner)

    def all(self):
        results = self.alone()
        with ThreadPoolExecutor(3) as pool:
            kinds = {"pair": self.pair, "sequel": self.sequel}
            waiting = {name: pool.submit(kinds[kind], name) for name, (kind, _subject) in self.catalogue.items()
                       if kind in kinds}
            results.update({name: future.result() for name, future in waiting.items()})
        return {name: results[name] for name in self.catalogue if name in results}


@pytest.fixture(scope="module")
def in_docker(lab):
    """(version, results) of Docker."""
    if os.geteuid() != 0:
        pytest.skip("only root can start dockerd")
    with docker.Engine() as engine:
        yield engine.version(), Containers(engine, Tools(lab, lab.identity("root"))).all()


def test_docker_decides_every_attempt(in_docker):
    _version, results = in_docker
    undecided = {name: said for name, (verdict, said) in results.items() if verdict == "undecided"}
    assert len(results) > 200 and not undecided
    # What holds of any container: if these are open, the comparison is wrong.
    for name in ("mount-tmpfs", "pivot-root", "unshare-user", "kexec-load", "host-secret", "host-loopback",
                 "pair-shm", "pair-abstract-socket", "kill-everybody", "left-files"):
        assert results[name][0] == "held", (name, results[name])


# The manual.

def rows_of(catalogue, here, there):
    """The manual's table as it should be: {subject: (held here, of, held in Docker, of)}."""
    rows = {}
    for subject in dict.fromkeys(subject for _kind, subject in catalogue.values()):
        names = [name for name in catalogue if catalogue[name][1] == subject]
        compared = [name for name in names if name in there]
        rows[subject] = (sum(here[name][0] == "held" for name in names), len(names),
                         sum(there[name][0] == "held" for name in compared), len(compared))
    return rows


def read_table():
    """{subject: numbers} of the manual, the names it says Docker lets through, the versions it says that of."""
    text = MANUAL.read_text(encoding="utf-8")
    rows = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\.It (.+?) Ta (\d+) of (\d+) Ta (\d+) of (\d+)", line)
        if match:
            rows[match.group(1)] = tuple(map(int, match.groups()[1:]))
    part = text.split("\n.\\\" open in Docker\n")[1].split("\n.\\\" end\n")[0]
    names = re.findall(r"[a-z0-9-]+", " ".join(line for line in part.splitlines() if not line.startswith(".")))
    return rows, set(names), re.search(r"Docker\s+(\d+\.\d+) .* on Linux (\d+\.\d+)", text).groups()


def test_the_manual_says_so(lab, in_docker):
    version, there = in_docker
    rows, names, (described, kernel) = read_table()
    # Which calls and sockets there are is the kernel's to say, and what Docker refuses changes with its versions.
    if not (version.startswith(described + ".") and os.uname().release.startswith(kernel + ".")):
        pytest.skip(f"the manual describes Docker {described} on Linux {kernel}, "
                    f"this is {version} on {os.uname().release}")
    identity = lab.identity("root")
    here = make_attempts(lab, identity, "image")
    catalogue = Tools(lab, identity).catalogue()
    wanted = rows_of(catalogue, here, there)
    text = "\n".join(f".It {subject} Ta {a} of {b} Ta {c} of {d}" for subject, (a, b, c, d) in wanted.items())
    assert rows == wanted, "the table should be:\n" + text
    through = sorted(name for name, (verdict, _said) in there.items() if verdict == "open")
    assert names == set(through), "Docker lets through:\n" + ", ".join(through)
