// Run slots and the line before them.
//
// Theory of operation: joining takes a free slot at once or a place at the end of a list; it never blocks, so
// that who receives requests can join for each in the order in which they came, whoever waits for the slot
// later. A waiting ticket has an eventfd of its own, so that its turn and a cancellation can be waited for
// with one poll(). Who gives a slot back hands it to the head of the list directly: nobody can overtake.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct sr_run_queue;

// A place in the line, then a slot. Its memory is the caller's and stays where it is until sr_run_queue_wait
// or sr_run_queue_leave has returned. Private to queue.c.
struct sr_run_ticket {
        int event; // readable once it has a slot; -1 when it had one at once
        bool has_slot;
        struct sr_run_ticket *next;
};

struct sr_run_queue *sr_run_queue_new(uint32_t slots, uint32_t max_waiting);
// Nobody may wait or hold a slot.
struct sr_run_queue *sr_run_queue_free(struct sr_run_queue *queue);

// 0, or -EBUSY with a message when there is no free slot and max_waiting others wait already. A ticket that
// was given is given back with sr_run_queue_leave, unless waiting for its turn fails.
int sr_run_queue_join(struct sr_run_queue *queue, struct sr_run_ticket *ticket, struct sr_error **error);
// Waits for the ticket's slot. 0; or -ECANCELED when one of the descriptors becomes readable first: it has
// left the line then.
int sr_run_queue_wait(struct sr_run_queue *queue, struct sr_run_ticket *ticket, const int *cancel_fds,
                      size_t count);
// Gives up the slot, or the place in the line.
void sr_run_queue_leave(struct sr_run_queue *queue, struct sr_run_ticket *ticket);
