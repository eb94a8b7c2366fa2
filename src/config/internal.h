// Shared by the files of src/config only: the table of tunables and what can be done with one of its rows.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

enum config_kind {
        CONFIG_SECONDS,  // uint32_t, whole seconds
        CONFIG_DURATION, // uint64_t, microseconds
        CONFIG_SIZE,     // uint64_t, bytes
        CONFIG_COUNT,    // uint32_t
        CONFIG_CPUS,     // uint32_t, thousandths of a processor
        CONFIG_BOOL,     // bool
        CONFIG_PATH,     // char *, absolute or NULL
        CONFIG_PATHS,    // char **, absolute
        CONFIG_CHOICE,   // char *, one of choices
};

struct config_tunable {
        const char *name;
        enum config_kind kind;
        size_t offset; // of the member of struct sr_config
        // As text that every source may give; NULL where load.c works it out from the environment.
        const char *fallback;
        uint64_t minimum, maximum; // in the unit of the member; not for paths, choices and booleans
        const char *choices;       // CONFIG_CHOICE: comma separated
        bool may_be_empty;         // CONFIG_PATH: an empty value means none
        const char *description;
};

extern const struct config_tunable config_tunables[];
extern const size_t config_tunable_count;

// Where the value of each tunable came from; one entry a row, in the order of the table.
struct sr_config_source {
        char *source;   // "default", "file PATH", "environment VARIABLE", "flag"
        char *fallback; // the default as text, NULL when there is none
};

// The row of that name, or NULL.
const struct config_tunable *config_find(const char *name);
size_t config_index(const struct config_tunable *tunable);
// The name most like a mistyped one, or NULL when none is near.
const char *config_nearest(const char *name);
// How many letters must be changed, added or left out to make one of the other; their case is nothing.
size_t config_distance(const char *left, const char *right);
// "SANDBOX_RUNNER_RUN_TIMEOUT" for run.timeout; freed by the caller.
char *config_variable(const struct config_tunable *tunable);

// Sets the member from text. home is for values that begin with "~/", base the directory that a relative path
// starts from; each may be NULL. The error names value and what is allowed, not where it came from.
int config_set(struct sr_config *config, const struct config_tunable *tunable, const char *text,
               const char *home, const char *base, struct sr_error **error);
// Sets a CONFIG_PATHS member; the same for each element of list.
int config_set_list(struct sr_config *config, const struct config_tunable *tunable, char *const *list,
                    const char *home, const char *base, struct sr_error **error);
// An absolute path from one that may begin with "~/" or be relative to base; the caller frees *ret.
int config_resolve(const char *text, const char *home, const char *base, char **ret, struct sr_error **error);
// Frees what the member owns.
void config_clear(struct sr_config *config, const struct config_tunable *tunable);
// The value as text that config_set takes; "" for none. Freed by the caller.
char *config_format(const struct sr_config *config, const struct config_tunable *tunable);
// number is in the unit of the member.
char *config_format_number(enum config_kind kind, uint64_t number);
// Text that a stranger wrote, fit for a message: valid UTF-8 and not too long. Freed by the caller.
char *config_shown(const char *text);
// A numeric member, whatever its width.
uint64_t config_get_number(const struct sr_config *config, const struct config_tunable *tunable);
void config_set_number(struct sr_config *config, const struct config_tunable *tunable, uint64_t number);
// A CONFIG_PATHS member, owned by config; may be NULL.
char *const *config_get_list(const struct sr_config *config, const struct config_tunable *tunable);

// One load in progress.
struct config_loader {
        const struct sr_config_input *input;
        struct sr_config *config;
        bool home_sought, cwd_sought;
        char *home, *cwd; // once sought; NULL when unknown
};

// The value of a variable of input->environment, or NULL.
const char *config_lookup(const struct config_loader *loader, const char *name);
// Of the host's own settings.
const char *config_system_directory(const struct config_loader *loader);
// $HOME when it is absolute, else that of the password database, else NULL. Owned by the loader.
const char *config_home(struct config_loader *loader);
// The current directory, NULL when it is gone. Owned by the loader.
const char *config_cwd(struct config_loader *loader);
// "$variable/sandbox-runner/rest", or "~/below_home/sandbox-runner/rest"; freed by the caller. NULL when no
// home directory is known either.
char *config_xdg_path(struct config_loader *loader, const char *variable, const char *below_home,
                      const char *rest);
int config_set_defaults(struct config_loader *loader, struct sr_error **error);
void config_note_source(struct config_loader *loader, const struct config_tunable *tunable,
                        const char *source);
