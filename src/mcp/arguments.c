#include "mcp/arguments.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

static const char *kind_name(enum sr_mcp_argument_kind kind)
{
        return kind == SR_MCP_STRING ? "a string" : "an integer";
}

static const char *type_name(const cJSON *item)
{
        if (cJSON_IsString(item))
                return "a string";
        if (cJSON_IsNumber(item))
                return "a number";
        if (cJSON_IsBool(item))
                return "a boolean";
        if (cJSON_IsArray(item))
                return "an array";
        if (cJSON_IsObject(item))
                return "an object";
        return "null";
}

// 9223372036854775807 is no double; 2^63 is.
#define TWO_TO_63 9223372036854775808.0

static bool integer_from_number(double value, int64_t *ret)
{
        if (isnan(value) || value > floor(value))
                return false;
        *ret = value >= TWO_TO_63 ? INT64_MAX : value < -TWO_TO_63 ? INT64_MIN : (int64_t)value;
        return true;
}

// Digits with an optional sign, white space around them and perhaps ".0" behind them.
static bool integer_from_text(const char *text, int64_t *ret)
{
        char *end;

        while (isspace((unsigned char)*text))
                text++;

        const char *digits = text + (*text == '-' || *text == '+');

        if (!isdigit((unsigned char)*digits))
                return false;

        long long value = strtoll(text, &end, 10); // out of range: the nearest end

        if (*end == '.' && end[1] == '0')
                for (end++; *end == '0';)
                        end++;
        while (isspace((unsigned char)*end))
                end++;
        if (*end != '\0')
                return false;
        *ret = value;
        return true;
}

// Whether the value is of the kind asked for.
static bool read_value(const cJSON *item, struct sr_mcp_argument *argument)
{
        if (argument->kind == SR_MCP_STRING) {
                argument->text = sr_json_string_value(item, &argument->length);
                return argument->text != NULL;
        }
        if (cJSON_IsNumber(item))
                return integer_from_number(item->valuedouble, &argument->integer);
        return cJSON_IsString(item) && integer_from_text(item->valuestring, &argument->integer);
}

static void complain(struct sr_buf *problems, const struct sr_mcp_argument *argument, const cJSON *item)
{
        if (problems->len > 0)
                sr_buf_append_text(problems, "; ");
        if (item == NULL)
                sr_buf_printf(problems, "the argument \"%s\" is missing: give it as %s", argument->name,
                              kind_name(argument->kind));
        else if (argument->kind == SR_MCP_INTEGER && cJSON_IsNumber(item))
                sr_buf_printf(problems, "the argument \"%s\" must be an integer, not a fraction",
                              argument->name);
        else if (argument->kind == SR_MCP_INTEGER && cJSON_IsString(item))
                sr_buf_printf(problems, "the argument \"%s\" must be an integer, and this string is none",
                              argument->name);
        else
                sr_buf_printf(problems, "the argument \"%s\" must be %s, not %s", argument->name,
                              kind_name(argument->kind), type_name(item));
}

char *sr_mcp_arguments_read(const cJSON *object, struct sr_mcp_argument *arguments, size_t count)
{
        struct sr_buf problems = {0};

        for (size_t i = 0; i < count; i++) {
                struct sr_mcp_argument *argument = &arguments[i];
                const cJSON *item = sr_json_member(object, argument->name);

                argument->given = item != NULL && read_value(item, argument);
                if (!argument->given && (item != NULL || argument->required))
                        complain(&problems, argument, item);
        }
        return problems.len > 0 ? sr_buf_steal(&problems, NULL) : NULL;
}

void sr_mcp_arguments_clear(struct sr_mcp_argument *arguments, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                free(arguments[i].text);
                arguments[i].text = NULL;
                arguments[i].given = false;
        }
}
