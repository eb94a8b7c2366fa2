// One run: from a request to a result. Knows languages, images, stages, slots, the sandbox and the history;
// knows no transport. MCP, HTTP and the command line all come through here.
//
//   request → validation → slot (or queue) → image → stage by stage in a sandbox → result → history
//
// A program that fails is a result, not an error; a refusal is a result too (CONTRACT: status "error",
// exit_code null, the reason in stderr).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "config/config.h"
#include "sandbox/limits.h"

enum sr_run_status { SR_RUN_SUCCESS, SR_RUN_ERROR, SR_RUN_TIMEOUT, SR_RUN_COMPILE_ERROR };

enum sr_run_reason {
        SR_REASON_EXIT,
        SR_REASON_SIGNAL,
        SR_REASON_TIMEOUT,
        SR_REASON_MEMORY_LIMIT,
        SR_REASON_OUTPUT_LIMIT,
        SR_REASON_REFUSED,
        SR_REASON_CANCELLED,
        SR_REASON_INTERNAL,
};

// Somebody who wants to hear that a run takes long.
struct sr_run_late {
        uint64_t at_ns;              // CLOCK_MONOTONIC
        void (*call)(void *context); // on the thread that runs, once a stage; what it takes holds the run up
        void *context;
};

// What is asked for. Everything is copied by the runner.
struct sr_run_request {
        const char *language; // as the client wrote it
        const char *code;     // may hold NULs
        size_t code_length;
        int64_t timeout_s; // of the run stage; what is out of range is refused
        // Of the run stage, in place of the language's or the configuration's; 0: not given. What is below
        // the least that a limit may be, or above run.max_memory, run.max_cpus or run.max_pids, is refused.
        uint64_t memory_bytes;
        uint64_t cpu_millis;    // thousandths of a processor
        uint64_t pids;          // processes and threads
        const char *image;      // NULL: the language's
        char *const *arguments; // extra arguments of the program, may be NULL
        int stdin_fd;           // -1: empty standard input; borrowed until the run ends. Never handed to the
                                // snippet: its bytes are copied into a pipe
        // Output as it comes (raw bytes, stream 1 or 2), or NULL; what a compiler says of a program that it
        // does compile comes first, on 2. Called on the thread that runs.
        void (*output)(void *context, int stream, const char *bytes, size_t length);
        void *output_context;
        const struct sr_run_late *late; // NULL: nobody; borrowed until the run ends
};

struct sr_run_stage {
        const char *name;             // "compile" or "run"
        double launch_ms;             // making the sandbox
        double wall_ms;               // the program itself
        bool has_usage;               // false: the next two are not known, and 0
        double cpu_ms;                // of all its processes
        int64_t peak_memory_bytes;    // of all of them and its tmpfs together
        struct sr_config_stage given; // the limits it had
        unsigned hits;                // enum sr_limit_hit
        bool has_exit_code;
        int exit_code;
};

struct sr_run_result {
        // The six members of the contract.
        enum sr_run_status status;
        bool has_exit_code;
        int exit_code;
        char *out; // valid UTF-8 with the marker when truncated; may hold NULs
        size_t out_length;
        char *err;
        size_t err_length;
        size_t verdict_length; // bytes that err begins with: our line on why the compile stage was ended
        char *problem;         // refused or internal: our sentence alone, which err ends with; else NULL
        double duration_ms;
        char *language;
        // Our own.
        enum sr_run_reason reason;
        int signal; // 0: none
        bool out_truncated, err_truncated;
        unsigned hits;           // enum sr_limit_hit of every stage
        bool hit_output;         // more was written than is kept of a stream, or the ceiling was reached
        bool has_limits;         // false: nothing is known of the next
        struct sr_limits limits; // what held the sandbox to its limits, or would have
        uint64_t out_total, err_total; // bytes written by the program
        double queue_ms;
        bool has_usage; // of every stage
        double cpu_ms;
        int64_t peak_memory_bytes;
        char *image; // reference of what really ran, NULL when nothing ran
        char *image_digest;
        char *compiler_output; // what a successful compile printed, or NULL
        size_t compiler_output_length;
        struct sr_run_stage stages[2];
        size_t stage_count;
        bool accepted;         // false: refused, no history row
        int64_t history_id;    // 0: not recorded
        char *history_problem; // a sentence: why it is not in the history, or what befell the file; or NULL
};

const char *sr_run_status_name(enum sr_run_status status);
const char *sr_run_reason_name(enum sr_run_reason reason);
// The result of a request that its caller refuses, or cannot hand to a runner: status "error", no exit code,
// message (copied) in stderr, no history row. reason is SR_REASON_REFUSED, or SR_REASON_INTERNAL for a fault
// of ours or the host's. language as the client wrote it; NULL when it is not known ("" in the result).
struct sr_run_result *sr_run_result_new_refused(const char *language, enum sr_run_reason reason,
                                                const char *message);
// Writes the run_code object: first the six members of the contract in its order, then ours.
void sr_run_result_write(const struct sr_run_result *result, struct sr_json_writer *w, const char *key);
struct sr_run_result *sr_run_result_free(struct sr_run_result *result);
void sr_run_result_freep(struct sr_run_result **result);
#define _cleanup_result_ __attribute__((cleanup(sr_run_result_freep)))

struct sr_language_catalogue;
struct sr_history;
struct sr_runner;
struct sr_run_cancel;

// A handle to end a run from any thread or signal handler. One per run; may be fired before the run starts.
// Never NULL; where no descriptor is left for it, runs given it are refused.
struct sr_run_cancel *sr_run_cancel_new(void);
void sr_run_cancel_fire(struct sr_run_cancel *cancel); // async-signal-safe, may be called again
// Readable for good once it was fired; -1 where no descriptor was left. Owned by the handle; only to be
// polled.
int sr_run_cancel_fd(const struct sr_run_cancel *cancel);
struct sr_run_cancel *sr_run_cancel_free(struct sr_run_cancel *cancel);

// Starts the spawner and reads what is needed. Call before any thread exists and before secrets are read.
// config must outlive the runner.
int sr_runner_new(const struct sr_config *config, struct sr_runner **ret, struct sr_error **error);
// Cancels what runs, waits for it, ends the spawner and everything below it.
struct sr_runner *sr_runner_free(struct sr_runner *runner);
void sr_runner_freep(struct sr_runner **runner);
#define _cleanup_runner_ __attribute__((cleanup(sr_runner_freep)))

// Runs to the end on the calling thread and always gives a result (refusals, cancellation and faults of
// ours included). cancel may be NULL. Waits for a free slot; those who wait are served strictly in the order
// of these calls and those of sr_runner_submit. When max_queue others wait already, refuses at once.
struct sr_run_result *sr_runner_execute(struct sr_runner *runner, const struct sr_run_request *request,
                                        struct sr_run_cancel *cancel);

// Runs on a thread of the runner's; done is called there exactly once and owns the result. cancel is borrowed
// until then.
void sr_runner_submit(struct sr_runner *runner, const struct sr_run_request *request,
                      struct sr_run_cancel *cancel, void (*done)(void *context, struct sr_run_result *result),
                      void *context);

// Fires the cancel handle of every run that waits or runs; new ones are refused from now on.
void sr_runner_stop(struct sr_runner *runner);

// What waits or runs, for others to see.
enum sr_run_state { SR_RUN_WAITS, SR_RUN_COMPILES, SR_RUN_RUNS };
const char *sr_run_state_name(enum sr_run_state state);
struct sr_run_view {
        uint64_t number; // counts from 1 in this runner, in the order in which runs were asked for
        enum sr_run_state state;
        const char *language;
        const char *line;    // the beginning of its code, valid UTF-8; may hold control characters
        int64_t asked_us;    // Unix time
        uint64_t elapsed_us; // in this state
        uint64_t timeout_us; // of its stage; while it waits, of the run stage
};
// Shows the runs whose number is above `after`, in the order of their numbers, at most `count`. `show` must
// not call the runner: runs wait for it. Returns the highest number given so far.
uint64_t sr_runner_look(struct sr_runner *runner, uint64_t after, size_t count,
                        void (*show)(void *context, const struct sr_run_view *run), void *context);
enum sr_run_found {
        SR_RUN_LIVES,     // and is to end: its cancel handle was fired
        SR_RUN_IS_OVER,   // it has ended, history and all
        SR_RUN_NEVER_WAS, // none had this number yet
};
// Ends one run as its cancel handle would. May be called again, to see whether it has ended.
enum sr_run_found sr_runner_end(struct sr_runner *runner, uint64_t number);

// What this host lets the sandboxes of a runner have.
struct sr_run_host {
        // What enforces each limit: "cgroup2", "cgroup1", "watchdog" or "none".
        const char *memory, *cpu, *pids;
        char *limits_why; // a sentence: why not each has a cgroup; NULL when each has one
        bool own_ids;     // each program has a host id of its own
        char *ids_why;    // a sentence: why not; NULL when it has
};
void sr_runner_host(struct sr_runner *runner, struct sr_run_host *ret);
void sr_run_host_clear(struct sr_run_host *host);
// How many ids a user's ranges in /etc/subuid and /etc/subgid must have, for own_ids.
uint32_t sr_run_ids_needed(void);
// The command that gives the user such ranges, of ids that nobody has by the files below `root` ("" for the
// host); NULL when none are to be had. The caller frees it.
char *sr_run_ids_command(const char *root, const char *name, uint32_t root_id_base);

const struct sr_language_catalogue *sr_runner_languages(const struct sr_runner *runner);
// NULL when history is off or could not be opened (*ret_problem then says why, when there is
// anything to say; the caller frees it).
struct sr_history *sr_runner_history(struct sr_runner *runner, char **ret_problem);
