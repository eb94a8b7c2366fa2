#include "base/clock.h"

#include <time.h>

#include "base/alloc.h"

uint64_t sr_clock_monotonic_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t sr_clock_realtime_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

char *sr_clock_format_iso(int64_t unix_us)
{
        int64_t seconds = unix_us / 1000000, rest = unix_us % 1000000;

        if (rest < 0) {
                rest += 1000000;
                seconds--;
        }

        time_t when = (time_t)seconds;
        struct tm utc;

        if (gmtime_r(&when, &utc) == NULL)
                return sr_strdup("");
        return sr_asprintf("%04d-%02d-%02dT%02d:%02d:%02d.%06d+00:00", utc.tm_year + 1900, utc.tm_mon + 1,
                           utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)rest);
}
