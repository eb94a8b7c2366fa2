// Configuration: mistakes that are collected instead of ending the load, and variables that set nothing.

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "config/config.h"
#include "config_world.h"

// Loads, and expects a problem with each of the words, in that order, and no other.
static struct sr_config *load(struct fixture *f, const char *const *words)
{
        _cleanup_strv_ char **problems = NULL;
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_config *config = NULL;

        f->input.problems = &problems;
        assert_int_equal(sr_config_load(&f->input, &config, &error), 0);
        assert_null(error);
        f->input.problems = NULL;
        for (size_t i = 0; i < sr_strv_length(problems); i++, words++)
                if (*words == NULL || strstr(problems[i], *words) == NULL)
                        fail_msg("unexpected: %s", problems[i]);
        assert_null(*words);
        return config;
}
#define load_despite(f, ...) load(f, (const char *const[]){__VA_ARGS__, NULL})

static void test_problems_are_passed_over(void **state)
{
        struct fixture *f = *state;

        put_file(f->user_file, "{\"run.tiemout\": 3, \"run\": {\"memory\": \"x\", \"pids\": 30}, "
                               "\"output.keep\": \"4M\"}");
        add_variable(f, "SANDBOX_RUNNER_LOG_LEVEL=loud");
        add_variable(f, "SANDBOX_RUNNER_RUN_OPEN_FILES=50");
        add_variable(f, "SANDBOX_RUNNER_OUTPUT_KILL=1M");
        f->flags[0] = (char *)(uintptr_t) "run.timeout=100";
        _cleanup_config_ struct sr_config *c =
                load_despite(f, "run.tiemout", "run.memory: \"x\"", "SANDBOX_RUNNER_LOG_LEVEL", "run.timeout",
                             "output.keep");

        // What is right counts, around what is wrong.
        assert_int_equal(c->run.pids, 30);
        assert_int_equal(c->run.open_files, 50);
        assert_int_equal(c->run.memory_bytes, 256 << 20);
        assert_string_equal(c->log_level, "warning");
        // What does not go together is made to.
        assert_int_equal(c->default_timeout_s, 30);
        assert_int_equal(c->run.timeout_us, 30000000);
        assert_int_equal(c->output_keep_bytes, 1 << 20);
}

static void test_problems_of_whole_files(void **state)
{
        struct fixture *f = *state;

        put_file(f->user_file, "[]");
        put_file(f->system_file, "{");
        sr_config_free(load_despite(f, f->system_file, f->user_file));
        add_variable(f, "SANDBOX_RUNNER_CONFIG=/nowhere/config.json");
        sr_config_free(load_despite(f, f->system_file, "/nowhere/config.json"));
        put_file(f->system_file, "{}");
        f->input.config_file = f->user_file;
        sr_config_free(load_despite(f, f->user_file));
        put_file(f->user_file, "{}");
        sr_config_free(load(f, (const char *const[]){NULL}));
}

static void test_the_first_problem_is_an_error_elsewhere(void **state)
{
        struct fixture *f = *state;
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_config *config = NULL;

        put_file(f->user_file, "{\"run.tiemout\": 3, \"run.memory\": \"x\"}");
        assert_true(sr_config_load(&f->input, &config, &error) < 0);
        assert_null(config);
        assert_non_null(strstr(sr_error_message(error), "run.tiemout"));
        assert_null(strstr(sr_error_message(error), "run.memory"));
}

static void test_mistakes_on_the_command_line_are_errors(void **state)
{
        struct fixture *f = *state;
        _cleanup_strv_ char **problems = NULL;
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_config *config = NULL;

        f->input.problems = &problems;
        f->flags[0] = (char *)(uintptr_t) "run.timeout=soon";
        assert_true(sr_config_load(&f->input, &config, &error) < 0);
        assert_non_null(strstr(sr_error_message(error), "soon"));
        assert_null(problems);
}

static void expect_variable(const char *name, bool known, const char *nearest)
{
        _cleanup_free_ char *found = NULL;

        assert_int_equal(sr_config_knows_variable(name, &found), known);
        if (nearest == NULL)
                assert_null(found);
        else
                assert_string_equal(found, nearest);
}

static void test_variables(void **state)
{
        (void)state;
        expect_variable("SANDBOX_RUNNER_RUN_TIMEOUT", true, NULL);
        expect_variable("SANDBOX_RUNNER_CONFIG", true, NULL);
        expect_variable("SANDBOX_RUNNER_URL", true, NULL);
        expect_variable("SANDBOX_RUNNER_TOKEN", true, NULL);
        expect_variable("SANDBOX_RUNNER_RUN_TIEMOUT", false, "SANDBOX_RUNNER_RUN_TIMEOUT");
        expect_variable("SANDBOX_RUNNER_run_timeout", false, "SANDBOX_RUNNER_RUN_TIMEOUT");
        expect_variable("SANDBOX_RUNNER_MAX_QUEUE", false, "SANDBOX_RUNNER_SERVER_MAX_QUEUE");
        expect_variable("SANDBOX_RUNNER_TOKENS", false, "SANDBOX_RUNNER_TOKEN");
        expect_variable("SANDBOX_RUNNER_SOMETHING_ELSE", false, NULL);
        expect_variable("SANDBOX_RUNNER_", false, NULL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                CASE(test_problems_are_passed_over),
                CASE(test_problems_of_whole_files),
                CASE(test_the_first_problem_is_an_error_elsewhere),
                CASE(test_mistakes_on_the_command_line_are_errors),
                CASE(test_variables),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
