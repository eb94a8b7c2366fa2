"""What the end-to-end suites share: who runs the program, where it may write, and an MCP client on stdio.

Theory of operation. A test drives the built program as a person does: as a process with arguments, files and
pipes. Three small classes carry that:

  Identity  who starts the program: identity.py
  Runner    one identity, one private set of HOME and XDG directories, one program: starts it
  Mcp       one server process on stdio and a client that matches answers to requests

Everything a Runner starts it also ends (close()). No helper here hides a failure: what the program prints on
its standard error is kept, and a sanitizer report in it fails the test that looks.
"""

import ctypes
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from identity import TIME_FACTOR, make_identity, scaled

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAMS = ("sandbox-runner", "sandbox-runner-spawner", "sandbox-runner-image")
MARKER = "\n\n[... OUTPUT TRUNCATED ...]"
KEPT = 100 * 1024
# Seconds: what a run may ask for at most, for snippets that are expected to end well before. A slow machine has more.
LONGEST = 30 if TIME_FACTOR == 1 else 120
SANITIZER_SIGNS = ("AddressSanitizer", "LeakSanitizer", "UndefinedBehaviorSanitizer", ": runtime error: ")


class Done:
    """A finished command: exit code and both streams, as bytes and as text."""

    def __init__(self, code, out, err):
        self.code = code
        self.raw_out = out
        self.raw_err = err
        self.out = out.decode("utf-8", "surrogateescape")
        self.err = err.decode("utf-8", "surrogateescape")

    def json(self):
        try:
            return json.loads(self.raw_out)
        except ValueError:
            raise AssertionError(f"no JSON from the program: {self!r}") from None

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out[-2000:]!r}\nstderr: {self.err[-4000:]}"


def assert_no_sanitizer_report(text):
    assert not any(sign in text for sign in SANITIZER_SIGNS), "a sanitizer reported:\n" + text[-8000:]


class Runner:
    """Starts the program for one identity with directories of its own below `place`."""

    def __init__(self, program, identity, place, env):
        self.program = str(program)
        self.identity = identity
        self.place = Path(place)
        self.env = env
        self.running = []

    def start(self, *args, env=None, argv0=None, **options):
        """A process of the program; env is added to (a None value removes). Ended by close() at the latest."""
        environment = dict(self.env)
        for name, value in (env or {}).items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = str(value)
        cwd = options.pop("cwd", self.place)
        process = self.identity.start([argv0 or self.program, *map(str, args)], environment, cwd, options)
        self.running.append(process)
        return process

    def run(self, *args, input=b"", timeout=60, env=None, **options):
        """Runs to the end with `input` as standard input. A sanitizer report fails here."""
        if isinstance(input, str):
            input = input.encode("utf-8", "surrogatepass")
        process = self.start(*args, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, **options)
        try:
            out, err = process.communicate(input, timeout=scaled(timeout))
        except subprocess.TimeoutExpired:
            self.identity.end(process)
            out, err = process.communicate()
            raise AssertionError(f"{args}: no end within {timeout} s: {Done(None, out, err)!r}") from None
        finally:
            if process in self.running:
                self.running.remove(process)
        done = Done(process.returncode, out, err)
        assert_no_sanitizer_report(done.err)
        return done

    def file(self, name, content):
        """A file of this identity's in the private directory."""
        path = self.place / name
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")
        path.write_bytes(content)
        self.identity.own(path)
        return path

    def snippet(self, language, code, timeout=10, stdin=None, args=(), options=(), env=None):
        """`run --json` of a snippet: the run_code object."""
        command = ["run", "--json", "-l", language, "-t", timeout, *options]
        if stdin is not None:
            command += ["--stdin", self.file("stdin", stdin)]
        command.append(self.file("code", code))
        if args:
            command += ["--", *args]
        done = self.run(*command, timeout=timeout + 60, env=env)
        assert done.code == 0, repr(done)
        return done.json()

    def serve(self, *args, env=None, initialize=True):
        """A server on stdio with a client connected to it."""
        return Mcp(self, args, env, initialize)

    def close(self):
        for process in self.running:
            if process.poll() is None:
                self.identity.end(process)
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    try:
                        stream.close()
                    except OSError:
                        pass
        self.running.clear()


class Pending:
    """The answer to one request, to be waited for."""

    def __init__(self):
        self.event = threading.Event()
        self.message = None

    def put(self, message):
        self.message = message
        self.event.set()

    def wait(self, timeout=60):
        assert self.event.wait(scaled(timeout)), f"no answer within {timeout} s"
        if isinstance(self.message, Exception):
            raise AssertionError(str(self.message))
        return self.message


class Mcp:
    """A server process on stdio and its client: one reader thread, any number of requests in flight."""

    def __init__(self, runner, args=(), env=None, initialize=True):
        self.identity = runner.identity
        self.process = runner.start(*args, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        self.main_pid = None
        self.lock = threading.Lock()
        self.pending = {}
        self.last_id = 0
        self.notifications = queue.Queue()
        self.stray = []  # lines that are no answer to anything: a test may want them, or that there are none
        self.err = bytearray()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.err_reader = threading.Thread(target=self._read_err, daemon=True)
        self.reader.start()
        self.err_reader.start()
        self.info = self.initialize() if initialize else None

    @property
    def pid(self):
        if self.main_pid is None:
            self.main_pid = self.identity.pid(self.process)
        return self.main_pid

    @property
    def stderr(self):
        return self.err.decode("utf-8", "replace")

    def _read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
                key = json.dumps(message.get("id")) if isinstance(message, dict) else None
            except ValueError:
                self.stray.append(line)
                continue
            with self.lock:
                waiting = self.pending.pop(key, None) if key is not None else None
            if waiting:
                waiting.put(message)
            elif isinstance(message, dict) and "method" in message and "id" not in message:
                self.notifications.put(message)
            else:
                self.stray.append(line)
        with self.lock:
            left, self.pending = self.pending, {}
        for waiting in left.values():
            waiting.put(RuntimeError(f"the server's output ended before the answer; its log: {self.stderr[-3000:]}"))

    def _read_err(self):
        for block in iter(lambda: self.process.stderr.read1(65536), b""):
            self.err += block

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def expect(self, request_id):
        """Registers interest in the answer with this id (when the request is sent by hand)."""
        waiting = Pending()
        with self.lock:
            self.pending[json.dumps(request_id)] = waiting
        return waiting

    def submit(self, method, params=None, request_id=None):
        """Sends a request; returns what to wait for, with its id as .id."""
        with self.lock:
            if request_id is None:
                self.last_id += 1
                request_id = self.last_id
            waiting = self.pending[json.dumps(request_id)] = Pending()
            waiting.id = request_id
            message = {"jsonrpc": "2.0", "id": request_id, "method": method}
            if params is not None:
                message["params"] = params
            self.send(message)
        return waiting

    def request(self, method, params=None, timeout=60):
        """The result of a request; an error answer fails the test."""
        message = self.submit(method, params).wait(timeout)
        assert "result" in message, message
        return message["result"]

    def initialize(self, version="2025-06-18"):
        result = self.request("initialize", {"protocolVersion": version, "capabilities": {},
                                             "clientInfo": {"name": "suite", "version": "1"}})
        self.notify("notifications/initialized")
        return result

    def tool(self, name, arguments=None, timeout=90):
        return self.request("tools/call", {"name": name, "arguments": arguments or {}}, timeout)

    def submit_code(self, language, code, timeout_seconds=10):
        return self.submit("tools/call", {"name": "run_code", "arguments": {
            "language": language, "code": code, "timeout_seconds": timeout_seconds}})

    def run_code(self, language, code, timeout_seconds=10, wait=90):
        """The run_code object; the text block must say the same as the structured content."""
        return self.code_result(self.submit_code(language, code, timeout_seconds), wait)

    @staticmethod
    def code_result(waiting, wait=90):
        message = waiting.wait(wait)
        assert "result" in message, message
        result = message["result"]
        assert result["isError"] is False, result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def close(self, timeout=20):
        """Ends the input and waits for the server's exit; its exit code. Its log must hold no sanitizer report."""
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except OSError:
                pass
        try:
            code = self.process.wait(scaled(timeout))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not exit within {timeout} s of the end of its input; "
                                 f"its log: {self.stderr[-3000:]}") from None
        self.reader.join(10)
        self.err_reader.join(10)
        assert_no_sanitizer_report(self.stderr)
        return code

    def kill(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            os.kill(self.pid, number)
        self.process.wait(scaled(20))


# What a process tree looks like from outside.

def process_stat(pid):
    """(parent, start time, state, command name) of a process, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    fields = text[text.rindex(")") + 2:].split()
    return int(fields[1]), int(fields[19]), fields[0], name


def all_processes():
    """{pid: (parent, start time, state, name)} of everything that lives."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = process_stat(entry)
            if stat:
                found[int(entry)] = stat
    return found


def descendants(pid, table=None):
    """Pids below a process, as {pid: start time}, without the dead that wait to be reaped."""
    table = table or all_processes()
    children = {}
    for child, (parent, *_rest) in table.items():
        children.setdefault(parent, []).append(child)
    found, todo = {}, [pid]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                todo.append(child)
                if table[child][2] not in "ZX":
                    found[child] = table[child][1]
    return found


def alive(pids):
    """Those of {pid: start time} that still live."""
    left = []
    for pid, began in pids.items():
        stat = process_stat(pid)
        if stat and stat[1] == began and stat[2] not in "ZX":
            left.append((pid, stat[3]))
    return left


def landlock_version():
    """The version of the kernel's Landlock; 0 where it has none, or it is switched off."""
    answer = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)  # landlock_create_ruleset
    return max(answer, 0)


def wait_until(condition, timeout, step=0.02):
    """Polls until condition() is true; its last value."""
    end = time.monotonic() + scaled(timeout)
    while True:
        value = condition()
        if value or time.monotonic() >= end:
            return value
        time.sleep(step)


def spawner_of(pid):
    """The pid of the server's spawner: its child of that name, or None. The name in stat is cut at 15 bytes."""
    table = all_processes()
    for child, (parent, _began, state, _name) in table.items():
        if parent == pid and state not in "ZX":
            try:
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.path.basename(words[0]) == b"sandbox-runner-spawner":
                return child
    return None


def copy_readable(source, target):
    """A copy of a tree at target; hard links where the file system allows, so it costs no space."""
    for links in (["-l"], []):
        if subprocess.run(["cp", "-a", *links, str(source), str(target)], stderr=subprocess.DEVNULL).returncode == 0:
            return
        shutil.rmtree(target, ignore_errors=True)
    raise RuntimeError(f"cannot copy {source} to {target}")


def find_program():
    named = os.environ.get("SANDBOX_RUNNER")
    places = [named] if named else [CHECKOUT / "build-asan" / PROGRAMS[0], CHECKOUT / "build" / PROGRAMS[0]]
    for place in places:
        if os.access(place, os.X_OK):
            return Path(place).resolve()
    raise FileNotFoundError("no program at " + " or ".join(map(str, places)) + ": build first, or run sh tests/run.sh")


def cache_directory():
    """Where what the tests download or build is kept between runs: outside the checkout."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("SANDBOX_RUNNER_TEST_CACHE") or os.path.join(cache, "sandbox-runner-tests"))


def find_store():
    path = Path(os.environ.get("SANDBOX_RUNNER_TEST_STORE") or cache_directory() / "store")
    if not (path / "refs").is_dir():
        raise FileNotFoundError(f"no images in {path}: sh tests/run.sh prepares them")
    return path


def make_base():
    """A directory everybody can enter. Not under /tmp: that may be a small tmpfs, and hard links cannot reach it."""
    path = Path(tempfile.mkdtemp(prefix="sandbox-runner-tests-", dir="/var/tmp"))
    path.chmod(0o755)
    return path


class Lab:
    """Makes Runners: knows the program and the store as each identity can reach them."""

    def __init__(self, base, program, store):
        self.base = base
        self.program = program
        self.store = store
        self.identities = {}
        self.copies = None
        self.count = 0

    def identity(self, label):
        if label not in self.identities:
            self.identities[label] = make_identity(label)
        return self.identities[label]

    def _reachable(self, identity):
        """Program and store where this identity can read them."""
        if not identity.switching or os.environ.get("SANDBOX_RUNNER_TEST_SHARED"):
            return self.program, self.store
        return self._copied()

    def _copied(self):
        if not self.copies:
            top = self.base / "copy"
            (top / "build").mkdir(parents=True)
            for name in PROGRAMS:
                shutil.copy(self.program.parent / name, top / "build" / name)
            for name in ("images", "rootfs"):
                shutil.copytree(CHECKOUT / name, top / name)
            top.chmod(0o755)
            subprocess.run(["chmod", "-R", "a+rX", str(top)], check=True)
            copy_readable(self.store, self.base / "store")
            self.copies = (top / "build" / "sandbox-runner", self.base / "store")
        return self.copies

    def store_of(self, identity):
        """The prepared image store, where this identity can read it."""
        return self._reachable(identity)[1]

    def environment(self, identity, place):
        store = self.store_of(identity)
        names = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state",
                 "XDG_CACHE_HOME": "cache", "TMPDIR": "tmp"}
        env = {}
        for variable, folder in names.items():
            (place / folder).mkdir()
            identity.own(place / folder)
            env[variable] = str(place / folder)
        env.update(identity.bus())
        env.update({
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SUITE_SECRET": "suite-secret",  # must not show in any sandbox
            "SANDBOX_RUNNER_IMAGES_LOWER_STORE": str(store),
            "SANDBOX_RUNNER_CONTROL_DIRECTORIES": str(place / "control"),  # others' runs are none of a test's
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "strict_string_checks=1:detect_stack_use_after_return=1"),
            "UBSAN_OPTIONS": os.environ.get("UBSAN_OPTIONS", "print_stacktrace=1"),
        })
        if TIME_FACTOR > 1:
            env.update({"SANDBOX_RUNNER_RUN_MAX_TIMEOUT": str(LONGEST), "SANDBOX_RUNNER_COMPILE_TIMEOUT": str(LONGEST)})
        return env

    def runner(self, identity):
        self.count += 1
        place = self.base / f"{identity.label}-{self.count}"
        place.mkdir()
        identity.own(place)
        program, _store = self._reachable(identity)
        return Runner(program, identity, place, self.environment(identity, place))
