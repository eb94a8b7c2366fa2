// The report of `doctor` for a person: a line a check, wrapped where the width of the screen is known. What
// is wrapped stays what it was: a command broken over lines can be pasted into a shell as it stands.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/doctor.h"
#include "cli/text.h"

// However narrow the screen, a line has room for this.
#define LEAST_ROOM 24

size_t doctor_text_width(void)
{
        const char *columns = getenv("COLUMNS");
        unsigned long wanted =
                columns != NULL && isdigit((unsigned char)*columns) ? strtoul(columns, NULL, 10) : 0;
        struct winsize size;

        if (wanted > 0)
                return wanted;
        if (!isatty(STDOUT_FILENO))
                return 0;
        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// In characters, each of one column.
static size_t columns_of(const char *text, size_t length)
{
        size_t count = 0;

        for (size_t i = 0; i < length; i++)
                count += (text[i] & 0xc0) != 0x80;
        return count;
}

// The length of the word at text + at, which is not a space. In a command what is quoted is not broken, nor
// is a comment.
static size_t word_length(const char *text, size_t at, bool command)
{
        char quote = '\0';
        size_t i = at;

        if (command && text[at] == '#')
                return strlen(text + at);
        for (; text[i] != '\0' && (text[i] != ' ' || quote != '\0'); i++) {
                if (!command)
                        continue;
                if (quote != '\0')
                        quote = text[i] == quote ? '\0' : quote;
                // Not the apostrophe of a word.
                else if ((text[i] == '\'' || text[i] == '"') &&
                         (i == at || !isalnum((unsigned char)text[i - 1])))
                        quote = text[i];
        }
        return i - at;
}

static void new_line(struct sr_buf *out, size_t indent)
{
        sr_buf_append_char(out, '\n');
        for (size_t i = 0; i < indent; i++)
                sr_buf_append_char(out, ' ');
}

void doctor_wrap(struct sr_buf *out, const char *text, size_t indent, size_t width, bool command)
{
        _cleanup_buf_ struct sr_buf safe = {0};
        size_t column = indent, end = width == 0 ? SIZE_MAX : width;

        if (end < indent + LEAST_ROOM)
                end = indent + LEAST_ROOM;
        sr_text_append_line(&safe, text, strlen(text));
        for (size_t at = 0; safe.data != NULL && safe.data[at] != '\0';) {
                size_t gap = strspn(safe.data + at, " ");
                const char *word = safe.data + at + gap;

                if (*word == '\0')
                        break;
                size_t length = word_length(safe.data, at + gap, command);
                size_t columns = columns_of(word, length);
                bool more = word[length + strspn(word + length, " ")] != '\0';

                // Room for the backslash of a command that goes on.
                if (column > indent && column + gap + columns + (command && more ? 2 : 0) > end) {
                        sr_buf_append_text(out, command ? " \\" : "");
                        new_line(out, indent);
                        column = indent;
                        gap = 0;
                }
                sr_buf_append(out, word - gap, gap + length);
                column += gap + columns;
                at += (size_t)(word - (safe.data + at)) + length;
        }
}

// Line by line, each with a mark of its own before it.
static void write_fix(const struct doctor_finding *finding, size_t indent, size_t width, struct sr_buf *out)
{
        _cleanup_free_ char *lines = finding->fix != NULL ? sr_strdup(finding->fix) : NULL;
        char *rest = lines, *line;

        for (unsigned i = 0; (line = strsep(&rest, "\n")) != NULL; i++) {
                new_line(out, indent);
                sr_buf_append_text(out, i == 0 ? "→ " : "or ");
                doctor_wrap(out, line, indent + (i == 0 ? 2 : 3), width, !(finding->words >> i & 1));
        }
}

void doctor_write_text(const struct doctor_check *checks, const struct doctor_finding *findings, size_t count,
                       const char *const *state_names, size_t width, struct sr_buf *out)
{
        int states = 0, titles = 0;

        for (size_t i = 0; i < count; i++) {
                int state = (int)strlen(state_names[findings[i].state]), title = (int)strlen(checks[i].title);

                states = state > states ? state : states;
                titles = title > titles ? title : titles;
        }
        for (size_t i = 0; i < count; i++) {
                size_t indent = (size_t)states + 2 + (size_t)titles + 2;
                _cleanup_free_ char *lines = sr_strdup(findings[i].found);
                char *rest = lines, *line = strsep(&rest, "\n");

                sr_buf_printf(out, "%-*s  %-*s  ", states, state_names[findings[i].state], titles,
                              checks[i].title);
                doctor_wrap(out, line, indent, width, false);
                while ((line = strsep(&rest, "\n")) != NULL) {
                        new_line(out, indent);
                        doctor_wrap(out, line, indent, width, false);
                }
                write_fix(&findings[i], indent, width, out);
                sr_buf_append_char(out, '\n');
        }
}
