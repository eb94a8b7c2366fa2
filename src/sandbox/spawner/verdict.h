// How a stage ended, from what init reported, what its cgroup counted and what the watchdog saw.
#pragma once

#include <stdbool.h>

#include "sandbox/protocol.h"
#include "sandbox/spawner/run.h"

// Reaps init and fills *ret, all but its head. false when init is not dead.
bool sr_verdict_reach(const struct sr_spawner_state *state, const struct sr_spawner_run *run,
                      struct sr_wire_outcome *ret);
