// Messages between server and spawner, and what a peer that goes away leaves behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/message.h"

static void make_pair(int sockets[2])
{
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
}

static void the_last_word_of_a_peer_that_left_things_unread_is_heard(void **state)
{
        int sockets[2], descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        char text[16] = "";
        size_t count = 0;

        (void)state;
        make_pair(sockets);
        assert_int_equal(sr_message_send(sockets[0], "unread", 6, NULL, 0), 0);
        assert_int_equal(sr_message_send(sockets[1], "last", 4, NULL, 0), 0);
        close(sockets[1]);
        assert_int_equal(sr_message_receive(sockets[0], text, sizeof(text), descriptors, &count), 4);
        assert_memory_equal(text, "last", 4);
        assert_int_equal(sr_message_receive(sockets[0], text, sizeof(text), descriptors, &count), 0);
        assert_int_equal(sr_message_send(sockets[0], "x", 1, NULL, 0), -EPIPE);
        close(sockets[0]);
        // The same with nothing said.
        make_pair(sockets);
        assert_int_equal(sr_message_send(sockets[0], "unread", 6, NULL, 0), 0);
        close(sockets[1]);
        assert_int_equal(sr_message_receive(sockets[0], text, sizeof(text), descriptors, &count), 0);
        close(sockets[0]);
}

static void descriptors_arrive_or_are_closed(void **state)
{
        int sockets[2], pipes[2], descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        char text[4], byte;
        size_t count = 0;

        (void)state;
        make_pair(sockets);
        assert_int_equal(pipe(pipes), 0);
        assert_int_equal(sr_message_send(sockets[0], "x", 1, &pipes[1], 1), 0);
        assert_int_equal(sr_message_receive(sockets[1], text, sizeof(text), descriptors, &count), 1);
        assert_int_equal(count, 1);
        assert_int_equal(write(descriptors[0], "y", 1), 1);
        close(descriptors[0]);
        // A message that does not fit loses its descriptors too: the pipe then has no writer but ours.
        assert_int_equal(sr_message_send(sockets[0], "too long", 8, &pipes[1], 1), 0);
        assert_int_equal(sr_message_receive(sockets[1], text, sizeof(text), descriptors, &count), -EMSGSIZE);
        close(pipes[1]);
        assert_int_equal(read(pipes[0], &byte, 1), 1);
        assert_int_equal(read(pipes[0], &byte, 1), 0);
        close(pipes[0]);
        close(sockets[0]);
        close(sockets[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_last_word_of_a_peer_that_left_things_unread_is_heard),
                cmocka_unit_test(descriptors_arrive_or_are_closed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
