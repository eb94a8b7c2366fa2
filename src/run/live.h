// Inside src/run only: the runs that wait or run now, so that they can be shown and ended from outside.
#pragma once

#include <pthread.h>

#include "run/run.h"

struct sr_run_list;

// One of them. It lies in the memory of its run; the list only points to it. Guarded by the list's lock.
struct sr_run_entry {
        struct sr_run_list *list;
        struct sr_run_view view;
        uint64_t since_ns; // in view.state since then
        struct sr_run_cancel *cancel;
        char *line; // what view.line points to
        struct sr_run_entry *previous, *next;
};

// {.lock = PTHREAD_MUTEX_INITIALIZER} is an empty list. In the order of the numbers.
struct sr_run_list {
        pthread_mutex_t lock;
        struct sr_run_entry *first, *last;
        uint64_t last_number;
};

// Puts a run at the end, as waiting, under the next number. language, code and cancel are borrowed until it
// is taken out.
void sr_run_list_add(struct sr_run_list *list, struct sr_run_entry *entry, const char *language,
                     const struct sr_run_request *request, struct sr_run_cancel *cancel);
// The run goes on to a stage of this time limit.
void sr_run_list_enter(struct sr_run_entry *entry, enum sr_run_state state, uint64_t timeout_us);
// It has ended.
void sr_run_list_remove(struct sr_run_entry *entry);
