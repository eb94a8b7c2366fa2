// What there is on the host for attempts to reach for, made by the driver: a secret file, a program,
// listeners on loopback, on an abstract and on a path socket, a System V segment.
#pragma once

#include <stdbool.h>

struct host {
        char directory[64];
        int port_listener, abstract_listener, path_listener;
        int segment;
        char **environment; // of every attempt; names all of the above
};

// 0, or -1 after a sentence on stderr.
int host_make(struct host *host);
// Frees what host_make() made, or has made before it failed.
void host_free(struct host *host);
// What an attempt has done to the host since the last call, as words; NULL: nothing.
const char *host_damage(const struct host *host);
