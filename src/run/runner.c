#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "run/cancel.h"
#include "run/runner.h"

// Threads of sr_runner_submit: a run needs little stack (drain's chunk is the largest thing on it).
#define THREAD_STACK_BYTES (512 * 1024)

int sr_runner_new(const struct sr_config *config, struct sr_runner **ret, struct sr_error **error)
{
        _cleanup_runner_ struct sr_runner *runner = sr_new(struct sr_runner);
        _cleanup_free_ char *directory = sr_config_program_directory(), *program = NULL;

        *runner = (struct sr_runner){
                .config = config,
                .stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                .list = {.lock = PTHREAD_MUTEX_INITIALIZER},
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .idle = PTHREAD_COND_INITIALIZER,
        };
        if (runner->stop_event < 0)
                return sr_error_set(error, SR_ERROR_INTERNAL, errno, "making an eventfd: %s",
                                    strerror(errno));
        int r = sr_image_store_open(config->store, config->lower_store, &runner->store, error);
        if (r == 0)
                r = sr_config_find_helper(directory, "sandbox-runner-spawner", &program, error);
        if (r == 0)
                r = sr_spawner_start(
                        &(struct sr_spawner_options){
                                .program = program,
                                .tree_roots = sr_image_store_tree_roots(runner->store),
                                .root_id_base = config->root_id_base,
                        },
                        &runner->spawner, error);
        if (r == 0)
                r = sr_language_load(config->catalogues, &runner->languages, error);
        if (r < 0)
                return r;
        runner->queue = sr_run_queue_new(config->slots, config->max_queue);
        *ret = sr_steal(runner);
        return 0;
}

struct sr_runner *sr_runner_free(struct sr_runner *runner)
{
        if (runner == NULL)
                return NULL;
        if (runner->stop_event >= 0)
                sr_runner_stop(runner);
        pthread_mutex_lock(&runner->lock);
        while (runner->threads > 0)
                pthread_cond_wait(&runner->idle, &runner->lock);
        pthread_mutex_unlock(&runner->lock);
        sr_spawner_stop(runner->spawner);
        sr_run_queue_free(runner->queue);
        sr_history_close(runner->history);
        sr_language_free(runner->languages);
        sr_image_store_close(runner->store);
        sr_fd_close(runner->stop_event);
        free(runner->history_problem);
        free(runner->history_notice);
        pthread_mutex_destroy(&runner->list.lock);
        pthread_cond_destroy(&runner->idle);
        pthread_mutex_destroy(&runner->lock);
        free(runner);
        return NULL;
}

void sr_runner_freep(struct sr_runner **runner)
{
        *runner = sr_runner_free(*runner);
}

void sr_runner_stop(struct sr_runner *runner)
{
        const uint64_t one = 1;

        (void)!write(runner->stop_event, &one, sizeof(one));
}

const struct sr_language_catalogue *sr_runner_languages(const struct sr_runner *runner)
{
        return runner->languages;
}

struct sr_history *sr_runner_history(struct sr_runner *runner, char **ret_problem)
{
        pthread_mutex_lock(&runner->lock);
        if (!runner->history_tried && runner->config->history_enabled) {
                _cleanup_error_ struct sr_error *error = NULL;

                free(sr_steal(runner->history_problem));
                if (sr_history_open(runner->config->database, false, &runner->history,
                                    &runner->history_notice, &error) < 0)
                        runner->history_problem = sr_strdup(sr_error_message(error));
                // One that could not be opened is tried again at the next run: a full disk may have room by
                // then.
                runner->history_tried = runner->history != NULL;
        }
        struct sr_history *history = runner->history;
        if (runner->history_problem != NULL)
                *ret_problem = sr_strdup(runner->history_problem);
        pthread_mutex_unlock(&runner->lock);
        return history;
}

char *sr_runner_take_history_notice(struct sr_runner *runner)
{
        pthread_mutex_lock(&runner->lock);
        char *notice = sr_steal(runner->history_notice);
        pthread_mutex_unlock(&runner->lock);
        return notice != NULL ? notice : sr_history_take_notice(runner->history);
}

static struct sr_run_result *new_result(const struct sr_run_request *request)
{
        struct sr_run_result *result = sr_new(struct sr_run_result);

        *result = (struct sr_run_result){
                .status = SR_RUN_ERROR,
                .reason = SR_REASON_REFUSED,
                .out = sr_strdup(""),
                .err = sr_strdup(""),
                .language = sr_language_normalise(request->language),
        };
        return result;
}

// A run from its acceptance to its end. Lies still in memory meanwhile.
struct run {
        struct sr_runner *runner;
        const struct sr_run_request *request;
        struct sr_run_cancel *cancel;
        bool own_cancel;
        struct sr_run_plan plan;
        struct sr_run_ticket ticket;
        struct sr_run_entry entry;
        uint64_t asked_ns;
        struct sr_run_result *result; // of one that is refused, else what is known by now
};

// Whatever becomes of the request, what holds limits here is known.
static void note_limits(struct run *run)
{
        _cleanup_free_ char *why = NULL;

        if (run->result->has_limits)
                return;
        run->result->has_limits = true;
        sr_spawner_limits(run->runner->spawner, &run->result->limits, &why);
}

static void refuse(struct run *run, const struct sr_error *error)
{
        sr_run_refuse(run->result, SR_REASON_REFUSED, error);
        note_limits(run);
}

static void cancelled_while_waiting(struct sr_run_result *result)
{
        result->accepted = true;
        result->reason = SR_REASON_CANCELLED;
}

static void execute_plan(struct run *run, const int *cancel_fds, size_t cancel_count)
{
        const struct sr_run_request *request = run->request;
        struct sr_run_result *result = run->result;
        struct sr_run_plan *plan = &run->plan;
        uint64_t began = sr_clock_monotonic_ns();

        result->accepted = true;
        result->image = sr_strdup(plan->image->reference);
        result->image_digest = plan->image->digest != NULL ? sr_strdup(plan->image->digest) : NULL;
        plan->environment = sr_run_environment(plan->language, plan->image);
        plan->run = sr_strv_copy(plan->language->run);
        for (size_t i = 0; request->arguments != NULL && request->arguments[i] != NULL; i++)
                sr_strv_append(&plan->run, sr_strdup(request->arguments[i]));
        sr_run_stages(run->runner, plan, request, cancel_fds, cancel_count, result);
        if (result->accepted)
                result->duration_ms = (double)(sr_clock_monotonic_ns() - began) / 1e6;
        sr_strv_free(plan->run);
        sr_strv_free(plan->environment);
}

static void end_run(struct run *run)
{
        if (run->own_cancel)
                sr_run_cancel_free(run->cancel);
}

// Checks the request and takes its place: a slot, or one in the line. Does not block. 0, or a negative errno
// with the refusal in run->result; then nothing more is to be done for it.
static int begin_run(struct run *run, struct sr_runner *runner, const struct sr_run_request *request,
                     struct sr_run_cancel *cancel)
{
        _cleanup_error_ struct sr_error *error = NULL;

        *run = (struct run){
                .runner = runner,
                .request = request,
                .cancel = cancel != NULL ? cancel : sr_run_cancel_new(),
                .own_cancel = cancel == NULL,
                .asked_ns = sr_clock_monotonic_ns(),
                .result = new_result(request),
        };

        struct sr_run_plan *plan = &run->plan;
        int r = sr_run_validate(runner, request, plan, &error);

        if (r == 0)
                r = sr_run_check_strict(runner, NULL, &error);
        if (r == 0 && run->cancel->event < 0)
                r = sr_error_set(&error, SR_ERROR_LIMIT, EMFILE,
                                 "The runner is out of descriptors; run fewer at once or raise its limit "
                                 "(ulimit -n).");
        if (r == 0) {
                free(run->result->language);
                run->result->language = sr_strdup(plan->language->name);
                r = sr_run_queue_join(runner->queue, &run->ticket, &error);
        }
        if (r < 0) {
                refuse(run, error);
                end_run(run);
                return r;
        }
        plan->entry = &run->entry;
        sr_run_list_add(&runner->list, plan->entry, plan->language->name, request, run->cancel);
        return 0;
}

static void carry_out(struct run *run)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_runner *runner = run->runner;
        struct sr_run_result *result = run->result;
        struct sr_run_plan *plan = &run->plan;
        const int cancel_fds[] = {runner->stop_event, run->cancel->event};
        const size_t cancel_count = sizeof(cancel_fds) / sizeof(cancel_fds[0]);
        int r = sr_run_queue_wait(runner->queue, &run->ticket, cancel_fds, cancel_count);

        result->queue_ms = (double)(sr_clock_monotonic_ns() - run->asked_ns) / 1e6;
        if (r == -ECANCELED) {
                cancelled_while_waiting(result);
        } else {
                r = sr_run_find_image(runner, run->request, plan->language, cancel_fds, cancel_count,
                                      &plan->image, &error);
                if (r == 0)
                        execute_plan(run, cancel_fds, cancel_count);
                else if (r == -ECANCELED)
                        cancelled_while_waiting(result);
                else
                        refuse(run, error);
                sr_image_free(plan->image);
                sr_run_queue_leave(runner->queue, &run->ticket);
        }
        note_limits(run);
        if (result->accepted)
                sr_run_record(runner, run->request, run->entry.view.asked_us, result);
        sr_run_list_remove(&run->entry);
        end_run(run);
}

// In place of carry_out: it cannot be.
static void give_up(struct run *run, const struct sr_error *error)
{
        sr_run_queue_leave(run->runner->queue, &run->ticket);
        sr_run_list_remove(&run->entry);
        refuse(run, error);
        end_run(run);
}

struct sr_run_result *sr_runner_execute(struct sr_runner *runner, const struct sr_run_request *request,
                                        struct sr_run_cancel *cancel)
{
        struct run run;

        if (begin_run(&run, runner, request, cancel) == 0)
                carry_out(&run);
        return run.result;
}

// A run on another thread, with a request of its own.
struct submission {
        struct run run;
        bool refused;
        struct sr_run_request request;
        void (*done)(void *context, struct sr_run_result *result);
        void *context;
};

static void submission_free(struct submission *submission)
{
        free((char *)(uintptr_t)submission->request.language);
        free((char *)(uintptr_t)submission->request.code);
        free((char *)(uintptr_t)submission->request.image);
        sr_strv_free((char **)(uintptr_t)submission->request.arguments);
        free(submission);
}

static void *submission_run(void *argument)
{
        struct submission *submission = argument;
        struct sr_runner *runner = submission->run.runner;

        if (!submission->refused)
                carry_out(&submission->run);
        submission->done(submission->context, submission->run.result);
        submission_free(submission);
        pthread_mutex_lock(&runner->lock);
        if (--runner->threads == 0)
                pthread_cond_broadcast(&runner->idle);
        pthread_mutex_unlock(&runner->lock);
        return NULL;
}

// Signals are for the main thread: a handler of its own must not find itself on one of these.
static int start_thread(void *argument)
{
        pthread_attr_t attributes;
        pthread_t thread;
        sigset_t all, before;

        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int r = pthread_create(&thread, &attributes, submission_run, argument);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return -r;
}

void sr_runner_submit(struct sr_runner *runner, const struct sr_run_request *request,
                      struct sr_run_cancel *cancel, void (*done)(void *context, struct sr_run_result *result),
                      void *context)
{
        struct submission *submission = sr_new(struct submission);

        *submission = (struct submission){.request = *request, .done = done, .context = context};
        submission->request.language = sr_strdup(request->language);
        submission->request.code = sr_memdup0(request->code, request->code_length);
        submission->request.image = request->image != NULL ? sr_strdup(request->image) : NULL;
        submission->request.arguments = request->arguments != NULL ? sr_strv_copy(request->arguments) : NULL;
        pthread_mutex_lock(&runner->lock);
        runner->threads++;
        pthread_mutex_unlock(&runner->lock);
        // Here, and not on the thread: the line is in the order of the calls.
        submission->refused = begin_run(&submission->run, runner, &submission->request, cancel) < 0;

        int r = start_thread(submission);

        if (r < 0) {
                _cleanup_error_ struct sr_error *error = NULL;

                sr_error_set(&error, SR_ERROR_LIMIT, -r,
                             "The runner could not start a thread (%s): the host is out of processes or "
                             "memory; run "
                             "fewer at once.",
                             strerror(-r));
                if (!submission->refused)
                        give_up(&submission->run, error);
                pthread_mutex_lock(&runner->lock);
                runner->threads--;
                pthread_mutex_unlock(&runner->lock);
                done(context, submission->run.result);
                submission_free(submission);
        }
}
