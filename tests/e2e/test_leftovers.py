"""Five hundred runs, half of them hostile and several at once, leave nothing behind.

Half of them run under a server of root's and half under an ordinary user's (all under one when an ordinary user
started the suite). After a warm-up, what the server and its spawner hold is noted; after the runs the same must
hold again: processes, namespaces, mounts, descriptors, files, and memory.
"""

import os
import random
import sqlite3
import threading
import time
from pathlib import Path

import hostile
import support

RUNS = 250 if os.geteuid() == 0 else 500
AT_ONCE = 6
CPP = "#include <cstdio>\nint main() { std::puts(\"hello\"); }\n"


def plan(count, seed):
    """What is run: half tame, half hostile, a few that take their second, in an order that is always the same."""
    order = random.Random(seed)
    tame = list(hostile.TAME.items())
    bad = list(hostile.HOSTILE.items())
    slow = list(hostile.SLOW.items())
    chosen = [("python", *slow[n % len(slow)]) for n in range(10)]
    while len(chosen) < count // 2:
        chosen.append(("python", *bad[len(chosen) % len(bad)]))
    chosen += [("cpp", "cpp", (CPP, ("success",), 5))] * 5
    while len(chosen) < count:
        chosen.append(("python", *tame[len(chosen) % len(tame)]))
    order.shuffle(chosen)
    return chosen


class Watcher(threading.Thread):
    """Notes every process that appears below the server, with its pid and network namespaces.

    A namespace's number is used again once it is free, so numbers tell that sandboxes came and went, not whose a
    process is. What stays below the server is found by its parents: the spawner is pid 1 of all of them.
    """

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.seen = {}
        self.namespaces = set()
        self.done = threading.Event()

    def look(self):
        for pid, began in support.descendants(self.pid).items():
            self.seen[pid] = began
            self.namespaces |= namespaces(pid)

    def run(self):
        while not self.done.wait(0.1):
            self.look()


def namespaces(pid):
    found = set()
    for kind in ("pid", "net"):
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        except OSError:
            pass
    return found


def held(server):
    """What the server and everything below it hold now, as far as it can be counted."""
    spawner = support.spawner_of(server.pid)
    answer = {"spawner": spawner}
    for name, pid in (("server", server.pid), ("spawner", spawner)):
        try:
            answer[f"descriptors of the {name}"] = len(os.listdir(f"/proc/{pid}/fd"))
            # The server's are the host's, in which others mount things too.
            if name == "spawner":
                answer[f"mounts of the {name}"] = len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
        except PermissionError:
            answer[f"of the {name}"] = "hidden"  # undumpable, and the suite is not root
    answer["processes"] = len(support.descendants(server.pid))
    answer["threads of the server"] = len(os.listdir(f"/proc/{server.pid}/task"))
    answer["cgroups"] = cgroups(server.pid)
    return answer


def cgroups(server):
    """How many cgroups the server has made that are there now: its subtrees and all below them."""
    found = 0
    for top, below, _files in os.walk("/sys/fs/cgroup"):
        mine = f"/sandbox-runner-{server}-" in top + "/"
        found += mine
        if mine and os.path.basename(top).startswith("run-"):
            below.clear()
    return found


def settled(server):
    """held(), once it has stayed the same for a while: pools fill again after a run."""
    last, since = held(server), time.monotonic()
    end = since + 10
    while time.monotonic() < min(end, since + 0.7):
        time.sleep(0.05)
        now = held(server)
        if now != last:
            last, since = now, time.monotonic()
    return last


def files_below(top):
    return {str(path.relative_to(top)) for path in top.rglob("*")}


def shared_places(identity):
    """Files of ours in the directories all users share."""
    found = set()
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/run"):
        for name in os.listdir(place):
            path = os.path.join(place, name)
            try:
                owner = os.lstat(path).st_uid
            except OSError:
                continue
            if owner == identity.uid and (not identity.is_root or "sandbox-runner" in name):
                found.add(path)
    return found


def resident_kib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def perform(server, work):
    """Runs everything, AT_ONCE at a time; the complaints about wrong answers."""
    todo = list(enumerate(work))
    wrong = []
    lock = threading.Lock()

    def one_after_another():
        while True:
            with lock:
                if not todo:
                    return
                number, (language, name, (code, statuses, timeout)) = todo.pop()
            try:
                result = server.run_code(language, f"{code}\n{'//' if language == 'cpp' else '#'} {number}\n", timeout)
                if result["status"] not in statuses:
                    wrong.append((name, result["status"], result["exit_code"], result["reason"], result["stderr"][-300:]))
            except AssertionError as problem:
                wrong.append((name, str(problem)[:500]))
                return

    threads = [threading.Thread(target=one_after_another) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def cancel_some(server, count):
    """Runs that are cancelled while they run; by protocol they get no answer worth waiting for."""
    for _ in range(count):
        waiting = server.submit_code("python", "import os, time\nos.fork()\ntime.sleep(600)\n", 20)
        time.sleep(0.15)
        server.notify("notifications/cancelled", {"requestId": waiting.id, "reason": "the suite"})


def test_nothing_is_left(lab, identity):
    # Freed memory stays with the sanitizer and the allocator of a short run.
    nothing_is_left(lab.runner(identity), RUNS, growth_kib=24 * 1024)


def nothing_is_left(runner, runs, growth_kib):
    identity = runner.identity
    mounts = set(Path("/proc/self/mountinfo").read_text().splitlines())
    shared = shared_places(identity)
    # The sanitizer keeps freed memory for a while; that would look like growth.
    options = {"ASAN_OPTIONS": runner.env["ASAN_OPTIONS"] + ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64",
               "SANDBOX_RUNNER_SERVER_SLOTS": "3"}
    server = runner.serve(env=options)
    watcher = Watcher(server.pid)
    try:
        warm_up = plan(40, 1)
        assert perform(server, warm_up) == []
        before = settled(server)
        files = files_below(runner.place)
        memory = resident_kib(server.pid)
        watcher.look()
        standing = set(watcher.namespaces)

        watcher.start()
        wrong = perform(server, plan(runs, 2))
        cancel_some(server, 6)
        assert server.run_code("python", "print('after all that')\n")["stdout"] == "after all that\n"
        watcher.done.set()
        watcher.join()

        assert wrong == [], f"{len(wrong)} wrong answers, such as {wrong[:5]}"
        after = settled(server)
        assert after == before
        assert files_below(runner.place) == files
        assert shared_places(identity) <= shared
        grown = resident_kib(server.pid) - memory
        assert grown < growth_kib, f"the server grew by {grown} KiB"
        print(f"{runs} runs; the server grew by {grown} KiB; held after as before: {after}")
        # The watch worked: it saw sandboxes come and go.
        assert len(watcher.namespaces - standing) > 20 or not os.access(f"/proc/{before['spawner']}/fd", os.R_OK)

        watcher.look()
        assert server.close() == 0
        assert support.wait_until(lambda: not support.alive(watcher.seen), 2) or support.alive(watcher.seen) == []
        assert set(Path("/proc/self/mountinfo").read_text().splitlines()) <= mounts
        count_history(runner, len(warm_up) + runs + 7)
    finally:
        watcher.done.set()
        runner.close()


def count_history(runner, expected):
    database = runner.place / "state" / "sandbox-runner" / "sandbox_history.db"
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        assert connection.execute("select count(*) from runs").fetchone()[0] == expected
