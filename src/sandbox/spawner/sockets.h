// What the sockets of a sandbox may hold, where no cgroup accounts it.
#pragma once

#include <stdint.h>
#include <sys/types.h>

// Bytes that count for the sockets of the network namespace of `init`. The kernel tells how many there are
// but not what waits in them, so each beyond the first few counts as if its buffers were full.
uint64_t sr_sockets_bytes(pid_t init);
