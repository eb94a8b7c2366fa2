// JSON-RPC messages: what is told apart, which error each mistake deserves, and ids that come back as
// written.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "mcp/jsonrpc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void tells_messages_apart(void **state)
{
        static const struct {
                const char *text;
                enum sr_jsonrpc_kind kind;
                const char *id;
        } cases[] = {
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", SR_JSONRPC_REQUEST, "1"},
                {"{\"jsonrpc\":\"2.0\",\"id\":1e3,\"method\":\"x\",\"params\":{}}", SR_JSONRPC_REQUEST,
                 "1e3"},
                {"{\"id\":12345678901234567890,\"jsonrpc\":\"2.0\",\"method\":\"\"}", SR_JSONRPC_REQUEST,
                 "12345678901234567890"},
                {"{\"jsonrpc\":\"2.0\",\"id\":-0.50,\"method\":\"x\",\"params\":null}", SR_JSONRPC_REQUEST,
                 "-0.50"},
                {"{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\\\"\\n\",\"method\":\"x\"}", SR_JSONRPC_REQUEST,
                 "\"\\u0061\\\"\\n\""},
                {"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"x\"}", SR_JSONRPC_REQUEST, "\"\""},
                {"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}", SR_JSONRPC_NOTIFICATION, NULL},
                {"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[1]}", SR_JSONRPC_NOTIFICATION, NULL},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", SR_JSONRPC_RESPONSE, "1"},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}",
                 SR_JSONRPC_RESPONSE, "1"},
                {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", SR_JSONRPC_RESPONSE, NULL},
                {"[]", SR_JSONRPC_BATCH, NULL},
                {" [{}] ", SR_JSONRPC_BATCH, NULL},
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_message_ struct sr_jsonrpc_message message;

                sr_jsonrpc_read(cases[i].text, strlen(cases[i].text), &message);
                if (message.kind != cases[i].kind)
                        fail_msg("%s is kind %d: %s", cases[i].text, message.kind,
                                 message.problem ? message.problem : "");
                if (cases[i].id == NULL)
                        assert_null(message.id);
                else
                        assert_string_equal(message.id, cases[i].id);
        }
}

static void gives_each_mistake_its_error(void **state)
{
        static const struct {
                const char *text;
                int code;
                const char *id;
        } cases[] = {
                {"", SR_JSONRPC_PARSE_ERROR, NULL},
                {"{", SR_JSONRPC_PARSE_ERROR, NULL},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", SR_JSONRPC_PARSE_ERROR, NULL},
                {"1", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"\"x\"", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"null", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"{}", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"{\"jsonrpc\":\"2.0\"}", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"{\"jsonrpc\":\"2.0\",\"id\":7}", SR_JSONRPC_INVALID_REQUEST, "7"},
                {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":5}", SR_JSONRPC_INVALID_REQUEST, "7"},
                {"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"x\"}", SR_JSONRPC_INVALID_REQUEST, "7"},
                {"{\"jsonrpc\":2.0,\"id\":\"a\",\"method\":\"x\"}", SR_JSONRPC_INVALID_REQUEST, "\"a\""},
                {"{\"id\":7,\"method\":\"x\"}", SR_JSONRPC_INVALID_REQUEST, "7"},
                {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"x\"}", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"x\"}", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}", SR_JSONRPC_INVALID_REQUEST, NULL},
                {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":[]}", SR_JSONRPC_INVALID_PARAMS,
                 "7"},
                {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":\"y\"}",
                 SR_JSONRPC_INVALID_PARAMS, "7"},
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_message_ struct sr_jsonrpc_message message;

                sr_jsonrpc_read(cases[i].text, strlen(cases[i].text), &message);
                if (message.kind != SR_JSONRPC_INVALID || message.code != cases[i].code)
                        fail_msg("%s: kind %d, code %d", cases[i].text, message.kind, message.code);
                assert_true(strlen(message.problem) > 5);
                if (cases[i].id == NULL)
                        assert_null(message.id);
                else
                        assert_string_equal(message.id, cases[i].id);
        }
}

static void bounds_what_it_keeps_of_an_id(void **state)
{
        (void)state;
        for (int length = 1022; length <= 1023; length++) {
                _cleanup_free_ char *filler = sr_calloc((size_t)length + 1, 1), *text = NULL;
                _cleanup_message_ struct sr_jsonrpc_message message = {0};

                memset(filler, 'a', (size_t)length);
                text = sr_asprintf("{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"x\"}", filler);
                sr_jsonrpc_read(text, strlen(text), &message);
                assert_int_equal(message.kind, length == 1022 ? SR_JSONRPC_REQUEST : SR_JSONRPC_INVALID);
        }
}

static void refuses_deep_nesting(void **state)
{
        char text[600] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":";
        size_t at = strlen(text);
        _cleanup_message_ struct sr_jsonrpc_message message = {0};

        (void)state;
        memset(text + at, '[', 200);
        memset(text + at + 200, ']', 200);
        strcpy(text + at + 400, "}}");
        sr_jsonrpc_read(text, strlen(text), &message);
        assert_int_equal(message.code, SR_JSONRPC_PARSE_ERROR);
}

static void keeps_params_as_written(void **state)
{
        static const char text[] =
                "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\": {\"requestId\" : 1e3 }}";
        _cleanup_message_ struct sr_jsonrpc_message message;

        (void)state;
        sr_jsonrpc_read(text, sizeof(text) - 1, &message);
        assert_true(cJSON_IsObject(message.params));
        assert_int_equal(message.params_length, strlen("{\"requestId\" : 1e3 }"));
        assert_memory_equal(message.params_text, "{\"requestId\" : 1e3 }", message.params_length);
}

// A method whose name goes on after a NUL is not the method before it.
static void a_nul_does_not_end_a_method(void **state)
{
        static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\u0000x\"}";
        _cleanup_message_ struct sr_jsonrpc_message message;

        (void)state;
        sr_jsonrpc_read(text, sizeof(text) - 1, &message);
        assert_int_equal(message.kind, SR_JSONRPC_REQUEST);
        assert_string_not_equal(message.method, "ping");
}

static void knows_an_id_in_another_spelling(void **state)
{
        static const struct {
                const char *a, *b;
                bool same;
        } cases[] = {
                {"1", "1", true},
                {"1", "1.0", true},
                {"1000", "1e3", true},
                {"-1", "1", false},
                {"1", "\"1\"", false},
                {"\"a\"", "\"\\u0061\"", true},
                {"\"a\"", "\"b\"", false},
                {"\"a\"", "\"a\\u0000\"", false},
                {"12345678901234567890", "12345678901234567890", true},
                {"12345678901234567890", "12345678901234567891", false},
                {"1", "null", false},
                {"1", "[1]", false},
                {"1", "{", false},
                {"\"a\"", "true", false},
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                if (sr_jsonrpc_same_id(cases[i].a, cases[i].b) != cases[i].same ||
                    sr_jsonrpc_same_id(cases[i].b, cases[i].a) != cases[i].same)
                        fail_msg("%s and %s", cases[i].a, cases[i].b);
        }
}

static void writes_answers(void **state)
{
        _cleanup_buf_ struct sr_buf out = {0};

        (void)state;
        sr_jsonrpc_write_result(&out, "1e3", "{\"a\":1}", 7);
        assert_string_equal(out.data, "{\"jsonrpc\":\"2.0\",\"id\":1e3,\"result\":{\"a\":1}}");
        out.len = 0;
        sr_jsonrpc_write_error(&out, NULL, SR_JSONRPC_PARSE_ERROR, "bad \"x\"\n");
        assert_string_equal(out.data, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"
                                      "\"message\":\"bad \\\"x\\\"\\n\"}}");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tells_messages_apart),
                cmocka_unit_test(gives_each_mistake_its_error),
                cmocka_unit_test(bounds_what_it_keeps_of_an_id),
                cmocka_unit_test(refuses_deep_nesting),
                cmocka_unit_test(keeps_params_as_written),
                cmocka_unit_test(a_nul_does_not_end_a_method),
                cmocka_unit_test(knows_an_id_in_another_spelling),
                cmocka_unit_test(writes_answers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
