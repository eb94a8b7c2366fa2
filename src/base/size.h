// Sizes as people read them.
#pragma once

#include <stdint.h>

// Exactly, in the largest unit that divides it: "256 MiB", "1 KiB", "1000 bytes". The caller frees it.
char *sr_size_exact(uint64_t bytes);
// To three or more digits: "12.3 MiB", "980 bytes". The caller frees it.
char *sr_size_rounded(uint64_t bytes);
