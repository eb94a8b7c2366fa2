// The words a model reads before its first call, so they say what a wrong guess would cost a second one for:
// what is writable, what is not there, which limits hold and how the end of a run is told. Numbers come from
// the configuration.

#include "mcp/describe.h"

#include "base/alloc.h"
#include "language/language.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

#define TEXT(words)    "{\"type\":\"string\",\"description\":\"" words "\"}"
#define INTEGER(words) "{\"type\":\"integer\",\"description\":\"" words "\"}"
#define NUMBER(words)  "{\"type\":\"number\",\"description\":\"" words "\"}"
#define EXIT_CODE                                                                                            \
        "\"exit_code\":{\"type\":[\"integer\",\"null\"],\"description\":\"128+N for death by signal N; "     \
        "null when nothing ran to an end\"}"
#define STATUS                                                                                               \
        "\"status\":{\"type\":\"string\",\"enum\":[\"success\",\"error\",\"timeout\",\"compile_error\"]}"

// The six members every client knows; the others are open, and explained in the description.
static const char run_code_output
        [] = "{\"type\":\"object\",\"properties\":{" STATUS "," EXIT_CODE ","
             "\"stdout\":" TEXT(
                     "What the program wrote, cut after the limit") ","
                                                                    "\"stderr\":" TEXT(
                                                                            "The same for stderr; the "
                                                                            "compiler's "
                                                                            "diagnostics or the reason of a "
                                                                            "refusal") ","
                                                                                       "\"duration_"
                                                                                       "ms\":" NUMBER(
                                                                                               "Wall-clock "
                                                                                               "time") ","
                                                                                                       "\"lan"
                                                                                                       "guage"
                                                                                                       "\""
                                                                                                       ":" TEXT(
                                                                                                               "The identifier the language is known by") ","
                                                                                                                                                          "\"reason\":" TEXT(
                                                                                                                                                                  "exit, signal, timeout, memory_limit, output_limit, refused, cancelled or internal") "},"
                                                                                                                                                                                                                                                       "\"required\":[\"status\",\"exit_code\",\"stdout\",\"stderr\",\"duration_ms\",\"language\"],"
                                                                                                                                                                                                                                                       "\"additionalProperties\":true}";

static const char languages_output[] =
        "{\"type\":\"object\",\"properties\":{\"result\":{\"type\":\"array\",\"items\":{\"type\":"
        "\"object\",\"properties\":{"
        "\"language\":" TEXT("What run_code takes as language") ","
                                                                "\"image\":" TEXT(
                                                                        "Container image that provides "
                                                                        "it") ","
                                                                              "\"description\":" TEXT(
                                                                                      "Compiler or "
                                                                                      "interpreter and "
                                                                                      "its version") "},"
                                                                                                     "\""
                                                                                                     "re"
                                                                                                     "qu"
                                                                                                     "ir"
                                                                                                     "ed"
                                                                                                     "\""
                                                                                                     ":["
                                                                                                     "\""
                                                                                                     "la"
                                                                                                     "ng"
                                                                                                     "ua"
                                                                                                     "ge"
                                                                                                     "\""
                                                                                                     ","
                                                                                                     "\""
                                                                                                     "im"
                                                                                                     "ag"
                                                                                                     "e"
                                                                                                     "\""
                                                                                                     ","
                                                                                                     "\""
                                                                                                     "de"
                                                                                                     "sc"
                                                                                                     "ri"
                                                                                                     "pt"
                                                                                                     "io"
                                                                                                     "n"
                                                                                                     "\""
                                                                                                     "],"
                                                                                                     "\""
                                                                                                     "ad"
                                                                                                     "di"
                                                                                                     "ti"
                                                                                                     "on"
                                                                                                     "al"
                                                                                                     "Pr"
                                                                                                     "op"
                                                                                                     "er"
                                                                                                     "ti"
                                                                                                     "es"
                                                                                                     "\""
                                                                                                     ":t"
                                                                                                     "ru"
                                                                                                     "e}"
                                                                                                     "}}"
                                                                                                     ","
                                                                                                     "\""
                                                                                                     "re"
                                                                                                     "qu"
                                                                                                     "ir"
                                                                                                     "ed"
                                                                                                     "\""
                                                                                                     ":["
                                                                                                     "\""
                                                                                                     "re"
                                                                                                     "su"
                                                                                                     "lt"
                                                                                                     "\""
                                                                                                     "]"
                                                                                                     "}";

static const char history_output[] =
        "{\"type\":\"object\",\"properties\":{\"result\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
        "\"properties\":{"
        "\"id\":" INTEGER(
                "Rises with every run") ","
                                        "\"timestamp\":" TEXT(
                                                "ISO 8601, UTC") ","
                                                                 "\"language\":{\"type\":\"string\"},"
                                                                 "\"code_snippet\":" TEXT(
                                                                         "The first 500 characters of the "
                                                                         "code") "," STATUS "," EXIT_CODE ","
                                                                                 "\"duration_ms\":{\"type\":"
                                                                                 "\"number\"},"
                                                                                 "\"stdout_size\":" INTEGER(
                                                                                         "Bytes") ","
                                                                                                  "\"stderr_"
                                                                                                  "size\""
                                                                                                  ":" INTEGER(
                                                                                                          "By"
                                                                                                          "te"
                                                                                                          "s") "},"
                                                                                                               "\"required\":[\"id\",\"timestamp\",\"language\",\"code_snippet\",\"status\",\"exit_code\",\"duration_ms\","
                                                                                                               "\"stdout_size\",\"stderr_size\"],\"additionalProperties\":true}}},"
                                                                                                               "\"required\":[\"result\"]}";

static void append_size(struct sr_buf *out, uint64_t bytes)
{
        if (bytes > 0 && bytes % MIB == 0)
                sr_buf_printf(out, "%llu MiB", (unsigned long long)(bytes / MIB));
        else if (bytes > 0 && bytes % KIB == 0)
                sr_buf_printf(out, "%llu KiB", (unsigned long long)(bytes / KIB));
        else
                sr_buf_printf(out, "%llu bytes", (unsigned long long)bytes);
}

// "0.5 processors", "1 processor".
static void append_processors(struct sr_buf *out, uint32_t millis)
{
        if (millis % 1000 == 0)
                sr_buf_printf(out, "%u processor%s", millis / 1000, millis == 1000 ? "" : "s");
        else
                sr_buf_printf(out, "%.3g processors", millis / 1000.0);
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
        sr_buf_append_text(
                out, "Runs a program in a fresh, isolated Linux sandbox and returns what it printed and "
                     "how it ended.\n\nLanguages: ");
        append_languages(out, languages);
        sr_buf_append_text(
                out, ".\n\n"
                     "- Send a complete program. Only what it prints comes back: the value of a last "
                     "expression does not.\n"
                     "- Every call starts from nothing: no file, variable or package of an earlier call is "
                     "there.\n"
                     "- There is no network, so nothing can be installed or fetched; standard input is "
                     "empty.\n"
                     "- Writable are /tmp (");
        append_size(out, config->run.tmp_bytes);
        sr_buf_append_text(out,
                           ", nothing in it can be executed) and, for interpreted languages, /scratch (");
        append_size(out, config->run.scratch_bytes);
        sr_buf_append_text(out,
                           "). Interpreted programs start in /scratch, compiled ones in /tmp. All else is "
                           "read-only.\n- Limits: ");
        append_size(out, config->max_code_bytes);
        sr_buf_printf(out, " of code, %u s unless timeout_seconds says otherwise and %u s at most, ",
                      config->default_timeout_s, config->max_timeout_s);
        append_size(out, config->run.memory_bytes);
        sr_buf_append_text(out, " of memory, ");
        append_processors(out, config->run.cpu_millis);
        sr_buf_append_text(out, ". The first ");
        append_size(out, config->output_keep_bytes);
        sr_buf_append_text(
                out,
                " of each of stdout and stderr are kept, with a marker where they were cut.\n\n"
                "status is success (exit code 0), error, timeout or compile_error (diagnostics in stderr). "
                "reason says why it ended: exit, signal, timeout, memory_limit, output_limit, cancelled, "
                "refused "
                "(the call itself was wrong: stderr says how to mend it) or internal (not the program's "
                "fault). "
                "exit_code is 128+N for death by signal N.");
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

void sr_mcp_describe_run_code(const struct sr_config *config, const struct sr_language_catalogue *languages,
                              struct sr_json_writer *w)
{
        _cleanup_buf_ struct sr_buf description = {0}, input = {0}, names = {0};

        append_run_code(&description, config, languages);
        sr_json_string(w, "description", description.data);
        for (size_t i = 0; i < sr_language_count(languages); i++)
                sr_buf_printf(&names, "%s%s", i > 0 ? ", " : "", sr_language_at(languages, i)->name);

        // No enum: case and surrounding spaces do not matter, and aliases are taken.
        struct sr_json_writer schema = {.out = &input, .first = true};

        sr_json_open_object(&schema, NULL);
        sr_json_string(&schema, "type", "object");
        sr_json_open_object(&schema, "properties");
        sr_json_open_object(&schema, "language");
        sr_json_string(&schema, "type", "string");
        sr_json_string(&schema, "description", names.len > 0 ? names.data : "None is set up on this server");
        sr_json_close_object(&schema);
        sr_json_open_object(&schema, "code");
        sr_json_string(&schema, "type", "string");
        sr_json_string(&schema, "description", "The whole source text of the program");
        sr_json_close_object(&schema);
        sr_json_open_object(&schema, "timeout_seconds");
        sr_json_string(&schema, "type", "integer");
        sr_json_integer(&schema, "default", config->default_timeout_s);
        sr_json_integer(&schema, "minimum", 1);
        sr_json_integer(&schema, "maximum", config->max_timeout_s);
        sr_json_string(
                &schema, "description",
                "Wall-clock limit of the run; compilation has its own. More than the maximum is refused");
        sr_json_close_object(&schema);
        sr_json_close_object(&schema);
        sr_json_raw(&schema, "required", "[\"language\",\"code\"]");
        sr_json_close_object(&schema);
        sr_json_raw(w, "inputSchema", input.data);
        sr_json_raw(w, "outputSchema", run_code_output);
        write_annotations(w, false);
}

void sr_mcp_describe_languages(struct sr_json_writer *w)
{
        sr_json_string(w, "description",
                       "Lists the languages that run_code takes, with the image and version behind each.");
        sr_json_raw(w, "inputSchema", "{\"type\":\"object\",\"properties\":{}}");
        sr_json_raw(w, "outputSchema", languages_output);
        write_annotations(w, true);
}

void sr_mcp_describe_history(struct sr_json_writer *w)
{
        _cleanup_free_ char *input = sr_asprintf(
                "{\"type\":\"object\",\"properties\":{\"limit\":{\"type\":\"integer\",\"default\":%d,"
                "\"description\":\"How many runs; below 1 counts as 1, and at most %d are given\"}}}",
                SR_MCP_HISTORY_DEFAULT, SR_MCP_HISTORY_MAX);

        sr_json_string(
                w, "description",
                "Lists past runs of run_code, newest first: when, in which language, the beginning of the "
                "code, "
                "how each ended and how much it printed. Refused calls are not among them; the output itself "
                "is not kept.");
        sr_json_raw(w, "inputSchema", input);
        sr_json_raw(w, "outputSchema", history_output);
        write_annotations(w, true);
}

char *sr_mcp_describe_server(const struct sr_config *config, const struct sr_language_catalogue *languages)
{
        _cleanup_buf_ struct sr_buf text = {0};

        sr_buf_append_text(
                &text,
                "Runs programs in isolated sandboxes without network. Call run_code with a language (");
        append_languages(&text, languages);
        sr_buf_printf(&text,
                      ") and a complete program that prints what you want to know; it has %u s unless you "
                      "ask for more "
                      "(at most %u s). Calls may run side by side.",
                      config->default_timeout_s, config->max_timeout_s);
        return sr_buf_steal(&text, NULL);
}
