#pragma once

#include <stdint.h>

// CLOCK_MONOTONIC in nanoseconds.
uint64_t sr_clock_monotonic_ns(void);
// Unix time in microseconds.
int64_t sr_clock_realtime_us(void);
// ISO 8601 in UTC with microseconds, "2026-11-29T21:25:03.123456+00:00"; the caller frees it.
char *sr_clock_format_iso(int64_t unix_us);
