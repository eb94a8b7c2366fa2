// Gathers the values: defaults, files, environment, flags, in that order; then what must agree is checked.
//
// Nothing is read that cannot matter: the two configuration files (one small read each where they exist), one
// stat for images/ and one for rootfs/ beside the program, the processors this process may use, and the
// password database only when HOME is missing.

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "config/internal.h"

#define FILE_LIMIT (1024 * 1024)
// Groups of members, lists in them: nothing nests deeper.
#define FILE_DEPTH 3
#define PREFIX     "SANDBOX_RUNNER_"

void config_note_source(struct config_loader *loader, const struct config_tunable *tunable,
                        const char *source)
{
        char **to = &loader->config->sources[config_index(tunable)].source;

        if (*to != NULL && strcmp(*to, source) == 0)
                return;
        free(*to);
        *to = sr_strdup(source);
}

// Takes note of a mistake where the caller wants to hear of all of them; else hands it on.
static int note_problem(const struct config_loader *loader, int r, struct sr_error **error)
{
        if (r >= 0 || loader->input->problems == NULL)
                return r;
        sr_strv_append(loader->input->problems, sr_strdup(sr_error_message(*error)));
        *error = sr_error_free(*error);
        return 0;
}

static int unknown_name(const char *where, const char *name, struct sr_error **error)
{
        _cleanup_free_ char *shown = config_shown(name);
        const char *nearest = config_nearest(name);

        if (nearest != NULL)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "%s: there is no setting \"%s\"; did you mean \"%s\"?", where, shown,
                                    nearest);
        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                            "%s: there is no setting \"%s\"; `sandbox-runner config` lists those there are",
                            where, shown);
}

// The elements of an array of strings.
static int item_list(const cJSON *item, char ***ret, struct sr_error **error)
{
        _cleanup_strv_ char **list = sr_new_array(char *, 1);
        const cJSON *element;

        cJSON_ArrayForEach(element, item)
        {
                size_t length = 0;
                _cleanup_free_ char *text = sr_json_string_value(element, &length);

                if (text == NULL || strlen(text) != length)
                        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                            "each element must be a string without NUL");
                sr_strv_append(&list, sr_steal(text));
        }
        *ret = sr_steal(list);
        return 0;
}

// A JSON value as the text that an environment variable would hold.
static int item_text(const cJSON *item, enum config_kind kind, char **ret, struct sr_error **error)
{
        bool textual = kind == CONFIG_PATH || kind == CONFIG_PATHS || kind == CONFIG_CHOICE;

        if (cJSON_IsString(item)) {
                size_t length = 0;
                _cleanup_free_ char *text = sr_json_string_value(item, &length);

                if (text == NULL || strlen(text) != length)
                        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                            "the text must not hold a NUL");
                *ret = sr_steal(text);
                return 0;
        }
        if (cJSON_IsBool(item) && kind == CONFIG_BOOL) {
                *ret = sr_strdup(cJSON_IsTrue(item) ? "true" : "false");
                return 0;
        }
        if (cJSON_IsNumber(item) && !textual && kind != CONFIG_BOOL) {
                // Whole numbers of more digits are out of every range.
                *ret = sr_asprintf("%.15g", item->valuedouble);
                return 0;
        }
        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "the value must be %s",
                            kind == CONFIG_BOOL    ? "true or false"
                            : kind == CONFIG_PATHS ? "a string or an array of strings"
                            : textual              ? "a string"
                                                   : "a number or a string");
}

struct file {
        const char *source; // "file PATH"
        char *directory;    // that relative paths start from
};

static int set_item(struct config_loader *loader, const struct file *file, const char *name,
                    const cJSON *item, struct sr_error **error)
{
        const struct config_tunable *tunable = config_find(name);
        const char *path = file->source + strlen("file ");
        int r;

        if (tunable == NULL)
                return unknown_name(path, name, error);
        if (strcmp(loader->config->sources[config_index(tunable)].source, file->source) == 0)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "%s: %s is given twice", path, name);
        if (tunable->kind == CONFIG_PATHS && cJSON_IsArray(item)) {
                _cleanup_strv_ char **list = NULL;

                r = item_list(item, &list, error);
                if (r == 0)
                        r = config_set_list(loader->config, tunable, list, config_home(loader),
                                            file->directory, error);
        } else {
                _cleanup_free_ char *text = NULL;

                r = item_text(item, tunable->kind, &text, error);
                if (r == 0)
                        r = config_set(loader->config, tunable, text, config_home(loader), file->directory,
                                       error);
        }
        if (r < 0)
                return sr_error_prefix(error, r, "%s: %s", path, name);
        config_note_source(loader, tunable, file->source);
        return 0;
}

// Whether tunables begin with it and a dot.
static bool is_group(const char *name)
{
        size_t length = strlen(name);

        for (size_t i = 0; i < config_tunable_count; i++)
                if (strncmp(config_tunables[i].name, name, length) == 0 &&
                    config_tunables[i].name[length] == '.')
                        return true;
        return false;
}

static int set_entry(struct config_loader *loader, const struct file *file, const cJSON *entry,
                     struct sr_error **error)
{
        if (is_group(entry->string))
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "%s: \"%s\" must hold a JSON object, as in {\"run\": {\"timeout\": 10}}",
                                    file->source + strlen("file "), entry->string);
        return set_item(loader, file, entry->string, entry, error);
}

static int set_document(struct config_loader *loader, const struct file *file, const cJSON *document,
                        struct sr_error **error)
{
        const cJSON *entry, *item;

        if (!cJSON_IsObject(document))
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "%s: must hold a JSON object, as in {\"run\": {\"timeout\": 10}}",
                                    file->source + strlen("file "));
        cJSON_ArrayForEach(entry, document)
        {
                if (!cJSON_IsObject(entry)) {
                        int r = note_problem(loader, set_entry(loader, file, entry, error), error);

                        if (r < 0)
                                return r;
                        continue;
                }
                cJSON_ArrayForEach(item, entry)
                {
                        _cleanup_free_ char *name = sr_asprintf("%s.%s", entry->string, item->string);
                        int r = note_problem(loader, set_item(loader, file, name, item, error), error);

                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

// A file that is absent is skipped unless somebody named it.
static int read_file(struct config_loader *loader, const char *path, bool named, struct sr_error **error)
{
        _cleanup_buf_ struct sr_buf text = {0};
        _cleanup_json_ cJSON *document = NULL;
        int r = sr_fd_read_file(AT_FDCWD, path, FILE_LIMIT, &text);

        if ((r == -ENOENT || r == -ENOTDIR) && !named)
                return 0;
        if (r == -EFBIG)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EFBIG,
                                    "configuration file %s is larger than 1 MiB; that cannot be right", path);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, -r,
                                    "cannot read the configuration file %s: %s", path, strerror(-r));
        r = sr_json_parse(text.data != NULL ? text.data : "", text.len, FILE_DEPTH, &document, error);
        if (r < 0)
                return sr_error_prefix(error, r, "%s", path);

        _cleanup_free_ char *source = sr_asprintf("file %s", path);
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *directory =
                slash > path ? sr_memdup0(path, (size_t)(slash - path)) : sr_strdup("/");
        struct file file = {.source = source, .directory = directory};

        return set_document(loader, &file, document, error);
}

static int set_files(struct config_loader *loader, struct sr_error **error)
{
        const char *named = loader->input->config_file;
        _cleanup_free_ char *system = sr_asprintf("%s/config.json", config_system_directory(loader));
        int r = note_problem(loader, read_file(loader, system, false, error), error);

        if (r < 0)
                return r;
        if (named == NULL)
                named = config_lookup(loader, PREFIX "CONFIG");
        if (named != NULL && *named != '\0') {
                _cleanup_free_ char *path = NULL;

                r = config_resolve(named, config_home(loader), config_cwd(loader), &path, error);
                if (r < 0)
                        r = sr_error_prefix(error, r, PREFIX "CONFIG");
                else
                        r = read_file(loader, path, true, error);
                return note_problem(loader, r, error);
        }

        _cleanup_free_ char *path = config_xdg_path(loader, "XDG_CONFIG_HOME", ".config", "config.json");

        return path != NULL ? note_problem(loader, read_file(loader, path, false, error), error) : 0;
}

// Variables of other names are somebody else's: SANDBOX_RUNNER_URL belongs to the remote backend.
static int set_environment(struct config_loader *loader, struct sr_error **error)
{
        for (char *const *entry = loader->input->environment; entry != NULL && *entry != NULL; entry++) {
                if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0)
                        continue;
                for (size_t i = 0; i < config_tunable_count; i++) {
                        const struct config_tunable *tunable = &config_tunables[i];
                        _cleanup_free_ char *variable = config_variable(tunable);
                        size_t length = strlen(variable);

                        if (strncmp(*entry, variable, length) != 0 || (*entry)[length] != '=')
                                continue;
                        // Set to nothing is not set, as with the XDG variables.
                        if ((*entry)[length + 1] == '\0')
                                break;

                        _cleanup_free_ char *source = sr_asprintf("environment %s", variable);
                        int r = config_set(loader->config, tunable, *entry + length + 1, config_home(loader),
                                           config_cwd(loader), error);

                        if (r == 0) {
                                config_note_source(loader, tunable, source);
                                break;
                        }
                        r = note_problem(loader, sr_error_prefix(error, r, "%s: %s", variable, tunable->name),
                                         error);
                        if (r < 0)
                                return r;
                        break;
                }
        }
        return 0;
}

static int set_flags(struct config_loader *loader, struct sr_error **error)
{
        for (char *const *flag = loader->input->flags; flag != NULL && *flag != NULL; flag++) {
                const char *equals = strchr(*flag, '=');

                if (equals == NULL) {
                        _cleanup_free_ char *shown = config_shown(*flag);

                        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                            "\"%s\" sets nothing: give NAME=VALUE, as in run.timeout=20",
                                            shown);
                }

                _cleanup_free_ char *name = sr_memdup0(*flag, (size_t)(equals - *flag));
                const struct config_tunable *tunable = config_find(name);
                int r;

                if (tunable == NULL)
                        return unknown_name("--set", name, error);
                r = config_set(loader->config, tunable, equals + 1, config_home(loader), config_cwd(loader),
                               error);
                if (r < 0)
                        return sr_error_prefix(error, r, "--set %s", name);
                config_note_source(loader, tunable, "flag");
        }
        return 0;
}

static bool is_default(const struct sr_config *config, const char *name)
{
        return strcmp(config->sources[config_index(config_find(name))].source, "default") == 0;
}

static int need_path(const char *path, const char *name, const char *xdg, struct sr_error **error)
{
        _cleanup_free_ char *variable = config_variable(config_find(name));

        if (path != NULL)
                return 0;
        return sr_error_set(
                error, SR_ERROR_BAD_REQUEST, ENOENT,
                "%s: no home directory is known for user %u (HOME is not set to an absolute path and the "
                "password database has none): set HOME, %s or %s",
                name, (unsigned)getuid(), xdg, variable);
}

static const char *where_from(const struct sr_config *config, const char *name)
{
        const char *source = config->sources[config_index(config_find(name))].source;

        return strcmp(source, "flag") == 0 ? "--set" : source;
}

// What a run may ask for, and what it gets when it does not ask.
static const struct {
        const char *name, *ceiling;
} ceilings[] = {
        {"run.timeout", "run.max_timeout"},
        {"run.memory", "run.max_memory"},
        {"run.cpus", "run.max_cpus"},
        {"run.pids", "run.max_pids"},
};

static int check_ceiling(struct sr_config *config, const char *name, const char *ceiling,
                         struct sr_error **error)
{
        const struct config_tunable *tunable = config_find(name), *top = config_find(ceiling);
        uint64_t most = config_get_number(config, top);

        if (config_get_number(config, tunable) <= most)
                return 0;
        // Lowering the ceiling alone lowers the default with it.
        if (is_default(config, name)) {
                config_set_number(config, tunable, most);
                return 0;
        }

        _cleanup_free_ char *value = config_format(config, tunable), *limit = config_format(config, top);

        config_set_number(config, tunable, most);
        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                            "%s (%s, from %s) is above %s (%s, from %s): lower the first or raise the second",
                            name, value, where_from(config, name), ceiling, limit,
                            where_from(config, ceiling));
}

// What no single value shows.
static int check_together(const struct config_loader *loader, struct sr_error **error)
{
        struct sr_config *config = loader->config;
        int r = need_path(config->store, "images.store", "XDG_DATA_HOME", error);

        if (r == 0 && config->history_enabled)
                r = need_path(config->database, "history.database", "XDG_STATE_HOME", error);
        if (r < 0)
                return r;
        for (size_t i = 0; i < sizeof(ceilings) / sizeof(ceilings[0]); i++) {
                r = note_problem(loader, check_ceiling(config, ceilings[i].name, ceilings[i].ceiling, error),
                                 error);
                if (r < 0)
                        return r;
        }
        if (config->output_keep_bytes > config->output_kill_bytes) {
                r = sr_error_set(
                        error, SR_ERROR_BAD_REQUEST, EINVAL,
                        "output.keep (%llu bytes, from %s) is above output.kill (%llu bytes, from %s): "
                        "lower the first or raise the second",
                        (unsigned long long)config->output_keep_bytes, where_from(config, "output.keep"),
                        (unsigned long long)config->output_kill_bytes, where_from(config, "output.kill"));
                r = note_problem(loader, r, error);
                config->output_keep_bytes = config->output_kill_bytes;
        }
        config->run.timeout_us = config->default_timeout_s * UINT64_C(1000000);
        config->compile.scratch_bytes = config->run.scratch_bytes;
        return r;
}

int sr_config_load(const struct sr_config_input *input, struct sr_config **ret, struct sr_error **error)
{
        _cleanup_config_ struct sr_config *config = sr_new(struct sr_config);
        struct config_loader loader = {.input = input, .config = config};
        int r;

        config->sources = sr_new_array(struct sr_config_source, config_tunable_count);
        r = config_set_defaults(&loader, error);
        if (r == 0)
                r = set_files(&loader, error);
        if (r == 0)
                r = set_environment(&loader, error);
        if (r == 0)
                r = set_flags(&loader, error);
        if (r == 0)
                r = check_together(&loader, error);
        free(loader.home);
        free(loader.cwd);
        if (r == 0)
                *ret = sr_steal(config);
        return r;
}

struct sr_config *sr_config_free(struct sr_config *config)
{
        if (config == NULL)
                return NULL;
        for (size_t i = 0; i < config_tunable_count; i++) {
                config_clear(config, &config_tunables[i]);
                if (config->sources != NULL) {
                        free(config->sources[i].source);
                        free(config->sources[i].fallback);
                }
        }
        free(config->sources);
        free(config);
        return NULL;
}

void sr_config_freep(struct sr_config **config)
{
        *config = sr_config_free(*config);
}
