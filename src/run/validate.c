// What is refused before anything is started, and where a run's ingredients come from.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "run/limits.h"
#include "run/runner.h"

#define STORE_WAIT_MS  5000
#define STORE_RETRY_MS 20
#define CANCEL_FDS_MAX 4

static bool is_blank(const char *text, size_t length)
{
        for (size_t i = 0; i < length; i++)
                if (strchr(" \t\n\v\f\r", text[i]) == NULL || text[i] == '\0')
                        return false;
        return true;
}

static char *language_names(const struct sr_runner *runner)
{
        struct sr_buf names = {0};

        for (size_t i = 0; i < sr_language_count(runner->languages); i++)
                sr_buf_printf(&names, "%s%s", i > 0 ? ", " : "", sr_language_at(runner->languages, i)->name);
        return sr_buf_steal(&names, NULL);
}

static int refuse_language(const struct sr_runner *runner, const char *name, struct sr_error **error)
{
        _cleanup_free_ char *names = language_names(runner), *faults = NULL, *places = NULL;
        int shown = (int)sr_utf8_prefix(name, strlen(name), 40);

        faults = sr_language_faults(runner->languages, name);
        if (faults != NULL)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "Unsupported language '%.*s': %s.",
                                    shown, name, faults);
        if (*names != '\0')
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "Unsupported language '%.*s'. Supported: %s.", shown, name, names);
        places = sr_config_text_of(runner->config, "languages.directories");
        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                            "Unsupported language '%.*s': no language file was found in %s "
                            "(languages.directories).",
                            shown, name, *places != '\0' ? places : "no directory");
}

int sr_run_validate(const struct sr_runner *runner, const struct sr_run_request *request,
                    struct sr_run_plan *plan, struct sr_error **error)
{
        const struct sr_config *config = runner->config;
        const struct sr_language *language = sr_language_find(runner->languages, request->language);
        int64_t timeout = request->timeout_s;

        if (language == NULL)
                return refuse_language(runner, request->language, error);
        if (is_blank(request->code, request->code_length))
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "The code is empty: send a program to run.");
        if (request->code_length > config->max_code_bytes)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EFBIG,
                                    "The code is %zu bytes long; at most %llu bytes are accepted.",
                                    request->code_length, (unsigned long long)config->max_code_bytes);
        if (timeout < 1 || timeout > config->max_timeout_s)
                return sr_error_set(
                        error, SR_ERROR_BAD_REQUEST, ERANGE,
                        "The time limit asked for (--timeout, timeout_seconds) is %lld s; it must "
                        "be from 1 to %u (run.max_timeout).",
                        (long long)timeout, config->max_timeout_s);
        plan->language = language;
        return sr_run_limits(config, language, request, &plan->compile_limits, &plan->run_limits, error);
}

int sr_run_check_strict(const struct sr_runner *runner, const struct sr_sandbox *sandbox,
                        struct sr_error **error)
{
        _cleanup_free_ char *why = NULL;
        struct sr_limits limits;

        if (!runner->config->strict_limits)
                return 0;
        sr_spawner_limits(runner->spawner, &limits, &why);
        if (sandbox != NULL)
                limits = sr_sandbox_limits(sandbox);
        return sr_run_limits_strict(&limits, why, error);
}

// Waits while the store is being cleaned, but not for ever and not for a run that is to end.
static int hold(const struct sr_runner *runner, struct sr_image *image, const int *cancel_fds,
                size_t cancel_count, struct sr_error **error)
{
        for (int waited = 0; waited <= STORE_WAIT_MS; waited += STORE_RETRY_MS) {
                struct pollfd polls[CANCEL_FDS_MAX];
                int r = sr_image_store_hold(runner->store, image, error);

                if (r != -EAGAIN)
                        return r;
                for (size_t i = 0; i < cancel_count; i++)
                        polls[i] = (struct pollfd){.fd = cancel_fds[i], .events = POLLIN};
                if (poll(polls, cancel_count, STORE_RETRY_MS) > 0)
                        return -ECANCELED;
        }
        return sr_error_set(
                error, SR_ERROR_IMAGE, EBUSY,
                "Somebody has locked the image store for %d seconds (`sandbox-runner image gc` or rm does "
                "while it removes); try again.",
                STORE_WAIT_MS / 1000);
}

// Tries one reference; an image that is merely absent is no error yet.
static int try_image(const struct sr_runner *runner, const char *reference, const int *cancel_fds,
                     size_t cancel_count, struct sr_image **ret, struct sr_error **error)
{
        _cleanup_error_ struct sr_error *found = NULL;
        int r = sr_image_store_find(runner->store, reference, ret, &found);

        if (r == 0)
                r = hold(runner, *ret, cancel_fds, cancel_count, &found);
        if (r == -ENOENT || r == 0)
                return r;
        *ret = sr_image_free(*ret);
        if (r == -ECANCELED)
                return r;
        return sr_error_set(error, sr_error_get_kind(found), -r, "%s", sr_error_message(found));
}

int sr_run_find_image(const struct sr_runner *runner, const struct sr_run_request *request,
                      const struct sr_language *language, const int *cancel_fds, size_t cancel_count,
                      struct sr_image **ret, struct sr_error **error)
{
        const char *wanted = request->image != NULL ? request->image : language->image;
        int r = try_image(runner, wanted, cancel_fds, cancel_count, ret, error);

        for (size_t i = 0;
             request->image == NULL && r == -ENOENT && i < sr_strv_length(language->fallback_images); i++)
                r = try_image(runner, language->fallback_images[i], cancel_fds, cancel_count, ret, error);
        if (r != -ENOENT)
                return r;
        if (request->image == NULL && language->recipe != NULL)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, ENOENT,
                        "The image %s for %s is not here. Build one with `sandbox-runner image build %s`, "
                        "or bring it with `sandbox-runner image import PATH --name %s`.",
                        wanted, language->name, language->recipe, wanted);
        return sr_error_set(
                error, SR_ERROR_IMAGE, ENOENT,
                "The image %s is not here. Bring it with `sandbox-runner image import PATH --name %s`; "
                "`sandbox-runner image list` shows those that are.",
                wanted, wanted);
}

static const char *environment_value(char *const *environment, const char *name)
{
        size_t length = strlen(name);

        for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
                if (strncmp(environment[i], name, length) == 0 && environment[i][length] == '=')
                        return environment[i] + length + 1;
        return NULL;
}

// Sets NAME=value, over an earlier value of the same name.
static void set_variable(char ***environment, char *assignment)
{
        size_t name = (size_t)(strchrnul(assignment, '=') - assignment) + 1;

        for (size_t i = 0; i < sr_strv_length(*environment); i++) {
                if (strncmp((*environment)[i], assignment, name) == 0) {
                        free((*environment)[i]);
                        (*environment)[i] = assignment;
                        return;
                }
        }
        sr_strv_append(environment, assignment);
}

// Fixed values, the image's PATH, then what the language file adds. Nothing of ours.
char **sr_run_environment(const struct sr_language *language, const struct sr_image *image)
{
        static const char *const fixed[] = {
                "HOME=/tmp",    "USER=sandbox", "LOGNAME=sandbox",    "SHELL=/bin/sh",
                "LANG=C.UTF-8", "TMPDIR=/tmp",  "PYTHONUNBUFFERED=1",
        };
        const char *path = environment_value(image->environment, "PATH");
        char **environment = NULL;

        sr_strv_append(&environment,
                       sr_asprintf("PATH=%s", path != NULL ? path
                                                           : "/usr/local/sbin:/usr/local/bin:/usr/sbin:"
                                                             "/usr/bin:/sbin:/bin"));
        for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
                sr_strv_append(&environment, sr_strdup(fixed[i]));
        for (size_t i = 0; language->environment != NULL && language->environment[i] != NULL; i++)
                set_variable(&environment, sr_strdup(language->environment[i]));
        return environment;
}
