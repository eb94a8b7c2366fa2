#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "sandbox/generation.h"
#include "sandbox/message.h"
#include "sandbox/protocol.h"
#include "sandbox/step.h"

struct sr_sandbox {
        struct sr_spawner *spawner;
        struct sr_generation *generation;
        int socket;
        int scratch; // directory descriptor, -1: none
};

int sr_sandbox_open(struct sr_spawner *spawner, struct sr_sandbox **ret, struct sr_error **error)
{
        int sockets[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return sr_error_set(error, SR_ERROR_INTERNAL, errno, "making a socket pair: %s",
                                    strerror(errno));
        _cleanup_close_ int ours = sockets[0], theirs = sockets[1];

        struct sr_generation *generation = NULL;
        int r = sr_generation_acquire(spawner, theirs, &generation, error);
        if (r < 0)
                return r;

        struct sr_sandbox *sandbox = sr_new(struct sr_sandbox);

        *sandbox = (struct sr_sandbox){
                .spawner = spawner,
                .generation = generation,
                .socket = sr_fd_steal(ours),
                .scratch = -1,
        };
        *ret = sandbox;
        return 0;
}

struct sr_sandbox *sr_sandbox_close(struct sr_sandbox *sandbox)
{
        if (sandbox != NULL) {
                sr_fd_close(sandbox->scratch);
                sr_fd_close(sandbox->socket);
                sr_generation_release(sandbox->spawner, sandbox->generation);
                free(sandbox);
        }
        return NULL;
}

void sr_sandbox_closep(struct sr_sandbox **sandbox)
{
        *sandbox = sr_sandbox_close(*sandbox);
}

struct sr_limits sr_sandbox_limits(const struct sr_sandbox *sandbox)
{
        return sr_generation_limits(sandbox->generation);
}

static int gone(struct sr_error **error)
{
        return sr_error_set(
                error, SR_ERROR_INTERNAL, EPIPE,
                "the spawner ended while this ran (killed from outside, or out of memory); run it again");
}

// The verdict about a step that failed, in a person's words.
static int failed(const struct sr_wire_failure *failure, struct sr_error **error)
{
        int errnum = failure->errnum > 0 && failure->errnum < 4096 ? failure->errnum : EIO;
        const char *advice = sr_step_advice(failure->step, errnum);
        bool of_image =
                errnum != ENOSYS && (failure->step == SR_STEP_TREE || failure->step == SR_STEP_ATTACH_ROOT ||
                                     failure->step == SR_STEP_EXEC);
        enum sr_error_kind kind = of_image ? SR_ERROR_IMAGE : SR_ERROR_HOST;

        return sr_error_set(error, kind, errnum, "the sandbox could not be made: %s: %s%s%s",
                            sr_step_name(failure->step), strerror(errnum), *advice != '\0' ? "; " : "",
                            advice);
}

int sr_sandbox_make_scratch(struct sr_sandbox *sandbox, uint64_t bytes, uint32_t inodes,
                            struct sr_error **error)
{
        struct sr_wire_scratch message = {
                .head = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_SCRATCH},
                .bytes = bytes,
                .inodes = inodes,
        };
        int descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        size_t count = 0;

        if (sr_message_send(sandbox->socket, &message, sizeof(message), NULL, 0) < 0)
                return gone(error);
        ssize_t n = sr_message_receive(sandbox->socket, &message, sizeof(message), descriptors, &count);
        if (n != sizeof(message) || message.head.kind != SR_WIRE_SCRATCH)
                return gone(error);
        if (message.failure.step != SR_STEP_NONE || count != 1)
                return failed(&message.failure, error);
        sandbox->scratch = descriptors[0];
        return 0;
}

int sr_sandbox_write_file(struct sr_sandbox *sandbox, const char *name, const char *bytes, size_t length,
                          struct sr_error **error)
{
        const struct sr_idmap *ids = sr_generation_ids(sandbox->generation);
        int r = 0;

        // The file is the spawner's, which gives it to the program. Files of the tmpfs can only be made by
        // ids its user namespace knows, which the host's root is not. Both calls act on this thread alone and
        // cannot fail for root.
        if (ids->foreign) {
                setfsgid(ids->gid);
                setfsuid(ids->uid);
        }
        _cleanup_close_ int fd =
                openat(sandbox->scratch, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                r = -errno;
        if (ids->foreign) {
                setfsuid(0);
                setfsgid(0);
        }
        // The umask is the caller's; the mode is not.
        if (r == 0 && fchmod(fd, 0644) < 0)
                r = -errno;
        if (r == 0)
                r = sr_fd_write_all(fd, bytes, length);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_INTERNAL, -r, "writing /scratch/%s: %s", name,
                                    strerror(-r));
        return 0;
}

static size_t strings_size(char *const *array)
{
        size_t size = 0;

        for (size_t i = 0; array != NULL && array[i] != NULL; i++)
                size += strlen(array[i]) + 1;
        return size;
}

static char *put_strings(char *at, char *const *array)
{
        for (size_t i = 0; array != NULL && array[i] != NULL; i++)
                at = stpcpy(at, array[i]) + 1;
        return at;
}

static int encode_stage(const struct sr_sandbox_spec *spec, struct sr_wire_stage **ret, size_t *ret_size,
                        struct sr_error **error)
{
        size_t strings = strings_size(spec->arguments) + strings_size(spec->environment);
        size_t arguments = sr_strv_length(spec->arguments), environment = sr_strv_length(spec->environment);

        if (strings > SR_WIRE_STRINGS_MAX || arguments > SR_WIRE_ARGUMENTS_MAX ||
            environment > SR_WIRE_ARGUMENTS_MAX)
                return sr_error_set(
                        error, SR_ERROR_BAD_REQUEST, E2BIG,
                        "the arguments and environment are too long: at most %d strings of together %d KiB",
                        SR_WIRE_ARGUMENTS_MAX, SR_WIRE_STRINGS_MAX / 1024);

        struct sr_wire_stage *stage = sr_calloc(1, sizeof(*stage) + strings);

        *stage = (struct sr_wire_stage){
                .head = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_STAGE},
                .root = spec->root == SR_SANDBOX_ROOT_HOST ? SR_WIRE_ROOT_HOST : SR_WIRE_ROOT_TREE,
                .store = spec->store,
                .scratch = (uint32_t)spec->scratch,
                .in_scratch = spec->in_scratch,
                .timeout_ns = spec->timeout_ns,
                .tmp_bytes = spec->tmp_bytes,
                .tmp_inodes = spec->tmp_inodes,
                .open_files = spec->open_files,
                .file_bytes = spec->file_bytes,
                .processes = spec->processes,
                .memory_bytes = spec->memory_bytes,
                .cpu_millis = spec->cpu_millis,
                .argument_count = (uint32_t)arguments,
                .environment_count = (uint32_t)environment,
                .strings_length = (uint32_t)strings,
        };
        if (spec->chain_id != NULL)
                memcpy(stage->chain_id, spec->chain_id, strnlen(spec->chain_id, sizeof(stage->chain_id)));
        put_strings(put_strings(stage->strings, spec->arguments), spec->environment);
        *ret = stage;
        *ret_size = sizeof(*stage) + strings;
        return 0;
}

// A pipe belongs to who made it, and a program that is somebody else could not open its own /dev/stdout. The
// spawner gives it on to the program, and may do so with what is its own.
static void give_pipe(const struct sr_sandbox *sandbox, int fd)
{
        const struct sr_idmap *ids = sr_generation_ids(sandbox->generation);
        struct stat found;

        if (ids->foreign && fd >= 0 && fstat(fd, &found) == 0 && S_ISFIFO(found.st_mode))
                (void)!fchown(fd, ids->uid, ids->gid);
}

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u // Linux 6.3, where vm.memfd_noexec may ask for it
#endif

// A copy in memory that nobody can change any more.
static int copy_program(int fd, int *ret)
{
        _cleanup_close_ int copy = memfd_create("program", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
        off_t from = 0;
        ssize_t n;

        if (copy < 0 && errno == EINVAL)
                copy = memfd_create("program", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (copy < 0)
                return -errno;
        do
                n = sendfile(copy, fd, &from, 1 << 20);
        while (n > 0 || (n < 0 && errno == EINTR));
        if (n < 0 || fchmod(copy, 0555) < 0 ||
            fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
                return -errno;
        *ret = sr_fd_steal(copy);
        return 0;
}

int sr_sandbox_start(struct sr_sandbox *sandbox, const struct sr_sandbox_spec *spec,
                     const struct sr_sandbox_streams *streams, struct sr_error **error)
{
        _cleanup_free_ struct sr_wire_stage *stage = NULL;
        _cleanup_close_ int program = -1;
        int descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        size_t count = 0, size = 0;
        int r = encode_stage(spec, &stage, &size, error);

        if (r < 0)
                return r;
        give_pipe(sandbox, streams->stdin_fd);
        give_pipe(sandbox, streams->stdout_fd);
        give_pipe(sandbox, streams->stderr_fd);
        if (streams->stdin_fd >= 0) {
                stage->descriptors |= SR_WIRE_HAS_STDIN;
                descriptors[count++] = streams->stdin_fd;
        }
        descriptors[count++] = streams->stdout_fd;
        descriptors[count++] = streams->stderr_fd;
        if (spec->program_fd >= 0) {
                r = copy_program(spec->program_fd, &program);
                if (r < 0)
                        return sr_error_set(error, SR_ERROR_INTERNAL, -r, "copying %s into memory: %s",
                                            spec->arguments[0], strerror(-r));
                stage->descriptors |= SR_WIRE_HAS_PROGRAM;
                descriptors[count++] = program;
        }
        if (spec->directory_fd >= 0) {
                stage->descriptors |= SR_WIRE_HAS_DIRECTORY;
                descriptors[count++] = spec->directory_fd;
        }
        if (sr_message_send(sandbox->socket, stage, size, descriptors, count) < 0)
                return gone(error);
        return 0;
}

int sr_sandbox_poll_fd(const struct sr_sandbox *sandbox)
{
        return sandbox->socket;
}

int sr_sandbox_finish(struct sr_sandbox *sandbox, struct sr_sandbox_outcome *ret, struct sr_error **error)
{
        static const enum sr_sandbox_end ends[] = {
                [SR_WIRE_END_EXITED] = SR_SANDBOX_EXITED, [SR_WIRE_END_TIMEOUT] = SR_SANDBOX_TIMEOUT,
                [SR_WIRE_END_KILLED] = SR_SANDBOX_KILLED, [SR_WIRE_END_DIED] = SR_SANDBOX_DIED,
                [SR_WIRE_END_MEMORY] = SR_SANDBOX_MEMORY,
        };
        struct sr_wire_outcome outcome;
        int descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        size_t count = 0;
        ssize_t n = sr_message_receive(sandbox->socket, &outcome, sizeof(outcome), descriptors, &count);

        if (n != sizeof(outcome) || outcome.head.kind != SR_WIRE_OUTCOME)
                return gone(error);
        if (outcome.end >= SR_WIRE_END_FAILED)
                return failed(&outcome.failure, error);
        *ret = (struct sr_sandbox_outcome){
                .end = ends[outcome.end],
                .wait_status = outcome.wait_status,
                .launch_ns = outcome.launch_ns,
                .wall_ns = outcome.wall_ns,
                .hits = outcome.hits,
                .has_usage = outcome.has_usage != 0,
                .cpu_us = outcome.cpu_us,
                .peak_bytes = outcome.peak_bytes,
                .limits = sr_generation_limits(sandbox->generation),
        };
        return 0;
}

void sr_sandbox_kill(struct sr_sandbox *sandbox)
{
        const struct sr_wire_head kill = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_KILL};

        // A spawner that is gone has taken the stage with it.
        (void)sr_message_send(sandbox->socket, &kill, sizeof(kill), NULL, 0);
}
