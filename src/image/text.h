// Text for messages: names that strangers chose, and sizes.
#pragma once

#include <stdint.h>

// text as it may be shown on a terminal: control characters and what is not UTF-8 become '?', and the middle
// of anything long is left out. The caller frees it.
char *sr_image_printable(const char *text);
// "512 B", "12.3 MB" (powers of 1000). The caller frees it.
char *sr_image_size_text(uint64_t bytes);
