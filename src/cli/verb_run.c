// `run`: one snippet, with the manners of an ordinary command. In text mode the program's output passes
// through as it comes and its exit status becomes ours; what we have to say ourselves goes to stderr.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/control.h"
#include "cli/interrupt.h"
#include "cli/run_explain.h"
#include "language/language.h"
#include "run/run.h"

enum {
        OPTION_JSON = 256,
        OPTION_STDIN,
        OPTION_IMAGE,
        OPTION_MEMORY,
        OPTION_CPUS,
        OPTION_PIDS,
        OPTION_STRICT,
};

static const struct sr_option options[] = {
        {'l', "language", "LANG", "language of the snippet; else told by the file name"},
        {'t', "timeout", "SECONDS", "time limit of the run (run.timeout, run.max_timeout)"},
        {'c', "code", "CODE", "the snippet itself, in place of a file"},
        {OPTION_STDIN, "stdin", "FILE", "standard input of the program; - for ours; else empty"},
        {OPTION_IMAGE, "image", "REF", "run in this image, not the language's own"},
        {OPTION_MEMORY, "memory", "SIZE", "memory limit, as 512m (run.memory, run.max_memory)"},
        {OPTION_CPUS, "cpus", "N", "processor limit, as 0.5 (run.cpus, run.max_cpus)"},
        {OPTION_PIDS, "pids", "N", "limit of processes and threads (run.pids, run.max_pids)"},
        {OPTION_STRICT, "strict-limits", NULL, "refuse where a limit has no cgroup (sandbox.strict_limits)"},
        {OPTION_JSON, "json", NULL, "print the result as JSON and exit with 0"},
        {0},
};

struct run_arguments {
        const char *language;
        int64_t timeout_s;                       // 0: the default
        uint64_t memory_bytes, cpu_millis, pids; // 0: not given
        const char *code;
        const char *file; // "-" is our standard input
        const char *stdin_path;
        const char *image;
        bool json;
        char *const *program_arguments;
};

// What the output callback needs to know.
struct passage {
        struct sr_run_cancel *cancel; // fired by a signal and by `stop`
        struct sr_late_control control;
        int error;    // positive errno of the write that failed, 0 when none has
        int error_fd; // the stream it was
};

static int take_option(struct sr_cli *cli, struct run_arguments *a, struct sr_error **error)
{
        const char *value = cli->scan.value;

        switch (cli->scan.option->id) {
        case 'l':
                a->language = value;
                return 0;
        case 't':
                return sr_option_integer("--timeout", value, 1, INT32_MAX, &a->timeout_s, error);
        case 'c':
                if (a->code != NULL || a->file != NULL)
                        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                            "one snippet at a time: a file, - or -c CODE");
                a->code = value;
                return 0;
        case OPTION_STDIN:
                a->stdin_path = value;
                return 0;
        case OPTION_IMAGE:
                a->image = value;
                return 0;
        case OPTION_MEMORY:
                return sr_option_limit("--memory", "run.memory", value, &a->memory_bytes, error);
        case OPTION_CPUS:
                return sr_option_limit("--cpus", "run.cpus", value, &a->cpu_millis, error);
        case OPTION_PIDS:
                return sr_option_limit("--pids", "run.pids", value, &a->pids, error);
        case OPTION_STRICT:
                sr_strv_append(&cli->flags, sr_strdup(SR_CLI_STRICT_LIMITS));
                return 0;
        default:
                a->json = true;
                return 0;
        }
}

// The first word is the file; what follows "--" after that belongs to the program. Returns whether the rest
// of the command line is the program's.
static int take_word(struct sr_cli *cli, struct run_arguments *a, struct sr_error **error)
{
        bool have_snippet = a->code != NULL || a->file != NULL;

        if (!have_snippet) {
                a->file = cli->scan.value;
                return 0;
        }
        if (!cli->scan.after_dashes)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "unexpected argument \"%s\": arguments of the program come after --",
                                    cli->scan.value);
        a->program_arguments = cli->scan.next - 1;
        return 1;
}

static bool read_arguments(struct sr_cli *cli, char *const *arguments, struct run_arguments *a)
{
        sr_cli_scan(cli, arguments);
        for (int r = 0; r == 0;) {
                _cleanup_error_ struct sr_error *error = NULL;
                enum sr_cli_item item = sr_cli_next(cli);

                if (item == SR_CLI_STOP)
                        return false;
                if (item == SR_CLI_END)
                        break;
                r = item == SR_CLI_OPTION ? take_option(cli, a, &error) : take_word(cli, a, &error);
                if (r < 0) {
                        cli->status = sr_cli_usage(cli, "%s", sr_error_message(error));
                        return false;
                }
        }

        const char *wrong = NULL;

        if (a->code == NULL && a->file == NULL)
                wrong = "what to run? A file, - for standard input, or -c CODE";
        else if (a->language == NULL && (a->code != NULL || strcmp(a->file, "-") == 0))
                wrong = "which language? Say it with -l";
        else if (a->stdin_path != NULL && strcmp(a->stdin_path, "-") == 0 && a->file != NULL &&
                 strcmp(a->file, "-") == 0)
                wrong = "standard input can be the snippet or the program's input, not both";
        if (wrong != NULL)
                cli->status = sr_cli_usage(cli, "%s", wrong);
        return wrong == NULL;
}

// -EFBIG when there is more than the limit, which is all that is read.
static int read_code(const struct run_arguments *a, uint64_t limit, struct sr_buf *code,
                     struct sr_error **error)
{
        bool from_stdin = a->file != NULL && strcmp(a->file, "-") == 0;
        int r = 0;

        if (a->code != NULL)
                sr_buf_append_text(code, a->code);
        else if (from_stdin)
                r = sr_fd_read_all(STDIN_FILENO, limit, code);
        else
                r = sr_fd_read_file(AT_FDCWD, a->file, limit, code);
        if (r == -EFBIG)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EFBIG,
                                    "%s is longer than the %llu bytes that a snippet may have (run.max_code)",
                                    from_stdin ? "standard input" : a->file, (unsigned long long)limit);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, -r, "cannot read %s: %s",
                                    from_stdin ? "standard input" : a->file, strerror(-r));
        return 0;
}

// A descriptor to read the program's input from, -1 for none. Our own standard input is not copied.
static int open_input(const char *path, int *ret, struct sr_error **error)
{
        struct stat found;
        int fd;

        if (path == NULL)
                return 0;
        fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                    : open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, errno, "cannot read %s: %s", path,
                                    strerror(errno));
        if (fstat(fd, &found) == 0 && S_ISDIR(found.st_mode)) {
                sr_fd_close(fd);
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EISDIR, "cannot read %s: %s", path,
                                    strerror(EISDIR));
        }
        *ret = fd;
        return 0;
}

// Writes while nobody interrupts: a reader that has stopped reading must not keep Ctrl-C or `stop` from
// working. At most PIPE_BUF bytes go out at a time, which a pipe that polls as writable takes without
// blocking (pipe(7)).
static int write_unless_woken(struct passage *passage, int fd, const char *bytes, size_t length)
{
        while (length > 0) {
                struct pollfd wait[] = {{.fd = fd, .events = POLLOUT},
                                        {.fd = sr_run_cancel_fd(passage->cancel), .events = POLLIN}};
                int ready = poll(wait, 2, sr_late_control_check(&passage->control));

                if (ready < 0 && errno != EINTR)
                        return -errno;
                if (ready <= 0)
                        continue;
                if (wait[1].revents != 0)
                        return -EINTR;

                ssize_t n = write(fd, bytes, length < PIPE_BUF ? length : PIPE_BUF);

                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return -errno;
                if (n > 0) {
                        bytes += n;
                        length -= (size_t)n;
                }
        }
        return 0;
}

static void pass_output(void *context, int stream, const char *bytes, size_t length)
{
        struct passage *passage = context;

        if (passage->error != 0)
                return;

        int r = write_unless_woken(passage, stream == 2 ? STDERR_FILENO : STDOUT_FILENO, bytes, length);

        if (r == 0)
                return;
        passage->error = -r;
        passage->error_fd = stream;
        sr_run_cancel_fire(passage->cancel);
}

// Somebody else ended it.
static bool was_stopped(const struct sr_run_result *result, const struct passage *passage)
{
        return result->reason == SR_REASON_CANCELLED && sr_interrupt_signal() == 0 &&
               (passage->error == 0 || passage->error == EINTR);
}

static bool ended_compiling(const struct sr_run_result *result)
{
        return result->stage_count == 1 && strcmp(result->stages[0].name, "compile") == 0;
}

// What a compiler says does not come through the callback. Some say it on their standard output; none of it
// is output of the program. Our own verdict is left to sr_run_explain().
static void pass_diagnostics(const struct sr_run_result *result, struct passage *passage)
{
        pass_output(passage, 2, result->out, result->out_length);
        pass_output(passage, 2, result->err + result->verdict_length,
                    result->err_length - result->verdict_length);
}

static int exit_status(struct sr_cli *cli, const struct sr_run_result *result, struct passage *passage)
{
        // A signal that came after the program's end, while its output was passed on, counts too.
        if (sr_interrupt_signal() != 0 && (result->reason == SR_REASON_CANCELLED || passage->error == EINTR))
                return SR_EXIT_SIGNAL + sr_interrupt_signal();
        if (was_stopped(result, passage))
                return SR_EXIT_SIGNAL + SIGTERM;
        if (passage->error == EPIPE)
                return SR_EXIT_SIGNAL + SIGPIPE;
        if (passage->error != 0)
                return sr_cli_fail(cli, "cannot write to standard %s: %s",
                                   passage->error_fd == 2 ? "error" : "output", strerror(passage->error));
        if (result->status == SR_RUN_TIMEOUT)
                return SR_EXIT_RUN_TIMEOUT;
        return result->has_exit_code ? result->exit_code : SR_EXIT_RUN_TROUBLE;
}

static int print_json(struct sr_cli *cli, const struct sr_run_result *result)
{
        _cleanup_buf_ struct sr_buf text = {0};
        struct sr_json_writer w = {.out = &text, .indent = 2, .first = true};
        int status;

        sr_run_result_write(result, &w, NULL);
        sr_buf_append_char(&text, '\n');
        status = sr_cli_print(cli, &text);
        if (status == SR_EXIT_OK && sr_interrupt_signal() != 0 && result->reason == SR_REASON_CANCELLED)
                status = SR_EXIT_SIGNAL + sr_interrupt_signal();
        return status;
}

// language may be NULL where the result is a refusal.
static int report(struct sr_cli *cli, const struct run_arguments *a, const struct sr_config *config,
                  const struct sr_language *language, const struct sr_run_result *result,
                  struct passage *passage)
{
        if (result->history_problem != NULL)
                sr_cli_say("warning: %s", result->history_problem);
        if (a->json)
                return print_json(cli, result);
        if (!result->accepted || result->reason == SR_REASON_INTERNAL)
                return sr_cli_fail(cli, "%s", result->problem); // what err begins with has passed through
        if (was_stopped(result, passage)) {
                sr_cli_say("the program was ended with `sandbox-runner stop`");
                return exit_status(cli, result, passage);
        }
        if (ended_compiling(result))
                pass_diagnostics(result, passage);
        if (passage->error == 0)
                sr_run_explain(result, config, language);
        return exit_status(cli, result, passage);
}

// A run that cannot be: one sentence, or with --json a result like any other refusal's.
static int refuse(struct sr_cli *cli, const struct run_arguments *a, const char *language,
                  enum sr_run_reason reason, const char *message)
{
        _cleanup_result_ struct sr_run_result *result = NULL;

        if (!a->json)
                return sr_cli_fail(cli, "%s", message);
        result = sr_run_result_new_refused(language, reason, message);
        return print_json(cli, result);
}

static int refuse_unknown(struct sr_cli *cli, const struct run_arguments *a)
{
        _cleanup_free_ char *message =
                sr_asprintf("the name of %s does not tell its language; say it with -l", a->file);

        return refuse(cli, a, NULL, SR_REASON_REFUSED, message);
}

// too_long says so of the code, else it is NULL.
static int run_code(struct sr_cli *cli, const struct run_arguments *a, const struct sr_config *config,
                    const struct sr_buf *code, const struct sr_error *too_long, int stdin_fd,
                    struct passage *passage)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_runner_ struct sr_runner *runner = NULL;
        _cleanup_result_ struct sr_run_result *result = NULL;
        struct sr_run_request request = {
                .language = a->language,
                .code = code->data != NULL ? code->data : "",
                .code_length = code->len,
                .timeout_s = a->timeout_s != 0 ? a->timeout_s : config->default_timeout_s,
                .memory_bytes = a->memory_bytes,
                .cpu_millis = a->cpu_millis,
                .pids = a->pids,
                .image = a->image,
                .arguments = a->program_arguments,
                .stdin_fd = stdin_fd,
                .output = a->json ? NULL : pass_output,
                .output_context = passage,
        };

        if (sr_runner_new(config, &runner, &error) < 0)
                return refuse(cli, a, a->language, SR_REASON_INTERNAL, sr_error_message(error));
        if (request.language == NULL) {
                const struct sr_language *language =
                        sr_language_find_by_path(sr_runner_languages(runner), a->file);

                if (language == NULL)
                        return refuse_unknown(cli, a);
                request.language = language->name;
        }
        if (too_long != NULL)
                return refuse(cli, a, request.language, SR_REASON_REFUSED, sr_error_message(too_long));

        // Whoever wrote a file in place of another's must not think that it is in use.
        if (sr_language_find(sr_runner_languages(runner), request.language) != NULL) {
                _cleanup_free_ char *faults =
                        sr_language_faults(sr_runner_languages(runner), request.language);

                if (faults != NULL)
                        sr_log(SR_LOG_WARNING, "%s", faults);
        }

        sr_late_control_begin(&passage->control, config, runner);
        request.late = &passage->control.late;
        result = sr_runner_execute(runner, &request, passage->cancel);
        sr_late_control_end(&passage->control);
        return report(cli, a, config, sr_language_find(sr_runner_languages(runner), request.language), result,
                      passage);
}

static int run_main(struct sr_cli *cli, char *const *arguments)
{
        struct run_arguments a = {0};
        _cleanup_error_ struct sr_error *error = NULL, *too_long = NULL;
        _cleanup_config_ struct sr_config *config = NULL;
        _cleanup_buf_ struct sr_buf code = {0};
        _cleanup_close_ int stdin_fd = -1;
        struct passage passage = {0};
        int status, r;

        if (!read_arguments(cli, arguments, &a))
                return cli->status;
        status = sr_cli_load_config(cli, &config);
        if (status != SR_EXIT_OK)
                return status;
        r = read_code(&a, config->max_code_bytes, &code, &error);
        if (r == -EFBIG)
                too_long = sr_steal(error);
        else if (r < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        if (open_input(a.stdin_path, &stdin_fd, &error) < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        passage.cancel = sr_run_cancel_new();

        _cleanup_close_ int wake_fd = sr_interrupt_catch(passage.cancel);

        if (wake_fd < 0)
                status = sr_cli_fail(cli, "cannot watch for signals: %s", strerror(-wake_fd));
        else
                status = run_code(cli, &a, config, &code, too_long, stdin_fd, &passage);
        sr_interrupt_release();
        sr_run_cancel_free(passage.cancel);
        return status;
}

const struct sr_verb sr_verb_run = {
        .name = "run",
        .usage = (const char *const[]){"run [OPTION…] FILE [-- ARG…]", "run [OPTION…] -l LANG - [-- ARG…]",
                                       "run [OPTION…] -l LANG -c CODE [-- ARG…]", NULL},
        .summary = "run one snippet",
        .description =
                "Runs a snippet in a sandbox of its own. Its output passes through as it comes and its exit\n"
                "status is ours: 124 when it ran out of time, 125 when we refuse or fail (the reason is on\n"
                "stderr), the compiler's when it does not compile, 128 and the number when a signal ends "
                "it.\n"
                "Ctrl-C ends the run (130), and so does `sandbox-runner stop` (143). What follows -- are "
                "the\n"
                "arguments of the program. With --json a refusal or a failure to start is a result too, and\n"
                "the exit status 0.",
        .options = options,
        .usage_status = SR_EXIT_RUN_TROUBLE,
        .failure_status = SR_EXIT_RUN_TROUBLE,
        .main = run_main,
};
