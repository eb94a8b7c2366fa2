#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

char *sr_buf_reserve(struct sr_buf *buf, size_t extra)
{
        if (extra >= SIZE_MAX / 2 - buf->len)
                extra = SIZE_MAX / 2; // the allocation below ends the program
        size_t needed = buf->len + extra + 1;

        if (needed > buf->cap) {
                size_t cap = buf->cap < 64 ? 64 : buf->cap;

                while (cap < needed)
                        cap += cap / 2;
                buf->data = sr_realloc(buf->data, cap, 1);
                buf->cap = cap;
                buf->data[buf->len] = '\0';
        }
        return buf->data + buf->len;
}

void sr_buf_append(struct sr_buf *buf, const void *bytes, size_t length)
{
        char *to = sr_buf_reserve(buf, length);

        if (length > 0)
                memcpy(to, bytes, length);
        buf->len += length;
        buf->data[buf->len] = '\0';
}

void sr_buf_append_text(struct sr_buf *buf, const char *text)
{
        sr_buf_append(buf, text, strlen(text));
}

void sr_buf_append_char(struct sr_buf *buf, char c)
{
        sr_buf_append(buf, &c, 1);
}

void sr_buf_printf(struct sr_buf *buf, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        va_list arguments;

        va_start(arguments, format);
        text = sr_vasprintf(format, arguments);
        va_end(arguments);
        sr_buf_append_text(buf, text);
}

void sr_buf_consume(struct sr_buf *buf, size_t length)
{
        if (length >= buf->len) {
                buf->len = 0;
        } else if (length > 0) {
                memmove(buf->data, buf->data + length, buf->len - length);
                buf->len -= length;
        }
        if (buf->data != NULL)
                buf->data[buf->len] = '\0';
}

char *sr_buf_steal(struct sr_buf *buf, size_t *ret_length)
{
        sr_buf_reserve(buf, 0);

        char *data = buf->data;

        if (ret_length != NULL)
                *ret_length = buf->len;
        *buf = (struct sr_buf){0};
        return data;
}

void sr_buf_clear(struct sr_buf *buf)
{
        free(buf->data);
        *buf = (struct sr_buf){0};
}
