// The spawner's own start: from a fresh user, mount and pid namespace with the host's whole mount tree in
// view to a small tree of its own with nothing of the host but what sandboxes are made of.
#pragma once

#include "sandbox/protocol.h"

// Where things are in the spawner's tree.
#define SR_START_STORES  "/stores"  // one directory each, "/stores/0"
#define SR_START_SCRATCH "/scratch" // one directory a run slot, "/scratch/17"
#define SR_START_HOST    "/host"    // the host's system directories, read-only

// Descriptors given to the spawner at exec.
#define SR_START_CONTROL_FD 3 // the control socket
#define SR_START_STORE_FD   4 // the first store directory; SR_START_STORES_MAX follow, some maybe closed
#define SR_START_STORES_MAX 4
#define SR_START_FIRST_FREE (SR_START_STORE_FD + SR_START_STORES_MAX)

// Does all of it. *ret says which step failed; 0 or a negative errno.
int sr_start_prepare(struct sr_wire_failure *ret);
