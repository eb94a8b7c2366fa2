#include "sandbox/spawner/sockets.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

// An ordinary program has a few sockets with next to nothing in them.
#define FREE_SOCKETS 32
// A send buffer at its largest: twice net.core.wmem_max as it is by default (man 7 socket, SO_SNDBUF). Those
// of TCP are made smaller when the sandbox is (SR_STEP_TCP_BUFFERS).
#define BYTES_EACH (2u * 212992u)

uint64_t sr_sockets_bytes(pid_t init)
{
        char path[48], text[64];
        unsigned long long used = 0;

        // Its first line is "sockets: used N", of the namespace's own sockets (man 5 proc_pid_net).
        snprintf(path, sizeof(path), "/proc/%d/net/sockstat", (int)init);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

        text[n > 0 ? n : 0] = '\0';
        if (sscanf(text, "sockets: used %llu", &used) != 1 || used <= FREE_SOCKETS)
                return 0;
        return (used - FREE_SOCKETS) * BYTES_EACH;
}
