#include "run/run.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "run/runner.h"

const char *sr_run_status_name(enum sr_run_status status)
{
        static const char *const names[] = {
                [SR_RUN_SUCCESS] = "success",
                [SR_RUN_ERROR] = "error",
                [SR_RUN_TIMEOUT] = "timeout",
                [SR_RUN_COMPILE_ERROR] = "compile_error",
        };

        return names[status];
}

const char *sr_run_reason_name(enum sr_run_reason reason)
{
        static const char *const names[] = {
                [SR_REASON_EXIT] = "exit",
                [SR_REASON_SIGNAL] = "signal",
                [SR_REASON_TIMEOUT] = "timeout",
                [SR_REASON_MEMORY_LIMIT] = "memory_limit",
                [SR_REASON_OUTPUT_LIMIT] = "output_limit",
                [SR_REASON_REFUSED] = "refused",
                [SR_REASON_CANCELLED] = "cancelled",
                [SR_REASON_INTERNAL] = "internal",
        };

        return names[reason];
}

static void write_exit_code(struct sr_json_writer *w, bool known, int code)
{
        if (known)
                sr_json_integer(w, "exit_code", code);
        else
                sr_json_null(w, "exit_code");
}

static void write_usage(struct sr_json_writer *w, bool known, double cpu_ms, int64_t peak_memory_bytes)
{
        if (known) {
                sr_json_number(w, "cpu_ms", cpu_ms, 3);
                sr_json_integer(w, "peak_memory_bytes", peak_memory_bytes);
        } else {
                sr_json_null(w, "cpu_ms");
                sr_json_null(w, "peak_memory_bytes");
        }
}

static void write_stages(const struct sr_run_result *result, struct sr_json_writer *w)
{
        sr_json_open_array(w, "stages");
        for (size_t i = 0; i < result->stage_count; i++) {
                const struct sr_run_stage *stage = &result->stages[i];

                sr_json_open_object(w, NULL);
                sr_json_string(w, "name", stage->name);
                write_exit_code(w, stage->has_exit_code, stage->exit_code);
                sr_json_number(w, "launch_ms", stage->launch_ms, 3);
                sr_json_number(w, "wall_ms", stage->wall_ms, 3);
                write_usage(w, stage->has_usage, stage->cpu_ms, stage->peak_memory_bytes);
                sr_json_integer(w, "memory_limit_bytes", (int64_t)stage->given.memory_bytes);
                sr_json_number(w, "cpu_limit", (double)stage->given.cpu_millis / 1e3, 3);
                sr_json_integer(w, "pids_limit", stage->given.pids);
                sr_json_close_object(w);
        }
        sr_json_close_array(w);
}

// Which limits the program ran into on the way, whether or not one ended it.
void sr_run_result_write_hits(const struct sr_run_result *result, struct sr_json_writer *w)
{
        static const struct {
                enum sr_limit_hit hit;
                const char *name;
        } hits[] = {
                {SR_HIT_MEMORY, "memory"},
                {SR_HIT_PIDS, "pids"},
                {SR_HIT_TMP, "tmp"},
                {SR_HIT_SCRATCH, "scratch"},
        };

        sr_json_open_array(w, "limits_hit");
        for (size_t i = 0; i < sizeof(hits) / sizeof(hits[0]); i++)
                if ((result->hits & hits[i].hit) != 0)
                        sr_json_string(w, NULL, hits[i].name);
        if (result->hit_output)
                sr_json_string(w, NULL, "output");
        sr_json_close_array(w);
}

// What holds each limit, or would have.
void sr_run_result_write_limits(const struct sr_run_result *result, struct sr_json_writer *w)
{
        if (!result->has_limits) {
                sr_json_null(w, "limits");
                return;
        }
        sr_json_open_object(w, "limits");
        for (int i = 0; i < SR_CONTROLLER_COUNT; i++)
                sr_json_string(w, sr_controller_name(i), sr_enforcer_name(result->limits.by[i]));
        sr_json_close_object(w);
}

void sr_run_result_write(const struct sr_run_result *result, struct sr_json_writer *w, const char *key)
{
        sr_json_open_object(w, key);
        sr_json_string(w, "status", sr_run_status_name(result->status));
        write_exit_code(w, result->has_exit_code, result->exit_code);
        sr_json_string_n(w, "stdout", result->out, result->out_length);
        sr_json_string_n(w, "stderr", result->err, result->err_length);
        sr_json_number(w, "duration_ms", result->duration_ms, 2);
        sr_json_string(w, "language", result->language);

        sr_json_string(w, "reason", sr_run_reason_name(result->reason));
        if (result->signal != 0)
                sr_json_integer(w, "signal", result->signal);
        else
                sr_json_null(w, "signal");
        sr_run_result_write_hits(result, w);
        sr_run_result_write_limits(result, w);
        sr_json_bool(w, "stdout_truncated", result->out_truncated);
        sr_json_bool(w, "stderr_truncated", result->err_truncated);
        sr_json_integer(w, "stdout_bytes", (int64_t)result->out_total);
        sr_json_integer(w, "stderr_bytes", (int64_t)result->err_total);
        sr_json_number(w, "queue_ms", result->queue_ms, 2);
        write_usage(w, result->has_usage, result->cpu_ms, result->peak_memory_bytes);
        sr_json_string_or_null(w, "image", result->image);
        sr_json_string_or_null(w, "image_digest", result->image_digest);
        if (result->compiler_output_length > 0)
                sr_json_string_n(w, "compiler_output", result->compiler_output,
                                 result->compiler_output_length);
        sr_json_bool(w, "cached", false); // nothing is kept from one run to the next yet
        write_stages(result, w);
        if (result->history_problem != NULL)
                sr_json_string(w, "history_problem", result->history_problem);
        sr_json_close_object(w);
}

struct sr_run_result *sr_run_result_free(struct sr_run_result *result)
{
        if (result != NULL) {
                free(result->out);
                free(result->err);
                free(result->problem);
                free(result->language);
                free(result->image);
                free(result->image_digest);
                free(result->compiler_output);
                free(result->history_problem);
                free(result);
        }
        return NULL;
}

void sr_run_result_freep(struct sr_run_result **result)
{
        *result = sr_run_result_free(*result);
}
