// `image …`: work on images needs libraries that the rest must not load, so it is a program of its own.

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/cli.h"

#define HELPER "sandbox-runner-image"

// Its arguments: what our command line said before the verb, which it understands too, then what came after.
static char **make_arguments(const struct sr_cli *cli, const char *program, char *const *arguments)
{
        char **argv = NULL;

        sr_strv_append(&argv, sr_strdup(program));
        if (cli->config_file != NULL)
                sr_strv_append(&argv, sr_asprintf("--config=%s", cli->config_file));
        for (char *const *flag = cli->flags; flag != NULL && *flag != NULL; flag++)
                sr_strv_append(&argv, sr_asprintf("--set=%s", *flag));
        for (; *arguments != NULL; arguments++)
                sr_strv_append(&argv, sr_strdup(*arguments));
        return argv;
}

static int image_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_free_ char *program = NULL;
        _cleanup_strv_ char **argv = NULL;

        if (sr_config_find_helper(cli->program_directory, HELPER, &program, &error) < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        argv = make_arguments(cli, program, arguments);
        signal(SIGPIPE, SIG_DFL); // as the caller of a program expects it
        execv(program, argv);
        return sr_cli_fail(cli, "cannot start %s: %s", program, strerror(errno));
}

const struct sr_verb sr_verb_image = {
        .name = "image",
        .usage = (const char *const[]){"image COMMAND [ARGUMENT…]", NULL},
        .summary = "build, import and list images (`image --help`)",
        .description = "Works on images; `sandbox-runner image --help` lists its commands.",
        .options = NULL,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = image_main,
};
