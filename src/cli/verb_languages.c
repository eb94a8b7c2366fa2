// `languages`: the catalogue, and what of it is ready to run here.

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/languages.h"
#include "cli/text.h"

enum { OPTION_JSON = 256 };

static const struct sr_option options[] = {
        {OPTION_JSON, "json", NULL, "print a JSON array"},
        {0},
};

int sr_languages_ready(struct sr_image_store *store, const struct sr_language *language, const char **ret,
                       struct sr_error **error)
{
        const char *reference = language->image;
        char *const *next = language->fallback_images;

        while (reference != NULL) {
                _cleanup_image_ struct sr_image *image = NULL;
                _cleanup_error_ struct sr_error *reason = NULL;
                int r = sr_image_store_find(store, reference, &image, &reason);

                if (r == 0) {
                        *ret = reference;
                        return 0;
                }
                if (r != -ENOENT)
                        return sr_error_set(error, sr_error_get_kind(reason), -r, "%s",
                                            sr_error_message(reason));
                reference = next != NULL ? *next++ : NULL;
        }
        *ret = NULL;
        return 0;
}

static void write_list(struct sr_json_writer *w, const char *key, char *const *list)
{
        sr_json_open_array(w, key);
        for (; list != NULL && *list != NULL; list++)
                sr_json_string(w, NULL, *list);
        sr_json_close_array(w);
}

// Whether a stage of the language has another limit than the settings give; *ret_text is then that limit as a
// language file has it, freed by the caller.
static bool differs(const struct sr_config *config, const struct sr_language *language, bool compile,
                    const struct sr_language_limit *limit, char **ret_text)
{
        uint64_t own =
                sr_language_limit_get(limit, compile ? &language->compile_limits : &language->run_limits);

        if (own == 0 || own == sr_language_limit_get(limit, compile ? &config->compile : &config->run))
                return false;

        _cleanup_free_ char *tunable = sr_asprintf("%s.%s", compile ? "compile" : "run", limit->name);

        *ret_text = sr_config_text(tunable, own);
        return true;
}

// As the member "limits" of a language file, without what is as in the settings.
static void write_limits(struct sr_json_writer *w, const struct sr_config *config,
                         const struct sr_language *language)
{
        sr_json_open_object(w, "limits");
        for (int compile = 1; compile >= 0; compile--) {
                bool opened = false;

                for (size_t i = 0; i < sr_language_limit_count; i++) {
                        _cleanup_free_ char *text = NULL;

                        if (!differs(config, language, compile, &sr_language_limits[i], &text))
                                continue;
                        if (!opened)
                                sr_json_open_object(w, compile ? "compile" : "run");
                        opened = true;
                        sr_json_string(w, sr_language_limits[i].name, text);
                }
                if (opened)
                        sr_json_close_object(w);
        }
        sr_json_close_object(w);
}

// The same in a line for a person; NULL when there is nothing to say. The caller frees it.
static char *describe_limits(const struct sr_config *config, const struct sr_language *language)
{
        _cleanup_buf_ struct sr_buf line = {0};

        for (int compile = 1; compile >= 0; compile--) {
                const char *before = compile ? "compile: " : line.len > 0 ? "; run: " : "run: ";

                for (size_t i = 0; i < sr_language_limit_count; i++) {
                        _cleanup_free_ char *text = NULL;

                        if (!differs(config, language, compile, &sr_language_limits[i], &text))
                                continue;
                        sr_buf_printf(&line, "%s%s %s", before, sr_language_limits[i].name, text);
                        before = ", ";
                }
        }
        return line.len > 0 ? sr_buf_steal(&line, NULL) : NULL;
}

static void write_language(struct sr_json_writer *w, const struct sr_config *config,
                           const struct sr_language *language, const char *ready)
{
        sr_json_open_object(w, NULL);
        sr_json_string(w, "language", language->name);
        sr_json_string(w, "image", language->image);
        sr_json_string(w, "description", language->description);
        sr_json_string_or_null(w, "ready", ready);
        write_list(w, "fallback_images", language->fallback_images);
        sr_json_string_or_null(w, "recipe", language->recipe);
        sr_json_bool(w, "compiled", language->compile != NULL);
        write_list(w, "aliases", language->aliases);
        write_list(w, "extensions", language->extensions);
        write_limits(w, config, language);
        sr_json_close_object(w);
}

// The column of limits is there only where one would say something.
static bool any_limits(const struct sr_config *config, const struct sr_language_catalogue *catalogue)
{
        for (size_t i = 0; i < sr_language_count(catalogue); i++) {
                _cleanup_free_ char *line = describe_limits(config, sr_language_at(catalogue, i));

                if (line != NULL)
                        return true;
        }
        return false;
}

static int list(struct sr_image_store *store, const struct sr_config *config,
                const struct sr_language_catalogue *catalogue, bool json, struct sr_buf *out,
                struct sr_error **error)
{
        static const char *const titles[] = {"LANGUAGE", "IMAGE", "READY", "DESCRIPTION", "LIMITS"};
        _cleanup_table_ struct sr_text_table table = {.columns = any_limits(config, catalogue) ? 5 : 4};
        struct sr_json_writer w = {.out = out, .indent = 2, .first = true};

        for (size_t i = 0; i < table.columns; i++)
                sr_text_table_add(&table, titles[i]);
        if (json)
                sr_json_open_array(&w, NULL);
        for (size_t i = 0; i < sr_language_count(catalogue); i++) {
                const struct sr_language *language = sr_language_at(catalogue, i);
                _cleanup_free_ char *limits = describe_limits(config, language);
                const char *ready;
                int r = sr_languages_ready(store, language, &ready, error);

                if (r < 0)
                        return r;
                if (json) {
                        write_language(&w, config, language, ready);
                        continue;
                }
                sr_text_table_add(&table, language->name);
                sr_text_table_add(&table, language->image);
                sr_text_table_add(&table, ready != NULL ? ready : "no");
                sr_text_table_add(&table, language->description);
                if (table.columns == 5)
                        sr_text_table_add(&table, limits);
        }
        if (json) {
                sr_json_close_array(&w);
                sr_buf_append_char(out, '\n');
        } else {
                sr_text_table_print(&table, out);
        }
        return 0;
}

static int languages_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_config_ struct sr_config *config = NULL;
        _cleanup_language_ struct sr_language_catalogue *catalogue = NULL;
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_buf_ struct sr_buf text = {0};
        bool json;

        if (!sr_cli_read_listing(cli, arguments, NULL, &json))
                return cli->status;

        int status = sr_cli_load_config(cli, &config);

        if (status != SR_EXIT_OK)
                return status;
        if (sr_language_load(config->catalogues, &catalogue, &error) < 0 ||
            sr_image_store_open(config->store, config->lower_store, &store, &error) < 0 ||
            list(store, config, catalogue, json, &text, &error) < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        for (size_t i = 0; i < sr_language_problem_count(catalogue); i++) {
                const struct sr_language_problem *problem = sr_language_problem_at(catalogue, i);

                sr_cli_say("%s is not used: %s", problem->path, problem->reason);
        }
        if (sr_language_count(catalogue) == 0) {
                _cleanup_free_ char *places = sr_config_text_of(config, "languages.directories");

                sr_cli_say("no language file that can be used was found in %s (languages.directories)",
                           *places != '\0' ? places : "no directory");
        }
        return sr_cli_print(cli, &text);
}

const struct sr_verb sr_verb_languages = {
        .name = "languages",
        .usage = (const char *const[]){"languages [--json]", NULL},
        .summary = "list the languages and the images that are ready for them",
        .description =
                "Lists the languages that snippets can be written in. READY is the image that a run would\n"
                "use here: the language's own or one of its fallbacks; \"no\" when neither has been\n"
                "brought in. LIMITS, where a language has any, are those that differ from the settings. A "
                "faulty\n"
                "language file is reported on stderr.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = languages_main,
};
