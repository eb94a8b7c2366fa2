// Whether this host lets an ordinary process make what a sandbox is made of: tried, not guessed from
// settings.
#pragma once

#include "cli/doctor_facts.h"

// In the order in which they are tried; the first that fails ends the trial.
enum sr_host_step {
        SR_HOST_FORK,
        SR_HOST_USER_NAMESPACE,
        SR_HOST_ID_MAP,
        SR_HOST_NAMESPACES, // mount, pid, net, ipc, uts, cgroup
        SR_HOST_MOUNT,      // making the mounts private
        SR_HOST_PROC,       // mounting a fresh /proc
        SR_HOST_ALL_DONE,
};

// System calls that a sandbox cannot be made without.
enum sr_host_call {
        SR_HOST_OPEN_TREE,
        SR_HOST_MOVE_MOUNT,
        SR_HOST_CLONE3,
        SR_HOST_PIDFD_OPEN,
        SR_HOST_OPENAT2,
        SR_HOST_CLOSE_RANGE,
        SR_HOST_MOUNT_SETATTR,
        SR_HOST_CALL_COUNT,
};

struct sr_host_trial {
        enum sr_host_step failed;      // SR_HOST_ALL_DONE when every step worked
        int error;                     // positive errno of the failed step
        enum doctor_namespace refused; // with SR_HOST_NAMESPACES: the first that could not be made
        char label[64];                // AppArmor's label in a new user namespace, "" when there is none
        int calls[SR_HOST_CALL_COUNT]; // 0, ENOSYS, or EPERM where a filter forbids it
        int seccomp;                   // 0 when filters can be installed, else a positive errno
        long landlock;                 // version of its interface, 0 when the kernel has none
};

// Tries it all, in child processes that are gone when it returns. Call before threads exist.
void sr_host_try(struct sr_host_trial *ret);
// "mount_setattr".
const char *sr_host_call_name(enum sr_host_call call);
// The minor version of Linux 5 that brought it.
unsigned sr_host_call_since(enum sr_host_call call);
