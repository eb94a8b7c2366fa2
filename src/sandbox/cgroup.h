// The server's side of cgroups: a subtree of our own for one spawner process, in each hierarchy that limits
// something. What happens in it is the spawner's business (spawner/leaf.h).
//
// Theory of operation. On cgroup v2 the subtree is, the first that can be had: a directory in the delegated
// cgroup of the service we run in; a transient scope that systemd gives us, over the user's bus or root's; a
// directory at the top of what we see, for root where there is no systemd. The spawner is moved into it,
// because only within a subtree of its own may a process be cloned into another cgroup. On v1 it is a
// directory below our own cgroup in each hierarchy. Nothing outside the subtree is touched, but for switching
// on controllers where we are root at the top or in our own service, whose processes, ourselves among them,
// are moved one level down for that. A subtree is locked (flock) by the
// server it belongs to; one that nobody holds the lock of is a dead server's and is removed by the next.
#pragma once

#include <sys/types.h>

#include "sandbox/limits.h"
#include "sandbox/protocol.h"

struct sr_cgroup;

// Makes the subtree for the process `spawner`, which runs as uid and gid on the host. Never fails: what
// cannot be had is left out, and sr_cgroup_why() says why.
struct sr_cgroup *sr_cgroup_make(pid_t spawner, uid_t uid, gid_t gid);
// Removes the subtree, in which nothing may live any more. Accepts NULL, returns NULL.
struct sr_cgroup *sr_cgroup_remove(struct sr_cgroup *cgroup);

// What enforces each limit: a cgroup, else the watchdog, which has nothing for processor time.
struct sr_limits sr_cgroup_limits(const struct sr_cgroup *cgroup);
// A sentence about why not every limit has a cgroup; NULL when each has one. Owned by cgroup.
const char *sr_cgroup_why(const struct sr_cgroup *cgroup);
// The hierarchies for the spawner's START message; the descriptors stay the cgroup's. Returns how many.
unsigned sr_cgroup_hierarchies(const struct sr_cgroup *cgroup,
                               struct sr_wire_hierarchy ret[SR_WIRE_HIERARCHIES_MAX],
                               int ret_descriptors[SR_WIRE_HIERARCHIES_MAX]);
