// How the server starts a spawner process; used by sandbox.c alone.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sandbox/cgroup.h"
#include "sandbox/idmap.h"

struct sr_spawner_process {
        pid_t pid;
        int pidfd;
        int control;              // the server's end of the control socket
        struct sr_idmap ids;      // of it and its programs
        struct sr_cgroup *cgroup; // where those of its sandboxes are
};

// Clones a child into new user, mount and pid namespaces, maps its ids, execs program there and waits for its
// READY. Safe while other threads exist. root_id_base counts only for root.
int sr_spawner_process_start(const char *program, char *const *tree_roots, uint32_t root_id_base,
                             struct sr_spawner_process *ret, struct sr_error **error);
// Closes the socket and waits until all of it is dead.
void sr_spawner_process_stop(struct sr_spawner_process *process);
