#include "base/utf8.h"

#include <stdint.h>

static const char replacement[] = "\xef\xbf\xbd"; // U+FFFD

// How long the sequence begun by this byte should be; 0 when none can begin with it.
static size_t expected_length(uint8_t first)
{
        if (first < 0x80)
                return 1;
        if (first >= 0xc2 && first <= 0xdf)
                return 2;
        if (first >= 0xe0 && first <= 0xef)
                return 3;
        if (first >= 0xf0 && first <= 0xf4)
                return 4;
        return 0;
}

// Whether the second byte may follow the first (RFC 3629 section 4, UTF8-3 and UTF8-4).
static bool second_fits(uint8_t first, uint8_t second)
{
        uint8_t low = 0x80, high = 0xbf;

        switch (first) {
        case 0xe0:
                low = 0xa0;
                break;
        case 0xed:
                high = 0x9f;
                break;
        case 0xf0:
                low = 0x90;
                break;
        case 0xf4:
                high = 0x8f;
                break;
        default:
                break;
        }
        return second >= low && second <= high;
}

// Whether the bytes there begin a valid sequence, as far as they go.
static bool plausible(const uint8_t *bytes, size_t length)
{
        if (length > 1 && !second_fits(bytes[0], bytes[1]))
                return false;
        for (size_t i = 2; i < length; i++)
                if ((bytes[i] & 0xc0) != 0x80)
                        return false;
        return true;
}

size_t sr_utf8_sequence(const char *text, size_t length)
{
        const uint8_t *bytes = (const uint8_t *)text;
        size_t wanted = length > 0 ? expected_length(bytes[0]) : 0;

        if (wanted == 0 || wanted > length || !plausible(bytes, wanted))
                return 0;
        return wanted;
}

bool sr_utf8_valid(const char *text, size_t length)
{
        for (size_t at = 0; at < length;) {
                size_t n = sr_utf8_sequence(text + at, length - at);

                if (n == 0)
                        return false;
                at += n;
        }
        return true;
}

void sr_utf8_append_sanitized(struct sr_buf *buf, const char *text, size_t length)
{
        size_t from = 0, at = 0;

        while (at < length) {
                size_t n = sr_utf8_sequence(text + at, length - at);

                if (n > 0) {
                        at += n;
                        continue;
                }
                sr_buf_append(buf, text + from, at - from);
                sr_buf_append(buf, replacement, sizeof(replacement) - 1);
                from = ++at;
        }
        if (at > from)
                sr_buf_append(buf, text + from, at - from);
}

size_t sr_utf8_complete_prefix(const char *text, size_t length)
{
        const uint8_t *bytes = (const uint8_t *)text;

        for (size_t back = 1; back <= 3 && back <= length; back++) {
                size_t at = length - back;
                size_t wanted = expected_length(bytes[at]);

                if (wanted > back && plausible(bytes + at, back))
                        return at;
                if (wanted != 0)
                        break;
        }
        return length;
}

size_t sr_utf8_prefix(const char *text, size_t length, size_t characters)
{
        size_t at = 0;

        while (characters-- > 0 && at < length) {
                size_t n = sr_utf8_sequence(text + at, length - at);

                at += n > 0 ? n : 1;
        }
        return at;
}
