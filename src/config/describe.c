// The listing of `sandbox-runner config`.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"
#include "config/internal.h"

// Columns grow to the longest entry up to this; longer ones (paths) push what follows to the right.
#define COLUMN_MAX 28

static const char *unit(enum config_kind kind)
{
        switch (kind) {
        case CONFIG_SECONDS:
        case CONFIG_DURATION:
                return "seconds";
        case CONFIG_SIZE:
                return "bytes";
        case CONFIG_CPUS:
                return "processors";
        default:
                return NULL;
        }
}

static void write_string(struct sr_json_writer *w, const char *key, const char *text)
{
        // A path may hold any bytes; JSON may not.
        _cleanup_buf_ struct sr_buf clean = {0};

        sr_utf8_append_sanitized(&clean, text, strlen(text));
        sr_json_string_n(w, key, clean.data != NULL ? clean.data : "", clean.len);
}

// The member of that row as JSON; text is its value formatted.
static void write_value(struct sr_json_writer *w, const char *key, const struct sr_config *config,
                        const struct config_tunable *tunable, const char *text)
{
        switch (tunable->kind) {
        case CONFIG_SECONDS:
        case CONFIG_SIZE:
        case CONFIG_COUNT:
                sr_json_integer(w, key, (int64_t)config_get_number(config, tunable));
                break;
        case CONFIG_DURATION:
                sr_json_number(w, key, (double)config_get_number(config, tunable) / 1e6, 6);
                break;
        case CONFIG_CPUS:
                sr_json_number(w, key, (double)config_get_number(config, tunable) / 1e3, 3);
                break;
        case CONFIG_BOOL:
                sr_json_bool(w, key, strcmp(text, "true") == 0);
                break;
        case CONFIG_PATHS: {
                char *const *list = config_get_list(config, tunable);

                sr_json_open_array(w, key);
                for (size_t i = 0; list != NULL && list[i] != NULL; i++)
                        write_string(w, NULL, list[i]);
                sr_json_close_array(w);
                break;
        }
        default:
                if (*text != '\0')
                        write_string(w, key, text);
                else
                        sr_json_null(w, key);
        }
}

static void describe_json(const struct sr_config *config, struct sr_buf *out)
{
        struct sr_json_writer w = {.out = out, .indent = 2, .first = true};

        sr_json_open_array(&w, NULL);
        for (size_t i = 0; i < config_tunable_count; i++) {
                const struct config_tunable *tunable = &config_tunables[i];
                const char *fallback = config->sources[i].fallback;
                _cleanup_free_ char *value = config_format(config, tunable);
                _cleanup_free_ char *variable = config_variable(tunable);

                sr_json_open_object(&w, NULL);
                sr_json_string(&w, "name", tunable->name);
                write_value(&w, "value", config, tunable, value);
                if (fallback != NULL) {
                        struct sr_config defaults = {0};

                        (void)config_set(&defaults, tunable, fallback, NULL, NULL, NULL);
                        write_value(&w, "default", &defaults, tunable, fallback);
                        config_clear(&defaults, tunable);
                } else {
                        sr_json_null(&w, "default");
                }
                sr_json_string_or_null(&w, "unit", unit(tunable->kind));
                write_string(&w, "source", config->sources[i].source);
                sr_json_string(&w, "description", tunable->description);
                sr_json_string(&w, "variable", variable);
                sr_json_close_object(&w);
        }
        sr_json_close_array(&w);
        sr_buf_append_char(out, '\n');
}

static void widen(int *width, const char *text)
{
        size_t length = strlen(text);

        if (length <= COLUMN_MAX && (int)length > *width)
                *width = (int)length;
}

static void describe_text(const struct sr_config *config, struct sr_buf *out)
{
        int name_width = 0, value_width = 0, source_width = 0;

        for (size_t i = 0; i < config_tunable_count; i++) {
                _cleanup_free_ char *value = config_format(config, &config_tunables[i]);

                widen(&name_width, config_tunables[i].name);
                widen(&value_width, value);
                widen(&source_width, config->sources[i].source);
        }
        sr_buf_printf(out, "%-*s  %-*s  %-*s  %s\n", name_width, "NAME", value_width, "VALUE", source_width,
                      "SOURCE", "MEANING");
        for (size_t i = 0; i < config_tunable_count; i++) {
                _cleanup_free_ char *value = config_format(config, &config_tunables[i]);

                sr_buf_printf(out, "%-*s  %-*s  %-*s  %s\n", name_width, config_tunables[i].name, value_width,
                              *value != '\0' ? value : "-", source_width, config->sources[i].source,
                              config_tunables[i].description);
        }
}

void sr_config_describe(const struct sr_config *config, bool json, struct sr_buf *out)
{
        if (json)
                describe_json(config, out);
        else
                describe_text(config, out);
}
