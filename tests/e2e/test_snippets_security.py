"""What a snippet must not see or do, tried from Python and C++. The programs under tests/escape go deeper."""

import os
import socket
import time

import pytest

import snippets
import support
from snippets import cpp, python

CALLS = """
    import ctypes, errno, os
    libc = ctypes.CDLL(None, use_errno=True)
    def denied(name, *args):
        ctypes.set_errno(0)
        call = getattr(libc, name)
        call.restype = ctypes.c_long if name == 'syscall' else ctypes.c_int
        if call(*args) != -1:
            print(name, 'was allowed')
        elif ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES):
            print(name, errno.errorcode[ctypes.get_errno()])
"""


def calls(text):
    return CALLS + "\n".join("    " + line for line in text.strip().splitlines()) + "\n    print('end')\n"


CASES = [
    python("not-root-and-never-again", """
        import os
        print(os.getuid() != 0, os.geteuid() == os.getuid(), os.getgid() != 0)
        for become in (os.setuid, os.setgid, os.seteuid):
            try:
                become(0)
                print('became root by', become.__name__)
            except OSError:
                pass
        """, "True True True\n"),
    python("status-of-the-process", """
        status = dict(line.rstrip().split(':', 1) for line in open('/proc/self/status'))
        print([name for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb') if int(status[name], 16)])
        print(status['NoNewPrivs'].strip(), status['Seccomp'].strip())
        """, "[]\n1 2\n"),
    python("set-user-id-programs-are-inert", """
        import os
        found = []
        for top, _, files in os.walk('/usr'):
            for name in files:
                path = os.path.join(top, name)
                if not os.path.islink(path) and os.stat(path).st_mode & 0o6000:
                    found.append(path)
        print(found, [line.split()[5] for line in open('/proc/self/mountinfo') if 'nosuid' not in line.split()[5]])
        """, "[] []\n"),
    python("kernel-settings-are-read-only", """
        for path, value in (('/proc/sys/kernel/hostname', 'x'), ('/proc/sys/kernel/core_pattern', '|/bin/false'),
                            ('/proc/sys/vm/drop_caches', '1'), ('/proc/sys/kernel/ns_last_pid', '5'), ('/proc/sys/net/ipv4/ip_forward', '1'),
                            ('/proc/sysrq-trigger', 'h'), ('/sys/kernel/uevent_helper', '/bin/false'), ('/proc/self/oom_score_adj', '-1000'),
                            ('/proc/irq/0/smp_affinity', '1'), ('/proc/self/uid_map', '0 0 1'), ('/proc/self/setgroups', 'allow')):
            try:
                with open(path, 'w') as f:
                    f.write(value)
                print(path, 'was written')
            except OSError:
                pass
        print('end')
        """, "end\n"),
    python("kernel-secrets-are-masked", """
        for path in ('/proc/kcore', '/proc/kmsg', '/proc/kallsyms', '/proc/keys', '/proc/timer_list', '/proc/sched_debug', '/proc/vmallocinfo', '/proc/slabinfo',
                     '/dev/mem', '/dev/kmsg', '/dev/kvm', '/dev/fuse', '/dev/sda', '/dev/vda', '/sys/kernel/debug'):
            try:
                with open(path, 'rb') as f:
                    lines = f.read(4096).splitlines()
                if path == '/proc/kallsyms' and all(line.startswith(b'0000000000000000') for line in lines):
                    continue
                if lines:
                    print(path, 'was read')
            except OSError:
                pass
        print('end')
        """, "end\n"),
    python("control-groups-are-not-writable", """
        import glob, os
        for pattern in ('/sys/fs/cgroup/*.max', '/sys/fs/cgroup/*/*.max', '/sys/fs/cgroup/*/*limit*', '/sys/fs/cgroup/cgroup.procs', '/sys/fs/cgroup/*/cgroup.procs', '/sys/fs/cgroup/*/tasks'):
            for path in glob.glob(pattern):
                try:
                    os.close(os.open(path, os.O_WRONLY))
                    print(path, 'opens for writing')
                except OSError:
                    pass
        print('end')
        """, "end\n"),
    python("root-file-system-is-read-only", """
        import os
        wrote = []
        for top in ('/', '/etc', '/usr/bin', '/usr/lib', '/home', '/root', '/var', '/var/tmp', '/run', '/opt', '/srv', '/mnt', '/proc', '/dev'):
            try:
                os.close(os.open(top + '/made-by-a-snippet', os.O_CREAT | os.O_WRONLY))
                wrote.append(top)
            except OSError:
                pass
        for path in ('/etc/passwd', '/bin/sh', '/etc/hosts', '/etc/resolv.conf', '/etc/hostname'):
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
                wrote.append(path)
            except OSError:
                pass
        print(wrote)
        """, "[]\n"),
    python("nothing-of-the-host-is-mounted", """
        kinds = {}
        for line in open('/proc/self/mountinfo'):
            left, right = line.split(' - ')
            kinds[left.split()[4]] = right.split()[0]
        writable = [left.split()[4] for left in open('/proc/self/mountinfo') if left.split()[5].split(',')[0] == 'rw']
        allowed = ('/tmp', '/scratch', '/proc', '/dev')
        print([path for path in writable if not path.startswith(allowed)], '/sys' in kinds, kinds['/tmp'], kinds['/scratch'], kinds['/proc'])
        """, "[] False tmpfs tmpfs proc\n"),
    python("environment-is-an-allow-list", "import os\nprint(sorted(n for n in os.environ if n.startswith(('SANDBOX_RUNNER', 'SUITE', 'ASAN', 'UBSAN', 'XDG'))), os.environ['PATH'] != '', 'suite-secret' in str(os.environ))\n",
           "[] True False\n"),
    python("environment-of-pid-1", "try:\n    print(b'suite-secret' in open('/proc/1/environ', 'rb').read())\nexcept OSError:\n    print(False)\n", "False\n"),
    python("accounts-are-the-image's", "text = open('/etc/passwd').read()\nprint('sr-test' in text, text.count('\\n') > 1)\n", "False True\n"),
    python("only-its-own-processes", """
        import os
        mine = sorted(int(n) for n in os.listdir('/proc') if n.isdigit())
        print(mine[0] == 1, len(mine) <= 3, os.getpid() < 10)
        """, "True True True\n"),
    python("nothing-inherited", """
        import os
        kept = []
        for fd in os.listdir('/proc/self/fd'):
            try:
                kept.append((int(fd), os.readlink(f'/proc/self/fd/{fd}')))
            except OSError:
                pass
        print(sorted(fd for fd, target in kept if fd > 2 and not target.startswith('/proc/')))
        """, "[]\n"),
    python("pid-1-keeps-its-secrets", """
        import os
        for path in ('environ', 'mem', 'maps', 'root', 'cwd', 'exe', 'fd/0', 'fd/3', 'auxv', 'syscall'):
            try:
                if path in ('root', 'cwd', 'exe', 'fd/0', 'fd/3'):
                    print(path, os.readlink('/proc/1/' + path))
                elif open('/proc/1/' + path, 'rb').read(64):
                    print(path, 'was read')
            except OSError:
                pass
        print('end')
        """, "end\n"),
    python("name-of-the-host-is-hidden", "import os, socket\nprint(socket.gethostname(), os.uname().nodename)\n",
           out_lacks=socket.gethostname()),
    python("no-way-out-by-network", """
        import socket, time
        began = time.monotonic()
        for family, address in ((socket.AF_INET, ('8.8.8.8', 53)), (socket.AF_INET, ('169.254.169.254', 80)), (socket.AF_INET6, ('2001:4860:4860::8888', 53))):
            try:
                socket.socket(family).connect(address)
                print('connected to', address)
            except OSError:
                pass
        try:
            socket.getaddrinfo('example.com', 80)
            print('resolved')
        except OSError:
            pass
        print([line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line], time.monotonic() - began < 3)
        """, "['lo'] True\n"),
    python("socket-families", """
        import socket
        for family, kind in ((16, 3), (17, 3), (38, 5), (40, 1), (31, 3), (29, 3), (15, 3), (44, 3), (2, 3), (21, 5), (30, 1)):
            try:
                socket.socket(family, kind)
                print('family', family, 'opened')
            except OSError:
                pass
        print('end')
        """, "end\n"),
    python("name-spaces-and-mounts", calls("""
denied('unshare', 0x10000000)
denied('unshare', 0x00020000)
denied('unshare', 0x40000000)
denied('setns', os.open('/proc/self/ns/net', 0), 0)
denied('mount', b'none', b'/tmp', b'tmpfs', 0, None)
denied('umount2', b'/proc', 2)
denied('umount2', b'/tmp', 2)
denied('chroot', b'/tmp')
denied('syscall', 155, b'/', b'/tmp')
denied('syscall', 428, -100, b'/', 1)
denied('syscall', 430, b'tmpfs', 0)
denied('sethostname', b'x', 1)
denied('setdomainname', b'x', 1)
denied('mknod', b'/tmp/n', 0o20600, 0x101)
"""), "end\n"),
    python("calls-into-the-kernel", calls("""
denied('syscall', 321, 0, 0, 0)
denied('syscall', 298, 0, 0, -1, -1, 0)
denied('syscall', 425, 1, 0)
denied('syscall', 323, 0)
denied('syscall', 250, 0, 0, 0, 0, 0)
denied('syscall', 248, b'user', b'x', b'y', 1, -3)
denied('syscall', 246, 0, 0, 0, 0)
denied('syscall', 175, 0, 0, b'')
denied('syscall', 313, 0, b'', 0)
denied('syscall', 169, 0xfee1dead, 672274793, 0x1234567, 0)
denied('syscall', 167, b'/tmp/s', 0)
denied('syscall', 163, b'/tmp/acct')
denied('syscall', 103, 2, None, 0)
denied('syscall', 172, 3)
denied('syscall', 304, -100, b'x', 0)
denied('syscall', 303, -100, b'/', 0, 0, 0)
denied('syscall', 310, 1, 0, 0, 0, 0, 0)
denied('syscall', 311, 1, 0, 0, 0, 0, 0)
denied('syscall', 227, 0, ctypes.create_string_buffer(16))
denied('syscall', 164, ctypes.create_string_buffer(16), None)
denied('ptrace', 16, 1, 0, 0)
"""), "end\n"),
    cpp("traces-its-own-child", """
        #include <cstdio>
        #include <sys/ptrace.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main() {
                pid_t child = fork();
                if (child == 0)
                        _exit(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 ? 0 : 7);
                int status;
                waitpid(child, &status, 0);
                std::puts("no hang");
        }
        """, "no hang\n"),
    cpp("new-name-spaces-by-clone", """
        #include <cerrno>
        #include <cstdio>
        #include <initializer_list>
        #include <sched.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main() {
                int allowed = 0;
                for (unsigned long flag : {0x10000000ul, 0x00020000ul, 0x20000000ul, 0x40000000ul, 0x08000000ul, 0x04000000ul, 0x02000000ul}) {
                        long pid = syscall(SYS_clone, flag | 17, 0, 0, 0, 0);
                        if (pid == 0)
                                _exit(0);
                        allowed += pid > 0;
                }
                unsigned long args[8] = {0x10000000ul, 0, 0, 0, 17};
                errno = 0;
                long pid = syscall(SYS_clone3, args, sizeof args);
                if (pid == 0)
                        _exit(0);
                std::printf("%d %d\\n", allowed, errno == ENOSYS);
        }
        """, "0 1\n"),
    cpp("types-into-the-terminal", "#include <cerrno>\n#include <cstdio>\n#include <sys/ioctl.h>\nint main() { char c = 'x'; int r = ioctl(0, TIOCSTI, &c); "
        "std::printf(\"%d\\n\", r == -1 && (errno == EPERM || errno == ENOTTY || errno == ENOSYS)); }\n", "1\n"),
    cpp("limits-of-pid-1", """
        #include <cstdio>
        #include <sys/resource.h>
        int main() {
                struct rlimit none = {0, 0};
                std::printf("%d\\n", prlimit(1, RLIMIT_CPU, &none, nullptr));
        }
        """, "-1\n"),
    python("thirty-two-bit-calls", """
        import ctypes, mmap, os
        # mov eax, 20 (getpid); int 0x80; ret
        code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
        code.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')
        child = os.fork()
        if child == 0:
            answer = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
            os._exit(1 if answer > 0 else 0)
        status = os.wait()[1]
        print('refused' if status == 0 or os.WIFSIGNALED(status) else 'allowed')
        """, "refused\n"),
]


@pytest.mark.parametrize("case", snippets.rows(CASES))
def test_security(case, server, as_each):
    snippets.check(case, snippets.perform(case, server, as_each))


def test_sockets_of_the_host_are_out_of_reach(server):
    """Neither an abstract address nor a port of the host's loopback can be reached."""
    name = f"\0sr-suite-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as abstract, socket.create_server(("127.0.0.1", 0)) as port:
        abstract.bind(name)
        abstract.listen()
        result = server.run_code("python", f"""
import socket
for family, address in ((socket.AF_UNIX, {name!r}), (socket.AF_INET, {port.getsockname()!r})):
    try:
        socket.socket(family).connect(address)
        print('connected')
    except ConnectionRefusedError:
        print('refused')
""")
    assert result["stdout"] == "refused\nrefused\n", result


def test_the_server_cannot_be_hit_by_number(server):
    """Pids of the host mean nothing inside; with one shared user id that is what protects the server."""
    pids = [server.pid, os.getpid(), *support.descendants(server.pid)]
    result = server.run_code("python", f"""
import os
hit = []
for pid in {pids}:
    try:
        os.kill(pid, 9)
        hit.append(pid)
    except OSError:
        pass
print([pid for pid in hit if pid > 20])
""")
    assert result["stdout"] == "[]\n"
    assert server.run_code("python", "print('alive')\n")["stdout"] == "alive\n"


def outside_uid(server):
    """The host's user id of a snippet, seen while it sleeps."""
    known = support.descendants(server.pid)
    waiting = server.submit_code("python", "import time\nprint('up', flush=True)\ntime.sleep(1)\n", 5)
    end = time.monotonic() + 8
    found = set()
    while not waiting.event.is_set() and time.monotonic() < end:
        for pid in set(support.descendants(server.pid)) - set(known):
            try:
                words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
                if any(b"snippet.py" in word for word in words):
                    found.add(os.stat(f"/proc/{pid}").st_uid)
            except OSError:
                continue
        time.sleep(0.02)
    assert server.code_result(waiting)["stdout"] == "up\n"
    return found


def test_never_root_on_the_host(server, identity):
    found = outside_uid(server)
    # An undumpable process shows as root's in /proc, so it must have been seen as somebody else at least once.
    found.discard(0) if len(found) > 1 else None
    assert len(found) == 1, found
    uid = found.pop()
    if identity.is_root:
        assert uid >= 65536, f"uid {uid} of the host may own something"
    else:
        assert uid != 0
