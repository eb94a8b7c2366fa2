#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"

static void keeps_a_nul_behind_the_contents(void **state)
{
        _cleanup_buf_ struct sr_buf buf = {0};

        (void)state;
        assert_null(buf.data);
        sr_buf_append(&buf, NULL, 0);
        assert_string_equal(buf.data, "");
        for (int i = 0; i < 1000; i++) {
                sr_buf_append_char(&buf, (char)('a' + i % 26));
                assert_int_equal(buf.len, i + 1);
                assert_int_equal(buf.data[buf.len], '\0');
                assert_true(buf.len < buf.cap);
        }
        assert_int_equal(buf.data[999], 'a' + 999 % 26);
}

static void carries_nuls(void **state)
{
        _cleanup_buf_ struct sr_buf buf = {0};

        (void)state;
        sr_buf_append(&buf, "a\0b", 3);
        sr_buf_printf(&buf, "%d%s", 7, "x");
        assert_int_equal(buf.len, 5);
        assert_memory_equal(buf.data, "a\0b7x", 6);
}

static void reserve_gives_the_place_of_the_next_byte(void **state)
{
        _cleanup_buf_ struct sr_buf buf = {0};

        (void)state;
        sr_buf_append_text(&buf, "ab");

        char *to = sr_buf_reserve(&buf, 5000);

        assert_ptr_equal(to, buf.data + 2);
        assert_true(buf.cap >= 5003);
        memset(to, 'x', 5000);
        assert_int_equal(buf.len, 2);
}

static void consume_drops_from_the_front(void **state)
{
        _cleanup_buf_ struct sr_buf buf = {0};

        (void)state;
        sr_buf_consume(&buf, 0);
        sr_buf_consume(&buf, 5);
        assert_int_equal(buf.len, 0);
        sr_buf_append_text(&buf, "abcdef");
        sr_buf_consume(&buf, 0);
        assert_string_equal(buf.data, "abcdef");
        sr_buf_consume(&buf, 2);
        assert_string_equal(buf.data, "cdef");
        assert_int_equal(buf.len, 4);
        sr_buf_consume(&buf, 100);
        assert_string_equal(buf.data, "");
        assert_int_equal(buf.len, 0);
}

static void steal_empties_it(void **state)
{
        struct sr_buf buf = {0};
        size_t length = 77;

        (void)state;

        _cleanup_free_ char *empty = sr_buf_steal(&buf, &length);

        assert_string_equal(empty, "");
        assert_int_equal(length, 0);
        sr_buf_append_text(&buf, "text");

        _cleanup_free_ char *text = sr_buf_steal(&buf, &length);

        assert_string_equal(text, "text");
        assert_int_equal(length, 4);
        assert_null(buf.data);
        assert_int_equal(buf.len, 0);
        assert_int_equal(buf.cap, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keeps_a_nul_behind_the_contents),
                cmocka_unit_test(carries_nuls),
                cmocka_unit_test(reserve_gives_the_place_of_the_next_byte),
                cmocka_unit_test(consume_drops_from_the_front),
                cmocka_unit_test(steal_empties_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
