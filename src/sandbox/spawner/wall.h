// The second wall: Landlock rules that let a program write only where it is meant to, whatever becomes of the
// mounts. Async-signal-safe.
#pragma once

#include <stdbool.h>

// Puts the rules on the calling thread, which must have no_new_privs. scratch: whether /scratch is there to
// be written; directory_fd: one more directory, or 0. A kernel without Landlock, with it switched off or with
// its first version, which forbids renaming from one directory to another whatever the rules say, is passed
// over: 0. Else 0 or a negative errno.
int sr_wall_raise(bool scratch, bool watched, int directory_fd);
