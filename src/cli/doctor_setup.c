// The checks of `doctor` that are about this installation: programs, directories, languages, images, and at
// last a real run.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/doctor.h"
#include "cli/languages.h"
#include "run/limits.h"
#include "run/run.h"

void doctor_check_configuration(const struct doctor *d, struct doctor_finding *f)
{
        _cleanup_buf_ struct sr_buf all = {0};

        if (d->config_problems == NULL) {
                doctor_found(f, DOCTOR_OK, "read without a mistake; `%s config` lists it", doctor_program(d));
                return;
        }
        for (size_t i = 0; d->config_problems[i] != NULL; i++)
                sr_buf_printf(&all, "%s%s", i > 0 ? "; " : "", d->config_problems[i]);
        // The message names the file or variable and what is allowed.
        doctor_found(f, DOCTOR_ERROR, "%s (the other checks use defaults in place of what is wrong)",
                     all.data);
        doctor_advise(f, "correct it: no other command runs until then");
}

void doctor_check_environment(const struct doctor *d, struct doctor_finding *f)
{
        static const char prefix[] = "SANDBOX_RUNNER_";
        _cleanup_buf_ struct sr_buf unknown = {0}, fix = {0};

        (void)d;
        for (char *const *entry = environ; *entry != NULL; entry++) {
                _cleanup_free_ char *name = sr_memdup0(*entry, strcspn(*entry, "=")), *nearest = NULL;

                if (strncmp(name, prefix, strlen(prefix)) != 0 || sr_config_knows_variable(name, &nearest))
                        continue;
                sr_buf_printf(&unknown, "%s%s", unknown.len > 0 ? ", " : "", name);
                if (nearest != NULL)
                        sr_buf_printf(&unknown, " (did you mean %s?)", nearest);
                sr_buf_printf(&fix, " %s", name);
        }
        if (unknown.len == 0) {
                doctor_found(f, DOCTOR_OK, "no SANDBOX_RUNNER_* variable without a meaning");
                return;
        }
        doctor_found(f, DOCTOR_WARNING, "set, but no variable of this program's, and without effect: %s",
                     unknown.data);
        doctor_fix(f, "unset%s", fix.data);
}

static void check_program(const struct doctor *d, struct doctor_finding *f, const char *name)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_free_ char *path = NULL;

        if (sr_config_find_helper(d->cli->program_directory, name, &path, &error) == 0) {
                doctor_found(f, DOCTOR_OK, "%s", path);
                return;
        }
        doctor_found(f, DOCTOR_ERROR, "%s", sr_error_message(error));
        doctor_advise(f, "build or install all of the project: its programs work together");
}

void doctor_check_spawner(const struct doctor *d, struct doctor_finding *f)
{
        check_program(d, f, "sandbox-runner-spawner");
}

void doctor_check_image_program(const struct doctor *d, struct doctor_finding *f)
{
        check_program(d, f, "sandbox-runner-image");
}

// A language whose file gives runs more than a ceiling is there, but each of its runs is refused. The
// refusal, freed by the caller; NULL when there is none.
static struct sr_error *refusal_of(const struct doctor *d, const struct sr_language *language)
{
        const struct sr_run_request request = {.timeout_s = d->config->default_timeout_s};
        struct sr_config_stage compile, run;
        struct sr_error *error = NULL;

        (void)sr_run_limits(d->config, language, &request, &compile, &run, &error);
        return error;
}

void doctor_check_languages(const struct doctor *d, struct doctor_finding *f)
{
        _cleanup_buf_ struct sr_buf names = {0}, faults = {0};
        bool is_refused = false;

        if (d->languages == NULL) {
                doctor_found(f, DOCTOR_ERROR, "%s", d->languages_problem);
                return;
        }
        for (size_t i = 0; i < sr_language_problem_count(d->languages); i++) {
                const struct sr_language_problem *problem = sr_language_problem_at(d->languages, i);

                sr_buf_printf(&faults, "\nnot used: %s: %s", problem->path, problem->reason);
        }
        for (size_t i = 0; i < sr_language_count(d->languages); i++) {
                const struct sr_language *language = sr_language_at(d->languages, i);
                _cleanup_error_ struct sr_error *error = refusal_of(d, language);

                sr_buf_printf(&names, "%s%s", i > 0 ? ", " : "", language->name);
                if (error != NULL)
                        sr_buf_printf(&faults, "\nno runs of %s: %s", language->name,
                                      sr_error_message(error));
                is_refused |= error != NULL;
        }
        if (names.len == 0) {
                doctor_found(f, DOCTOR_ERROR, "there is none%s", faults.len > 0 ? faults.data : "");
                doctor_advise(f, "%s --set languages.directories=DIRECTORY, of language files",
                              doctor_program(d));
        } else if (faults.len > 0) {
                doctor_found(f, DOCTOR_WARNING, "%s%s", names.data, faults.data);
                doctor_advise(f, "correct these files%s%s%s",
                              is_refused ? ", or raise the ceilings that `" : "",
                              is_refused ? doctor_program(d) : "", is_refused ? " config` lists" : "");
        } else {
                doctor_found(f, DOCTOR_OK, "%s", names.data);
        }
}

// Lists of languages, each under what they have in common.
struct groups {
        char **heads;
        char **names;
};

static void add_to_group(struct groups *groups, const char *head, const char *name)
{
        for (size_t i = 0; groups->heads != NULL && groups->heads[i] != NULL; i++)
                if (strcmp(groups->heads[i], head) == 0) {
                        char *longer = sr_asprintf("%s, %s", groups->names[i], name);

                        free(groups->names[i]);
                        groups->names[i] = longer;
                        return;
                }
        sr_strv_append(&groups->heads, sr_strdup(head));
        sr_strv_append(&groups->names, sr_strdup(name));
}

static void clear_groups(struct groups *groups)
{
        groups->heads = sr_strv_free(groups->heads);
        groups->names = sr_strv_free(groups->names);
}

static void fix_images(const struct doctor *d, struct doctor_finding *f, char *const *recipes)
{
        _cleanup_buf_ struct sr_buf command = {0};

        for (size_t i = 0; recipes != NULL && recipes[i] != NULL; i++) {
                _cleanup_free_ char *recipe = doctor_quote(recipes[i]);

                sr_buf_printf(&command, "%s%s image build %s", i > 0 ? " && " : "", doctor_program(d),
                              recipe);
        }
        if (command.len > 0)
                doctor_fix(f, "%s", command.data);
        else
                doctor_fix(f, "%s image import PATH --name REFERENCE", doctor_program(d));
}

void doctor_check_images(const struct doctor *d, struct doctor_finding *f)
{
        struct groups ready = {0}, absent = {0}, recipes = {0};
        _cleanup_buf_ struct sr_buf found = {0};

        if (d->languages == NULL || d->store == NULL) {
                doctor_found(f, DOCTOR_ERROR, "not looked at, because an earlier check failed");
                return;
        }
        for (size_t i = 0; i < sr_language_count(d->languages); i++) {
                const struct sr_language *language = sr_language_at(d->languages, i);
                _cleanup_error_ struct sr_error *error = NULL;
                const char *reference = NULL;
                int r = sr_languages_ready(d->store, language, &reference, &error);

                if (reference != NULL) {
                        add_to_group(&ready, reference, language->name);
                        continue;
                }
                add_to_group(&absent, r < 0 ? sr_error_message(error) : language->image, language->name);
                if (language->recipe != NULL)
                        add_to_group(&recipes, language->recipe, language->name);
        }
        for (size_t i = 0; ready.heads != NULL && ready.heads[i] != NULL; i++)
                sr_buf_printf(&found, "%s%s for %s", i > 0 ? "; " : "", ready.heads[i], ready.names[i]);
        for (size_t i = 0; absent.heads != NULL && absent.heads[i] != NULL; i++)
                sr_buf_printf(&found, "%snone for %s (%s)", found.len > 0 ? "; " : "", absent.names[i],
                              absent.heads[i]);
        if (found.len == 0)
                sr_buf_append_text(&found, "none for any language");
        doctor_found(f,
                     ready.heads == NULL    ? DOCTOR_ERROR
                     : absent.heads != NULL ? DOCTOR_WARNING
                                            : DOCTOR_OK,
                     "%s", found.data);
        if (f->state != DOCTOR_OK)
                fix_images(d, f, recipes.heads);
        clear_groups(&ready);
        clear_groups(&absent);
        clear_groups(&recipes);
}

// What one trial costs when it fails is a run's timeout.
#define TRIALS_MAX 3

struct trials {
        bool ran;
        size_t failed, refused; // refused before it was tried
        struct sr_buf faults;
        const char *recipe; // of one that failed
};

static void try_language(const struct doctor *d, const struct sr_language *language, struct doctor_finding *f,
                         struct trials *trials)
{
        // A comment in most languages. Where it is a mistake instead, the interpreter that says so has run
        // too.
        struct sr_run_request request = {.language = language->name,
                                         .code = "#\n",
                                         .code_length = 2,
                                         .timeout_s = d->config->default_timeout_s,
                                         .stdin_fd = -1};
        _cleanup_result_ struct sr_run_result *result = sr_runner_execute(d->runner, &request, NULL);

        if (result->accepted && result->reason == SR_REASON_EXIT) {
                doctor_found(f, trials->failed > 0 ? DOCTOR_WARNING : DOCTOR_OK,
                             "an empty %s program ran in %s in %.0f ms%s%s", language->name, result->image,
                             result->duration_ms, trials->failed > 0 ? "\n" : "",
                             trials->failed > 0 ? trials->faults.data : "");
                // Where one runs, it is not the host that another does not.
                if (trials->recipe != NULL)
                        doctor_fix(f, "%s image build %s", doctor_program(d), trials->recipe);
                trials->ran = true;
                return;
        }
        sr_buf_printf(&trials->faults, "%san empty %s program did not run: %s: %s",
                      trials->failed > 0 ? "\n" : "", language->name, sr_run_reason_name(result->reason),
                      result->err);
        trials->failed++;
        if (result->accepted && language->recipe != NULL)
                trials->recipe = language->recipe;
}

// Those that are ready and not refused, until one has run.
static void try_languages(const struct doctor *d, bool compiled, struct doctor_finding *f,
                          struct trials *trials)
{
        for (size_t i = 0; d->languages != NULL && d->store != NULL && i < sr_language_count(d->languages);
             i++) {
                const struct sr_language *language = sr_language_at(d->languages, i);
                const char *reference = NULL;

                if (trials->ran || trials->failed >= TRIALS_MAX)
                        return;
                if ((language->compile != NULL) != compiled ||
                    sr_languages_ready(d->store, language, &reference, NULL) < 0 || reference == NULL)
                        continue;
                _cleanup_error_ struct sr_error *refusal = refusal_of(d, language);

                if (refusal != NULL)
                        trials->refused++;
                else
                        try_language(d, language, f, trials);
        }
}

void doctor_check_run(const struct doctor *d, struct doctor_finding *f)
{
        struct trials trials = {0};

        if (d->runner == NULL) {
                // What the trial of the host met is explained where it belongs.
                if (d->trial.failed != SR_HOST_ALL_DONE)
                        doctor_found(f, DOCTOR_ERROR, "not tried, because no sandbox can be made");
                else
                        doctor_found(f, DOCTOR_ERROR, "no sandbox can be made: %s", d->runner_problem);
                return;
        }
        // An interpreted language before a compiled one, which takes longer.
        try_languages(d, false, f, &trials);
        try_languages(d, true, f, &trials);
        if (!trials.ran && trials.failed > 0)
                doctor_found(f, DOCTOR_ERROR, "%s", trials.faults.data);
        else if (!trials.ran)
                doctor_found(f, DOCTOR_ERROR, "sandboxes can be made; not tried, because %s",
                             trials.refused > 0
                                     ? "the files of all languages that are ready give runs more than "
                                       "a ceiling (see languages)"
                                     : "no language is ready");
        sr_buf_clear(&trials.faults);
}
