// JSON in and out: what is accepted, what is refused and where, and that no character is lost on the way.

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/json.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// A copy without a NUL behind it, so that the sanitizer sees a byte read too many.
static char *exact_copy(const char *text, size_t length)
{
        char *copy = malloc(length > 0 ? length : 1);

        assert_non_null(copy);
        memcpy(copy, text, length);
        return copy;
}

static int parse_n(const char *text, size_t length, cJSON **ret, struct sr_error **error)
{
        char *copy = exact_copy(text, length);
        int r = sr_json_parse(copy, length, 32, ret, error);

        free(copy);
        return r;
}

static cJSON *parse(const char *text)
{
        cJSON *item = NULL;

        assert_int_equal(parse_n(text, strlen(text), &item, NULL), 0);
        assert_non_null(item);
        return item;
}

static void accepts_every_form_of_the_grammar(void **state)
{
        static const char *const texts[] = {
                "null",
                "true",
                "false",
                "0",
                "-0",
                "1",
                "-12",
                "0.5",
                "1e3",
                "1E+3",
                "1.25e-10",
                "\"\"",
                "{}",
                "[]",
                " \t\r\n[ 1 , 2 ] \n",
                "{ \"a\" : { \"b\" : [ ] } }",
                "[[],{},[{}]]",
                "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                "\"\\u00e9 \xc3\xa9 \xe2\x80\xa8 \xf0\x9f\x8d\xb8\"",
                "\"\x7f\"",
                "{\"\":1}",
                "123456789012345678901234567890",
        };

        (void)state;
        for (size_t i = 0; i < COUNT(texts); i++) {
                _cleanup_error_ struct sr_error *error = NULL;
                _cleanup_json_ cJSON *item = NULL;

                if (parse_n(texts[i], strlen(texts[i]), &item, &error) != 0)
                        fail_msg("%s: %s", texts[i], sr_error_message(error));
        }
}

static void refuses_everything_else_and_says_where(void **state)
{
        static const struct {
                const char *text;
                const char *where;
        } bad[] = {
                {"", "byte 0"},
                {"  ", "byte 2"},
                {"nul", "byte 0"},
                {"True", "byte 0"},
                {"NaN", "byte 0"},
                {"Infinity", "byte 0"},
                {"'a'", "byte 0"},
                {"01", "byte 1"},
                {"-", "byte 1"},
                {"+1", "byte 0"},
                {".5", "byte 0"},
                {"1.", "byte 2"},
                {"1.e5", "byte 2"},
                {"1e", "byte 2"},
                {"0x10", "byte 1"},
                {"1 2", "byte 2"},
                {"1,", "byte 1"},
                {"{}}", "byte 2"},
                {"[1,]", "byte 3"},
                {"[1 2]", "byte 3"},
                {"[", "byte 1"},
                {"[1", "byte 2"},
                {"{\"a\"}", "byte 4"},
                {"{\"a\":}", "byte 5"},
                {"{\"a\":1,}", "byte 7"},
                {"{a:1}", "byte 1"},
                {"{1:1}", "byte 1"},
                {"{\"a\":1 \"b\":2}", "byte 7"},
                {"[1}", "byte 2"},
                {"{\"a\":1]", "byte 6"},
                {"\"abc", "byte 0"},
                {"\"\\x41\"", "byte 1"},
                {"\"\\u12g4\"", "byte 1"},
                {"\"\\u12", "byte 1"},
                {"\"\\", "byte 1"},
                {"\"a\nb\"", "byte 2"},
                {"\"a\tb\"", "byte 2"},
                {"\x01[]", "byte 0"},
                {"[]\x0b", "byte 2"},
                {"\xef\xbb\xbf[]", "byte 0"},
                {"\"\xff\"", "byte 1"},
                {"\"a\xc3\"", "byte 2"},
                {"\"\xed\xa0\x80\"", "byte 1"},
                {"\"\xc0\x80\"", "byte 1"},
                {"\"\xf4\x90\x80\x80\"", "byte 1"},
                {"// x\n1", "byte 0"},
        };

        (void)state;
        for (size_t i = 0; i < COUNT(bad); i++) {
                _cleanup_error_ struct sr_error *error = NULL;
                cJSON *item = NULL;

                if (parse_n(bad[i].text, strlen(bad[i].text), &item, &error) != -EINVAL)
                        fail_msg("accepted: %s", bad[i].text);
                assert_null(item);

                const char *message = sr_error_message(error), *where = strstr(message, bad[i].where);

                if (where == NULL || strcmp(where, bad[i].where) != 0)
                        fail_msg("%s: \"%s\" does not end with \"%s\"", bad[i].text, message, bad[i].where);
                assert_int_equal(sr_error_get_kind(error), SR_ERROR_BAD_REQUEST);
        }
}

static void refuses_a_nul_in_the_text(void **state)
{
        static const char inside[] = "\"a\0b\"", after[] = "[1]\0", between[] = "[1\0]";
        cJSON *item = NULL;

        (void)state;
        assert_int_equal(parse_n(inside, sizeof(inside) - 1, &item, NULL), -EINVAL);
        assert_int_equal(parse_n(after, sizeof(after) - 1, &item, NULL), -EINVAL);
        assert_int_equal(parse_n(between, sizeof(between) - 1, &item, NULL), -EINVAL);
}

// Every beginning of a valid text is refused, without a byte read past it.
static void refuses_every_prefix(void **state)
{
        static const char text[] =
                "{\"a\\u0000\\ud83c\\udf78\xef\xa3\xbf\":[true,null,-1.5e+7,{\"b\":\"\\n\"}]}";

        (void)state;
        for (size_t length = 0; length < sizeof(text) - 1; length++) {
                cJSON *item = NULL;

                assert_int_equal(parse_n(text, length, &item, NULL), -EINVAL);
        }
}

static void keeps_characters_that_c_strings_lose(void **state)
{
        static const struct {
                const char *json;
                const char *value;
                size_t length;
        } cases[] = {
                {"\"\\u0000\"", "\0", 1},
                {"\"a\\u0000b\\u0000\"", "a\0b\0", 4},
                {"\"\\u00000\"",
                 "\0"
                 "0",
                 2},
                {"\"\xef\xa3\xbf\"", "\xef\xa3\xbf", 3},
                {"\"\\uf8ff\\uF8FF0\"",
                 "\xef\xa3\xbf\xef\xa3\xbf"
                 "0",
                 7},
                {"\"\xef\xa3\xbf"
                 "0\xef\xa3\xbf"
                 "1\"",
                 "\xef\xa3\xbf"
                 "0\xef\xa3\xbf"
                 "1",
                 8},
                {"\"\\\\u0000\"", "\\u0000", 6},
                {"\"\\ud83c\\udf78\"", "\xf0\x9f\x8d\xb8", 4},
                {"\"\\ud83c\"", "\xef\xbf\xbd", 3},
                {"\"\\udf78x\"", "\xef\xbf\xbdx", 4},
                {"\"\\ud83c\\ud83c\\udf78\"", "\xef\xbf\xbd\xf0\x9f\x8d\xb8", 7},
                {"\"\\ud83c\\n\"", "\xef\xbf\xbd\n", 4},
                {"\"\\ufffe\\uffff\"", "\xef\xbf\xbe\xef\xbf\xbf", 6},
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_json_ cJSON *item = parse(cases[i].json);
                _cleanup_free_ char *value = NULL;
                size_t length = 0;

                value = sr_json_string_value(item, &length);
                if (length != cases[i].length || memcmp(value, cases[i].value, length) != 0)
                        fail_msg("%s came out as %zu bytes \"%s\"", cases[i].json, length, value);
                assert_int_equal(value[length], '\0');
        }
}

static void string_value_is_null_for_what_is_no_string(void **state)
{
        _cleanup_json_ cJSON *item = parse("7");

        (void)state;
        assert_null(sr_json_string_value(item, NULL));
        assert_null(sr_json_string_value(NULL, NULL));
}

static void limits_depth(void **state)
{
        cJSON *item = NULL;

        (void)state;
        assert_int_equal(sr_json_parse("[[[]]]", 6, 3, &item, NULL), 0);
        cJSON_Delete(item);
        item = NULL;
        assert_int_equal(sr_json_parse("[[[]]]", 6, 2, &item, NULL), -EINVAL);
        assert_int_equal(sr_json_parse("{\"a\":{}}", 8, 1, &item, NULL), -EINVAL);
        assert_int_equal(sr_json_parse("[],", 3, 1, &item, NULL), -EINVAL);
        assert_null(item);

        size_t depth = 100000;
        char *deep = malloc(depth);

        memset(deep, '[', depth);
        assert_int_equal(sr_json_parse(deep, depth, 1000000, &item, NULL), -EINVAL);
        free(deep);
        assert_null(item);
}

static void limits_the_number_of_values(void **state)
{
        _cleanup_buf_ struct sr_buf text = {0};
        _cleanup_error_ struct sr_error *error = NULL;
        cJSON *item = NULL;

        (void)state;
        sr_buf_append_char(&text, '[');
        for (int i = 0; i < 1000001; i++)
                sr_buf_append_text(&text, i == 0 ? "0" : ",0");
        sr_buf_append_char(&text, ']');
        assert_int_equal(sr_json_parse(text.data, text.len, 8, &item, &error), -EINVAL);
        assert_non_null(strstr(sr_error_message(error), "more values"));
}

static void reads_numbers_of_any_length(void **state)
{
        (void)state;

        _cleanup_buf_ struct sr_buf text = {0};

        sr_buf_append_text(&text, "[0.");
        for (int i = 0; i < 200; i++)
                sr_buf_append_char(&text, '3');
        sr_buf_append_text(&text, ",-1");
        for (int i = 0; i < 500; i++)
                sr_buf_append_char(&text, '0');
        sr_buf_append_text(&text, ",7]");

        _cleanup_json_ cJSON *item = parse(text.data);
        double third = cJSON_GetArrayItem(item, 0)->valuedouble;

        assert_true(third > 0.33333333 && third < 0.33333334);
        assert_true(isinf(cJSON_GetArrayItem(item, 1)->valuedouble));
        assert_true(cJSON_GetArrayItem(item, 1)->valuedouble < 0);
        assert_int_equal(cJSON_GetArrayItem(item, 2)->valueint, 7);
}

static void leaves_ret_alone_on_failure(void **state)
{
        cJSON mark, *item = &mark;

        (void)state;
        assert_int_equal(sr_json_parse("[", 1, 8, &item, NULL), -EINVAL);
        assert_ptr_equal(item, &mark);
}

static void the_last_member_of_a_name_counts(void **state)
{
        _cleanup_json_ cJSON *item = parse("{\"a\":1,\"A\":2,\"a\":3}");

        (void)state;
        assert_int_equal(sr_json_member(item, "a")->valueint, 3);
        assert_int_equal(sr_json_member(item, "A")->valueint, 2);
        assert_null(sr_json_member(item, "b"));
        assert_null(sr_json_member(NULL, "a"));
        assert_null(sr_json_member(sr_json_member(item, "a"), "a"));
}

static void finds_the_raw_text_of_a_member(void **state)
{
        static const struct {
                const char *json;
                const char *raw; // of "id"; NULL: none
        } cases[] = {
                {"{\"id\":1e3}", "1e3"},
                {"{\"id\":12345678901234567890}", "12345678901234567890"},
                {" { \"x\" : [ { \"id\" : 0 } ] , \"id\" : \"a\\\"b}\\u0061\" } ", "\"a\\\"b}\\u0061\""},
                {"{\"id\":1,\"id\":2}", "2"},
                {"{\"\\u0069d\":3}", "3"},
                {"{\"id\" :\n[1, {\"id\":9}]\n,\"z\":0}", "[1, {\"id\":9}]"},
                {"{\"a\":{\"id\":4}}", NULL},
                {"{\"a\":\"\\\\\",\"id\":null}", "null"},
                {"{\"id\\u0000\":4}", NULL},
                {"{\"ID\":4}", NULL},
                {"{}", NULL},
                {"[\"id\",1]", NULL},
                {"\"id\"", NULL},
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                size_t length = strlen(cases[i].json), found_length = 0;
                char *copy = exact_copy(cases[i].json, length);
                const char *found = NULL;
                bool there = sr_json_raw_member(copy, length, "id", &found, &found_length);

                if (there != (cases[i].raw != NULL))
                        fail_msg("%s: %s", cases[i].json, there ? "found" : "not found");
                if (there) {
                        assert_int_equal(found_length, strlen(cases[i].raw));
                        assert_memory_equal(found, cases[i].raw, found_length);
                }
                free(copy);
        }
}

static void walks_the_raw_elements(void **state)
{
        static const char text[] = " [ {\"a\":[1,2]} ,\"],[\", 3,[ ] ] ";
        static const char *const expected[] = {"{\"a\":[1,2]}", "\"],[\"", "3", "[ ]"};
        const char *element;
        size_t at = 0, length, count = 0;

        (void)state;
        while (sr_json_raw_element(text, sizeof(text) - 1, &at, &element, &length)) {
                assert_true(count < COUNT(expected));
                assert_int_equal(length, strlen(expected[count]));
                assert_memory_equal(element, expected[count], length);
                count++;
        }
        assert_int_equal(count, COUNT(expected));
        at = 0;
        assert_false(sr_json_raw_element("[]", 2, &at, &element, &length));
}

// The raw readers are for valid text only, but must end on any.
static void raw_readers_end_on_any_text(void **state)
{
        static const char *const texts[] = {
                "{",          "{\"",          "{\"a", "{\"a\"", "{\"a\":", "{\"a\":[", "{\"a\":[\"",
                "{\"a\":1 2", "{\"a\" \"b\"", "[",    "[,",     "[[",      "[\"\\",    "[1 2 3",
                "[}",         "{\"\\u00\":1}"};
        const char *found;
        size_t length;

        (void)state;
        for (size_t i = 0; i < COUNT(texts); i++) {
                size_t size = strlen(texts[i]), at = 0, rounds = 0;
                char *copy = exact_copy(texts[i], size);

                (void)sr_json_raw_member(copy, size, "id", &found, &length);
                while (sr_json_raw_element(copy, size, &at, &found, &length))
                        assert_true(rounds++ < 16);
                free(copy);
        }
        static const char nul[] = "{\"a\":[\0]}";

        (void)sr_json_raw_member(nul, sizeof(nul) - 1, "id", &found, &length);
}

static void writes_compact_and_indented(void **state)
{
        _cleanup_buf_ struct sr_buf compact = {0}, pretty = {0};

        (void)state;
        for (int round = 0; round < 2; round++) {
                struct sr_json_writer w = {
                        .out = round == 0 ? &compact : &pretty, .indent = round == 0 ? 0 : 2, .first = true};

                sr_json_open_object(&w, NULL);
                sr_json_string(&w, "s", "x");
                sr_json_open_array(&w, "a");
                sr_json_integer(&w, NULL, INT64_MIN);
                sr_json_bool(&w, NULL, true);
                sr_json_null(&w, NULL);
                sr_json_open_object(&w, NULL);
                sr_json_close_object(&w);
                sr_json_close_array(&w);
                sr_json_open_array(&w, "e");
                sr_json_close_array(&w);
                sr_json_string_or_null(&w, "n", NULL);
                sr_json_raw(&w, "r", "1e3");
                sr_json_close_object(&w);
        }
        assert_string_equal(compact.data,
                            "{\"s\":\"x\",\"a\":[-9223372036854775808,true,null,{}],\"e\":[],\"n\":null,"
                            "\"r\":1e3}");
        assert_string_equal(
                pretty.data,
                "{\n  \"s\": \"x\",\n  \"a\": [\n    -9223372036854775808,\n    true,\n    null,\n"
                "    {}\n  ],\n  \"e\": [],\n  \"n\": null,\n  \"r\": 1e3\n}");
}

static void writes_strings_that_read_back(void **state)
{
        char all[0x80 + 16];
        size_t length = 0;

        (void)state;
        for (int c = 0; c < 0x80; c++)
                all[length++] = (char)c;
        memcpy(all + length, "\xc3\xa9\xe2\x80\xa8\xef\xa3\xbf\xf0\x9f\x8d\xb8", 12);
        length += 12;

        _cleanup_buf_ struct sr_buf out = {0};
        struct sr_json_writer w = {.out = &out, .first = true};

        sr_json_string_n(&w, NULL, all, length);
        for (size_t i = 0; i < out.len; i++)
                assert_true((unsigned char)out.data[i] >= 0x20);
        assert_non_null(strstr(out.data, "\\u0000"));
        assert_non_null(strstr(out.data, "\xc3\xa9\xe2\x80\xa8"));

        _cleanup_json_ cJSON *item = parse(out.data);
        _cleanup_free_ char *back = NULL;
        size_t back_length;

        back = sr_json_string_value(item, &back_length);
        assert_int_equal(back_length, length);
        assert_memory_equal(back, all, length);
}

static void writes_valid_json_from_any_bytes(void **state)
{
        _cleanup_buf_ struct sr_buf out = {0};
        struct sr_json_writer w = {.out = &out, .first = true};

        (void)state;
        sr_json_string(&w, NULL, "a\xff\xe2\x82z\xc3\xa9\xed\xa0\x80\xf0\x9f\x8d");
        assert_string_equal(
                out.data,
                "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void writes_an_empty_string_from_null(void **state)
{
        _cleanup_buf_ struct sr_buf out = {0};
        struct sr_json_writer w = {.out = &out, .first = true};

        (void)state;
        sr_json_string_n(&w, NULL, NULL, 0);
        assert_string_equal(out.data, "\"\"");
}

static void writes_numbers_without_needless_digits(void **state)
{
        static const struct {
                double value;
                int decimals;
                const char *text;
        } cases[] = {
                {12.5, 2, "12.5"},   {0, 2, "0.0"},      {12.346, 2, "12.35"},     {100, 2, "100.0"},
                {-3.25, 2, "-3.25"}, {-0.001, 2, "0.0"}, {1.0 / 3.0, 2, "0.33"},   {INFINITY, 2, "null"},
                {NAN, 2, "null"},    {1.25, 0, "1.2"},   {9999.996, 2, "10000.0"},
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                _cleanup_buf_ struct sr_buf out = {0};
                struct sr_json_writer w = {.out = &out, .first = true};

                sr_json_number(&w, NULL, cases[i].value, cases[i].decimals);
                assert_string_equal(out.data, cases[i].text);
        }

        _cleanup_buf_ struct sr_buf out = {0};
        struct sr_json_writer w = {.out = &out, .first = true};

        sr_json_number(&w, NULL, -1.7976931348623157e308, 1000);
        assert_int_equal(out.len, 1 + 309 + 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(accepts_every_form_of_the_grammar),
                cmocka_unit_test(refuses_everything_else_and_says_where),
                cmocka_unit_test(refuses_a_nul_in_the_text),
                cmocka_unit_test(refuses_every_prefix),
                cmocka_unit_test(keeps_characters_that_c_strings_lose),
                cmocka_unit_test(string_value_is_null_for_what_is_no_string),
                cmocka_unit_test(limits_depth),
                cmocka_unit_test(limits_the_number_of_values),
                cmocka_unit_test(reads_numbers_of_any_length),
                cmocka_unit_test(leaves_ret_alone_on_failure),
                cmocka_unit_test(the_last_member_of_a_name_counts),
                cmocka_unit_test(finds_the_raw_text_of_a_member),
                cmocka_unit_test(walks_the_raw_elements),
                cmocka_unit_test(raw_readers_end_on_any_text),
                cmocka_unit_test(writes_compact_and_indented),
                cmocka_unit_test(writes_strings_that_read_back),
                cmocka_unit_test(writes_valid_json_from_any_bytes),
                cmocka_unit_test(writes_an_empty_string_from_null),
                cmocka_unit_test(writes_numbers_without_needless_digits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
