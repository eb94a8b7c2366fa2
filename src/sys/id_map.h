// The map files of a user namespace, /proc/self/uid_map and gid_map (man 7 user_namespaces).
#pragma once

#include <stdint.h>

// Looks in the map file at path for the `count` ids from `id` on, which must lie in one extent, as those of a
// child's map must. *ret_outside is what `id` is outside. 0 or a negative errno; -ENOENT when the ids are not
// mapped, which is not what a missing file gives (-ENODATA).
int sr_sys_id_map_find(const char *path, uint64_t id, uint64_t count, uint32_t *ret_outside);
