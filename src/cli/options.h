// Reading a command line: short and long options, `--name=value`, `--name value`, groups of short options,
// and `--` after which nothing is an option.
//
// Options and words may come in any order. Options are data: the tables below are also what --help prints, so
// that help and behaviour cannot differ.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

// A table of options ends with an entry whose name is NULL.
struct sr_option {
        int id;            // its letter, or a number from 256 on when it has only a long name
        const char *name;  // long name without the dashes
        const char *value; // what --help calls its value; NULL: it takes none
        const char *help;  // one line
};

// What every command understands, in this program and its companion.
enum {
        SR_OPTION_CONFIG = 1024, // beyond the numbers of the verbs' own
        SR_OPTION_DB,
        SR_OPTION_STORE,
        SR_OPTION_LOG_LEVEL,
        SR_OPTION_SET,
        SR_OPTION_VERSION,
        SR_OPTION_HELP = 'h',
};
extern const struct sr_option sr_option_global[];
// The tunable that a global option is short for; NULL when it is for none.
const char *sr_option_tunable(const struct sr_option *option);

enum sr_option_item {
        SR_OPTION_END,    // nothing is left
        SR_OPTION_OPTION, // scan->option, scan->value
        SR_OPTION_WORD,   // scan->value, which is no option
};

struct sr_option_scan {
        // Set by the caller.
        char *const *next;                     // what is still to be read, NULL-terminated
        const struct sr_option *const *tables; // NULL-terminated; the first that knows an option counts
        // Found last.
        const struct sr_option *option;
        const char *value;
        bool after_dashes; // "--" has been read
        // Private.
        const char *group; // what is left of a group of short options
};

// Gives the next item, or -EINVAL with a sentence about the argument at fault.
int sr_option_next(struct sr_option_scan *scan, struct sr_error **error);

// Reads a decimal integer from minimum to maximum, nothing around it. name is how the message calls the
// option. -EINVAL or -ERANGE.
int sr_option_integer(const char *name, const char *text, int64_t minimum, int64_t maximum, int64_t *ret,
                      struct sr_error **error);

// Reads a limit of a run, in the words of that tunable (a size, processors, a count); 0 is refused. name is
// how the message calls the option. -EINVAL or -ERANGE.
int sr_option_limit(const char *name, const char *tunable, const char *text, uint64_t *ret,
                    struct sr_error **error);

// Appends a line of help, wrapped: what is explained, and the explanation.
void sr_option_describe_line(const char *left, const char *help, struct sr_buf *out);
// Appends the table as --help shows it.
void sr_option_describe(const struct sr_option *table, struct sr_buf *out);
