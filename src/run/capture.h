// One stage in a sandbox with its streams: feeds standard input, drains both outputs, watches for the outcome
// and for whoever wants it ended.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "run/run.h"
#include "sandbox/sandbox.h"

struct sr_capture_stream {
        struct sr_buf kept; // the first keep_bytes of it, raw
        uint64_t total;     // bytes the program wrote
};

struct sr_capture_options {
        uint64_t keep_bytes; // kept of each stream
        uint64_t kill_bytes; // of both together; past it the stage is killed
        int stdin_fd;        // -1: empty; read and copied into a pipe
        const int *cancel_fds;
        size_t cancel_count;
        void (*output)(void *context, int stream, const char *bytes, size_t length); // may be NULL
        void *output_context;
        const struct sr_run_late *late; // may be NULL
};

struct sr_capture {
        struct sr_capture_stream out, err;
        struct sr_sandbox_outcome outcome;
        bool over_the_limit; // kill_bytes passed
};

// Starts the stage and sees it through. *ret is filled in any case and must be cleared: what the program
// wrote before a failure is kept too. Errors are those of sr_sandbox_start and sr_sandbox_finish.
int sr_capture_run(struct sr_sandbox *sandbox, const struct sr_sandbox_spec *spec,
                   const struct sr_capture_options *options, struct sr_capture *ret, struct sr_error **error);
void sr_capture_clear(struct sr_capture *capture);
// The kept bytes as valid UTF-8: bytes that are none become U+FFFD; when the program wrote more than was kept
// (*ret_truncated), the cut is at a character and the marker follows. The caller frees it.
char *sr_capture_text(const struct sr_capture_stream *stream, size_t *ret_length, bool *ret_truncated);
