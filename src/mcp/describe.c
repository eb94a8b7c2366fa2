// The words a model reads before its first call, so they say what a wrong guess would cost a second one for:
// what is writable, what is not there, which limits hold and how the end of a run is told. Numbers come from
// the configuration.

#include "mcp/describe.h"

#include "base/alloc.h"
#include "base/size.h"
#include "language/language.h"

// One property of a schema.
struct property {
        const char *name;
        const char *type; // JSON
        const char *description;
        const char *values; // JSON array of all there are, or NULL
};

#define STRING          "\"string\""
#define NUMBER          "\"number\""
#define INTEGER         "\"integer\""
#define INTEGER_OR_NULL "[\"integer\",\"null\"]"
#define STATUSES        "[\"success\",\"error\",\"timeout\",\"compile_error\"]"
#define COUNT(array)    (sizeof(array) / sizeof((array)[0]))

static const char exit_code_text[] = "128+N for death by signal N; null when nothing ran to an end";

// The members every client knows; the others are open, and explained in the description.
static const struct property run_properties[] = {
        {"status", STRING, "How it went", STATUSES},
        {"exit_code", INTEGER_OR_NULL, exit_code_text, NULL},
        {"stdout", STRING, "What the program wrote, cut after the limit", NULL},
        {"stderr", STRING, "The same for stderr; the compiler's diagnostics or the reason of a refusal",
         NULL},
        {"duration_ms", NUMBER, "Wall-clock time", NULL},
        {"language", STRING, "The identifier the language is known by", NULL},
};

static const struct property language_properties[] = {
        {"language", STRING, "What run_code takes as language", NULL},
        {"image", STRING, "Container image that provides it", NULL},
        {"description", STRING, "Compiler or interpreter and its version", NULL},
};

static const struct property record_properties[] = {
        {"id", INTEGER, "Rises with every run", NULL},
        {"timestamp", STRING, "ISO 8601, UTC", NULL},
        {"language", STRING, "The identifier the language is known by", NULL},
        {"code_snippet", STRING, "The first 500 characters of the code", NULL},
        {"status", STRING, "success, error, timeout or compile_error", NULL},
        {"exit_code", INTEGER_OR_NULL, exit_code_text, NULL},
        {"duration_ms", NUMBER, "Wall-clock time", NULL},
        {"stdout_size", INTEGER, "Bytes", NULL},
        {"stderr_size", INTEGER, "Bytes", NULL},
};

// A property and what the caller adds before closing it.
static void open_property(struct sr_json_writer *w, const struct property *property)
{
        sr_json_open_object(w, property->name);
        sr_json_raw(w, "type", property->type);
        sr_json_string(w, "description", property->description);
        if (property->values != NULL)
                sr_json_raw(w, "enum", property->values);
}

// An object that has all these properties and may have more.
static void write_object_schema(struct sr_json_writer *w, const char *key, const struct property *properties,
                                size_t count)
{
        sr_json_open_object(w, key);
        sr_json_string(w, "type", "object");
        sr_json_open_object(w, "properties");
        for (size_t i = 0; i < count; i++) {
                open_property(w, &properties[i]);
                sr_json_close_object(w);
        }
        sr_json_close_object(w);
        sr_json_open_array(w, "required");
        for (size_t i = 0; i < count; i++)
                sr_json_string(w, NULL, properties[i].name);
        sr_json_close_array(w);
        sr_json_bool(w, "additionalProperties", true);
        sr_json_close_object(w);
}

// {"result": [object, …]}
static void write_list_schema(struct sr_json_writer *w, const char *key, const struct property *properties,
                              size_t count)
{
        sr_json_open_object(w, key);
        sr_json_string(w, "type", "object");
        sr_json_open_object(w, "properties");
        sr_json_open_object(w, "result");
        sr_json_string(w, "type", "array");
        write_object_schema(w, "items", properties, count);
        sr_json_close_object(w);
        sr_json_close_object(w);
        sr_json_raw(w, "required", "[\"result\"]");
        sr_json_close_object(w);
}

static void append_size(struct sr_buf *out, uint64_t bytes)
{
        _cleanup_free_ char *text = sr_size_exact(bytes);

        sr_buf_append_text(out, text);
}

static void append_cpus(struct sr_buf *out, uint32_t millis)
{
        _cleanup_free_ char *text = sr_config_text("run.cpus", millis);

        sr_buf_printf(out, "%s processor%s", text, millis == 1000 ? "" : "s");
}

// The limits of the run stage that a language has of its own.
static void append_exceptions(struct sr_buf *out, const struct sr_language_catalogue *languages)
{
        for (size_t i = 0; i < sr_language_count(languages); i++) {
                const struct sr_language *language = sr_language_at(languages, i);
                const struct sr_config_stage *own = &language->run_limits;
                const char *between = "";

                if (own->memory_bytes == 0 && own->cpu_millis == 0 && own->pids == 0)
                        continue;
                sr_buf_printf(out, "; %s: ", language->name);
                if (own->memory_bytes != 0) {
                        append_size(out, own->memory_bytes);
                        sr_buf_append_text(out, " of memory");
                        between = ", ";
                }
                if (own->cpu_millis != 0) {
                        sr_buf_append_text(out, between);
                        append_cpus(out, own->cpu_millis);
                        between = ", ";
                }
                if (own->pids != 0)
                        sr_buf_printf(out, "%s%u processes and threads", between, own->pids);
        }
}

static void append_languages(struct sr_buf *out, const struct sr_language_catalogue *languages)
{
        size_t count = sr_language_count(languages);

        for (size_t i = 0; i < count; i++) {
                const struct sr_language *language = sr_language_at(languages, i);

                sr_buf_printf(out, "%s%s (%s)", i > 0 ? ", " : "", language->name, language->description);
        }
        if (count == 0)
                sr_buf_append_text(out, "none is set up on this server");
}

static void append_run_code(struct sr_buf *out, const struct sr_config *config,
                            const struct sr_language_catalogue *languages)
{
        static const char what[] = "Runs a program in a fresh, isolated Linux sandbox and returns what it "
                                   "printed and how it ended.\n\nLanguages: ";
        static const char rules[] =
                ".\n\n"
                "- Send a complete program. Only what it prints comes back: the value of a last expression "
                "does not.\n"
                "- Every call starts from nothing: no file, variable or package of an earlier call is "
                "there.\n"
                "- There is no network, so nothing can be installed or fetched; standard input is empty.\n"
                "- Writable are /tmp (";
        static const char ends[] =
                " of each of stdout and stderr are kept, with a marker where they were cut.\n\n"
                "status is success (exit code 0), error, timeout or compile_error (diagnostics in stderr). "
                "reason says why it ended: exit, signal, timeout, memory_limit, output_limit, cancelled, "
                "refused (the call itself was wrong: stderr says how to mend it) or internal (not the "
                "program's fault). memory_limit (exit_code 137): all its processes together, with what they "
                "keep in /tmp and /scratch, needed more memory than they may have and were killed; the same "
                "program will fail again, so make it need less. limits_hit names the limits it ran into, "
                "even "
                "where it lived on: memory, pids, tmp, scratch, output. exit_code is 128+N for death by "
                "signal "
                "N.";

        sr_buf_append_text(out, what);
        append_languages(out, languages);
        sr_buf_append_text(out, rules);
        append_size(out, config->run.tmp_bytes);
        sr_buf_append_text(out,
                           ", nothing in it can be executed) and, for interpreted languages, /scratch (");
        append_size(out, config->run.scratch_bytes);
        sr_buf_append_text(out, "). Interpreted programs start in /scratch, compiled ones in /tmp. "
                                "All else is read-only.\n- Limits: ");
        append_size(out, config->max_code_bytes);
        sr_buf_printf(out, " of code, %u s unless timeout_seconds says otherwise and %u s at most, ",
                      config->default_timeout_s, config->max_timeout_s);
        append_size(out, config->run.memory_bytes);
        sr_buf_append_text(out, " of memory, ");
        append_cpus(out, config->run.cpu_millis);
        sr_buf_printf(out, ", %u processes and threads", config->run.pids);
        append_exceptions(out, languages);
        sr_buf_append_text(out, ". The first ");
        append_size(out, config->output_keep_bytes);
        sr_buf_append_text(out, ends);
}

static void write_annotations(struct sr_json_writer *w, bool read_only)
{
        sr_json_open_object(w, "annotations");
        sr_json_bool(w, "readOnlyHint", read_only);
        sr_json_bool(w, "destructiveHint", false);
        sr_json_bool(w, "idempotentHint", read_only);
        sr_json_bool(w, "openWorldHint", false);
        sr_json_close_object(w);
}

// No enum for the language: case and surrounding spaces do not matter, and aliases are taken.
static void write_run_code_input(const struct sr_config *config,
                                 const struct sr_language_catalogue *languages, struct sr_json_writer *w)
{
        _cleanup_buf_ struct sr_buf names = {0};

        sr_buf_append_text(&names, "One of these: ");
        append_languages(&names, languages);
        sr_json_open_object(w, "inputSchema");
        sr_json_string(w, "type", "object");
        sr_json_open_object(w, "properties");
        open_property(w, &(struct property){"language", STRING, names.data, NULL});
        sr_json_close_object(w);
        open_property(w, &(struct property){"code", STRING, "The whole source text of the program", NULL});
        sr_json_close_object(w);
        open_property(w, &(struct property){"timeout_seconds", INTEGER,
                                            "Wall-clock limit of the run; compilation has its own. More than "
                                            "the maximum is refused",
                                            NULL});
        sr_json_integer(w, "default", config->default_timeout_s);
        sr_json_integer(w, "minimum", 1);
        sr_json_integer(w, "maximum", config->max_timeout_s);
        sr_json_close_object(w);
        sr_json_close_object(w);
        sr_json_raw(w, "required", "[\"language\",\"code\"]");
        sr_json_close_object(w);
}

void sr_mcp_describe_run_code(const struct sr_config *config, const struct sr_language_catalogue *languages,
                              struct sr_json_writer *w)
{
        _cleanup_buf_ struct sr_buf description = {0};

        append_run_code(&description, config, languages);
        sr_json_string(w, "description", description.data);
        write_run_code_input(config, languages, w);
        write_object_schema(w, "outputSchema", run_properties, COUNT(run_properties));
        write_annotations(w, false);
}

void sr_mcp_describe_languages(struct sr_json_writer *w)
{
        sr_json_string(w, "description",
                       "Lists the languages that run_code takes, with the image and version behind each.");
        sr_json_raw(w, "inputSchema", "{\"type\":\"object\",\"properties\":{}}");
        write_list_schema(w, "outputSchema", language_properties, COUNT(language_properties));
        write_annotations(w, true);
}

void sr_mcp_describe_history(struct sr_json_writer *w)
{
        _cleanup_free_ char *limit = sr_asprintf(
                "How many runs; below 1 counts as 1, and at most %d are given", SR_MCP_HISTORY_MAX);

        sr_json_string(w, "description",
                       "Lists past runs of run_code, newest first: when, in which language, the beginning of "
                       "the code, how each ended and how much it printed. Refused calls are not among them; "
                       "the output itself is not kept.");
        sr_json_open_object(w, "inputSchema");
        sr_json_string(w, "type", "object");
        sr_json_open_object(w, "properties");
        open_property(w, &(struct property){"limit", INTEGER, limit, NULL});
        sr_json_integer(w, "default", SR_MCP_HISTORY_DEFAULT);
        sr_json_close_object(w);
        sr_json_close_object(w);
        sr_json_close_object(w);
        write_list_schema(w, "outputSchema", record_properties, COUNT(record_properties));
        write_annotations(w, true);
}

char *sr_mcp_describe_server(const struct sr_config *config, const struct sr_language_catalogue *languages)
{
        _cleanup_free_ char *memory = sr_size_exact(config->run.memory_bytes);
        struct sr_buf text = {0};

        sr_buf_append_text(&text, "Runs programs in isolated sandboxes without network. Call run_code with a "
                                  "language (");
        append_languages(&text, languages);
        sr_buf_printf(
                &text,
                ") and a complete program that prints what you want to know; it has %u s unless you ask "
                "for more (at most %u s), and %s of memory. Calls may run side by side.",
                config->default_timeout_s, config->max_timeout_s, memory);
        return sr_buf_steal(&text, NULL);
}
