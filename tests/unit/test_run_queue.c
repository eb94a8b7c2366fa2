// Slots and the line before them: order, bound, cancellation.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run/queue.h"

#define WAITERS 8

static struct sr_run_queue *queue;
static atomic_int order[WAITERS], finished;

struct waiter {
        pthread_t thread;
        struct sr_run_ticket ticket;
        int number;
        int cancel;
        int result;
};

static void *wait_for_turn(void *argument)
{
        struct waiter *waiter = argument;

        waiter->result = sr_run_queue_wait(queue, &waiter->ticket, &waiter->cancel, waiter->cancel >= 0);
        if (waiter->result == 0) {
                order[atomic_fetch_add(&finished, 1)] = waiter->number;
                sr_run_queue_leave(queue, &waiter->ticket);
        }
        return NULL;
}

static void join(struct waiter *waiter, int number, int cancel)
{
        *waiter = (struct waiter){.number = number, .cancel = cancel};
        assert_int_equal(sr_run_queue_join(queue, &waiter->ticket, NULL), 0);
}

static void start(struct waiter *waiter)
{
        assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_turn, waiter), 0);
}

// A queue of one slot, which is taken.
static struct sr_run_ticket busy(uint32_t room)
{
        struct sr_run_ticket ticket;

        queue = sr_run_queue_new(1, room);
        finished = 0;
        assert_int_equal(sr_run_queue_join(queue, &ticket, NULL), 0);
        assert_int_equal(sr_run_queue_wait(queue, &ticket, NULL, 0), 0);
        return ticket;
}

// Whatever the order in which their threads begin to wait: it is that of joining.
static void those_who_wait_are_served_in_their_order(void **state)
{
        struct waiter waiters[WAITERS];
        struct sr_run_ticket first = busy(WAITERS);

        (void)state;
        for (int i = 0; i < WAITERS; i++)
                join(&waiters[i], i, -1);
        for (int i = WAITERS - 1; i >= 0; i--)
                start(&waiters[i]);
        assert_int_equal(finished, 0);
        sr_run_queue_leave(queue, &first);
        for (int i = 0; i < WAITERS; i++)
                pthread_join(waiters[i].thread, NULL);
        for (int i = 0; i < WAITERS; i++)
                assert_int_equal(order[i], i);
        queue = sr_run_queue_free(queue);
}

static void a_full_line_refuses_at_once(void **state)
{
        struct waiter waiter;
        struct sr_run_ticket first = busy(1), refused;
        struct sr_error *error = NULL;

        (void)state;
        join(&waiter, 0, -1);
        start(&waiter);
        assert_int_equal(sr_run_queue_join(queue, &refused, &error), -EBUSY);
        assert_int_equal(sr_error_get_kind(error), SR_ERROR_LIMIT);
        assert_non_null(strstr(sr_error_message(error), "busy"));
        sr_error_free(error);
        sr_run_queue_leave(queue, &first);
        pthread_join(waiter.thread, NULL);
        assert_int_equal(waiter.result, 0);
        // Empty again: there is room.
        assert_int_equal(sr_run_queue_join(queue, &first, NULL), 0);
        sr_run_queue_leave(queue, &first);
        queue = sr_run_queue_free(queue);
}

static void a_cancelled_waiter_leaves_its_place_to_the_next(void **state)
{
        struct waiter one, two;
        struct sr_run_ticket first = busy(4);
        int cancel = eventfd(0, EFD_CLOEXEC);
        const uint64_t fired = 1;

        (void)state;
        join(&one, 0, cancel);
        join(&two, 1, -1);
        start(&one);
        start(&two);
        assert_int_equal(write(cancel, &fired, sizeof(fired)), sizeof(fired));
        pthread_join(one.thread, NULL);
        assert_int_equal(one.result, -ECANCELED);
        assert_int_equal(finished, 0);
        sr_run_queue_leave(queue, &first);
        pthread_join(two.thread, NULL);
        assert_int_equal(two.result, 0);
        assert_int_equal(order[0], 1);
        close(cancel);
        queue = sr_run_queue_free(queue);
}

// Whoever joined may leave before it waits, from its place in the line as well as with a slot.
static void a_ticket_can_be_given_back_unused(void **state)
{
        struct waiter one, two;
        struct sr_run_ticket first = busy(4);

        (void)state;
        join(&one, 0, -1);
        join(&two, 1, -1);
        sr_run_queue_leave(queue, &one.ticket);
        sr_run_queue_leave(queue, &first);
        assert_int_equal(sr_run_queue_wait(queue, &two.ticket, NULL, 0), 0);
        join(&one, 0, -1);
        sr_run_queue_leave(queue, &two.ticket);
        sr_run_queue_leave(queue, &one.ticket);
        assert_int_equal(sr_run_queue_join(queue, &first, NULL), 0);
        assert_int_equal(first.event, -1);
        sr_run_queue_leave(queue, &first);
        queue = sr_run_queue_free(queue);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(those_who_wait_are_served_in_their_order),
                cmocka_unit_test(a_full_line_refuses_at_once),
                cmocka_unit_test(a_cancelled_waiter_leaves_its_place_to_the_next),
                cmocka_unit_test(a_ticket_can_be_given_back_unused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
