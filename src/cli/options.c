#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "cli/text.h"
#include "config/config.h"

static bool has_letter(const struct sr_option *option)
{
        return option->id < 256;
}

static const struct sr_option *find_letter(const struct sr_option *const *tables, int letter)
{
        for (; *tables != NULL; tables++)
                for (const struct sr_option *option = *tables; option->name != NULL; option++)
                        if (has_letter(option) && option->id == letter)
                                return option;
        return NULL;
}

static const struct sr_option *find_name(const struct sr_option *const *tables, const char *name,
                                         size_t length)
{
        for (; *tables != NULL; tables++)
                for (const struct sr_option *option = *tables; option->name != NULL; option++)
                        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
                                return option;
        return NULL;
}

// The value that is an argument of its own.
static int take_value(struct sr_option_scan *scan, struct sr_error **error)
{
        if (*scan->next == NULL)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "option --%s needs a value, %s",
                                    scan->option->name, scan->option->value);
        scan->value = *scan->next++;
        return SR_OPTION_OPTION;
}

static int next_long(struct sr_option_scan *scan, const char *text, struct sr_error **error)
{
        const char *equals = strchr(text, '=');
        size_t length = equals != NULL ? (size_t)(equals - text) : strlen(text);

        scan->option = find_name(scan->tables, text, length);
        scan->value = NULL;
        if (scan->option == NULL)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "there is no option --%.*s",
                                    (int)length, text);
        if (scan->option->value == NULL) {
                if (equals != NULL)
                        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "option --%s takes no value",
                                            scan->option->name);
                return SR_OPTION_OPTION;
        }
        if (equals == NULL)
                return take_value(scan, error);
        scan->value = equals + 1;
        return SR_OPTION_OPTION;
}

static int next_short(struct sr_option_scan *scan, struct sr_error **error)
{
        const char *letter = scan->group;

        scan->group = letter[1] != '\0' ? letter + 1 : NULL;
        scan->option = find_letter(scan->tables, (unsigned char)*letter);
        scan->value = NULL;
        if (scan->option == NULL)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "there is no option -%c", *letter);
        if (scan->option->value == NULL)
                return SR_OPTION_OPTION;
        if (scan->group == NULL)
                return take_value(scan, error);
        scan->value = sr_steal(scan->group);
        return SR_OPTION_OPTION;
}

int sr_option_next(struct sr_option_scan *scan, struct sr_error **error)
{
        if (scan->group != NULL)
                return next_short(scan, error);
        scan->option = NULL;
        scan->value = NULL;
        if (*scan->next == NULL)
                return SR_OPTION_END;

        const char *argument = *scan->next++;

        if (!scan->after_dashes && argument[0] == '-' && argument[1] != '\0') {
                if (argument[1] != '-') {
                        scan->group = argument + 1;
                        return next_short(scan, error);
                }
                if (argument[2] != '\0')
                        return next_long(scan, argument + 2, error);
                scan->after_dashes = true;
                return sr_option_next(scan, error);
        }
        scan->value = argument;
        return SR_OPTION_WORD;
}

int sr_option_integer(const char *name, const char *text, int64_t minimum, int64_t maximum, int64_t *ret,
                      struct sr_error **error)
{
        const char *digits = text[0] == '-' ? text + 1 : text;
        size_t length = strspn(digits, "0123456789");

        if (length == 0 || digits[length] != '\0')
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "%s takes a whole number, not \"%s\"", name, text);
        errno = 0;
        int64_t value = strtoll(text, NULL, 10);

        if (errno == ERANGE || value < minimum || value > maximum) {
                if (maximum == INT64_MAX)
                        return sr_error_set(error, SR_ERROR_BAD_REQUEST, ERANGE,
                                            "%s takes a whole number from %lld on, not %s", name,
                                            (long long)minimum, text);
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, ERANGE,
                                    "%s takes a whole number from %lld to %lld, not %s", name,
                                    (long long)minimum, (long long)maximum, text);
        }
        *ret = value;
        return 0;
}

int sr_option_limit(const char *name, const char *tunable, const char *text, uint64_t *ret,
                    struct sr_error **error)
{
        uint64_t number = 0, least, most;
        int r = sr_config_parse(tunable, text, &number, error);

        if (r < 0)
                return sr_error_prefix(error, r, "%s", name);
        // None at all is not to be had, and in a request it means that none was given.
        if (number == 0) {
                sr_config_range(tunable, &least, &most);

                // As the runner says it of what is too little but not nothing.
                bool size = strcmp(tunable, "run.memory") == 0;
                _cleanup_free_ char *low = size ? sr_size_exact(least) : sr_config_text(tunable, least);

                return sr_error_set(error, SR_ERROR_BAD_REQUEST, ERANGE, "%s must be at least %s, not %s",
                                    name, low, text);
        }
        *ret = number;
        return 0;
}

const struct sr_option sr_option_global[] = {
        {SR_OPTION_CONFIG, "config", "FILE", "read this configuration file"},
        {SR_OPTION_DB, "db", "FILE", "history database (history.database)"},
        {SR_OPTION_STORE, "store", "DIR", "directory of the images (images.store)"},
        {SR_OPTION_LOG_LEVEL, "log-level", "LEVEL", "error, warning, info or debug (log.level)"},
        {SR_OPTION_SET, "set", "NAME=VALUE", "set any tunable that `sandbox-runner config` lists"},
        {SR_OPTION_HELP, "help", NULL, "show help"},
        {SR_OPTION_VERSION, "version", NULL, "show the version"},
        {0},
};

const char *sr_option_tunable(const struct sr_option *option)
{
        switch (option->id) {
        case SR_OPTION_DB:
                return "history.database";
        case SR_OPTION_STORE:
                return "images.store";
        case SR_OPTION_LOG_LEVEL:
                return "log.level";
        default:
                return NULL;
        }
}

void sr_option_describe_line(const char *left, const char *help, struct sr_buf *out)
{
        sr_buf_printf(out, "  %-26s ", left);
        sr_text_append_wrapped(out, help, 29);
        sr_buf_append_char(out, '\n');
}

void sr_option_describe(const struct sr_option *table, struct sr_buf *out)
{
        for (const struct sr_option *option = table; option->name != NULL; option++) {
                _cleanup_free_ char *left = sr_asprintf(
                        "%s%c%s--%s%s%s", has_letter(option) ? "-" : " ",
                        has_letter(option) ? option->id : ' ', has_letter(option) ? ", " : "  ", option->name,
                        option->value != NULL ? " " : "", option->value != NULL ? option->value : "");

                sr_option_describe_line(left, option->help, out);
        }
}
