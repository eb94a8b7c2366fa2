// One run in the spawner: its socket, its /scratch, the sandbox it has going.
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/capability.h>
#include <sys/types.h>

#include "sandbox/protocol.h"
#include "sandbox/spawner/own.h"
#include "sandbox/spawner/tmpfs.h"
#include "sandbox/spawner/watchdog.h"

// What all runs share.
struct sr_spawner_state {
        bool has_range;    // each slot's program has an id of its own
        cpu_set_t allowed; // processors this process may use
        cap_t no_capabilities;
        int epoll; // what watches the descriptors of all runs
        struct sr_leaf_host leaves;
};

struct sr_spawner_run {
        unsigned slot;      // names the mount point of its /scratch and, with a range, its id
        int socket;         // to the server; -1: nobody waits for an answer
        bool scratch;       // /scratch/<slot> is mounted
        bool scratch_given; // and belongs to the program
        pid_t init;         // 0: nothing runs
        int pidfd;          // of init
        int report;         // read end of init's pipe
        struct sr_own own;  // of the stage that runs, or made ahead for the next
        bool watched;       // no cgroup holds its memory: the watchdog does
        uint64_t look_ns;   // when to look at what it holds (CLOCK_MONOTONIC); UINT64_MAX: never
        struct sr_watchdog watchdog;
        uint64_t requested_ns;
        uint64_t deadline_ns;
        enum sr_wire_end end; // why it was killed, SR_WIRE_END_EXITED when it was not
};

// Answers one SCRATCH request.
void sr_run_make_scratch(struct sr_spawner_run *run, const struct sr_wire_scratch *request);
// Starts a stage. The request has `size` bytes; descriptors (count of them) stay the caller's. When it cannot
// be started the outcome is sent at once and run->init stays 0.
void sr_run_launch(const struct sr_spawner_state *state, struct sr_spawner_run *run,
                   const struct sr_wire_stage *request, size_t size, const int *descriptors, size_t count);
// It is time to look, by run->look_ns, at what the sandbox holds: kills one that is over its limit.
void sr_run_look(const struct sr_spawner_state *state, struct sr_spawner_run *run);
// The kernel says that the leaf of the run, or what it lies in, is out of memory. Only the first ends the
// run.
void sr_run_out_of_memory(const struct sr_spawner_state *state, struct sr_spawner_run *run);
// Kills what runs; reason is what the outcome will say.
void sr_run_kill(struct sr_spawner_run *run, enum sr_wire_end reason);
// init is dead: reaps it and sends the outcome, to whom still asks. Does nothing when it is not.
void sr_run_finish(const struct sr_spawner_state *state, struct sr_spawner_run *run);
// The server has closed its end: kills, and frees the slot at once or, when something runs, in the
// sr_run_finish() that follows. Never waits.
void sr_run_release(const struct sr_spawner_state *state, struct sr_spawner_run *run);
// How full its /scratch is; empty when it has none.
struct sr_tmpfs_usage sr_run_scratch_usage(const struct sr_spawner_run *run);
// Whether a new run may have the slot.
bool sr_run_is_free(const struct sr_spawner_run *run);
