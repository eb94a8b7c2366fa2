"""Which ids programs have on the host: a range out of /etc/subuid where a user has one, else the one id.

Started by root, the suite gives its ordinary user a range, or none, in a mount namespace of the test's own: the
host's /etc/subuid stays as it is. Started by an ordinary user, it takes what the host gives.
"""

import os
import shlex
import time
from pathlib import Path

import pytest

import support
from identity import USER_NAME, Identity
from sentences import one_sentence

FIRST, COUNT = 300000, 65536
ROOT = os.geteuid() == 0

REPORT = """
import os
mine = os.getuid()
open('/dev/stdout', 'w').write(open('/dev/stdin').read())
open('/dev/stderr', 'w').write('')
open('/scratch/made', 'w').write('x')
os.chmod('/scratch/snippet.py', 0o600)
print(mine, os.getgid(), [os.stat(p).st_uid == mine for p in ('/scratch', '/scratch/snippet.py', '/scratch/made')])
print('owns', [p for p in ('/', '/usr', '/usr/bin', '/etc', '/tmp', '/dev/shm', '/dev/null') if os.stat(p).st_uid == mine])
"""


class Host:
    """The ordinary user of the suite on a host that gives it these subordinate ids; spoil: what else root does first."""

    def __init__(self, lab, ranges, spoil="true", setpriv=""):
        user = lab.identity("user")
        self.runner = lab.runner(user)
        self.user = user
        # Everything but the wrapper below is the user's; root itself only starts it.
        self.runner.identity = Identity("user", user.uid, user.gid, False)
        file = self.runner.file("ranges", ranges.format(name=USER_NAME, uid=user.uid))
        script = self.runner.file("as-user", f"""#!/bin/sh
exec unshare --mount sh -c '
mount --bind {file} /etc/subuid && mount --bind {file} /etc/subgid && {{ {spoil} ; }} &&
exec setpriv --reuid {user.uid} --regid {user.gid} --clear-groups {setpriv} {shlex.quote(self.runner.program)} "$@"' sh "$@"
""")
        script.chmod(0o755)
        self.runner.program = str(script)

    def ids(self):
        """(range or single, what doctor says of it)."""
        report = self.runner.run("doctor", "--json").json()
        return report["ids"], next(c["found"] for c in report["checks"] if c["id"] == "ids")

    def close(self):
        self.runner.close()


RANGE = "{name}:%d:%d\n" % (FIRST, COUNT)


@pytest.fixture(params=["range", "single"] if ROOT else ["self"])
def host(request, lab):
    if request.param == "self":
        made = type("Self", (), {})()
        made.runner = lab.runner(lab.identity("self"))
        made.kind = made.runner.run("doctor", "--json").json()["ids"]
    else:
        made = Host(lab, RANGE if request.param == "range" else "")
        made.kind = request.param
    yield made
    made.runner.close()


def test_a_program_owns_what_is_its_own(host):
    result = host.runner.snippet("python", REPORT, stdin="streams open\n")
    owns = "[]" if host.kind == "range" else None
    lines = result["stdout"].splitlines()
    assert lines[:2] == ["streams open", "1000 1000 [True, True, True]"], result
    if owns:
        assert lines[2] == f"owns {owns}", result


def test_a_compiled_program_is_handed_over_once_for_both_stages(host):
    result = host.runner.snippet("cpp", """
#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>
int main() {
        struct stat binary, source;
        if (stat("/scratch/a.out", &binary) < 0 || stat("/scratch/snippet.cpp", &source) < 0)
                return 1;
        std::printf("%d %d\\n", binary.st_uid == getuid(), source.st_uid == getuid());
}
""")
    assert result["stdout"] == "1 1\n", result


def host_ids(server, count):
    """The host's user ids of `count` snippets that run at the same time."""
    known = support.descendants(server.pid)
    waiting = [server.submit_code("python", "import time\ntime.sleep(1.5)\n") for _ in range(count)]
    end = time.monotonic() + 10
    found = {}
    while not all(w.event.is_set() for w in waiting) and time.monotonic() < end:
        for pid in set(support.descendants(server.pid)) - set(known):
            try:
                if b"/scratch/snippet.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    status = Path(f"/proc/{pid}/status").read_text()
                    found[pid] = int(status.split("Uid:")[1].split()[0]), int(status.split("Gid:")[1].split()[0])
            except OSError:
                continue
        time.sleep(0.02)
    for each in waiting:
        assert server.code_result(each)["status"] == "success"
    return list(found.values())


if ROOT:
    def test_ids_on_the_host(host):
        session = host.runner.serve("--set", "server.slots=2")
        found = host_ids(session, 2)
        left = support.descendants(session.pid)
        assert session.close() == 0
        assert len(found) == 2, found
        if host.kind == "single":
            assert set(found) == {(host.user.uid, host.user.gid)}, found
        else:
            assert len({uid for uid, _gid in found}) == 2, f"two programs share an id: {found}"
            for uid, gid in found:
                # Neither end of the range, which the user's containers take their ids from.
                assert FIRST + 10000 <= uid < FIRST + COUNT - 10000 and FIRST + 10000 <= gid < FIRST + COUNT - 10000
        assert len(left) <= 2, f"helpers are left: {left}"

    def test_a_home_that_only_its_owner_may_enter(lab):
        host = Host(lab, RANGE, spoil='mount --bind "$SANDBOX_RUNNER_IMAGES_LOWER_STORE" "$HOME/store"')
        home = Path(host.runner.env["HOME"])
        (home / "store").mkdir()
        home.chmod(0o700)
        assert home.stat().st_uid == host.user.uid
        assert host.ids()[0] == "range"
        done = host.runner.run("run", "--set", f"images.lower_store={home}/store", "-l", "python", "-c", "print(6*7)",
                               env={"SANDBOX_RUNNER_IMAGES_LOWER_STORE": host.runner.env["SANDBOX_RUNNER_IMAGES_LOWER_STORE"]})
        assert (done.code, done.out) == (0, "42\n"), repr(done)
        host.close()

    @pytest.mark.parametrize("ranges", [
        RANGE, "{uid}:%d:%d\n" % (FIRST, COUNT), "other:100000:65536\n" + RANGE + "{name}:500000:10\n",
        "{name}:%d:2100\n" % FIRST,
    ], ids=["by name", "by number", "among others", "just enough"])
    def test_a_range_that_will_do(lab, ranges):
        host = Host(lab, ranges)
        assert host.ids()[0] == "range"
        assert host.runner.snippet("python", "print(1)")["stdout"] == "1\n"
        host.close()

    SPOILT = {
        "no range": ("", "true", "", "/etc/subuid"),
        "somebody else's": ("other:100000:65536\n", "true", "", "/etc/subuid"),
        "too few": ("{name}:%d:2099\n" % FIRST, "true", "", ""),
        "not installed": (RANGE, "mount --bind /dev/null /usr/bin/newuidmap", "", "newuidmap"),
        "half installed": (RANGE, "mount --bind /dev/null /usr/bin/newgidmap", "", "newgidmap"),
        "no new privileges": (RANGE, "true", "--no-new-privs", "no_new_privs"),
        "one that holds the user's own id": ("{name}:{uid}:2100\n", "true", "", ""),
        "it fails": (RANGE, "mount --bind /bin/false /usr/bin/newuidmap", "", "newuidmap"),
        "half fails": (RANGE, "mount --bind /bin/false /usr/bin/newgidmap", "", "newgidmap"),
        "it does nothing": (RANGE, "mount --bind /bin/true /usr/bin/newuidmap", "", ""),
        "nosuid": (RANGE, "mount --bind /usr/bin /usr/bin && mount -o remount,bind,nosuid /usr/bin", "", ""),
    }

    @pytest.mark.parametrize("case", SPOILT)
    def test_without_a_range_the_one_id_does_and_the_reason_is_told(lab, case):
        ranges, spoil, setpriv, word = SPOILT[case]
        host = Host(lab, ranges, spoil, setpriv)
        kind, detail = host.ids()
        assert kind == "single" and word in detail, detail
        result = host.runner.snippet("python", REPORT, stdin="streams open\n")
        assert result["stdout"].startswith("streams open\n1000 1000 [True, True, True]\n"), result
        host.close()

    def test_a_helper_that_hangs_does_not_hang_the_server(lab):
        script = "#!/bin/sh\nexec sleep 60\n"
        host = Host(lab, RANGE)
        slow = host.runner.file("slow", script)
        slow.chmod(0o755)
        host.close()
        host = Host(lab, RANGE, spoil=f"mount --bind {slow} /usr/bin/newuidmap")
        began = time.monotonic()
        done = host.runner.run("run", "-l", "python", "-c", "print(1)")
        assert (done.code, done.out) == (0, "1\n") and time.monotonic() - began < 20, repr(done)
        host.close()

    def test_root_without_ids_to_give_refuses(runner):
        done = runner.run("run", "--set", "sandbox.root_id_base=4294901758", "-l", "python", "-c", "print(1)")
        assert done.code == 0, repr(done)
        inside = ["--user", "--map-root-user", runner.program, "run", "-l", "python", "-c", "print(1)"]
        done = runner.run(*inside, argv0="unshare")
        assert done.code == 125, repr(done)
        one_sentence(done, "sandbox.root_id_base")


def test_init_is_out_of_reach(host):
    """With one id for all, the kernel's ids do not keep a program from signalling init; Landlock's scopes do."""
    result = host.runner.snippet("python", "import os\ntry:\n    os.kill(1, 0)\n    print('reached')\n"
                                           "except PermissionError:\n    print('refused')\n")
    walled = host.kind == "range" or support.landlock_version() >= 6
    assert result["stdout"] == ("refused\n" if walled else "reached\n"), result


def test_no_further_user_namespace(as_each):
    """The limit is that of the program's own namespace: the host keeps its own."""
    before = Path("/proc/sys/user/max_user_namespaces").read_text()
    result = as_each.snippet("python", "print(open('/proc/sys/user/max_user_namespaces').read().strip())\n"
                                       "try:\n    open('/proc/sys/user/max_user_namespaces', 'w').write('5')\n"
                                       "except OSError as e:\n    print('kept')\n")
    assert result["stdout"] == "0\nkept\n", result
    assert Path("/proc/sys/user/max_user_namespaces").read_text() == before
