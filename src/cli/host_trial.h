// Whether this host lets an ordinary process make what a sandbox is made of: tried, not guessed from
// settings.
#pragma once

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

struct sr_host_trial {
        enum sr_host_step failed; // SR_HOST_ALL_DONE when every step worked
        int error;                // positive errno of the failed step
};

// In child processes that are gone when it returns. Call before threads exist.
void sr_host_try_namespaces(struct sr_host_trial *ret);
