// What one stage has to itself: its cgroup, its /tmp and its /dev/shm.
//
// Theory of operation. Each serves one stage and is never used again. Making them is a good part of a launch,
// so the next ones of a slot are made ahead, when the spawner has nothing else to do, with the limits of the
// slot's last stage: the next run mostly has the same. When it has not, they are thrown away and made anew.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/protocol.h"
#include "sandbox/spawner/leaf.h"

struct sr_own_limits {
        struct sr_leaf_limits leaf;
        uint64_t tmp_bytes;  // of each of the two tmpfs
        uint32_t tmp_inodes; // the same
};

struct sr_own {
        struct sr_own_limits limits;
        bool made;
        bool wanted; // to be made ahead
        struct sr_leaf leaf;
        int tmp, shm; // the mounts of /tmp and /dev/shm
};

#define SR_OWN_NONE ((struct sr_own){.leaf = SR_LEAF_NONE, .tmp = -1, .shm = -1})

// For a stage of the slot with these limits: what was made ahead, or made now. A failure names its step, and
// nothing is made then.
struct sr_wire_failure sr_own_take(const struct sr_leaf_host *host, unsigned slot,
                                   const struct sr_own_limits *limits, struct sr_own *own);
// The stage is over and nothing of it lives: gives all of it back. The next is wanted then.
void sr_own_give_back(const struct sr_leaf_host *host, struct sr_own *own);
// Makes it ahead when it is wanted. What cannot be made now will say so when it is taken.
void sr_own_prepare(const struct sr_leaf_host *host, unsigned slot, struct sr_own *own);
