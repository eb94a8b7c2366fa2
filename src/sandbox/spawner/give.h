// Giving a program what is to be its own, where it has an id of its own. The spawner may: all of it belongs
// to ids of its user namespace, in which it holds CAP_CHOWN.
#pragma once

#include <stdint.h>

// Gives the directory at path and what lies in it, which is flat, to id. 0 or a negative errno.
int sr_give_directory(const char *path, uint32_t id);
// Gives a pipe to id, so that the program can open its own /dev/stdout. What is no pipe, or is nobody's of
// this user namespace, is left alone.
void sr_give_pipe(int fd, uint32_t id);
