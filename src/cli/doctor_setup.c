// The checks of `doctor` that are about this installation: programs, directories, languages, images, and at
// last a real run.

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/doctor.h"
#include "cli/languages.h"
#include "history/history.h"
#include "run/run.h"

void doctor_check_configuration(const struct doctor *d, struct doctor_finding *f)
{
        _cleanup_buf_ struct sr_buf all = {0};

        if (d->config_problems == NULL) {
                doctor_found(f, DOCTOR_OK, "read without a mistake; `sandbox-runner config` lists it");
                return;
        }
        for (size_t i = 0; d->config_problems[i] != NULL; i++)
                sr_buf_printf(&all, "%s%s", i > 0 ? "; " : "", d->config_problems[i]);
        // The message names the file or variable and what is allowed.
        doctor_found(f, DOCTOR_ERROR, "%s (the other checks use defaults in place of what is wrong)",
                     all.data);
        doctor_fix(f, "correct it: no other command runs until then");
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
        doctor_fix(f, "build or install all of the project: its programs work together");
}

void doctor_check_spawner(const struct doctor *d, struct doctor_finding *f)
{
        check_program(d, f, "sandbox-runner-spawner");
}

void doctor_check_image_program(const struct doctor *d, struct doctor_finding *f)
{
        check_program(d, f, "sandbox-runner-image");
}

// Whether path can be written or made: 0, or the errno of the nearest part that exists.
static int check_writable(const char *path, bool *ret_exists)
{
        _cleanup_free_ char *part = sr_strdup(path);

        *ret_exists = access(part, F_OK) == 0;
        while (access(part, F_OK) < 0 && errno == ENOENT) {
                char *slash = strrchr(part, '/');

                if (slash == NULL)
                        return ENOENT;
                slash[slash == part ? 1 : 0] = '\0';
        }
        return access(part, W_OK) == 0 ? 0 : errno;
}

void doctor_check_store(const struct doctor *d, struct doctor_finding *f)
{
        bool exists;
        int problem = check_writable(d->config->store, &exists);

        if (d->store == NULL) {
                doctor_found(f, DOCTOR_ERROR, "%s", d->store_problem);
                doctor_fix(f, "name another directory with --store or images.store");
        } else if (problem != 0) {
                doctor_found(f, DOCTOR_WARNING, "%s cannot be written: %s; images cannot be brought in",
                             d->config->store, strerror(problem));
                doctor_fix(f, "make it writable, or name another directory with --store or images.store");
        } else {
                doctor_found(f, DOCTOR_OK, "%s%s%s%s", d->config->store,
                             exists ? "" : ", to be made with the first image",
                             d->config->lower_store != NULL ? "; under it " : "",
                             d->config->lower_store != NULL ? d->config->lower_store : "");
        }
}

void doctor_check_languages(const struct doctor *d, struct doctor_finding *f)
{
        _cleanup_buf_ struct sr_buf names = {0}, faults = {0};

        if (d->languages == NULL) {
                doctor_found(f, DOCTOR_ERROR, "%s", d->languages_problem);
                return;
        }
        for (size_t i = 0; i < sr_language_count(d->languages); i++)
                sr_buf_printf(&names, "%s%s", i > 0 ? ", " : "", sr_language_at(d->languages, i)->name);
        for (size_t i = 0; i < sr_language_problem_count(d->languages); i++) {
                const struct sr_language_problem *problem = sr_language_problem_at(d->languages, i);

                sr_buf_printf(&faults, "%s%s: %s", i > 0 ? "; " : "", problem->path, problem->reason);
        }
        if (names.len == 0) {
                doctor_found(f, DOCTOR_ERROR, "there is none%s%s", faults.len > 0 ? ": " : "",
                             faults.len > 0 ? faults.data : "");
                doctor_fix(f, "name a directory of language files with languages.directories");
        } else if (faults.len > 0) {
                doctor_found(f, DOCTOR_WARNING, "%s; not used: %s", names.data, faults.data);
                doctor_fix(f, "correct these files");
        } else {
                doctor_found(f, DOCTOR_OK, "%s", names.data);
        }
}

void doctor_check_images(const struct doctor *d, struct doctor_finding *f)
{
        _cleanup_buf_ struct sr_buf ready = {0}, absent = {0}, advice = {0};

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
                        sr_buf_printf(&ready, "%s%s for %s", ready.len > 0 ? ", " : "", reference,
                                      language->name);
                        continue;
                }
                sr_buf_printf(&absent, "%s%s (%s)", absent.len > 0 ? ", " : "", language->name,
                              r < 0 ? sr_error_message(error) : language->image);
                if (language->recipe != NULL)
                        sr_buf_printf(&advice, "%ssandbox-runner image build %s", advice.len > 0 ? "; " : "",
                                      language->recipe);
        }
        if (absent.len == 0 && ready.len > 0) {
                doctor_found(f, DOCTOR_OK, "%s", ready.data);
                return;
        }
        doctor_found(f, ready.len > 0 ? DOCTOR_WARNING : DOCTOR_ERROR, "%s%snone for %s",
                     ready.len > 0 ? ready.data : "", ready.len > 0 ? "; " : "",
                     absent.len > 0 ? absent.data : "any language");
        doctor_fix(f, "%s",
                   advice.len > 0 ? advice.data : "sandbox-runner image import PATH --name REFERENCE");
}

void doctor_check_history(const struct doctor *d, struct doctor_finding *f)
{
        const char *path = d->config->database;
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_history_ struct sr_history *history = NULL;
        _cleanup_free_ char *notice = NULL;
        struct sr_history_record *records = NULL;
        size_t count = 0;
        bool exists;

        if (!d->config->history_enabled) {
                doctor_found(f, DOCTOR_OK, "switched off (history.enabled)");
                return;
        }

        int problem = check_writable(path, &exists);

        if (sr_history_open(path, true, &history, &notice, &error) < 0 ||
            sr_history_list(history, 1, &records, &count, &error) < 0) {
                doctor_found(f, DOCTOR_WARNING, "%s", sr_error_message(error));
                doctor_fix(f, "runs go on without it; move the file away or name another with --db");
                return;
        }
        sr_history_records_free(records, count);
        if (problem != 0) {
                doctor_found(f, DOCTOR_WARNING, "%s cannot be written: %s; runs go on without being recorded",
                             path, strerror(problem));
                doctor_fix(f, "make it writable, or name another file with --db or history.database");
                return;
        }
        doctor_found(f, DOCTOR_OK, "%s%s", path, exists ? "" : ", to be made with the first run");
}

// An interpreted language before a compiled one, which takes longer; NULL when none is ready.
static const struct sr_language *pick_language(const struct doctor *d)
{
        const struct sr_language *picked = NULL;

        for (size_t i = 0; d->languages != NULL && d->store != NULL && i < sr_language_count(d->languages);
             i++) {
                const struct sr_language *language = sr_language_at(d->languages, i);
                const char *reference = NULL;

                if (sr_languages_ready(d->store, language, &reference, NULL) < 0 || reference == NULL)
                        continue;
                if (picked == NULL || (picked->compile != NULL && language->compile == NULL))
                        picked = language;
        }
        return picked;
}

void doctor_check_run(const struct doctor *d, struct doctor_finding *f)
{
        const struct sr_language *language = pick_language(d);
        _cleanup_result_ struct sr_run_result *result = NULL;

        if (d->runner == NULL) {
                // What the trial of the host met is explained where it belongs.
                if (d->trial.failed != SR_HOST_ALL_DONE)
                        doctor_found(f, DOCTOR_ERROR, "not tried, because no sandbox can be made");
                else
                        doctor_found(f, DOCTOR_ERROR, "no sandbox can be made: %s", d->runner_problem);
                return;
        }
        if (language == NULL) {
                doctor_found(f, DOCTOR_ERROR,
                             "sandboxes can be made; not tried, because no language is ready");
                return;
        }

        // A comment in most languages. Where it is a mistake instead, the interpreter that says so has run
        // too.
        struct sr_run_request request = {.language = language->name,
                                         .code = "#\n",
                                         .code_length = 2,
                                         .timeout_s = d->config->default_timeout_s,
                                         .stdin_fd = -1};

        result = sr_runner_execute(d->runner, &request, NULL);
        if (result->accepted && result->reason == SR_REASON_EXIT)
                doctor_found(f, DOCTOR_OK, "an empty %s program ran in %s in %.0f ms", language->name,
                             result->image, result->duration_ms);
        else
                doctor_found(f, DOCTOR_ERROR, "an empty %s program did not run: %s: %s", language->name,
                             sr_run_reason_name(result->reason), result->err);
}
