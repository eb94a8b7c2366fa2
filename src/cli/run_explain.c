// The end of a run in sentences, each with the knob that gives more.

#include "cli/run_explain.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "cli/cli.h"

// A stage and whose limits it had.
struct stage {
        const struct sr_run_stage *is;
        bool compiles;
        const struct sr_config *config;
        const struct sr_config_stage *own; // of the language; what is 0 is the configuration's
        const char *path;                  // of the language's file
};

static struct stage describe(const struct sr_run_stage *is, const struct sr_config *config,
                             const struct sr_language *language)
{
        bool compiles = strcmp(is->name, "compile") == 0;

        return (struct stage){
                .is = is,
                .compiles = compiles,
                .config = config,
                .own = compiles ? &language->compile_limits : &language->run_limits,
                .path = language->path,
        };
}

// How the compile stage gets more of what it has given of: twice as much, from whoever decides. The caller
// frees it.
static char *more(const struct stage *stage, bool own, const char *tunable, uint64_t given)
{
        if (own)
                return sr_asprintf("%s gives it that", stage->path);

        _cleanup_free_ char *text = sr_config_text(tunable, 2 * given);

        return sr_asprintf("--set %s=%s gives it more", tunable, text);
}

static void explain_compile_end(const struct sr_run_result *result, const struct stage *stage)
{
        const struct sr_config_stage *given = &stage->is->given;
        _cleanup_free_ char *size = NULL, *knob = NULL;

        switch (result->reason) {
        case SR_REASON_TIMEOUT:
                knob = more(stage, stage->own->timeout_us != 0, "compile.timeout", given->timeout_us);
                sr_cli_say("the compile stage timed out after %g second%s (%s)",
                           (double)given->timeout_us / 1e6, given->timeout_us == 1000000u ? "" : "s", knob);
                break;
        case SR_REASON_MEMORY_LIMIT:
                size = sr_size_exact(given->memory_bytes);
                knob = more(stage, stage->own->memory_bytes != 0, "compile.memory", given->memory_bytes);
                sr_cli_say("the compile stage ran out of memory: it may have %s (%s)", size, knob);
                break;
        case SR_REASON_OUTPUT_LIMIT:
                size = sr_size_exact(stage->config->output_kill_bytes);
                sr_cli_say("the compile stage was ended: it wrote more than %s (output.kill)", size);
                break;
        default:
                break;
        }
}

static void explain_end(const struct sr_run_result *result, const struct stage *stage)
{
        const struct sr_config_stage *given = &stage->is->given;
        unsigned long long seconds = given->timeout_us / 1000000u;
        _cleanup_free_ char *size = NULL, *most = NULL;

        switch (result->reason) {
        case SR_REASON_TIMEOUT:
                sr_cli_say(
                        "the program was ended: it took longer than %llu second%s (-t gives it more, up to "
                        "the %u of run.max_timeout)",
                        seconds, seconds == 1 ? "" : "s", stage->config->max_timeout_s);
                break;
        case SR_REASON_SIGNAL:
                sr_cli_say("the program was ended by signal %d (%s)", result->signal,
                           strsignal(result->signal));
                break;
        case SR_REASON_MEMORY_LIMIT:
                size = sr_size_exact(given->memory_bytes);
                most = sr_size_exact(stage->config->max_memory_bytes);
                sr_cli_say(
                        "the program was ended: it reached its memory limit of %s (--memory gives it more, "
                        "up to the %s of run.max_memory)",
                        size, most);
                break;
        case SR_REASON_OUTPUT_LIMIT:
                size = sr_size_exact(stage->config->output_kill_bytes);
                sr_cli_say("the program was ended: it wrote more than %s (output.kill)", size);
                break;
        default:
                break;
        }
}

static void say_full(const struct stage *stage, const char *what, uint64_t bytes, bool own,
                     const char *tunable)
{
        _cleanup_free_ char *size = sr_size_exact(bytes);

        sr_cli_say("%s%s was full (%s, %u files; %s, run.inodes)", stage->compiles ? "compiling: " : "", what,
                   size, (unsigned)stage->config->inodes, own ? stage->path : tunable);
}

// What it ran into and came through, or failed of in its own way.
static void explain_hits(const struct stage *stage)
{
        const struct sr_config_stage *given = &stage->is->given, *own = stage->own;
        const char *who = stage->compiles ? "the compiler" : "the program";
        unsigned hits = stage->is->hits;
        _cleanup_free_ char *size = NULL, *memory = NULL, *pids = NULL;

        if ((hits & SR_HIT_MEMORY) != 0) {
                size = sr_size_exact(given->memory_bytes);
                if (stage->compiles)
                        memory = more(stage, own->memory_bytes != 0, "compile.memory", given->memory_bytes);
                sr_cli_say("%s reached its memory limit of %s (%s)", who, size,
                           stage->compiles ? memory : "--memory gives it more");
        }
        if ((hits & SR_HIT_PIDS) != 0) {
                if (stage->compiles)
                        pids = more(stage, own->pids != 0, "compile.pids", given->pids);
                sr_cli_say("%s reached its limit of %u process%s and threads (%s)", who,
                           (unsigned)given->pids, given->pids == 1 ? "" : "es",
                           stage->compiles ? pids : "--pids gives it more");
        }
        if ((hits & SR_HIT_TMP) != 0)
                say_full(stage, "/tmp or /dev/shm", given->tmp_bytes, own->tmp_bytes != 0,
                         stage->compiles ? "compile.tmp" : "run.tmp");
        if ((hits & SR_HIT_SCRATCH) != 0)
                say_full(stage, "/scratch", given->scratch_bytes, own->scratch_bytes != 0, "run.scratch");
}

void sr_run_explain(const struct sr_run_result *result, const struct sr_config *config,
                    const struct sr_language *language)
{
        bool ended_itself = result->reason == SR_REASON_EXIT || result->reason == SR_REASON_SIGNAL;

        for (size_t i = 0; i < result->stage_count; i++) {
                const struct stage stage = describe(&result->stages[i], config, language);
                bool last = i + 1 == result->stage_count;

                if (last && stage.compiles)
                        explain_compile_end(result, &stage);
                else if (last)
                        explain_end(result, &stage);
                if (!last || ended_itself)
                        explain_hits(&stage);
        }
}
