// Arguments of a tool: what an integer may look like, and that a mistake is named.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "mcp/arguments.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static cJSON *parse(const char *text)
{
        cJSON *item = NULL;

        assert_int_equal(sr_json_parse(text, strlen(text), 16, &item, NULL), 0);
        return item;
}

static void takes_integers_as_clients_write_them(void **state)
{
        static const struct {
                const char *json;
                int64_t value;
        } cases[] = {
                {"7", 7},
                {"7.0", 7},
                {"-0", 0},
                {"7e0", 7},
                {"\"7\"", 7},
                {"\" 7 \\n\"", 7},
                {"\"+7\"", 7},
                {"\"-7\"", -7},
                {"\"007\"", 7},
                {"\"7.000\"", 7},
                {"9007199254740993", 9007199254740992},
                {"1e300", INT64_MAX},
                {"-1e300", INT64_MIN},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"1e400", INT64_MAX},
                {"\"99999999999999999999\"", INT64_MAX},
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_free_ char *text = sr_asprintf("{\"n\":%s}", cases[i].json), *problem = NULL;
                _cleanup_json_ cJSON *object = parse(text);
                struct sr_mcp_argument n = {.name = "n", .kind = SR_MCP_INTEGER};

                problem = sr_mcp_arguments_read(object, &n, 1);
                if (problem != NULL || !n.given || n.integer != cases[i].value)
                        fail_msg("%s: %lld %s", cases[i].json, (long long)n.integer, problem ? problem : "");
        }
}

static void refuses_what_is_no_integer(void **state)
{
        static const char *const cases[] = {
                "7.5",    "true",    "null",    "[]",      "{}",      "\"\"",         "\" \"",   "\"seven\"",
                "\"7s\"", "\"7.5\"", "\"1e1\"", "\"0x7\"", "\"- 7\"", "\"7\\u0000\"", "\"7 7\"", "\"7.\""};

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_free_ char *text = sr_asprintf("{\"limit\":%s}", cases[i]), *problem = NULL;
                _cleanup_json_ cJSON *object = parse(text);
                struct sr_mcp_argument limit = {.name = "limit", .kind = SR_MCP_INTEGER};

                problem = sr_mcp_arguments_read(object, &limit, 1);
                if (problem == NULL)
                        fail_msg("taken: %s", cases[i]);
                assert_non_null(strstr(problem, "\"limit\""));
                assert_non_null(strstr(problem, "integer"));
                assert_false(limit.given);
        }
}

static void strings_keep_every_character(void **state)
{
        _cleanup_json_ cJSON *object = parse("{\"s\":\"a\\u0000b\xef\xa3\xbf"
                                             "0\"}");
        struct sr_mcp_argument s = {.name = "s", .kind = SR_MCP_STRING, .required = true};

        (void)state;
        assert_null(sr_mcp_arguments_read(object, &s, 1));
        assert_int_equal(s.length, 7);
        assert_memory_equal(s.text,
                            "a\0b\xef\xa3\xbf"
                            "0",
                            8);
        sr_mcp_arguments_clear(&s, 1);
        assert_null(s.text);
}

static void names_every_argument_at_fault(void **state)
{
        static const char *const wrong[] = {"7", "true", "null", "[\"x\"]", "{}"};
        struct sr_mcp_argument two[] = {
                {.name = "language", .kind = SR_MCP_STRING, .required = true},
                {.name = "code", .kind = SR_MCP_STRING, .required = true},
        };

        (void)state;

        _cleanup_free_ char *both = sr_mcp_arguments_read(NULL, two, 2);

        assert_non_null(strstr(both, "\"language\" is missing"));
        assert_non_null(strstr(both, "\"code\" is missing"));
        for (size_t i = 0; i < COUNT(wrong); i++) {
                _cleanup_free_ char *text = sr_asprintf("{\"language\":\"x\",\"code\":%s}", wrong[i]),
                                    *problem = NULL;
                _cleanup_json_ cJSON *object = parse(text);

                problem = sr_mcp_arguments_read(object, two, 2);
                assert_non_null(problem);
                assert_null(strstr(problem, "language"));
                assert_non_null(strstr(problem, "\"code\" must be a string, not "));
                sr_mcp_arguments_clear(two, 2);
        }
}

static void absent_optional_and_unknown_ones_are_fine(void **state)
{
        _cleanup_json_ cJSON *object = parse("{\"other\":[1,2],\"Limit\":5}");
        struct sr_mcp_argument limit = {.name = "limit", .kind = SR_MCP_INTEGER};

        (void)state;
        assert_null(sr_mcp_arguments_read(object, &limit, 1));
        assert_false(limit.given);
        assert_null(sr_mcp_arguments_read(NULL, &limit, 1));
        assert_false(limit.given);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(takes_integers_as_clients_write_them),
                cmocka_unit_test(refuses_what_is_no_integer),
                cmocka_unit_test(strings_keep_every_character),
                cmocka_unit_test(names_every_argument_at_fault),
                cmocka_unit_test(absent_optional_and_unknown_ones_are_fine),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
