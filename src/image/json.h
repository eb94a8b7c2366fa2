// Reading the JSON documents of images: typed members of an object, without the traps of the parser.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

// Parses a document of at most SR_IMAGE_MAX_JSON_DEPTH levels whose outermost value is an object.
int sr_image_json_parse(const char *text, size_t length, cJSON **ret, struct sr_error **error);

// A text member; the caller frees it. NULL when it is absent, no string, or holds a NUL.
char *sr_image_json_text(const cJSON *object, const char *name);
// The same of a value itself.
char *sr_image_json_value_text(const cJSON *value);
// An integer member that is exact and not negative; false otherwise.
bool sr_image_json_size(const cJSON *object, const char *name, int64_t *ret);
// A member that is an object or array; NULL otherwise.
const cJSON *sr_image_json_object(const cJSON *object, const char *name);
const cJSON *sr_image_json_array(const cJSON *object, const char *name);

// Reads an array of "NAME=value" texts, or an object of texts as such, into *ret (NULL-terminated, NULL when
// the value is absent or null). -EINVAL when it is anything else.
int sr_image_json_settings(const cJSON *object, const char *name, char ***ret);
// Writes "NAME=value" texts as an array, and as an object.
void sr_image_json_write_array(struct sr_json_writer *w, const char *key, char *const *settings);
void sr_image_json_write_object(struct sr_json_writer *w, const char *key, char *const *settings);
