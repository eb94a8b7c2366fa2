// One value: text to member and back, with the bounds of the table.

#include "config/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define MILLION UINT64_C(1000000)

struct unit {
        const char *suffix; // lower case
        uint64_t factor;
};

// Sizes are powers of 1024 throughout. "MB" is refused: half the world reads it as 10^6.
static const struct unit size_units[] = {
        {"", 1},
        {"b", 1},
        {"k", UINT64_C(1) << 10},
        {"kib", UINT64_C(1) << 10},
        {"m", UINT64_C(1) << 20},
        {"mib", UINT64_C(1) << 20},
        {"g", UINT64_C(1) << 30},
        {"gib", UINT64_C(1) << 30},
        {"t", UINT64_C(1) << 40},
        {"tib", UINT64_C(1) << 40},
        {NULL, 0},
};
// To microseconds.
static const struct unit time_units[] = {
        {"", MILLION}, {"s", MILLION}, {"ms", 1000}, {"min", 60 * MILLION}, {NULL, 0},
};
// To thousandths.
static const struct unit cpu_units[] = {{"", 1000}, {NULL, 0}};
static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

static const struct {
        const struct unit *units;
        const char *what;
} kinds[] = {
        [CONFIG_SECONDS] = {time_units, "a whole number of seconds"},
        [CONFIG_DURATION] = {time_units, "a time in seconds (\"30\", \"1.5s\", \"500ms\")"},
        [CONFIG_SIZE] = {size_units,
                         "a size (bytes, or a number with K, M, G or T as in \"64M\" or \"64MiB\")"},
        [CONFIG_COUNT] = {no_units, "a whole number"},
        [CONFIG_CPUS] = {cpu_units, "a number of processors with at most three decimals"},
        [CONFIG_BOOL] = {NULL, "true or false"},
        [CONFIG_PATH] = {NULL, "a path"},
        [CONFIG_PATHS] = {NULL, "a list of paths"},
        [CONFIG_CHOICE] = {NULL, NULL},
};

char *config_shown(const char *text)
{
        _cleanup_buf_ struct sr_buf shown = {0};
        size_t length = strlen(text);
        bool cut = length > 100;

        if (cut)
                length = sr_utf8_complete_prefix(text, 100);
        sr_utf8_append_sanitized(&shown, text, length);
        for (size_t i = 0; i < shown.len; i++)
                if ((unsigned char)shown.data[i] < 0x20)
                        shown.data[i] = '?';
        if (cut)
                sr_buf_append_text(&shown, "...");
        return sr_buf_steal(&shown, NULL);
}

static char *trimmed(const char *text)
{
        size_t length;

        while (isspace((unsigned char)*text))
                text++;
        length = strlen(text);
        while (length > 0 && isspace((unsigned char)text[length - 1]))
                length--;
        return sr_memdup0(text, length);
}

// A decimal number in millionths, read exactly; *ret_rest is what follows it.
static bool read_decimal(const char *text, unsigned __int128 *ret_millionths, const char **ret_rest)
{
        unsigned __int128 value = 0;
        int digits = 0, decimals = 0;
        const char *at = text;

        for (; isdigit((unsigned char)*at); at++, digits++)
                value = value * 10 + (unsigned)(*at - '0');
        if (digits == 0 || digits > 20)
                return false;
        if (*at == '.') {
                for (at++; isdigit((unsigned char)*at); at++) {
                        if (decimals < 6) {
                                value = value * 10 + (unsigned)(*at - '0');
                                decimals++;
                        } else if (*at != '0') {
                                return false;
                        }
                }
                if (decimals == 0)
                        return false;
        }
        for (; decimals < 6; decimals++)
                value *= 10;
        *ret_millionths = value;
        *ret_rest = at;
        return true;
}

// A number with one of the units, in the unit of the factors. Not a number, or not a whole result: false.
// A number too large for 64 bits is UINT64_MAX, which is out of every range.
static bool read_quantity(const char *text, const struct unit *units, uint64_t *ret)
{
        unsigned __int128 millionths;
        const char *rest;

        if (!read_decimal(text, &millionths, &rest))
                return false;
        while (*rest == ' ')
                rest++;
        while (units->suffix != NULL && strcasecmp(units->suffix, rest) != 0)
                units++;
        if (units->suffix == NULL)
                return false;
        // At most 10^20 whole ones: below 2^87. The largest factor is 2^40.
        unsigned __int128 product = millionths * units->factor;

        if (product % MILLION != 0)
                return false;
        product /= MILLION;
        *ret = product > UINT64_MAX ? UINT64_MAX : (uint64_t)product;
        return true;
}

static void *member(const struct sr_config *config, const struct config_tunable *tunable)
{
        return (char *)(uintptr_t)config + tunable->offset;
}

static bool is_wide(enum config_kind kind)
{
        return kind == CONFIG_SIZE || kind == CONFIG_DURATION;
}

uint64_t config_get_number(const struct sr_config *config, const struct config_tunable *tunable)
{
        const void *from = member(config, tunable);

        return is_wide(tunable->kind) ? *(const uint64_t *)from : *(const uint32_t *)from;
}

void config_set_number(struct sr_config *config, const struct config_tunable *tunable, uint64_t number)
{
        void *to = member(config, tunable);

        if (is_wide(tunable->kind))
                *(uint64_t *)to = number;
        else
                *(uint32_t *)to = (uint32_t)number;
}

char *const *config_get_list(const struct sr_config *config, const struct config_tunable *tunable)
{
        return *(char **const *)member(config, tunable);
}

static int refuse(const char *text, const char *what, struct sr_error **error)
{
        _cleanup_free_ char *shown = config_shown(text);

        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "\"%s\" is not %s", shown, what);
}

// A number in the unit of the member, in range or not.
static int read_number(enum config_kind kind, const char *text, uint64_t *ret, struct sr_error **error)
{
        uint64_t number = 0;
        bool whole = true;

        if (!read_quantity(text, kinds[kind].units, &number))
                return refuse(text, kinds[kind].what, error);
        if (kind == CONFIG_SECONDS) {
                whole = number % MILLION == 0 || number == UINT64_MAX;
                number /= MILLION;
        }
        if (!whole)
                return refuse(text, kinds[kind].what, error);
        *ret = number;
        return 0;
}

int sr_config_parse(const char *name, const char *text, uint64_t *ret, struct sr_error **error)
{
        _cleanup_free_ char *value = trimmed(text);

        return read_number(config_find(name)->kind, value, ret, error);
}

void sr_config_range(const char *name, uint64_t *ret_minimum, uint64_t *ret_maximum)
{
        const struct config_tunable *tunable = config_find(name);

        *ret_minimum = tunable->minimum;
        *ret_maximum = tunable->maximum;
}

char *sr_config_text(const char *name, uint64_t number)
{
        return config_format_number(config_find(name)->kind, number);
}

static int set_number(struct sr_config *config, const struct config_tunable *tunable, const char *text,
                      struct sr_error **error)
{
        uint64_t number = 0;
        int r = read_number(tunable->kind, text, &number, error);

        if (r < 0)
                return r;
        if (number < tunable->minimum || number > tunable->maximum) {
                _cleanup_free_ char *shown = config_shown(text);
                _cleanup_free_ char *low = config_format_number(tunable->kind, tunable->minimum);
                _cleanup_free_ char *high = config_format_number(tunable->kind, tunable->maximum);

                return sr_error_set(error, SR_ERROR_BAD_REQUEST, ERANGE,
                                    "\"%s\" is out of range: give %s to %s", shown, low, high);
        }
        config_set_number(config, tunable, number);
        return 0;
}

static int set_bool(struct sr_config *config, const struct config_tunable *tunable, const char *text,
                    struct sr_error **error)
{
        static const struct {
                const char *word;
                bool value;
        } words[] = {{"true", true},   {"yes", true}, {"on", true},   {"1", true},
                     {"false", false}, {"no", false}, {"off", false}, {"0", false}};

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                if (strcasecmp(words[i].word, text) == 0) {
                        *(bool *)member(config, tunable) = words[i].value;
                        return 0;
                }
        }
        return refuse(text, kinds[CONFIG_BOOL].what, error);
}

static int set_choice(struct sr_config *config, const struct config_tunable *tunable, const char *text,
                      struct sr_error **error)
{
        char **to = member(config, tunable);
        size_t length = strlen(text);
        const char *choice = tunable->choices;

        for (;;) {
                size_t end = strcspn(choice, ",");

                if (end == length && strncasecmp(choice, text, length) == 0) {
                        free(*to);
                        *to = sr_memdup0(choice, length);
                        return 0;
                }
                if (choice[end] == '\0')
                        break;
                choice += end + 1;
                choice += strspn(choice, " ");
        }

        _cleanup_free_ char *what = sr_asprintf("one of %s", tunable->choices);

        return refuse(text, what, error);
}

int config_resolve(const char *text, const char *home, const char *base, char **ret, struct sr_error **error)
{
        _cleanup_free_ char *shown = config_shown(text);
        const char *start = base, *rest = text;

        if (*text == '\0')
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "an empty path is not allowed");
        if (*text == '/') {
                *ret = sr_strdup(text);
                return 0;
        }
        if (text[0] == '~' && (text[1] == '/' || text[1] == '\0')) {
                start = home;
                rest = text[1] == '/' ? text + 2 : "";
                if (home == NULL)
                        return sr_error_set(
                                error, SR_ERROR_BAD_REQUEST, EINVAL,
                                "\"%s\" needs a home directory, and none is known: set HOME, or give an "
                                "absolute path",
                                shown);
        }
        if (start == NULL)
                return sr_error_set(
                        error, SR_ERROR_BAD_REQUEST, EINVAL,
                        "\"%s\" is relative to a directory that is not known: give an absolute path", shown);
        *ret = *rest == '\0' ? sr_strdup(start)
                             : sr_asprintf("%s%s%s", start, strcmp(start, "/") == 0 ? "" : "/", rest);
        return 0;
}

void config_clear(struct sr_config *config, const struct config_tunable *tunable)
{
        void *to = member(config, tunable);

        if (tunable->kind == CONFIG_PATH || tunable->kind == CONFIG_CHOICE)
                sr_freep(to);
        else if (tunable->kind == CONFIG_PATHS)
                sr_strv_freep(to);
}

static int set_path(struct sr_config *config, const struct config_tunable *tunable, const char *text,
                    const char *home, const char *base, struct sr_error **error)
{
        char **to = member(config, tunable);
        char *path = NULL;

        if (*text != '\0' || !tunable->may_be_empty) {
                int r = config_resolve(text, home, base, &path, error);

                if (r < 0)
                        return r;
        }
        free(*to);
        *to = path;
        return 0;
}

int config_set_list(struct sr_config *config, const struct config_tunable *tunable, char *const *list,
                    const char *home, const char *base, struct sr_error **error)
{
        char ***to = member(config, tunable);
        _cleanup_strv_ char **paths = sr_new_array(char *, 1);

        for (size_t i = 0; list[i] != NULL; i++) {
                char *path = NULL;
                int r = config_resolve(list[i], home, base, &path, error);

                if (r < 0)
                        return r;
                sr_strv_append(&paths, path);
        }
        sr_strv_free(*to);
        *to = sr_steal(paths);
        return 0;
}

static int set_paths(struct sr_config *config, const struct config_tunable *tunable, const char *text,
                     const char *home, const char *base, struct sr_error **error)
{
        _cleanup_strv_ char **list = sr_new_array(char *, 1);

        // As in PATH, but an empty element is nothing, not the current directory.
        while (*text != '\0') {
                size_t length = strcspn(text, ":");

                if (length > 0)
                        sr_strv_append(&list, sr_memdup0(text, length));
                text += length;
                text += *text == ':';
        }
        return config_set_list(config, tunable, list, home, base, error);
}

int config_set(struct sr_config *config, const struct config_tunable *tunable, const char *text,
               const char *home, const char *base, struct sr_error **error)
{
        _cleanup_free_ char *value = trimmed(text);

        switch (tunable->kind) {
        case CONFIG_BOOL:
                return set_bool(config, tunable, value, error);
        case CONFIG_CHOICE:
                return set_choice(config, tunable, value, error);
        case CONFIG_PATH:
                return set_path(config, tunable, text, home, base, error);
        case CONFIG_PATHS:
                return set_paths(config, tunable, text, home, base, error);
        default:
                return set_number(config, tunable, value, error);
        }
}

char *config_format_number(enum config_kind kind, uint64_t number)
{
        static const char letters[] = "TGMK";

        switch (kind) {
        case CONFIG_SECONDS:
                return sr_asprintf("%llus", (unsigned long long)number);
        case CONFIG_DURATION:
                if (number % MILLION == 0)
                        return sr_asprintf("%llus", (unsigned long long)(number / MILLION));
                if (number % 1000 == 0)
                        return sr_asprintf("%llums", (unsigned long long)(number / 1000));
                return sr_asprintf("%llu.%03llums", (unsigned long long)(number / 1000),
                                   (unsigned long long)(number % 1000));
        case CONFIG_SIZE:
                for (int i = 0; number != 0 && letters[i] != '\0'; i++) {
                        uint64_t unit = UINT64_C(1) << (10 * (4 - i));

                        if (number % unit == 0)
                                return sr_asprintf("%llu%c", (unsigned long long)(number / unit), letters[i]);
                }
                return sr_asprintf("%llu", (unsigned long long)number);
        case CONFIG_CPUS: {
                char *text = sr_asprintf("%llu.%03llu", (unsigned long long)(number / 1000),
                                         (unsigned long long)(number % 1000));
                size_t length = strlen(text);

                while (text[length - 1] == '0')
                        text[--length] = '\0';
                if (text[length - 1] == '.')
                        text[--length] = '\0';
                return text;
        }
        default:
                return sr_asprintf("%llu", (unsigned long long)number);
        }
}

char *config_format(const struct sr_config *config, const struct config_tunable *tunable)
{
        const void *from = member(config, tunable);

        switch (tunable->kind) {
        case CONFIG_BOOL:
                return sr_strdup(*(const bool *)from ? "true" : "false");
        case CONFIG_CHOICE:
        case CONFIG_PATH: {
                const char *text = *(char *const *)from;

                return sr_strdup(text != NULL ? text : "");
        }
        case CONFIG_PATHS: {
                _cleanup_buf_ struct sr_buf joined = {0};
                char *const *list = config_get_list(config, tunable);

                for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
                        if (i > 0)
                                sr_buf_append_char(&joined, ':');
                        sr_buf_append_text(&joined, list[i]);
                }
                return sr_buf_steal(&joined, NULL);
        }
        default:
                return config_format_number(tunable->kind, config_get_number(config, tunable));
        }
}

char *sr_config_text_of(const struct sr_config *config, const char *name)
{
        return config_format(config, config_find(name));
}
