// JSON-RPC 2.0 messages: what came in, told apart, and what goes out.
//
// An id is kept as the text it was written in and echoed so: 1e3, 12345678901234567890 and "\u0061" come back
// letter for letter. https://www.jsonrpc.org/specification; MCP narrows it (schema.ts, RequestId): an id is a
// string or a number, never null, and params is an object.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

// https://www.jsonrpc.org/specification#error_object
enum {
        SR_JSONRPC_PARSE_ERROR = -32700,
        SR_JSONRPC_INVALID_REQUEST = -32600,
        SR_JSONRPC_METHOD_NOT_FOUND = -32601,
        SR_JSONRPC_INVALID_PARAMS = -32602,
};

enum sr_jsonrpc_kind {
        SR_JSONRPC_REQUEST,
        SR_JSONRPC_NOTIFICATION,
        SR_JSONRPC_RESPONSE, // to a request of ours
        SR_JSONRPC_BATCH,    // an array; its elements are messages to be read one by one
        SR_JSONRPC_INVALID,  // to be answered with the error `code`, `problem`
};

struct sr_jsonrpc_message {
        enum sr_jsonrpc_kind kind;
        cJSON *root;         // all that follows is borrowed from it or from the text, but for id and problem
        char *id;            // as written; NULL when there is none that can be echoed
        const char *method;  // as sr_json_parse leaves it: compare it, do not decode it
        const cJSON *params; // an object, or NULL
        const char *params_text; // the same as written, or NULL
        size_t params_length;
        int code;
        char *problem;
};

// Always gives a message; sr_jsonrpc_clear() frees what it holds. text is borrowed and must outlive it.
void sr_jsonrpc_read(const char *text, size_t length, struct sr_jsonrpc_message *ret);
void sr_jsonrpc_clear(struct sr_jsonrpc_message *message);
#define _cleanup_message_ __attribute__((cleanup(sr_jsonrpc_clear)))

// Whether two ids, each as written, are the same id: "a" is "\u0061", 1000 is 1e3. Numbers that a double
// cannot tell apart are compared as text.
bool sr_jsonrpc_same_id(const char *a, const char *b);

// Append one message without a line end. id is text as written, NULL for null.
void sr_jsonrpc_write_result(struct sr_buf *out, const char *id, const char *result, size_t length);
void sr_jsonrpc_write_error(struct sr_buf *out, const char *id, int code, const char *problem);
