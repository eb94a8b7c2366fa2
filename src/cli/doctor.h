// Shared by the files of `doctor`: what a check looks at and what it finds.
#pragma once

#include <stdbool.h>

#include "cli/cli.h"
#include "cli/host_trial.h"
#include "image/store.h"
#include "language/language.h"

enum doctor_state {
        DOCTOR_OK,
        DOCTOR_WARNING, // snippets run, but something is weaker or less than it could be
        DOCTOR_MISSING, // what the check is about is not there
};

struct doctor_finding {
        enum doctor_state state;
        char *detail; // what was found and what it means
        char *advice; // what to do, NULL when nothing
};

struct doctor {
        struct sr_cli *cli;
        struct sr_config *config;
        struct sr_host_trial trial;
        struct sr_language_catalogue *languages; // NULL when the catalogue cannot be read
        char *languages_problem;                 // why, else NULL
        struct sr_image_store *store;            // NULL when it cannot be read
        char *store_problem;
};

struct doctor_check {
        const char *name;
        bool needed; // no snippet runs while it is missing
        void (*check)(const struct doctor *d, struct doctor_finding *f);
};

__attribute__((format(printf, 3, 4))) void doctor_found(struct doctor_finding *f, enum doctor_state state,
                                                        const char *format, ...);
__attribute__((format(printf, 2, 3))) void doctor_advise(struct doctor_finding *f, const char *format, ...);

// doctor_kernel.c
void doctor_check_kernel(const struct doctor *d, struct doctor_finding *f);
void doctor_check_user_namespaces(const struct doctor *d, struct doctor_finding *f);
void doctor_check_namespaces(const struct doctor *d, struct doctor_finding *f);
void doctor_check_proc(const struct doctor *d, struct doctor_finding *f);
void doctor_check_seccomp(const struct doctor *d, struct doctor_finding *f);
void doctor_check_system_calls(const struct doctor *d, struct doctor_finding *f);
void doctor_check_cgroups(const struct doctor *d, struct doctor_finding *f);
void doctor_check_landlock(const struct doctor *d, struct doctor_finding *f);
void doctor_check_identity(const struct doctor *d, struct doctor_finding *f);
// doctor_setup.c
void doctor_check_spawner(const struct doctor *d, struct doctor_finding *f);
void doctor_check_image_program(const struct doctor *d, struct doctor_finding *f);
void doctor_check_store(const struct doctor *d, struct doctor_finding *f);
void doctor_check_languages(const struct doctor *d, struct doctor_finding *f);
void doctor_check_images(const struct doctor *d, struct doctor_finding *f);
void doctor_check_history(const struct doctor *d, struct doctor_finding *f);
void doctor_check_run(const struct doctor *d, struct doctor_finding *f);
