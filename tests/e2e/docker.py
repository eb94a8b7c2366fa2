"""A Docker Engine of the suite's own: Debian's dockerd, with sockets, data and state in a directory of its own.

    with docker.Engine(place) as engine:
        engine.import_image("tiny:1", {"escape": path_of_a_static_program})
        engine.run("--network", "none", "tiny:1", "/escape", "--list").stdout

Only root can start one. Its bridge and its firewall rules are off, so nothing of the host's network is touched;
that also leaves it without the default network, so every container needs `--network none` (or `host`). Whatever
ends this process ends the daemon, and stop() leaves nothing: no process, mount, control group or file.
"""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

DAEMON = "/usr/sbin/dockerd"  # Debian's, not another that comes first on the path
CLIENT = "/usr/bin/docker"
START_SECONDS = 60


class Engine:
    def __init__(self, base="/var/tmp"):
        """base: where its directory is made; an overlay file system must be able to lie on it, a tmpfs will do."""
        self.base = base
        self.place = None
        self.daemon = None

    @property
    def socket(self):
        return self.place / "socket"

    @property
    def host(self):
        """What DOCKER_HOST is."""
        return f"unix://{self.socket}"

    def start(self):
        for program in (DAEMON, CLIENT):
            if not os.access(program, os.X_OK):
                raise RuntimeError(f"{program} is missing: apt-get install docker.io")
        self.place = Path(tempfile.mkdtemp(prefix="docker-", dir=self.base))
        self.cgroups = f"sr-test-{os.getpid()}"
        with open(self.place / "log", "wb") as log:
            self.daemon = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", DAEMON, "--host", self.host, "--data-root", self.place / "data",
                 "--exec-root", self.place / "exec", "--pidfile", self.place / "pid", "--bridge", "none",
                 "--iptables=false", "--ip6tables=false", "--cgroup-parent", f"/{self.cgroups}",
                 "--config-file", self._config()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        end = time.monotonic() + START_SECONDS
        while self.command("version", check=False).returncode != 0:
            if self.daemon.poll() is not None or time.monotonic() > end:
                log = (self.place / "log").read_text(errors="replace")[-3000:]
                self.stop()
                raise RuntimeError("dockerd did not start; its log ends:\n" + log)
            time.sleep(0.1)
        return self

    def _config(self):
        """The host's own /etc/docker/daemon.json is not for this daemon."""
        path = self.place / "daemon.json"
        path.write_text("{}\n")
        return path

    def command(self, *args, check=True, timeout=60, **options):
        """The docker client; a failure raises with what it said."""
        options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([CLIENT, "--host", self.host, *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout, text=True, errors="replace",
                              env={"PATH": os.environ["PATH"], "HOME": str(self.place)}, **options)
        if check and done.returncode != 0:
            raise RuntimeError(f"docker {' '.join(map(str, args))}: exit {done.returncode}: {done.stderr[-2000:]}")
        return done

    def run(self, *args, check=False, **options):
        return self.command("run", "--rm", *args, check=check, **options)

    def version(self):
        return self.command("version", "--format", "{{.Server.Version}}").stdout.strip()

    def import_image(self, name, files, directories=()):
        """An image of {path: file to copy, or bytes} and empty directories, root's, without a layer below."""
        archive = self.place / "image.tar"
        with tarfile.open(archive, "w") as tar:
            for path in directories:
                entry = tarfile.TarInfo(path)
                entry.type = tarfile.DIRTYPE
                entry.mode = 0o1777 if path in ("tmp", "var/tmp", "scratch") else 0o755
                tar.addfile(entry)
            for path, content in files.items():
                data = content if isinstance(content, bytes) else Path(content).read_bytes()
                entry = tarfile.TarInfo(path)
                entry.mode = 0o755
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        self.command("import", archive, name)
        archive.unlink()

    def stop(self):
        """Ends the daemon, and containerd with it, by their numbers, and takes away what it may leave behind."""
        left = []
        if self.daemon:
            if self.daemon.poll() is None:
                containers = self.command("ps", "--all", "--quiet", check=False).stdout.split()
                if containers:
                    self.command("rm", "--force", *containers, check=False)
                below = _tree(self.daemon.pid)
                self.daemon.terminate()
                try:
                    self.daemon.wait(30)
                except subprocess.TimeoutExpired:
                    self.daemon.kill()
                    self.daemon.wait(10)
                left = _outlived(below)
            self.daemon = None
        if self.place:
            for mount in sorted(_mounts_below(self.place), reverse=True):
                subprocess.run(["umount", "--lazy", mount], check=False)
            shutil.rmtree(self.place)
            self.place = None
            _remove_groups(self.cgroups)
        if left:
            raise RuntimeError(f"dockerd left processes behind, now ended: {left}")

    __enter__ = start

    def __exit__(self, *_unused):
        self.stop()


def _started(pid):
    """When a process began, or None when it is gone or dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[19] if fields[0] not in "ZX" else None


def _tree(pid):
    """{pid: start} of all below a process."""
    found, todo = {}, [pid]
    while todo:
        parent = todo.pop()
        for task in Path("/proc").glob(f"{parent}/task/*/children"):
            try:
                children = task.read_text().split()
            except OSError:
                continue
            for child in map(int, children):
                found[child] = _started(child)
                todo.append(child)
    return found


def _outlived(processes):
    """Waits a little for them to be gone, kills those that are not, and names them."""
    def alive():
        return [pid for pid, began in processes.items() if began and _started(pid) == began]

    end = time.monotonic() + 10
    while alive() and time.monotonic() < end:
        time.sleep(0.05)
    left = alive()
    for pid in left:
        os.kill(pid, 9)
    return left


def _mounts_below(place):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        points = [line.split()[4] for line in lines]
    return [point for point in points if point.startswith(f"{place}/")]


def _remove_groups(name):
    """Control groups of that name at the top of each hierarchy: docker makes the parent and does not remove it."""
    for top in [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")]:
        group = top / name
        if not group.is_dir():
            continue
        for path, _folders, _files in os.walk(group, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                pass
