// What the verbs of the command share: the state of one invocation, the reading of its arguments, and the
// only two ways to print (a whole buffer on stdout, one sentence on stderr).
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/options.h"
#include "config/config.h"

// Exit statuses of our own; `run` otherwise ends with its program's.
enum {
        SR_EXIT_OK = 0,
        SR_EXIT_FAILURE = 1,
        SR_EXIT_USAGE = 2,
        SR_EXIT_RUN_TIMEOUT = 124, // as timeout(1) has it
        SR_EXIT_RUN_TROUBLE = 125, // `run`: a refusal or fault of ours, as container tools have it
        SR_EXIT_SIGNAL = 128,      // plus the signal's number
};

// What --strict-limits of the server and of `run` sets.
#define SR_CLI_STRICT_LIMITS "sandbox.strict_limits=true"

struct sr_cli;

struct sr_verb {
        const char *name;
        const char *const *usage;        // what follows "sandbox-runner ", NULL-terminated
        const char *summary;             // its line in the list of commands
        const char *description;         // the text of its help; wrapped when it is shown
        const struct sr_option *options; // its own; NULL when `main` hands its arguments on unread
        int usage_status;                // exit status when the command line is wrong
        int failure_status;              // exit status when we fail
        int (*main)(struct sr_cli *cli, char *const *arguments);
};

extern const struct sr_verb sr_verb_serve; // no verb at all
extern const struct sr_verb sr_verb_run;
extern const struct sr_verb sr_verb_ps;
extern const struct sr_verb sr_verb_stop;
extern const struct sr_verb sr_verb_languages;
extern const struct sr_verb sr_verb_history;
extern const struct sr_verb sr_verb_image;
extern const struct sr_verb sr_verb_config;
extern const struct sr_verb sr_verb_doctor;
extern const struct sr_verb sr_verb_help;

struct sr_cli {
        const struct sr_verb *verb;
        char *config_file;       // --config; NULL when not given
        char **flags;            // the other global options as "tunable=value"
        const char *program;     // as it was started: a path or a name
        char *program_directory; // NULL when unknown
        bool stdout_missing;     // the caller closed descriptor 1
        struct sr_option_scan scan;
        const struct sr_option *tables[3]; // what scan reads by
        int status;                        // what to end with after SR_CLI_STOP
};

// Starts to read a verb's arguments; its options and the global ones are known from here on.
void sr_cli_scan(struct sr_cli *cli, char *const *arguments);

enum sr_cli_item {
        SR_CLI_END,    // no more arguments
        SR_CLI_OPTION, // cli->scan.option is one of the verb's, cli->scan.value its value
        SR_CLI_WORD,   // cli->scan.value is no option
        SR_CLI_STOP,   // help was printed or a mistake reported: return cli->status
};
// Gives the next item. Global options, --help and --version are dealt with here.
enum sr_cli_item sr_cli_next(struct sr_cli *cli);

// Reads the arguments of a verb whose only option of its own is --json and that takes no words; advice is for
// whoever gave one, or NULL. false: return cli->status.
bool sr_cli_read_listing(struct sr_cli *cli, char *const *arguments, const char *advice, bool *ret_json);

// Reports a wrong command line, with where to read more. Returns the verb's usage_status.
__attribute__((format(printf, 2, 3))) int sr_cli_usage(struct sr_cli *cli, const char *format, ...);
// Prints one sentence on stderr. Returns the verb's failure_status.
__attribute__((format(printf, 2, 3))) int sr_cli_fail(struct sr_cli *cli, const char *format, ...);
__attribute__((format(printf, 1, 2))) void sr_cli_say(const char *format, ...);

// Writes text to stdout. 0, or a failure status after saying why (141, as for a tool that SIGPIPE ended, when
// nobody reads it any more).
int sr_cli_print(struct sr_cli *cli, const struct sr_buf *text);

// Loads the configuration with what the command line said, and sets the log level. 0, or after a sentence the
// verb's failure status.
int sr_cli_load_config(struct sr_cli *cli, struct sr_config **ret);
// The same, but a mistake in a file or variable is a sentence added to *problems, and passed over.
int sr_cli_load_config_with(struct sr_cli *cli, struct sr_config **ret, char ***problems);

// Help of one verb, or of the whole command for NULL.
void sr_cli_help(const struct sr_verb *verb, struct sr_buf *out);
// NULL when there is none of that name.
const struct sr_verb *sr_cli_find_verb(const char *name);
