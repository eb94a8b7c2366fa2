// The plan of one sandbox: a stage's request turned into two lists of steps, by a pure function. init walks
// the first list, the snippet's process the second; neither decides anything.
//
// Theory of operation: the spawner builds the plan before it clones, so that after the clone only system
// calls with ready arguments remain (async-signal-safe, no allocation). Paths are relative to the new root
// until the step SR_STEP_PIVOT and absolute afterwards.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/protocol.h"
#include "sandbox/step.h"

// Descriptor numbers in init and in the snippet's process before it closes what it need not have.
enum {
        SR_PLAN_FD_DIRECTORY = 3, // only with SR_WIRE_HAS_DIRECTORY
        SR_PLAN_FD_PROGRAM,       // only with SR_WIRE_HAS_PROGRAM
        SR_PLAN_FD_REPORT,
        SR_PLAN_FD_SETTINGS, // /proc/sys as it is beneath its cover
        SR_PLAN_FD_ROOT,
        SR_PLAN_FD_SCRATCH,
        SR_PLAN_FD_TMP,
        SR_PLAN_FD_SHM,
        SR_PLAN_FD_FIRST_FREE,
};

#define SR_PLAN_STEPS_MAX 48
#define SR_PLAN_TEXT_MAX  512

// The id of the program inside its user namespace, and its name's home and host.
#define SR_PLAN_ID 1000u

struct sr_step {
        enum sr_step_kind kind;
        const char *path;    // of static storage or in the plan's text
        const char *options; // mount options
        uint64_t number;     // mount flags, resource, flag: see plan.c
        uint64_t value;      // limit, id
        int fd;              // one of SR_PLAN_FD_*, 0 for none
};

struct sr_plan {
        struct sr_step init[SR_PLAN_STEPS_MAX];
        unsigned init_count;
        struct sr_step snippet[SR_PLAN_STEPS_MAX];
        unsigned snippet_count;
        char text[SR_PLAN_TEXT_MAX];
        unsigned text_used;
};

// What the number of SR_STEP_LANDLOCK is made of: /scratch may be written, the watchdog holds the memory.
#define SR_PLAN_WALL_SCRATCH 1u
#define SR_PLAN_WALL_WATCHED 2u

struct sr_plan_input {
        const struct sr_wire_stage *stage; // checked already
        uint32_t parent_id;                // the program's id in the spawner's user namespace
        bool watched;                      // the watchdog holds its memory
        bool sockets_apart;                // what waits in sockets is not part of what holds its memory
        bool pids_by_cgroup;               // a cgroup counts processes, and tells when one fails
};

// Fills *ret. Cannot fail: the arrays are sized for the longest plan, which a test checks.
void sr_plan_build(const struct sr_plan_input *input, struct sr_plan *ret);
