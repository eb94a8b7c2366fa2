// Every step of making a sandbox, by number, with its name and what to do when it fails. Numbers cross the
// socket; names and advice are for people.
#pragma once

enum sr_step_kind {
        SR_STEP_NONE,
        // The spawner's own start.
        SR_STEP_START_NAMESPACES,
        SR_STEP_START_IDS,
        SR_STEP_START_USER,
        SR_STEP_START_EXEC,
        SR_STEP_START_HIDE,
        SR_STEP_START_PRIVATE,
        SR_STEP_START_ROOT,
        SR_STEP_START_STORE,
        SR_STEP_START_DEVICES,
        SR_STEP_START_PROC,
        SR_STEP_START_HOST,
        SR_STEP_START_PIVOT,
        SR_STEP_START_LOOP,
        SR_STEP_START_CGROUP,
        // Before the clone.
        SR_STEP_REQUEST,
        SR_STEP_SCRATCH,
        SR_STEP_TREE,
        SR_STEP_LEAF,
        SR_STEP_TEMPORARY,
        SR_STEP_CLONE,
        // In init.
        SR_STEP_JOIN,
        SR_STEP_CGROUP_NAMESPACE,
        SR_STEP_DESCRIPTORS,
        SR_STEP_ATTACH_ROOT,
        SR_STEP_ATTACH_DEVICES,
        SR_STEP_ATTACH_TMPFS,
        SR_STEP_PROC,
        SR_STEP_SETTINGS,
        SR_STEP_MASK,
        SR_STEP_READ_ONLY,
        SR_STEP_ATTACH_SCRATCH,
        SR_STEP_PIVOT,
        SR_STEP_HOST_NAME,
        SR_STEP_LOOPBACK,
        SR_STEP_TCP_BUFFERS,
        SR_STEP_FORK,
        SR_STEP_INIT_PRIVILEGES,
        // In the snippet's process.
        SR_STEP_SESSION,
        SR_STEP_KEYRING,
        SR_STEP_AFFINITY,
        SR_STEP_RLIMIT,
        SR_STEP_IDS,
        SR_STEP_USER_NAMESPACE,
        SR_STEP_NO_NAMESPACES,
        SR_STEP_DIRECTORY,
        SR_STEP_CAPABILITIES,
        SR_STEP_NO_NEW_PRIVILEGES,
        SR_STEP_LANDLOCK,
        SR_STEP_FILTER,
        SR_STEP_CLOSE,
        SR_STEP_EXEC,
        SR_STEP_COUNT,
};

// "mounting /proc", … ; a number out of range gives "an unknown step".
const char *sr_step_name(unsigned kind);
// What a person can do about this errno at this step; "" when there is nothing to say.
const char *sr_step_advice(unsigned kind, int errnum);
