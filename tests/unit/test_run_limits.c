// Which limits a run gets, which are refused, and what strict limits ask of a host.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "run/limits.h"

#define MIB (UINT64_C(1) << 20)

static char language_path[] = "/etc/languages/go.json";

// As sr_config_load() has them, small.
static const struct sr_config config = {
        .max_memory_bytes = 1024 * MIB,
        .max_cpu_millis = 2000,
        .max_pids = 100,
        .compile = {.timeout_us = 30000000,
                    .memory_bytes = 512 * MIB,
                    .cpu_millis = 1000,
                    .pids = 64,
                    .scratch_bytes = 64 * MIB,
                    .tmp_bytes = 64 * MIB,
                    .file_bytes = 1024 * MIB,
                    .open_files = 512},
        .run = {.timeout_us = 10000000,
                .memory_bytes = 256 * MIB,
                .cpu_millis = 500,
                .pids = 50,
                .scratch_bytes = 64 * MIB,
                .tmp_bytes = 64 * MIB,
                .file_bytes = 1024 * MIB,
                .open_files = 512},
};

static void the_configuration_where_nobody_says_anything(void **state)
{
        const struct sr_language language = {.path = language_path};
        const struct sr_run_request request = {.timeout_s = 7};
        struct sr_config_stage compile, run;

        (void)state;
        assert_int_equal(sr_run_limits(&config, &language, &request, &compile, &run, NULL), 0);
        assert_memory_equal(&compile, &config.compile, sizeof(compile));
        assert_int_equal(run.timeout_us, 7000000);
        run.timeout_us = config.run.timeout_us;
        assert_memory_equal(&run, &config.run, sizeof(run));
}

static void the_language_before_the_configuration(void **state)
{
        const struct sr_language language = {
                .path = language_path,
                // Its compile stage may have more than a run may ask for.
                .compile_limits = {.timeout_us = 60000000, .memory_bytes = 4096 * MIB, .cpu_millis = 4000},
                .run_limits = {.memory_bytes = 1024 * MIB,
                               .pids = 100,
                               .scratch_bytes = 128 * MIB,
                               .tmp_bytes = 1 * MIB,
                               .file_bytes = 2 * MIB,
                               .open_files = 99},
        };
        const struct sr_run_request request = {.timeout_s = 1};
        struct sr_config_stage compile, run;

        (void)state;
        assert_int_equal(sr_run_limits(&config, &language, &request, &compile, &run, NULL), 0);
        assert_int_equal(compile.timeout_us, 60000000);
        assert_int_equal(compile.memory_bytes, 4096 * MIB);
        assert_int_equal(compile.cpu_millis, 4000);
        assert_int_equal(compile.pids, 64);
        assert_int_equal(compile.tmp_bytes, 64 * MIB);
        assert_int_equal(run.memory_bytes, 1024 * MIB);
        assert_int_equal(run.cpu_millis, 500);
        assert_int_equal(run.pids, 100);
        assert_int_equal(run.tmp_bytes, MIB);
        assert_int_equal(run.file_bytes, 2 * MIB);
        assert_int_equal(run.open_files, 99);
        // One /scratch for both.
        assert_int_equal(run.scratch_bytes, 128 * MIB);
        assert_int_equal(compile.scratch_bytes, 128 * MIB);
}

static void the_request_before_the_language(void **state)
{
        // More than may be, but the request asks for less.
        const struct sr_language language = {.path = language_path,
                                             .compile_limits = {.memory_bytes = 300 * MIB},
                                             .run_limits = {.memory_bytes = 4096 * MIB, .cpu_millis = 1000}};
        const struct sr_run_request request = {
                .timeout_s = 1, .memory_bytes = 8 * MIB, .cpu_millis = 10, .pids = 1};
        struct sr_config_stage compile, run;

        (void)state;
        assert_int_equal(sr_run_limits(&config, &language, &request, &compile, &run, NULL), 0);
        assert_int_equal(run.memory_bytes, 8 * MIB);
        assert_int_equal(run.cpu_millis, 10);
        assert_int_equal(run.pids, 1);
        assert_int_equal(compile.memory_bytes, 300 * MIB);
        assert_int_equal(compile.cpu_millis, 1000);
        assert_int_equal(compile.pids, 64);
}

static void refusals_name_the_bound_and_its_tunable(void **state)
{
        static const struct {
                struct sr_run_request request;
                struct sr_config_stage language;
                const char *message;
        } cases[] = {
                {{.memory_bytes = 1025 * MIB},
                 {0},
                 "The memory limit asked for is 1025 MiB; at most 1 GiB may be asked for (run.max_memory)."},
                {{.memory_bytes = 8 * MIB - 1},
                 {0},
                 "The memory limit asked for is 8388607 bytes; it must be at least 8 MiB."},
                {{.memory_bytes = UINT64_MAX},
                 {0},
                 "The memory limit asked for is too large; at most 1 GiB may be asked for (run.max_memory)."},
                {{.cpu_millis = 2001},
                 {0},
                 "The processor limit asked for is 2.001; at most 2 may be asked for (run.max_cpus)."},
                {{.cpu_millis = 9}, {0}, "The processor limit asked for is 0.009; it must be at least 0.01."},
                {{.cpu_millis = UINT64_C(0x100000001)}, {0}, "run.max_cpus"},
                {{.pids = 101},
                 {0},
                 "The limit of processes and threads asked for is 101; at most 100 may be asked for "
                 "(run.max_pids)."},
                {{.pids = UINT64_C(0x100000001)}, {0}, "run.max_pids"},
                {{0},
                 {.memory_bytes = 2048 * MIB},
                 "The language file /etc/languages/go.json gives runs a memory limit of 2 GiB, which is "
                 "above "
                 "run.max_memory (1 GiB): lower the one or raise the other."},
                {{0},
                 {.cpu_millis = 2500},
                 "gives runs a processor limit of 2.5, which is above run.max_cpus (2)"},
                {{0}, {.pids = 101}, "run.max_pids (100)"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL;
                const struct sr_language language = {.path = language_path, .run_limits = cases[i].language};
                struct sr_config_stage compile = {.pids = 77}, run = {.pids = 77};
                int r = sr_run_limits(&config, &language, &cases[i].request, &compile, &run, &error);

                assert_int_equal(r, -ERANGE);
                if (strstr(sr_error_message(error), cases[i].message) == NULL)
                        fail_msg("\"%s\" is not in: %s", cases[i].message, sr_error_message(error));
                assert_int_equal(compile.pids, 77);
                assert_int_equal(run.pids, 77);
        }
}

static void strict_limits_take_cgroups_alone(void **state)
{
        static const struct {
                struct sr_limits limits;
                const char *names; // NULL: all well
        } cases[] = {
                {{{SR_ENFORCER_CGROUP2, SR_ENFORCER_CGROUP2, SR_ENFORCER_CGROUP2}}, NULL},
                {{{SR_ENFORCER_CGROUP1, SR_ENFORCER_CGROUP2, SR_ENFORCER_CGROUP1}}, NULL},
                {{{SR_ENFORCER_WATCHDOG, SR_ENFORCER_CGROUP2, SR_ENFORCER_CGROUP2}}, "holds memory here"},
                {{{SR_ENFORCER_CGROUP2, SR_ENFORCER_NONE, SR_ENFORCER_CGROUP2}}, "holds cpu here"},
                {{{SR_ENFORCER_WATCHDOG, SR_ENFORCER_CGROUP1, SR_ENFORCER_WATCHDOG}}, "memory and pids here"},
                {{{SR_ENFORCER_NONE, SR_ENFORCER_NONE, SR_ENFORCER_NONE}}, "memory, cpu and pids here"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL, *silent = NULL;
                int r = sr_run_limits_strict(&cases[i].limits, "there is none", &error);

                if (cases[i].names == NULL) {
                        assert_int_equal(r, 0);
                        continue;
                }
                assert_int_equal(r, -ENOTSUP);
                assert_non_null(strstr(sr_error_message(error), cases[i].names));
                assert_non_null(strstr(sr_error_message(error), "sandbox.strict_limits"));
                assert_non_null(strstr(sr_error_message(error), ": there is none"));
                assert_int_equal(sr_run_limits_strict(&cases[i].limits, NULL, &silent), -ENOTSUP);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_configuration_where_nobody_says_anything),
                cmocka_unit_test(the_language_before_the_configuration),
                cmocka_unit_test(the_request_before_the_language),
                cmocka_unit_test(refusals_name_the_bound_and_its_tunable),
                cmocka_unit_test(strict_limits_take_cgroups_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
