// The command: finds the verb, reads what every verb understands, and ends with the verb's status.
//
// Only this folder prints and exits. Nothing is opened or started here that the verb does not need.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "main/main.h"

static const struct sr_verb *const verbs[] = {
        &sr_verb_run,   &sr_verb_ps,     &sr_verb_stop,   &sr_verb_languages, &sr_verb_history,
        &sr_verb_image, &sr_verb_config, &sr_verb_doctor, &sr_verb_help,
};

const struct sr_verb *sr_cli_find_verb(const char *name)
{
        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
                if (strcmp(verbs[i]->name, name) == 0)
                        return verbs[i];
        return NULL;
}

static void describe_usage(const struct sr_verb *verb, struct sr_buf *out)
{
        for (size_t i = 0; verb->usage[i] != NULL; i++)
                sr_buf_printf(out, "%s sandbox-runner%s%s\n", i == 0 ? "Usage:" : "      ",
                              *verb->usage[i] != '\0' ? " " : "", verb->usage[i]);
}

void sr_cli_help(const struct sr_verb *verb, struct sr_buf *out)
{
        bool whole = verb == NULL;

        if (whole)
                verb = &sr_verb_serve;
        describe_usage(verb, out);
        sr_buf_append_char(out, '\n');
        sr_text_append_wrapped(out, verb->description, 0);
        sr_buf_append_char(out, '\n');
        if (whole) {
                sr_buf_append_text(out, "\nCommands:\n");
                for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
                        sr_option_describe_line(verbs[i]->name, verbs[i]->summary, out);
        }
        if (verb->options != NULL && verb->options[0].name != NULL) {
                sr_buf_append_text(out, "\nOptions:\n");
                sr_option_describe(verb->options, out);
        }
        sr_buf_append_text(out, "\nOptions of every command:\n");
        sr_option_describe(sr_option_global, out);
        if (whole) {
                sr_buf_append_char(out, '\n');
                sr_text_append_wrapped(
                        out,
                        "`sandbox-runner help COMMAND` says more about one; so does the manual "
                        "page, sandbox-runner(1).",
                        0);
                sr_buf_append_char(out, '\n');
        }
}

static enum sr_cli_item stop(struct sr_cli *cli, int status)
{
        cli->status = status;
        return SR_CLI_STOP;
}

// Deals with an option that every verb has.
static enum sr_cli_item apply_global(struct sr_cli *cli)
{
        const char *value = cli->scan.value;
        _cleanup_buf_ struct sr_buf text = {0};

        switch (cli->scan.option->id) {
        case SR_OPTION_CONFIG:
                sr_freep(&cli->config_file);
                cli->config_file = sr_strdup(value);
                return SR_CLI_OPTION;
        case SR_OPTION_DB:
        case SR_OPTION_STORE:
        case SR_OPTION_LOG_LEVEL:
                sr_strv_append(&cli->flags, sr_asprintf("%s=%s", sr_option_tunable(cli->scan.option), value));
                return SR_CLI_OPTION;
        case SR_OPTION_SET:
                if (strchr(value, '=') == NULL)
                        return stop(cli, sr_cli_usage(cli, "--set takes NAME=VALUE, not \"%s\"", value));
                sr_strv_append(&cli->flags, sr_strdup(value));
                return SR_CLI_OPTION;
        case SR_OPTION_VERSION:
                sr_buf_append_text(&text, "sandbox-runner " SR_VERSION "\n");
                return stop(cli, sr_cli_print(cli, &text));
        default:
                sr_cli_help(cli->verb == &sr_verb_serve ? NULL : cli->verb, &text);
                return stop(cli, sr_cli_print(cli, &text));
        }
}

static bool is_global(const struct sr_option *option)
{
        for (const struct sr_option *known = sr_option_global; known->name != NULL; known++)
                if (known == option)
                        return true;
        return false;
}

void sr_cli_scan(struct sr_cli *cli, char *const *arguments)
{
        cli->scan = (struct sr_option_scan){.next = arguments, .tables = cli->tables};
        cli->tables[0] = cli->verb->options != NULL ? cli->verb->options : sr_option_global;
        cli->tables[1] = sr_option_global;
        cli->tables[2] = NULL;
}

enum sr_cli_item sr_cli_next(struct sr_cli *cli)
{
        for (;;) {
                _cleanup_error_ struct sr_error *error = NULL;

                switch (sr_option_next(&cli->scan, &error)) {
                case SR_OPTION_END:
                        return SR_CLI_END;
                case SR_OPTION_WORD:
                        return SR_CLI_WORD;
                case SR_OPTION_OPTION:
                        if (!is_global(cli->scan.option))
                                return SR_CLI_OPTION;
                        if (apply_global(cli) == SR_CLI_STOP)
                                return SR_CLI_STOP;
                        break;
                default:
                        return stop(cli, sr_cli_usage(cli, "%s", sr_error_message(error)));
                }
        }
}

bool sr_cli_read_listing(struct sr_cli *cli, char *const *arguments, const char *advice, bool *ret_json)
{
        bool json = false;

        sr_cli_scan(cli, arguments);
        for (enum sr_cli_item item; (item = sr_cli_next(cli)) != SR_CLI_END;) {
                if (item == SR_CLI_STOP)
                        return false;
                if (item == SR_CLI_WORD) {
                        cli->status = sr_cli_usage(cli, "unexpected argument \"%s\"%s%s", cli->scan.value,
                                                   advice != NULL ? "; " : "", advice != NULL ? advice : "");
                        return false;
                }
                json = true;
        }
        *ret_json = json;
        return true;
}

// Before anything is opened: what the caller may have left in a state that no code below expects.
static void settle(struct sr_cli *cli)
{
        struct rlimit files;

        cli->stdout_missing = fcntl(STDOUT_FILENO, F_GETFD) < 0 && errno == EBADF;
        (void)sr_fd_ensure_standard();
        signal(SIGPIPE, SIG_IGN); // a write that nobody reads is an error we report
        signal(SIGXFSZ, SIG_IGN); // and so is one past the limit of a file's size
        signal(SIGCHLD, SIG_DFL); // ignored, it would make children disappear unread
        umask(S_IRWXG | S_IRWXO);
        // Each run takes descriptors; a snippet's own limit is another (run.open_files).
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &files);
        }
        // A program that had won this user's id could then still not look into us (man 2 prctl).
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int sr_cli_main(int argc, char **argv)
{
        struct sr_cli cli = {.verb = &sr_verb_serve};
        int status;

        settle(&cli);
        cli.program = argc > 0 && *argv[0] != '\0' ? argv[0] : "sandbox-runner";
        cli.program_directory = sr_config_program_directory();
        status = sr_verb_serve.main(&cli, argc > 0 ? argv + 1 : argv);
        sr_freep(&cli.config_file);
        sr_freep(&cli.program_directory);
        cli.flags = sr_strv_free(cli.flags);
        return status;
}
