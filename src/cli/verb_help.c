// `help [COMMAND]`.

#include "cli/cli.h"

static const struct sr_option options[] = {{0}};

static int help_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_buf_ struct sr_buf text = {0};
        const struct sr_verb *about = NULL;

        sr_cli_scan(cli, arguments);
        for (enum sr_cli_item item; (item = sr_cli_next(cli)) != SR_CLI_END;) {
                if (item == SR_CLI_STOP)
                        return cli->status;
                if (about != NULL)
                        return sr_cli_usage(cli, "help is about one command at a time");
                about = sr_cli_find_verb(cli->scan.value);
                if (about == NULL)
                        return sr_cli_usage(cli, "there is no command \"%s\"", cli->scan.value);
        }
        // The verb that reads its own arguments has its own help.
        if (about != NULL && about->options == NULL) {
                static char help[] = "--help";

                cli->verb = about;
                return about->main(cli, (char *const[]){help, NULL});
        }
        sr_cli_help(about, &text);
        return sr_cli_print(cli, &text);
}

const struct sr_verb sr_verb_help = {
        .name = "help",
        .usage = (const char *const[]){"help [COMMAND]", NULL},
        .summary = "show help about a command",
        .description = "Shows what a command does and which options it has.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = help_main,
};
