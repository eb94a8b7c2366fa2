#include "cli/text.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define LINE_WIDTH 80
#define BLANKS     " \n"

// C0, DEL, and C1 (U+0080 to U+009F), which terminals obey too.
static bool is_control(const char *text, size_t length)
{
        unsigned char first = (unsigned char)text[0];

        if (length == 1)
                return first < 0x20 || first == 0x7f;
        return length == 2 && first == 0xc2 && (unsigned char)text[1] < 0xa0;
}

static void append_escape(struct sr_buf *out, const char *text, size_t length)
{
        if (length == 1 && *text == '\n')
                sr_buf_append_text(out, "\\n");
        else if (length == 1 && *text == '\t')
                sr_buf_append_text(out, "\\t");
        else if (length == 1 && *text == '\r')
                sr_buf_append_text(out, "\\r");
        else
                for (size_t i = 0; i < length; i++)
                        sr_buf_printf(out, "\\x%02x", (unsigned char)text[i]);
}

static void append_visible(struct sr_buf *out, const char *text, size_t length, bool lines)
{
        for (size_t at = 0; at < length;) {
                size_t n = sr_utf8_sequence(text + at, length - at);

                if (n == 0)
                        append_escape(out, text + at, n = 1);
                else if (is_control(text + at, n) && !(lines && (text[at] == '\n' || text[at] == '\t')))
                        append_escape(out, text + at, n);
                else
                        sr_buf_append(out, text + at, n);
                at += n;
        }
}

void sr_text_append_line(struct sr_buf *out, const char *text, size_t length)
{
        append_visible(out, text, length, false);
}

void sr_text_append_block(struct sr_buf *out, const char *text, size_t length)
{
        append_visible(out, text, length, true);
}

void sr_text_table_add(struct sr_text_table *table, const char *cell)
{
        struct sr_buf safe = {0};

        if (cell == NULL || *cell == '\0')
                cell = "-";
        sr_text_append_line(&safe, cell, strlen(cell));
        sr_strv_append(&table->cells, sr_buf_steal(&safe, NULL));
}

void sr_text_table_addf(struct sr_text_table *table, const char *format, ...)
{
        _cleanup_free_ char *cell = NULL;
        va_list arguments;

        va_start(arguments, format);
        cell = sr_vasprintf(format, arguments);
        va_end(arguments);
        sr_text_table_add(table, cell);
}

// In characters: wide and combining ones are rare enough here to be counted as one.
static size_t width(const char *text)
{
        size_t characters = 0;

        for (; *text != '\0'; text++)
                characters += (*text & 0xc0) != 0x80;
        return characters;
}

void sr_text_append_wrapped(struct sr_buf *out, const char *text, size_t indent)
{
        size_t column = indent;

        for (text += strspn(text, BLANKS); *text != '\0'; text += strspn(text, BLANKS)) {
                _cleanup_free_ char *word = sr_memdup0(text, strcspn(text, BLANKS));
                size_t length = width(word);

                if (column > indent && column + 1 + length > LINE_WIDTH) {
                        sr_buf_printf(out, "\n%*s", (int)indent, "");
                        column = indent;
                } else if (column > indent) {
                        sr_buf_append_char(out, ' ');
                        column++;
                }
                sr_buf_append_text(out, word);
                column += length;
                text += strlen(word);
        }
}

size_t sr_text_terminal_width(void)
{
        struct winsize size;

        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// So much of the last column is shown on the narrowest terminal.
#define CUT_MIN 8

// Appends a cell that begins after `before` characters.
static void append_last(const struct sr_text_table *table, const char *cell, size_t before,
                        struct sr_buf *out)
{
        size_t room = table->width > before + CUT_MIN ? table->width - before : CUT_MIN;

        if (table->width == 0 || width(cell) <= room)
                sr_buf_append_text(out, cell);
        else
                sr_buf_printf(out, "%.*s…", (int)sr_utf8_prefix(cell, strlen(cell), room - 1), cell);
}

void sr_text_table_print(const struct sr_text_table *table, struct sr_buf *out)
{
        size_t count = sr_strv_length(table->cells);
        _cleanup_free_ size_t *widths = sr_new_array(size_t, table->columns);
        size_t before = 0;

        for (size_t i = 0; i < count; i++) {
                size_t w = width(table->cells[i]);

                if (w > widths[i % table->columns])
                        widths[i % table->columns] = w;
        }
        for (size_t i = 0; i < count; i++) {
                size_t column = i % table->columns;

                if (column == 0)
                        before = 0;
                if (column + 1 == table->columns || i + 1 == count) {
                        append_last(table, table->cells[i], before, out);
                        sr_buf_append_char(out, '\n');
                        continue;
                }
                sr_buf_append_text(out, table->cells[i]);
                before += widths[column] + 2;
                for (size_t w = width(table->cells[i]); w < widths[column] + 2; w++)
                        sr_buf_append_char(out, ' ');
        }
}

void sr_text_table_clear(struct sr_text_table *table)
{
        table->cells = sr_strv_free(table->cells);
}
