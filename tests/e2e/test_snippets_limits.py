"""Limits that hold in every sandbox: space, files, processes, time; and room enough for ordinary programs."""

import pytest

import snippets
from snippets import TIMED_OUT, cpp, killed, python

FILLS = """
    import errno
    written = 0
    try:
        for n in range(20):
            with open(f'{path}{{n}}', 'wb', buffering=0) as f:
                for _ in range(16):
                    written += f.write(b'x' * (1 << 20))
    except OSError as e:
        print(errno.errorcode[e.errno], (written + 1048575) >> 20)
"""

CASES = [
    python("tmp-holds-64-mebibytes", FILLS.format(path="/tmp/f"), "ENOSPC 64\n"),
    python("scratch-holds-64-mebibytes", FILLS.format(path="/scratch/f"), out_has="ENOSPC 6"),
    python("shared-memory-directory-has-a-bound", FILLS.format(path="/dev/shm/f"), out_has="ENOSPC"),
    python("device-directory-takes-nothing", "try:\n    open('/dev/f', 'w')\n    print('made')\nexcept OSError:\n    print('refused')\n", "refused\n"),
    python("full-tmp-can-be-emptied", """
        import os
        for _ in range(2):
            try:
                with open('/tmp/f', 'wb', buffering=0) as f:
                    while True:
                        f.write(b'x' * (1 << 20))
            except OSError:
                os.unlink('/tmp/f')
        open('/tmp/g', 'wb').write(b'x' * (60 << 20))
        print('room again')
        """, "room again\n"),
    python("number-of-files-has-a-bound", """
        import os
        n = 0
        try:
            for n in range(200000):
                os.close(os.open(f'/tmp/{n}', os.O_CREAT | os.O_WRONLY))
        except OSError as e:
            print(e.errno == 28, n > 1000)
        """, "True True\n"),
    python("sparse-file", "import os\nos.truncate(os.open('/tmp/s', os.O_CREAT | os.O_RDWR), 32 << 20)\nprint(os.stat('/tmp/s').st_blocks < 100)\n", "True\n"),
    python("open-files-have-a-bound", """
        import os
        n = 0
        try:
            while n < 100000:
                os.open('/dev/null', os.O_RDONLY)
                n += 1
        except OSError as e:
            print(e.errno == 24, n >= 200)
        """, "True True\n"),
    python("bounds-cannot-be-raised", """
        import resource
        raised = []
        for name in (n for n in dir(resource) if n.startswith('RLIMIT_')):
            limit = getattr(resource, name)
            soft, hard = resource.getrlimit(limit)
            if hard == resource.RLIM_INFINITY:
                continue
            try:
                resource.setrlimit(limit, (soft, hard + 1))
                raised.append(name)
            except (ValueError, OSError):
                pass
        print(raised, resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] <= 65536)
        """, out_has="[] ", out_lacks="-1"),
    python("no-core-file", "import os\nif os.fork() == 0:\n    os.abort()\nstatus = os.wait()[1]\nprint(os.WCOREDUMP(status), [n for n in os.listdir('.') if 'core' in n])\n",
           "False []\n"),
    cpp("ordinary-stack", """
        #include <cstdio>
        int f(int n) { volatile char pad[64]; pad[0] = 1; return n == 0 ? 0 : f(n - 1) + pad[0]; }
        int main() { std::printf("%d\\n", f(50000)); }
        """, "50000\n"),
    cpp("stack-overflow", "int f(volatile int *p) { volatile int x[64]; x[0] = *p; return f(x) + x[0]; }\nint main() { int x = 1; return f(&x); }\n",
        "", **killed(11)),
    cpp("stack-overflow-in-a-thread", "#include <thread>\nint f(volatile int *p) { volatile int x[64]; x[0] = *p; return f(x) + x[0]; }\n"
        "int main() { std::thread([] { int x = 1; f(&x); }).join(); }\n", "", **killed(11)),
    cpp("untouched-gigabyte", "#include <cstdio>\nstatic char big[1u << 30];\nint main() { big[5] = 1; volatile char *p = big; std::printf(\"%d\\n\", p[5]); }\n", "1\n"),
    cpp("reserved-address-space", "#include <cstdio>\n#include <sys/mman.h>\nint main() { std::puts(mmap(nullptr, 4ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)"
        " == MAP_FAILED ? \"no\" : \"yes\"); }\n", "yes\n"),
    python("deep-recursion-with-a-bound", """
        import sys
        sys.setrecursionlimit(30000)
        def f(n):
            return 0 if n == 0 else 1 + f(n - 1)
        print(f(20000))
        """, "20000\n"),
    python("deeply-nested-source", "x = " + "[" * 150 + "]" * 150 + "\nprint('parsed')\n", "parsed\n"),
    python("source-nested-too-deeply", "x = " + "(" * 5000 + ")" * 5000 + "\n", "", status="error", exit_code=1, err_has="too many nested"),
    python("hundred-threads", """
        import threading
        gate = threading.Event()
        threads = [threading.Thread(target=gate.wait) for _ in range(40)]
        for t in threads: t.start()
        gate.set()
        for t in threads: t.join()
        print('joined', len(threads))
        """, "joined 40\n"),
    python("fork-storm-is-survived", """
        import os, time
        made = 0
        try:
            while made < 3000:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                made += 1
        except OSError as e:
            print('stopped', e.errno == 11)
        os.write(1, b'end\\n')
        os._exit(0)
        """, out_has="end\n"),
    python("fork-storm-until-the-timeout", """
        import os, time
        for depth in range(7):
            try:
                os.fork()
            except BlockingIOError:
                pass
        time.sleep(60)
        """, timeout=1, **TIMED_OUT),
    python("timeout-of-one-second", "import time\ntime.sleep(0.3)\nprint('in time')\n", "in time\n", timeout=1),
    python("longest-timeout", "print('x')\n", "x\n", timeout=30),
]


@pytest.mark.parametrize("case", snippets.rows(CASES))
def test_limit(case, server, as_each):
    snippets.check(case, snippets.perform(case, server, as_each))


def test_the_answer_after_a_timeout_is_prompt(server):
    for code in ("import time\ntime.sleep(60)\n", "while True:\n    pass\n"):
        result = server.run_code("python", code, 1)
        assert result["status"] == "timeout"
        assert 900 <= result["duration_ms"] <= 2500, result["duration_ms"]
