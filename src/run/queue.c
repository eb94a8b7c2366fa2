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

struct sr_run_queue {
        pthread_mutex_t lock;
        uint32_t slots, free_slots;
        uint32_t waiting, max_waiting;
        struct sr_run_ticket *head, **tail;
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

static void append(struct sr_run_queue *queue, struct sr_run_ticket *ticket)
{
        *queue->tail = ticket;
        queue->tail = &ticket->next;
        queue->waiting++;
}

static void take_out(struct sr_run_queue *queue, struct sr_run_ticket *ticket)
{
        struct sr_run_ticket **link = &queue->head;

        while (*link != ticket)
                link = &(*link)->next;
        *link = ticket->next;
        if (ticket->next == NULL)
                queue->tail = link;
        queue->waiting--;
}

int sr_run_queue_join(struct sr_run_queue *queue, struct sr_run_ticket *ticket, struct sr_error **error)
{
        int r = 0;

        *ticket = (struct sr_run_ticket){.event = -1};
        pthread_mutex_lock(&queue->lock);
        if (queue->free_slots > 0) {
                queue->free_slots--;
                ticket->has_slot = true;
        } else if (queue->waiting >= queue->max_waiting) {
                r = sr_error_set(
                        error, SR_ERROR_LIMIT, EBUSY,
                        "the runner is busy: %u programs run and %u wait already, which is the limit; try "
                        "again later or raise server.slots or server.max_queue",
                        queue->slots, queue->waiting);
        } else {
                ticket->event = eventfd(0, EFD_CLOEXEC);
                if (ticket->event < 0)
                        r = sr_error_set(error, SR_ERROR_INTERNAL, errno, "waiting for a slot: %s",
                                         strerror(errno));
                else
                        append(queue, ticket);
        }
        pthread_mutex_unlock(&queue->lock);
        return r;
}

int sr_run_queue_wait(struct sr_run_queue *queue, struct sr_run_ticket *ticket, const int *cancel_fds,
                      size_t count)
{
        struct pollfd polls[1 + CANCEL_FDS_MAX] = {{.fd = ticket->event, .events = POLLIN}};

        if (ticket->event < 0)
                return 0;
        if (count > CANCEL_FDS_MAX)
                count = CANCEL_FDS_MAX;
        for (size_t i = 0; i < count; i++)
                polls[1 + i] = (struct pollfd){.fd = cancel_fds[i], .events = POLLIN};
        // EINTR, or no memory for a moment: neither is a reason to leave the line.
        while (poll(polls, 1 + count, -1) < 0)
                ;
        pthread_mutex_lock(&queue->lock);
        bool has_slot = ticket->has_slot;
        if (!has_slot)
                take_out(queue, ticket);
        pthread_mutex_unlock(&queue->lock);
        ticket->event = sr_fd_close(ticket->event);
        return has_slot ? 0 : -ECANCELED;
}

static void hand_on_locked(struct sr_run_queue *queue)
{
        const uint64_t one = 1;
        struct sr_run_ticket *next = queue->head;

        if (next == NULL) {
                queue->free_slots++;
                return;
        }
        take_out(queue, next);
        next->has_slot = true;
        // Under the lock: the ticket may be gone as soon as somebody sees has_slot.
        (void)!write(next->event, &one, sizeof(one));
}

void sr_run_queue_leave(struct sr_run_queue *queue, struct sr_run_ticket *ticket)
{
        pthread_mutex_lock(&queue->lock);
        if (ticket->has_slot)
                hand_on_locked(queue);
        else
                take_out(queue, ticket);
        pthread_mutex_unlock(&queue->lock);
        ticket->event = sr_fd_close(ticket->event);
}
