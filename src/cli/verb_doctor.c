// `doctor`: what this host offers, what is missing and what brings it. One table of checks; each says what it
// found, what that means and what to do.

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/text.h"

enum { OPTION_JSON = 256 };

static const struct sr_option options[] = {
        {OPTION_JSON, "json", NULL, "print a JSON object"},
        {0},
};

static const struct doctor_check checks[] = {
        {"kernel", true, doctor_check_kernel},
        {"system calls", true, doctor_check_system_calls},
        {"user namespaces", true, doctor_check_user_namespaces},
        {"other namespaces", true, doctor_check_namespaces},
        {"/proc", true, doctor_check_proc},
        {"seccomp", true, doctor_check_seccomp},
        {"control groups", false, doctor_check_cgroups},
        {"Landlock", false, doctor_check_landlock},
        {"user ids", true, doctor_check_identity},
        {"spawner", true, doctor_check_spawner},
        {"image program", false, doctor_check_image_program},
        {"image store", true, doctor_check_store},
        {"languages", true, doctor_check_languages},
        {"images", true, doctor_check_images},
        {"history", false, doctor_check_history},
        {"trial run", true, doctor_check_run},
};

#define CHECK_COUNT (sizeof(checks) / sizeof(checks[0]))

static const char *const state_names[] = {
        [DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_MISSING] = "missing"};

void doctor_found(struct doctor_finding *f, enum doctor_state state, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        free(f->detail);
        f->state = state;
        f->detail = sr_vasprintf(format, arguments);
        va_end(arguments);
}

void doctor_advise(struct doctor_finding *f, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        free(f->advice);
        f->advice = sr_vasprintf(format, arguments);
        va_end(arguments);
}

static void open_doctor(struct doctor *d)
{
        _cleanup_error_ struct sr_error *languages_error = NULL, *store_error = NULL;

        sr_host_try_namespaces(&d->trial);
        if (sr_language_load(d->config->catalogues, &d->languages, &languages_error) < 0)
                d->languages_problem = sr_strdup(sr_error_message(languages_error));
        if (sr_image_store_open(d->config->store, d->config->lower_store, &d->store, &store_error) < 0)
                d->store_problem = sr_strdup(sr_error_message(store_error));
}

static void close_doctor(struct doctor *d)
{
        d->languages = sr_language_free(d->languages);
        d->store = sr_image_store_close(d->store);
        sr_freep(&d->languages_problem);
        sr_freep(&d->store_problem);
}

static void write_string(struct sr_json_writer *w, const char *key, const char *text)
{
        // Paths may hold any bytes; JSON may not.
        _cleanup_buf_ struct sr_buf clean = {0};

        if (text == NULL) {
                sr_json_null(w, key);
                return;
        }
        sr_utf8_append_sanitized(&clean, text, strlen(text));
        sr_json_string(w, key, clean.data != NULL ? clean.data : "");
}

static void write_json(const struct doctor_finding *findings, bool ready, struct sr_buf *out)
{
        struct sr_json_writer w = {.out = out, .indent = 2, .first = true};

        sr_json_open_object(&w, NULL);
        sr_json_bool(&w, "ready", ready);
        sr_json_open_array(&w, "checks");
        for (size_t i = 0; i < CHECK_COUNT; i++) {
                sr_json_open_object(&w, NULL);
                sr_json_string(&w, "name", checks[i].name);
                sr_json_string(&w, "state", state_names[findings[i].state]);
                sr_json_bool(&w, "needed", checks[i].needed);
                write_string(&w, "detail", findings[i].detail);
                write_string(&w, "advice", findings[i].advice);
                sr_json_close_object(&w);
        }
        sr_json_close_array(&w);
        sr_json_close_object(&w);
        sr_buf_append_char(out, '\n');
}

static void write_text(const struct doctor_finding *findings, bool ready, struct sr_buf *out)
{
        _cleanup_table_ struct sr_text_table table = {.columns = 3};

        for (size_t i = 0; i < CHECK_COUNT; i++) {
                sr_text_table_add(&table, state_names[findings[i].state]);
                sr_text_table_add(&table, checks[i].name);
                sr_text_table_add(&table, findings[i].detail);
                if (findings[i].advice != NULL) {
                        sr_text_table_add(&table, " ");
                        sr_text_table_add(&table, " ");
                        sr_text_table_addf(&table, "→ %s", findings[i].advice);
                }
        }
        sr_text_table_print(&table, out);
        sr_buf_append_text(out, ready ? "\nSnippets can run here.\n"
                                      : "\nSnippets cannot run here yet: see what is missing.\n");
}

static int examine(struct sr_cli *cli, struct sr_config *config, bool json)
{
        struct doctor d = {.cli = cli, .config = config};
        struct doctor_finding findings[CHECK_COUNT] = {0};
        _cleanup_buf_ struct sr_buf text = {0};
        bool ready = true;

        open_doctor(&d);
        for (size_t i = 0; i < CHECK_COUNT; i++) {
                checks[i].check(&d, &findings[i]);
                if (checks[i].needed && findings[i].state == DOCTOR_MISSING)
                        ready = false;
        }
        close_doctor(&d);
        (json ? write_json : write_text)(findings, ready, &text);
        for (size_t i = 0; i < CHECK_COUNT; i++) {
                free(findings[i].detail);
                free(findings[i].advice);
        }

        int status = sr_cli_print(cli, &text);

        return status != SR_EXIT_OK ? status : ready ? SR_EXIT_OK : SR_EXIT_FAILURE;
}

static int doctor_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_config_ struct sr_config *config = NULL;
        bool json = false;

        sr_cli_scan(cli, arguments);
        for (enum sr_cli_item item; (item = sr_cli_next(cli)) != SR_CLI_END;) {
                if (item == SR_CLI_STOP)
                        return cli->status;
                if (item == SR_CLI_WORD)
                        return sr_cli_usage(cli, "unexpected argument \"%s\"", cli->scan.value);
                json = true;
        }

        int status = sr_cli_load_config(cli, &config);

        if (status != SR_EXIT_OK)
                return status;
        return examine(cli, config, json);
}

const struct sr_verb sr_verb_doctor = {
        .name = "doctor",
        .usage = (const char *const[]){"doctor [--json]", NULL},
        .summary = "check what this host offers and what is missing",
        .description =
                "Checks what a sandbox needs of this host, and this installation, and runs an empty "
                "program.\n"
                "Each line says what was found; an arrow, what to do. Exit status 0 when snippets can run\n"
                "here, 1 when not.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = doctor_main,
};
