// JSON out and in.
//
// Out: our own writer, because strings here carry lengths (a NUL is written as \u0000) and the layout must be
// either compact or indented by two spaces. Non-ASCII text is written as it is; a byte that is not UTF-8 is
// written as U+FFFD, so that whatever a name or message holds, JSON comes out.
// In: cJSON, behind checks that it lacks: valid UTF-8, bounded depth, and \u0000 kept (see sr_json_parse).
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct sr_json_writer {
        struct sr_buf *out;
        int indent; // spaces a level; 0 for compact
        int depth;
        bool first; // nothing written yet in the open container
};

// {.out = buf, .indent = n, .first = true} is a ready writer.
// Each function takes the member's name inside an object and NULL inside an array or at the top.
void sr_json_open_object(struct sr_json_writer *w, const char *key);
void sr_json_close_object(struct sr_json_writer *w);
void sr_json_open_array(struct sr_json_writer *w, const char *key);
void sr_json_close_array(struct sr_json_writer *w);
void sr_json_string(struct sr_json_writer *w, const char *key, const char *text);
void sr_json_string_n(struct sr_json_writer *w, const char *key, const char *text, size_t length);
// Writes text, or null when text is NULL.
void sr_json_string_or_null(struct sr_json_writer *w, const char *key, const char *text);
void sr_json_integer(struct sr_json_writer *w, const char *key, int64_t value);
// At most decimals (1 to 17) digits after the point, without needless zeros but with one ("12.5", "0.0"). null
// when value is no finite number.
void sr_json_number(struct sr_json_writer *w, const char *key, double value, int decimals);
void sr_json_bool(struct sr_json_writer *w, const char *key, bool value);
void sr_json_null(struct sr_json_writer *w, const char *key);
// Text that is JSON already (a request id kept raw, a schema).
void sr_json_raw(struct sr_json_writer *w, const char *key, const char *json);

// Parses text (length bytes, no NUL needed at the end) strictly: one JSON value, nothing but white space
// after it, valid UTF-8, containers nested at most max_depth deep. On failure -EINVAL with a message that
// names the byte offset. The caller frees *ret with cJSON_Delete.
//
// cJSON keeps strings as C strings, so a \u0000 in the input would cut them. Before parsing, each \u0000
// escape is rewritten to U+F8FF followed by '0', and each U+F8FF of the input (raw or escaped) to U+F8FF
// followed by '1'. sr_json_string_value undoes that: use it for every string that may carry such characters.
// Half of a surrogate pair becomes U+FFFD. max_depth is at most 512; a text holds at most a million values.
int sr_json_parse(const char *text, size_t length, int max_depth, cJSON **ret, struct sr_error **error);

// The string held by item with the rewriting of sr_json_parse undone. The caller frees it; *ret_length may
// exceed strlen(). NULL when item is not a string.
char *sr_json_string_value(const cJSON *item, size_t *ret_length);

// Finds the raw text of a member of the outermost object of valid JSON (to echo a request id exactly as it
// came). The last member of that name counts, as in cJSON-independent readers. false when there is none.
bool sr_json_raw_member(const char *text, size_t length, const char *key, const char **ret_start,
                        size_t *ret_length);
// Walks the elements of an array of valid JSON: *at is 0 at first and moved on by each call. false after the
// last one.
bool sr_json_raw_element(const char *text, size_t length, size_t *at, const char **ret_start,
                         size_t *ret_length);

// The member of an object by its exact name, the last one where there are several. NULL when object is none
// or has none.
const cJSON *sr_json_member(const cJSON *object, const char *key);

void sr_json_deletep(cJSON **item);
#define _cleanup_json_ __attribute__((cleanup(sr_json_deletep)))
