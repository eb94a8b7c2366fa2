#include "sandbox/message.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int sr_message_send(int socket, const void *bytes, size_t length, const int *descriptors, size_t count)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * SR_MESSAGE_DESCRIPTORS_MAX)];
        } control = {0};
        struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        if (count > SR_MESSAGE_DESCRIPTORS_MAX)
                return -EINVAL;
        if (count > 0) {
                message.msg_control = control.space;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int) * count);
                memcpy(CMSG_DATA(&control.header), descriptors, sizeof(int) * count);
        }
        for (;;) {
                ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL);

                if (n >= 0)
                        return (size_t)n == length ? 0 : -EMSGSIZE;
                if (errno == ECONNRESET)
                        return -EPIPE;
                if (errno != EINTR)
                        return -errno;
        }
}

ssize_t sr_message_receive(int socket, void *bytes, size_t size, int descriptors[SR_MESSAGE_DESCRIPTORS_MAX],
                           size_t *ret_count)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * SR_MESSAGE_DESCRIPTORS_MAX)];
        } control;
        struct iovec part = {.iov_base = bytes, .iov_len = size};
        struct msghdr message = {
                .msg_iov = &part,
                .msg_iovlen = 1,
                .msg_control = control.space,
                .msg_controllen = sizeof(control.space),
        };
        size_t count = 0;
        bool reset = false;
        ssize_t n;

        // A peer that closes with something unread shows first as a reset, told once; what it had sent before
        // can still be received.
        do {
                n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
                if (n < 0 && errno == ECONNRESET && !reset) {
                        reset = true;
                        errno = EINTR;
                }
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == ECONNRESET ? 0 : -errno;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                memcpy(descriptors + count, CMSG_DATA(c), here * sizeof(int));
                count += here;
        }
        if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
                while (count > 0)
                        close(descriptors[--count]);
                return -EMSGSIZE;
        }
        *ret_count = count;
        return n;
}
