// Run slots and the line before them.
//
// Theory of operation: a free slot is taken at once; else the caller joins the end of a list and waits on an
// eventfd of its own, so that it can wait for its turn and for a cancellation with one poll(). Who gives a
// slot back hands it to the head of the list directly: nobody can overtake.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct sr_run_queue;

struct sr_run_queue *sr_run_queue_new(uint32_t slots, uint32_t max_waiting);
// Nobody may wait or hold a slot.
struct sr_run_queue *sr_run_queue_free(struct sr_run_queue *queue);

// Takes a slot, waiting for it. 0; -EBUSY with a message when max_waiting others wait already; -ECANCELED
// (without a message) when one of the descriptors becomes readable first.
int sr_run_queue_enter(struct sr_run_queue *queue, const int *cancel_fds, size_t count,
                       struct sr_error **error);
void sr_run_queue_leave(struct sr_run_queue *queue);
