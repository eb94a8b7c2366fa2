// Thin wrappers over system calls that the C library of the oldest supported distribution does not have.
// Each is the bare call: -1 and errno on failure, as the manual page of the call says. They are
// async-signal-safe.
#pragma once

#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// clone3(2). As with fork, the child goes on after the call on a copy of the stack; CLONE_VM is not allowed.
pid_t sr_sys_clone3(struct clone_args *args);
int sr_sys_openat2(int dirfd, const char *path, const struct open_how *how);
int sr_sys_open_tree(int dirfd, const char *path, unsigned flags);
int sr_sys_move_mount(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags);
int sr_sys_mount_setattr(int dirfd, const char *path, unsigned flags, const struct mount_attr *attr);
int sr_sys_fsopen(const char *type, unsigned flags);
int sr_sys_fsconfig(int context, unsigned command, const char *key, const char *value);
int sr_sys_fsmount(int context, unsigned flags, unsigned attributes);
int sr_sys_pivot_root(const char *new_root, const char *put_old);
int sr_sys_pidfd_open(pid_t pid);
// kcmp(2) with KCMP_VM; false when it cannot be told.
bool sr_sys_is_same_memory(pid_t a, pid_t b);
int sr_sys_close_range(unsigned first, unsigned last, unsigned flags);
int sr_sys_execveat(int dirfd, const char *path, char *const *argv, char *const *envp, int flags);
// sched_setattr(2): asks for short slices of this length (nanoseconds), and so for short waits, without a
// change of policy or nice value; what is forked does not inherit it. Linux 6.12 takes the wish, older ones
// ignore it.
int sr_sys_short_slices(uint64_t ns);
// keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL): a new, empty, anonymous session keyring.
int sr_sys_new_session_keyring(void);
// seccomp(SECCOMP_SET_MODE_FILTER) with flags; the program is `length` struct sock_filter at `filter`.
struct sock_filter;
int sr_sys_seccomp_filter(unsigned flags, const struct sock_filter *filter, unsigned short length);
