"""Snippets that behave badly on purpose, for the suites that look at what is left behind.

Each entry: name → (code, statuses it may end with, timeout in seconds).
"""

import signal

ENDS = ("success", "error")

STORM = """
import os, time
for _ in range(120):
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
    except OSError:
        break
os.write(1, b'stormed')
os._exit(3)
"""

TREE_STORM = """
import os, time
for _ in range(4):
    try:
        os.fork()
    except OSError:
        pass
time.sleep(0.05)
"""

DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    for number in range(1, 32):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    if os.fork() == 0:
        while True:
            time.sleep(600)
    os._exit(0)
os.wait()
print('main ends')
"""

WRITING_DAEMON = """
import os
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            os.write(1, b'x' * 4096)
        except OSError:
            os._exit(0)
print('main ends')
"""

FLOOD = """
import os
block = b'f' * 65536
for _ in range(96):
    os.write(1, block)
    os.write(2, block)
"""

FILL = """
import os
for path in ('/tmp/fill', '/scratch/fill', '/dev/shm/fill'):
    try:
        with open(path, 'wb', buffering=0) as f:
            while True:
                f.write(b'x' * (1 << 20))
    except OSError as e:
        print(e.errno)
"""

MANY_FILES = """
import os
try:
    os.chdir('/tmp')
    for n in range(100000):
        os.close(os.open(str(n), os.O_CREAT))
except OSError as e:
    print(e.errno)
"""

DEEP_DIRECTORIES = """
import os
os.chdir('/scratch')
try:
    for _ in range(2000):
        os.mkdir('d')
        os.chdir('d')
except OSError as e:
    print(e.errno)
"""

THREADS = """
import threading, time
made = 0
try:
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        made += 1
except RuntimeError:
    pass
print(made > 10)
"""

DESCRIPTORS = """
import os, socket
held = []
try:
    while len(held) < 100000:
        held.extend(os.pipe())
        held.append(socket.socketpair())
except OSError as e:
    print(e.errno)
"""

PASSED_DESCRIPTORS = """
import array, os, socket
a, b = socket.socketpair()
a.setblocking(False)
try:
    for _ in range(300):
        r, w = os.pipe()
        socket.send_fds(a, [b'x'], [r, w, b.fileno()])
        os.close(r); os.close(w)
except OSError as e:
    print(e.errno)
"""

RECURSION = """
import sys, threading
sys.setrecursionlimit(60000)
def f(n):
    return 0 if n == 0 else 1 + f(n - 1)
print(f(50000))
"""

SOCKETS = """
import os, socket, time
listeners = [socket.create_server(('127.0.0.1', 0)) for _ in range(50)]
peers = [socket.create_connection(l.getsockname()) for l in listeners]
for peer in peers:
    peer.sendall(b'x' * 1000)
unix = socket.socket(socket.AF_UNIX); unix.bind('\\0abstract'); unix.listen()
if os.fork() == 0:
    time.sleep(600)
"""

SHARED = """
import ctypes, mmap, os
shared = os.open('/dev/shm/mapped', os.O_CREAT | os.O_RDWR)
os.ftruncate(shared, 1 << 20)
m = mmap.mmap(shared, 1 << 20)
if os.fork() == 0:
    while True:
        m[0] = 1
for n in range(20):
    open(f'/dev/shm/{n}', 'wb').write(b'x' * 4096)
libc = ctypes.CDLL(None)
for key in range(5):
    libc.shmget(key + 1, 4096, 0o1666)
    libc.semget(key + 1, 1, 0o1666)
    libc.msgget(key + 1, 0o1666)
"""

HELD = """
import os, time
d = os.open('/scratch', os.O_RDONLY)
f = os.open('/scratch/unlinked', os.O_CREAT | os.O_RDWR)
os.unlink('/scratch/unlinked')
os.write(f, b'x' * (8 << 20))
if os.fork() == 0:
    os.chdir('/tmp')
    time.sleep(600)
"""

HOG = """
held = []
while True:
    held.append(bytearray(1 << 22))
"""

HOGS = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        held = bytearray(100 << 20)
        time.sleep(600)
time.sleep(600)
"""

SHARED_HOG = """
import mmap, os
held = mmap.mmap(-1, 1 << 30)
if os.fork() == 0:
    os.setsid()
for at in range(0, 1 << 30, 4096):
    held[at] = 1
"""

HOSTILE = {
    "hog": (HOG, ("error",), 10),
    "hogs": (HOGS, ("error",), 10),
    "shared-hog": (SHARED_HOG, ("error",), 10),
    "storm": (STORM, ENDS, 5),
    "tree-storm": (TREE_STORM, ENDS, 10),
    "daemon": (DAEMON, ("success",), 5),
    "writing-daemon": (WRITING_DAEMON, ("success",), 5),
    "flood": (FLOOD, ("success",), 5),
    "fill": (FILL, ("success",), 8),
    "many-files": (MANY_FILES, ("success",), 8),
    "deep-directories": (DEEP_DIRECTORIES, ("success",), 8),
    "threads": (THREADS, ENDS, 8),
    "descriptors": (DESCRIPTORS, ("success",), 5),
    "passed-descriptors": (PASSED_DESCRIPTORS, ("success",), 5),
    "recursion": (RECURSION, ENDS, 8),
    "sockets": (SOCKETS, ("success",), 5),
    "shared": (SHARED, ("success",), 5),
    "held": (HELD, ("success",), 5),
    "kill-all": ("import os\ntry:\n    os.kill(-1, 9)\nexcept OSError:\n    pass\nprint('still here')\n", ("success",), 5),
    "kill-parent": ("import os\nfor n in range(1, 65):\n    for pid in (1, os.getppid()):\n        try:\n            os.kill(pid, n)\n"
                    "        except OSError:\n            pass\n", ("success",), 5),
    "closed-streams": ("import os\nos.closerange(0, 3)\nif os.fork() == 0:\n    import time\n    time.sleep(600)\nos._exit(0)\n", ("success",), 5),
}
for _number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31):
    HOSTILE[f"crash-{signal.Signals(_number).name}"] = (
        f"import os, signal\ntry:\n    signal.signal({_number}, signal.SIG_DFL)\nexcept OSError:\n    pass\nos.kill(os.getpid(), {_number})\n",
        ("error",), 5)

# These take their whole timeout, so a suite uses few of them.
SLOW = {
    "sleep": ("import time\ntime.sleep(600)\n", ("timeout",), 1),
    "spin-with-children": ("import os, time\nfor _ in range(3):\n    os.fork()\nwhile True:\n    time.sleep(0.01)\n", ("timeout",), 1),
    "stopped": ("import os\nos.kill(os.getpid(), 19)\n", ("timeout",), 1),
    "endless-flood": ("import os\nwhile True:\n    os.write(1, b'x' * 65536)\n", ("timeout", "error"), 1),
    "sleeping-daemons": ("import os, time\nfor _ in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)\ntime.sleep(600)\n",
                         ("timeout",), 1),
}

TAME = {
    "hello": ("print('hello')\n", ("success",), 5),
    "sum": ("print(sum(range(100000)))\n", ("success",), 5),
    "child": ("import subprocess\nprint(subprocess.check_output(['/bin/echo', 'hi']))\n", ("success",), 5),
    "file": ("open('/scratch/f', 'w').write('x')\nopen('/tmp/f', 'w').write('y')\n", ("success",), 5),
    "exit": ("raise SystemExit(3)\n", ("error",), 5),
    "syntax": ("def f(:\n", ("error", "compile_error"), 5),
    "traceback": ("1 / 0\n", ("error",), 5),
    "threads": ("import threading\nt = threading.Thread(target=print, args=('x',))\nt.start()\nt.join()\n", ("success",), 5),
}
