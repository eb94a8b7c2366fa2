#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"

static void formats_iso_8601_in_utc(void **state)
{
        static const struct {
                int64_t us;
                const char *text;
        } cases[] = {
                {0, "1970-01-01T00:00:00.000000+00:00"},
                {INT64_C(1795987503123456), "2026-11-29T21:25:03.123456+00:00"},
                {INT64_C(951782400000001), "2000-02-29T00:00:00.000001+00:00"},
                {-1, "1969-12-31T23:59:59.999999+00:00"},
                {-1000000, "1969-12-31T23:59:59.000000+00:00"},
                {INT64_C(253402300799999999), "9999-12-31T23:59:59.999999+00:00"},
        };

        (void)state;
        // A zone far from UTC must not show.
        setenv("TZ", "Asia/Tokyo", 1);
        tzset();
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *text = sr_clock_format_iso(cases[i].us);

                assert_string_equal(text, cases[i].text);
        }

        _cleanup_free_ char *earliest = sr_clock_format_iso(INT64_MIN),
                            *latest = sr_clock_format_iso(INT64_MAX);

        assert_non_null(earliest);
        assert_non_null(latest);
}

static void clocks_run(void **state)
{
        uint64_t before = sr_clock_monotonic_ns();
        int64_t real = sr_clock_realtime_us();
        struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};

        (void)state;
        nanosleep(&pause, NULL);
        assert_true(sr_clock_monotonic_ns() - before >= 20u * 1000 * 1000);
        assert_true(llabs(real / 1000000 - (int64_t)time(NULL)) <= 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(formats_iso_8601_in_utc),
                cmocka_unit_test(clocks_run),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
