// What the files of the server share: the session, one request, one call in flight. Private to src/mcp.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "mcp/jsonrpc.h"
#include "mcp/server.h"

// The answers to a batch, gathered until the last is there. Guarded by the session's lock.
struct sr_mcp_batch {
        size_t awaited;
        struct sr_buf answers;
        struct sr_mcp_sink sink;
};

// Everything that answering one request takes. What transports and protocol versions do differently belongs
// here, so that no handler has to know it.
struct sr_mcp_request {
        struct sr_mcp_session *session;
        char *id; // as written; NULL: unknown, answered with null
        struct sr_mcp_sink sink;
        struct sr_mcp_batch *batch; // NULL: stands alone
};

struct sr_mcp_call {
        struct sr_mcp_request request;
        struct sr_run_cancel *cancel;
        bool cancelled;
        struct sr_mcp_call *previous, *next;
};

struct sr_mcp_session {
        const struct sr_mcp_toolset *toolset;
        size_t max_calls;
        const char *_Atomic version; // NULL before initialize
        pthread_mutex_t lock;        // guards what follows, and every send
        pthread_cond_t idle;         // no call is in flight
        struct sr_mcp_call *calls;
        size_t call_count;
        bool abandoned;
};

// Answers a request and empties it.
void sr_mcp_request_finish(struct sr_mcp_request *request, const char *result, size_t length);
void sr_mcp_request_fail(struct sr_mcp_request *request, int code, const char *problem);

struct sr_mcp_batch *sr_mcp_batch_new(const struct sr_mcp_sink *sink);
// One answer more is to come; said before the request is handled.
void sr_mcp_batch_expect(struct sr_mcp_session *session, struct sr_mcp_batch *batch);
// All that are to come have been announced; batch may be gone afterwards. Whether there is any.
bool sr_mcp_batch_seal(struct sr_mcp_session *session, struct sr_mcp_batch *batch);

// Puts a call among those in flight, with the contents of request. NULL, and request untouched, when there
// are too many.
struct sr_mcp_call *sr_mcp_call_new(struct sr_mcp_request *request);
// Cancels what has this id, as written.
void sr_mcp_calls_cancel(struct sr_mcp_session *session, const char *id);
