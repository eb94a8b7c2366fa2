// What history keeps of a run.
#include <stdlib.h>

#include "base/alloc.h"
#include "run/runner.h"

// The result without its texts and without what the table `runs` has columns for.
static char *describe_facts(const struct sr_run_result *result)
{
        struct sr_buf text = {0};
        struct sr_json_writer w = {.out = &text, .first = true};

        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "reason", sr_run_reason_name(result->reason));
        if (result->signal != 0)
                sr_json_integer(&w, "signal", result->signal);
        sr_run_result_write_hits(result, &w);
        sr_run_result_write_limits(result, &w);
        sr_json_string_or_null(&w, "image", result->image);
        sr_json_string_or_null(&w, "image_digest", result->image_digest);
        sr_json_integer(&w, "stdout_bytes", (int64_t)result->out_total);
        sr_json_integer(&w, "stderr_bytes", (int64_t)result->err_total);
        sr_json_number(&w, "queue_ms", result->queue_ms, 2);
        if (result->has_usage) {
                sr_json_number(&w, "cpu_ms", result->cpu_ms, 2);
                sr_json_integer(&w, "peak_memory_bytes", result->peak_memory_bytes);
        }
        sr_json_close_object(&w);
        return sr_buf_steal(&text, NULL);
}

void sr_run_record(struct sr_runner *runner, const struct sr_run_request *request, int64_t began_us,
                   struct sr_run_result *result)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_free_ char *facts = NULL;
        _cleanup_free_ char *problem = NULL;
        struct sr_history *history = sr_runner_history(runner, &problem);

        if (history == NULL) {
                if (problem != NULL)
                        result->history_problem = sr_asprintf("this run is not in the history: %s", problem);
                return;
        }
        facts = describe_facts(result);
        struct sr_history_record record = {
                .timestamp_us = began_us,
                .language = result->language,
                .code = (char *)(uintptr_t)request->code,
                .code_length = request->code_length,
                .status = (char *)(uintptr_t)sr_run_status_name(result->status),
                .has_exit_code = result->has_exit_code,
                .exit_code = result->exit_code,
                .duration_ms = result->duration_ms,
                .stdout_size = (int64_t)result->out_length,
                .stderr_size = (int64_t)result->err_length,
                .facts = facts,
        };
        if (sr_history_add(history, &record, &result->history_id, &error) < 0)
                result->history_problem =
                        sr_asprintf("this run is not in the history: %s", sr_error_message(error));
        else
                result->history_problem = sr_runner_take_history_notice(runner);
}
