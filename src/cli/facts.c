#include "cli/facts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/size.h"

// Objects in the object, and some room.
#define DEPTH 8

enum kind { PLAIN, SIGNAL, TIME, BYTES, MEMORY };

static const struct fact {
        const char *name, *title;
        enum kind kind;
} known[] = {
        {"reason", "ended by", PLAIN},
        {"signal", "signal", SIGNAL},
        {"limits_hit", "limits hit", PLAIN},
        {"limits", "limits held by", PLAIN},
        {"image", "image", PLAIN},
        {"image_digest", "image digest", PLAIN},
        {"stdout_bytes", "written to stdout", BYTES},
        {"stderr_bytes", "written to stderr", BYTES},
        {"queue_ms", "waited", TIME},
        {"cpu_ms", "processor time", TIME},
        {"peak_memory_bytes", "peak memory", MEMORY},
};

static const struct fact *find(const char *name)
{
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (strcmp(known[i].name, name) == 0)
                        return &known[i];
        return NULL;
}

// Text without its quotes, lists and objects as words, the rest as JSON has it.
static char *plain(const cJSON *value)
{
        _cleanup_buf_ struct sr_buf out = {0};
        const cJSON *item;

        if (cJSON_IsNull(value))
                return NULL;
        if (cJSON_IsString(value)) {
                size_t length;

                return sr_json_string_value(value, &length);
        }
        if (!cJSON_IsArray(value) && !cJSON_IsObject(value))
                return cJSON_PrintUnformatted(value);
        cJSON_ArrayForEach(item, value)
        {
                _cleanup_free_ char *text = cJSON_IsString(item) ? plain(item) : cJSON_PrintUnformatted(item);

                sr_buf_printf(&out, "%s%s%s%s", out.len > 0 ? ", " : "",
                              item->string != NULL ? item->string : "", item->string != NULL ? " " : "",
                              text != NULL ? text : "");
        }
        if (out.len == 0)
                sr_buf_append_text(&out, "none");
        return sr_buf_steal(&out, NULL);
}

static char *with_unit(enum kind kind, const cJSON *value)
{
        double number = value->valuedouble;

        if (!cJSON_IsNumber(value) || number < 0 || number > 1e18)
                return plain(value);
        switch (kind) {
        case SIGNAL:
                return sr_asprintf("%d (%s)", value->valueint, strsignal(value->valueint));
        case TIME:
                return sr_asprintf("%.2f ms", number);
        case BYTES:
                return sr_asprintf("%.0f byte%s", number, number == 1 ? "" : "s");
        case MEMORY:
                return sr_size_rounded((uint64_t)number);
        default:
                return plain(value);
        }
}

void sr_facts_add(struct sr_text_table *table, const char *facts)
{
        _cleanup_json_ cJSON *object = NULL;
        const cJSON *item;

        if (sr_json_parse(facts, strlen(facts), DEPTH, &object, NULL) < 0) {
                sr_text_table_add(table, "facts");
                sr_text_table_add(table, facts);
                return;
        }
        cJSON_ArrayForEach(item, object)
        {
                const struct fact *fact = find(item->string);
                _cleanup_free_ char *text = with_unit(fact != NULL ? fact->kind : PLAIN, item);

                sr_text_table_add(table, fact != NULL ? fact->title : item->string);
                sr_text_table_add(table, text);
        }
}
