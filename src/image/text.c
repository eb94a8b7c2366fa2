#include "image/text.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/utf8.h"

#define SHOWN 160 // bytes of a name that a message has room for

static void append_printable(struct sr_buf *buf, const char *text, size_t length)
{
        for (size_t at = 0; at < length;) {
                size_t n = sr_utf8_sequence(text + at, length - at);
                unsigned char c = (unsigned char)text[at];
                // U+0080 to U+009F are control characters too.
                bool control =
                        c < 0x20 || c == 0x7f || (c == 0xc2 && n == 2 && (unsigned char)text[at + 1] < 0xa0);

                if (n == 0 || control)
                        sr_buf_append_char(buf, '?');
                else
                        sr_buf_append(buf, text + at, n);
                at += n != 0 ? n : 1;
        }
}

char *sr_image_printable(const char *text)
{
        _cleanup_buf_ struct sr_buf buf = {0};
        size_t length = strlen(text);

        if (length <= SHOWN) {
                append_printable(&buf, text, length);
        } else {
                append_printable(&buf, text, sr_utf8_complete_prefix(text, SHOWN / 2));
                sr_buf_append_text(&buf, "…");
                text += length - SHOWN / 2;
                while (((unsigned char)*text & 0xc0) == 0x80)
                        text++;
                append_printable(&buf, text, strlen(text));
        }
        return sr_buf_steal(&buf, NULL);
}

char *sr_image_size_text(uint64_t bytes)
{
        static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
        double value = (double)bytes / 1000;
        size_t unit = 0;

        if (bytes < 1000)
                return sr_asprintf("%d B", (int)bytes);
        while (value >= 999.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
                value /= 1000;
                unit++;
        }
        return sr_asprintf("%.1f %s", value, units[unit]);
}
