// Slots and the line before them: order, bound, cancellation.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run/queue.h"

#define WAITERS 8

static struct sr_run_queue *queue;
static atomic_int order[WAITERS], arrived, finished;

struct waiter {
        pthread_t thread;
        int number;
        int cancel;
        int result;
};

static void *enter(void *argument)
{
        struct waiter *waiter = argument;

        atomic_fetch_add(&arrived, 1);
        waiter->result = sr_run_queue_enter(queue, &waiter->cancel, waiter->cancel >= 0, NULL);
        if (waiter->result == 0) {
                order[atomic_fetch_add(&finished, 1)] = waiter->number;
                sr_run_queue_leave(queue);
        }
        return NULL;
}

// Starts a waiter and gives it the time to get into the line before the next.
static void start(struct waiter *waiter, int number, int cancel)
{
        *waiter = (struct waiter){.number = number, .cancel = cancel};
        int before = atomic_load(&arrived);
        assert_int_equal(pthread_create(&waiter->thread, NULL, enter, waiter), 0);
        while (atomic_load(&arrived) == before)
                poll(NULL, 0, 1);
        poll(NULL, 0, 20);
}

static void those_who_wait_are_served_in_their_order(void **state)
{
        struct waiter waiters[WAITERS];

        (void)state;
        queue = sr_run_queue_new(1, WAITERS);
        finished = 0;
        assert_int_equal(sr_run_queue_enter(queue, NULL, 0, NULL), 0);
        for (int i = 0; i < WAITERS; i++)
                start(&waiters[i], i, -1);
        assert_int_equal(finished, 0);
        sr_run_queue_leave(queue);
        for (int i = 0; i < WAITERS; i++)
                pthread_join(waiters[i].thread, NULL);
        for (int i = 0; i < WAITERS; i++)
                assert_int_equal(order[i], i);
        queue = sr_run_queue_free(queue);
}

static void a_full_line_refuses_at_once(void **state)
{
        struct waiter waiter;
        struct sr_error *error = NULL;

        (void)state;
        queue = sr_run_queue_new(1, 1);
        finished = 0;
        assert_int_equal(sr_run_queue_enter(queue, NULL, 0, NULL), 0);
        start(&waiter, 0, -1);
        assert_int_equal(sr_run_queue_enter(queue, NULL, 0, &error), -EBUSY);
        assert_int_equal(sr_error_get_kind(error), SR_ERROR_LIMIT);
        assert_non_null(strstr(sr_error_message(error), "busy"));
        sr_error_free(error);
        sr_run_queue_leave(queue);
        pthread_join(waiter.thread, NULL);
        assert_int_equal(waiter.result, 0);
        // Empty again: there is room.
        assert_int_equal(sr_run_queue_enter(queue, NULL, 0, NULL), 0);
        sr_run_queue_leave(queue);
        queue = sr_run_queue_free(queue);
}

static void a_cancelled_waiter_leaves_its_place_to_the_next(void **state)
{
        struct waiter first, second;
        int cancel = eventfd(0, EFD_CLOEXEC);
        const uint64_t one = 1;

        (void)state;
        queue = sr_run_queue_new(1, 4);
        finished = 0;
        assert_int_equal(sr_run_queue_enter(queue, NULL, 0, NULL), 0);
        start(&first, 0, cancel);
        start(&second, 1, -1);
        assert_int_equal(write(cancel, &one, sizeof(one)), sizeof(one));
        pthread_join(first.thread, NULL);
        assert_int_equal(first.result, -ECANCELED);
        assert_int_equal(finished, 0);
        sr_run_queue_leave(queue);
        pthread_join(second.thread, NULL);
        assert_int_equal(second.result, 0);
        assert_int_equal(order[0], 1);
        close(cancel);
        queue = sr_run_queue_free(queue);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(those_who_wait_are_served_in_their_order),
                cmocka_unit_test(a_full_line_refuses_at_once),
                cmocka_unit_test(a_cancelled_waiter_leaves_its_place_to_the_next),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
