// The arguments of a tool call, checked against a table.
//
// As clients of FastMCP servers are used to: an integer may come as 7, 7.0 or "7"; what the table does not
// name is ignored; null is a value of the wrong type, not an absent one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum sr_mcp_argument_kind { SR_MCP_STRING, SR_MCP_INTEGER };

struct sr_mcp_argument {
        const char *name;
        enum sr_mcp_argument_kind kind;
        bool required;
        // Filled in by sr_mcp_arguments_read().
        bool given;
        char *text; // may hold NULs; NULL when not given
        size_t length;
        int64_t integer; // beyond the type's range: its nearest end
};

// Reads object (NULL: no arguments) into the rows. NULL when all is well, else a sentence for the model that
// names every argument at fault; the caller frees it. sr_mcp_arguments_clear() frees the values either way.
char *sr_mcp_arguments_read(const cJSON *object, struct sr_mcp_argument *arguments, size_t count);
void sr_mcp_arguments_clear(struct sr_mcp_argument *arguments, size_t count);
