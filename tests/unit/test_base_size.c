#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/size.h"

static void exact_ones_lose_nothing(void **state)
{
        static const struct {
                uint64_t bytes;
                const char *text;
        } cases[] = {
                {0, "0 bytes"},
                {1, "1 byte"},
                {1000, "1000 bytes"},
                {1024, "1 KiB"},
                {(UINT64_C(1) << 20) + 1, "1048577 bytes"},
                {UINT64_C(1536) << 20, "1536 MiB"},
                {UINT64_C(4) << 30, "4 GiB"},
                {UINT64_C(64) << 40, "64 TiB"},
                {UINT64_MAX, "18446744073709551615 bytes"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *text = sr_size_exact(cases[i].bytes);

                assert_string_equal(text, cases[i].text);
        }
}

static void rounded_ones_are_short(void **state)
{
        static const struct {
                uint64_t bytes;
                const char *text;
        } cases[] = {
                {0, "0 bytes"},
                {1023, "1023 bytes"},
                {1024, "1.0 KiB"},
                {12897485, "12.3 MiB"},
                {UINT64_C(256) << 20, "256 MiB"},
                {UINT64_C(5) << 40, "5.0 TiB"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *text = sr_size_rounded(cases[i].bytes);

                assert_string_equal(text, cases[i].text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(exact_ones_lose_nothing),
                cmocka_unit_test(rounded_ones_are_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
