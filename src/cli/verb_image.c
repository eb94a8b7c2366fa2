// `image …`: work on images needs libraries that the rest must not load, so it is a program of its own.

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/cli.h"

#define HELPER "sandbox-runner-image"

// The companion reads the same settings; what our command line set before the verb reaches it as variables.
static void export_settings(const struct sr_cli *cli)
{
        if (cli->config_file != NULL)
                setenv("SANDBOX_RUNNER_CONFIG", cli->config_file, 1);
        for (char *const *flag = cli->flags; flag != NULL && *flag != NULL; flag++) {
                const char *equals = strchr(*flag, '=');
                _cleanup_free_ char *name = sr_memdup0(*flag, (size_t)(equals - *flag));
                _cleanup_free_ char *variable = sr_asprintf("SANDBOX_RUNNER_%s", name);

                for (char *at = variable; *at != '\0'; at++)
                        *at = *at == '.' ? '_' : (char)toupper((unsigned char)*at);
                setenv(variable, equals + 1, 1);
        }
}

static int image_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_free_ char *program = NULL;
        _cleanup_free_ char **argv = NULL;
        size_t count = sr_strv_length(arguments);

        if (cli->flags != NULL || cli->config_file != NULL) {
                // A mistake in them is told here, where it is known which option it was.
                _cleanup_config_ struct sr_config *config = NULL;
                int status = sr_cli_load_config(cli, &config);

                if (status != SR_EXIT_OK)
                        return status;
                export_settings(cli);
        }
        if (sr_config_find_helper(cli->program_directory, HELPER, &program, &error) < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        argv = sr_new_array(char *, count + 2);
        argv[0] = program;
        for (size_t i = 0; i < count; i++)
                argv[i + 1] = arguments[i];
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
