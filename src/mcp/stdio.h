// MCP on standard input and output: one JSON message a line, cut at \n alone (U+2028 is data), answers in the
// same form, nothing else ever.
#pragma once

#include "base/error.h"
#include "config/config.h"

struct sr_runner;

// Serves one client until its input ends, it goes away or we are told to stop:
// - at the end of in_fd the calls already received are answered, then it returns;
// - when nobody reads out_fd any more, and when stop_fd (-1: none) becomes readable, what runs is killed at
//   once (sr_runner_stop: the runner takes nothing new after that) and it returns. stop_fd is polled, never
//   read.
// Descriptors of any kind will do (pipe, socket, terminal, file, /dev/null); they are borrowed, and their
// flags are left as they are. SIGPIPE must be ignored by the caller. config and runner are borrowed. A reader
// that is slow costs memory up to a bound; beyond it no more input is read until it has caught up, and
// nothing is lost. 0, or a negative errno when in_fd or out_fd cannot be used.
int sr_mcp_stdio_run(const struct sr_config *config, struct sr_runner *runner, int in_fd, int out_fd,
                     int stop_fd, struct sr_error **error);
