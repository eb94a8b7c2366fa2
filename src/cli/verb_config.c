// `config`: every tunable, its value and where it came from.

#include "cli/cli.h"

enum { OPTION_JSON = 256 };

static const struct sr_option options[] = {
        {OPTION_JSON, "json", NULL, "print a JSON array"},
        {0},
};

static int config_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_config_ struct sr_config *config = NULL;
        _cleanup_buf_ struct sr_buf text = {0};
        bool json;

        if (!sr_cli_read_listing(cli, arguments, "to change a tunable for one command: --set NAME=VALUE",
                                 &json))
                return cli->status;

        int status = sr_cli_load_config(cli, &config);

        if (status != SR_EXIT_OK)
                return status;
        sr_config_describe(config, json, &text);
        return sr_cli_print(cli, &text);
}

const struct sr_verb sr_verb_config = {
        .name = "config",
        .usage = (const char *const[]){"config [--json]", NULL},
        .summary = "list every tunable, its value and where it came from",
        .description =
                "Lists every tunable with its value, its source and its meaning. Values come from built-in\n"
                "defaults, then the configuration file, then SANDBOX_RUNNER_* variables, then options.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = config_main,
};
