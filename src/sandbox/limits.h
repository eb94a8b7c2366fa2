// What holds a sandbox to its limits on this host, told per controller.
#pragma once

enum sr_controller { SR_CONTROLLER_MEMORY, SR_CONTROLLER_CPU, SR_CONTROLLER_PIDS, SR_CONTROLLER_COUNT };

enum sr_enforcer {
        SR_ENFORCER_NONE,     // nothing: the limit is not held
        SR_ENFORCER_WATCHDOG, // the spawner looks every few milliseconds, and rlimits: held as well as can be
        SR_ENFORCER_CGROUP1,
        SR_ENFORCER_CGROUP2,
};

struct sr_limits {
        enum sr_enforcer by[SR_CONTROLLER_COUNT];
};

// Limits that a program ran into, as a set of bits.
enum sr_limit_hit {
        SR_HIT_MEMORY = 1, // something of it was killed for want of memory
        SR_HIT_PIDS = 2,   // a fork or a thread failed, or (watchdog) as many as allowed were seen
        SR_HIT_TMP = 4,    // /tmp or /dev/shm was full
        SR_HIT_SCRATCH = 8,
};

// "memory", "cpu", "pids".
const char *sr_controller_name(enum sr_controller controller);
// "none", "watchdog", "cgroup1", "cgroup2".
const char *sr_enforcer_name(enum sr_enforcer enforcer);
