// Runs a static program in a sandbox over the host's own directories, which needs no image:
//
//   in-sandbox SPAWNER PROGRAM [ARGUMENT…]
//
// The program's output is this one's, and so is its exit code. Then, on standard error, one line says what
// held its memory: "memory: " and the name of what did. 125: the sandbox failed.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "sandbox/sandbox.h"

#define FAILED 125

static int run(struct sr_spawner *spawner, const struct sr_sandbox_spec *spec,
               struct sr_sandbox_outcome *outcome, struct sr_error **error)
{
        const struct sr_sandbox_streams streams = {.stdin_fd = -1, .stdout_fd = 1, .stderr_fd = 2};
        _cleanup_sandbox_ struct sr_sandbox *sandbox = NULL;
        int r = sr_sandbox_open(spawner, &sandbox, error);

        if (r == 0)
                r = sr_sandbox_start(sandbox, spec, &streams, error);
        return r < 0 ? r : sr_sandbox_finish(sandbox, outcome, error);
}

int main(int argc, char **argv)
{
        static char *no_roots[] = {NULL, NULL, NULL, NULL, NULL};
        static char *environment[] = {NULL};
        struct sr_sandbox_outcome outcome = {0};
        struct sr_spawner *spawner = NULL;
        struct sr_error *error = NULL;

        if (argc < 3)
                return fputs("usage: in-sandbox SPAWNER PROGRAM [ARGUMENT...]\n", stderr), FAILED;

        struct sr_sandbox_spec spec = {
                .root = SR_SANDBOX_ROOT_HOST,
                .arguments = argv + 2,
                .environment = environment,
                .timeout_ns = 60000000000u,
                .tmp_bytes = 1 << 20,
                .tmp_inodes = 100,
                .file_bytes = 1 << 20,
                .open_files = 64,
                .memory_bytes = 128 << 20,
                .cpu_millis = 1000,
                .processes = 32,
                .program_fd = open(argv[2], O_RDONLY | O_CLOEXEC),
                .directory_fd = -1,
        };

        if (spec.program_fd < 0)
                return fprintf(stderr, "in-sandbox: %s: %s\n", argv[2], strerror(errno)), FAILED;

        int r = sr_spawner_start(
                &(struct sr_spawner_options){
                        .program = argv[1],
                        .tree_roots = no_roots,
                        .root_id_base = 2069692416u,
                },
                &spawner, &error);

        if (r == 0)
                r = run(spawner, &spec, &outcome, &error);
        sr_spawner_stop(spawner);
        close(spec.program_fd);
        if (r < 0) {
                fprintf(stderr, "in-sandbox: %s\n", sr_error_message(error));
                sr_error_free(error);
                return FAILED;
        }
        fprintf(stderr, "memory: %s\n", sr_enforcer_name(outcome.limits.by[SR_CONTROLLER_MEMORY]));
        if (outcome.end != SR_SANDBOX_EXITED || !WIFEXITED(outcome.wait_status))
                return fprintf(stderr, "in-sandbox: the program did not exit: end %d, status %#x\n",
                               (int)outcome.end, (unsigned)outcome.wait_status),
                       FAILED;
        return WEXITSTATUS(outcome.wait_status);
}
