// Shared by the files of `doctor`: what a check looks at and what it finds.
//
// Theory of operation. The verdict of a check comes from trying (host_trial.h, and a runner that is really
// started); the explanation, and the command that mends it, from facts (doctor_facts.h). Both are gathered
// before the first check, so that the checks of the host are pure functions: the same facts, the same
// finding.
#pragma once

#include <stdbool.h>

#include "cli/cli.h"
#include "cli/doctor_facts.h"
#include "cli/host_trial.h"
#include "image/store.h"
#include "language/language.h"
#include "run/run.h"

enum doctor_state {
        DOCTOR_OK,
        DOCTOR_WARNING, // snippets run, but something is weaker or less than it could be
        DOCTOR_ERROR,   // what the check is about is not there
};

struct doctor_finding {
        enum doctor_state state;
        char *found; // what was found and what it means; several things on lines of their own
        char *fix; // what to do, a command where there is one; alternatives on lines of their own. NULL when
                   // there is nothing to do, or nothing before an earlier check is mended
        unsigned words; // bit n: line n of fix is no command
};

struct doctor {
        struct sr_cli *cli;
        char *program; // the command as it was started, a word of the shell; NULL when not known
        const struct sr_config *config;
        char **config_problems; // NULL when there are none
        struct doctor_facts facts;
        struct sr_host_trial trial;
        struct sr_language_catalogue *languages; // NULL when the catalogue cannot be read
        char *languages_problem;                 // why, else NULL
        struct sr_image_store *store;            // NULL when it cannot be read
        char *store_problem;
        struct sr_runner *runner; // NULL when it cannot be started
        char *runner_problem;
        struct sr_run_host host; // what the runner's sandboxes have; all empty without one
};

enum doctor_need {
        DOCTOR_OPTIONAL,
        DOCTOR_NEEDED,      // no snippet runs while it is in error
        DOCTOR_NEED_PROVEN, // the same, but where one ran all the same an error is only a warning
};

struct doctor_check {
        const char *id; // for programs: never changes
        const char *title;
        enum doctor_need need;
        void (*check)(const struct doctor *d, struct doctor_finding *f);
};

__attribute__((format(printf, 3, 4))) void doctor_found(struct doctor_finding *f, enum doctor_state state,
                                                        const char *format, ...);
// Adds a way to mend it, a command; the first is the best.
__attribute__((format(printf, 2, 3))) void doctor_fix(struct doctor_finding *f, const char *format, ...);
// The same in words, where no command does it.
__attribute__((format(printf, 2, 3))) void doctor_advise(struct doctor_finding *f, const char *format, ...);
// Text as one word of the shell; the caller frees it.
char *doctor_quote(const char *text);
// The command to start this program with.
const char *doctor_program(const struct doctor *d);
// "sudo " for whoever is not root, else "".
const char *doctor_sudo(const struct doctor *d);
// Adds the command that sets a sysctl now and at every boot.
void doctor_fix_sysctl(const struct doctor *d, struct doctor_finding *f, const char *name, const char *value);
// Adds the command that gives this uid a name; `before` is what must come before it, or "".
void doctor_fix_name(const struct doctor *d, struct doctor_finding *f, const char *before);
// Adds the command that gives the systemd service this runs in a setting, "Delegate=yes".
void doctor_fix_unit(const struct doctor *d, struct doctor_finding *f, const char *setting);
void doctor_finding_clear(struct doctor_finding *f);

// doctor_text.c
// The columns to write for; 0 when nobody said.
size_t doctor_text_width(void);
// Appends text, made safe, in lines that end before column `width` (0: in one), of which all but the first
// are preceded by `indent` spaces: the column where out is. A command is broken as the shell takes it.
void doctor_wrap(struct sr_buf *out, const char *text, size_t indent, size_t width, bool command);
void doctor_write_text(const struct doctor_check *checks, const struct doctor_finding *findings, size_t count,
                       const char *const *state_names, size_t width, struct sr_buf *out);

// doctor_kernel.c
void doctor_check_kernel(const struct doctor *d, struct doctor_finding *f);
void doctor_check_user_namespaces(const struct doctor *d, struct doctor_finding *f);
void doctor_check_namespaces(const struct doctor *d, struct doctor_finding *f);
void doctor_check_proc(const struct doctor *d, struct doctor_finding *f);
void doctor_check_seccomp(const struct doctor *d, struct doctor_finding *f);
void doctor_check_landlock(const struct doctor *d, struct doctor_finding *f);
// doctor_limits.c
void doctor_check_limits(const struct doctor *d, struct doctor_finding *f);
void doctor_check_ids(const struct doctor *d, struct doctor_finding *f);
// doctor_places.c
void doctor_check_store(const struct doctor *d, struct doctor_finding *f);
void doctor_check_history(const struct doctor *d, struct doctor_finding *f);
// doctor_setup.c
void doctor_check_configuration(const struct doctor *d, struct doctor_finding *f);
void doctor_check_environment(const struct doctor *d, struct doctor_finding *f);
void doctor_check_spawner(const struct doctor *d, struct doctor_finding *f);
void doctor_check_image_program(const struct doctor *d, struct doctor_finding *f);
void doctor_check_languages(const struct doctor *d, struct doctor_finding *f);
void doctor_check_images(const struct doctor *d, struct doctor_finding *f);
void doctor_check_run(const struct doctor *d, struct doctor_finding *f);
