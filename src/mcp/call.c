// Requests and calls on their way to an answer. The session's lock is held over each send and the removal of
// the call it answers, so that whoever finds no call in flight knows that every answer has reached its sink.

#include <stdlib.h>

#include "base/alloc.h"
#include "mcp/session.h"
#include "run/run.h"

// A batch waits for its parts, and once more for itself while it is being read.
struct sr_mcp_batch *sr_mcp_batch_new(const struct sr_mcp_sink *sink)
{
        struct sr_mcp_batch *batch = sr_new(struct sr_mcp_batch);

        batch->awaited = 1;
        batch->sink = *sink;
        return batch;
}

void sr_mcp_batch_expect(struct sr_mcp_session *session, struct sr_mcp_batch *batch)
{
        pthread_mutex_lock(&session->lock);
        batch->awaited++;
        pthread_mutex_unlock(&session->lock);
}

static void put_locked(struct sr_mcp_session *session, const struct sr_mcp_sink *sink, const char *text,
                       size_t length)
{
        if (session->abandoned || length == 0)
                sink->send(sink->context, NULL, 0);
        else
                sink->send(sink->context, text, length);
}

// One awaited answer is there; length 0: it will not come.
static void gather_locked(struct sr_mcp_session *session, struct sr_mcp_batch *batch, const char *text,
                          size_t length)
{
        if (length > 0) {
                sr_buf_append_char(&batch->answers, batch->answers.len == 0 ? '[' : ',');
                sr_buf_append(&batch->answers, text, length);
        }
        if (--batch->awaited > 0)
                return;
        if (batch->answers.len > 0)
                sr_buf_append_char(&batch->answers, ']');
        put_locked(session, &batch->sink, batch->answers.data, batch->answers.len);
        sr_buf_clear(&batch->answers);
        free(batch);
}

bool sr_mcp_batch_seal(struct sr_mcp_session *session, struct sr_mcp_batch *batch)
{
        pthread_mutex_lock(&session->lock);

        // Nothing awaited and nothing there: notifications only, to which no answer belongs.
        bool answered = batch->awaited > 1 || batch->answers.len > 0;

        if (answered)
                gather_locked(session, batch, NULL, 0);
        else
                free(batch);
        pthread_mutex_unlock(&session->lock);
        return answered;
}

static void deliver_locked(struct sr_mcp_request *request, const char *text, size_t length)
{
        if (request->batch != NULL)
                gather_locked(request->session, request->batch, text, length);
        else
                put_locked(request->session, &request->sink, text, length);
        free(sr_steal(request->id));
}

static void deliver(struct sr_mcp_request *request, const struct sr_buf *message)
{
        struct sr_mcp_session *session = request->session;

        pthread_mutex_lock(&session->lock);
        deliver_locked(request, message->data, message->len);
        pthread_mutex_unlock(&session->lock);
}

void sr_mcp_request_finish(struct sr_mcp_request *request, const char *result, size_t length)
{
        _cleanup_buf_ struct sr_buf message = {0};

        sr_jsonrpc_write_result(&message, request->id, result, length);
        deliver(request, &message);
}

void sr_mcp_request_fail(struct sr_mcp_request *request, int code, const char *problem)
{
        _cleanup_buf_ struct sr_buf message = {0};

        sr_jsonrpc_write_error(&message, request->id, code, problem);
        deliver(request, &message);
}

struct sr_mcp_call *sr_mcp_call_new(struct sr_mcp_request *request)
{
        struct sr_mcp_session *session = request->session;
        struct sr_mcp_call *call = NULL;

        pthread_mutex_lock(&session->lock);
        if (session->call_count < session->max_calls) {
                call = sr_new(struct sr_mcp_call);
                call->request = *request;
                call->cancel = sr_run_cancel_new();
                call->next = session->calls;
                if (call->next != NULL)
                        call->next->previous = call;
                session->calls = call;
                session->call_count++;
                *request = (struct sr_mcp_request){0};
                if (session->abandoned)
                        sr_run_cancel_fire(call->cancel);
        }
        pthread_mutex_unlock(&session->lock);
        return call;
}

struct sr_run_cancel *sr_mcp_call_cancel(struct sr_mcp_call *call)
{
        return call->cancel;
}

bool sr_mcp_call_wanted(struct sr_mcp_call *call)
{
        struct sr_mcp_session *session = call->request.session;

        pthread_mutex_lock(&session->lock);

        bool wanted = !call->cancelled && !session->abandoned;

        pthread_mutex_unlock(&session->lock);
        return wanted;
}

void sr_mcp_call_finish(struct sr_mcp_call *call, const char *result, size_t length)
{
        _cleanup_buf_ struct sr_buf message = {0};
        struct sr_mcp_session *session = call->request.session;

        sr_jsonrpc_write_result(&message, call->request.id, result, length);
        pthread_mutex_lock(&session->lock);
        deliver_locked(&call->request, message.data, call->cancelled ? 0 : message.len);
        if (call->previous != NULL)
                call->previous->next = call->next;
        else
                session->calls = call->next;
        if (call->next != NULL)
                call->next->previous = call->previous;
        if (--session->call_count == 0)
                pthread_cond_broadcast(&session->idle);
        sr_run_cancel_free(call->cancel);
        free(call);
        // The session may be freed by another thread as soon as it is unlocked.
        pthread_mutex_unlock(&session->lock);
}

void sr_mcp_call_fail(struct sr_mcp_call *call, const char *format, ...)
{
        _cleanup_buf_ struct sr_buf result = {0};
        _cleanup_free_ char *text = NULL;
        struct sr_json_writer w = {.out = &result, .first = true};
        va_list arguments;

        va_start(arguments, format);
        text = sr_vasprintf(format, arguments);
        va_end(arguments);
        sr_json_open_object(&w, NULL);
        sr_json_open_array(&w, "content");
        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "type", "text");
        sr_json_string(&w, "text", text);
        sr_json_close_object(&w);
        sr_json_close_array(&w);
        sr_json_bool(&w, "isError", true);
        sr_json_close_object(&w);
        sr_mcp_call_finish(call, result.data, result.len);
}

void sr_mcp_calls_cancel(struct sr_mcp_session *session, const char *id)
{
        pthread_mutex_lock(&session->lock);
        for (struct sr_mcp_call *call = session->calls; call != NULL; call = call->next)
                if (sr_jsonrpc_same_id(call->request.id, id)) {
                        call->cancelled = true;
                        sr_run_cancel_fire(call->cancel);
                }
        pthread_mutex_unlock(&session->lock);
}

size_t sr_mcp_session_calls(struct sr_mcp_session *session)
{
        pthread_mutex_lock(&session->lock);

        size_t count = session->call_count;

        pthread_mutex_unlock(&session->lock);
        return count;
}

void sr_mcp_session_abandon(struct sr_mcp_session *session)
{
        pthread_mutex_lock(&session->lock);
        session->abandoned = true;
        for (struct sr_mcp_call *call = session->calls; call != NULL; call = call->next)
                sr_run_cancel_fire(call->cancel);
        pthread_mutex_unlock(&session->lock);
}
