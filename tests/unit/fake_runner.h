// A runner that starts no sandbox, for tests of what stands above it. Its functions take the place of those
// of src/run, src/history and src/language when the program is linked: a static library's member is not
// pulled in for a symbol that is there already.
//
// What a "program" does is its code:
//   echo TEXT   ends at once and printed TEXT
//   wait        runs until it is cancelled
//   nap         runs for 300 ms, or until it is cancelled
//   inline      is answered before sr_runner_submit returns
//   big N       prints N bytes
// Anything else is echoed whole. What was asked for last is kept for the test to look at.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "history/history.h"
#include "language/language.h"
#include "run/run.h"

struct sr_runner {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool only_inline; // every run is answered before sr_runner_submit returns
        size_t active, started, cancelled;
        // The last request.
        char *language;
        char *code;
        size_t code_length;
        int64_t timeout_s;
        // What the history gives.
        bool no_history;
        const char *history_problem;
        bool history_fails;
        size_t history_count;
        int64_t asked_limit;
        bool history_waits;   // until fake_runner_free_history() or sr_runner_stop()
        atomic_size_t listed; // how often
        atomic_size_t submitted;
        bool stopped;
};

struct sr_run_cancel {
        atomic_bool fired;
};

static struct sr_runner fake_runner = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                       .changed = PTHREAD_COND_INITIALIZER};

// The runner of a test, as new.
static struct sr_runner *fake_runner_reset(void)
{
        free(fake_runner.language);
        free(fake_runner.code);
        fake_runner =
                (struct sr_runner){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        return &fake_runner;
}

// Waits until that many runs have been started since the reset.
static inline void fake_runner_wait_started(struct sr_runner *runner, size_t count)
{
        pthread_mutex_lock(&runner->lock);
        while (runner->started < count)
                pthread_cond_wait(&runner->changed, &runner->lock);
        pthread_mutex_unlock(&runner->lock);
}

// Waits until no thread of the runner is left.
static inline void fake_runner_wait_idle(struct sr_runner *runner)
{
        pthread_mutex_lock(&runner->lock);
        while (runner->active > 0)
                pthread_cond_wait(&runner->changed, &runner->lock);
        pthread_mutex_unlock(&runner->lock);
}

// A history that waits goes on.
static inline void fake_runner_free_history(struct sr_runner *runner)
{
        pthread_mutex_lock(&runner->lock);
        runner->history_waits = false;
        pthread_cond_broadcast(&runner->changed);
        pthread_mutex_unlock(&runner->lock);
}

void sr_runner_stop(struct sr_runner *runner)
{
        runner->stopped = true;
        fake_runner_free_history(runner);
}

struct sr_run_cancel *sr_run_cancel_new(void)
{
        return sr_new(struct sr_run_cancel);
}

void sr_run_cancel_fire(struct sr_run_cancel *cancel)
{
        atomic_store(&cancel->fired, true);
}

struct sr_run_cancel *sr_run_cancel_free(struct sr_run_cancel *cancel)
{
        free(cancel);
        return NULL;
}

struct fake_run {
        struct sr_runner *runner;
        char *code;
        size_t code_length;
        struct sr_run_cancel *cancel;
        void (*done)(void *context, struct sr_run_result *result);
        void *context;
};

static struct sr_run_result *fake_result(const struct fake_run *run)
{
        struct sr_run_result *result = sr_new(struct sr_run_result);

        *result = (struct sr_run_result){
                .status = SR_RUN_SUCCESS,
                .has_exit_code = true,
                .err = sr_strdup(""),
                .duration_ms = 12.5,
                .language = sr_strdup("python"),
                .accepted = true,
        };
        if (strncmp(run->code, "big ", 4) == 0) {
                result->out_length = strtoul(run->code + 4, NULL, 10);
                result->out = sr_calloc(result->out_length + 1, 1);
                memset(result->out, 'x', result->out_length);
        } else {
                size_t from = strncmp(run->code, "echo ", 5) == 0 ? 5 : 0;

                result->out_length = run->code_length - from;
                result->out = sr_memdup0(run->code + from, result->out_length);
        }
        return result;
}

static bool fake_sleep(const struct fake_run *run, int ms)
{
        const struct timespec step = {.tv_nsec = 1000 * 1000};

        for (int i = 0; ms < 0 || i < ms; i++) {
                if (atomic_load(&run->cancel->fired))
                        return true;
                nanosleep(&step, NULL);
        }
        return false;
}

static void fake_finish(struct fake_run *run, bool cancelled)
{
        struct sr_run_result *result = fake_result(run);
        struct sr_runner *runner = run->runner;

        if (cancelled) {
                result->status = SR_RUN_ERROR;
                result->reason = SR_REASON_CANCELLED;
                result->has_exit_code = false;
                pthread_mutex_lock(&runner->lock);
                runner->cancelled++;
                pthread_mutex_unlock(&runner->lock);
        }
        run->done(run->context, result);
        free(run->code);
        free(run);
        pthread_mutex_lock(&runner->lock);
        runner->active--;
        pthread_cond_broadcast(&runner->changed);
        pthread_mutex_unlock(&runner->lock);
}

static void *fake_thread(void *argument)
{
        struct fake_run *run = argument;
        bool cancelled = false;

        if (strcmp(run->code, "wait") == 0)
                cancelled = fake_sleep(run, -1);
        else if (strcmp(run->code, "nap") == 0)
                cancelled = fake_sleep(run, 300);
        fake_finish(run, cancelled);
        return NULL;
}

void sr_runner_submit(struct sr_runner *runner, const struct sr_run_request *request,
                      struct sr_run_cancel *cancel, void (*done)(void *context, struct sr_run_result *result),
                      void *context)
{
        struct fake_run *run = sr_new(struct fake_run);
        pthread_t thread;

        *run = (struct fake_run){.runner = runner, .cancel = cancel, .done = done, .context = context};
        run->code = sr_memdup0(request->code, request->code_length);
        run->code_length = request->code_length;
        atomic_fetch_add(&runner->submitted, 1);
        pthread_mutex_lock(&runner->lock);
        free(runner->language);
        free(runner->code);
        runner->language = sr_strdup(request->language);
        runner->code = sr_memdup0(request->code, request->code_length);
        runner->code_length = request->code_length;
        runner->timeout_s = request->timeout_s;
        runner->active++;
        runner->started++;
        pthread_cond_broadcast(&runner->changed);
        pthread_mutex_unlock(&runner->lock);
        if (runner->only_inline || strcmp(run->code, "inline") == 0 ||
            pthread_create(&thread, NULL, fake_thread, run) != 0)
                fake_finish(run, false);
        else
                pthread_detach(thread);
}

static char fake_texts[][20] = {"cpp",    "C++17, GCC 14", "gcc:14",
                                "python", "Python 3.12",   "python:3.12-slim"};
static const struct sr_language fake_languages[] = {
        {.name = fake_texts[0], .description = fake_texts[1], .image = fake_texts[2]},
        {.name = fake_texts[3],
         .description = fake_texts[4],
         .image = fake_texts[5],
         .run_limits = {.memory_bytes = 512 << 20, .cpu_millis = 1000}},
};

const struct sr_language_catalogue *sr_runner_languages(const struct sr_runner *runner)
{
        (void)runner;
        return NULL;
}

size_t sr_language_count(const struct sr_language_catalogue *catalogue)
{
        (void)catalogue;
        return sizeof(fake_languages) / sizeof(fake_languages[0]);
}

const struct sr_language *sr_language_at(const struct sr_language_catalogue *catalogue, size_t index)
{
        (void)catalogue;
        return &fake_languages[index];
}

struct sr_history *sr_runner_history(struct sr_runner *runner, char **ret_problem)
{
        if (runner->history_problem != NULL)
                *ret_problem = sr_strdup(runner->history_problem);
        return runner->no_history ? NULL : (struct sr_history *)runner;
}

int sr_history_list(struct sr_history *history, int64_t limit, struct sr_history_record **ret,
                    size_t *ret_count, struct sr_error **error)
{
        struct sr_runner *runner = (struct sr_runner *)history;
        size_t count = (size_t)limit < runner->history_count ? (size_t)limit : runner->history_count;

        runner->asked_limit = limit;
        atomic_fetch_add(&runner->listed, 1);
        pthread_mutex_lock(&runner->lock);
        while (runner->history_waits)
                pthread_cond_wait(&runner->changed, &runner->lock);
        pthread_mutex_unlock(&runner->lock);
        if (runner->history_fails)
                return sr_error_set(error, SR_ERROR_INTERNAL, EIO, "the disk is gone");
        *ret = sr_new_array(struct sr_history_record, count);
        for (size_t i = 0; i < count; i++)
                (*ret)[i] = (struct sr_history_record){
                        .id = (int64_t)(runner->history_count - i),
                        .timestamp_us = INT64_C(1795987503123456),
                        .language = sr_strdup("python"),
                        .code = sr_memdup0("a\0\xff", 3),
                        .code_length = 3,
                        .status = sr_strdup(i == 0 ? "timeout" : "success"),
                        .has_exit_code = i != 0,
                        .duration_ms = 1.239,
                        .stdout_size = 5,
                        .stderr_size = 6,
                };
        *ret_count = count;
        return 0;
}

struct sr_history_record *sr_history_records_free(struct sr_history_record *records, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                free(records[i].language);
                free(records[i].code);
                free(records[i].status);
        }
        free(records);
        return NULL;
}
