// `sandbox-runner image`: finds the verb, reads its command line, and ends with its status.

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/image/confine.h"
#include "cli/image/image_cli.h"
#include "cli/text.h"
#include "image/text.h"
#include "main/main.h"

static const struct sr_image_verb *const verbs[] = {
        &sr_image_verb_build, &sr_image_verb_import, &sr_image_verb_list,   &sr_image_verb_inspect,
        &sr_image_verb_rm,    &sr_image_verb_gc,     &sr_image_verb_export,
};

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const struct sr_option no_options[] = {{0}};

// What the command line says besides the verb.
struct invocation {
        struct sr_image_cli cli;
        char **words;
        char *config_file;
        char **flags;
};

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list arguments)
{
        _cleanup_free_ char *text = sr_vasprintf(format, arguments);
        _cleanup_free_ char *line = sr_asprintf("sandbox-runner: %s\n", text);

        // One write, so that lines of several processes do not mix. Where stderr is gone nobody can be told.
        (void)sr_fd_write_all(STDERR_FILENO, line, strlen(line));
}

void sr_image_cli_say(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        say(format, arguments);
        va_end(arguments);
}

int sr_image_cli_fail(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        say(format, arguments);
        va_end(arguments);
        return SR_IMAGE_EXIT_FAILURE;
}

int sr_image_cli_print(const struct sr_buf *text)
{
        int r = text->len > 0 ? sr_fd_write_all(STDOUT_FILENO, text->data, text->len) : 0;

        return r < 0 ? sr_image_cli_fail("cannot write to standard output: %s", strerror(-r))
                     : SR_IMAGE_EXIT_OK;
}

int sr_image_cli_print_list(const struct sr_image_list *list)
{
        _cleanup_buf_ struct sr_buf out = {0};

        for (size_t i = 0; i < list->count; i++) {
                _cleanup_free_ char *size = sr_image_size_text((uint64_t)list->images[i]->size);

                sr_buf_printf(&out, "%s  %s  %s\n", list->images[i]->reference, list->images[i]->digest,
                              size);
        }
        return sr_image_cli_print(&out);
}

static void report(void *context, const char *sentence)
{
        (void)context;
        sr_image_cli_say("%s", sentence);
}

static const struct sr_image_verb *find_verb(const char *name)
{
        for (size_t i = 0; i < VERBS; i++)
                if (strcmp(verbs[i]->name, name) == 0)
                        return verbs[i];
        return NULL;
}

// Help of one verb, or of all for NULL.
static int help(const struct sr_image_verb *verb)
{
        _cleanup_buf_ struct sr_buf out = {0};

        if (verb == NULL) {
                sr_buf_append_text(
                        &out, "Usage: sandbox-runner image COMMAND [ARGUMENT…]\n\n"
                              "Works on images: the root file systems that snippets run in.\n\nCommands:\n");
                for (size_t i = 0; i < VERBS; i++)
                        sr_option_describe_line(verbs[i]->name, verbs[i]->summary, &out);
        } else {
                sr_buf_printf(&out, "Usage: sandbox-runner image %s\n\n", verb->usage);
                sr_text_append_wrapped(&out, verb->description, 0);
                sr_buf_append_char(&out, '\n');
        }
        if (verb != NULL && verb->options[0].name != NULL) {
                sr_buf_append_text(&out, "\nOptions:\n");
                sr_option_describe(verb->options, &out);
        }
        sr_buf_append_text(&out, "\nOptions of every command:\n");
        sr_option_describe(sr_option_global, &out);
        if (verb == NULL)
                sr_buf_append_text(&out, "\n`sandbox-runner image COMMAND --help` says more about one.\n");
        return sr_image_cli_print(&out);
}

__attribute__((format(printf, 2, 3))) static int usage(const struct sr_image_verb *verb, const char *format,
                                                       ...)
{
        va_list arguments;

        va_start(arguments, format);
        say(format, arguments);
        va_end(arguments);
        sr_image_cli_say("see sandbox-runner image %s%s--help", verb != NULL ? verb->name : "",
                         verb != NULL ? " " : "");
        return SR_IMAGE_EXIT_USAGE;
}

// A path as it was meant where the command was typed.
static char *absolute(const char *path)
{
        _cleanup_free_ char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);

        return here != NULL ? sr_asprintf("%s/%s", here, path) : sr_strdup(path);
}

// Takes one option. -1 to go on, else an exit status.
static int take_option(struct invocation *invocation, const struct sr_option *option, const char *value)
{
        switch (option->id) {
        case SR_OPTION_CONFIG:
                free(invocation->config_file);
                invocation->config_file = absolute(value);
                return -1;
        case SR_OPTION_DB:
        case SR_OPTION_STORE:
        case SR_OPTION_LOG_LEVEL: {
                _cleanup_free_ char *meant =
                        option->id == SR_OPTION_LOG_LEVEL ? sr_strdup(value) : absolute(value);

                sr_strv_append(&invocation->flags, sr_asprintf("%s=%s", sr_option_tunable(option), meant));
                return -1;
        }
        case SR_OPTION_SET:
                if (value[0] == '=' || strchr(value, '=') == NULL)
                        return usage(invocation->cli.verb, "option --set takes NAME=VALUE, not \"%s\"",
                                     value);
                sr_strv_append(&invocation->flags, sr_strdup(value));
                return -1;
        case SR_OPTION_VERSION: {
                _cleanup_buf_ struct sr_buf out = {0};

                sr_buf_append_text(&out, "sandbox-runner " SR_VERSION "\n");
                return sr_image_cli_print(&out);
        }
        case SR_OPTION_HELP:
                return help(invocation->cli.verb);
        default:
                invocation->cli.values[option->id - SR_IMAGE_OPTION_ID(0)] = value != NULL ? value : "";
                return -1;
        }
}

// Takes a word: the verb first, then its arguments. -1 to go on, else an exit status.
static int take_word(struct invocation *invocation, const char *word)
{
        if (invocation->cli.verb != NULL) {
                sr_strv_append(&invocation->words, sr_strdup(word));
                return -1;
        }
        invocation->cli.verb = find_verb(word);
        if (invocation->cli.verb == NULL)
                return usage(NULL, "there is no command `image %s`", word);
        return -1;
}

// Reads the command line. -1 when all is well, else an exit status.
static int read_arguments(struct invocation *invocation, char **argv)
{
        const struct sr_option *tables[] = {sr_option_global, no_options, NULL};
        struct sr_option_scan scan = {.next = argv + 1, .tables = tables};
        const struct sr_image_verb *verb;
        size_t count;
        int status = -1;

        while (status < 0) {
                _cleanup_error_ struct sr_error *error = NULL;
                int item = sr_option_next(&scan, &error);

                if (item == SR_OPTION_END)
                        break;
                if (item < 0)
                        return usage(invocation->cli.verb, "%s", sr_error_message(error));
                if (item == SR_OPTION_WORD && invocation->cli.verb == NULL && strcmp(scan.value, "help") == 0)
                        return help(*scan.next != NULL ? find_verb(*scan.next) : NULL);
                status = item == SR_OPTION_WORD ? take_word(invocation, scan.value)
                                                : take_option(invocation, scan.option, scan.value);
                if (invocation->cli.verb != NULL)
                        tables[1] = invocation->cli.verb->options;
        }
        if (status >= 0)
                return status;
        verb = invocation->cli.verb;
        if (verb == NULL)
                return usage(NULL, "`image` needs a command");
        count = sr_strv_length(invocation->words);
        if (count < verb->least || count > verb->most)
                return usage(verb, "`image %s` takes %s: sandbox-runner image %s", verb->name,
                             count < verb->least ? "more arguments" : "fewer arguments", verb->usage);
        return -1;
}

static int load_config(struct invocation *invocation)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_free_ char *directory = sr_config_program_directory();
        const struct sr_config_input input = {.config_file = invocation->config_file,
                                              .environment = environ,
                                              .flags = invocation->flags,
                                              .program_directory = directory};

        if (sr_config_load(&input, &invocation->cli.config, &error) < 0)
                return sr_image_cli_fail("%s", sr_error_message(error));
        return -1;
}

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#endif
#ifdef SANITIZED
// The leak checker traces its own process at exit, which the helper's sandbox does not allow.
static bool is_helper;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
        return is_helper;
}
#endif

// The confined helper: nothing but its descriptors is there, so nothing but them is looked at.
static int unpack_helper(char **argv)
{
#ifdef SANITIZED
        is_helper = true;
#endif

        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_buf_ struct sr_buf out = {0};

        if (sr_image_unpack_helper(argv, &out, &error) == 0)
                return sr_image_cli_print(&out);

        _cleanup_free_ char *line = sr_asprintf("%s\n", sr_error_message(error));

        (void)sr_fd_write_all(STDERR_FILENO, line, strlen(line));
        return SR_IMAGE_EXIT_FAILURE;
}

int sr_cli_image_main(int argc, char **argv)
{
        static const struct sr_image_progress progress = {.report = report};
        struct invocation invocation = {.cli = {.progress = progress}};
        char *const none[] = {NULL};
        int status;

        // Modes of trees are set one by one; the rest of a store is for everybody to read and for its owner
        // to write, whatever the caller's habits.
        umask(022);
        if (argc > 1 && strcmp(argv[1], SR_IMAGE_UNPACK_VERB) == 0)
                return unpack_helper(argv);
        if (sr_fd_ensure_standard() < 0)
                return SR_IMAGE_EXIT_FAILURE;
        // A script that is waited for must be told apart from one that is not.
        (void)signal(SIGCHLD, SIG_DFL);
        // A helper that stops reading is an error of the write, not the end of us.
        (void)signal(SIGPIPE, SIG_IGN);
        status = read_arguments(&invocation, argv);
        if (status < 0)
                status = load_config(&invocation);
        if (status < 0) {
                struct sr_image_confinement confinement;

                sr_image_confinement_prepare(&confinement, invocation.cli.config);
                invocation.cli.confine = &confinement.confine;
                invocation.cli.words = invocation.words != NULL ? invocation.words : none;
                status = invocation.cli.verb->main(&invocation.cli);
                sr_image_confinement_end(&confinement);
        }
        sr_config_free(invocation.cli.config);
        sr_strv_free(invocation.words);
        sr_strv_free(invocation.flags);
        free(invocation.config_file);
        return status;
}
