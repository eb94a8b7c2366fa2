// Which cgroup hierarchies this process can see, and where it is in them; used by cgroup.c alone.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sandbox/limits.h"
#include "sandbox/protocol.h"

struct sr_cgroup_place {
        unsigned version;     // 1 or 2
        uint32_t controllers; // SR_WIRE_CONTROLLER bits and SR_WIRE_CPU_USAGE: what can be limited there
        char *mount_point;    // the top of what is visible
        char *own;            // the directory of this process; mount_point when its own is out of sight
};

struct sr_cgroup_layout {
        struct sr_cgroup_place places[SR_WIRE_HIERARCHIES_MAX]; // each with at least one controller
        unsigned count;
        bool has_version_2; // a cgroup2 mount is there, whether or not it has a controller
};

// Reads /proc/self/mountinfo and /proc/self/cgroup (man 5 proc, man 7 cgroups). Never fails: what cannot be
// read is not there.
void sr_cgroup_layout_read(struct sr_cgroup_layout *ret);
// The same from texts; v2's controllers are then those named in cgroup2_controllers.
void sr_cgroup_layout_parse(const char *mountinfo, const char *self_cgroup, const char *cgroup2_controllers,
                            struct sr_cgroup_layout *ret);
void sr_cgroup_layout_clear(struct sr_cgroup_layout *layout);
// Whether the last part of the path is how a systemd calls the cgroup of a unit of its own: what lies above
// it is that systemd's then, though it may be delegated (user@1000.service is, to the user's).
bool sr_cgroup_layout_is_unit(const char *path);
// The directory in `place` of the cgroup whose path, as /proc/PID/cgroup gives it, is `path`; the caller
// frees it. NULL when it is out of sight.
char *sr_cgroup_layout_directory(const char *mount_point, const char *mount_root, const char *path);
