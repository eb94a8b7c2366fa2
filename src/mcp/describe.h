// What the tools say about themselves. Private to src/mcp.
#pragma once

#include "base/json.h"
#include "config/config.h"

struct sr_language_catalogue;

// An answer is made in memory, where a row takes some kilobytes: so many rows are given at once and no more.
#define SR_MCP_HISTORY_DEFAULT 20
#define SR_MCP_HISTORY_MAX     100000

// Each writes the description, inputSchema, outputSchema and annotations members of a tool's entry.
void sr_mcp_describe_run_code(const struct sr_config *config, const struct sr_language_catalogue *languages,
                              struct sr_json_writer *w);
void sr_mcp_describe_languages(struct sr_json_writer *w);
void sr_mcp_describe_history(struct sr_json_writer *w);
// The server's instructions; the caller frees them.
char *sr_mcp_describe_server(const struct sr_config *config, const struct sr_language_catalogue *languages);
