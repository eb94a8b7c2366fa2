// init: pid 1 of one sandbox, and the snippet's process it starts. Everything here runs after the clone, so
// it makes system calls with ready arguments and nothing else: no allocation, no lock, no library that keeps
// state.
#pragma once

#include <sched.h>
#include <stdint.h>
#include <sys/capability.h>

#include "sandbox/plan.h"

// What init writes into its report pipe, at most three times: STARTED just before exec, then FAILED or ENDED.
// No code of the snippet ever holds that pipe.
enum sr_report_kind { SR_REPORT_STARTED = 0x53520001, SR_REPORT_FAILED, SR_REPORT_ENDED };

struct sr_report {
        uint32_t kind;
        uint32_t step; // enum sr_step_kind, with FAILED
        int32_t errnum;
        int32_t wait_status; // with ENDED
        uint64_t time_ns;    // CLOCK_MONOTONIC
};

// All that the processes after the clone need. Descriptors are -1 when absent; each is at least
// SR_PLAN_FD_FIRST_FREE, so that moving them into place overwrites none.
struct sr_launch {
        struct sr_plan plan;
        char **arguments;
        char **environment;
        const char *search_path; // PATH of the environment, or NULL
        int stdin_fd, stdout_fd, stderr_fd;
        int directory_fd, program_fd, report_fd, root_fd, scratch_fd, tmp_fd, shm_fd;
        int tasks[SR_WIRE_HIERARCHIES_MAX]; // v1 cgroups to join, by their `tasks` file
        unsigned task_count;
        cpu_set_t processors;
        cap_t no_capabilities;
};

_Noreturn void sr_init_main(const struct sr_launch *launch);
