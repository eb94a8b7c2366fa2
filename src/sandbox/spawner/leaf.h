// The cgroup of one sandbox: a leaf in each hierarchy that the server gave us a subtree of.
//
// Theory of operation. A leaf is made for one stage and removed after it, so that no counter and no charge is
// carried over. It is named by the run's slot. On cgroup v2 init is cloned straight into it; on v1, which has
// no such call, init moves itself before it does anything else: writing "0" to `tasks` needs none of the
// locks that make moving another process take 10 ms (kernel/cgroup, cgroup_procs_write_start). Either way
// init counts as one process more than the program may have. When memory runs out all of the sandbox is
// killed: by memory.oom.group on v2; by the spawner, which the v1 kernel tells through an eventfd. Memory can
// run out above the leaf as well, in the service we are in or the whole host. The kernel then kills in the
// leaf, counts that there and on v1 tells it of every leaf; but no limit of the program's was reached.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/limits.h"
#include "sandbox/protocol.h"

// The subtrees, given once at start.
struct sr_leaf_host {
        unsigned count;
        struct sr_wire_hierarchy hierarchies[SR_WIRE_HIERARCHIES_MAX];
        int base[SR_WIRE_HIERARCHIES_MAX]; // directory descriptors
};

struct sr_leaf_limits {
        uint64_t memory_bytes; // 0: none
        uint32_t cpu_millis;   // 0: none
        uint32_t processes;    // of the program, threads included
};

struct sr_leaf {
        bool made;
        unsigned slot;
        int directory[SR_WIRE_HIERARCHIES_MAX]; // of the leaf in each hierarchy, -1: none
        int oom_event;                          // v1: readable when the memory of the leaf ran out; else -1
};

#define SR_LEAF_NONE ((struct sr_leaf){.directory = {-1, -1, -1, -1}, .oom_event = -1})

struct sr_leaf_usage {
        bool has_cpu, has_peak;
        uint64_t cpu_us;
        uint64_t peak_bytes;
        unsigned hits;       // SR_HIT_MEMORY, SR_HIT_PIDS
        bool killed_outside; // something of it was killed because memory ran out elsewhere than in the leaf
};

// Which cgroup version holds the limit; SR_ENFORCER_NONE when none does.
enum sr_enforcer sr_leaf_enforcer(const struct sr_leaf_host *host, enum sr_controller controller);

// Makes the leaf with the limits written. 0 or a negative errno; nothing is left on failure.
int sr_leaf_make(const struct sr_leaf_host *host, unsigned slot, const struct sr_leaf_limits *limits,
                 struct sr_leaf *ret);
// The descriptor for CLONE_INTO_CGROUP, or -1.
int sr_leaf_cgroup2(const struct sr_leaf_host *host, const struct sr_leaf *leaf);
// For init: opens the v1 `tasks` files into ret, *ret_count of them; the caller closes them.
int sr_leaf_open_tasks(const struct sr_leaf_host *host, const struct sr_leaf *leaf,
                       int ret[SR_WIRE_HIERARCHIES_MAX], unsigned *ret_count);
// Whether it was the limit of the leaf that memory ran out at: what its oom_event is to be asked for.
bool sr_leaf_ran_out(const struct sr_leaf_host *host, const struct sr_leaf *leaf);
// Version 1 counts what waits in the sockets of TCP and UDP apart, and lets it pass its own limit a little
// with every socket. true when that and the rest are together over limit_bytes.
bool sr_leaf_is_over(const struct sr_leaf_host *host, const struct sr_leaf *leaf, uint64_t limit_bytes);
// What the leaf has counted so far.
void sr_leaf_read(const struct sr_leaf_host *host, const struct sr_leaf *leaf, struct sr_leaf_usage *ret);
// Removes the leaf, in which nothing may live any more. *leaf is SR_LEAF_NONE afterwards. What the kernel
// does not let go yet is removed when the slot is used again.
void sr_leaf_remove(const struct sr_leaf_host *host, struct sr_leaf *leaf);
