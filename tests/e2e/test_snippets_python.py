"""Python programs work in the sandbox as they do outside: source text, library, children, sockets, files."""

import pytest

import snippets
from snippets import python

CASES = [
    # The source arrives byte for byte.
    python("empty-program", "# nothing\n", "", err=""),
    python("no-newline-at-the-end", "print(1)", "1\n"),
    python("windows-line-ends", "if True:\r\n    print('a')\r\nprint('b')\r\n", "a\nb\n"),
    python("old-mac-line-ends", "print('a')\rprint('b')\r", "a\nb\n"),
    python("byte-order-mark", "\ufeffprint('bom')\n", "bom\n"),
    python("coding-cookie", "# -*- coding: latin-1 -*-\nprint(len('\u00fc'))\n", "2\n"),
    python("unicode-names", "gr\u00f6\u00dfe = 3\n\u5909\u6570 = 4\nprint(gr\u00f6\u00dfe * \u5909\u6570)\n", "12\n"),
    python("beyond-the-basic-plane", "print(len('\U0001f378'), '\U0001f378')\n", "1 \U0001f378\n"),
    python("line-separator-in-a-string", "print(len('\u2028\u2029'))\n", "2\n"),
    python("form-feed-and-tabs", "\fif True:\n\tprint('tab')\n", "tab\n"),
    python("close-to-the-size-limit", "x = 0\n" + "x += 1  # counts\n" * 3000 + "print(x)\n", "3000\n"),
    python("syntax-error", "def f(:\n    pass\n", "", status=("error", "compile_error"), exit_code=1, err_has="SyntaxError"),
    python("indentation-error", "if True:\nprint(1)\n", "", status=("error", "compile_error"), exit_code=1, err_has="IndentationError"),
    python("traceback-shows-the-line", "def divide():\n    return 1 / 0  # the culprit\n\ndivide()\n", "", status="error", exit_code=1,
           err_has=("line 2, in divide", "the culprit", "snippet.py")),
    python("an-ordinary-script", "import os, sys\nprint(__name__, __file__, sys.argv, os.getcwd(), sys.path[0])\n",
           "__main__ /scratch/snippet.py ['/scratch/snippet.py'] /scratch /scratch\n"),
    python("main-guard", "def main():\n    print('main')\n\nif __name__ == '__main__':\n    main()\n", "main\n"),
    python("reads-its-own-source", "print(len(open(__file__).read()))\n", "34\n"),

    # Standard input.
    python("no-input", "import sys\nprint(repr(sys.stdin.read()))\n", "''\n"),
    python("input-at-the-end-of-file", "try:\n    input()\nexcept EOFError:\n    print('end')\n", "end\n"),
    python("input-given", "a = int(input())\nb = int(input())\nimport sys\nprint(a * b, repr(sys.stdin.read()))\n", "42 'rest'\n",
           stdin="6\n7\nrest"),
    python("input-byte-for-byte", "import sys\nprint(sys.stdin.buffer.read())\n", "b'a\\r\\n\\x00\\xff\\xc3\\xbc'\n",
           stdin=b"a\r\n\0\xff\xc3\xbc"),
    python("input-of-a-mebibyte", "import hashlib, sys\nprint(hashlib.sha256(sys.stdin.buffer.read()).hexdigest()[:16])\n",
           "9bc1b2a288b26af7\n", stdin=b"a" * (1 << 20)),
    python("input-left-unread", "print('no thanks')\n", "no thanks\n", stdin=b"a" * (1 << 20)),
    python("arguments", "import sys\nprint(sys.argv[1:])\n", "['one', 'two words', '-x', '', '\u00fc']\n",
           args=("one", "two words", "-x", "", "\u00fc")),

    # The standard library.
    python("modules-of-every-kind", """
        import array, asyncio, base64, bz2, collections, csv, ctypes, dataclasses, datetime, decimal, difflib, email
        import fractions, functools, gzip, hashlib, heapq, html, http.client, io, itertools, json, logging, lzma, math
        import pickle, random, re, secrets, select, socket, sqlite3, ssl, statistics, string, struct, tarfile, typing
        import unicodedata, unittest, urllib.parse, uuid, xml.etree.ElementTree, zipfile, zlib
        print('all there')
        """, "all there\n"),
    python("database-in-memory", "import sqlite3\nc = sqlite3.connect(':memory:')\nprint(c.execute('select 6*7').fetchone()[0])\n", "42\n"),
    python("database-in-a-file", """
        import sqlite3
        c = sqlite3.connect('/scratch/t.db')
        c.execute('pragma journal_mode=wal')
        c.execute('create table t(x)'); c.execute('insert into t values (7)'); c.commit()
        print(c.execute('select x from t').fetchone())
        """, "(7,)\n"),
    python("randomness", "import os, random, secrets, uuid\nprint(len({os.urandom(8), random.randbytes(8), secrets.token_bytes(8), uuid.uuid4().bytes}))\n",
           "4\n"),
    python("time-goes-on", "import time\na = time.time(); b = time.monotonic()\ntime.sleep(0.05)\nprint(time.time() > a, time.monotonic() - b >= 0.05, time.time() > 1.7e9)\n",
           "True True True\n"),
    python("time-zone-is-utc", "import time\nprint(time.strftime('%Z', time.localtime(0)), time.timezone)\n", "UTC 0\n"),
    python("encodings-default-to-utf-8", "import locale, sys\nprint(sys.getfilesystemencoding(), locale.getpreferredencoding(), open(__file__).encoding.upper())\n",
           "utf-8 UTF-8 UTF-8\n"),
    python("files-with-unicode-names", "import os\nopen('/scratch/\u00fc\U0001f378', 'w').close()\nprint(sorted(os.listdir('/scratch')))\n",
           "['snippet.py', '\u00fc\U0001f378']\n"),
    python("who-am-i", """
        import getpass, grp, os, pwd
        me = pwd.getpwuid(os.getuid())
        print(me.pw_name == getpass.getuser() == os.environ['USER'], os.getuid() != 0, os.path.isdir(os.path.expanduser('~')),
              me.pw_dir == os.environ['HOME'], os.path.exists(me.pw_shell), bool(grp.getgrgid(os.getgid()).gr_name))
        """, "True True True True True True\n"),
    python("big-integers-and-floats", "print(2**200 % 1000007, 0.1 + 0.2, 1e308 * 10)\n", "446616 0.30000000000000004 inf\n"),
    python("ordinary-recursion-limit", "def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    print('too deep')\n", "too deep\n"),
    python("memory-of-ordinary-size", "x = bytearray(100 << 20)\nx[::4096] = b'x' * len(x[::4096])\nprint(len(x))\n", "104857600\n"),

    # Children.
    python("shell-and-pipes", """
        import os, subprocess
        print(subprocess.check_output('echo $((6*7)) | cat', shell=True, text=True).strip())
        print(os.popen('printf x').read(), os.system('exit 3') >> 8)
        """, "42\nx 3\n"),
    python("child-with-input", "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(input()[::-1])'], input='abc', capture_output=True, text=True).stdout)\n",
           "cba\n\n"),
    python("program-that-is-not-there", "import subprocess\ntry:\n    subprocess.run(['no-such-program'])\nexcept FileNotFoundError as e:\n    print(e.filename)\n",
           "no-such-program\n"),
    python("child-times-out", "import subprocess\ntry:\n    subprocess.run(['sleep', '30'], timeout=0.1)\nexcept subprocess.TimeoutExpired:\n    print('in time')\n",
           "in time\n"),
    python("asyncio-child", """
        import asyncio
        async def main():
            p = await asyncio.create_subprocess_exec('/bin/sh', '-c', 'echo hi; exit 3', stdout=asyncio.subprocess.PIPE)
            out, _ = await p.communicate()
            print(out, p.returncode)
        asyncio.run(main())
        """, "b'hi\\n' 3\n"),
    python("multiprocessing-fork", "import multiprocessing as mp\nq = mp.get_context('fork').Queue()\np = mp.get_context('fork').Process(target=q.put, args=(5,))\np.start()\nprint(q.get(timeout=8)); p.join()\n",
           "5\n"),
    python("multiprocessing-spawn", """
        import multiprocessing as mp
        def work(queue):
            queue.put('from the child')
        if __name__ == '__main__':
            ctx = mp.get_context('spawn')
            queue = ctx.Queue()
            child = ctx.Process(target=work, args=(queue,))
            child.start()
            print(queue.get(timeout=8))
            child.join()
        """, "from the child\n"),
    python("multiprocessing-forkserver", """
        import multiprocessing as mp
        def work(n):
            return n * n
        if __name__ == '__main__':
            with mp.get_context('forkserver').Pool(2) as pool:
                print(pool.map(work, range(5)))
        """, "[0, 1, 4, 9, 16]\n"),
    python("process-pool", """
        from concurrent.futures import ProcessPoolExecutor
        def work(n):
            return n + 1
        if __name__ == '__main__':
            with ProcessPoolExecutor() as pool:
                print(list(pool.map(work, [1, 2, 3])))
        """, "[2, 3, 4]\n"),
    python("thread-pool", "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(32) as pool:\n    print(sum(pool.map(lambda n: n, range(1000))))\n",
           "499500\n"),
    python("shared-memory", """
        from multiprocessing import shared_memory
        a = shared_memory.SharedMemory(create=True, size=4096)
        b = shared_memory.SharedMemory(name=a.name)
        a.buf[0] = 9
        print(b.buf[0])
        b.close(); a.close(); a.unlink()
        """, "9\n"),
    python("semaphores-between-processes", """
        import multiprocessing as mp
        value = mp.get_context('fork').Value('i', 0)
        def work():
            for _ in range(200):
                with value.get_lock():
                    value.value += 1
        children = [mp.get_context('fork').Process(target=work) for _ in range(4)]
        for c in children: c.start()
        for c in children: c.join()
        print(value.value)
        """, "800\n"),
    python("processors-fit-the-affinity", "import os\nprint(1 <= len(os.sched_getaffinity(0)) <= os.cpu_count())\n", "True\n"),

    # Sockets of its own.
    python("tcp-over-loopback", """
        import socket, threading
        listener = socket.create_server(('127.0.0.1', 0))
        def serve():
            peer, _ = listener.accept()
            peer.sendall(peer.recv(10).upper()); peer.close()
        threading.Thread(target=serve).start()
        client = socket.create_connection(listener.getsockname(), timeout=5)
        client.sendall(b'hello')
        print(client.recv(10))
        """, "b'HELLO'\n"),
    python("udp-over-loopback", """
        import socket
        a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0)); a.settimeout(5)
        a.sendto(b'x', a.getsockname())
        print(a.recv(9))
        """, "b'x'\n"),
    python("http-over-localhost", """
        import http.server, threading, urllib.request
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200); self.end_headers(); self.wfile.write(b'page')
            def log_message(self, *args):
                pass
        server = http.server.HTTPServer(('localhost', 0), Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(urllib.request.urlopen(f'http://localhost:{server.server_port}/', timeout=5).read())
        """, "b'page'\n"),
    python("unix-sockets", """
        import socket
        a, b = socket.socketpair()
        a.send(b'pair'); print(b.recv(9))
        s = socket.socket(socket.AF_UNIX); s.bind('/scratch/s'); s.listen()
        c = socket.socket(socket.AF_UNIX); c.connect('/scratch/s')
        print('connected')
        """, "b'pair'\nconnected\n"),
    python("own-name-resolves", "import socket\nprint(socket.gethostbyname('localhost'), bool(socket.gethostname()))\n", "127.0.0.1 True\n"),

    # Files.
    python("temporary-files", """
        import os, tempfile
        with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile(dir=d) as f:
            f.write(b'xyz'); f.flush()
            print(os.path.getsize(f.name))
        print(tempfile.gettempdir())
        """, "3\n/tmp\n"),
    python("links-locks-and-pipes", """
        import fcntl, os
        os.chdir('/scratch')
        open('a', 'w').write('x')
        os.link('a', 'b'); os.symlink('a', 'c'); os.mkfifo('p'); os.rename('b', 'd')
        with open('a', 'r+') as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            fcntl.lockf(f, fcntl.LOCK_EX)
        print(os.stat('a').st_nlink, os.readlink('c'), sorted(os.listdir('.')))
        """, "2 a ['a', 'c', 'd', 'p', 'snippet.py']\n"),
    python("permissions-and-times", """
        import os
        f = '/scratch/f'
        open(f, 'w').close()
        os.chmod(f, 0o640); os.truncate(f, 10); os.utime(f, (1, 2))
        s = os.stat(f)
        print(oct(s.st_mode), s.st_mtime, s.st_size, s.st_uid == os.getuid())
        """, "0o100640 2.0 10 True\n"),
    python("mapped-files", "import mmap\nwith open('/scratch/m', 'w+b') as f:\n    f.truncate(8192)\n    m = mmap.mmap(f.fileno(), 0); m[4096] = 7\n    f.seek(4096); print(f.read(1))\n",
           "b'\\x07'\n"),
    python("module-beside-the-script", "open('helper.py', 'w').write('x = 5')\nimport helper\nprint(helper.x)\n", "5\n"),
    python("own-program-in-scratch", """
        import os, subprocess
        open('/scratch/tool', 'w').write('#!/bin/sh\\necho ran\\n')
        os.chmod('/scratch/tool', 0o755)
        print(subprocess.check_output(['/scratch/tool']))
        """, "b'ran\\n'\n"),
    python("usual-devices", """
        open('/dev/null', 'w').write('x')
        print(open('/dev/zero', 'rb').read(2), len(open('/dev/urandom', 'rb').read(3)), len(open('/dev/random', 'rb').read(3)))
        try:
            open('/dev/full', 'wb', buffering=0).write(b'x')
        except OSError as e:
            print(e.errno)
        """, out_has="b'\\x00\\x00' 3 3\n28\n"),
    # Watching would show what other runs open in the image they share; os.sync would wait for the whole host.
    python("watches-nothing", "import ctypes, errno, fcntl, os\nlibc = ctypes.CDLL(None, use_errno=True)\nprint(libc.inotify_init(), ctypes.get_errno() == errno.ENOSYS)\n"
           "try:\n    fcntl.fcntl(os.open('/usr', os.O_RDONLY), fcntl.F_NOTIFY, 1)\nexcept OSError as e:\n    print('refused')\nos.sync()\n",
           "-1 True\nrefused\n"),
]


@pytest.mark.parametrize("case", snippets.rows(CASES))
def test_python(case, server, as_each):
    snippets.check(case, snippets.perform(case, server, as_each))


def test_nothing_of_one_run_is_seen_by_the_next(server):
    leave = "import os\nfor d in ('/scratch', '/tmp', '/dev/shm'):\n    open(d + '/left', 'w').close()\nprint('left')\n"
    look = "import os\nprint(sorted(os.listdir('/scratch')), os.listdir('/tmp'), os.listdir('/dev/shm'))\n"
    for _ in range(3):
        assert server.run_code("python", leave)["stdout"] == "left\n"
        assert server.run_code("python", look)["stdout"] == "['snippet.py'] [] []\n"


def test_characters_written_as_escapes_in_the_request(server):
    """A pair of \\u escapes in the JSON is one character."""
    waiting = server.expect("pair")
    server.send_bytes(b'{"jsonrpc":"2.0","id":"pair","method":"tools/call","params":{"name":"run_code","arguments":'
                      b'{"language":"python","code":"print(\'\\ud83c\\udf78\', len(\'\\ud83c\\udf78\'))\\n"}}}\n')
    assert server.code_result(waiting)["stdout"] == "\U0001f378 1\n"


def test_nul_in_the_source(server):
    """The file holds it, and all that follows. What Python makes of that is Python's: from 3.12 on a syntax error."""
    result = server.run_code("python", "data = open(__file__, 'rb').read()\nprint(data.count(b'\\0'), data[-4:])\n# \0 end\n")
    assert result["stdout"] == "1 b'end\\n'\n" or "null bytes" in result["stderr"], result
