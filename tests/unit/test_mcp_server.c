// The protocol, over the three tools and a runner that starts nothing.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_runner.h"

#include "base/json.h"
#include "mcp/server.h"
#include "mcp/tools.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_CALLS    4
#define INITIALIZE(v)                                                                                        \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"" v "\"}" \
        "}"

#define NOTIFY(name, params)                                                                                 \
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/" name "\",\"params\":" params "}"

struct fixture {
        struct sr_config config;
        struct sr_runner *runner;
        struct sr_mcp_tools *tools;
        struct sr_mcp_session *session;
        struct sr_mcp_sink sink;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        char **answers;  // what was sent, in order
        size_t withheld; // how often NULL was sent
        size_t seen;     // answers a test has looked at
};

static void collect(void *context, const char *bytes, size_t length)
{
        struct fixture *f = context;

        pthread_mutex_lock(&f->lock);
        if (bytes == NULL) {
                f->withheld++;
        } else {
                assert_int_equal(bytes[0] == '{' || bytes[0] == '[', 1);
                assert_null(memchr(bytes, '\n', length));
                sr_strv_append(&f->answers, sr_memdup0(bytes, length));
        }
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
}

static int set_up(void **state)
{
        struct fixture *f = sr_new(struct fixture);

        f->config = (struct sr_config){
                .default_timeout_s = 10,
                .max_timeout_s = 30,
                .max_code_bytes = 50 * 1024,
                .run = {.pids = 64,
                        .memory_bytes = 256 << 20,
                        .cpu_millis = 500,
                        .scratch_bytes = 64 << 20,
                        .tmp_bytes = 64 << 20},
                .output_keep_bytes = 100 * 1024,
        };
        f->runner = fake_runner_reset();
        f->tools = sr_mcp_tools_new(&f->config, f->runner);
        f->session = sr_mcp_session_new(sr_mcp_tools_set(f->tools), MAX_CALLS);
        f->sink = (struct sr_mcp_sink){.send = collect, .context = f};
        pthread_mutex_init(&f->lock, NULL);
        pthread_cond_init(&f->changed, NULL);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        sr_mcp_session_free(f->session);
        fake_runner_wait_idle(f->runner);
        sr_mcp_tools_free(f->tools);
        sr_strv_free(f->answers);
        fake_runner_reset();
        free(f);
        return 0;
}

// Sends a message; whether an answer was promised.
static bool tell(struct fixture *f, const char *text)
{
        return sr_mcp_session_receive(f->session, text, strlen(text), &f->sink);
}

// The next answer, when it is there.
static const char *next(struct fixture *f)
{
        pthread_mutex_lock(&f->lock);
        while (sr_strv_length(f->answers) <= f->seen)
                pthread_cond_wait(&f->changed, &f->lock);

        const char *answer = f->answers[f->seen++];

        pthread_mutex_unlock(&f->lock);
        return answer;
}

static const char *ask(struct fixture *f, const char *text)
{
        assert_true(tell(f, text));
        return next(f);
}

static void expect_nothing_more(struct fixture *f)
{
        pthread_mutex_lock(&f->lock);
        assert_int_equal(sr_strv_length(f->answers), f->seen);
        pthread_mutex_unlock(&f->lock);
}

static cJSON *parse(const char *text)
{
        _cleanup_error_ struct sr_error *error = NULL;
        cJSON *item = NULL;

        if (sr_json_parse(text, strlen(text), 64, &item, &error) < 0)
                fail_msg("%s: %s", text, sr_error_message(error));
        return item;
}

static void begin(struct fixture *f, const char *initialize)
{
        (void)ask(f, initialize);
        assert_false(tell(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
}

static void expect_error(const char *answer, const char *id, int code)
{
        _cleanup_free_ char *beginning =
                sr_asprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":\"", id, code);

        if (strncmp(answer, beginning, strlen(beginning)) != 0)
                fail_msg("%s does not begin with %s", answer, beginning);
}

static char *call_text(const char *id, const char *tool, const char *arguments)
{
        return sr_asprintf(
                "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
                "\"arguments\":%s}}",
                id, tool, arguments);
}

static char *run_text(const char *id, const char *code)
{
        _cleanup_free_ char *arguments = sr_asprintf("{\"language\":\"python\",\"code\":\"%s\"}", code);

        return call_text(id, "run_code", arguments);
}

// The result object of a call.
static cJSON *call(struct fixture *f, const char *tool, const char *arguments)
{
        _cleanup_free_ char *text = call_text("1", tool, arguments);
        cJSON *answer = parse(ask(f, text));
        cJSON *result = cJSON_DetachItemFromObject(answer, "result");

        cJSON_Delete(answer);
        assert_non_null(result);
        return result;
}

static const char *text_of(const cJSON *result, int index)
{
        const cJSON *block = cJSON_GetArrayItem(sr_json_member(result, "content"), index);

        assert_string_equal(cJSON_GetStringValue(sr_json_member(block, "type")), "text");
        return cJSON_GetStringValue(sr_json_member(block, "text"));
}

static void initialize_echoes_what_it_knows(void **state)
{
        static const struct {
                const char *text;
                const char *version;
        } cases[] = {
                {INITIALIZE("2024-11-05"), "2024-11-05"}, {INITIALIZE("2025-03-26"), "2025-03-26"},
                {INITIALIZE("2025-06-18"), "2025-06-18"}, {INITIALIZE("2025-11-25"), "2025-11-25"},
                {INITIALIZE("2026-07-28"), "2025-11-25"}, {INITIALIZE("1.0"), "2025-11-25"},
                {INITIALIZE(""), "2025-11-25"},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_json_ cJSON *answer = parse(ask(f, cases[i].text));
                const cJSON *result = sr_json_member(answer, "result");
                const cJSON *capabilities = sr_json_member(result, "capabilities");

                assert_string_equal(cJSON_GetStringValue(sr_json_member(result, "protocolVersion")),
                                    cases[i].version);
                // Nothing is declared that is not there.
                assert_int_equal(cJSON_GetArraySize(capabilities), 1);
                assert_true(cJSON_IsObject(sr_json_member(capabilities, "tools")));
                assert_string_equal(
                        cJSON_GetStringValue(sr_json_member(sr_json_member(result, "serverInfo"), "name")),
                        "sandbox-runner");
                assert_non_null(
                        strstr(cJSON_GetStringValue(sr_json_member(result, "instructions")), "run_code"));
        }
}

static void initialize_wants_a_version(void **state)
{
        static const char *const params[] = {"{}", "{\"protocolVersion\":5}", "{\"protocolVersion\":null}",
                                             "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":[]}"};
        struct fixture *f = *state;

        for (size_t i = 0; i < COUNT(params); i++) {
                _cleanup_free_ char *text = sr_asprintf(
                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":%s}", params[i]);

                expect_error(ask(f, text), "1", -32602);
        }
        expect_error(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}"), "1", -32602);
        // None of these began the session.
        expect_error(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}"), "2", -32600);
}

static void only_ping_is_answered_before_initialize(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *run = run_text("3", "echo x");

        assert_string_equal(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"),
                            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        expect_error(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}"), "2", -32600);
        expect_error(ask(f, run), "3", -32600);
        expect_error(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"server/discover\"}"), "4", -32601);
        assert_int_equal(f->runner->started, 0);
        begin(f, INITIALIZE("2025-06-18"));
        assert_non_null(
                strstr(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/list\"}"), "\"result\""));
}

static void ids_come_back_as_written(void **state)
{
        static const char *const ids[] = {"0",
                                          "-1",
                                          "1e3",
                                          "1.50",
                                          "12345678901234567890",
                                          "\"\"",
                                          "\"1\"",
                                          "\"a\\u0062\\n\\\"\\ud83c\\udf78\"",
                                          "\"\xc3\xa9\xe2\x80\xa8\"",
                                          "\"\\u0000\""};
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));
        for (size_t i = 0; i < COUNT(ids); i++) {
                _cleanup_free_ char *text =
                        sr_asprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}", ids[i]);
                _cleanup_free_ char *expected =
                        sr_asprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", ids[i]);
                _cleanup_free_ char *run = run_text(ids[i], "echo x");
                _cleanup_free_ char *beginning =
                        sr_asprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{", ids[i]);

                assert_string_equal(ask(f, text), expected);
                assert_memory_equal(ask(f, run), beginning, strlen(beginning));
        }
}

static void mistakes_get_the_error_that_belongs_to_them(void **state)
{
        static const struct {
                const char *text;
                const char *id;
                int code;
        } cases[] = {
                {"{\"jsonrpc\":\"2.0\",\"id\":1,", "null", -32700},
                {"\"\xff\"", "null", -32700},
                {"7", "null", -32600},
                {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", "null", -32600},
                {"{\"jsonrpc\":\"2.0\",\"id\":1}", "1", -32600},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nope\"}", "1", -32601},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"Ping\"}", "1", -32601},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\u0000\"}", "1", -32601},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/list\"}", "1", -32601},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/"
                 "setLevel\",\"params\":{\"level\":\"info\"}}",
                 "1", -32601},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}", "1", -32602},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":[]}", "1", -32602},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":5}}", "1",
                 -32602},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"nope\"}}",
                 "1", -32602},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                 "call\",\"params\":{\"name\":\"run_code\\u0000\"}}",
                 "1", -32602},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                 "call\",\"params\":{\"name\":\"run_code\",\"arguments\":[]}}",
                 "1", -32602},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"x\"}}",
                 "1", -32602},
                {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", "null", -32600},
                {"[]", "null", -32600},
        };
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-11-25"));
        for (size_t i = 0; i < COUNT(cases); i++)
                expect_error(ask(f, cases[i].text), cases[i].id, cases[i].code);
        assert_string_equal(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}"),
                            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
}

static void a_long_name_is_repeated_in_part(void **state)
{
        struct fixture *f = *state;
        _cleanup_buf_ struct sr_buf text = {0};

        sr_buf_append_text(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"");
        for (int i = 0; i < 10000; i++)
                sr_buf_append_text(&text, "\xc3\xa9");
        sr_buf_append_text(&text, "\"}");

        const char *answer = ask(f, text.data);
        _cleanup_json_ cJSON *parsed = parse(answer); // and it is valid UTF-8

        assert_non_null(parsed);
        assert_true(strlen(answer) < 400);
}

static void notifications_and_responses_get_no_answer(void **state)
{
        static const char *const texts[] = {
                NOTIFY("initialized", "{}"),
                NOTIFY("nope", "{}"),
                NOTIFY("cancelled", "[1]"),
                NOTIFY("cancelled", "null"),
                NOTIFY("cancelled", "{}"),
                NOTIFY("cancelled", "{\"requestId\":{\"a\":[1]}}"),
                NOTIFY("cancelled", "{\"requestId\":99}"),
                "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":[]}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"x\"}}",
        };
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));
        for (size_t i = 0; i < COUNT(texts); i++)
                assert_false(tell(f, texts[i]));
        expect_nothing_more(f);
        assert_int_equal(f->withheld, 0);
}

static void tools_list_says_what_each_takes_and_gives(void **state)
{
        static const char *const names[] = {"run_code", "list_supported_languages", "get_execution_history"};
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));

        _cleanup_json_ cJSON *answer =
                parse(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}"));
        const cJSON *tools = sr_json_member(sr_json_member(answer, "result"), "tools");

        assert_int_equal(cJSON_GetArraySize(tools), COUNT(names));
        for (size_t i = 0; i < COUNT(names); i++) {
                const cJSON *tool = cJSON_GetArrayItem(tools, (int)i);
                const cJSON *input = sr_json_member(tool, "inputSchema"),
                            *output = sr_json_member(tool, "outputSchema");

                assert_string_equal(cJSON_GetStringValue(sr_json_member(tool, "name")), names[i]);
                assert_true(strlen(cJSON_GetStringValue(sr_json_member(tool, "title"))) > 3);
                assert_true(strlen(cJSON_GetStringValue(sr_json_member(tool, "description"))) > 40);
                assert_true(cJSON_IsFalse(
                        sr_json_member(sr_json_member(tool, "annotations"), "destructiveHint")));
                assert_string_equal(cJSON_GetStringValue(sr_json_member(input, "type")), "object");
                assert_string_equal(cJSON_GetStringValue(sr_json_member(output, "type")), "object");
                if (i == 0) {
                        assert_true(cJSON_IsTrue(sr_json_member(output, "additionalProperties")));
                        continue;
                }

                const cJSON *list = sr_json_member(sr_json_member(output, "properties"), "result");

                assert_string_equal(cJSON_GetStringValue(sr_json_member(list, "type")), "array");
                assert_string_equal(
                        cJSON_GetStringValue(cJSON_GetArrayItem(sr_json_member(output, "required"), 0)),
                        "result");
        }

        const cJSON *run_code = cJSON_GetArrayItem(tools, 0);
        const cJSON *input = sr_json_member(run_code, "inputSchema");
        const cJSON *timeout = sr_json_member(sr_json_member(input, "properties"), "timeout_seconds");
        const char *description = cJSON_GetStringValue(sr_json_member(run_code, "description"));

        assert_int_equal(cJSON_GetArraySize(sr_json_member(input, "required")), 2);
        assert_int_equal(sr_json_member(timeout, "default")->valueint, 10);
        assert_int_equal(sr_json_member(timeout, "maximum")->valueint, 30);
        for (size_t i = 0; i < 10; i++) {
                static const char *const facts[] = {
                        "cpp (C++17, GCC 14)",
                        "python (Python 3.12)",
                        "50 KiB of code",
                        "256 MiB of memory, 0.5 processors, 64 processes and threads",
                        "; python: 512 MiB of memory, 1 processor.",
                        "memory_limit (exit_code 137)",
                        "limits_hit",
                        "/scratch (64 MiB)",
                        "100 KiB",
                        "at most, "};

                if (strstr(description, facts[i]) == NULL)
                        fail_msg("\"%s\" is not in: %s", facts[i], description);
        }
        // An empty cursor is the first page.
        assert_non_null(strstr(
                ask(f,
                    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"\"}}"),
                "\"tools\""));
}

static void run_code_hands_on_what_it_was_given(void **state)
{
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));

        _cleanup_json_ cJSON *first = call(f, "run_code",
                                           "{\"language\":\" PyThon \",\"code\":\"echo "
                                           "a\\u0000b\xe2\x80\xa8\",\"timeout_seconds\":\"7\",\"x\":1}");

        assert_string_equal(f->runner->language, " PyThon ");
        assert_int_equal(f->runner->code_length, 11);
        assert_memory_equal(f->runner->code, "echo a\0b\xe2\x80\xa8", 11);
        assert_int_equal(f->runner->timeout_s, 7);

        _cleanup_json_ cJSON *second = call(f, "run_code", "{\"language\":\"python\",\"code\":\"\"}");

        assert_int_equal(f->runner->timeout_s, 10);
        assert_int_equal(f->runner->code_length, 0);

        // What a client gives reaches the runner as it is, for the runner to refuse.
        _cleanup_json_ cJSON *third =
                call(f, "run_code", "{\"language\":\"python\\u0000\",\"code\":\"x\",\"timeout_seconds\":0}");

        assert_int_equal(f->runner->timeout_s, 0);
        assert_string_not_equal(f->runner->language, "python");
        assert_true(cJSON_IsFalse(sr_json_member(first, "isError")));
        assert_true(cJSON_IsFalse(sr_json_member(second, "isError")));
        assert_true(cJSON_IsFalse(sr_json_member(third, "isError")));
}

static void run_code_answers_in_text_and_in_structure(void **state)
{
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));

        _cleanup_json_ cJSON *result =
                call(f, "run_code", "{\"language\":\"python\",\"code\":\"echo \xc3\xa9\\u0000\\\"\"}");
        const char *text = text_of(result, 0);
        static const char beginning[] =
                "{\n  \"status\": \"success\",\n  \"exit_code\": 0,\n  \"stdout\": \"\xc3\xa9\\u0000\\\"\",\n"
                "  \"stderr\": \"\",\n  \"duration_ms\": 12.5,\n  \"language\": \"python\"";

        assert_memory_equal(text, beginning, sizeof(beginning) - 1);
        assert_int_equal(cJSON_GetArraySize(sr_json_member(result, "content")), 1);
        assert_true(cJSON_IsFalse(sr_json_member(result, "isError")));

        _cleanup_json_ cJSON *from_text = parse(text);

        assert_true(cJSON_Compare(from_text, sr_json_member(result, "structuredContent"), true));
}

static void wrong_arguments_are_named_in_an_error_result(void **state)
{
        static const struct {
                const char *tool;
                const char *arguments;
                const char *named;
        } cases[] = {
                {"run_code", "{}", "\"language\""},
                {"run_code", "null", "\"code\""},
                {"run_code", "{\"language\":\"python\"}", "\"code\""},
                {"run_code", "{\"language\":5,\"code\":\"x\"}", "\"language\""},
                {"run_code", "{\"language\":\"python\",\"code\":[\"x\"]}", "\"code\""},
                {"run_code", "{\"language\":\"python\",\"code\":\"x\",\"timeout_seconds\":\"soon\"}",
                 "\"timeout_seconds\""},
                {"run_code", "{\"language\":\"python\",\"code\":\"x\",\"timeout_seconds\":1.5}",
                 "\"timeout_seconds\""},
                {"run_code", "{\"language\":\"python\",\"code\":\"x\",\"timeout_seconds\":null}",
                 "\"timeout_seconds\""},
                {"get_execution_history", "{\"limit\":\"x\"}", "\"limit\""},
                {"get_execution_history", "{\"limit\":true}", "\"limit\""},
        };
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));
        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_json_ cJSON *result = call(f, cases[i].tool, cases[i].arguments);

                assert_true(cJSON_IsTrue(sr_json_member(result, "isError")));
                assert_null(sr_json_member(result, "structuredContent"));
                if (strstr(text_of(result, 0), cases[i].named) == NULL)
                        fail_msg("%s: %s", cases[i].arguments, text_of(result, 0));
        }
        assert_int_equal(f->runner->started, 0);
        assert_int_equal(sr_mcp_session_calls(f->session), 0);
}

static void languages_are_one_block_each(void **state)
{
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));

        _cleanup_json_ cJSON *result = call(f, "list_supported_languages", "{\"ignored\":1}");
        const cJSON *list = sr_json_member(sr_json_member(result, "structuredContent"), "result");

        assert_int_equal(cJSON_GetArraySize(sr_json_member(result, "content")), 2);
        assert_int_equal(cJSON_GetArraySize(list), 2);
        assert_string_equal(text_of(result, 1),
                            "{\n  \"language\": \"python\",\n  \"image\": \"python:3.12-slim\",\n"
                            "  \"description\": \"Python 3.12\"\n}");

        _cleanup_json_ cJSON *first = parse(text_of(result, 0));

        assert_true(cJSON_Compare(first, cJSON_GetArrayItem(list, 0), true));
        assert_int_equal(cJSON_GetArraySize(first), 3);
}

static void history_is_listed_newest_first(void **state)
{
        struct fixture *f = *state;

        f->runner->history_count = 30;
        begin(f, INITIALIZE("2025-06-18"));

        _cleanup_json_ cJSON *result = call(f, "get_execution_history", "{}");
        const cJSON *list = sr_json_member(sr_json_member(result, "structuredContent"), "result");

        assert_int_equal(cJSON_GetArraySize(list), 20);
        assert_int_equal(cJSON_GetArraySize(sr_json_member(result, "content")), 20);
        assert_string_equal(text_of(result, 0),
                            "{\n  \"id\": 30,\n  \"timestamp\": \"2026-11-29T21:25:03.123456+00:00\",\n"
                            "  \"language\": \"python\",\n  \"code_snippet\": \"a\\u0000\xef\xbf\xbd\",\n"
                            "  \"status\": \"timeout\",\n  \"exit_code\": null,\n  \"duration_ms\": 1.24,\n"
                            "  \"stdout_size\": 5,\n  \"stderr_size\": 6\n}");
        assert_int_equal(sr_json_member(cJSON_GetArrayItem(list, 1), "exit_code")->valueint, 0);
}

static void the_limit_of_the_history_has_bounds(void **state)
{
        static const struct {
                const char *arguments;
                int64_t asked;
        } cases[] = {
                {"{\"limit\":1}", 1},           {"{\"limit\":\"3\"}", 3},     {"{\"limit\":0}", 1},
                {"{\"limit\":-7}", 1},          {"{\"limit\":1e18}", 100000}, {"{\"limit\":1001}", 1001},
                {"{\"limit\":100000}", 100000},
        };
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));
        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_json_ cJSON *result = call(f, "get_execution_history", cases[i].arguments);

                assert_int_equal(f->runner->asked_limit, cases[i].asked);
                // Empty, and still a list.
                assert_int_equal(cJSON_GetArraySize(sr_json_member(result, "content")), 0);
                assert_true(cJSON_IsArray(sr_json_member(result, "content")));
                assert_true(
                        cJSON_IsArray(sr_json_member(sr_json_member(result, "structuredContent"), "result")));
        }
}

static void a_history_that_cannot_be_read_says_so(void **state)
{
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));
        f->runner->history_fails = true;

        _cleanup_json_ cJSON *failed = call(f, "get_execution_history", "{}");

        assert_true(cJSON_IsTrue(sr_json_member(failed, "isError")));
        assert_non_null(strstr(text_of(failed, 0), "the disk is gone"));
        f->runner->no_history = true;
        f->runner->history_problem = "no history: it is turned off";

        _cleanup_json_ cJSON *off = call(f, "get_execution_history", "{}");

        assert_true(cJSON_IsTrue(sr_json_member(off, "isError")));
        assert_string_equal(text_of(off, 0), "no history: it is turned off");
}

static void calls_are_answered_as_they_finish(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *slow = run_text("\"slow\"", "nap"), *quick = run_text("\"quick\"", "echo x"),
                            *inlined = run_text("\"inline\"", "inline");

        begin(f, INITIALIZE("2025-06-18"));
        assert_true(tell(f, slow));
        assert_int_equal(sr_mcp_session_calls(f->session), 1);
        assert_non_null(strstr(ask(f, quick), "\"id\":\"quick\""));
        assert_non_null(strstr(ask(f, inlined), "\"id\":\"inline\""));
        assert_string_equal(ask(f, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}"),
                            "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}");
        assert_non_null(strstr(next(f), "\"id\":\"slow\""));
        assert_int_equal(sr_mcp_session_calls(f->session), 0);
}

static void wait_for_calls(struct fixture *f, size_t count)
{
        const struct timespec step = {.tv_nsec = 1000 * 1000};

        for (int i = 0; sr_mcp_session_calls(f->session) != count; i++) {
                assert_true(i < 5000);
                nanosleep(&step, NULL);
        }
}

static void cancelling_ends_the_run_and_its_answer(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *first = run_text("1000", "wait"), *second = run_text("\"b\"", "wait");

        begin(f, INITIALIZE("2025-06-18"));
        assert_true(tell(f, first));
        assert_true(tell(f, second));
        // Ids are compared for what they mean; the wrong type is another id.
        assert_false(tell(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                             "cancelled\",\"params\":{\"requestId\":\"1000\"}}"));
        assert_int_equal(sr_mcp_session_calls(f->session), 2);
        assert_false(tell(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                             "cancelled\",\"params\":{\"requestId\":1e3}}"));
        wait_for_calls(f, 1);
        assert_false(tell(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                             "cancelled\",\"params\":{\"requestId\":\"\\u0062\","
                             "\"reason\":\"bored\"}}"));
        wait_for_calls(f, 0);
        fake_runner_wait_idle(f->runner);
        assert_int_equal(f->runner->cancelled, 2);
        assert_int_equal(f->withheld, 2);
        expect_nothing_more(f);
}

static void too_many_calls_are_refused_at_once(void **state)
{
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-06-18"));
        for (int i = 0; i < MAX_CALLS; i++) {
                _cleanup_free_ char *id = sr_asprintf("%d", i), *text = run_text(id, "wait");

                assert_true(tell(f, text));
        }

        _cleanup_json_ cJSON *refused = call(f, "list_supported_languages", "{}");

        assert_true(cJSON_IsTrue(sr_json_member(refused, "isError")));
        assert_non_null(strstr(text_of(refused, 0), "too many calls"));
        assert_false(tell(
                f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":0}}"));
        wait_for_calls(f, MAX_CALLS - 1);

        _cleanup_json_ cJSON *taken = call(f, "list_supported_languages", "{}");

        assert_true(cJSON_IsFalse(sr_json_member(taken, "isError")));
}

static void a_client_that_is_gone_takes_its_runs_with_it(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *first = run_text("1", "wait"), *second = run_text("2", "wait"),
                            *late = run_text("3", "wait");

        begin(f, INITIALIZE("2025-06-18"));
        assert_true(tell(f, first));
        assert_true(tell(f, second));
        sr_mcp_session_abandon(f->session);
        assert_true(tell(f, late));
        wait_for_calls(f, 0);
        fake_runner_wait_idle(f->runner);
        assert_int_equal(f->runner->cancelled, 3);
        assert_int_equal(f->withheld, 3);
        expect_nothing_more(f);
}

static void freeing_a_session_waits_for_its_runs(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *text = run_text("1", "wait");

        begin(f, INITIALIZE("2025-06-18"));
        assert_true(tell(f, text));
        f->session = sr_mcp_session_free(f->session);
        assert_int_equal(f->withheld, 1);
}

static void a_batch_is_answered_as_one(void **state)
{
        struct fixture *f = *state;

        begin(f, INITIALIZE("2025-03-26"));
        assert_string_equal(ask(f, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
                                   "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"},"
                                   "{\"jsonrpc\":\"2.0\",\"id\":\"2\",\"method\":\"ping\"}]"),
                            "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":\"2\","
                            "\"result\":{}}]");

        _cleanup_free_ char *slow = run_text("1", "nap"), *quick = run_text("2", "echo x"),
                            *batch = sr_asprintf("[%s,%s,7,[]]", slow, quick);
        _cleanup_json_ cJSON *answers = parse(ask(f, batch));

        assert_int_equal(cJSON_GetArraySize(answers), 4);

        int refused = 0; // the number and the batch within

        for (int i = 0; i < 3; i++) {
                const cJSON *answer = cJSON_GetArrayItem(answers, i),
                            *error = sr_json_member(answer, "error");

                if (error == NULL)
                        continue;
                assert_true(cJSON_IsNull(sr_json_member(answer, "id")));
                assert_int_equal(sr_json_member(error, "code")->valueint, -32600);
                refused++;
        }
        assert_int_equal(refused, 2);
        assert_int_equal(sr_json_member(cJSON_GetArrayItem(answers, 3), "id")->valueint, 1);
        assert_false(tell(f, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}]"));
        expect_nothing_more(f);
        expect_error(ask(f, "[]"), "null", -32600);
}

static void a_cancelled_part_is_missing_from_its_batch(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *first = run_text("1", "wait"), *second = run_text("2", "wait"),
                            *both = sr_asprintf("[%s,{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}]",
                                                first),
                            *alone = sr_asprintf("[%s]", second);

        begin(f, INITIALIZE("2025-03-26"));
        assert_true(tell(f, both));
        assert_false(tell(
                f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}"));
        assert_string_equal(next(f), "[{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}]");
        assert_true(tell(f, alone));
        assert_false(tell(
                f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}"));
        wait_for_calls(f, 0);
        assert_int_equal(f->withheld, 1);
        expect_nothing_more(f);
}

static void a_batch_has_a_bound(void **state)
{
        struct fixture *f = *state;
        _cleanup_buf_ struct sr_buf text = {0};

        begin(f, INITIALIZE("2025-03-26"));
        for (int i = 0; i < 101; i++)
                sr_buf_append_text(&text, i == 0 ? "[0" : ",0");
        sr_buf_append_char(&text, ']');
        expect_error(ask(f, text.data), "null", -32600);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(initialize_echoes_what_it_knows),
                TEST(initialize_wants_a_version),
                TEST(only_ping_is_answered_before_initialize),
                TEST(ids_come_back_as_written),
                TEST(mistakes_get_the_error_that_belongs_to_them),
                TEST(a_long_name_is_repeated_in_part),
                TEST(notifications_and_responses_get_no_answer),
                TEST(tools_list_says_what_each_takes_and_gives),
                TEST(run_code_hands_on_what_it_was_given),
                TEST(run_code_answers_in_text_and_in_structure),
                TEST(wrong_arguments_are_named_in_an_error_result),
                TEST(languages_are_one_block_each),
                TEST(history_is_listed_newest_first),
                TEST(the_limit_of_the_history_has_bounds),
                TEST(a_history_that_cannot_be_read_says_so),
                TEST(calls_are_answered_as_they_finish),
                TEST(cancelling_ends_the_run_and_its_answer),
                TEST(too_many_calls_are_refused_at_once),
                TEST(a_client_that_is_gone_takes_its_runs_with_it),
                TEST(freeing_a_session_waits_for_its_runs),
                TEST(a_batch_is_answered_as_one),
                TEST(a_cancelled_part_is_missing_from_its_batch),
                TEST(a_batch_has_a_bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
