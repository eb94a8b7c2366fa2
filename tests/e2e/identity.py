"""Who starts the program in the end-to-end suites, what holds its limits then, and how slow the machine is.

An identity is named by a label:

  root, self    whoever runs the suite
  user          an ordinary user with no help from root: the suite is root and becomes that user
  service       a systemd system service with Delegate=yes, for each process of the program one of its own
  service-user  the same with User=

SANDBOX_RUNNER_TEST_IDENTITIES names those to test as, where the suite is not to choose by itself (tests/vm).
"""

import os
import pwd
import subprocess
import time
from pathlib import Path

USER_NAME = os.environ.get("SANDBOX_RUNNER_TEST_USER", "sr-test")  # the ordinary user; made when absent, left in place
# How many times slower than an ordinary machine this one is: waits and bounds are that much longer.
TIME_FACTOR = max(1.0, float(os.environ.get("SANDBOX_RUNNER_TEST_TIME_FACTOR", "1")))


def scaled(seconds):
    """A wait, or an upper bound, for this machine."""
    return seconds * TIME_FACTOR


class Identity:
    """Who runs the program. switching: the suite is root and becomes this user for the program alone."""

    def __init__(self, label, uid, gid, switching):
        self.label = label
        self.uid = uid
        self.gid = gid
        self.switching = switching

    @property
    def is_root(self):
        return self.uid == 0

    def popen(self):
        """Arguments of subprocess.Popen that make the child this user: the ids and no group but its own.

        The kernel takes all capabilities away with the ids, and no_new_privs is not set: this is what a login
        of that user would have.
        """
        if not self.switching:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def start(self, command, env, cwd, options):
        """Begins the program; a Popen."""
        return subprocess.Popen(command, env=env, cwd=cwd, **self.popen(), **options)

    def run(self, command, cwd, timeout, env=None):
        """Any program to its end: a CompletedProcess with text. The environment is the suite's."""
        process = self.start([str(word) for word in command], dict(env or os.environ), cwd, {
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True})
        try:
            out, err = process.communicate(timeout=scaled(timeout))
        except subprocess.TimeoutExpired:
            self.end(process)
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def pid(self, process):
        """The program's pid."""
        return process.pid

    def end(self, process):
        """Ends the program, however it is doing."""
        process.kill()

    def own(self, path):
        if self.switching:
            os.chown(path, self.uid, self.gid)

    def bus(self):
        """What a login of whoever runs the suite says about its bus; another user has no session here."""
        if self.switching:
            return {}
        return {name: os.environ[name] for name in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS") if name in os.environ}

    def __repr__(self):
        return f"<{self.label} uid {self.uid}>"


class ServiceIdentity(Identity):
    """Each process of the program is a service of its own; what Popen knows is the systemd-run that waits for it."""

    count = 0

    def start(self, command, env, cwd, options):
        ServiceIdentity.count += 1
        unit = f"sandbox-runner-test-{os.getpid()}-{ServiceIdentity.count}.service"
        user = [f"--uid={self.uid}"] if self.uid else []
        wrapped = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--property=Delegate=yes", f"--unit={unit}",
                   f"--working-directory={cwd}", *user, *(f"--setenv={name}={value}" for name, value in env.items()), "--"]
        process = subprocess.Popen(wrapped + command, **options)
        process.unit = unit
        return process

    def pid(self, process):
        end = time.monotonic() + scaled(10)
        while time.monotonic() < end:
            shown = subprocess.run(["systemctl", "show", "--property=MainPID", "--value", process.unit],
                                   stdout=subprocess.PIPE, text=True).stdout.strip()
            if shown not in ("", "0"):
                return int(shown)
        raise AssertionError(f"the service {process.unit} has no process")

    def end(self, process):
        subprocess.run(["systemctl", "kill", "--signal=KILL", process.unit], stderr=subprocess.DEVNULL)
        try:
            process.wait(scaled(5))
        except subprocess.TimeoutExpired:
            process.kill()

    def bus(self):
        return {}


def find_or_make_user(name):
    """The account of the ordinary user of the tests; made when absent (we are root) and left in place."""
    for _ in range(50):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            # Another suite may be making it now: useradd then fails on its lock, and the next look finds it.
            made = subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], capture_output=True)
            if made.returncode != 0:
                time.sleep(0.2)
    raise RuntimeError(f"cannot make the user {name}: {made.stderr.decode(errors='replace')}")


def make_identity(label):
    if label in ("root", "self"):
        return Identity(label, os.geteuid(), os.getegid(), False)
    if label == "service":
        return ServiceIdentity(label, 0, 0, False)
    entry = find_or_make_user(USER_NAME)
    return (ServiceIdentity if label == "service-user" else Identity)(label, entry.pw_uid, entry.pw_gid, True)


def labels():
    named = os.environ.get("SANDBOX_RUNNER_TEST_IDENTITIES", "").split()
    return named or (["root", "user"] if os.geteuid() == 0 else ["self"])


def expected_limits(identity):
    """What must hold each limit for this identity on this machine, as the result's member `limits` says it.

    SANDBOX_RUNNER_TEST_LIMITS says it where the machine is known; else it is read off the machine.
    """
    by = os.environ.get("SANDBOX_RUNNER_TEST_LIMITS")
    if not by:
        unified = Path("/sys/fs/cgroup/cgroup.controllers")
        if unified.exists() and "memory" in unified.read_text().split():
            bus = identity.is_root or Path(f"/run/user/{identity.uid}/bus").exists()
            by = "cgroup2" if bus else "watchdog"
        else:
            by = "cgroup1" if identity.is_root and Path("/sys/fs/cgroup/memory/cgroup.procs").exists() else "watchdog"
    return {"memory": by, "cpu": "none" if by == "watchdog" else by, "pids": by}
