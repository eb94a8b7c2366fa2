// What the verbs of `sandbox-runner image` share. This program is started by the command for its `image`
// verb, and, with the hidden verb unpack-layer, as the confined helper that unpacks a layer.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/options.h"
#include "config/config.h"
#include "image/import.h"

enum { SR_IMAGE_EXIT_OK = 0, SR_IMAGE_EXIT_FAILURE = 1, SR_IMAGE_EXIT_USAGE = 2 };

struct sr_image_cli;

struct sr_image_verb {
        const char *name;
        const char *usage;               // what follows "sandbox-runner image "
        const char *summary;             // its line in the list of commands
        const char *description;         // the text of its help, wrapped
        const struct sr_option *options; // its own
        size_t least, most;              // how many words it takes
        int (*main)(struct sr_image_cli *cli);
};

extern const struct sr_image_verb sr_image_verb_build;
extern const struct sr_image_verb sr_image_verb_import;
extern const struct sr_image_verb sr_image_verb_export;
extern const struct sr_image_verb sr_image_verb_list;
extern const struct sr_image_verb sr_image_verb_inspect;
extern const struct sr_image_verb sr_image_verb_rm;
extern const struct sr_image_verb sr_image_verb_gc;

// The verbs' options: indexes of sr_image_cli.values, and (from 256 on) their numbers in option tables.
enum {
        SR_IMAGE_OPTION_JSON,
        SR_IMAGE_OPTION_NAME,
        SR_IMAGE_OPTION_KEEP,
        SR_IMAGE_OPTION_IF_MISSING,
        SR_IMAGE_OPTION_COUNT,
};
#define SR_IMAGE_OPTION_ID(option) (256 + (option))

struct sr_image_cli {
        const struct sr_image_verb *verb;
        char *const *words; // the verb's arguments that are no options, NULL-terminated
        // By SR_IMAGE_OPTION_*: NULL when not given, "" when it takes no value.
        const char *values[SR_IMAGE_OPTION_COUNT];
        struct sr_config *config;
        const struct sr_image_confine *confine; // how layers are unpacked; NULL: in this process
        struct sr_image_progress progress;      // tells them on stderr
};

// Print one sentence on stderr; the first gives the failure status.
__attribute__((format(printf, 1, 2))) int sr_image_cli_fail(const char *format, ...);
__attribute__((format(printf, 1, 2))) void sr_image_cli_say(const char *format, ...);
// Writes text to stdout. An exit status.
int sr_image_cli_print(const struct sr_buf *text);
// Prints what was brought in, one line an image.
int sr_image_cli_print_list(const struct sr_image_list *list);
