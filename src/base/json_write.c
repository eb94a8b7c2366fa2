#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

// How an ASCII character that cannot stand for itself is written; its length.
static size_t escape_ascii(unsigned char c, char escape[6])
{
        static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
        const char *known = memchr(from, c, sizeof(from) - 1);

        escape[0] = '\\';
        if (known != NULL) {
                escape[1] = to[known - from];
                return 2;
        }
        memcpy(escape + 1, "u00", 3);
        escape[4] = hex[c >> 4];
        escape[5] = hex[c & 15];
        return 6;
}

static void put_string(struct sr_buf *out, const char *text, size_t length)
{
        size_t from = 0, at = 0;

        sr_buf_append_char(out, '"');
        if (length == 0)
                text = ""; // it may be NULL then
        while (at < length) {
                unsigned char c = (unsigned char)text[at];
                char escape[6] = "\xef\xbf\xbd"; // U+FFFD
                size_t n = 3;

                if (c >= 0x80) {
                        size_t sequence = sr_utf8_sequence(text + at, length - at);

                        at += sequence;
                        if (sequence > 0)
                                continue;
                } else if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
                        at++;
                        continue;
                } else {
                        n = escape_ascii(c, escape);
                }
                sr_buf_append(out, text + from, at - from);
                sr_buf_append(out, escape, n);
                from = ++at;
        }
        sr_buf_append(out, text + from, length - from);
        sr_buf_append_char(out, '"');
}

static void new_line(struct sr_json_writer *w)
{
        if (w->indent == 0)
                return;
        sr_buf_append_char(w->out, '\n');
        for (int i = 0; i < w->depth * w->indent; i++)
                sr_buf_append_char(w->out, ' ');
}

// What stands before any value: comma, line break, member name.
static void lead(struct sr_json_writer *w, const char *key)
{
        if (!w->first)
                sr_buf_append_char(w->out, ',');
        if (w->depth > 0)
                new_line(w);
        w->first = false;
        if (key != NULL) {
                put_string(w->out, key, strlen(key));
                sr_buf_append_text(w->out, w->indent > 0 ? ": " : ":");
        }
}

static void open_container(struct sr_json_writer *w, const char *key, char bracket)
{
        lead(w, key);
        sr_buf_append_char(w->out, bracket);
        w->depth++;
        w->first = true;
}

static void close_container(struct sr_json_writer *w, char bracket)
{
        bool empty = w->first;

        w->depth--;
        if (!empty)
                new_line(w);
        sr_buf_append_char(w->out, bracket);
        w->first = false;
}

void sr_json_open_object(struct sr_json_writer *w, const char *key)
{
        open_container(w, key, '{');
}

void sr_json_close_object(struct sr_json_writer *w)
{
        close_container(w, '}');
}

void sr_json_open_array(struct sr_json_writer *w, const char *key)
{
        open_container(w, key, '[');
}

void sr_json_close_array(struct sr_json_writer *w)
{
        close_container(w, ']');
}

void sr_json_string_n(struct sr_json_writer *w, const char *key, const char *text, size_t length)
{
        lead(w, key);
        put_string(w->out, text, length);
}

void sr_json_string(struct sr_json_writer *w, const char *key, const char *text)
{
        sr_json_string_n(w, key, text, strlen(text));
}

void sr_json_string_or_null(struct sr_json_writer *w, const char *key, const char *text)
{
        if (text != NULL)
                sr_json_string(w, key, text);
        else
                sr_json_null(w, key);
}

void sr_json_integer(struct sr_json_writer *w, const char *key, int64_t value)
{
        lead(w, key);
        sr_buf_printf(w->out, "%lld", (long long)value);
}

void sr_json_number(struct sr_json_writer *w, const char *key, double value, int decimals)
{
        // The longest double has 309 digits before the point; more than 17 after it say nothing.
        char text[384];
        int digits = decimals < 1 ? 1 : decimals > 17 ? 17 : decimals;

        if (!isfinite(value)) {
                sr_json_null(w, key);
                return;
        }
        lead(w, key);

        int length = snprintf(text, sizeof(text), "%.*f", digits, value);
        int sign = text[0] == '-' && strspn(text, "-0.") == (size_t)length; // of a zero: "-0.00"

        while (length > 1 && text[length - 1] == '0' && text[length - 2] != '.')
                length--;
        sr_buf_append(w->out, text + sign, (size_t)(length - sign));
}

void sr_json_bool(struct sr_json_writer *w, const char *key, bool value)
{
        lead(w, key);
        sr_buf_append_text(w->out, value ? "true" : "false");
}

void sr_json_null(struct sr_json_writer *w, const char *key)
{
        lead(w, key);
        sr_buf_append_text(w->out, "null");
}

void sr_json_raw(struct sr_json_writer *w, const char *key, const char *json)
{
        lead(w, key);
        sr_buf_append_text(w->out, json);
}
