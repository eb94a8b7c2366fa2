// The three tools of this program: run_code, list_supported_languages, get_execution_history.
#pragma once

#include "config/config.h"
#include "mcp/tool.h"

struct sr_runner;
struct sr_mcp_tools;

// config and runner are borrowed and must outlive the tools, and the tools every session that uses them.
struct sr_mcp_tools *sr_mcp_tools_new(const struct sr_config *config, struct sr_runner *runner);
struct sr_mcp_tools *sr_mcp_tools_free(struct sr_mcp_tools *tools);
void sr_mcp_tools_freep(struct sr_mcp_tools **tools);
#define _cleanup_tools_ __attribute__((cleanup(sr_mcp_tools_freep)))

const struct sr_mcp_toolset *sr_mcp_tools_set(const struct sr_mcp_tools *tools);
