// Which spawner process a sandbox belongs to; used by sandbox.c alone.
//
// Theory of operation. A spawner sees the store directories that were there when it started. When one
// appears, or is replaced by another, or the spawner dies, the next sandbox begins a new generation; the old
// one is stopped when the last sandbox in it is closed, so that no run is disturbed.
#pragma once

#include "base/error.h"
#include "sandbox/idmap.h"
#include "sandbox/sandbox.h"

struct sr_generation;

// Passes a run's socket to the spawner of the current generation, beginning a new one where that is needed.
// *ret belongs to the caller until sr_generation_release().
int sr_generation_acquire(struct sr_spawner *spawner, int socket, struct sr_generation **ret,
                          struct sr_error **error);
// Accepts NULL for generation.
void sr_generation_release(struct sr_spawner *spawner, struct sr_generation *generation);

// The host ids of its spawner and programs.
const struct sr_idmap *sr_generation_ids(const struct sr_generation *generation);
struct sr_limits sr_generation_limits(const struct sr_generation *generation);
