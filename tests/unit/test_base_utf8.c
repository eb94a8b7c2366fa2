// UTF-8 against RFC 3629, checked with an independent reading of it: a decoder that works from code points.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"

static size_t encode(uint32_t point, char *out)
{
        if (point < 0x80) {
                out[0] = (char)point;
                return 1;
        }
        if (point < 0x800) {
                out[0] = (char)(0xc0 | point >> 6);
                out[1] = (char)(0x80 | (point & 0x3f));
                return 2;
        }
        if (point < 0x10000) {
                out[0] = (char)(0xe0 | point >> 12);
                out[1] = (char)(0x80 | (point >> 6 & 0x3f));
                out[2] = (char)(0x80 | (point & 0x3f));
                return 3;
        }
        out[0] = (char)(0xf0 | point >> 18);
        out[1] = (char)(0x80 | (point >> 12 & 0x3f));
        out[2] = (char)(0x80 | (point >> 6 & 0x3f));
        out[3] = (char)(0x80 | (point & 0x3f));
        return 4;
}

static void every_code_point_but_surrogates_is_valid(void **state)
{
        (void)state;
        for (uint32_t point = 0; point <= 0x1fffff; point++) {
                char text[4];
                size_t length = encode(point, text);
                bool valid = point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);

                if (sr_utf8_sequence(text, length) != (valid ? length : 0))
                        fail_msg("U+%X", point);
                if (valid && length > 1)
                        assert_int_equal(sr_utf8_sequence(text, length - 1), 0);
        }
        assert_int_equal(sr_utf8_sequence("", 0), 0);
}

// All pairs of bytes: a two-byte text is valid when it is two ASCII characters or one encoded code point.
static void no_other_pair_of_bytes_is_valid(void **state)
{
        size_t count = 0;

        (void)state;
        for (int pair = 0; pair < 0x10000; pair++) {
                char text[2] = {(char)(pair >> 8), (char)(pair & 0xff)};

                count += sr_utf8_valid(text, 2);
        }
        assert_int_equal(count, 0x80 * 0x80 + (0x800 - 0x80));
}

static void overlong_forms_are_invalid(void **state)
{
        static const char *const texts[] = {
                "\xc0\xaf",         "\xc1\xbf",         "\xe0\x80\xaf",        "\xe0\x9f\xbf",
                "\xf0\x80\x80\xaf", "\xf0\x8f\xbf\xbf", "\xf8\x88\x80\x80\x80"};

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                assert_false(sr_utf8_valid(texts[i], strlen(texts[i])));
        assert_true(sr_utf8_valid("a\0b", 3));
        assert_true(sr_utf8_valid(NULL, 0));
}

static void each_bad_byte_becomes_one_replacement(void **state)
{
        static const struct {
                const char *text;
                const char *clean;
        } cases[] = {
                {"", ""},
                {"abc", "abc"},
                {"a\xff"
                 "b",
                 "a\xef\xbf\xbd"
                 "b"},
                {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"},
                {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
                {"\xe2\x82x\xe2\x82\xac", "\xef\xbf\xbd\xef\xbf\xbdx\xe2\x82\xac"},
                {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                {"\xf0\x9f\x8d\xb8\x80", "\xf0\x9f\x8d\xb8\xef\xbf\xbd"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_buf_ struct sr_buf out = {0};

                sr_buf_append_text(&out, ">");
                sr_utf8_append_sanitized(&out, cases[i].text, strlen(cases[i].text));
                assert_string_equal(out.data + 1, cases[i].clean);
        }

        _cleanup_buf_ struct sr_buf out = {0};

        sr_utf8_append_sanitized(&out, NULL, 0);
        assert_int_equal(out.len, 0);
        sr_utf8_append_sanitized(&out, "a\0\xff", 3);
        assert_int_equal(out.len, 5);
        assert_memory_equal(out.data, "a\0\xef\xbf\xbd", 5);
}

// Cut a text of characters of every length at every byte: what is kept is whole and misses less than one.
static void a_cut_never_splits_a_character(void **state)
{
        static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8d\xb8z\xf4\x8f\xbf\xbf\xed\x9f\xbf";

        (void)state;
        for (size_t cut = 0; cut < sizeof(text); cut++) {
                size_t kept = sr_utf8_complete_prefix(text, cut);

                assert_true(kept <= cut && cut - kept < 4);
                assert_true(sr_utf8_valid(text, kept));
        }
        assert_int_equal(sr_utf8_complete_prefix(text, sizeof(text) - 1), sizeof(text) - 1);
}

static void a_cut_keeps_bytes_that_are_plainly_wrong(void **state)
{
        static const char *const texts[] = {"ab\xff",      "ab\x80", "ab\x80\x80\x80",   "\xe2x",
                                            "ab\xed\xa0",  "ab\xc0", "\x80\x80\x80\x80", "ab\xf0\x80",
                                            "\xc3\xa9\xa9"};

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                assert_int_equal(sr_utf8_complete_prefix(texts[i], strlen(texts[i])), strlen(texts[i]));
}

static void prefix_counts_characters(void **state)
{
        static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8d\xb8z";
        static const size_t ends[] = {0, 1, 3, 6, 10, 11, 11};

        (void)state;
        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
                assert_int_equal(sr_utf8_prefix(text, sizeof(text) - 1, i), ends[i]);
        assert_int_equal(sr_utf8_prefix(text, sizeof(text) - 1, SIZE_MAX), sizeof(text) - 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_code_point_but_surrogates_is_valid),
                cmocka_unit_test(no_other_pair_of_bytes_is_valid),
                cmocka_unit_test(overlong_forms_are_invalid),
                cmocka_unit_test(each_bad_byte_becomes_one_replacement),
                cmocka_unit_test(a_cut_never_splits_a_character),
                cmocka_unit_test(a_cut_keeps_bytes_that_are_plainly_wrong),
                cmocka_unit_test(prefix_counts_characters),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
