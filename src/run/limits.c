#include "run/limits.h"

#include <errno.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/size.h"

// One limit that a request may choose.
static const struct choice {
        const char *what;
        size_t request;             // of the uint64_t in struct sr_run_request
        size_t stage;               // of the member of struct sr_config_stage
        size_t ceiling;             // of the member of struct sr_config
        bool wide;                  // both are uint64_t, else uint32_t
        const char *tunable, *most; // names
} choices[] = {
        {"memory limit", offsetof(struct sr_run_request, memory_bytes),
         offsetof(struct sr_config_stage, memory_bytes), offsetof(struct sr_config, max_memory_bytes), true,
         "run.memory", "run.max_memory"},
        {"processor limit", offsetof(struct sr_run_request, cpu_millis),
         offsetof(struct sr_config_stage, cpu_millis), offsetof(struct sr_config, max_cpu_millis), false,
         "run.cpus", "run.max_cpus"},
        {"limit of processes and threads", offsetof(struct sr_run_request, pids),
         offsetof(struct sr_config_stage, pids), offsetof(struct sr_config, max_pids), false, "run.pids",
         "run.max_pids"},
};

static uint64_t get(const void *base, size_t offset, bool wide)
{
        const void *from = (const char *)base + offset;

        return wide ? *(const uint64_t *)from : *(const uint32_t *)from;
}

static void set(struct sr_config_stage *stage, size_t offset, bool wide, uint64_t number)
{
        void *to = (char *)stage + offset;

        if (wide)
                *(uint64_t *)to = number;
        else
                *(uint32_t *)to = (uint32_t)number;
}

static char *shown(const struct choice *choice, uint64_t number)
{
        return choice->wide ? sr_size_exact(number) : sr_config_text(choice->tunable, number);
}

// What is 0 stays as it is.
static void overlay(struct sr_config_stage *stage, const struct sr_config_stage *over)
{
        static const struct {
                size_t offset;
                bool wide;
        } members[] = {
                {offsetof(struct sr_config_stage, timeout_us), true},
                {offsetof(struct sr_config_stage, memory_bytes), true},
                {offsetof(struct sr_config_stage, cpu_millis), false},
                {offsetof(struct sr_config_stage, pids), false},
                {offsetof(struct sr_config_stage, scratch_bytes), true},
                {offsetof(struct sr_config_stage, tmp_bytes), true},
                {offsetof(struct sr_config_stage, file_bytes), true},
                {offsetof(struct sr_config_stage, open_files), false},
        };

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                uint64_t number = get(over, members[i].offset, members[i].wide);

                if (number != 0)
                        set(stage, members[i].offset, members[i].wide, number);
        }
}

static int check_request(const struct choice *choice, uint64_t number, uint64_t most, struct sr_error **error)
{
        // As sr_config_parse has a number that needs more than 64 bits.
        bool beyond = number == UINT64_MAX;
        _cleanup_free_ char *asked = beyond ? sr_strdup("too large") : shown(choice, number), *bound = NULL;
        uint64_t least, unused;

        sr_config_range(choice->tunable, &least, &unused);
        if (number >= least && number <= most)
                return 0;
        bound = shown(choice, number < least ? least : most);
        if (number < least)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, ERANGE,
                                    "The %s asked for is %s; it must be at least %s.", choice->what, asked,
                                    bound);
        return sr_error_set(error, SR_ERROR_BAD_REQUEST, ERANGE,
                            "The %s asked for is %s; at most %s may be asked for (%s).", choice->what, asked,
                            bound, choice->most);
}

static int check_language(const struct choice *choice, const struct sr_language *language, uint64_t number,
                          uint64_t most, struct sr_error **error)
{
        _cleanup_free_ char *wanted = shown(choice, number), *bound = shown(choice, most);

        if (number <= most)
                return 0;
        return sr_error_set(
                error, SR_ERROR_LIMIT, ERANGE,
                "The language file %s gives runs a %s of %s, which is above %s (%s): lower the one "
                "or raise the other.",
                language->path, choice->what, wanted, choice->most, bound);
}

int sr_run_limits(const struct sr_config *config, const struct sr_language *language,
                  const struct sr_run_request *request, struct sr_config_stage *ret_compile,
                  struct sr_config_stage *ret_run, struct sr_error **error)
{
        struct sr_config_stage compile = config->compile, run = config->run;

        overlay(&compile, &language->compile_limits);
        overlay(&run, &language->run_limits);
        for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
                const struct choice *choice = &choices[i];
                uint64_t asked = get(request, choice->request, true);
                uint64_t given = get(&language->run_limits, choice->stage, choice->wide);
                uint64_t most = get(config, choice->ceiling, choice->wide);
                int r = asked != 0 ? check_request(choice, asked, most, error)
                                   : check_language(choice, language, given, most, error);

                if (r < 0)
                        return r;
                if (asked != 0)
                        set(&run, choice->stage, choice->wide, asked);
        }
        run.timeout_us = (uint64_t)request->timeout_s * 1000000u;
        compile.scratch_bytes = run.scratch_bytes;
        *ret_compile = compile;
        *ret_run = run;
        return 0;
}

int sr_run_limits_strict(const struct sr_limits *limits, const char *why, struct sr_error **error)
{
        _cleanup_buf_ struct sr_buf names = {0};
        size_t left = 0;

        for (int i = 0; i < SR_CONTROLLER_COUNT; i++)
                left += limits->by[i] < SR_ENFORCER_CGROUP1;
        if (left == 0)
                return 0;
        for (size_t i = 0, seen = 0; i < SR_CONTROLLER_COUNT; i++) {
                if (limits->by[i] >= SR_ENFORCER_CGROUP1)
                        continue;
                seen++;
                sr_buf_printf(&names, "%s%s",
                              seen == 1      ? ""
                              : seen == left ? " and "
                                             : ", ",
                              sr_controller_name((enum sr_controller)i));
        }
        return sr_error_set(
                error, SR_ERROR_HOST, ENOTSUP,
                "Strict limits are wanted (sandbox.strict_limits), but no cgroup holds %s here%s%s",
                names.data, why != NULL ? ": " : ".", why != NULL ? why : "");
}
