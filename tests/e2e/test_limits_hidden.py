"""Ways to hold memory where the kernel does not show it as a process's own: none goes past the limit."""

import pytest

from identity import expected_limits
from test_limits import MIB, assert_out_of_memory, run

pytestmark = pytest.mark.vm


@pytest.fixture
def limits(identity):
    return expected_limits(identity)


@pytest.mark.parametrize("source", ["-1", "os.open('/dev/zero', os.O_RDWR)"])
def test_memory_that_no_process_shows_does_not_get_past(server, limits, source):
    # Pages of a shared mapping stay when they are taken out of the process's own tables.
    result = run(server, f"""
        import mmap, os
        mapped = mmap.mmap({source}, 600 << 20)
        for at in range(0, 600 << 20, 2 << 20):
            mapped[at:at + (2 << 20)] = bytes(2 << 20)
            mapped.madvise(mmap.MADV_DONTNEED, at, 2 << 20)
        print('survived')
        """)
    if limits["memory"] != "watchdog":
        assert_out_of_memory(result)
    assert result["stdout"] == "" and result["status"] == "error", result


def test_memory_in_loopback_sockets_is_bounded(server):
    # What a datagram socket takes before it drops is 8 MiB in all where nothing else bounds it: 512 of them, 16 times.
    result = run(server, """
        import os, socket
        got = os.pipe()
        for _ in range(16):
            if os.fork() == 0:
                held, sent = [], 0
                for _ in range(400):
                    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    one.bind(('127.0.0.1', 0))
                    one.setblocking(False)
                    held.append(one)
                    for _ in range(6):
                        try:
                            one.sendto(b'x' * 60000, one.getsockname())
                        except OSError:
                            pass
                waiting = 0
                for one in held:
                    try:
                        while True:
                            waiting += len(one.recv(65536))
                    except OSError:
                        pass
                os.write(got[1], b'%10d' % waiting)
                os._exit(0)
        print(sum(int(os.read(got[0], 10)) for _ in range(16)))
        """)
    if result["reason"] != "memory_limit":
        assert result["status"] == "success", result
        assert int(result["stdout"]) < 320 * MIB, result
