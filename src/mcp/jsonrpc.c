#include "mcp/jsonrpc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

// Arguments of tools are flat; this leaves room for what clients put into _meta.
#define MAX_DEPTH 128
// An id is stored with its call and sent back; clients use a number or a UUID.
#define MAX_ID_LENGTH 1024
// Above this a double no longer tells neighbouring integers apart.
#define MAX_EXACT 9007199254740992.0

static void reject(struct sr_jsonrpc_message *message, int code, const char *problem)
{
        message->kind = SR_JSONRPC_INVALID;
        message->code = code;
        message->problem = sr_strdup(problem);
}

// Takes the id over. false when it is there but none that may be.
static bool read_id(struct sr_jsonrpc_message *message, const cJSON *id, const char *text, size_t length)
{
        const char *start;
        size_t id_length;

        if (id == NULL)
                return true;
        if ((!cJSON_IsString(id) && !cJSON_IsNumber(id)) ||
            !sr_json_raw_member(text, length, "id", &start, &id_length) || id_length > MAX_ID_LENGTH)
                return false;
        message->id = sr_memdup0(start, id_length);
        return true;
}

static void read_params(struct sr_jsonrpc_message *message, const char *text, size_t length)
{
        const cJSON *params = sr_json_member(message->root, "params");

        if (params == NULL || cJSON_IsNull(params))
                return;
        if (!cJSON_IsObject(params)) {
                // A notification is never answered, whatever is wrong with it.
                if (message->kind == SR_JSONRPC_REQUEST)
                        reject(message, SR_JSONRPC_INVALID_PARAMS, "\"params\" must be an object");
                return;
        }
        message->params = params;
        if (!sr_json_raw_member(text, length, "params", &message->params_text, &message->params_length))
                message->params_text = NULL;
}

static void read_object(struct sr_jsonrpc_message *message, const char *text, size_t length)
{
        const cJSON *version = sr_json_member(message->root, "jsonrpc");
        const cJSON *method = sr_json_member(message->root, "method");
        const cJSON *id = sr_json_member(message->root, "id");
        bool answer = method == NULL && (sr_json_member(message->root, "result") != NULL ||
                                         sr_json_member(message->root, "error") != NULL);

        // The other side may answer a message whose id it could not read with the id null.
        if (answer && (id == NULL || cJSON_IsNull(id))) {
                message->kind = SR_JSONRPC_RESPONSE;
                return;
        }
        if (!read_id(message, id, text, length)) {
                reject(message, SR_JSONRPC_INVALID_REQUEST,
                       "\"id\" must be a number or a string of at most 1024 bytes");
                return;
        }
        if (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0) {
                reject(message, SR_JSONRPC_INVALID_REQUEST, "\"jsonrpc\" must be \"2.0\"");
                return;
        }
        if (answer) {
                message->kind = SR_JSONRPC_RESPONSE;
                return;
        }
        if (!cJSON_IsString(method)) {
                reject(message, SR_JSONRPC_INVALID_REQUEST,
                       method == NULL ? "there is no \"method\"" : "\"method\" must be a string");
                return;
        }
        message->method = method->valuestring;
        message->kind = message->id != NULL ? SR_JSONRPC_REQUEST : SR_JSONRPC_NOTIFICATION;
        read_params(message, text, length);
}

void sr_jsonrpc_read(const char *text, size_t length, struct sr_jsonrpc_message *ret)
{
        _cleanup_error_ struct sr_error *error = NULL;

        *ret = (struct sr_jsonrpc_message){0};
        if (sr_json_parse(text, length, MAX_DEPTH, &ret->root, &error) < 0) {
                reject(ret, SR_JSONRPC_PARSE_ERROR, sr_error_message(error));
                return;
        }
        if (cJSON_IsArray(ret->root))
                ret->kind = SR_JSONRPC_BATCH;
        else if (cJSON_IsObject(ret->root))
                read_object(ret, text, length);
        else
                reject(ret, SR_JSONRPC_INVALID_REQUEST, "a message must be a JSON object");
}

void sr_jsonrpc_clear(struct sr_jsonrpc_message *message)
{
        cJSON_Delete(message->root);
        free(message->id);
        free(message->problem);
        *message = (struct sr_jsonrpc_message){0};
}

bool sr_jsonrpc_same_id(const char *a, const char *b)
{
        _cleanup_json_ cJSON *first = NULL, *second = NULL;

        if (strcmp(a, b) == 0)
                return true;
        // No id is longer, though each of its characters may be written as \uXXXX.
        if (strlen(a) > 6 * MAX_ID_LENGTH || strlen(b) > 6 * MAX_ID_LENGTH)
                return false;
        if (sr_json_parse(a, strlen(a), 1, &first, NULL) < 0 ||
            sr_json_parse(b, strlen(b), 1, &second, NULL) < 0)
                return false;
        if (cJSON_IsString(first) && cJSON_IsString(second))
                return strcmp(first->valuestring, second->valuestring) == 0;
        if (cJSON_IsNumber(first) && cJSON_IsNumber(second))
                return fabs(first->valuedouble) < MAX_EXACT && first->valuedouble >= second->valuedouble &&
                       first->valuedouble <= second->valuedouble;
        return false;
}

static void open_message(struct sr_json_writer *w, const char *id)
{
        sr_json_open_object(w, NULL);
        sr_json_string(w, "jsonrpc", "2.0");
        sr_json_raw(w, "id", id != NULL ? id : "null");
}

void sr_jsonrpc_write_result(struct sr_buf *out, const char *id, const char *result, size_t length)
{
        struct sr_json_writer w = {.out = out, .first = true};

        sr_buf_reserve(out, length + 128);
        open_message(&w, id);
        sr_buf_append_text(out, ",\"result\":");
        sr_buf_append(out, result, length);
        sr_json_close_object(&w);
}

void sr_jsonrpc_write_error(struct sr_buf *out, const char *id, int code, const char *problem)
{
        struct sr_json_writer w = {.out = out, .first = true};

        open_message(&w, id);
        sr_json_open_object(&w, "error");
        sr_json_integer(&w, "code", code);
        sr_json_string(&w, "message", problem);
        sr_json_close_object(&w);
        sr_json_close_object(&w);
}
