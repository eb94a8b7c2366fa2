// Printing, and the configuration that every verb loads the same way.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/cli.h"

__attribute__((format(printf, 2, 0))) static void say(const char *end, const char *format, va_list arguments)
{
        _cleanup_free_ char *text = sr_vasprintf(format, arguments);
        _cleanup_free_ char *line = sr_asprintf("sandbox-runner: %s\n%s", text, end);

        // One write, so that lines of several processes do not mix. Where stderr is gone nobody can be told.
        (void)sr_fd_write_all(STDERR_FILENO, line, strlen(line));
}

void sr_cli_say(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        say("", format, arguments);
        va_end(arguments);
}

int sr_cli_fail(struct sr_cli *cli, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        say("", format, arguments);
        va_end(arguments);
        return cli->verb->failure_status;
}

int sr_cli_usage(struct sr_cli *cli, const char *format, ...)
{
        _cleanup_free_ char *hint = sr_asprintf("See sandbox-runner %s%s--help.\n", cli->verb->name,
                                                *cli->verb->name != '\0' ? " " : "");
        va_list arguments;

        va_start(arguments, format);
        say(hint, format, arguments);
        va_end(arguments);
        return cli->verb->usage_status;
}

// Some file systems tell only at close that there was no room; descriptor 1 itself stays open, so that
// nothing else lands there.
static int write_out(const struct sr_buf *text)
{
        int r = sr_fd_write_all(STDOUT_FILENO, text->data, text->len);

        if (r < 0)
                return r;

        int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

        return copy >= 0 && close(copy) < 0 ? -errno : 0;
}

int sr_cli_print(struct sr_cli *cli, const struct sr_buf *text)
{
        int r = 0;

        if (text->len > 0)
                r = cli->stdout_missing ? -EBADF : write_out(text);
        if (r >= 0)
                return SR_EXIT_OK;
        sr_cli_say("cannot write to standard output: %s", strerror(-r));
        return r == -EPIPE ? SR_EXIT_SIGNAL + SIGPIPE : cli->verb->failure_status;
}

static void set_log_level(const char *name)
{
        static const char *const names[] = {"error", "warning", "info", "debug"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(name, names[i]) == 0)
                        sr_log_set_level((enum sr_log_level)i);
}

int sr_cli_load_config_with(struct sr_cli *cli, struct sr_config **ret, char ***problems)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_config_input input = {
                .config_file = cli->config_file,
                .environment = environ,
                .flags = cli->flags,
                .program_directory = cli->program_directory,
                .problems = problems,
        };

        if (sr_config_load(&input, ret, &error) < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        set_log_level((*ret)->log_level);
        return SR_EXIT_OK;
}

int sr_cli_load_config(struct sr_cli *cli, struct sr_config **ret)
{
        return sr_cli_load_config_with(cli, ret, NULL);
}
