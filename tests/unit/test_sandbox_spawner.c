// The real spawner, spoken to directly: jobs in the host root (no image needed), hostile messages, death.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "run/capture.h"
#include "sandbox/message.h"
#include "sandbox/protocol.h"
#include "sandbox/sandbox.h"
#include "sandbox/spawner_start.h"

#define ROOT_ID_BASE 2069692416u

static char *no_roots[5] = {NULL};
static const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};

static struct sr_sandbox_spec host_spec(const char *const *arguments)
{
        return (struct sr_sandbox_spec){
                .root = SR_SANDBOX_ROOT_HOST,
                .arguments = (char *const *)(uintptr_t)arguments,
                .environment = (char *const *)(uintptr_t)environment,
                .timeout_ns = 5000000000u,
                .tmp_bytes = 1 << 20,
                .tmp_inodes = 100,
                .file_bytes = 1 << 20,
                .open_files = 64,
                .processes = 32,
                .cpu_millis = 1000,
                .program_fd = -1,
                .directory_fd = -1,
        };
}

static int run_shell(struct sr_spawner *spawner, const char *script, struct sr_capture *ret,
                     struct sr_error **error)
{
        _cleanup_sandbox_ struct sr_sandbox *sandbox = NULL;
        const char *arguments[] = {"sh", "-c", script, NULL};
        struct sr_sandbox_spec spec = host_spec(arguments);
        struct sr_capture_options options = {.keep_bytes = 4096, .kill_bytes = 1 << 20, .stdin_fd = -1};
        int r = sr_sandbox_open(spawner, &sandbox, error);

        return r < 0 ? r : sr_capture_run(sandbox, &spec, &options, ret, error);
}

static struct sr_spawner *start(void)
{
        struct sr_spawner *spawner = NULL;
        struct sr_error *error = NULL;
        int r = sr_spawner_start(
                &(struct sr_spawner_options){
                        .program = getenv("SR_TEST_SPAWNER"),
                        .tree_roots = no_roots,
                        .root_id_base = ROOT_ID_BASE,
                },
                &spawner, &error);

        if (r < 0)
                print_error("%s\n", sr_error_message(error));
        sr_error_free(error);
        assert_int_equal(r, 0);
        return spawner;
}

static void a_program_of_the_host_runs_and_sees_little_of_it(void **state)
{
        struct sr_spawner *spawner = start();
        struct sr_capture capture;

        (void)state;
        assert_int_equal(run_shell(spawner,
                                   "id -u; ls /home /root /etc/passwd /var 2>/dev/null; echo end; exit 3",
                                   &capture, NULL),
                         0);
        assert_string_equal(capture.out.kept.data, "1000\nend\n");
        assert_int_equal(capture.outcome.end, SR_SANDBOX_EXITED);
        assert_int_equal(WEXITSTATUS(capture.outcome.wait_status), 3);
        sr_capture_clear(&capture);
        sr_spawner_stop(spawner);
}

static void every_tmpfs_is_bounded_and_without_devices_programs_or_set_ids(void **state)
{
        struct sr_spawner *spawner = start();
        struct sr_capture capture;

        (void)state;
        assert_int_equal(run_shell(spawner,
                                   "while read -r a b c d where flags e type f options; do\n"
                                   "case $where in /tmp|/dev/shm) echo \"$where $flags $options\";; esac\n"
                                   "done < /proc/self/mountinfo",
                                   &capture, NULL),
                         0);
        for (const char *line = capture.out.kept.data; *line != '\0'; line = strchr(line, '\n') + 1) {
                assert_non_null(strstr(line, "rw,nosuid,nodev,noexec"));
                assert_non_null(strstr(line, "size=1024k,nr_inodes=100"));
        }
        assert_non_null(strstr(capture.out.kept.data, "/tmp "));
        assert_non_null(strstr(capture.out.kept.data, "/dev/shm "));
        sr_capture_clear(&capture);
        sr_spawner_stop(spawner);
}

static void a_job_writes_into_its_directory_and_nowhere_else(void **state)
{
        struct sr_spawner *spawner = start();
        _cleanup_sandbox_ struct sr_sandbox *sandbox = NULL;
        char directory[] = "/tmp/sr-test-job-XXXXXX";
        const char *arguments[] = {"sh", "-c", "echo made > /proc/self/fd/3/file; echo no > /usr/file", NULL};
        struct sr_sandbox_spec spec = host_spec(arguments);
        struct sr_capture_options options = {.keep_bytes = 4096, .kill_bytes = 1 << 20, .stdin_fd = -1};
        struct sr_capture capture;
        _cleanup_buf_ struct sr_buf text = {0};

        (void)state;
        assert_non_null(mkdtemp(directory));
        spec.directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(spec.directory_fd >= 0);
        if (geteuid() == 0)
                assert_int_equal(fchown(spec.directory_fd, ROOT_ID_BASE, ROOT_ID_BASE), 0);
        assert_int_equal(sr_sandbox_open(spawner, &sandbox, NULL), 0);
        assert_int_equal(sr_capture_run(sandbox, &spec, &options, &capture, NULL), 0);
        assert_int_not_equal(capture.outcome.wait_status, 0);
        assert_non_null(strstr(capture.err.kept.data, "Read-only file system"));
        assert_int_equal(sr_fd_read_file(spec.directory_fd, "file", 100, &text), 0);
        assert_string_equal(text.data, "made\n");
        unlinkat(spec.directory_fd, "file", 0);
        sr_fd_close(spec.directory_fd);
        rmdir(directory);
        sr_capture_clear(&capture);
        sandbox = sr_sandbox_close(sandbox);
        sr_spawner_stop(spawner);
}

static void a_deadline_ends_the_whole_tree(void **state)
{
        struct sr_spawner *spawner = start();
        _cleanup_sandbox_ struct sr_sandbox *sandbox = NULL;
        const char *arguments[] = {"sh", "-c", "echo begun; (setsid sleep 60 &) ; sleep 60", NULL};
        struct sr_sandbox_spec spec = host_spec(arguments);
        struct sr_capture_options options = {.keep_bytes = 4096, .kill_bytes = 1 << 20, .stdin_fd = -1};
        struct sr_capture capture;

        (void)state;
        spec.timeout_ns = 300000000u;
        assert_int_equal(sr_sandbox_open(spawner, &sandbox, NULL), 0);
        assert_int_equal(sr_capture_run(sandbox, &spec, &options, &capture, NULL), 0);
        assert_int_equal(capture.outcome.end, SR_SANDBOX_TIMEOUT);
        assert_string_equal(capture.out.kept.data, "begun\n");
        sr_capture_clear(&capture);
        sandbox = sr_sandbox_close(sandbox);
        sr_spawner_stop(spawner);
}

static void a_program_that_is_not_there_is_an_image_error(void **state)
{
        struct sr_spawner *spawner = start();
        _cleanup_sandbox_ struct sr_sandbox *sandbox = NULL;
        _cleanup_error_ struct sr_error *error = NULL;
        const char *arguments[] = {"no-such-program", NULL};
        struct sr_sandbox_spec spec = host_spec(arguments);
        struct sr_capture_options options = {.keep_bytes = 4096, .kill_bytes = 1 << 20, .stdin_fd = -1};
        struct sr_capture capture;

        (void)state;
        assert_int_equal(sr_sandbox_open(spawner, &sandbox, NULL), 0);
        assert_int_equal(sr_capture_run(sandbox, &spec, &options, &capture, &error), -ENOENT);
        assert_int_equal(sr_error_get_kind(error), SR_ERROR_IMAGE);
        assert_non_null(strstr(sr_error_message(error), "executing the program"));
        sr_capture_clear(&capture);
        sandbox = sr_sandbox_close(sandbox);
        sr_spawner_stop(spawner);
}

// A run's socket, the spawner's end passed over.
static int open_raw(const struct sr_spawner_process *process)
{
        const struct sr_wire_head open = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_OPEN};
        int sockets[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
        assert_int_equal(sr_message_send(process->control, &open, sizeof(open), &sockets[1], 1), 0);
        close(sockets[1]);
        return sockets[0];
}

struct attack {
        const char *name;
        void (*spoil)(struct sr_wire_stage *stage, size_t *size, size_t *descriptors);
};

static void spoil_chain(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->root = SR_WIRE_ROOT_TREE;
        memcpy(stage->chain_id, "../../../../../../../../../../../../../../../../../../../../etc/", 64);
}

static void spoil_store(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->store = 4096;
}

static void spoil_root(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->root = 7;
}

static void spoil_strings(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->argument_count = 900;
}

static void spoil_counts(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->argument_count = UINT32_MAX;
        stage->environment_count = 3;
}

static void spoil_length(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->strings_length = UINT32_MAX;
}

static void spoil_nul(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->strings[stage->strings_length - 1] = 'x';
}

static void spoil_size(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)stage, (void)descriptors;
        *size = sizeof(struct sr_wire_head);
}

static void spoil_descriptors(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)stage, (void)size;
        *descriptors = 1;
}

static void spoil_flags(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->descriptors = ~0u;
}

static void spoil_deadline(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->timeout_ns = UINT64_MAX;
}

static void spoil_scratch(struct sr_wire_stage *stage, size_t *size, size_t *descriptors)
{
        (void)size, (void)descriptors;
        stage->scratch = SR_WIRE_SCRATCH_WRITE; // never made
}

static void hostile_requests_are_refused_and_survived(void **state)
{
        static const struct attack attacks[] = {
                {"chain id", spoil_chain},   {"store", spoil_store},     {"root", spoil_root},
                {"strings", spoil_strings},  {"counts", spoil_counts},   {"length", spoil_length},
                {"no final NUL", spoil_nul}, {"size", spoil_size},       {"descriptors", spoil_descriptors},
                {"flags", spoil_flags},      {"scratch", spoil_scratch}, {"deadline", spoil_deadline},
        };
        static const char strings[] = "true\0PATH=/usr/bin:/bin";
        struct sr_spawner_process process;

        (void)state;
        assert_int_equal(
                sr_spawner_process_start(getenv("SR_TEST_SPAWNER"), no_roots, ROOT_ID_BASE, &process, NULL),
                0);
        for (size_t i = 0; i <= sizeof(attacks) / sizeof(*attacks); i++) {
                _cleanup_close_ int run = open_raw(&process), null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
                _cleanup_free_ struct sr_wire_stage *stage = sr_calloc(1, sizeof(*stage) + sizeof(strings));
                struct sr_wire_outcome outcome = {0};
                int outputs[] = {null_fd, null_fd}, descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
                size_t size = sizeof(*stage) + sizeof(strings), count = 2, received = 0;

                *stage = (struct sr_wire_stage){
                        .head = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_STAGE},
                        .root = SR_WIRE_ROOT_HOST,
                        .timeout_ns = 5000000000u,
                        .tmp_bytes = 4096,
                        .tmp_inodes = 10,
                        .open_files = 64,
                        .processes = 32,
                        .cpu_millis = 1000,
                        .argument_count = 1,
                        .environment_count = 1,
                        .strings_length = sizeof(strings),
                };
                memcpy(stage->strings, strings, sizeof(strings));
                bool spoilt = i < sizeof(attacks) / sizeof(*attacks);
                if (spoilt) {
                        print_message("  %s\n", attacks[i].name);
                        attacks[i].spoil(stage, &size, &count);
                }
                assert_int_equal(sr_message_send(run, stage, size, outputs, count), 0);
                assert_int_equal(sr_message_receive(run, &outcome, sizeof(outcome), descriptors, &received),
                                 sizeof(outcome));
                // The last round is a sound request: it must still work after all that.
                assert_int_equal(outcome.end, spoilt ? SR_WIRE_END_FAILED : SR_WIRE_END_EXITED);
        }
        sr_spawner_process_stop(&process);
}

static void an_unknown_message_closes_the_run(void **state)
{
        struct sr_spawner_process process;
        struct sr_wire_head nonsense = {.version = 99, .kind = 1234};
        char byte;

        (void)state;
        assert_int_equal(
                sr_spawner_process_start(getenv("SR_TEST_SPAWNER"), no_roots, ROOT_ID_BASE, &process, NULL),
                0);
        _cleanup_close_ int run = open_raw(&process);
        assert_int_equal(sr_message_send(run, &nonsense, sizeof(nonsense), NULL, 0), 0);
        assert_int_equal(recv(run, &byte, 1, 0), 0);
        sr_spawner_process_stop(&process);
}

static void a_killed_spawner_is_replaced(void **state)
{
        struct sr_spawner *spawner = start();
        struct sr_capture capture;
        struct sr_error *error = NULL;

        (void)state;
        assert_int_equal(run_shell(spawner, "exit 0", &capture, NULL), 0);
        sr_capture_clear(&capture);
        // The spawner is this process's only child.
        _cleanup_buf_ struct sr_buf children = {0};
        _cleanup_free_ char *path = sr_asprintf("/proc/self/task/%d/children", getpid());
        assert_int_equal(sr_fd_read_file(AT_FDCWD, path, 4096, &children), 0);
        assert_int_equal(kill((pid_t)atoi(children.data), SIGKILL), 0);
        int r = run_shell(spawner, "exit 5", &capture, &error);
        if (r == -EPIPE) {
                // It died between being passed the run and starting it: that run is lost, the next is not.
                error = sr_error_free(error);
                sr_capture_clear(&capture);
                r = run_shell(spawner, "exit 5", &capture, &error);
        }
        assert_int_equal(r, 0);
        assert_int_equal(WEXITSTATUS(capture.outcome.wait_status), 5);
        sr_capture_clear(&capture);
        sr_spawner_stop(spawner);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_program_of_the_host_runs_and_sees_little_of_it),
                cmocka_unit_test(every_tmpfs_is_bounded_and_without_devices_programs_or_set_ids),
                cmocka_unit_test(a_job_writes_into_its_directory_and_nowhere_else),
                cmocka_unit_test(a_deadline_ends_the_whole_tree),
                cmocka_unit_test(a_program_that_is_not_there_is_an_image_error),
                cmocka_unit_test(hostile_requests_are_refused_and_survived),
                cmocka_unit_test(an_unknown_message_closes_the_run),
                cmocka_unit_test(a_killed_spawner_is_replaced),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
