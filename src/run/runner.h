// Inside src/run only: the runner's parts and what a run carries from step to step.
#pragma once

#include <pthread.h>

#include "history/history.h"
#include "image/store.h"
#include "language/language.h"
#include "run/live.h"
#include "run/queue.h"
#include "run/run.h"
#include "sandbox/sandbox.h"

struct sr_runner {
        const struct sr_config *config;
        struct sr_language_catalogue *languages;
        struct sr_image_store *store;
        struct sr_spawner *spawner;
        struct sr_run_queue *queue;
        struct sr_run_list list; // what waits or runs
        int stop_event;          // an eventfd every run watches; readable once sr_runner_stop() was called

        pthread_mutex_t lock; // guards what follows
        pthread_cond_t idle;
        unsigned threads; // of sr_runner_submit
        bool history_tried;
        struct sr_history *history;
        char *history_problem; // why it is not open
        char *history_notice;  // what opening it had to do
};

// A valid request, with everything it names found.
struct sr_run_plan {
        const struct sr_language *language;
        struct sr_config_stage compile_limits, run_limits;
        struct sr_image *image;
        char **environment;
        char **run;                 // argument vector of the run stage with the request's extra arguments
        struct sr_run_entry *entry; // where others see how far it is
};

// Checks a request against CONTRACT's limits and the catalogue, and fills in the plan's language and limits.
// A negative errno with the refusal's sentence.
int sr_run_validate(const struct sr_runner *runner, const struct sr_run_request *request,
                    struct sr_run_plan *plan, struct sr_error **error);
// Where strict limits are asked for: -ENOTSUP with the refusal's sentence unless each limit has a cgroup;
// those of the sandbox, when there is one already, else those of the next.
int sr_run_check_strict(const struct sr_runner *runner, const struct sr_sandbox *sandbox,
                        struct sr_error **error);
// Makes the result that of a refusal, or of a fault of ours before anything ran. No history row.
void sr_run_refuse(struct sr_run_result *result, enum sr_run_reason reason, const struct sr_error *error);
// Finds the image: the request's, the language's, or one of its fallbacks. -ENOENT with a sentence that names
// the commands that would bring it; -ECANCELED without one when a descriptor became readable meanwhile.
int sr_run_find_image(const struct sr_runner *runner, const struct sr_run_request *request,
                      const struct sr_language *language, const int *cancel_fds, size_t cancel_count,
                      struct sr_image **ret, struct sr_error **error);
// The program's whole environment.
char **sr_run_environment(const struct sr_language *language, const struct sr_image *image);
// Goes through the stages and fills the result's verdict, texts and figures. Never fails: a fault of ours is
// a verdict too.
void sr_run_stages(struct sr_runner *runner, const struct sr_run_plan *plan,
                   const struct sr_run_request *request, const int *cancel_fds, size_t cancel_count,
                   struct sr_run_result *result);
// The members limits_hit and limits of the result.
void sr_run_result_write_hits(const struct sr_run_result *result, struct sr_json_writer *w);
void sr_run_result_write_limits(const struct sr_run_result *result, struct sr_json_writer *w);
// What befell the history file since it was last asked, as a sentence; NULL when nothing did. The caller
// frees it.
char *sr_runner_take_history_notice(struct sr_runner *runner);
// Adds the result to the history; a problem becomes result->history_problem.
void sr_run_record(struct sr_runner *runner, const struct sr_run_request *request, int64_t began_us,
                   struct sr_run_result *result);
