#include "sandbox/step.h"

#include <errno.h>
#include <stddef.h>

static const char *const names[SR_STEP_COUNT] = {
        [SR_STEP_NONE] = "nothing",
        [SR_STEP_START_NAMESPACES] = "creating the user, mount and pid namespaces",
        [SR_STEP_START_IDS] = "mapping user ids",
        [SR_STEP_START_USER] = "changing to the spawner's user",
        [SR_STEP_START_EXEC] = "executing the spawner",
        [SR_STEP_START_HIDE] = "hiding the spawner from other processes",
        [SR_STEP_START_PRIVATE] = "making mounts private",
        [SR_STEP_START_ROOT] = "making the spawner's root",
        [SR_STEP_START_STORE] = "binding the image store",
        [SR_STEP_START_DEVICES] = "preparing /dev",
        [SR_STEP_START_PROC] = "mounting a fresh /proc",
        [SR_STEP_START_HOST] = "binding the host's system directories",
        [SR_STEP_START_PIVOT] = "leaving the host's mount tree",
        [SR_STEP_START_LOOP] = "preparing the event loop",
        [SR_STEP_START_CGROUP] = "taking over the cgroup subtree",
        [SR_STEP_REQUEST] = "reading the request",
        [SR_STEP_SCRATCH] = "making /scratch",
        [SR_STEP_TREE] = "opening the root file system",
        [SR_STEP_LEAF] = "making the sandbox's cgroup",
        [SR_STEP_TEMPORARY] = "making /tmp and /dev/shm",
        [SR_STEP_CLONE] = "creating the sandbox's namespaces",
        [SR_STEP_JOIN] = "joining the sandbox's cgroup",
        [SR_STEP_CGROUP_NAMESPACE] = "making the cgroup namespace",
        [SR_STEP_DESCRIPTORS] = "arranging descriptors",
        [SR_STEP_ATTACH_ROOT] = "mounting the root file system",
        [SR_STEP_ATTACH_DEVICES] = "mounting /dev",
        [SR_STEP_ATTACH_TMPFS] = "mounting /tmp or /dev/shm",
        [SR_STEP_PROC] = "mounting /proc",
        [SR_STEP_SETTINGS] = "opening /proc/sys",
        [SR_STEP_MASK] = "masking a file of /proc",
        [SR_STEP_READ_ONLY] = "making a part of /proc read-only",
        [SR_STEP_ATTACH_SCRATCH] = "mounting /scratch",
        [SR_STEP_PIVOT] = "changing the root",
        [SR_STEP_HOST_NAME] = "setting the host name",
        [SR_STEP_LOOPBACK] = "bringing up the loopback interface",
        [SR_STEP_TCP_BUFFERS] = "bounding the buffers of TCP",
        [SR_STEP_FORK] = "starting the program's process",
        [SR_STEP_INIT_PRIVILEGES] = "dropping init's privileges",
        [SR_STEP_SESSION] = "starting a session",
        [SR_STEP_KEYRING] = "making a session keyring",
        [SR_STEP_AFFINITY] = "setting the CPU affinity",
        [SR_STEP_RLIMIT] = "setting a resource limit",
        [SR_STEP_IDS] = "changing the user",
        [SR_STEP_USER_NAMESPACE] = "making the program's user namespace",
        [SR_STEP_NO_NAMESPACES] = "turning further user namespaces off",
        [SR_STEP_DIRECTORY] = "changing the working directory",
        [SR_STEP_CAPABILITIES] = "dropping capabilities",
        [SR_STEP_NO_NEW_PRIVILEGES] = "setting no_new_privs",
        [SR_STEP_LANDLOCK] = "putting up the Landlock rules",
        [SR_STEP_FILTER] = "installing the seccomp filter",
        [SR_STEP_CLOSE] = "closing descriptors",
        [SR_STEP_EXEC] = "executing the program",
};

const char *sr_step_name(unsigned kind)
{
        return kind < SR_STEP_COUNT && names[kind] != NULL ? names[kind] : "an unknown step";
}

const char *sr_step_advice(unsigned kind, int errnum)
{
        // Filters of containers answer ENOSYS too, so that libraries fall back to an older call.
        if (errnum == ENOSYS)
                return kind == SR_STEP_START_NAMESPACES
                               ? "the kernel was built without these namespaces or is older than 5.12, or a "
                                 "system call filter (a container's, a service's) forbids clone3; "
                                 "`sandbox-runner doctor` says which and how to allow it"
                               : "the kernel lacks a system call this needs, which Linux 5.12 or newer has, "
                                 "or a system call filter (a container's, a service's) forbids it; "
                                 "`sandbox-runner doctor` says which";
        switch (kind) {
        case SR_STEP_START_NAMESPACES:
        case SR_STEP_START_IDS:
        case SR_STEP_START_PRIVATE:
                if (errnum == EPERM || errnum == EACCES)
                        return "this host does not let ordinary users make user namespaces (AppArmor, a "
                               "sysctl or "
                               "a container forbids it); `sandbox-runner doctor` says which and how to allow "
                               "it";
                if (errnum == ENOSPC || errnum == EUSERS)
                        return "the limit of user namespaces is reached or zero: raise "
                               "/proc/sys/user/max_user_namespaces";
                if (errnum == EINVAL)
                        return "the kernel was built without these namespaces or is older than 5.12";
                return "";
        case SR_STEP_START_PROC:
        case SR_STEP_PROC:
                if (errnum == EPERM)
                        return "the kernel allows a fresh /proc only where an unmasked one is visible: "
                               "inside a "
                               "container start it with an unmasked /proc (docker run --security-opt "
                               "systempaths=unconfined)";
                return "";
        case SR_STEP_LEAF:
                if (errnum == ENOENT || errnum == ENODEV)
                        return "the kernel does not account swap (boot it with swapaccount=1, or without "
                               "swap), or "
                               "somebody removed the cgroup subtree this server had made, or switched its "
                               "controllers off; start the server again";
                if (errnum == EEXIST || errnum == EBUSY)
                        return "something lives on in the cgroup of an earlier run; start the server again";
                if (errnum == EAGAIN || errnum == ENOSPC)
                        return "a limit on the number of cgroups is reached (cgroup.max.descendants)";
                return "";
        case SR_STEP_CLONE:
        case SR_STEP_USER_NAMESPACE:
                if (errnum == ENOSPC || errnum == EUSERS)
                        return "a limit in /proc/sys/user (max_user_namespaces, max_net_namespaces, …) is "
                               "reached: "
                               "raise it";
                if (errnum == EAGAIN || errnum == ENOMEM)
                        return "the host is out of processes or memory: run fewer at once";
                return "";
        case SR_STEP_EXEC:
                if (errnum == ENOENT || errnum == EACCES)
                        return "the image has no such program, or not the interpreter or loader it needs: is "
                               "it an "
                               "image for this language?";
                return "";
        case SR_STEP_TREE:
        case SR_STEP_ATTACH_ROOT:
                return "the image's root file system is missing or damaged: import or build the image again";
        case SR_STEP_KEYRING:
                if (errnum == EDQUOT)
                        return "too many sandboxes run for the keys that a user may have: raise "
                               "/proc/sys/kernel/keys/maxkeys";
                return "";
        case SR_STEP_NO_NAMESPACES:
                if (errnum == ENOENT)
                        return "the kernel was built without CONFIG_SYSCTL, so nothing can be limited there";
                return "";
        default:
                return "";
        }
}
