// Sessions and methods. See server.h.

#include "mcp/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "mcp/session.h"

// Newest first: it is what a client that asks for something else is offered.
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
#define BATCHING_VERSION "2025-03-26"
// Each element of a batch costs an answer of some hundred bytes.
#define MAX_BATCH 100
// How much of a name that a client made up is worth repeating to it, in characters.
#define MAX_QUOTED 80

struct method {
        const char *name;
        bool always; // answered before initialize too
        void (*handle)(struct sr_mcp_request *request, const struct sr_jsonrpc_message *message);
};

static void fail_quoting(struct sr_mcp_request *request, int code, const char *what, const char *name)
{
        size_t length = strlen(name), shown = sr_utf8_prefix(name, length, MAX_QUOTED);
        _cleanup_free_ char *problem =
                sr_asprintf("%s \"%.*s%s\"", what, (int)shown, name, shown < length ? "…" : "");

        sr_mcp_request_fail(request, code, problem);
}

static void finish_empty(struct sr_mcp_request *request)
{
        sr_mcp_request_finish(request, "{}", 2);
}

static const char *negotiate(const char *wanted)
{
        for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
                if (strcmp(wanted, versions[i]) == 0)
                        return versions[i];
        return versions[0];
}

static void initialize(struct sr_mcp_request *request, const struct sr_jsonrpc_message *message)
{
        const struct sr_mcp_toolset *toolset = request->session->toolset;
        const cJSON *wanted = sr_json_member(message->params, "protocolVersion");
        const cJSON *capabilities = sr_json_member(message->params, "capabilities");

        if (!cJSON_IsString(wanted)) {
                sr_mcp_request_fail(request, SR_JSONRPC_INVALID_PARAMS,
                                    "\"protocolVersion\" must be a string such as \"2025-11-25\"");
                return;
        }
        if (capabilities != NULL && !cJSON_IsObject(capabilities)) {
                sr_mcp_request_fail(request, SR_JSONRPC_INVALID_PARAMS, "\"capabilities\" must be an object");
                return;
        }

        _cleanup_buf_ struct sr_buf result = {0};
        struct sr_json_writer w = {.out = &result, .first = true};
        const char *version = negotiate(wanted->valuestring);

        atomic_store(&request->session->version, version);
        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "protocolVersion", version);
        sr_json_open_object(&w, "capabilities");
        sr_json_open_object(&w, "tools");
        sr_json_bool(&w, "listChanged", false);
        sr_json_close_object(&w);
        sr_json_close_object(&w);
        sr_json_open_object(&w, "serverInfo");
        sr_json_string(&w, "name", "sandbox-runner");
        sr_json_string(&w, "title", "SandboxRunner");
        sr_json_string(&w, "version", SR_VERSION);
        sr_json_close_object(&w);
        if (toolset->instructions != NULL)
                sr_json_string(&w, "instructions", toolset->instructions);
        sr_json_close_object(&w);
        sr_mcp_request_finish(request, result.data, result.len);
}

static void ping(struct sr_mcp_request *request, const struct sr_jsonrpc_message *message)
{
        (void)message;
        finish_empty(request);
}

static void list_tools(struct sr_mcp_request *request, const struct sr_jsonrpc_message *message)
{
        const struct sr_mcp_toolset *toolset = request->session->toolset;
        const cJSON *cursor = sr_json_member(message->params, "cursor");
        _cleanup_buf_ struct sr_buf result = {0};
        struct sr_json_writer w = {.out = &result, .first = true};

        // All tools fit on one page, so no cursor was ever given out. Some clients begin with an empty one.
        if (cursor != NULL && !cJSON_IsNull(cursor) &&
            (!cJSON_IsString(cursor) || cursor->valuestring[0] != '\0')) {
                sr_mcp_request_fail(request, SR_JSONRPC_INVALID_PARAMS,
                                    "\"cursor\" is none of this server's: the list has one page");
                return;
        }
        sr_json_open_object(&w, NULL);
        sr_json_open_array(&w, "tools");
        for (size_t i = 0; i < toolset->count; i++) {
                const struct sr_mcp_tool *tool = &toolset->tools[i];

                sr_json_open_object(&w, NULL);
                sr_json_string(&w, "name", tool->name);
                sr_json_string(&w, "title", tool->title);
                tool->describe(toolset->context, &w);
                sr_json_close_object(&w);
        }
        sr_json_close_array(&w);
        sr_json_close_object(&w);
        sr_mcp_request_finish(request, result.data, result.len);
}

static const struct sr_mcp_tool *find_tool(const struct sr_mcp_toolset *toolset, const char *name)
{
        for (size_t i = 0; i < toolset->count; i++)
                if (strcmp(toolset->tools[i].name, name) == 0)
                        return &toolset->tools[i];
        return NULL;
}

static void finish_too_many(struct sr_mcp_request *request)
{
        static const char result[] = "{\"content\":[{\"type\":\"text\",\"text\":\"too many calls are under "
                                     "way in this session; wait for "
                                     "some of their answers, then call again\"}],\"isError\":true}";

        sr_mcp_request_finish(request, result, sizeof(result) - 1);
}

static void call_tool(struct sr_mcp_request *request, const struct sr_jsonrpc_message *message)
{
        const struct sr_mcp_toolset *toolset = request->session->toolset;
        const cJSON *name = sr_json_member(message->params, "name");
        const cJSON *arguments = sr_json_member(message->params, "arguments");

        if (!cJSON_IsString(name)) {
                sr_mcp_request_fail(request, SR_JSONRPC_INVALID_PARAMS,
                                    "\"name\" must be the name of a tool");
                return;
        }
        if (arguments != NULL && !cJSON_IsObject(arguments) && !cJSON_IsNull(arguments)) {
                sr_mcp_request_fail(request, SR_JSONRPC_INVALID_PARAMS, "\"arguments\" must be an object");
                return;
        }

        const struct sr_mcp_tool *tool = find_tool(toolset, name->valuestring);

        if (tool == NULL) {
                fail_quoting(request, SR_JSONRPC_INVALID_PARAMS, "there is no tool", name->valuestring);
                return;
        }

        struct sr_mcp_call *call = sr_mcp_call_new(request);

        if (call == NULL)
                finish_too_many(request);
        else
                tool->start(toolset->context, call, cJSON_IsObject(arguments) ? arguments : NULL);
}

static const struct method methods[] = {
        {"initialize", true, initialize},
        {"ping", true, ping},
        {"tools/list", false, list_tools},
        {"tools/call", false, call_tool},
};

static void handle_request(struct sr_mcp_request *request, const struct sr_jsonrpc_message *message)
{
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
                const struct method *method = &methods[i];

                if (strcmp(message->method, method->name) != 0)
                        continue;
                if (!method->always && atomic_load(&request->session->version) == NULL)
                        sr_mcp_request_fail(request, SR_JSONRPC_INVALID_REQUEST,
                                            "the session has not begun: send \"initialize\" first");
                else
                        method->handle(request, message);
                return;
        }
        fail_quoting(request, SR_JSONRPC_METHOD_NOT_FOUND, "there is no method", message->method);
}

static void handle_notification(struct sr_mcp_session *session, const struct sr_jsonrpc_message *message)
{
        const char *start;
        size_t length;

        if (strcmp(message->method, "notifications/cancelled") != 0 || message->params_text == NULL ||
            !sr_json_raw_member(message->params_text, message->params_length, "requestId", &start, &length))
                return;

        _cleanup_free_ char *id = sr_memdup0(start, length);

        sr_mcp_calls_cancel(session, id);
}

// A message that is no batch. Whether it is answered.
static bool receive_one(struct sr_mcp_session *session, struct sr_jsonrpc_message *message,
                        const struct sr_mcp_sink *sink, struct sr_mcp_batch *batch)
{
        struct sr_mcp_request request = {.session = session, .sink = *sink, .batch = batch};

        if (message->kind == SR_JSONRPC_NOTIFICATION)
                handle_notification(session, message);
        if (message->kind != SR_JSONRPC_REQUEST && message->kind != SR_JSONRPC_INVALID)
                return false;
        request.id = sr_steal(message->id);
        if (batch != NULL)
                sr_mcp_batch_expect(session, batch);
        if (message->kind == SR_JSONRPC_REQUEST)
                handle_request(&request, message);
        else
                sr_mcp_request_fail(&request, message->code, message->problem);
        return true;
}

// What is wrong with a batch as a whole, or NULL.
static const char *refuse_batch(struct sr_mcp_session *session, const cJSON *root)
{
        const char *version = atomic_load(&session->version);
        int count = cJSON_GetArraySize(root);

        if (version == NULL || strcmp(version, BATCHING_VERSION) != 0)
                return "batches exist in protocol version " BATCHING_VERSION
                       " only: send one message at a time";
        if (count == 0)
                return "the batch is empty";
        if (count > MAX_BATCH)
                return "the batch holds more than 100 messages";
        return NULL;
}

static bool receive_batch(struct sr_mcp_session *session, const cJSON *root, const char *text, size_t length,
                          const struct sr_mcp_sink *sink)
{
        const char *problem = refuse_batch(session, root), *element;
        size_t at = 0, element_length;

        if (problem != NULL) {
                struct sr_mcp_request request = {.session = session, .sink = *sink};

                sr_mcp_request_fail(&request, SR_JSONRPC_INVALID_REQUEST, problem);
                return true;
        }

        struct sr_mcp_batch *batch = sr_mcp_batch_new(sink);

        while (sr_json_raw_element(text, length, &at, &element, &element_length)) {
                _cleanup_message_ struct sr_jsonrpc_message message = {0};

                sr_jsonrpc_read(element, element_length, &message);
                if (message.kind == SR_JSONRPC_BATCH) {
                        message.kind = SR_JSONRPC_INVALID;
                        message.code = SR_JSONRPC_INVALID_REQUEST;
                        message.problem = sr_strdup("a batch within a batch");
                }
                receive_one(session, &message, sink, batch);
        }
        return sr_mcp_batch_seal(session, batch);
}

bool sr_mcp_session_receive(struct sr_mcp_session *session, const char *text, size_t length,
                            const struct sr_mcp_sink *sink)
{
        _cleanup_message_ struct sr_jsonrpc_message message = {0};

        sr_jsonrpc_read(text, length, &message);
        if (message.kind == SR_JSONRPC_BATCH)
                return receive_batch(session, message.root, text, length, sink);
        return receive_one(session, &message, sink, NULL);
}

struct sr_mcp_session *sr_mcp_session_new(const struct sr_mcp_toolset *toolset, size_t max_calls)
{
        struct sr_mcp_session *session = sr_new(struct sr_mcp_session);

        session->toolset = toolset;
        session->max_calls = max_calls;
        pthread_mutex_init(&session->lock, NULL);
        pthread_cond_init(&session->idle, NULL);
        return session;
}

struct sr_mcp_session *sr_mcp_session_free(struct sr_mcp_session *session)
{
        if (session == NULL)
                return NULL;
        sr_mcp_session_abandon(session);
        pthread_mutex_lock(&session->lock);
        while (session->calls != NULL)
                pthread_cond_wait(&session->idle, &session->lock);
        pthread_mutex_unlock(&session->lock);
        pthread_cond_destroy(&session->idle);
        pthread_mutex_destroy(&session->lock);
        free(session);
        return NULL;
}

void sr_mcp_session_freep(struct sr_mcp_session **session)
{
        *session = sr_mcp_session_free(*session);
}
