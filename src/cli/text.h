// Text for a person at a terminal: what strangers wrote is shown, never obeyed.
#pragma once

#include <stddef.h>

#include "base/buf.h"

// Appends text with every control character and every byte that is not UTF-8 as an escape (\n, \x1b…), so
// that it is one line and cannot drive the terminal.
void sr_text_append_line(struct sr_buf *out, const char *text, size_t length);
// The same, but line feeds and tabs stay.
void sr_text_append_block(struct sr_buf *out, const char *text, size_t length);

// Appends text of ours wrapped at 80 characters, without a line feed at its end. The first line goes on after
// indent characters that the caller has written; the others begin with as many spaces. Line feeds in text are
// taken for spaces.
void sr_text_append_wrapped(struct sr_buf *out, const char *text, size_t indent);

// The characters of a line of standard output when that is a terminal that tells, else 0.
size_t sr_text_terminal_width(void);

// Rows of cells, printed with each column as wide as its widest cell (the last one is not padded).
struct sr_text_table {
        size_t columns;
        char **cells; // row after row
        size_t width; // of a line: what is too long is cut in the last column; 0: nothing is cut
};
// Appends one cell, made safe as by sr_text_append_line; NULL is shown as "-".
void sr_text_table_add(struct sr_text_table *table, const char *cell);
__attribute__((format(printf, 2, 3))) void sr_text_table_addf(struct sr_text_table *table, const char *format,
                                                              ...);
void sr_text_table_print(const struct sr_text_table *table, struct sr_buf *out);
void sr_text_table_clear(struct sr_text_table *table);
#define _cleanup_table_ __attribute__((cleanup(sr_text_table_clear)))
