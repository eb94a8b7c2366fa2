// The result object: its members, their order, and what is null when nothing is known.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "run/run.h"

static char *written(const struct sr_run_result *result)
{
        struct sr_buf out = {0};
        struct sr_json_writer w = {.out = &out, .first = true};

        sr_run_result_write(result, &w, NULL);
        return sr_buf_steal(&out, NULL);
}

static void assert_holds(const char *text, const char *part)
{
        if (strstr(text, part) == NULL)
                fail_msg("\"%s\" is not in: %s", part, text);
}

static void a_run_that_needed_too_much(void **state)
{
        _cleanup_result_ struct sr_run_result *result = sr_new(struct sr_run_result);

        (void)state;
        *result = (struct sr_run_result){
                .status = SR_RUN_ERROR,
                .has_exit_code = true,
                .exit_code = 137,
                .out = sr_strdup("a"),
                .out_length = 1,
                .err = sr_strdup(""),
                .duration_ms = 1.5,
                .language = sr_strdup("python"),
                .reason = SR_REASON_MEMORY_LIMIT,
                .signal = 9,
                .hits = SR_HIT_SCRATCH | SR_HIT_TMP | SR_HIT_PIDS | SR_HIT_MEMORY,
                .hit_output = true,
                .has_limits = true,
                .limits = {{SR_ENFORCER_CGROUP2, SR_ENFORCER_CGROUP1, SR_ENFORCER_WATCHDOG}},
                .stage_count = 1,
                .stages = {{.name = "run",
                            .has_exit_code = true,
                            .exit_code = 137,
                            .launch_ms = 2,
                            .wall_ms = 3,
                            .has_usage = true,
                            .cpu_ms = 4,
                            .peak_memory_bytes = 5,
                            .given = {.memory_bytes = 268435456, .cpu_millis = 500, .pids = 64}}},
        };

        _cleanup_free_ char *text = written(result);

        static const char begin[] = "{\"status\":\"error\",\"exit_code\":137,\"stdout\":\"a\",\"stderr\":"
                                    "\"\",\"duration_ms\":1.5,"
                                    "\"language\":\"python\",\"reason\":\"memory_limit\",\"signal\":9,"
                                    "\"limits_hit\":[\"memory\",\"pids\",\"tmp\",\"scratch\",\"output\"],"
                                    "\"limits\":{\"memory\":\"cgroup2\",\"cpu\":\"cgroup1\",\"pids\":"
                                    "\"watchdog\"},\"stdout_trunc";

        assert_ptr_equal(strstr(text, begin), text);
        assert_holds(text,
                     "\"stages\":[{\"name\":\"run\",\"exit_code\":137,\"launch_ms\":2.0,\"wall_ms\":3.0,"
                     "\"cpu_ms\":4.0,\"peak_memory_bytes\":5,\"memory_limit_bytes\":268435456,"
                     "\"cpu_limit\":0.5,\"pids_limit\":64}]");
}

static void each_limit_by_its_name(void **state)
{
        static const struct {
                unsigned hits;
                bool output;
                const char *text;
        } cases[] = {
                {0, false, "\"limits_hit\":[],"},
                {SR_HIT_MEMORY, false, "\"limits_hit\":[\"memory\"],"},
                {SR_HIT_PIDS, false, "\"limits_hit\":[\"pids\"],"},
                {SR_HIT_TMP, false, "\"limits_hit\":[\"tmp\"],"},
                {SR_HIT_SCRATCH, false, "\"limits_hit\":[\"scratch\"],"},
                {0, true, "\"limits_hit\":[\"output\"],"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_result_ struct sr_run_result *result =
                        sr_run_result_new_refused("x", SR_REASON_REFUSED, "no");

                result->hits = cases[i].hits;
                result->hit_output = cases[i].output;

                _cleanup_free_ char *text = written(result);

                assert_holds(text, cases[i].text);
        }
}

static void of_a_refusal_without_a_runner_nothing_is_known(void **state)
{
        _cleanup_result_ struct sr_run_result *result =
                sr_run_result_new_refused(" Python ", SR_REASON_REFUSED, "no");
        _cleanup_free_ char *text = written(result);

        (void)state;
        assert_string_equal(
                text,
                "{\"status\":\"error\",\"exit_code\":null,\"stdout\":\"\",\"stderr\":\"no\","
                "\"duration_ms\":0.0,\"language\":\"python\",\"reason\":\"refused\",\"signal\":null,"
                "\"limits_hit\":[],\"limits\":null,\"stdout_truncated\":false,\"stderr_truncated\":false,"
                "\"stdout_bytes\":0,\"stderr_bytes\":0,\"queue_ms\":0.0,\"cpu_ms\":null,"
                "\"peak_memory_bytes\":null,\"image\":null,\"image_digest\":null,\"cached\":false,"
                "\"stages\":[]}");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_run_that_needed_too_much),
                cmocka_unit_test(each_limit_by_its_name),
                cmocka_unit_test(of_a_refusal_without_a_runner_nothing_is_known),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
