"""The limits of a run: that they hold, that the result says so, and that nothing is left of what held them.

What holds them differs by who starts the program and where: a cgroup of either version, or the watchdog. These
tests run in the virtual machine of tests/vm too, in each of its situations.
"""

import os
import re
import signal
import statistics
import threading
import time
from pathlib import Path
from textwrap import dedent

import pytest

import support
from identity import expected_limits, scaled

pytestmark = pytest.mark.vm

MIB = 1 << 20
LONG = support.LONGEST

ALLOCATES = "kept = []\nwhile True:\n    kept.append(bytearray(1 << 20))\n"
FORKS = dedent("""
    import errno, os, time
    made = 0
    try:
        while made < 200:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            made += 1
    except OSError as e:
        os.write(1, f'{made} {errno.errorcode[e.errno]}\\n'.encode())
        time.sleep(0.5)  # who holds the limit by looking has to see it
    os._exit(0)
    """)


@pytest.fixture
def limits(identity):
    return expected_limits(identity)


def run(server, code):
    return server.run_code("python", dedent(code), LONG, wait=LONG + 30)


class MemoryWatch:
    """The most memory that the processes below a pid had resident together, seen from outside."""

    def __init__(self, pid):
        self.pid = pid
        self.most = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def _watch(self):
        page = os.sysconf("SC_PAGE_SIZE")
        look = 0
        while not self.over.wait(0.002):
            if look % 20 == 0:
                below = support.descendants(self.pid)
            look += 1
            resident = 0
            for pid in below:
                try:
                    resident += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
                except (OSError, IndexError):
                    pass
            self.most = max(self.most, resident)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_exception):
        self.over.set()
        self.thread.join()


def assert_out_of_memory(result, within=5):
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "memory_limit", 137), result
    assert "memory" in result["limits_hit"], result
    assert result["duration_ms"] < 1000 * scaled(within), result


def test_result_says_what_holds_the_limits(server, limits):
    result = run(server, "print(1)\n")
    assert result["stdout"] == "1\n", result
    assert (result["limits"], result["limits_hit"]) == (limits, [])
    (stage,) = result["stages"]
    assert (stage["memory_limit_bytes"], stage["cpu_limit"], stage["pids_limit"]) == (256 * MIB, 0.5, 64)


def test_allocation_loop_is_stopped(server, limits):
    with MemoryWatch(server.pid) as watch:
        result = run(server, ALLOCATES)
    assert_out_of_memory(result)
    # A cgroup is exact; who looks every few milliseconds sees it a little later.
    most = 320 if limits["memory"] == "watchdog" else 256
    assert 200 * MIB < result["peak_memory_bytes"] <= most * MIB
    assert 200 * MIB < watch.most < 320 * MIB
    after = run(server, "print(2)\n")
    assert (after["stdout"], after["limits_hit"]) == ("2\n", [])


def test_memory_of_all_processes_is_one_sum(server):
    assert_out_of_memory(run(server, """
        import os, time
        for n in range(4):
            if os.fork() == 0:
                kept = [bytearray(1 << 20) for _ in range(90)]
                time.sleep(60)
        time.sleep(60)
        """))


def test_memory_counts_when_the_first_thread_has_ended(server):
    # The kernel then tells the memory of the process under the numbers of its other threads alone.
    result = run(server, """
        import ctypes, os, threading, time
        def eat():
            time.sleep(0.3)
            kept = [bytearray(1 << 20) for _ in range(600)]
            time.sleep(2)
            os.write(1, b'not reached')
            os._exit(0)
        threading.Thread(target=eat).start()
        ctypes.CDLL(None).syscall(ctypes.c_long(%d), ctypes.c_long(0))
        """ % (60 if os.uname().machine == "x86_64" else 93))
    assert_out_of_memory(result, 10)
    assert result["stdout"] == ""


def subtree_limit(server, limits):
    """The file that limits the memory of all sandboxes of the server together."""
    if limits["memory"] == "cgroup2":
        line = Path(f"/proc/{support.spawner_of(server.pid)}/cgroup").read_text().splitlines()[-1]
        return Path("/sys/fs/cgroup" + line.removeprefix("0::")).parent / "memory.max"
    (line,) = (line for line in Path(f"/proc/{server.pid}/cgroup").read_text().splitlines() if ":memory:" in line)
    own = Path("/sys/fs/cgroup/memory" + line.split(":memory:")[1])
    (subtree,) = own.glob(f"sandbox-runner-{server.pid}-*")
    return subtree / "memory.limit_in_bytes"


def test_memory_that_runs_out_above_is_no_limit_of_the_program(server, limits):
    if limits["memory"] == "watchdog":
        pytest.skip("no cgroup holds memory here, so there is none above a sandbox's")
    limit = subtree_limit(server, limits)
    before = limit.read_text()
    limit.write_text(str(100 * MIB))
    try:
        bystander = server.submit_code("python", "import time; time.sleep(3); print('lives')", LONG)
        result = run(server, "kept = [bytearray(1 << 20) for _ in range(200)]\n")
        assert server.code_result(bystander)["stdout"] == "lives\n"
    finally:
        limit.write_text(before)
    # It was killed, but not for what it was given: a reader is told that it was from outside.
    assert (result["status"], result["reason"], result["limits_hit"]) == ("error", "internal", []), result
    assert "killed from outside" in result["stderr"]


def test_files_in_memory_count_as_memory(server):
    result = run(server, """
        for path in ('/tmp/f', '/scratch/f'):
            with open(path, 'wb', buffering=0) as f:
                for _ in range(60):
                    f.write(b'x' * (1 << 20))
        print('written', flush=True)
        kept = [bytearray(1 << 20) for _ in range(180)]
        print('not reached')
        """)
    assert_out_of_memory(result)
    assert result["stdout"] == "written\n"


def test_most_of_the_memory_can_be_used(server):
    result = run(server, "kept = [bytearray(1 << 20) for _ in range(220)]\nprint(len(kept))\n")
    assert (result["status"], result["stdout"], result["limits_hit"]) == ("success", "220\n", []), result


def test_starting_programs_does_not_count_memory_twice(server):
    # Between vfork and exec the child shows the starter's memory as its own.
    result = run(server, """
        import subprocess
        kept = bytearray(150 << 20)
        for _ in range(200):
            subprocess.run(['/bin/true'])
        print('fine')
        """)
    assert (result["status"], result["stdout"], result["limits_hit"]) == ("success", "fine\n", []), result


def test_mapped_files_count_once(server):
    result = run(server, """
        import mmap, time
        with open('/tmp/f', 'wb+') as f:
            f.truncate(60 << 20)
            mapped = mmap.mmap(f.fileno(), 0)
        for at in range(0, 60 << 20, 4096):
            mapped[at] = 1
        kept = bytearray(150 << 20)
        time.sleep(0.2)
        print('fine')
        """)
    assert (result["status"], result["stdout"], result["limits_hit"]) == ("success", "fine\n", []), result


def assert_processor_share(result, limits, share=0.5):
    """As the result counts it, and as the program does, whose output is processor seconds and seconds."""
    assert result["status"] == "success", result
    stage = result["stages"][-1]
    used, wall = map(float, result["stdout"].split())
    most = 1 if limits["cpu"] == "none" else share  # without a cgroup, what is left is one processor to run on
    assert stage["cpu_ms"] / stage["wall_ms"] <= most + 0.05, result
    assert used / wall <= most + 0.05, result


def test_busy_processes_get_half_a_processor(server, limits):
    assert_processor_share(run(server, """
        import os, time
        began, before = time.monotonic(), sum(os.times()[:4])
        children = []
        for _ in range(3):
            children.append(os.fork())
            if children[-1] == 0:
                break
        while time.monotonic() < began + 4:
            pass
        if children[-1] == 0:
            os._exit(0)
        for child in children:
            os.waitpid(child, 0)
        print(sum(os.times()[:4]) - before, time.monotonic() - began)
        """), limits)


def test_busy_threads_get_half_a_processor(server, limits):
    assert_processor_share(server.run_code("cpp", dedent("""
        #include <cstdio>
        #include <ctime>
        #include <thread>
        #include <vector>

        double now(clockid_t clock)
        {
            timespec t;
            clock_gettime(clock, &t);
            return t.tv_sec + t.tv_nsec / 1e9;
        }

        int main()
        {
            double began = now(CLOCK_MONOTONIC);
            std::vector<std::thread> threads;
            for (int n = 0; n < 4; n++)
                threads.emplace_back([began] { while (now(CLOCK_MONOTONIC) < began + 4) {} });
            for (auto &thread : threads)
                thread.join();
            std::printf("%f %f\\n", now(CLOCK_PROCESS_CPUTIME_ID), now(CLOCK_MONOTONIC) - began);
        }
        """), LONG, wait=90), limits)


def test_sixty_fifth_process_is_refused(server):
    result = run(server, FORKS)
    assert result["stdout"] == "63 EAGAIN\n", result
    assert (result["status"], result["limits_hit"]) == ("success", ["pids"]), result


def test_threads_count_as_processes(server):
    result = run(server, """
        import threading, time
        gate = threading.Event()
        threads = []
        try:
            while len(threads) < 200:
                thread = threading.Thread(target=gate.wait)
                thread.start()
                threads.append(thread)
        except RuntimeError:
            print(len(threads))
        time.sleep(0.5)  # as above
        gate.set()
        """)
    assert (result["stdout"], result["limits_hit"]) == ("63\n", ["pids"]), result


@pytest.mark.parametrize("path, hit", [("/tmp/f", "tmp"), ("/scratch/f", "scratch"), ("/dev/shm/f", "tmp")])
def test_full_directory(server, path, hit):
    result = run(server, f"""
        import errno
        try:
            with open('{path}', 'wb', buffering=0) as f:
                for _ in range(100):
                    f.write(b'x' * (1 << 20))
        except OSError as e:
            print(errno.errorcode[e.errno])
        """)
    assert (result["status"], result["stdout"], result["limits_hit"]) == ("success", "ENOSPC\n", [hit]), result


def command_lines(pid):
    """What the processes below a pid run, as {pid: command line}."""
    found = {}
    for child in support.descendants(pid):
        try:
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            pass
    return found


def wait_for_command(pid, part):
    assert support.wait_until(lambda: any(part in line for line in command_lines(pid).values()), 20), command_lines(pid)


def test_two_programs_do_not_see_each_other(as_each):
    server = as_each.serve(env={"SANDBOX_RUNNER_SERVER_SLOTS": "2"})
    seconds = min(12, int(scaled(3)))
    first = server.submit_code("python", dedent(f"""
        import socket, subprocess, time
        name = socket.socket(socket.AF_UNIX)
        name.bind('\\0of-the-first')
        name.listen()
        port = socket.socket()
        port.bind(('127.0.0.1', 5000))
        port.listen()
        for directory in ('/tmp', '/scratch', '/dev/shm'):
            open(directory + '/of-the-first', 'w').write('mine')
        child = subprocess.Popen(['/bin/sleep', '1234'])
        time.sleep({seconds})
        print(child.poll(), [open(d + '/of-the-first').read() for d in ('/tmp', '/scratch', '/dev/shm')], time.time())
        """), LONG)
    wait_for_command(server.pid, b"sleep\x001234")
    second = server.run_code("python", dedent("""
        import os, signal, socket, time
        found = []
        for entry in os.listdir('/proc'):
            if entry.isdigit() and b'1234' in open(f'/proc/{entry}/cmdline', 'rb').read():
                found.append('a process')
        for directory in ('/tmp', '/scratch', '/dev/shm'):
            if os.path.exists(directory + '/of-the-first'):
                found.append(directory)
        for family, address in ((socket.AF_UNIX, '\\0of-the-first'), (socket.AF_INET, ('127.0.0.1', 5000))):
            try:
                socket.socket(family).connect(address)
                found.append(address)
            except ConnectionRefusedError:
                pass
        print(found, time.time(), flush=True)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        """), LONG)
    found, when = second["stdout"].rsplit(None, 1)
    assert found == "[]", second
    undisturbed, end = server.code_result(first)["stdout"].rsplit(None, 1)
    assert undisturbed == "None ['mine', 'mine', 'mine']"
    assert float(when) < float(end), "the first was to be there while the second looked"
    assert server.close() == 0


def test_fork_storm_passes(server):
    def typical():
        return statistics.median(run(server, "print(1)\n")["duration_ms"] for _ in range(3))

    before, below = typical(), len(support.descendants(server.pid))
    seconds = min(20, int(scaled(2)))
    storm = server.run_code("python", "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n", seconds)
    assert (storm["status"], storm["reason"]) == ("timeout", "timeout"), storm
    assert "pids" in storm["limits_hit"]
    assert storm["duration_ms"] < 1000 * (seconds + scaled(1)), storm
    assert support.wait_until(lambda: len(support.descendants(server.pid)) <= below, 2)
    # What a storm left behind would slow every run by far more than a busy machine does.
    assert typical() < 5 * before + 1000 * scaled(1)


def test_options_of_run(as_each, limits):
    # Not less than an interpreter and the looking need.
    small = as_each.snippet("python", ALLOCATES, LONG, options=["--memory", "64m"])
    assert_out_of_memory(small)
    assert small["peak_memory_bytes"] <= (128 if limits["memory"] == "watchdog" else 64) * MIB
    few = as_each.snippet("python", FORKS, LONG, options=["--pids", "5"])
    assert (few["stdout"], few["limits_hit"]) == ("4 EAGAIN\n", ["pids"]), few
    slow = as_each.snippet("python", dedent("""
        import time
        began, before = time.monotonic(), time.process_time()
        while time.monotonic() < began + 2:
            pass
        print(time.process_time() - before, time.monotonic() - began)
        """), LONG, options=["--cpus", "0.2"])
    assert_processor_share(slow, limits, 0.2)
    strict = as_each.snippet("python", "print(1)\n", LONG, options=["--strict-limits"])
    if "watchdog" in limits.values():
        assert (strict["status"], strict["reason"], strict["exit_code"]) == ("error", "refused", None), strict
        assert "no cgroup holds" in strict["stderr"]
    else:
        assert strict["stdout"] == "1\n", strict


def subtrees(pid):
    """Directories of the program's own cgroups that a process is in, one for each hierarchy."""
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        kind, _source, options = fields[fields.index("-") + 1:]
        if kind in ("cgroup", "cgroup2"):
            mounts.append((fields[3], fields[4], set(options.split(",")) if kind == "cgroup" else None))
    found = set()
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        own = re.match(r".*/sandbox-runner-\d+-[0-9a-f]{8}(\.scope)?(?=/|$)", path)
        for root, point, options in mounts if own else ():
            here = options is None if number == "0" else options is not None and set(controllers.split(",")) <= options
            if here and not os.path.relpath(own.group(), root).startswith(".."):
                found.add(os.path.normpath(os.path.join(point, os.path.relpath(own.group(), root))))
    return found


def busy_server(runner):
    """A server with a snippet going, its cgroup directories, and everything below it."""
    server = runner.serve()
    server.waiting = server.submit_code("python", "import subprocess\nsubprocess.run(['/bin/sleep', '1234'])\n", LONG)
    wait_for_command(server.pid, b"sleep\x001234")
    (sleeper,) = [pid for pid, line in command_lines(server.pid).items() if b"sleep\x001234" in line]
    return server, subtrees(sleeper), support.descendants(server.pid)


def assert_subtrees(directories, limits):
    assert len(directories) == 0 if limits["memory"] == "watchdog" else len(directories) >= 1
    assert all(os.path.isdir(directory) for directory in directories)


def left_of(directories):
    return [directory for directory in directories if os.path.exists(directory)]


def test_no_cgroup_is_left(as_each, limits):
    server, directories, _everything = busy_server(as_each)
    assert_subtrees(directories, limits)
    server.kill(signal.SIGTERM)
    assert support.wait_until(lambda: not left_of(directories), 2), left_of(directories)


def test_killed_server_leaves_nothing(as_each, limits):
    server, directories, everything = busy_server(as_each)
    assert_subtrees(directories, limits)
    server.kill()
    assert support.wait_until(lambda: not support.alive(everything), 1), support.alive(everything)
    following = as_each.serve()
    assert run(following, "print('next')\n")["stdout"] == "next\n"
    assert support.wait_until(lambda: not left_of(directories), 2), left_of(directories)
    assert following.close() == 0


SOCKET_HOG = """
import os, socket
held = []
for _ in range(4):
    if os.fork() == 0:
        break
for _ in range(200):
    pair = socket.socketpair()
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        end.setblocking(False)
        try:
            while True:
                end.send(b'x' * 65536)
        except OSError:
            pass
    held.append(pair)
os.wait()
"""


def test_full_sockets_count(as_each):
    """A cgroup accounts what waits in sockets; the watchdog counts those beyond a few as full."""
    result = as_each.snippet("python", SOCKET_HOG, LONG)
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "memory_limit", 137), result


def test_a_few_sockets_do_not_count(as_each):
    code = "import socket\nheld = [socket.socketpair() for _ in range(60)]\nprint(len(held))\n"
    result = as_each.snippet("python", code, LONG)
    assert (result["status"], result["stdout"]) == ("success", "60\n"), result
