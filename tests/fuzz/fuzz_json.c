// JSON in, out and in again: what is accepted must be written and read back as the same value, and the
// readers of raw text must agree with the tree. The first byte picks the depth allowed.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
        if (!condition)
                abort();
}

// Each string of the tree, written and read again, is itself.
static void check_strings(const cJSON *item)
{
        for (; item != NULL; item = item->next) {
                size_t length = 0, again_length = 0;
                _cleanup_free_ char *value = sr_json_string_value(item, &length), *again = NULL;

                if (value != NULL) {
                        _cleanup_buf_ struct sr_buf out = {0};
                        _cleanup_json_ cJSON *back = NULL;
                        struct sr_json_writer w = {.out = &out, .first = true};

                        require(sr_utf8_valid(value, length));
                        sr_json_string_n(&w, NULL, value, length);
                        require(sr_json_parse(out.data, out.len, 1, &back, NULL) == 0);
                        again = sr_json_string_value(back, &again_length);
                        require(again_length == length && memcmp(again, value, length) == 0);
                }
                check_strings(item->child);
        }
}

static void check_raw(const char *text, size_t length, const cJSON *root)
{
        const char *raw;
        size_t raw_length, at = 0;
        int count = 0;

        // Members under the name "id", if there are any: the last one, as the tree has it.
        const cJSON *id = sr_json_member(root, "id");

        require(sr_json_raw_member(text, length, "id", &raw, &raw_length) == (id != NULL));
        if (id != NULL) {
                _cleanup_json_ cJSON *parsed = NULL;

                require(sr_json_parse(raw, raw_length, 512, &parsed, NULL) == 0);
                require(parsed->type == id->type);
        }
        if (!cJSON_IsArray(root))
                return;
        while (sr_json_raw_element(text, length, &at, &raw, &raw_length)) {
                _cleanup_json_ cJSON *parsed = NULL;

                require(sr_json_parse(raw, raw_length, 512, &parsed, NULL) == 0);
                count++;
        }
        require(count == cJSON_GetArraySize(root));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_json_ cJSON *root = NULL;
        const char *text;

        if (size == 0)
                return 0;
        text = (const char *)data + 1;
        size--;
        if (sr_json_parse(text, size, data[0], &root, &error) < 0) {
                const char *raw;
                size_t raw_length, at = 0;

                require(root == NULL && *sr_error_message(error) != '\0');
                // On text that is not valid these may say anything, and must end.
                (void)sr_json_raw_member(text, size, "id", &raw, &raw_length);
                while (sr_json_raw_element(text, size, &at, &raw, &raw_length))
                        require(at <= size);
                return 0;
        }
        check_strings(root);
        check_raw(text, size, root);
        return 0;
}
