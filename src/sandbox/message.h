// One message of protocol.h over a SOCK_SEQPACKET socket, with descriptors.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define SR_MESSAGE_DESCRIPTORS_MAX 8

// Sends length bytes and count descriptors. 0 or a negative errno (-EPIPE when the peer is gone).
int sr_message_send(int socket, const void *bytes, size_t length, const int *descriptors, size_t count);
// Receives one message. The number of bytes (0: the peer closed) or a negative errno; -EMSGSIZE when it did
// not fit or carried more than SR_MESSAGE_DESCRIPTORS_MAX descriptors, which are closed then. The caller owns
// the descriptors, close-on-exec.
ssize_t sr_message_receive(int socket, void *bytes, size_t size, int descriptors[SR_MESSAGE_DESCRIPTORS_MAX],
                           size_t *ret_count);
