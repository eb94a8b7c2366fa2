#include "run/helper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "run/capture.h"
#include "sandbox/sandbox.h"

// A job says little; more is a fault of it.
#define OUTPUT_KEEP_BYTES (64 * 1024)
#define OUTPUT_KILL_BYTES (1024 * 1024)

struct sr_helper_host {
        const struct sr_config *config;
        struct sr_spawner *spawner;
};

int sr_helper_host_new(const struct sr_config *config, struct sr_helper_host **ret, struct sr_error **error)
{
        _cleanup_free_ char *directory = sr_config_program_directory(), *program = NULL;
        char *no_trees[] = {NULL};
        struct sr_spawner *spawner = NULL;
        int r = sr_config_find_helper(directory, "sandbox-runner-spawner", &program, error);

        if (r == 0)
                r = sr_spawner_start(
                        &(struct sr_spawner_options){
                                .program = program,
                                .tree_roots = no_trees,
                                .root_id_base = config->root_id_base,
                        },
                        &spawner, error);
        if (r < 0)
                return r;

        struct sr_helper_host *host = sr_new(struct sr_helper_host);

        *host = (struct sr_helper_host){.config = config, .spawner = spawner};
        *ret = host;
        return 0;
}

struct sr_helper_host *sr_helper_host_free(struct sr_helper_host *host)
{
        if (host != NULL) {
                sr_spawner_stop(host->spawner);
                free(host);
        }
        return NULL;
}

void sr_helper_host_freep(struct sr_helper_host **host)
{
        *host = sr_helper_host_free(*host);
}

// The first line of what the job wrote to stderr.
static char *first_line(const struct sr_capture_stream *stream)
{
        bool truncated;
        size_t length;
        char *text = sr_capture_text(stream, &length, &truncated);

        text[strcspn(text, "\n")] = '\0';
        return text;
}

static int judge(const struct sr_capture *capture, const char *name, struct sr_error **error)
{
        int status = capture->outcome.wait_status;

        if (capture->outcome.end == SR_SANDBOX_TIMEOUT)
                return sr_error_set(error, SR_ERROR_LIMIT, ETIMEDOUT, "%s took too long and was ended", name);
        if (capture->outcome.end != SR_SANDBOX_EXITED)
                return sr_error_set(error, SR_ERROR_INTERNAL, EIO, "%s was ended", name);
        if (WIFSIGNALED(status))
                return sr_error_set(error, SR_ERROR_INTERNAL, EIO, "%s died of signal %d (%s)", name,
                                    WTERMSIG(status), strsignal(WTERMSIG(status)));
        if (WEXITSTATUS(status) != 0) {
                _cleanup_free_ char *line = first_line(&capture->err);

                return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "%s",
                                    *line != '\0' ? line : "the job failed and did not say why");
        }
        return 0;
}

int sr_helper_run(struct sr_helper_host *host, const struct sr_helper_job *job, struct sr_buf *ret_output,
                  struct sr_error **error)
{
        static const char *const environment[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp",
                                                  "TMPDIR=/tmp", NULL};
        const struct sr_config_stage *limits = &host->config->compile;
        struct sr_sandbox_spec spec = {
                .root = SR_SANDBOX_ROOT_HOST,
                .arguments = job->arguments,
                .environment = (char *const *)(uintptr_t)environment,
                .scratch = SR_SANDBOX_SCRATCH_NONE,
                .timeout_ns = job->timeout_us * 1000u,
                .tmp_bytes = limits->tmp_bytes,
                .tmp_inodes = host->config->inodes,
                .file_bytes = job->file_bytes,
                .open_files = limits->open_files,
                // Unpacking is bounded by what may be unpacked; what it writes is cache, which a limit of
                // memory would count.
                .memory_bytes = 0,
                .cpu_millis = 1000,
                .processes = limits->pids,
                .program_fd = job->program_fd,
                .directory_fd = job->directory_fd,
        };
        struct sr_capture_options options = {
                .keep_bytes = OUTPUT_KEEP_BYTES,
                .kill_bytes = OUTPUT_KILL_BYTES,
                .stdin_fd = job->input_fd,
        };
        _cleanup_sandbox_ struct sr_sandbox *sandbox = NULL;
        struct sr_capture capture = {0};

        int r = sr_spawner_give_directory(host->spawner, job->directory_fd, error);
        if (r == 0)
                r = sr_sandbox_open(host->spawner, &sandbox, error);
        if (r == 0)
                r = sr_capture_run(sandbox, &spec, &options, &capture, error);
        if (r == 0)
                r = judge(&capture, job->arguments[0], error);
        if (r == 0)
                sr_buf_append(ret_output, capture.out.kept.data, capture.out.kept.len);
        sr_capture_clear(&capture);
        return r;
}
