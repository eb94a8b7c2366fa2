// A growable byte buffer. data is NULL while cap is 0; after any append data[len] is a NUL that is not
// counted, so text can be read as a C string.
#pragma once

#include <stdarg.h>
#include <stddef.h>

struct sr_buf {
        char *data;
        size_t len;
        size_t cap;
};

// Makes room for extra more bytes (and the NUL); returns where they go.
char *sr_buf_reserve(struct sr_buf *buf, size_t extra);
void sr_buf_append(struct sr_buf *buf, const void *bytes, size_t length);
void sr_buf_append_text(struct sr_buf *buf, const char *text);
void sr_buf_append_char(struct sr_buf *buf, char c);
__attribute__((format(printf, 2, 3))) void sr_buf_printf(struct sr_buf *buf, const char *format, ...);
// Drops the first length bytes.
void sr_buf_consume(struct sr_buf *buf, size_t length);
// Gives the contents away ("" when empty, never NULL); the buffer is empty afterwards.
char *sr_buf_steal(struct sr_buf *buf, size_t *ret_length);
void sr_buf_clear(struct sr_buf *buf);
#define _cleanup_buf_ __attribute__((cleanup(sr_buf_clear)))
