// escape-driver [option…] [NAME…]: makes attempts in sandboxes (see escape.h), all of them when none is
// named.
//
//   --store DIRECTORY --tree CHAIN-ID   the root file system: a tree of an image (default: the host's
//   programs)
//   --spawner FILE, --program FILE      default: as they lie beside this program, or in the build tree
//
// Prints a line for each: name, verdict (held, open, undecided), what happened, separated by tabs. Exit code:
// 0 when all held, 1 when one was open, 2 when one could not be decided, or after a sentence on stderr.
//
// Each attempt is made by /scratch/escape, as a compiled program would be: the bytes are written into
// /scratch from here, a first stage makes them executable, and the next one runs them. All sandboxes come
// from one spawner, so that a later one takes the place of an earlier.
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "host.h"
#include "run/capture.h"
#include "sandbox/sandbox.h"

#define ROOT_ID_BASE    2069692416u
#define SECONDS         ((uint64_t)1000000000)
#define PROGRAM_MAX     ((size_t)16 << 20)
#define SECONDS_TO_LIVE 150 // for one attempt; past it the host itself has been held up

enum verdict { HELD, OPEN, UNDECIDED };
static const char *const verdict_names[] = {"held", "open", "undecided"};

struct driver {
        struct sr_spawner *spawner;
        struct host host;
        const char *chain_id; // NULL: the host's own directories
        int program_fd;
        struct sr_buf program;
        struct sr_sandbox *armed; // for attempts that need no /scratch of their own; NULL: not made yet
};

struct result {
        enum verdict verdict;
        char said[512];
};

__attribute__((format(printf, 3, 4))) static void say(struct result *result, enum verdict verdict,
                                                      const char *format, ...)
{
        va_list arguments;

        result->verdict = verdict;
        va_start(arguments, format);
        vsnprintf(result->said, sizeof(result->said), format, arguments);
        va_end(arguments);
}

static void say_error(struct result *result, struct sr_error *error)
{
        say(result, UNDECIDED, "%s", sr_error_message(error));
        sr_error_free(error);
}

// The limits are those that a run has by default.
static struct sr_sandbox_spec make_spec(const struct driver *driver, const char *const *arguments,
                                        enum sr_sandbox_scratch scratch)
{
        return (struct sr_sandbox_spec){
                .root = driver->chain_id != NULL ? SR_SANDBOX_ROOT_TREE : SR_SANDBOX_ROOT_HOST,
                .chain_id = driver->chain_id,
                .arguments = (char *const *)(uintptr_t)arguments,
                .environment = driver->host.environment,
                .scratch = scratch,
                .in_scratch = scratch == SR_SANDBOX_SCRATCH_WRITE,
                .timeout_ns = 30 * SECONDS,
                .tmp_bytes = 64 << 20,
                .tmp_inodes = 16384,
                .file_bytes = 64 << 20,
                .open_files = 256,
                .memory_bytes = 256 << 20,
                .cpu_millis = 500,
                .processes = 64,
                .program_fd = -1,
                .directory_fd = -1,
        };
}

// Runs a stage to its end. false after saying why it could not be.
static bool run_stage(struct sr_sandbox *sandbox, const struct sr_sandbox_spec *spec, struct sr_capture *ret,
                      struct result *result)
{
        struct sr_capture_options options = {.keep_bytes = 4096, .kill_bytes = 1 << 20, .stdin_fd = -1};
        struct sr_error *error = NULL;

        if (sr_capture_run(sandbox, spec, &options, ret, &error) < 0) {
                say_error(result, error);
                return false;
        }
        return true;
}

// What an attempt printed after its name, and the verdict its exit code is.
static void judge(const struct sr_capture *capture, const char *name, struct result *result)
{
        const char *text = capture->out.kept.data != NULL ? capture->out.kept.data : "";
        int status = capture->outcome.wait_status;
        size_t length = strlen(name);

        if (capture->outcome.end != SR_SANDBOX_EXITED)
                say(result, UNDECIDED, "the sandbox was ended (%d)", (int)capture->outcome.end);
        else if (WIFSIGNALED(status))
                say(result, UNDECIDED, "ended by signal %d", WTERMSIG(status));
        else if (strncmp(text, name, length) != 0 || text[length] != '\t' || WEXITSTATUS(status) > UNDECIDED)
                say(result, UNDECIDED, "exit code %d, and no report; it wrote: %.200s", WEXITSTATUS(status),
                    capture->err.kept.data != NULL ? capture->err.kept.data : "nothing");
        else
                say(result, (enum verdict)WEXITSTATUS(status), "%.*s", (int)strcspn(text + length + 1, "\n"),
                    text + length + 1);
}

// A sandbox with an executable /scratch/escape. NULL after saying why not.
static struct sr_sandbox *open_armed(const struct driver *driver, struct result *result)
{
        const char *const arguments[] = {"escape", "--arm", NULL};
        struct sr_sandbox_spec spec = make_spec(driver, arguments, SR_SANDBOX_SCRATCH_WRITE);
        struct sr_sandbox *sandbox = NULL;
        struct sr_error *error = NULL;
        struct sr_capture capture = {0};

        int r = sr_sandbox_open(driver->spawner, &sandbox, &error);
        if (r == 0)
                r = sr_sandbox_make_scratch(sandbox, 64 << 20, 16384, &error);
        if (r == 0)
                r = sr_sandbox_write_file(sandbox, "escape", driver->program.data, driver->program.len,
                                          &error);
        spec.program_fd = driver->program_fd;
        if (r < 0)
                say_error(result, error);
        else if (run_stage(sandbox, &spec, &capture, result)) {
                if (capture.outcome.end == SR_SANDBOX_EXITED && capture.outcome.wait_status == 0)
                        result->verdict = HELD;
                else
                        say(result, UNDECIDED, "/scratch/escape could not be made executable: %s",
                            capture.err.kept.data != NULL ? capture.err.kept.data : "");
                r = result->verdict == HELD ? 0 : -1;
        } else {
                r = -1;
        }
        sr_capture_clear(&capture);
        return r < 0 ? sr_sandbox_close(sandbox) : sandbox;
}

// Runs one half of an attempt in a sandbox that is armed. second: the half that decides.
static bool run_half(const struct driver *driver, struct sr_sandbox *sandbox, const char *name, bool second,
                     enum sr_sandbox_scratch scratch, struct result *result)
{
        const char *const arguments[] = {"/scratch/escape", name, second ? NULL : "first", NULL};
        struct sr_sandbox_spec spec = make_spec(driver, arguments, scratch);
        struct sr_capture capture = {0};
        bool ran = run_stage(sandbox, &spec, &capture, result);

        if (ran && second)
                judge(&capture, name, result);
        else if (ran && (capture.outcome.end != SR_SANDBOX_EXITED || capture.outcome.wait_status != 0)) {
                judge(&capture, name, result);
                result->verdict = UNDECIDED;
                ran = false;
        }
        sr_capture_clear(&capture);
        return ran;
}

static void attempt_in_new(const struct driver *driver, const char *name, struct result *result)
{
        _cleanup_sandbox_ struct sr_sandbox *sandbox = open_armed(driver, result);

        if (sandbox != NULL)
                run_half(driver, sandbox, name, true, SR_SANDBOX_SCRATCH_WRITE, result);
}

static void attempt_alone(struct driver *driver, const char *name, bool sealed, struct result *result)
{
        if (driver->armed == NULL)
                driver->armed = open_armed(driver, result);
        if (driver->armed != NULL &&
            !run_half(driver, driver->armed, name, true,
                      sealed ? SR_SANDBOX_SCRATCH_READ : SR_SANDBOX_SCRATCH_WRITE, result))
                driver->armed = sr_sandbox_close(driver->armed); // the spawner may have died of it
}

static void attempt_sequel(const struct driver *driver, const char *name, struct result *result)
{
        struct sr_sandbox *sandbox = open_armed(driver, result);
        bool ready =
                sandbox != NULL && run_half(driver, sandbox, name, false, SR_SANDBOX_SCRATCH_WRITE, result);

        sr_sandbox_close(sandbox);
        if (ready)
                attempt_in_new(driver, name, result);
}

// Waits until the first half of a pair says that it is ready.
static bool wait_until_ready(int fd, struct result *result)
{
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        char text[256] = "";
        ssize_t n = poll(&polled, 1, 10000) == 1 ? read(fd, text, sizeof(text) - 1) : 0;

        if (n > 0 && strncmp(text, "ready\n", 6) == 0)
                return true;
        say(result, UNDECIDED, "the first half did not get ready: %s", text);
        return false;
}

static void attempt_pair(const struct driver *driver, const char *name, struct result *result)
{
        _cleanup_sandbox_ struct sr_sandbox *partner = open_armed(driver, result);
        const char *const arguments[] = {"/scratch/escape", name, "first", NULL};
        struct sr_sandbox_spec spec = make_spec(driver, arguments, SR_SANDBOX_SCRATCH_WRITE);
        struct sr_sandbox_outcome outcome;
        struct sr_error *error = NULL;
        int ends[2];

        if (partner == NULL)
                return;
        if (pipe2(ends, O_CLOEXEC) < 0) {
                say(result, UNDECIDED, "making a pipe: %s", strerror(errno));
                return;
        }
        _cleanup_close_ int from = ends[0];
        struct sr_sandbox_streams streams = {.stdin_fd = -1, .stdout_fd = ends[1], .stderr_fd = ends[1]};
        spec.timeout_ns = 60 * SECONDS; // it ends when it is killed
        int r = sr_sandbox_start(partner, &spec, &streams, &error);
        close(ends[1]);
        if (r < 0) {
                say_error(result, error);
                return;
        }
        if (wait_until_ready(from, result))
                attempt_in_new(driver, name, result);
        // It must still be there: nothing but the next line ends it.
        struct pollfd polled = {.fd = sr_sandbox_poll_fd(partner), .events = POLLIN};
        bool survived = poll(&polled, 1, 0) == 0;
        sr_sandbox_kill(partner);
        if (sr_sandbox_finish(partner, &outcome, &error) < 0)
                say_error(result, error);
        else if (!survived && result->verdict == HELD)
                say(result, OPEN, "the other sandbox was ended");
}

// The host's turn between the stages: what it does to /scratch for every run must not be led astray.
static void attempt_plant(const struct driver *driver, const char *name, struct result *result)
{
        _cleanup_sandbox_ struct sr_sandbox *sandbox = open_armed(driver, result);
        const char *const arguments[] = {"/scratch/planted", NULL};
        struct sr_sandbox_spec spec = make_spec(driver, arguments, SR_SANDBOX_SCRATCH_READ);
        struct sr_capture capture = {0};

        if (sandbox == NULL || !run_half(driver, sandbox, name, false, SR_SANDBOX_SCRATCH_WRITE, result))
                return;
        if (sr_sandbox_write_file(sandbox, "planted", "written by the host\n", 20, NULL) == 0) {
                say(result, OPEN, "the host wrote there");
                return;
        }
        bool ran = run_stage(sandbox, &spec, &capture, result);
        if (ran && (capture.outcome.end != SR_SANDBOX_EXITED || capture.outcome.wait_status == 0)) {
                say(result, OPEN, "it was run: %.100s",
                    capture.out.kept.data != NULL ? capture.out.kept.data : "");
        } else {
                run_half(driver, sandbox, name, true, SR_SANDBOX_SCRATCH_READ, result);
        }
        sr_capture_clear(&capture);
}

static void attempt_job(const struct driver *driver, const char *name, struct result *result)
{
        _cleanup_sandbox_ struct sr_sandbox *sandbox = NULL;
        _cleanup_free_ char *path = sr_asprintf("%s/job", driver->host.directory);
        _cleanup_close_ int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const char *const arguments[] = {"escape", name, NULL};
        struct sr_sandbox_spec spec = make_spec(driver, arguments, SR_SANDBOX_SCRATCH_NONE);
        struct sr_capture capture = {0};
        struct sr_error *error = NULL;

        spec.root = SR_SANDBOX_ROOT_HOST;
        spec.program_fd = driver->program_fd;
        spec.directory_fd = directory;
        int r = sr_spawner_give_directory(driver->spawner, directory, &error);
        if (r == 0)
                r = sr_sandbox_open(driver->spawner, &sandbox, &error);
        if (r < 0)
                say_error(result, error);
        else if (run_stage(sandbox, &spec, &capture, result))
                judge(&capture, name, result);
        sr_capture_clear(&capture);
}

static enum verdict attempt(struct driver *driver, const char *name, const char *kind)
{
        struct result result = {.verdict = UNDECIDED};

        // Whatever holds the host up for ever is a hole as well; the signal's default ends us.
        alarm(SECONDS_TO_LIVE);
        if (strcmp(kind, "alone") == 0 || strcmp(kind, "sealed") == 0)
                attempt_alone(driver, name, strcmp(kind, "sealed") == 0, &result);
        else if (strcmp(kind, "pair") == 0)
                attempt_pair(driver, name, &result);
        else if (strcmp(kind, "sequel") == 0)
                attempt_sequel(driver, name, &result);
        else if (strcmp(kind, "plant") == 0)
                attempt_plant(driver, name, &result);
        else if (strcmp(kind, "job") == 0)
                attempt_job(driver, name, &result);
        else
                say(&result, UNDECIDED, "unknown kind %s", kind);
        alarm(0);

        const char *damage = host_damage(&driver->host);
        if (damage != NULL)
                say(&result, OPEN, "%s", damage);
        printf("%s\t%s\t%s\n", name, verdict_names[result.verdict], result.said);
        fflush(stdout);
        return result.verdict;
}

// 0, the command's exit code, or 1 when the host was reached meanwhile.
static int run_command(const struct host *host, char **command)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                for (char **entry = host->environment; *entry != NULL; entry++)
                        putenv(*entry);
                execvp(command[0], command);
                _exit(127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return UNDECIDED;

        const char *damage = host_damage(host);
        if (damage != NULL)
                fprintf(stderr, "escape-driver: %s\n", damage);
        return damage != NULL ? OPEN : WIFEXITED(status) ? WEXITSTATUS(status) : UNDECIDED;
}

static bool is_wanted(const char *name, char **names)
{
        if (*names == NULL)
                return true;
        for (; *names != NULL; names++)
                if (strcmp(*names, name) == 0)
                        return true;
        return false;
}

// Goes by what the program itself lists.
static int attempt_all(struct driver *driver, const char *program, char **names)
{
        _cleanup_free_ char *command = sr_asprintf("exec '%s' --list", program);
        FILE *list = popen(command, "re");
        char line[512];
        int made = 0;
        bool open = false, undecided = false;

        while (list != NULL && fgets(line, sizeof(line), list) != NULL) {
                char *rest = line, *name = strsep(&rest, "\t"), *kind = strsep(&rest, "\t");

                if (kind == NULL || !is_wanted(name, names))
                        continue;
                enum verdict verdict = attempt(driver, name, kind);
                open = open || verdict == OPEN;
                undecided = undecided || verdict == UNDECIDED;
                made++;
        }
        if (list == NULL || pclose(list) != 0 || made == 0) {
                fprintf(stderr, "escape-driver: %s lists no such attempt\n", program);
                return UNDECIDED;
        }
        return open ? OPEN : undecided ? UNDECIDED : HELD;
}

// A program in the directory of this one, or where the build leaves it.
static char *find_program(const char *name, const char *above)
{
        char here[PATH_MAX];
        ssize_t length = readlink("/proc/self/exe", here, sizeof(here) - 1);

        here[length > 0 ? length : 0] = '\0';
        *strrchr(here, '/') = '\0';
        char *path = sr_asprintf("%s/%s", here, name);
        if (access(path, X_OK) == 0)
                return path;
        free(path);
        return sr_asprintf("%s/%s%s", here, above, name);
}

static int start(struct driver *driver, const char *spawner, const char *store, const char *program)
{
        char *roots[] = {(char *)(uintptr_t)store, NULL};
        struct sr_error *error = NULL;

        driver->program_fd = open(program, O_RDONLY | O_CLOEXEC);
        if (driver->program_fd < 0 || sr_fd_read_file(AT_FDCWD, program, PROGRAM_MAX, &driver->program) < 0) {
                fprintf(stderr, "escape-driver: %s cannot be read\n", program);
                return -1;
        }
        if (host_make(&driver->host) < 0)
                return -1;
        if (sr_spawner_start(&(struct sr_spawner_options){.program = spawner,
                                                          .tree_roots = roots,
                                                          .root_id_base = ROOT_ID_BASE},
                             &driver->spawner, &error) < 0) {
                fprintf(stderr, "escape-driver: %s\n", sr_error_message(error));
                sr_error_free(error);
                return -1;
        }
        return 0;
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                {"store", required_argument, NULL, 's'},   {"tree", required_argument, NULL, 't'},
                {"spawner", required_argument, NULL, 'p'}, {"program", required_argument, NULL, 'e'},
                {"host", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
        };
        struct driver driver = {
                .program_fd = -1,
                .host = {.port_listener = -1, .abstract_listener = -1, .path_listener = -1, .segment = -1}};
        _cleanup_free_ char *spawner = find_program("sandbox-runner-spawner", "../../");
        _cleanup_free_ char *program = find_program("escape", "");
        const char *store = NULL;
        int option, result = UNDECIDED;
        bool on_host = false;

        while ((option = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
                char **text = option == 'p' ? &spawner : &program;

                if (option == 's')
                        store = optarg;
                else if (option == 't')
                        driver.chain_id = optarg;
                else if (option == 'h')
                        on_host = true;
                else if (option == '?')
                        return UNDECIDED;
                if (option == 'p' || option == 'e') {
                        free(*text);
                        *text = sr_strdup(optarg);
                }
        }
        if ((store == NULL) != (driver.chain_id == NULL)) {
                fputs("escape-driver: --store and --tree go together\n", stderr);
                return UNDECIDED;
        }
        signal(SIGPIPE, SIG_IGN);
        if (on_host) {
                result = host_make(&driver.host) < 0 || argv[optind] == NULL
                                 ? UNDECIDED
                                 : run_command(&driver.host, argv + optind);
                host_free(&driver.host);
                return result;
        }
        if (start(&driver, spawner, store, program) == 0)
                result = attempt_all(&driver, program, argv + optind);
        sr_sandbox_close(driver.armed);
        sr_spawner_stop(driver.spawner);
        host_free(&driver.host);
        sr_fd_close(driver.program_fd);
        sr_buf_clear(&driver.program);
        return result;
}
