// Confined helper jobs: a program of ours that handles what strangers made (an image's layers) in a sandbox
// that sees the host's system directories read-only, one input, one directory, and nothing else: no network,
// no capability, the snippets' seccomp filter.
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "config/config.h"

struct sr_helper_host;

// Starts what jobs need. config must outlive it. Call before any thread exists.
int sr_helper_host_new(const struct sr_config *config, struct sr_helper_host **ret, struct sr_error **error);
struct sr_helper_host *sr_helper_host_free(struct sr_helper_host *host);
void sr_helper_host_freep(struct sr_helper_host **host);

struct sr_helper_job {
        int program_fd;         // the executable, opened by the caller
        char *const *arguments; // arguments[0] is its name
        int input_fd;           // its standard input, or -1
        int directory_fd;       // its descriptor 3: the directory it may write; opened for reading or O_PATH
        uint64_t timeout_us;
        uint64_t file_bytes; // largest file it may write
};

// Runs the job to its end and appends its standard output to ret_output. A job that exits with another code
// than 0 is an error with the first line it wrote to stderr.
// Started by root, the job runs as an id of the sandboxes' range, which owns nothing: the directory is given
// to that id first and what the job makes stays its property.
int sr_helper_run(struct sr_helper_host *host, const struct sr_helper_job *job, struct sr_buf *ret_output,
                  struct sr_error **error);
