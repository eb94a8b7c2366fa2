// The protocol as a server speaks it: one session object for each client, whatever carries the bytes.
//
// Theory of operation. A transport hands each incoming message to sr_mcp_session_receive() together with a
// sink, the place where its answer goes: one and the same for all messages on stdio, a response of its own
// for each message over HTTP. Most answers come before receive returns. A tools/call goes on by itself: its
// request context (id, sink, session) lives until the tool answers, on whatever thread that is.
//
// Protocol versions 2024-11-05 to 2025-11-25, those that begin with `initialize`. Before it only ping is
// answered; every other method that exists gets -32600. After it the server does not insist on
// notifications/initialized. Batches are taken where the protocol has them, in 2025-03-26.
//
// A cancelled call (notifications/cancelled) is ended and not answered, as the specification asks.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "mcp/tool.h"

struct sr_mcp_session;

// Where the answer to one message goes. send is called exactly once for each message that
// sr_mcp_session_receive promises an answer for: with one JSON message (no line end; bytes borrowed), or with
// NULL when the answer is not wanted any more. Any thread may call it, one at a time for a session, which is
// locked meanwhile: it must only put the bytes somewhere and must not call the session.
struct sr_mcp_sink {
        void (*send)(void *context, const char *bytes, size_t length);
        void *context;
};

// toolset is borrowed and must outlive the session. At most max_calls calls are in flight at once; more are
// answered at once with a result that says so.
struct sr_mcp_session *sr_mcp_session_new(const struct sr_mcp_toolset *toolset, size_t max_calls);
// Ends and waits for what is in flight. Accepts NULL; returns NULL.
struct sr_mcp_session *sr_mcp_session_free(struct sr_mcp_session *session);
void sr_mcp_session_freep(struct sr_mcp_session **session);
#define _cleanup_session_ __attribute__((cleanup(sr_mcp_session_freep)))

// Takes one incoming message, whole and without its line end. Whether an answer came or will come; the sink's
// context must live until then. Several threads may call it.
bool sr_mcp_session_receive(struct sr_mcp_session *session, const char *text, size_t length,
                            const struct sr_mcp_sink *sink);

// How many calls are in flight. When it is 0, every answer has been handed to its sink.
size_t sr_mcp_session_calls(struct sr_mcp_session *session);
// The client is gone: ends what is in flight; nothing more is sent but NULL.
void sr_mcp_session_abandon(struct sr_mcp_session *session);
