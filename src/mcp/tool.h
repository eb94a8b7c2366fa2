// What a tool is to the protocol: a row of a table. The three tools of this program are one such table
// (tools.h); a test program may serve another through the same server.
#pragma once

#include <stdarg.h>
#include <stdbool.h>

#include "base/json.h"

struct sr_run_cancel;
struct sr_mcp_call; // one tools/call that has not been answered yet

struct sr_mcp_tool {
        const char *name;
        const char *title;
        // Writes the rest of the tool's entry in tools/list: description, inputSchema, outputSchema,
        // annotations.
        void (*describe)(void *context, struct sr_json_writer *w);
        // Begins a call. arguments is an object or NULL, borrowed until start returns. The call is answered
        // by exactly one sr_mcp_call_finish() or sr_mcp_call_fail(), now or later, on any thread; it is gone
        // then.
        void (*start)(void *context, struct sr_mcp_call *call, const cJSON *arguments);
};

struct sr_mcp_toolset {
        const struct sr_mcp_tool *tools; // in the order of tools/list
        size_t count;
        void *context;            // handed to the functions of each
        const char *instructions; // of the server, for the model: what it is for and how to begin
};

// Fired when the client cancels the call or is gone. Lives until the call is answered.
struct sr_run_cancel *sr_mcp_call_cancel(struct sr_mcp_call *call);
// Whether anybody still waits for the answer. It must come all the same.
bool sr_mcp_call_wanted(struct sr_mcp_call *call);

// Answers with a CallToolResult, the text of a JSON object.
void sr_mcp_call_finish(struct sr_mcp_call *call, const char *result, size_t length);
// Answers with isError true and one text block: for the model to read, so it says what to do differently.
__attribute__((format(printf, 2, 3))) void sr_mcp_call_fail(struct sr_mcp_call *call, const char *format,
                                                            ...);
