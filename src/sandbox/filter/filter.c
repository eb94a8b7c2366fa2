// Which system calls a snippet may make.
//
// An allow-list: what is not named below answers ENOSYS, so that a C library falls back to an older call. The
// second list is of calls that exist but are refused on purpose; they answer EPERM, which programs expect of
// a call they may not make. Calls of another architecture (32-bit entry, x32) answer ENOSYS.
//
// This is a program of the build: libseccomp needs 4 ms to lay the filter out as a binary tree, four times
// what a whole sandbox takes, and the result depends on nothing but the architecture. It writes a C header
// with the finished instructions, which the spawner includes. usage: sr-filter-generate > sandbox_filters.h

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// Every call here acts on the caller, its children, its own descriptors and files the mount namespace shows,
// and is bounded by rlimits, cgroups and permissions.
static const char *const allowed[] = {
        // Files and descriptors.
        "access",
        "chdir",
        "chmod",
        "chown",
        "close",
        "close_range",
        "copy_file_range",
        "creat",
        "dup",
        "dup2",
        "dup3",
        "faccessat",
        "faccessat2",
        "fadvise64",
        "fallocate",
        "fchdir",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "fchown",
        "fchownat",
        "fdatasync",
        "fgetxattr",
        "flistxattr",
        "flock",
        "fremovexattr",
        "fsetxattr",
        "fstat",
        "fstatfs",
        "fsync",
        "ftruncate",
        "futimesat",
        "getcwd",
        "getdents",
        "getdents64",
        "getxattr",
        "lchown",
        "lgetxattr",
        "link",
        "linkat",
        "listxattr",
        "llistxattr",
        "lremovexattr",
        "lseek",
        "lsetxattr",
        "lstat",
        "mkdir",
        "mkdirat",
        "mknod",
        "mknodat",
        "newfstatat",
        "open",
        "openat",
        "openat2",
        "pread64",
        "preadv",
        "preadv2",
        "pwrite64",
        "pwritev",
        "pwritev2",
        "read",
        "readahead",
        "readlink",
        "readlinkat",
        "readv",
        "removexattr",
        "rename",
        "renameat",
        "renameat2",
        "rmdir",
        "sendfile",
        "setxattr",
        "splice",
        "stat",
        "statfs",
        "statx",
        "symlink",
        "symlinkat",
        "sync_file_range",
        "tee",
        "truncate",
        "umask",
        "unlink",
        "unlinkat",
        "utime",
        "utimensat",
        "utimes",
        "vmsplice",
        "write",
        "writev",
        "memfd_create",
        // Waiting and events.
        "epoll_create",
        "epoll_create1",
        "epoll_ctl",
        "epoll_pwait",
        "epoll_pwait2",
        "epoll_wait",
        "eventfd",
        "eventfd2",
        "pause",
        "pipe",
        "pipe2",
        "poll",
        "ppoll",
        "pselect6",
        "select",
        "signalfd",
        "signalfd4",
        "timerfd_create",
        "timerfd_gettime",
        "timerfd_settime",
        // Memory.
        "brk",
        "get_mempolicy",
        "madvise",
        "map_shadow_stack",
        "membarrier",
        "mincore",
        "mlock",
        "mlock2",
        "mlockall",
        "mmap",
        "mprotect",
        "mremap",
        "mseal",
        "msync",
        "munlock",
        "munlockall",
        "munmap",
        "pkey_alloc",
        "pkey_free",
        "pkey_mprotect",
        "remap_file_pages",
        // Processes and threads. clone has a rule of its own; clone3 is absent, so libc falls back to clone,
        // whose flags a filter can read.
        "execve",
        "execveat",
        "exit",
        "exit_group",
        "fork",
        "vfork",
        "futex",
        "futex_requeue",
        "futex_wait",
        "futex_waitv",
        "futex_wake",
        "get_robust_list",
        "get_thread_area",
        "set_robust_list",
        "set_thread_area",
        "set_tid_address",
        "getpgid",
        "getpgrp",
        "getpid",
        "getppid",
        "getsid",
        "gettid",
        "kill",
        "pidfd_open",
        "pidfd_send_signal",
        "prctl",
        "arch_prctl",
        "restart_syscall",
        "rseq",
        "setpgid",
        "setsid",
        "tgkill",
        "tkill",
        "wait4",
        "waitid",
        "waitpid",
        // Signals.
        "rt_sigaction",
        "rt_sigpending",
        "rt_sigprocmask",
        "rt_sigqueueinfo",
        "rt_sigreturn",
        "rt_sigsuspend",
        "rt_sigtimedwait",
        "rt_tgsigqueueinfo",
        "sigaltstack",
        "sigreturn",
        // Scheduling, limits, usage; prlimit64 has a rule of its own.
        "getcpu",
        "getpriority",
        "getrlimit",
        "getrusage",
        "ioprio_get",
        "sched_get_priority_max",
        "sched_get_priority_min",
        "sched_getaffinity",
        "sched_getattr",
        "sched_getparam",
        "sched_getscheduler",
        "sched_rr_get_interval",
        "sched_setaffinity",
        "sched_yield",
        "setrlimit",
        "times",
        // Time.
        "alarm",
        "clock_getres",
        "clock_gettime",
        "clock_nanosleep",
        "getitimer",
        "gettimeofday",
        "nanosleep",
        "setitimer",
        "time",
        "timer_create",
        "timer_delete",
        "timer_getoverrun",
        "timer_gettime",
        "timer_settime",
        // Who and where am I. Changing ids goes nowhere: one id is mapped and no capability is held.
        "capget",
        "capset",
        "getegid",
        "geteuid",
        "getgid",
        "getgroups",
        "getrandom",
        "getresgid",
        "getresuid",
        "getuid",
        "setfsgid",
        "setfsuid",
        "setgid",
        "setgroups",
        "setregid",
        "setresgid",
        "setresuid",
        "setreuid",
        "setuid",
        "sysinfo",
        "uname",
        // Sockets; socket and socketpair have rules of their own. There is no network but the sandbox's
        // loopback.
        "accept",
        "accept4",
        "bind",
        "connect",
        "getpeername",
        "getsockname",
        "getsockopt",
        "listen",
        "recvfrom",
        "recvmmsg",
        "recvmsg",
        "sendmmsg",
        "sendmsg",
        "sendto",
        "setsockopt",
        "shutdown",
        // System V and POSIX IPC, inside an ipc namespace of the sandbox's own.
        "mq_getsetattr",
        "mq_notify",
        "mq_open",
        "mq_timedreceive",
        "mq_timedsend",
        "mq_unlink",
        "msgctl",
        "msgget",
        "msgrcv",
        "msgsnd",
        "semctl",
        "semget",
        "semop",
        "semtimedop",
        "shmat",
        "shmctl",
        "shmdt",
        "shmget",
        // Programs may fence themselves in further.
        "landlock_add_rule",
        "landlock_create_ruleset",
        "landlock_restrict_self",
        "seccomp",
};

static const char *const refused[] = {
        // Mounts and namespaces.
        "chroot",
        "fsconfig",
        "fsmount",
        "fsopen",
        "fspick",
        "mount",
        "mount_setattr",
        "move_mount",
        "open_tree",
        "pivot_root",
        "setns",
        "umount",
        "umount2",
        "unshare",
        // Other processes' memory and descriptors.
        "kcmp",
        "pidfd_getfd",
        "process_madvise",
        "process_mrelease",
        "process_vm_readv",
        "process_vm_writev",
        "ptrace",
        // Large kernel surfaces with a history of escapes.
        "bpf",
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "perf_event_open",
        "userfaultfd",
        "modify_ldt",
        "fanotify_init",
        "fanotify_mark",
        // Keyrings are not namespaced.
        "add_key",
        "keyctl",
        "request_key",
        // Handles reach files past the root.
        "name_to_handle_at",
        "open_by_handle_at",
        // The machine's own state.
        "acct",
        "adjtimex",
        "clock_adjtime",
        "clock_settime",
        "delete_module",
        "finit_module",
        "init_module",
        "ioperm",
        "iopl",
        "kexec_file_load",
        "kexec_load",
        "quotactl",
        "quotactl_fd",
        "reboot",
        "setdomainname",
        "sethostname",
        "settimeofday",
        "swapoff",
        "swapon",
        "syslog",
        "vhangup",
        // Placement that needs a privilege.
        "ioprio_set",
        "mbind",
        "migrate_pages",
        "move_pages",
        "set_mempolicy",
};

// Requests a program makes of pipes, files, sockets and the few devices there are. There is no terminal, so
// TIOCSTI and TIOCLINUX are out with everything else. The kernel reads 32 bits, so 32 bits are compared.
static const uint32_t ioctls[] = {
        TCGETS,
        0x802c542a /* TCGETS2, which no header gives beside termios.h */,
        TIOCGWINSZ,
        TIOCGPGRP,
        TIOCOUTQ,
        FIONREAD,
        FIONBIO,
        FIOASYNC,
        FIOCLEX,
        FIONCLEX,
        FIOQSIZE,
        FS_IOC_GETFLAGS,
        FICLONE,
        RNDGETENTCNT,
        // Looking at the loopback interface.
        SIOCGIFNAME,
        SIOCGIFCONF,
        SIOCGIFFLAGS,
        SIOCGIFADDR,
        SIOCGIFBRDADDR,
        SIOCGIFNETMASK,
        SIOCGIFMTU,
        SIOCGIFHWADDR,
        SIOCGIFINDEX,
        SIOCATMARK,
};

// All of fcntl but leases and directory notification: both let a program watch or hold up others that use the
// same image. The kernel reads 32 bits of the command.
static const uint32_t fcntls[] = {
        F_DUPFD,
        F_GETFD,
        F_SETFD,
        F_GETFL,
        F_SETFL,
        F_GETLK,
        F_SETLK,
        F_SETLKW,
        F_SETOWN,
        F_GETOWN,
        F_SETSIG,
        F_GETSIG,
        F_SETOWN_EX,
        F_GETOWN_EX,
        F_OFD_GETLK,
        F_OFD_SETLK,
        F_OFD_SETLKW,
        F_GETLEASE,
        F_DUPFD_CLOEXEC,
        F_SETPIPE_SZ,
        F_GETPIPE_SZ,
        F_ADD_SEALS,
        F_GET_SEALS,
        F_GET_RW_HINT,
        F_SET_RW_HINT,
        F_GET_FILE_RW_HINT,
        F_SET_FILE_RW_HINT,
};

// Execution domains that change nothing but reported values (as Docker's default profile has them).
static const uint32_t personalities[] = {0x0, 0x8, 0x20000, 0x20008, 0xffffffff};

static const uint32_t families[] = {AF_UNIX, AF_INET, AF_INET6};

// Names that this libseccomp or this architecture does not know are passed over: in the allow-list that only
// refuses more; in the other one the default refuses as well.
static int add_names(scmp_filter_ctx context, uint32_t action, const char *const *names, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                int number = seccomp_syscall_resolve_name(names[i]);

                if (number < 0)
                        continue;
                int r = seccomp_rule_add(context, action, number, 0);
                if (r < 0)
                        return r;
        }
        return 0;
}

// Allows a call when the low 32 bits of argument number `argument` are one of values.
static int add_values(scmp_filter_ctx context, int number, unsigned argument, const uint32_t *values,
                      size_t count)
{
        for (size_t i = 0; i < count; i++) {
                int r = seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 1,
                                         SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, 0xffffffffu, values[i]));
                if (r < 0)
                        return r;
        }
        return 0;
}

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static int add_clone_rules(scmp_filter_ctx context)
{
        // clone(2) takes no CLONE_NEWTIME: its bit belongs to the exit signal there.
        static const uint64_t namespaces[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                              CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
        uint64_t all = 0;
        int r = 0;

        for (size_t i = 0; i < COUNT(namespaces); i++) {
                all |= namespaces[i];
                if (r == 0)
                        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                             SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
        }
        if (r == 0)
                r = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                     SCMP_A0(SCMP_CMP_MASKED_EQ, all, 0));
        return r;
}

static int add_socket_rules(scmp_filter_ctx context)
{
        uint32_t no_family = SCMP_ACT_ERRNO(EAFNOSUPPORT);
        int r = add_values(context, SCMP_SYS(socket), 0, families, COUNT(families));

        for (uint32_t family = AF_UNSPEC; family < AF_INET6 && r == 0; family++)
                if (family != AF_UNIX && family != AF_INET)
                        r = seccomp_rule_add(context, no_family, SCMP_SYS(socket), 1,
                                             SCMP_A0(SCMP_CMP_EQ, family));
        if (r == 0)
                r = seccomp_rule_add(context, no_family, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_GT, AF_INET6));
        if (r == 0)
                r = add_values(context, SCMP_SYS(socketpair), 0, families, 1);
        return r;
}

// Limits may be read of any process and set only of the caller itself: with one id for everything a program
// could otherwise end init by RLIMIT_CPU and forge its verdict.
static int add_limit_rules(scmp_filter_ctx context)
{
        int r = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A2(SCMP_CMP_EQ, 0));

        if (r == 0)
                r = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
                                     SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, 0));
        if (r == 0)
                r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 2,
                                     SCMP_A0(SCMP_CMP_NE, 0), SCMP_A2(SCMP_CMP_NE, 0));
        return r;
}

// Priorities may be set of the caller only: with one id for everything a program could otherwise slow init
// down.
static int add_priority_rules(scmp_filter_ctx context)
{
        static const uint32_t self[] = {0};
        int r = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), 2,
                                 SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, PRIO_PROCESS),
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, 0));

        if (r == 0)
                r = add_values(context, SCMP_SYS(sched_setscheduler), 0, self, COUNT(self));
        if (r == 0)
                r = add_values(context, SCMP_SYS(sched_setparam), 0, self, COUNT(self));
        if (r == 0)
                r = add_values(context, SCMP_SYS(sched_setattr), 0, self, COUNT(self));
        return r;
}

// What these hold is memory of no process, so a watchdog that sums the memory of processes does not see it.
static const char *const unaccounted[] = {"memfd_create", "memfd_secret", "msgget", "semget", "shmget"};

static bool is_unaccounted(const char *name)
{
        for (size_t i = 0; i < COUNT(unaccounted); i++)
                if (strcmp(name, unaccounted[i]) == 0)
                        return true;
        return false;
}

static int add_allowed(scmp_filter_ctx context, bool watched)
{
        int r = 0;

        for (size_t i = 0; i < COUNT(allowed) && r == 0; i++)
                if (!watched || !is_unaccounted(allowed[i]))
                        r = add_names(context, SCMP_ACT_ALLOW, &allowed[i], 1);
        return r;
}

static int add_shared_rules(scmp_filter_ctx context)
{
        int r = 0;

        r = add_names(context, SCMP_ACT_ERRNO(EPERM), refused, COUNT(refused));
        if (r == 0)
                r = add_clone_rules(context);
        if (r == 0)
                r = add_values(context, SCMP_SYS(ioctl), 1, ioctls, COUNT(ioctls));
        if (r == 0)
                r = add_values(context, SCMP_SYS(fcntl), 1, fcntls, COUNT(fcntls));
        // These act on every file system of the host and may sleep long; a program that writes to memory
        // alone has nothing to wait for.
        if (r == 0)
                r = seccomp_rule_add(context, SCMP_ACT_ERRNO(0), SCMP_SYS(sync), 0);
        if (r == 0)
                r = seccomp_rule_add(context, SCMP_ACT_ERRNO(0), SCMP_SYS(syncfs), 0);
        if (r == 0)
                r = add_values(context, SCMP_SYS(personality), 0, personalities, COUNT(personalities));
        if (r == 0)
                r = add_socket_rules(context);
        if (r == 0)
                r = add_limit_rules(context);
        if (r == 0)
                r = add_priority_rules(context);
        return r;
}

static int add_program_rules(scmp_filter_ctx context)
{
        int r = add_allowed(context, false);

        return r < 0 ? r : add_shared_rules(context);
}

// For a program whose memory no cgroup accounts.
static int add_watched_rules(scmp_filter_ctx context)
{
        int r = add_allowed(context, true);

        return r < 0 ? r : add_shared_rules(context);
}

// init only reaps and reports after it has started the program.
static int add_init_rules(scmp_filter_ctx context)
{
        static const char *const names[] = {"wait4",         "write",        "exit_group",
                                            "clock_gettime", "rt_sigreturn", "restart_syscall"};

        return add_names(context, SCMP_ACT_ALLOW, names, COUNT(names));
}

static int print_program(scmp_filter_ctx context, const char *name)
{
        int fd = memfd_create("filter", MFD_CLOEXEC);
        struct sock_filter *code;
        struct stat size;

        if (fd < 0)
                return -errno;
        int r = seccomp_export_bpf(context, fd);
        if (r < 0)
                return r;
        if (fstat(fd, &size) < 0)
                return -errno;
        code = mmap(NULL, (size_t)size.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (code == MAP_FAILED)
                return -errno;
        printf("static const struct sock_filter %s[] = {\n", name);
        for (size_t i = 0; i < (size_t)size.st_size / sizeof(*code); i++)
                printf("        {0x%04x, %u, %u, 0x%08x},\n", code[i].code, code[i].jt, code[i].jf,
                       code[i].k);
        printf("};\n");
        munmap(code, (size_t)size.st_size);
        return 0;
}

static int generate(const char *name, uint32_t fallback, int (*add_rules)(scmp_filter_ctx))
{
        scmp_filter_ctx context = seccomp_init(fallback);

        if (context == NULL)
                return -ENOMEM;
        // Level 2 lays the filter out as a binary tree: a call passes tens, not hundreds of comparisons.
        int r = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
        if (r == 0)
                r = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
        if (r == 0)
                r = add_rules(context);
        if (r == 0)
                r = print_program(context, name);
        seccomp_release(context);
        return r;
}

int main(void)
{
        printf("// Written by the build from src/sandbox/filter/filter.c.\n#pragma once\n\n"
               "#include <linux/filter.h>\n\n");
        int r = generate("sr_filter_program", SCMP_ACT_ERRNO(ENOSYS), add_program_rules);
        if (r == 0)
                r = generate("sr_filter_program_watched", SCMP_ACT_ERRNO(ENOSYS), add_watched_rules);
        if (r == 0)
                r = generate("sr_filter_init", SCMP_ACT_ERRNO(EPERM), add_init_rules);
        if (r < 0 || fflush(stdout) != 0) {
                fprintf(stderr, "sr-filter-generate: %s\n", strerror(r < 0 ? -r : errno));
                return EXIT_FAILURE;
        }
        return EXIT_SUCCESS;
}
