#include "sandbox/filter/table.h"

// Everything allowed acts on the caller, its children, its own descriptors and files the mount namespace
// shows, and is bounded by rlimits, control groups and permissions.
const struct sr_filter_family sr_filter_families[] = {
        {SR_FILTER_ALLOWED, "files by name: the mount namespace decides which there are",
         "access chdir chmod chown creat faccessat faccessat2 fchdir fchmod fchmodat fchmodat2 fchown "
         "fchownat futimesat getcwd getdents getdents64 lchown link linkat lstat mkdir mkdirat mknod "
         "mknodat newfstatat open openat openat2 readlink readlinkat rename renameat renameat2 rmdir stat "
         "statfs statx symlink symlinkat truncate umask unlink unlinkat utime utimensat utimes"},
        {SR_FILTER_ALLOWED, "attributes of files: those of a user; the others need a capability",
         "fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr lremovexattr "
         "lsetxattr removexattr setxattr"},
        {SR_FILTER_ALLOWED, "the caller's descriptors (fcntl and ioctl have rules)",
         "close close_range copy_file_range dup dup2 dup3 fadvise64 fallocate fdatasync flock fstat fstatfs "
         "fsync ftruncate lseek pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readv "
         "sendfile splice sync_file_range tee vmsplice write writev"},
        {SR_FILTER_ALLOWED, "waiting and events",
         "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 pause "
         "pipe pipe2 poll ppoll pselect6 select signalfd signalfd4 timerfd_create timerfd_gettime "
         "timerfd_settime"},
        {SR_FILTER_ALLOWED, "the caller's memory; RLIMIT_MEMLOCK is 0 (mmap and memfd_create have rules)",
         "brk madvise map_shadow_stack membarrier mincore mlock mlock2 mlockall mprotect mremap mseal "
         "msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect"},
        {SR_FILTER_ALLOWED, "processes and threads of the sandbox's pid namespace (clone has a rule)",
         "arch_prctl execve execveat exit exit_group fork futex futex_waitv get_robust_list getpgid getpgrp "
         "getpid getppid getsid gettid kill pidfd_open pidfd_send_signal prctl restart_syscall rseq "
         "set_robust_list set_tid_address setpgid setsid tgkill tkill vfork wait4 waitid"},
        {SR_FILTER_ALLOWED, "signals",
         "rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend "
         "rt_sigtimedwait rt_tgsigqueueinfo sigaltstack"},
        {SR_FILTER_ALLOWED, "scheduling, limits, usage (what sets those of a process by its id has rules)",
         "getcpu getpriority getrlimit getrusage ioprio_get sched_get_priority_max sched_get_priority_min "
         "sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval "
         "sched_yield setrlimit times"},
        {SR_FILTER_ALLOWED, "time, which may be read and waited for",
         "alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time "
         "timer_create timer_delete timer_getoverrun timer_gettime timer_settime"},
        {SR_FILTER_ALLOWED,
         "who and where the caller is; one id is mapped and no capability held, so "
         "changing them goes nowhere",
         "capget capset getegid geteuid getgid getgroups getrandom getresgid getresuid getuid setfsgid "
         "setfsuid setgid setgroups setregid setresgid setresuid setreuid setuid sysinfo uname"},
        {SR_FILTER_ALLOWED,
         "sockets; there is no network but the sandbox's loopback (socket and socketpair "
         "have rules)",
         "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg "
         "sendmmsg sendmsg sendto setsockopt shutdown"},
        {SR_FILTER_ALLOWED, "System V IPC, inside an ipc namespace of the sandbox's own (shmget has a rule)",
         "msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt"},
        {SR_FILTER_ALLOWED, "programs may fence themselves in further",
         "landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp"},

        {SR_FILTER_NOTHING,
         "these wait for every file system of the host; a program that writes to memory "
         "alone has nothing to wait for",
         "sync syncfs"},

        {SR_FILTER_REFUSED, "mounts, roots and namespaces are what the sandbox is made of",
         "chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree open_tree_attr "
         "pivot_root setns umount umount2 unshare"},
        {SR_FILTER_REFUSED, "memory and descriptors of other processes",
         "kcmp pidfd_getfd process_madvise process_mrelease process_vm_readv process_vm_writev ptrace"},
        {SR_FILTER_REFUSED, "large parts of the kernel with a history of escapes",
         "bpf fanotify_init fanotify_mark io_uring_enter io_uring_register io_uring_setup modify_ldt "
         "perf_event_open userfaultfd"},
        {SR_FILTER_REFUSED, "keyrings have no namespaces", "add_key keyctl request_key"},
        {SR_FILTER_REFUSED, "handles reach files past the root", "name_to_handle_at open_by_handle_at"},
        {SR_FILTER_REFUSED, "the state of the machine",
         "acct adjtimex clock_adjtime clock_settime delete_module finit_module init_module ioperm iopl "
         "kexec_file_load kexec_load lookup_dcookie quotactl quotactl_fd reboot setdomainname sethostname "
         "settimeofday swapoff swapon syslog vhangup"},
        {SR_FILTER_REFUSED, "placement that needs a privilege or takes from others",
         "ioprio_set mbind migrate_pages move_pages set_mempolicy set_mempolicy_home_node"},

        {SR_FILTER_ABSENT, "its flags lie in memory, where no filter can read them; libc falls back to clone",
         "clone3"},
        {SR_FILTER_ABSENT, "memory outside the reach of every accounting but its own", "memfd_secret"},
        {SR_FILTER_ABSENT, "would show what other runs open in the image they share; programs poll instead",
         "inotify_add_watch inotify_init inotify_init1 inotify_rm_watch"},
        {SR_FILTER_ABSENT, "its requests are counted for the whole host; programs use threads instead",
         "io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit"},
        {SR_FILTER_ABSENT, "RLIMIT_MSGQUEUE is 0, so that there are no queues",
         "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink"},
        {SR_FILTER_ABSENT,
         "what it would tell of is refused; libraries take the machine for one without NUMA",
         "get_mempolicy"},
        {SR_FILTER_ABSENT, "newer than the C libraries in use, each with an older way beside it",
         "cachestat file_getattr file_setattr futex_requeue futex_wait futex_wake getxattrat listmount "
         "listxattrat lsm_get_self_attr lsm_list_modules lsm_set_self_attr removexattrat setxattrat "
         "statmount"},
        {SR_FILTER_ABSENT, "probes of a tracer; the kernel lets its own trampolines past every filter",
         "uprobe uretprobe"},
        {SR_FILTER_ABSENT,
         "of an earlier age: most kernels have lost them, or only pretend, and nothing uses them",
         "_sysctl afs_syscall create_module epoll_ctl_old epoll_wait_old get_kernel_syms get_thread_area "
         "getpmsg nfsservctl putpmsg query_module remap_file_pages security set_thread_area sysfs tuxcall "
         "uselib ustat vserver"},
};
const size_t sr_filter_family_count = sizeof(sr_filter_families) / sizeof(*sr_filter_families);

// init only reaps and reports after it has started the program.
static const struct sr_filter_family init_families[] = {
        {SR_FILTER_ALLOWED, "waiting, the report, the end",
         "clock_gettime exit_group restart_syscall rt_sigreturn wait4 write"},
};

const struct sr_filter_profile sr_filter_profiles[SR_FILTER_PROFILES] = {
        {
                .symbol = "sr_filter_program",
                .fallback = SR_FILTER_ABSENT,
                .families = sr_filter_families,
                .family_count = sizeof(sr_filter_families) / sizeof(*sr_filter_families),
                .rules = sr_filter_rules,
                .rule_count = SR_FILTER_RULES,
        },
        // For a program whose memory no control group accounts: what these hold belongs to no process, so a
        // watchdog that sums the memory of processes does not see it.
        {
                .symbol = "sr_filter_program_watched",
                .fallback = SR_FILTER_ABSENT,
                .families = sr_filter_families,
                .family_count = sizeof(sr_filter_families) / sizeof(*sr_filter_families),
                .rules = sr_filter_rules,
                .rule_count = SR_FILTER_RULES,
                .overrules = sr_filter_rules_watched,
                .overrule_count = SR_FILTER_RULES_WATCHED,
                .absent = "memfd_create memfd_secret msgget semget shmget",
        },
        {
                .symbol = "sr_filter_init",
                .fallback = SR_FILTER_REFUSED,
                .families = init_families,
                .family_count = sizeof(init_families) / sizeof(*init_families),
        },
};
