"""Ways to hold memory where the kernel does not show it as a process's own: none goes past the limit."""

from textwrap import dedent

import pytest

from identity import expected_limits
from test_limits import LONG, MIB, assert_out_of_memory, run


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


def test_page_tables_count_as_memory(server):
    # Each page read takes one of the tables and none of the memory, as all are the one zero page.
    result = server.run_code("cpp", dedent("""
        #include <cstdio>
        #include <sys/mman.h>

        int main()
        {
            size_t size = 1ul << 38, step = 2 << 20; // 512 MiB of tables
            auto at = (volatile char *)mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (at == MAP_FAILED || madvise((void *)at, size, MADV_NOHUGEPAGE) != 0)
                return 1;
            for (size_t i = 0; i < size; i += step)
                (void)at[i];
            std::puts("survived");
        }
        """), LONG, wait=LONG + 60)
    assert_out_of_memory(result, within=20)
