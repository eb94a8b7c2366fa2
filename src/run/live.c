// What waits or runs now. Each run adds itself and takes itself out; others look or ask for an end, on any
// thread. The lock is held for moments only: never while anything is waited for.
#include "run/live.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "run/runner.h"

// Of the code, to tell one run from another: so many characters, of which each is at most 4 bytes.
#define LINE_CHARACTERS 60
#define LINE_BYTES      (LINE_CHARACTERS * 4)

const char *sr_run_state_name(enum sr_run_state state)
{
        static const char *const names[] = {
                [SR_RUN_WAITS] = "waiting",
                [SR_RUN_COMPILES] = "compile",
                [SR_RUN_RUNS] = "run",
        };

        return names[state];
}

// The first line that has something on it, without what it is indented by.
static char *first_line(const char *code, size_t length)
{
        _cleanup_buf_ struct sr_buf text = {0};
        size_t from = 0, end;

        while (from < length && strchr(" \t\n\v\f\r", code[from]) != NULL && code[from] != '\0')
                from++;

        const char *line_feed = memchr(code + from, '\n', length - from);

        end = line_feed != NULL ? (size_t)(line_feed - code) : length;

        bool cut = end - from > LINE_BYTES;

        sr_utf8_append_sanitized(&text, code + from,
                                 cut ? sr_utf8_complete_prefix(code + from, LINE_BYTES) : end - from);
        // As a C string; what shows it knows what to do with other control characters.
        for (size_t i = 0; i < text.len; i++)
                if (text.data[i] == '\0')
                        text.data[i] = ' ';
        while (text.len > 0 && (text.data[text.len - 1] == '\r' || text.data[text.len - 1] == ' '))
                text.data[--text.len] = '\0';

        size_t shown = sr_utf8_prefix(text.data != NULL ? text.data : "", text.len, LINE_CHARACTERS);

        return sr_asprintf("%.*s%s", (int)shown, text.data != NULL ? text.data : "",
                           cut || shown < text.len ? "…" : "");
}

void sr_run_list_add(struct sr_run_list *list, struct sr_run_entry *entry, const char *language,
                     const struct sr_run_request *request, struct sr_run_cancel *cancel)
{
        *entry = (struct sr_run_entry){
                .list = list,
                .view =
                        {
                                .state = SR_RUN_WAITS,
                                .language = language,
                                .asked_us = sr_clock_realtime_us(),
                                .timeout_us = (uint64_t)request->timeout_s * 1000000u,
                        },
                .since_ns = sr_clock_monotonic_ns(),
                .cancel = cancel,
                .line = first_line(request->code, request->code_length),
        };
        entry->view.line = entry->line;
        pthread_mutex_lock(&list->lock);
        entry->view.number = ++list->last_number;
        entry->previous = list->last;
        if (list->last != NULL)
                list->last->next = entry;
        else
                list->first = entry;
        list->last = entry;
        pthread_mutex_unlock(&list->lock);
}

void sr_run_list_enter(struct sr_run_entry *entry, enum sr_run_state state, uint64_t timeout_us)
{
        uint64_t now = sr_clock_monotonic_ns();

        pthread_mutex_lock(&entry->list->lock);
        entry->view.state = state;
        entry->view.timeout_us = timeout_us;
        entry->since_ns = now;
        pthread_mutex_unlock(&entry->list->lock);
}

void sr_run_list_remove(struct sr_run_entry *entry)
{
        struct sr_run_list *list = entry->list;

        pthread_mutex_lock(&list->lock);
        *(entry->previous != NULL ? &entry->previous->next : &list->first) = entry->next;
        *(entry->next != NULL ? &entry->next->previous : &list->last) = entry->previous;
        pthread_mutex_unlock(&list->lock);
        sr_freep(&entry->line);
}

uint64_t sr_runner_look(struct sr_runner *runner, uint64_t after, size_t count,
                        void (*show)(void *context, const struct sr_run_view *run), void *context)
{
        struct sr_run_list *list = &runner->list;
        uint64_t now = sr_clock_monotonic_ns();

        pthread_mutex_lock(&list->lock);
        for (struct sr_run_entry *entry = list->first; entry != NULL && count > 0; entry = entry->next) {
                if (entry->view.number <= after)
                        continue;
                entry->view.elapsed_us = now > entry->since_ns ? (now - entry->since_ns) / 1000 : 0;
                show(context, &entry->view);
                count--;
        }

        uint64_t last = list->last_number;

        pthread_mutex_unlock(&list->lock);
        return last;
}

enum sr_run_found sr_runner_end(struct sr_runner *runner, uint64_t number)
{
        struct sr_run_list *list = &runner->list;
        struct sr_run_entry *entry;
        enum sr_run_found found;

        pthread_mutex_lock(&list->lock);
        for (entry = list->first; entry != NULL && entry->view.number != number; entry = entry->next)
                ;
        if (entry != NULL) {
                sr_run_cancel_fire(entry->cancel);
                found = SR_RUN_LIVES;
        } else {
                found = number >= 1 && number <= list->last_number ? SR_RUN_IS_OVER : SR_RUN_NEVER_WAS;
        }
        pthread_mutex_unlock(&list->lock);
        return found;
}
