// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, at most U+10FFFF.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

// Length in bytes of the valid sequence at text (1 to 4), or 0 when the byte there starts none within length.
size_t sr_utf8_sequence(const char *text, size_t length);
bool sr_utf8_valid(const char *text, size_t length);
// Appends text with each byte that is not part of a valid sequence replaced by U+FFFD.
void sr_utf8_append_sanitized(struct sr_buf *buf, const char *text, size_t length);
// The length of the longest prefix of text that does not end inside a sequence begun in its last 3 bytes.
// For text cut at an arbitrary byte: an incomplete tail is left out, bytes that are plainly wrong stay.
size_t sr_utf8_complete_prefix(const char *text, size_t length);
// The length in bytes of the first characters characters of valid UTF-8.
size_t sr_utf8_prefix(const char *text, size_t length, size_t characters);
