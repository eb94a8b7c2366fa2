#include "image/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "image/limits.h"

// Above this a double no longer holds every integer.
#define MAX_EXACT 9007199254740992.0

int sr_image_json_parse(const char *text, size_t length, cJSON **ret, struct sr_error **error)
{
        _cleanup_json_ cJSON *document = NULL;
        int r = sr_json_parse(text, length, SR_IMAGE_MAX_JSON_DEPTH, &document, error);

        if (r < 0)
                return r;
        if (!cJSON_IsObject(document))
                return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "its JSON is not an object");
        *ret = sr_steal(document);
        return 0;
}

char *sr_image_json_value_text(const cJSON *value)
{
        size_t length = 0;
        _cleanup_free_ char *text = value != NULL ? sr_json_string_value(value, &length) : NULL;

        if (text == NULL || strlen(text) != length)
                return NULL;
        return sr_steal(text);
}

char *sr_image_json_text(const cJSON *object, const char *name)
{
        return sr_image_json_value_text(sr_json_member(object, name));
}

bool sr_image_json_size(const cJSON *object, const char *name, int64_t *ret)
{
        const cJSON *value = sr_json_member(object, name);

        if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0 && value->valuedouble < MAX_EXACT))
                return false;

        int64_t whole = (int64_t)value->valuedouble;

        if ((double)whole != value->valuedouble)
                return false;
        *ret = whole;
        return true;
}

const cJSON *sr_image_json_object(const cJSON *object, const char *name)
{
        const cJSON *value = sr_json_member(object, name);

        return cJSON_IsObject(value) ? value : NULL;
}

const cJSON *sr_image_json_array(const cJSON *object, const char *name)
{
        const cJSON *value = sr_json_member(object, name);

        return cJSON_IsArray(value) ? value : NULL;
}

// "NAME=value" of one element of a list or member of an object; NULL when it is neither.
static char *setting_text(const cJSON *item, bool named)
{
        char *text = sr_image_json_value_text(item);

        if (text == NULL)
                return NULL;
        if (named && strchr(item->string, '=') != NULL) {
                free(text);
                return NULL;
        }
        if (named) {
                char *whole = sr_asprintf("%s=%s", item->string, text);

                free(text);
                text = whole;
        }
        if (text[0] == '=' || strchr(text, '=') == NULL) {
                free(text);
                return NULL;
        }
        return text;
}

int sr_image_json_settings(const cJSON *object, const char *name, char ***ret)
{
        const cJSON *value = sr_json_member(object, name);
        _cleanup_strv_ char **settings = NULL;
        size_t count = 0;

        if (value != NULL && !cJSON_IsNull(value)) {
                const cJSON *item = NULL;

                if (!cJSON_IsArray(value) && !cJSON_IsObject(value))
                        return -EINVAL;
                settings = sr_new_array(char *, (size_t)cJSON_GetArraySize(value) + 1);
                cJSON_ArrayForEach(item, value)
                {
                        settings[count] = setting_text(item, cJSON_IsObject(value));
                        if (settings[count] == NULL)
                                return -EINVAL;
                        count++;
                }
        }
        *ret = sr_steal(settings);
        return 0;
}

void sr_image_json_write_array(struct sr_json_writer *w, const char *key, char *const *settings)
{
        sr_json_open_array(w, key);
        for (size_t i = 0; settings != NULL && settings[i] != NULL; i++)
                sr_json_string(w, NULL, settings[i]);
        sr_json_close_array(w);
}

void sr_image_json_write_object(struct sr_json_writer *w, const char *key, char *const *settings)
{
        sr_json_open_object(w, key);
        for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
                const char *equals = strchr(settings[i], '=');
                _cleanup_free_ char *name = sr_memdup0(settings[i], (size_t)(equals - settings[i]));

                sr_json_string(w, name, equals + 1);
        }
        sr_json_close_object(w);
}
