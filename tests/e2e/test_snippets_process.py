"""How a program ends, and what becomes of its processes: exit codes, signals, children, daemons, timeouts."""

import pytest

import snippets
from snippets import TIMED_OUT, cpp, killed, python

CASES = [
    # Exit codes are the program's own, whatever they look like.
    python("exit-0", "raise SystemExit(0)\n", ""),
    python("exit-1", "raise SystemExit(1)\n", "", status="error", exit_code=1, reason="exit"),
    python("exit-255", "raise SystemExit(255)\n", "", status="error", exit_code=255, reason="exit"),
    python("exit-256-wraps", "raise SystemExit(256)\n", "", exit_code=0),
    python("exit-minus-one", "raise SystemExit(-1)\n", "", status="error", exit_code=255),
    python("exit-124-is-no-timeout", "raise SystemExit(124)\n", "", status="error", exit_code=124, reason="exit"),
    python("exit-137-is-no-kill", "raise SystemExit(137)\n", "", status="error", exit_code=137, reason="exit"),
    python("exit-139-is-no-crash", "raise SystemExit(139)\n", "", status="error", exit_code=139, reason="exit"),
    python("exit-with-a-message", "raise SystemExit('why')\n", "", status="error", exit_code=1, err="why\n"),
    python("exit-without-clean-up", "import os, sys\nsys.stdout.write('lost')\nos._exit(7)\n", status="error", exit_code=7),
    python("uncaught-exception", "print('a')\nraise ValueError('no')\n", "a\n", status="error", exit_code=1,
           err_has="ValueError: no"),
    cpp("main-returns-3", "int main() { return 3; }\n", "", status="error", exit_code=3, reason="exit"),
    cpp("uncaught-exception-cpp", "#include <stdexcept>\nint main() { throw std::logic_error(\"odd\"); }\n", "",
        err_has="odd", **killed(6)),

    # Signals.
    python("kills-itself", "import os\nos.kill(os.getpid(), 9)\n", "", **killed(9)),
    python("terminates-itself", "import os\nos.kill(os.getpid(), 15)\n", "", **killed(15)),
    python("interrupts-itself", "import os, signal\nsignal.signal(2, signal.SIG_DFL)\nos.kill(os.getpid(), 2)\n", "", **killed(2)),
    python("hangs-up-on-itself", "import os\nos.kill(os.getpid(), 1)\n", "", **killed(1)),
    python("real-time-signal", "import os, signal\nos.kill(os.getpid(), signal.SIGRTMIN + 1)\n", "",
           status="error", exit_code=(128 + 34, 128 + 35, 128 + 36), reason="signal"),
    python("interpreter-crashes", "import ctypes\nctypes.memset(8, 0, 1)\n", "", **killed(11)),
    python("aborts", "import os\nos.abort()\n", "", **killed(6)),
    cpp("aborts-cpp", "#include <cstdlib>\nint main() { std::abort(); }\n", "", **killed(6)),
    cpp("null-pointer", "int main(int c, char **) { volatile int *p = nullptr; return *(p + c - 1); }\n", "", **killed(11)),
    cpp("divides-by-zero", "int main(int c, char **) { volatile int n = 7, z = c - 1; return n / z; }\n", "", **killed(8)),
    cpp("illegal-instruction", "int main() { __builtin_trap(); }\n", "", status="error", exit_code=(132, 133), reason="signal"),
    cpp("bus-error", """
        #include <cstdio>
        #include <sys/mman.h>
        int main() {
                FILE *f = tmpfile();
                volatile char *p = (char *)mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fileno(f), 0);
                return p[0];
        }
        """, "", **killed(7)),
    cpp("alarm-not-caught", "#include <unistd.h>\nint main() { ualarm(50000, 0); pause(); }\n", "", **killed(14)),
    python("alarm-caught", """
        import signal, time
        def rung(number, frame):
            print('rung')
            raise SystemExit(4)
        signal.signal(signal.SIGALRM, rung)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        time.sleep(9)
        """, "rung\n", status="error", exit_code=4),
    python("profiling-timer", """
        import signal
        def rung(number, frame):
            raise SystemExit(6)
        signal.signal(signal.SIGPROF, rung)
        signal.setitimer(signal.ITIMER_PROF, 0.05)
        while True:
            pass
        """, "", status="error", exit_code=6),
    cpp("signals-start-at-their-defaults", """
        #include <csignal>
        #include <cstdio>
        int main() {
                sigset_t blocked;
                sigprocmask(SIG_BLOCK, nullptr, &blocked);
                for (int n = 1; n < 32; n++) {
                        struct sigaction now;
                        sigaction(n, nullptr, &now);
                        if (now.sa_handler != SIG_DFL || sigismember(&blocked, n))
                                std::printf("%d ", n);
                }
                std::puts("end");
        }
        """, "end\n"),
    python("broken-pipe-in-a-shell", "import subprocess\nprint(subprocess.run("
           "['/bin/sh', '-c', 'while echo y; do :; done | head -n 1'], capture_output=True))\n",
           out_has="stdout=b'y\\n', stderr=b''"),
    python("broken-pipe-status", """
        import os, subprocess
        pipe = subprocess.Popen(['/bin/sh', '-c', 'while echo y; do :; done'], stdout=subprocess.PIPE)
        pipe.stdout.readline(); pipe.stdout.close()
        print(pipe.wait())
        """, "-13\n"),
    python("signal-between-children", """
        import os, signal, time
        child = os.fork()
        if child == 0:
            signal.pause()
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        """, "-15\n"),

    # Attacks on what watches the program.
    python("kills-everything", "import os\ntry:\n    os.kill(-1, 9)\nexcept OSError:\n    pass\nprint('still here')\n", "still here\n"),
    python("kills-everything-and-its-children", """
        import os, time
        for _ in range(5):
            if os.fork() == 0:
                time.sleep(60)
        os.kill(-1, 9)
        print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(5)))
        """, "[-9, -9, -9, -9, -9]\n"),
    python("every-signal-at-pid-1", """
        import os
        for number in range(1, 65):
            try:
                os.kill(1, number)
            except OSError:
                pass
        print('still here')
        """, "still here\n"),
    python("every-signal-at-the-parent", """
        import os
        for number in range(1, 65):
            try:
                os.kill(os.getppid(), number)
            except OSError:
                pass
        print('still here')
        """, "still here\n"),
    python("kills-its-group", "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nos.killpg(0, 15)\nprint('still here')\n", "still here\n"),

    # Stopping is not ending.
    python("stops-itself", "import os\nprint('stopping', flush=True)\nos.kill(os.getpid(), 19)\nprint('never')\n", "stopping\n",
           timeout=1, **TIMED_OUT),
    python("stops-all-its-processes", """
        import os, signal, time
        for _ in range(3):
            if os.fork() == 0:
                time.sleep(60)
        os.write(1, b'stopping')
        os.kill(-1, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        """, "stopping", timeout=1, **TIMED_OUT),
    python("sleeps-too-long", "import time\ntime.sleep(60)\n", "", timeout=1, **TIMED_OUT),
    python("spins", "while True:\n    pass\n", "", timeout=1, **TIMED_OUT),
    python("ignores-every-signal", """
        import signal, time
        for number in signal.valid_signals():
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        print('deaf', flush=True)
        time.sleep(60)
        """, "deaf\n", timeout=1, **TIMED_OUT),
    python("sleeps-in-its-last-function", "import atexit, time\natexit.register(time.sleep, 60)\nprint('main ends', flush=True)\n",
           "main ends\n", timeout=1, **TIMED_OUT),
    python("waits-for-a-thread", "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nprint('x', flush=True)\n",
           "x\n", timeout=1, **TIMED_OUT),
    python("children-outlast-the-timeout", """
        import os, time
        for _ in range(4):
            if os.fork() == 0:
                os.setsid()
                time.sleep(60)
        time.sleep(60)
        """, "", timeout=1, **TIMED_OUT),

    # The answer comes when the program ends, not when the last holder of its pipe does.
    python("daemon-holds-the-pipe", """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        os.wait()
        print('main ends')
        """, "main ends\n"),
    python("daemon-that-closed-its-streams", """
        import os, time
        if os.fork() == 0:
            for n in range(3):
                os.close(n)
            time.sleep(60)
        print('main ends')
        """, "main ends\n"),
    python("daemon-goes-on-writing", """
        import os, time
        if os.fork() == 0:
            os.setsid()
            while True:
                os.write(1, b'.')
                time.sleep(0.001)
        time.sleep(0.1)
        """, out_has="."),
    python("shell-puts-a-job-in-the-background", "import os\nos.system('sleep 60 & echo started')\n", "started\n"),
    python("child-written-before-the-parent-ends", "import os\nif os.fork() == 0:\n    os.write(1, b'child ')\n    os._exit(0)\nos.wait()\nos.write(1, b'parent')\n",
           "child parent"),
    python("orphan-ends-first", """
        import os, time
        if os.fork() == 0:
            if os.fork() == 0:
                os._exit(3)
            os._exit(0)
        os.wait()
        time.sleep(0.1)
        try:
            os.wait()
        except ChildProcessError:
            print('no children of mine')
        """, "no children of mine\n"),
    python("orphans-are-reaped", """
        import os
        for _ in range(60):
            if os.fork() == 0:
                if os.fork() == 0:
                    os._exit(0)
                os._exit(0)
            os.wait()
        print(sum(1 for name in os.listdir('/proc') if name.isdigit()) < 20)
        """, "True\n"),
    python("daemon-thread", "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('main ends')\n",
           "main ends\n"),
    cpp("detached-thread", """
        #include <chrono>
        #include <cstdio>
        #include <thread>
        int main() {
                std::thread([] { std::this_thread::sleep_for(std::chrono::minutes(1)); }).detach();
                std::puts("main ends");
        }
        """, "main ends\n"),
    cpp("main-thread-leaves-the-others", """
        #include <cstdlib>
        #include <pthread.h>
        #include <thread>
        #include <unistd.h>
        int main() {
                std::thread([] { usleep(200000); std::exit(5); }).detach();
                pthread_exit(nullptr);
        }
        """, "", status="error", exit_code=5),
    python("closes-every-descriptor", "import os\nos.closerange(0, 1000)\nos._exit(9)\n", "", status="error", exit_code=9),
    python("new-session-of-its-own", "import os\nprint(os.getsid(0) == os.getpid() or os.getsid(0) != 0, os.getpgrp() == os.getsid(0))\n",
           "True True\n"),
    python("no-controlling-terminal", "try:\n    open('/dev/tty')\nexcept OSError:\n    print('none')\n", "none\n"),
]


@pytest.mark.parametrize("case", snippets.rows(CASES))
def test_process(case, server, as_each):
    snippets.check(case, snippets.perform(case, server, as_each))


def test_what_a_signal_is_called(server):
    result = server.run_code("python", "import os\nos.kill(os.getpid(), 15)\n")
    assert result["signal"] == "SIGTERM" or result["signal"] == 15, result["signal"]
    assert server.run_code("python", "raise SystemExit(143)\n").get("signal") is None
