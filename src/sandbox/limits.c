#include "sandbox/limits.h"

const char *sr_controller_name(enum sr_controller controller)
{
        static const char *const names[SR_CONTROLLER_COUNT] = {
                [SR_CONTROLLER_MEMORY] = "memory",
                [SR_CONTROLLER_CPU] = "cpu",
                [SR_CONTROLLER_PIDS] = "pids",
        };

        return names[controller];
}

const char *sr_enforcer_name(enum sr_enforcer enforcer)
{
        static const char *const names[] = {
                [SR_ENFORCER_NONE] = "none",
                [SR_ENFORCER_WATCHDOG] = "watchdog",
                [SR_ENFORCER_CGROUP1] = "cgroup1",
                [SR_ENFORCER_CGROUP2] = "cgroup2",
        };

        return names[enforcer];
}
