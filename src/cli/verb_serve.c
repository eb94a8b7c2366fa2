// No verb: the MCP server. Also where every command line begins, because what stands before a verb is read
// here.

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "control/control.h"
#include "mcp/stdio.h"
#include "run/run.h"

enum { OPTION_TRANSPORT = 256, OPTION_STRICT };

static const struct sr_option options[] = {
        {OPTION_TRANSPORT, "transport", "NAME", "stdio; the default is that of MCP_TRANSPORT, else stdio"},
        {OPTION_STRICT, "strict-limits", NULL,
         "refuse runs where a limit has no cgroup (sandbox.strict_limits)"},
        {0},
};

static int serve_stdio(struct sr_cli *cli, const struct sr_config *config, struct sr_runner *runner,
                       int stop_fd)
{
        _cleanup_error_ struct sr_error *error = NULL;

        if (isatty(STDIN_FILENO))
                sr_cli_say("speaking MCP on standard input and output, one JSON message a line; "
                           "for use by hand see sandbox-runner --help");
        if (sr_mcp_stdio_run(config, runner, STDIN_FILENO, STDOUT_FILENO, stop_fd, &error) < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        return sr_interrupt_signal() == SIGINT ? SR_EXIT_SIGNAL + SIGINT : SR_EXIT_OK;
}

// `ps` and `stop` find this server from here on. One that cannot be found serves all the same.
static struct sr_control *listen_for_control(const struct sr_config *config, struct sr_runner *runner)
{
        _cleanup_error_ struct sr_error *error = NULL;
        const struct sr_control_options listen = {
                .directories = config->control_directories, .kind = "serve", .runner = runner};
        struct sr_control *control = NULL;

        if (sr_control_start(&listen, &control, &error) < 0)
                sr_log(SR_LOG_WARNING, "`sandbox-runner ps` and `stop` will not find this server: %s",
                       sr_error_message(error));
        return control;
}

// A server lives long, and every run is a thread of its own with texts of a few hundred KiB. Few arenas, and
// large blocks given back as they are freed, keep it as small after a million runs as after ten.
static void bound_memory(void)
{
        (void)mallopt(M_ARENA_MAX, 2);
        (void)mallopt(M_MMAP_THRESHOLD, 64 * 1024);
}

static int serve(struct sr_cli *cli, const char *transport)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_config_ struct sr_config *config = NULL;
        _cleanup_runner_ struct sr_runner *runner = NULL;
        int status = sr_cli_load_config(cli, &config);
        const char *source = "--transport";

        if (status != SR_EXIT_OK)
                return status;
        if (transport == NULL) {
                transport = getenv("MCP_TRANSPORT");
                source = "MCP_TRANSPORT";
        }
        if (transport != NULL && *transport != '\0' && strcmp(transport, "stdio") != 0)
                return sr_cli_usage(cli,
                                    "%s asks for \"%s\", but the only transport of this version is stdio",
                                    source, transport);
        if (cli->stdout_missing)
                return sr_cli_fail(cli, "standard output is closed, so no client can be answered");

        bound_memory();

        _cleanup_close_ int stop_fd = sr_interrupt_catch(NULL);

        if (stop_fd < 0)
                return sr_cli_fail(cli, "cannot watch for signals: %s", strerror(-stop_fd));
        if (sr_runner_new(config, &runner, &error) < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));

        _cleanup_control_ struct sr_control *control = listen_for_control(config, runner);

        status = serve_stdio(cli, config, runner, stop_fd);
        control = sr_control_stop(control);
        runner = sr_runner_free(runner);
        sr_interrupt_release();
        return status;
}

static int serve_main(struct sr_cli *cli, char *const *arguments)
{
        const char *transport = NULL;
        bool strict = false;

        sr_cli_scan(cli, arguments);
        for (;;) {
                switch (sr_cli_next(cli)) {
                case SR_CLI_STOP:
                        return cli->status;
                case SR_CLI_OPTION:
                        if (cli->scan.option->id == OPTION_TRANSPORT) {
                                transport = cli->scan.value;
                        } else {
                                strict = true;
                                sr_strv_append(&cli->flags, sr_strdup(SR_CLI_STRICT_LIMITS));
                        }
                        break;
                case SR_CLI_END:
                        return serve(cli, transport);
                case SR_CLI_WORD: {
                        const struct sr_verb *verb = sr_cli_find_verb(cli->scan.value);

                        if (verb == NULL)
                                return sr_cli_usage(cli, "there is no command \"%s\"", cli->scan.value);
                        if (transport != NULL)
                                return sr_cli_usage(cli, "--transport is for the server, not for `%s`",
                                                    verb->name);
                        if (strict && verb != &sr_verb_run && verb != &sr_verb_doctor)
                                return sr_cli_usage(
                                        cli,
                                        "--strict-limits is for the server, `run` and `doctor`, not for `%s`",
                                        verb->name);
                        cli->verb = verb;
                        return verb->main(cli, cli->scan.next);
                }
                }
        }
}

const struct sr_verb sr_verb_serve = {
        .name = "",
        .usage = (const char *const[]){"[OPTION…]", "[OPTION…] COMMAND [ARGUMENT…]", NULL},
        .summary = "",
        .description = "Runs snippets of code in sandboxes. Without a command it is an MCP server on "
                       "standard input\n"
                       "and output, for the likes of Claude, Cursor and VS Code.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = serve_main,
};
