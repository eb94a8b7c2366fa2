// `doctor`: what this host offers, what is missing and what brings it. One table of checks; each says what it
// found, what that means and what to do.

#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/doctor.h"

enum { OPTION_JSON = 256, OPTION_STRICT };

static const struct sr_option options[] = {
        {OPTION_STRICT, "strict-limits", NULL, "as runs that are refused where a limit has no cgroup"},
        {OPTION_JSON, "json", NULL, "print a JSON object"},
        {0},
};

static const struct doctor_check checks[] = {
        {"configuration", "configuration", DOCTOR_NEEDED, doctor_check_configuration},
        {"environment", "environment", DOCTOR_OPTIONAL, doctor_check_environment},
        {"kernel", "kernel", DOCTOR_NEED_PROVEN, doctor_check_kernel},
        {"user-namespaces", "user namespaces", DOCTOR_NEED_PROVEN, doctor_check_user_namespaces},
        {"namespaces", "other namespaces", DOCTOR_NEED_PROVEN, doctor_check_namespaces},
        {"proc", "/proc", DOCTOR_NEED_PROVEN, doctor_check_proc},
        {"seccomp", "seccomp", DOCTOR_NEED_PROVEN, doctor_check_seccomp},
        {"landlock", "Landlock", DOCTOR_OPTIONAL, doctor_check_landlock},
        {"limits", "limits", DOCTOR_OPTIONAL, doctor_check_limits},
        {"ids", "user ids", DOCTOR_NEEDED, doctor_check_ids},
        {"spawner", "spawner", DOCTOR_NEEDED, doctor_check_spawner},
        {"image-program", "image program", DOCTOR_OPTIONAL, doctor_check_image_program},
        {"store", "image store", DOCTOR_NEEDED, doctor_check_store},
        {"languages", "languages", DOCTOR_NEEDED, doctor_check_languages},
        {"images", "images", DOCTOR_NEEDED, doctor_check_images},
        {"history", "history", DOCTOR_OPTIONAL, doctor_check_history},
        {"trial-run", "trial run", DOCTOR_NEEDED, doctor_check_run},
};

#define CHECK_COUNT (sizeof(checks) / sizeof(checks[0]))

static const char *const state_names[] = {
        [DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_ERROR] = "error"};

// The paths of our programs as one AppArmor pattern. The command makes the namespaces; the image program does
// too, for recipes.
static char *program_pattern(const struct sr_cli *cli)
{
        static const char *const names[] = {"sandbox-runner-image", "sandbox-runner-spawner"};
        _cleanup_buf_ struct sr_buf pattern = {0};

        if (cli->program_directory == NULL)
                return NULL;
        sr_buf_printf(&pattern, "/{%s/sandbox-runner", cli->program_directory + 1);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                _cleanup_free_ char *path = NULL;

                if (sr_config_find_helper(cli->program_directory, names[i], &path, NULL) == 0)
                        sr_buf_printf(&pattern, ",%s", path + 1);
        }
        sr_buf_append_text(&pattern, "}");
        return sr_buf_steal(&pattern, NULL);
}

// config is a copy of what was read: a trial is nobody's run.
static void open_doctor(struct doctor *d, const struct sr_config *config)
{
        _cleanup_error_ struct sr_error *languages_error = NULL, *store_error = NULL, *runner_error = NULL;

        sr_host_try(&d->trial);
        doctor_facts_read("", d->config->root_id_base, &d->facts);
        d->facts.programs = program_pattern(d->cli);
        d->program = doctor_quote(d->cli->program);
        if (sr_language_load(d->config->catalogues, &d->languages, &languages_error) < 0)
                d->languages_problem = sr_strdup(sr_error_message(languages_error));
        if (sr_image_store_open(d->config->store, d->config->lower_store, &d->store, &store_error) < 0)
                d->store_problem = sr_strdup(sr_error_message(store_error));
        if (sr_runner_new(config, &d->runner, &runner_error) == 0)
                sr_runner_host(d->runner, &d->host);
        else
                d->runner_problem = sr_strdup(sr_error_message(runner_error));
}

static void close_doctor(struct doctor *d)
{
        d->runner = sr_runner_free(d->runner);
        sr_run_host_clear(&d->host);
        sr_freep(&d->runner_problem);
        d->languages = sr_language_free(d->languages);
        d->store = sr_image_store_close(d->store);
        sr_freep(&d->languages_problem);
        sr_freep(&d->store_problem);
        sr_freep(&d->program);
        doctor_facts_clear(&d->facts);
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

// In one line.
static void write_found(struct sr_json_writer *w, const char *found)
{
        _cleanup_buf_ struct sr_buf line = {0};

        for (; *found != '\0'; found++)
                if (*found == '\n')
                        sr_buf_append_text(&line, "; ");
                else
                        sr_buf_append_char(&line, *found);
        write_string(w, "found", line.data != NULL ? line.data : "");
}

static void write_json(const struct doctor *d, const struct doctor_finding *findings, bool ready,
                       struct sr_buf *out)
{
        struct sr_json_writer w = {.out = out, .indent = 2, .first = true};

        sr_json_open_object(&w, NULL);
        sr_json_bool(&w, "ready", ready);
        sr_json_open_object(&w, "limits");
        sr_json_string_or_null(&w, "memory", d->host.memory);
        sr_json_string_or_null(&w, "cpu", d->host.cpu);
        sr_json_string_or_null(&w, "pids", d->host.pids);
        sr_json_close_object(&w);
        sr_json_string_or_null(&w, "ids", d->runner == NULL ? NULL : d->host.own_ids ? "range" : "single");
        sr_json_open_array(&w, "checks");
        for (size_t i = 0; i < CHECK_COUNT; i++) {
                sr_json_open_object(&w, NULL);
                sr_json_string(&w, "id", checks[i].id);
                sr_json_string(&w, "title", checks[i].title);
                sr_json_string(&w, "state", state_names[findings[i].state]);
                sr_json_bool(&w, "needed", checks[i].need != DOCTOR_OPTIONAL);
                write_found(&w, findings[i].found);
                write_string(&w, "fix", findings[i].fix);
                sr_json_close_object(&w);
        }
        sr_json_close_array(&w);
        sr_json_close_object(&w);
        sr_buf_append_char(out, '\n');
}

static void write_text(const struct doctor_finding *findings, bool ready, struct sr_buf *out)
{
        doctor_write_text(checks, findings, CHECK_COUNT, state_names, doctor_text_width(), out);
        sr_buf_append_text(out, ready ? "\nSnippets can run here.\n"
                                      : "\nSnippets cannot run here yet: see the errors.\n");
}

// A program that ran is proof that nothing it needs is missing, whatever was tried apart.
static bool judge(struct doctor_finding *findings)
{
        bool ran = findings[CHECK_COUNT - 1].state == DOCTOR_OK, ready = true;

        for (size_t i = 0; i < CHECK_COUNT; i++) {
                if (ran && checks[i].need == DOCTOR_NEED_PROVEN && findings[i].state == DOCTOR_ERROR)
                        findings[i].state = DOCTOR_WARNING;
                if (checks[i].need != DOCTOR_OPTIONAL && findings[i].state == DOCTOR_ERROR)
                        ready = false;
        }
        return ready;
}

static int examine(struct sr_cli *cli, const struct sr_config *config, char **problems, bool json)
{
        struct doctor d = {.cli = cli, .config = config, .config_problems = problems};
        struct sr_config trial_config = *config;
        struct doctor_finding findings[CHECK_COUNT] = {0};
        _cleanup_buf_ struct sr_buf text = {0};

        trial_config.history_enabled = false; // a trial is nobody's run
        open_doctor(&d, &trial_config);
        for (size_t i = 0; i < CHECK_COUNT; i++)
                checks[i].check(&d, &findings[i]);

        bool ready = judge(findings);

        if (json)
                write_json(&d, findings, ready, &text);
        else
                write_text(findings, ready, &text);
        close_doctor(&d);
        for (size_t i = 0; i < CHECK_COUNT; i++)
                doctor_finding_clear(&findings[i]);

        int status = sr_cli_print(cli, &text);

        return status != SR_EXIT_OK ? status : ready ? SR_EXIT_OK : SR_EXIT_FAILURE;
}

static int doctor_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_config_ struct sr_config *config = NULL;
        _cleanup_strv_ char **problems = NULL;
        bool json = false;

        sr_cli_scan(cli, arguments);
        for (enum sr_cli_item item; (item = sr_cli_next(cli)) != SR_CLI_END;) {
                if (item == SR_CLI_STOP)
                        return cli->status;
                if (item == SR_CLI_WORD)
                        return sr_cli_usage(cli, "unexpected argument \"%s\"", cli->scan.value);
                if (cli->scan.option->id == OPTION_STRICT)
                        sr_strv_append(&cli->flags, sr_strdup(SR_CLI_STRICT_LIMITS));
                else
                        json = true;
        }

        int status = sr_cli_load_config_with(cli, &config, &problems);

        if (status != SR_EXIT_OK)
                return status;
        return examine(cli, config, problems, json);
}

const struct sr_verb sr_verb_doctor = {
        .name = "doctor",
        .usage = (const char *const[]){"doctor [--strict-limits] [--json]", NULL},
        .summary = "check what this host offers and what is missing",
        .description =
                "Checks what a sandbox needs of this host, and this installation, and runs an empty "
                "program.\n"
                "Each line says what was found; an arrow, the command that mends it. Exit status 0 when\n"
                "snippets can run here, 1 when not.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = doctor_main,
};
