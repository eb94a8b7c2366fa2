// From a valid request to a verdict: compile where the language has a compiler, then run.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/size.h"
#include "run/capture.h"
#include "run/runner.h"

static void set_text(char **text, size_t *length, char *value, size_t value_length)
{
        free(*text);
        *text = value;
        *length = value_length;
}

static void fill_spec(const struct sr_run_plan *plan, uint32_t inodes, bool compile,
                      struct sr_sandbox_spec *ret)
{
        const struct sr_config_stage *limits = compile ? &plan->compile_limits : &plan->run_limits;
        // A compiled program may read what the compiler made but no longer change it.
        bool writable = compile || plan->language->compile == NULL;

        *ret = (struct sr_sandbox_spec){
                .root = SR_SANDBOX_ROOT_TREE,
                .store = plan->image->store,
                .chain_id = plan->image->chain_id,
                .arguments = compile ? plan->language->compile : plan->run,
                .environment = plan->environment,
                .scratch = writable ? SR_SANDBOX_SCRATCH_WRITE : SR_SANDBOX_SCRATCH_READ,
                .in_scratch = writable,
                .timeout_ns = limits->timeout_us * 1000u,
                .tmp_bytes = limits->tmp_bytes,
                .tmp_inodes = inodes,
                .file_bytes = limits->file_bytes,
                .open_files = limits->open_files,
                .memory_bytes = limits->memory_bytes,
                .cpu_millis = limits->cpu_millis,
                .processes = limits->pids,
                .program_fd = -1,
                .directory_fd = -1,
        };
}

// After judge(): the stage ended as the run does, unless another stage follows.
static void add_stage(struct sr_run_result *result, const char *name, const struct sr_config_stage *given,
                      const struct sr_capture *capture)
{
        const struct sr_sandbox_outcome *outcome = &capture->outcome;
        struct sr_run_stage *stage = &result->stages[result->stage_count++];

        *stage = (struct sr_run_stage){
                .name = name,
                .launch_ms = (double)outcome->launch_ns / 1e6,
                .wall_ms = (double)outcome->wall_ns / 1e6,
                .given = *given,
                .hits = outcome->hits,
                .has_exit_code = result->has_exit_code,
                .exit_code = result->exit_code,
        };
        if (outcome->has_usage) {
                stage->has_usage = true;
                stage->cpu_ms = (double)outcome->cpu_us / 1e3;
                stage->peak_memory_bytes = (int64_t)outcome->peak_bytes;
        }
        result->has_usage = stage->has_usage && (result->has_usage || result->stage_count == 1);
        result->cpu_ms += stage->cpu_ms;
        if (stage->peak_memory_bytes > result->peak_memory_bytes)
                result->peak_memory_bytes = stage->peak_memory_bytes;
        if (outcome->end == SR_SANDBOX_MEMORY)
                stage->hits |= SR_HIT_MEMORY;
        result->hits |= stage->hits;
        result->has_limits = true;
        result->limits = outcome->limits;
}

static void take_output(const struct sr_capture *capture, struct sr_run_result *result)
{
        size_t length;
        char *text = sr_capture_text(&capture->out, &length, &result->out_truncated);

        set_text(&result->out, &result->out_length, text, length);
        text = sr_capture_text(&capture->err, &length, &result->err_truncated);
        set_text(&result->err, &result->err_length, text, length);
        result->out_total = capture->out.total;
        result->err_total = capture->err.total;
        // A compiler's too.
        if (result->out_truncated || result->err_truncated || capture->over_the_limit)
                result->hit_output = true;
}

// A fault of ours: what the program wrote so far stays, and our sentence follows on its stderr.
static void judge_internal(struct sr_run_result *result, const char *message)
{
        struct sr_buf text = {0};
        size_t length;

        result->status = SR_RUN_ERROR;
        result->reason = SR_REASON_INTERNAL;
        result->has_exit_code = false;
        free(result->problem);
        result->problem = sr_strdup(message);
        sr_buf_append(&text, result->err, result->err_length);
        if (text.len > 0 && text.data[text.len - 1] != '\n')
                sr_buf_append_char(&text, '\n');
        sr_buf_append_text(&text, message);
        char *joined = sr_buf_steal(&text, &length);
        set_text(&result->err, &result->err_length, joined, length);
}

// How the program ended, in the result's terms. What happened to it decides, not what it printed.
static void judge(const struct sr_capture *capture, struct sr_run_result *result)
{
        int status = capture->outcome.wait_status;

        result->status = SR_RUN_ERROR;
        result->has_exit_code = false;
        result->signal = 0;
        if (capture->outcome.end == SR_SANDBOX_TIMEOUT) {
                result->status = SR_RUN_TIMEOUT;
                result->reason = SR_REASON_TIMEOUT;
        } else if (capture->outcome.end == SR_SANDBOX_KILLED) {
                result->reason = capture->over_the_limit ? SR_REASON_OUTPUT_LIMIT : SR_REASON_CANCELLED;
                result->signal = capture->over_the_limit ? SIGKILL : 0;
                result->has_exit_code = capture->over_the_limit;
                result->exit_code = 128 + SIGKILL;
        } else if (capture->outcome.end == SR_SANDBOX_MEMORY) {
                result->reason = SR_REASON_MEMORY_LIMIT;
                result->signal = SIGKILL;
                result->has_exit_code = true;
                result->exit_code = 128 + SIGKILL;
        } else if (capture->outcome.end == SR_SANDBOX_DIED) {
                judge_internal(
                        result,
                        "The sandbox was killed from outside while this ran (by the host's out-of-memory "
                        "killer or by hand); run it again.");
        } else if (WIFSIGNALED(status)) {
                result->reason = SR_REASON_SIGNAL;
                result->signal = WTERMSIG(status);
                result->has_exit_code = true;
                result->exit_code = 128 + WTERMSIG(status);
        } else {
                result->reason = SR_REASON_EXIT;
                result->has_exit_code = true;
                result->exit_code = WEXITSTATUS(status);
                if (result->exit_code == 0)
                        result->status = SR_RUN_SUCCESS;
        }
}

static void prepend_verdict(struct sr_run_result *result, const char *line)
{
        struct sr_buf text = {0};
        size_t length;

        sr_buf_append_text(&text, line);
        sr_buf_append(&text, result->err, result->err_length);
        char *joined = sr_buf_steal(&text, &length);
        set_text(&result->err, &result->err_length, joined, length);
        result->verdict_length = strlen(line);
}

static void keep_compiler_output(const struct sr_capture *capture, struct sr_run_result *result)
{
        bool truncated;

        // Compilers write diagnostics to stderr; what one wrote to stdout is nobody's output here.
        if (capture->err.total > 0)
                result->compiler_output =
                        sr_capture_text(&capture->err, &result->compiler_output_length, &truncated);
}

// A compiler that was ended says nothing of it, and neither status nor reason say which stage it was.
static void explain_compile_end(const struct sr_run_plan *plan, const struct sr_config *config,
                                struct sr_run_result *result)
{
        const struct sr_config_stage *given = &plan->compile_limits, *own = &plan->language->compile_limits;
        _cleanup_free_ char *size = NULL, *line = NULL;

        switch (result->reason) {
        case SR_REASON_TIMEOUT:
                line = sr_asprintf("The compile stage timed out after %g second%s (%s).\n",
                                   (double)given->timeout_us / 1e6, given->timeout_us == 1000000u ? "" : "s",
                                   own->timeout_us != 0 ? "limits of its language" : "compile.timeout");
                break;
        case SR_REASON_MEMORY_LIMIT:
                size = sr_size_exact(given->memory_bytes);
                line = sr_asprintf("The compile stage ran out of memory: it may have %s (%s).\n", size,
                                   own->memory_bytes != 0 ? "limits of its language" : "compile.memory");
                break;
        case SR_REASON_OUTPUT_LIMIT:
                size = sr_size_exact(config->output_kill_bytes);
                line = sr_asprintf("The compile stage was ended: it wrote more than %s (output.kill).\n",
                                   size);
                break;
        default:
                return;
        }
        prepend_verdict(result, line);
}

// true when the program may run now.
static bool compile(struct sr_sandbox *sandbox, const struct sr_config *config,
                    const struct sr_run_plan *plan, struct sr_capture_options options,
                    struct sr_run_result *result)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_sandbox_spec spec;
        struct sr_capture capture;

        // A compiler speaks when it is done: before the program, or in its place.
        void (*output)(void *, int, const char *, size_t) = options.output;

        options.stdin_fd = -1;
        options.output = NULL;
        fill_spec(plan, config->inodes, true, &spec);
        if (sr_capture_run(sandbox, &spec, &options, &capture, &error) < 0) {
                sr_error_prefix(&error, 0, "compiling");
                take_output(&capture, result);
                judge_internal(result, sr_error_message(error));
                sr_capture_clear(&capture);
                return false;
        }
        take_output(&capture, result);
        judge(&capture, result);
        add_stage(result, "compile", &plan->compile_limits, &capture);
        if (result->status == SR_RUN_SUCCESS) {
                keep_compiler_output(&capture, result);
                if (output != NULL && capture.err.kept.len > 0)
                        output(options.output_context, 2, capture.err.kept.data, capture.err.kept.len);
        } else {
                // Whatever else ended it, it was not the compiler's verdict.
                if (result->reason == SR_REASON_EXIT || result->reason == SR_REASON_SIGNAL)
                        result->status = SR_RUN_COMPILE_ERROR;
                else
                        explain_compile_end(plan, config, result);
        }
        sr_capture_clear(&capture);
        return result->status == SR_RUN_SUCCESS;
}

static void run(struct sr_sandbox *sandbox, const struct sr_config *config, const struct sr_run_plan *plan,
                const struct sr_capture_options *options, struct sr_run_result *result)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_sandbox_spec spec;
        struct sr_capture capture;

        fill_spec(plan, config->inodes, false, &spec);
        if (sr_capture_run(sandbox, &spec, options, &capture, &error) < 0) {
                take_output(&capture, result);
                judge_internal(result, sr_error_message(error));
        } else {
                take_output(&capture, result);
                judge(&capture, result);
                add_stage(result, "run", &plan->run_limits, &capture);
        }
        sr_capture_clear(&capture);
}

void sr_run_stages(struct sr_runner *runner, const struct sr_run_plan *plan,
                   const struct sr_run_request *request, const int *cancel_fds, size_t cancel_count,
                   struct sr_run_result *result)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_sandbox_ struct sr_sandbox *sandbox = NULL;
        const struct sr_config *config = runner->config;
        struct sr_capture_options options = {
                .keep_bytes = config->output_keep_bytes,
                .kill_bytes = config->output_kill_bytes,
                .stdin_fd = request->stdin_fd,
                .cancel_fds = cancel_fds,
                .cancel_count = cancel_count,
                .output = request->output,
                .output_context = request->output_context,
                .late = request->late,
        };
        bool compiled = plan->language->compile != NULL;

        sr_run_list_enter(plan->entry, compiled ? SR_RUN_COMPILES : SR_RUN_RUNS,
                          compiled ? plan->compile_limits.timeout_us : plan->run_limits.timeout_us);

        int r = sr_sandbox_open(runner->spawner, &sandbox, &error);

        // The spawner may be another than when the request was checked.
        if (r == 0 && sr_run_check_strict(runner, sandbox, &error) < 0) {
                sr_run_refuse(result, SR_REASON_REFUSED, error);
                return;
        }
        if (r == 0)
                r = sr_sandbox_make_scratch(sandbox, plan->run_limits.scratch_bytes, config->inodes, &error);
        if (r == 0)
                r = sr_sandbox_write_file(sandbox, plan->language->source, request->code,
                                          request->code_length, &error);
        if (r < 0) {
                judge_internal(result, sr_error_message(error));
                return;
        }
        if (compiled) {
                if (!compile(sandbox, config, plan, options, result))
                        return;
                sr_run_list_enter(plan->entry, SR_RUN_RUNS, plan->run_limits.timeout_us);
        }
        run(sandbox, config, plan, &options, result);
}
