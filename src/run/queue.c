#include "run/queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

#define CANCEL_FDS_MAX 4

struct waiter {
        int event;
        bool has_slot;
        struct waiter *next;
};

struct sr_run_queue {
        pthread_mutex_t lock;
        uint32_t slots, free_slots;
        uint32_t waiting, max_waiting;
        struct waiter *head, **tail;
};

struct sr_run_queue *sr_run_queue_new(uint32_t slots, uint32_t max_waiting)
{
        struct sr_run_queue *queue = sr_new(struct sr_run_queue);

        *queue = (struct sr_run_queue){
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .slots = slots,
                .free_slots = slots,
                .max_waiting = max_waiting,
        };
        queue->tail = &queue->head;
        return queue;
}

struct sr_run_queue *sr_run_queue_free(struct sr_run_queue *queue)
{
        if (queue != NULL) {
                pthread_mutex_destroy(&queue->lock);
                free(queue);
        }
        return NULL;
}

static void append(struct sr_run_queue *queue, struct waiter *waiter)
{
        *queue->tail = waiter;
        queue->tail = &waiter->next;
        queue->waiting++;
}

static void take_out(struct sr_run_queue *queue, struct waiter *waiter)
{
        struct waiter **link = &queue->head;

        while (*link != waiter)
                link = &(*link)->next;
        *link = waiter->next;
        if (waiter->next == NULL)
                queue->tail = link;
        queue->waiting--;
}

// Waits until the waiter was handed a slot (true) or one of the others is readable.
static bool wait_for_turn(struct sr_run_queue *queue, struct waiter *waiter, const int *cancel_fds,
                          size_t count)
{
        struct pollfd polls[1 + CANCEL_FDS_MAX] = {{.fd = waiter->event, .events = POLLIN}};

        for (size_t i = 0; i < count; i++)
                polls[1 + i] = (struct pollfd){.fd = cancel_fds[i], .events = POLLIN};
        // EINTR, or no memory for a moment: neither is a reason to leave the line.
        while (poll(polls, 1 + count, -1) < 0)
                ;
        pthread_mutex_lock(&queue->lock);
        bool has_slot = waiter->has_slot;
        if (!has_slot)
                take_out(queue, waiter);
        pthread_mutex_unlock(&queue->lock);
        return has_slot;
}

int sr_run_queue_enter(struct sr_run_queue *queue, const int *cancel_fds, size_t count,
                       struct sr_error **error)
{
        struct waiter waiter = {.event = -1};
        int r = 0;

        pthread_mutex_lock(&queue->lock);
        if (queue->free_slots > 0) {
                queue->free_slots--;
                pthread_mutex_unlock(&queue->lock);
                return 0;
        }
        if (queue->waiting >= queue->max_waiting) {
                r = sr_error_set(
                        error, SR_ERROR_LIMIT, EBUSY,
                        "the runner is busy: %u programs run and %u wait already, which is the limit; try "
                        "again later or raise server.slots or server.max_queue",
                        queue->slots, queue->waiting);
        } else {
                waiter.event = eventfd(0, EFD_CLOEXEC);
                if (waiter.event < 0)
                        r = sr_error_set(error, SR_ERROR_INTERNAL, errno, "waiting for a slot: %s",
                                         strerror(errno));
                else
                        append(queue, &waiter);
        }
        pthread_mutex_unlock(&queue->lock);
        if (r == 0 &&
            !wait_for_turn(queue, &waiter, cancel_fds, count < CANCEL_FDS_MAX ? count : CANCEL_FDS_MAX))
                r = -ECANCELED;
        sr_fd_close(waiter.event);
        return r;
}

void sr_run_queue_leave(struct sr_run_queue *queue)
{
        const uint64_t one = 1;

        pthread_mutex_lock(&queue->lock);
        struct waiter *next = queue->head;
        if (next != NULL) {
                take_out(queue, next);
                next->has_slot = true;
                // Under the lock: the waiter frees itself as soon as it sees has_slot.
                (void)!write(next->event, &one, sizeof(one));
        } else {
                queue->free_slots++;
        }
        pthread_mutex_unlock(&queue->lock);
}
