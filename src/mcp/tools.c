#include "mcp/tools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "history/history.h"
#include "language/language.h"
#include "mcp/arguments.h"
#include "mcp/describe.h"
#include "mcp/worker.h"
#include "run/run.h"

#define INDENT 2
// Calls of get_execution_history that wait for the one before them. Each may make a big answer before it
// shows that the client does not read them.
#define LISTINGS_MAX 8

struct sr_mcp_tools {
        const struct sr_config *config;
        struct sr_runner *runner;
        struct sr_mcp_worker *worker; // reads the history, which may have to be waited for
        char *instructions;
        struct sr_mcp_toolset set;
};

// One text block that holds text.
static void write_text_block(struct sr_json_writer *w, const struct sr_buf *text)
{
        sr_json_open_object(w, NULL);
        sr_json_string(w, "type", "text");
        sr_json_string_n(w, "text", text->data, text->len);
        sr_json_close_object(w);
}

// A client that reads structuredContent gets the object there; one that does not, as text.
static void finish_object(struct sr_mcp_call *call,
                          void (*write)(const void *item, struct sr_json_writer *w, const char *key),
                          const void *item)
{
        _cleanup_buf_ struct sr_buf text = {0}, result = {0};
        struct sr_json_writer pretty = {.out = &text, .indent = INDENT, .first = true};
        struct sr_json_writer w = {.out = &result, .first = true};

        write(item, &pretty, NULL);
        sr_json_open_object(&w, NULL);
        sr_json_open_array(&w, "content");
        write_text_block(&w, &text);
        sr_json_close_array(&w);
        write(item, &w, "structuredContent");
        sr_json_bool(&w, "isError", false);
        sr_json_close_object(&w);
        sr_mcp_call_finish(call, result.data, result.len);
}

// The same for a list: a text block for each element. at gives the element of that index.
static void finish_list(struct sr_mcp_call *call, const void *list, size_t count,
                        void (*write)(const void *list, size_t index, struct sr_json_writer *w))
{
        _cleanup_buf_ struct sr_buf text = {0}, result = {0};
        struct sr_json_writer w = {.out = &result, .first = true};

        sr_json_open_object(&w, NULL);
        sr_json_open_array(&w, "content");
        for (size_t i = 0; i < count; i++) {
                struct sr_json_writer pretty = {.out = &text, .indent = INDENT, .first = true};

                text.len = 0;
                write(list, i, &pretty);
                write_text_block(&w, &text);
        }
        sr_json_close_array(&w);
        sr_json_open_object(&w, "structuredContent");
        sr_json_open_array(&w, "result");
        for (size_t i = 0; i < count; i++)
                write(list, i, &w);
        sr_json_close_array(&w);
        sr_json_close_object(&w);
        sr_json_bool(&w, "isError", false);
        sr_json_close_object(&w);
        sr_mcp_call_finish(call, result.data, result.len);
}

// Reads a call's arguments; false after the call was answered with what is wrong with them.
static bool read_arguments(struct sr_mcp_call *call, const cJSON *object, struct sr_mcp_argument *arguments,
                           size_t count)
{
        _cleanup_free_ char *problem = sr_mcp_arguments_read(object, arguments, count);

        if (problem != NULL)
                sr_mcp_call_fail(call, "%s", problem);
        return problem == NULL;
}

static void write_run(const void *item, struct sr_json_writer *w, const char *key)
{
        sr_run_result_write(item, w, key);
}

static void run_done(void *context, struct sr_run_result *finished)
{
        _cleanup_result_ struct sr_run_result *result = finished;

        if (result->history_problem != NULL)
                sr_log(SR_LOG_WARNING, "%s", result->history_problem);
        finish_object(context, write_run, result);
}

// For the runner a language is a C string. One that holds a NUL is none, whatever stands before it.
static void replace_nuls(struct sr_mcp_argument *argument)
{
        for (size_t i = 0; i < argument->length; i++)
                if (argument->text[i] == '\0')
                        argument->text[i] = '?';
}

static void start_run_code(void *context, struct sr_mcp_call *call, const cJSON *object)
{
        const struct sr_mcp_tools *tools = context;
        struct sr_mcp_argument arguments[] = {
                {.name = "language", .kind = SR_MCP_STRING, .required = true},
                {.name = "code", .kind = SR_MCP_STRING, .required = true},
                {.name = "timeout_seconds", .kind = SR_MCP_INTEGER},
        };
        const size_t count = sizeof(arguments) / sizeof(arguments[0]);

        if (read_arguments(call, object, arguments, count)) {
                struct sr_mcp_argument *language = &arguments[0], *code = &arguments[1],
                                       *timeout = &arguments[2];

                replace_nuls(language);

                struct sr_run_request request = {
                        .language = language->text,
                        .code = code->text,
                        .code_length = code->length,
                        .timeout_s = timeout->given ? timeout->integer : tools->config->default_timeout_s,
                        .stdin_fd = -1,
                };

                sr_runner_submit(tools->runner, &request, sr_mcp_call_cancel(call), run_done, call);
        }
        sr_mcp_arguments_clear(arguments, count);
}

static void write_language(const void *list, size_t index, struct sr_json_writer *w)
{
        const struct sr_language *language = sr_language_at(list, index);

        sr_json_open_object(w, NULL);
        sr_json_string(w, "language", language->name);
        sr_json_string(w, "image", language->image);
        sr_json_string(w, "description", language->description);
        sr_json_close_object(w);
}

static void start_languages(void *context, struct sr_mcp_call *call, const cJSON *object)
{
        const struct sr_mcp_tools *tools = context;
        const struct sr_language_catalogue *languages = sr_runner_languages(tools->runner);

        (void)object; // it takes none, and what it does not take is ignored
        finish_list(call, languages, sr_language_count(languages), write_language);
}

static void write_record(const void *list, size_t index, struct sr_json_writer *w)
{
        sr_history_record_write((const struct sr_history_record *)list + index, SR_HISTORY_PLAIN, w);
}

// A call of get_execution_history on its way to the worker.
struct listing {
        const struct sr_mcp_tools *tools;
        struct sr_mcp_call *call;
        int64_t limit;
};

static void list_history(void *context)
{
        _cleanup_free_ struct listing *listing = context;
        struct sr_mcp_call *call = listing->call;
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_free_ char *problem = NULL;
        struct sr_history *history;
        struct sr_history_record *records = NULL;
        size_t count = 0;

        // Cancelled while it waited for its turn: there is nothing to read for nobody.
        if (!sr_mcp_call_wanted(call)) {
                finish_list(call, NULL, 0, write_record);
                return;
        }
        history = sr_runner_history(listing->tools->runner, &problem);
        if (history == NULL) {
                sr_mcp_call_fail(call, "%s", problem != NULL ? problem : "this server keeps no history");
                return;
        }
        if (sr_history_list(history, listing->limit, &records, &count, &error) < 0) {
                sr_mcp_call_fail(call, "the history cannot be read: %s", sr_error_message(error));
                return;
        }
        finish_list(call, records, count, write_record);
        sr_history_records_free(records, count);
}

static void start_history(void *context, struct sr_mcp_call *call, const cJSON *object)
{
        const struct sr_mcp_tools *tools = context;
        struct sr_mcp_argument limit = {.name = "limit", .kind = SR_MCP_INTEGER};

        if (read_arguments(call, object, &limit, 1)) {
                struct listing *listing = sr_new(struct listing);
                int64_t rows = limit.given ? limit.integer : SR_MCP_HISTORY_DEFAULT;

                rows = rows < 1 ? 1 : rows > SR_MCP_HISTORY_MAX ? SR_MCP_HISTORY_MAX : rows;
                *listing = (struct listing){.tools = tools, .call = call, .limit = rows};

                int r = sr_mcp_worker_submit(tools->worker, list_history, listing);

                if (r < 0)
                        free(listing);
                if (r == -EBUSY)
                        sr_mcp_call_fail(call, "too many calls wait for the history; call again when some "
                                               "of them are answered");
                else if (r < 0)
                        sr_mcp_call_fail(call,
                                         "the history cannot be read: no thread could be started (%s); call "
                                         "again when less is running",
                                         strerror(-r));
        }
        sr_mcp_arguments_clear(&limit, 1);
}

static void describe_run_code(void *context, struct sr_json_writer *w)
{
        const struct sr_mcp_tools *tools = context;

        sr_mcp_describe_run_code(tools->config, sr_runner_languages(tools->runner), w);
}

static void describe_languages(void *context, struct sr_json_writer *w)
{
        (void)context;
        sr_mcp_describe_languages(w);
}

static void describe_history(void *context, struct sr_json_writer *w)
{
        (void)context;
        sr_mcp_describe_history(w);
}

static const struct sr_mcp_tool table[] = {
        {"run_code", "Run code in a sandbox", describe_run_code, start_run_code},
        {"list_supported_languages", "List languages", describe_languages, start_languages},
        {"get_execution_history", "List past runs", describe_history, start_history},
};

struct sr_mcp_tools *sr_mcp_tools_new(const struct sr_config *config, struct sr_runner *runner)
{
        struct sr_mcp_tools *tools = sr_new(struct sr_mcp_tools);

        tools->config = config;
        tools->runner = runner;
        tools->worker = sr_mcp_worker_new(LISTINGS_MAX);
        tools->instructions = sr_mcp_describe_server(config, sr_runner_languages(runner));
        tools->set = (struct sr_mcp_toolset){
                .tools = table,
                .count = sizeof(table) / sizeof(table[0]),
                .context = tools,
                .instructions = tools->instructions,
        };
        return tools;
}

struct sr_mcp_tools *sr_mcp_tools_free(struct sr_mcp_tools *tools)
{
        if (tools != NULL) {
                sr_mcp_worker_free(tools->worker);
                free(tools->instructions);
                free(tools);
        }
        return NULL;
}

void sr_mcp_tools_freep(struct sr_mcp_tools **tools)
{
        *tools = sr_mcp_tools_free(*tools);
}

const struct sr_mcp_toolset *sr_mcp_tools_set(const struct sr_mcp_tools *tools)
{
        return &tools->set;
}
