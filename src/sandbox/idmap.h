// Which ids of the host a spawner and its programs have: chosen before the spawner is cloned, written while
// it waits.
//
// Theory of operation. Inside its user namespace the spawner is 0 and does confined jobs as 0. With a range,
// the program in slot n is SR_PLAN_ID + n, an id that owns nothing: neither images nor processes of ours.
// What 0 is on the host depends on who starts it. For an ordinary user it is the user, and the rest comes out
// of the ranges of /etc/subuid and /etc/subgid, which newuidmap and newgidmap map. For root it is the first
// of 65536 ids that nobody uses, so that nothing below is ever root. Without a range there is one id, 0, for
// all.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sandbox/plan.h"
#include "sandbox/protocol.h"

// Ids that the slots can name, from 1 on: as many a range must have.
#define SR_IDMAP_IDS (SR_PLAN_ID + SR_WIRE_RUNS_MAX)

struct sr_idmap {
        bool range;   // programs have ids of their own, from 1 on
        bool foreign; // the spawner's own id is not ours: what it shall own must be made as that id, or given
        uint32_t uid, gid;             // of the spawner, on the host
        uint32_t first_uid, first_gid; // what id 1 is on the host, with range
        uint32_t count;                // how many there are from 1 on
        char *why;                     // a sentence: why there is no range; NULL when there is one
};

// The best that can be had here. root_id_base is for root; for others, what `why` proposes keeps clear of it.
// An error (SR_ERROR_HOST) where programs would have to run as the host's root.
int sr_idmap_choose(uint32_t root_id_base, struct sr_idmap *ret, struct sr_error **error);
// Takes the range away, because it turned out not to work: why, a sentence, is copied.
void sr_idmap_give_up_range(struct sr_idmap *map, const char *why);
// Writes the maps of the child `pid`. 0 or a negative errno, then with a sentence in *ret_why, which the
// caller frees, where there is more to say than the errno (else NULL).
int sr_idmap_write(const struct sr_idmap *map, pid_t pid, char **ret_why);
void sr_idmap_clear(struct sr_idmap *map);
