#include "sys/syscalls.h"

#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/kcmp.h>
#include <linux/keyctl.h>
#include <linux/sched/types.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t sr_sys_clone3(struct clone_args *args)
{
        return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}

int sr_sys_openat2(int dirfd, const char *path, const struct open_how *how)
{
        return (int)syscall(SYS_openat2, dirfd, path, how, sizeof(*how));
}

int sr_sys_open_tree(int dirfd, const char *path, unsigned flags)
{
        return (int)syscall(SYS_open_tree, dirfd, path, flags);
}

int sr_sys_move_mount(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
        return (int)syscall(SYS_move_mount, from_dirfd, from, to_dirfd, to, flags);
}

int sr_sys_mount_setattr(int dirfd, const char *path, unsigned flags, const struct mount_attr *attr)
{
        return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, sizeof(*attr));
}

int sr_sys_fsopen(const char *type, unsigned flags)
{
        return (int)syscall(SYS_fsopen, type, flags);
}

int sr_sys_fsconfig(int context, unsigned command, const char *key, const char *value)
{
        return (int)syscall(SYS_fsconfig, context, command, key, value, 0);
}

int sr_sys_fsmount(int context, unsigned flags, unsigned attributes)
{
        return (int)syscall(SYS_fsmount, context, flags, attributes);
}

int sr_sys_pivot_root(const char *new_root, const char *put_old)
{
        return (int)syscall(SYS_pivot_root, new_root, put_old);
}

int sr_sys_pidfd_open(pid_t pid)
{
        return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool sr_sys_is_same_memory(pid_t a, pid_t b)
{
        return syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0) == 0;
}

int sr_sys_close_range(unsigned first, unsigned last, unsigned flags)
{
        return (int)syscall(SYS_close_range, first, last, flags);
}

int sr_sys_execveat(int dirfd, const char *path, char *const *argv, char *const *envp, int flags)
{
        return (int)syscall(SYS_execveat, dirfd, path, argv, envp, flags);
}

int sr_sys_short_slices(uint64_t ns)
{
        struct sched_attr attr = {
                .size = sizeof(attr),
                .sched_policy = 0, // SCHED_OTHER
                .sched_flags = SCHED_FLAG_RESET_ON_FORK,
                .sched_nice = getpriority(PRIO_PROCESS, 0),
                .sched_runtime = ns,
        };

        return (int)syscall(SYS_sched_setattr, 0, &attr, 0);
}

int sr_sys_new_session_keyring(void)
{
        return (int)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

int sr_sys_seccomp_filter(unsigned flags, const struct sock_filter *filter, unsigned short length)
{
        // The kernel only reads the program; its structure lacks the const.
        struct sock_fprog program = {.len = length, .filter = (struct sock_filter *)(uintptr_t)filter};

        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
