// JSON in: a strict check of the whole text first, then cJSON to build the tree.
//
// Theory of operation: one pass without recursion walks the grammar of RFC 8259, so that what cJSON is lax
// about (control characters as white space, raw ones in strings, numbers like 01, anything after the value)
// never reaches it. The same pass rewrites what cJSON would lose or refuse: \u0000 (its strings end there),
// half of a surrogate pair (not a character: U+FFFD, as web browsers do) and numbers longer than its buffer.
// While nothing has to be rewritten, nothing is copied.

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"

#define MARK        "\xef\xa3\xbf" // U+F8FF, see json.h
#define REPLACEMENT "\xef\xbf\xbd" // U+FFFD
#define MARK_LENGTH 3

// A node of cJSON takes some 80 bytes where two bytes of text ("0,") can ask for one.
#define MAX_VALUES 1000000
// cJSON goes into itself once a level and refuses at 1000.
#define MAX_DEPTH 512
// cJSON 1.7.15 copies a number into 64 bytes and takes the rest for something else.
#define MAX_NUMBER_LENGTH 60

struct reader {
        const char *text;
        size_t length;
        size_t at;
        size_t copied;     // how much of text is in out already
        struct sr_buf out; // the rewritten text; unused while nothing had to be rewritten
        size_t values;
        struct sr_error **error;
};

static int fail_at(struct reader *r, size_t at, const char *what)
{
        return sr_error_set(r->error, SR_ERROR_BAD_REQUEST, EINVAL, "not valid JSON: %s at byte %zu", what,
                            at);
}

static int fail(struct reader *r, const char *what)
{
        return fail_at(r, r->at, r->at < r->length ? what : "the text ends too early");
}

static int peek(const struct reader *r)
{
        return r->at < r->length ? (unsigned char)r->text[r->at] : -1;
}

static bool is_digit(int c)
{
        return c >= '0' && c <= '9';
}

static bool is_space(int c)
{
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_space(const char *text, size_t length, size_t at)
{
        while (at < length && is_space((unsigned char)text[at]))
                at++;
        return at;
}

// Puts replacement in the place of the next length bytes.
static void rewrite(struct reader *r, size_t length, const char *replacement)
{
        sr_buf_append(&r->out, r->text + r->copied, r->at - r->copied);
        sr_buf_append_text(&r->out, replacement);
        r->at += length;
        r->copied = r->at;
}

// The 16 bits of the \uXXXX at this place, or -1.
static int unicode_escape(const struct reader *r, size_t at)
{
        int unit = 0;

        if (r->length - at < 6 || r->text[at] != '\\' || r->text[at + 1] != 'u')
                return -1;
        for (size_t i = at + 2; i < at + 6; i++) {
                int c = (unsigned char)r->text[i];

                if (is_digit(c))
                        unit = unit * 16 + (c - '0');
                else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                        unit = unit * 16 + ((c | 0x20) - 'a' + 10);
                else
                        return -1;
        }
        return unit;
}

static int read_escape(struct reader *r)
{
        int next = r->at + 1 < r->length ? r->text[r->at + 1] : '\0';

        if (next != '\0' && strchr("\"\\/bfnrt", next) != NULL) {
                r->at += 2;
                return 0;
        }

        int unit = unicode_escape(r, r->at);

        if (unit < 0)
                return fail(r, "a backslash that begins no escape");
        if (unit == 0) {
                rewrite(r, 6, MARK "0");
        } else if (unit == 0xf8ff) {
                rewrite(r, 6, MARK "1");
        } else if (unit >= 0xd800 && unit <= 0xdfff) {
                int low = unit < 0xdc00 ? unicode_escape(r, r->at + 6) : -1;

                if (low >= 0xdc00 && low <= 0xdfff)
                        r->at += 12;
                else
                        rewrite(r, 6, REPLACEMENT);
        } else {
                r->at += 6;
        }
        return 0;
}

static int read_string(struct reader *r)
{
        size_t start = r->at;

        for (r->at++; r->at < r->length;) {
                unsigned char c = (unsigned char)r->text[r->at];

                if (c == '"') {
                        r->at++;
                        return 0;
                }
                if (c == '\\') {
                        int failed = read_escape(r);

                        if (failed < 0)
                                return failed;
                } else if (c < 0x20) {
                        return fail(r, "a control character that is not escaped");
                } else if (c < 0x80) {
                        r->at++;
                } else {
                        size_t n = sr_utf8_sequence(r->text + r->at, r->length - r->at);

                        if (n == 0)
                                return fail(r, "a byte that is not UTF-8");
                        if (n == MARK_LENGTH && memcmp(r->text + r->at, MARK, MARK_LENGTH) == 0)
                                rewrite(r, n, MARK "1");
                        else
                                r->at += n;
                }
        }
        return fail_at(r, start, "a string without an end");
}

// -? (0 | [1-9] digits) (. digits)? ([eE] [+-]? digits)?
static int read_number(struct reader *r)
{
        size_t start = r->at;

        if (peek(r) == '-')
                r->at++;
        if (!is_digit(peek(r)))
                return fail(r, "a number without digits");
        if (peek(r) == '0')
                r->at++;
        else
                while (is_digit(peek(r)))
                        r->at++;
        if (peek(r) == '.') {
                r->at++;
                if (!is_digit(peek(r)))
                        return fail(r, "a decimal point without digits after it");
                while (is_digit(peek(r)))
                        r->at++;
        }
        if (peek(r) == 'e' || peek(r) == 'E') {
                r->at++;
                if (peek(r) == '+' || peek(r) == '-')
                        r->at++;
                if (!is_digit(peek(r)))
                        return fail(r, "an exponent without digits");
                while (is_digit(peek(r)))
                        r->at++;
        }

        size_t length = r->at - start;

        if (length > MAX_NUMBER_LENGTH) {
                _cleanup_free_ char *digits = sr_memdup0(r->text + start, length);
                double value = strtod(digits, NULL);
                char text[32];

                if (isinf(value))
                        snprintf(text, sizeof(text), "%s1e999", value < 0 ? "-" : "");
                else
                        snprintf(text, sizeof(text), "%.17g", value);
                r->at = start;
                rewrite(r, length, text);
        }
        return 0;
}

static int read_literal(struct reader *r)
{
        static const char *const literals[] = {"true", "false", "null"};

        for (size_t i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
                size_t n = strlen(literals[i]);

                if (r->length - r->at >= n && memcmp(r->text + r->at, literals[i], n) == 0) {
                        r->at += n;
                        return 0;
                }
        }
        return fail(r, "something that begins no value");
}

static int read_scalar(struct reader *r)
{
        int c = peek(r);

        if (c == '"')
                return read_string(r);
        if (c == '-' || is_digit(c))
                return read_number(r);
        return read_literal(r);
}

// The name of a member and its colon.
static int read_key(struct reader *r)
{
        r->at = skip_space(r->text, r->length, r->at);
        if (peek(r) != '"')
                return fail(r, "no member name in quotes");

        int failed = read_string(r);

        if (failed < 0)
                return failed;
        r->at = skip_space(r->text, r->length, r->at);
        if (peek(r) != ':')
                return fail(r, "no colon after a member name");
        r->at++;
        return 0;
}

// After a value: closes the containers that end here. *ret_more: another value follows.
static int read_after_value(struct reader *r, char *closing, size_t *depth, bool *ret_more)
{
        while (*depth > 0) {
                char end = closing[*depth - 1];

                r->at = skip_space(r->text, r->length, r->at);
                if (peek(r) == ',') {
                        r->at++;
                        *ret_more = true;
                        return end == '}' ? read_key(r) : 0;
                }
                if (peek(r) != end)
                        return fail(r, end == '}' ? "neither , nor } after a member"
                                                  : "neither , nor ] after an element");
                r->at++;
                (*depth)--;
        }
        *ret_more = false;
        return 0;
}

static int read_document(struct reader *r, size_t max_depth)
{
        _cleanup_free_ char *closing = sr_calloc(max_depth, 1); // what ends each open container
        size_t depth = 0;
        bool more = true;

        while (more) {
                r->at = skip_space(r->text, r->length, r->at);
                if (++r->values > MAX_VALUES)
                        return fail(r, "more values than one text may hold");

                int c = peek(r), failed = 0;

                if (c == '{' || c == '[') {
                        if (depth == max_depth)
                                return fail(r, "nested too deep");
                        closing[depth++] = c == '{' ? '}' : ']';
                        r->at = skip_space(r->text, r->length, r->at + 1);
                        if (peek(r) != closing[depth - 1]) {
                                failed = c == '{' ? read_key(r) : 0;
                                if (failed < 0)
                                        return failed;
                                continue;
                        }
                } else {
                        failed = read_scalar(r);
                }
                if (failed == 0)
                        failed = read_after_value(r, closing, &depth, &more);
                if (failed < 0)
                        return failed;
        }
        r->at = skip_space(r->text, r->length, r->at);
        return r->at == r->length ? 0 : fail(r, "something after the value");
}

int sr_json_parse(const char *text, size_t length, int max_depth, cJSON **ret, struct sr_error **error)
{
        struct reader r = {.text = text, .length = length, .error = error};
        size_t depth = max_depth < 1 ? 1 : max_depth > MAX_DEPTH ? MAX_DEPTH : (size_t)max_depth;
        int failed = read_document(&r, depth);
        cJSON *parsed = NULL;

        if (failed == 0) {
                if (r.copied > 0) {
                        sr_buf_append(&r.out, text + r.copied, length - r.copied);
                        text = r.out.data;
                        length = r.out.len;
                }
                parsed = cJSON_ParseWithLength(text, length);
                if (parsed != NULL)
                        *ret = parsed;
                else
                        failed =
                                sr_error_set(error, SR_ERROR_INTERNAL, ENOMEM, "no memory left to read JSON");
        }
        sr_buf_clear(&r.out);
        return failed;
}

char *sr_json_string_value(const cJSON *item, size_t *ret_length)
{
        if (!cJSON_IsString(item) || item->valuestring == NULL)
                return NULL;

        const char *from = item->valuestring;
        size_t length = strlen(from), out = 0;
        char *value = sr_calloc(length + 1, 1);

        for (size_t at = 0; at < length;) {
                const char *mark = strstr(from + at, MARK);
                size_t plain = mark != NULL ? (size_t)(mark - from) - at : length - at;

                memcpy(value + out, from + at, plain);
                out += plain;
                at += plain;
                if (mark == NULL)
                        break;
                if (mark[MARK_LENGTH] == '0') {
                        value[out++] = '\0';
                } else {
                        memcpy(value + out, MARK, MARK_LENGTH);
                        out += MARK_LENGTH;
                }
                at += MARK_LENGTH;
                // A mark that sr_json_parse did not make stands for itself alone.
                if (from[at] == '0' || from[at] == '1')
                        at++;
        }
        value[out] = '\0';
        if (ret_length != NULL)
                *ret_length = out;
        return value;
}

const cJSON *sr_json_member(const cJSON *object, const char *key)
{
        const cJSON *found = NULL, *member;

        if (!cJSON_IsObject(object))
                return NULL;
        cJSON_ArrayForEach(member, object)
        {
                if (member->string != NULL && strcmp(member->string, key) == 0)
                        found = member;
        }
        return found;
}

void sr_json_deletep(cJSON **item)
{
        cJSON_Delete(*item);
        *item = NULL;
}

// What follows walks text that sr_json_parse has accepted; a text it has not leads to a wrong answer, never
// out of bounds.

// The place after the string that begins here.
static size_t raw_string_end(const char *text, size_t length, size_t at)
{
        for (at++; at < length && text[at] != '"'; at++)
                if (text[at] == '\\')
                        at++;
        return at < length ? at + 1 : length;
}

// The place after the value that begins here.
static size_t raw_value_end(const char *text, size_t length, size_t at)
{
        size_t depth = 0;

        while (at < length) {
                char c = text[at];

                if (c == '"') {
                        at = raw_string_end(text, length, at);
                } else if (c == '{' || c == '[') {
                        depth++;
                        at++;
                        continue;
                } else if (c == '}' || c == ']') {
                        if (depth > 0)
                                depth--;
                        at++;
                } else if (c == ',' || c == ':' || is_space((unsigned char)c)) {
                        at++;
                        continue;
                } else {
                        do
                                at++;
                        while (at < length && strchr(",:]}", text[at]) == NULL &&
                               !is_space((unsigned char)text[at]));
                }
                if (depth == 0)
                        return at;
        }
        return length;
}

// Whether the string literal (with its quotes) says key.
static bool literal_is(const char *literal, size_t length, const char *key)
{
        if (memchr(literal, '\\', length) == NULL)
                return length == strlen(key) + 2 && memcmp(literal + 1, key, length - 2) == 0;

        _cleanup_json_ cJSON *parsed = NULL;

        return sr_json_parse(literal, length, 1, &parsed, NULL) == 0 && cJSON_IsString(parsed) &&
               strcmp(parsed->valuestring, key) == 0;
}

bool sr_json_raw_member(const char *text, size_t length, const char *key, const char **ret_start,
                        size_t *ret_length)
{
        size_t at = skip_space(text, length, 0);
        bool found = false;

        if (at >= length || text[at] != '{')
                return false;
        for (at = skip_space(text, length, at + 1); at < length && text[at] == '"';) {
                size_t name = at, name_end = raw_string_end(text, length, at);
                size_t value = skip_space(text, length, name_end);

                value = skip_space(text, length, value < length ? value + 1 : length); // over the colon

                size_t value_end = raw_value_end(text, length, value);

                if (literal_is(text + name, name_end - name, key)) {
                        *ret_start = text + value;
                        *ret_length = value_end - value;
                        found = true;
                }
                at = skip_space(text, length, value_end);
                if (at < length && text[at] == ',')
                        at = skip_space(text, length, at + 1);
        }
        return found;
}

bool sr_json_raw_element(const char *text, size_t length, size_t *at, const char **ret_start,
                         size_t *ret_length)
{
        size_t start = skip_space(text, length, *at);

        if (start < length && text[start] == (*at == 0 ? '[' : ','))
                start = skip_space(text, length, start + 1);
        if (start >= length || text[start] == ']')
                return false;

        size_t end = raw_value_end(text, length, start);

        *ret_start = text + start;
        *ret_length = end - start;
        *at = end;
        return true;
}
