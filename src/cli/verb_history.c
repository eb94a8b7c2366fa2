// `history`: what ran here. Looking at it changes nothing: no file is made and none is set aside.

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/facts.h"
#include "cli/text.h"
#include "history/history.h"

enum { OPTION_JSON = 256, OPTION_LIMIT, OPTION_KEEP, OPTION_OLDER_THAN };

#define DEFAULT_LIMIT 20
#define DAY_US        INT64_C(86400000000)
// Of the code, in a row of the list.
#define LINE_CHARACTERS 60

static const struct sr_option options[] = {
        {OPTION_LIMIT, "limit", "N", "list at most N runs; the default is 20"},
        {OPTION_KEEP, "keep", "N", "prune: delete all but the newest N runs"},
        {OPTION_OLDER_THAN, "older-than", "DAYS", "prune: delete runs older than so many days"},
        {OPTION_JSON, "json", NULL, "print JSON: an array of runs, or one object"},
        {0},
};

enum action { ACTION_LIST, ACTION_SHOW, ACTION_PRUNE };

struct history_arguments {
        enum action action;
        const char *id_text; // of `show`
        int64_t id;
        int64_t limit; // 0: not given
        int64_t keep;  // -1: not given
        int64_t days;  // -1: not given
        bool json;
};

static int take_option(struct sr_cli *cli, struct history_arguments *a, struct sr_error **error)
{
        const char *value = cli->scan.value;

        switch (cli->scan.option->id) {
        case OPTION_LIMIT: {
                int r = sr_option_integer("--limit", value, INT64_MIN, INT64_MAX, &a->limit, error);

                // As the tool of the server has it.
                if (r == 0 && a->limit < 1)
                        a->limit = 1;
                return r;
        }
        case OPTION_KEEP:
                return sr_option_integer("--keep", value, 0, INT64_MAX, &a->keep, error);
        case OPTION_OLDER_THAN:
                return sr_option_integer("--older-than", value, 0, 36500, &a->days, error);
        default:
                a->json = true;
                return 0;
        }
}

static int take_word(struct history_arguments *a, size_t index, const char *word, struct sr_error **error)
{
        if (index == 0 && strcmp(word, "show") == 0) {
                a->action = ACTION_SHOW;
                return 0;
        }
        if (index == 0 && strcmp(word, "prune") == 0) {
                a->action = ACTION_PRUNE;
                return 0;
        }
        if (index == 1 && a->action == ACTION_SHOW) {
                a->id_text = word;
                return sr_option_integer("history show", word, 1, INT64_MAX, &a->id, error);
        }
        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "unexpected argument \"%s\"", word);
}

// What does not belong together, as a sentence; NULL when all is well.
static const char *find_conflict(const struct history_arguments *a)
{
        if (a->action == ACTION_SHOW && a->id_text == NULL)
                return "which run? `history` lists their numbers";
        if (a->action != ACTION_PRUNE && (a->keep >= 0 || a->days >= 0))
                return "--keep and --older-than belong to `history prune`";
        if (a->action != ACTION_LIST && a->limit != 0)
                return "--limit belongs to the list";
        if (a->action == ACTION_PRUNE && a->keep < 0 && a->days < 0)
                return "what to delete? Say --keep N, --older-than DAYS or both";
        return NULL;
}

static bool read_arguments(struct sr_cli *cli, char *const *arguments, struct history_arguments *a)
{
        size_t words = 0;

        sr_cli_scan(cli, arguments);
        for (enum sr_cli_item item; (item = sr_cli_next(cli)) != SR_CLI_END;) {
                _cleanup_error_ struct sr_error *error = NULL;

                if (item == SR_CLI_STOP)
                        return false;
                if ((item == SR_CLI_WORD ? take_word(a, words++, cli->scan.value, &error)
                                         : take_option(cli, a, &error)) < 0) {
                        cli->status = sr_cli_usage(cli, "%s", sr_error_message(error));
                        return false;
                }
        }

        const char *conflict = find_conflict(a);

        if (conflict != NULL)
                cli->status = sr_cli_usage(cli, "%s", conflict);
        return conflict == NULL;
}

// As much of the code as tells one run from another.
static char *first_line(const struct sr_history_record *record)
{
        size_t length = strcspn(record->code, "\n");
        size_t shown = sr_utf8_prefix(record->code, length, LINE_CHARACTERS);

        return sr_asprintf("%.*s%s", (int)shown, record->code, shown < length ? "…" : "");
}

// With why it ended so, where the status alone does not tell.
static void add_status(struct sr_text_table *table, const struct sr_history_record *record)
{
        _cleanup_free_ char *reason = sr_history_record_reason(record);

        if (reason == NULL || strcmp(reason, "exit") == 0 || strcmp(reason, record->status) == 0)
                sr_text_table_add(table, record->status);
        else
                sr_text_table_addf(table, "%s (%s)", record->status, reason);
}

static void print_table(const struct sr_history_record *records, size_t count, struct sr_buf *out)
{
        static const char *const titles[] = {"ID", "TIME", "LANGUAGE", "STATUS", "EXIT", "MS", "CODE"};
        _cleanup_table_ struct sr_text_table table = {.columns = sizeof(titles) / sizeof(titles[0]),
                                                      .width = sr_text_terminal_width()};

        for (size_t i = 0; i < table.columns; i++)
                sr_text_table_add(&table, titles[i]);
        for (size_t i = 0; i < count; i++) {
                const struct sr_history_record *record = &records[i];
                _cleanup_free_ char *timestamp = sr_clock_format_iso(record->timestamp_us);
                _cleanup_free_ char *line = first_line(record);

                sr_text_table_addf(&table, "%lld", (long long)record->id);
                sr_text_table_addf(&table, "%.19sZ", timestamp); // whole seconds are enough here
                sr_text_table_add(&table, record->language);
                add_status(&table, record);
                if (record->has_exit_code)
                        sr_text_table_addf(&table, "%d", record->exit_code);
                else
                        sr_text_table_add(&table, NULL);
                sr_text_table_addf(&table, "%.2f", record->duration_ms);
                sr_text_table_add(&table, line);
        }
        sr_text_table_print(&table, out);
}

static int list(struct sr_history *history, const struct history_arguments *a, struct sr_buf *out,
                struct sr_error **error)
{
        struct sr_history_record *records = NULL;
        size_t count = 0;
        int r = sr_history_list(history, a->limit != 0 ? a->limit : DEFAULT_LIMIT, &records, &count, error);

        if (r < 0)
                return r;
        if (a->json) {
                struct sr_json_writer w = {.out = out, .indent = 2, .first = true};

                sr_json_open_array(&w, NULL);
                for (size_t i = 0; i < count; i++)
                        sr_history_record_write(&records[i], SR_HISTORY_REASON, &w);
                sr_json_close_array(&w);
                sr_buf_append_char(out, '\n');
        } else {
                print_table(records, count, out);
        }
        sr_history_records_free(records, count);
        return 0;
}

static void print_record(const struct sr_history_record *record, struct sr_buf *out)
{
        _cleanup_free_ char *timestamp = sr_clock_format_iso(record->timestamp_us);
        _cleanup_table_ struct sr_text_table table = {.columns = 2};

        sr_text_table_add(&table, "id");
        sr_text_table_addf(&table, "%lld", (long long)record->id);
        sr_text_table_add(&table, "time");
        sr_text_table_add(&table, timestamp);
        sr_text_table_add(&table, "language");
        sr_text_table_add(&table, record->language);
        sr_text_table_add(&table, "status");
        sr_text_table_add(&table, record->status);
        sr_text_table_add(&table, "exit code");
        if (record->has_exit_code)
                sr_text_table_addf(&table, "%d", record->exit_code);
        else
                sr_text_table_add(&table, NULL);
        sr_text_table_add(&table, "duration");
        sr_text_table_addf(&table, "%.2f ms", record->duration_ms);
        sr_text_table_add(&table, "output kept");
        sr_text_table_addf(&table, "%lld bytes of stdout, %lld of stderr", (long long)record->stdout_size,
                           (long long)record->stderr_size);
        if (record->facts != NULL)
                sr_facts_add(&table, record->facts);
        sr_text_table_print(&table, out);
        sr_buf_append_char(out, '\n');
        sr_text_append_block(out, record->code, record->code_length);
        if (record->code_length > 0 && record->code[record->code_length - 1] != '\n')
                sr_buf_append_char(out, '\n');
}

static int show(struct sr_history *history, const struct history_arguments *a, struct sr_buf *out,
                struct sr_error **error)
{
        struct sr_history_record *record = NULL;
        int r = sr_history_get(history, a->id, &record, error);

        if (r < 0)
                return r;
        if (a->json) {
                struct sr_json_writer w = {.out = out, .indent = 2, .first = true};

                sr_history_record_write(record, SR_HISTORY_FACTS, &w);
                sr_buf_append_char(out, '\n');
        } else {
                print_record(record, out);
        }
        sr_history_records_free(record, 1);
        return 0;
}

// reader has the file open for reading only: a file that it cannot read is a sentence and stays where it is,
// which opening it for writing would set aside.
static int prune(const char *path, struct sr_history *reader, const struct history_arguments *a,
                 struct sr_buf *out, struct sr_error **error)
{
        _cleanup_history_ struct sr_history *history = NULL;
        _cleanup_free_ char *notice = NULL;
        struct sr_history_record *records = NULL;
        size_t count = 0;
        int64_t deleted = 0;
        int r = sr_history_list(reader, 1, &records, &count, error);

        if (r < 0)
                return r;
        sr_history_records_free(records, count);
        if (count > 0) {
                int64_t before = a->days >= 0 ? sr_clock_realtime_us() - a->days * DAY_US : 0;

                r = sr_history_open(path, false, &history, &notice, error);
                if (r == 0)
                        r = sr_history_prune(history, a->keep, before, &deleted, error);
                if (r < 0)
                        return r;
        }
        if (a->json)
                sr_buf_printf(out, "{\n  \"deleted\": %lld\n}\n", (long long)deleted);
        else
                sr_buf_printf(out, "Deleted %lld run%s.\n", (long long)deleted, deleted == 1 ? "" : "s");
        return 0;
}

static int history_main(struct sr_cli *cli, char *const *arguments)
{
        struct history_arguments a = {.keep = -1, .days = -1};
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_config_ struct sr_config *config = NULL;
        _cleanup_history_ struct sr_history *history = NULL;
        _cleanup_free_ char *notice = NULL;
        _cleanup_buf_ struct sr_buf text = {0};

        if (!read_arguments(cli, arguments, &a))
                return cli->status;

        int status = sr_cli_load_config(cli, &config);

        if (status != SR_EXIT_OK)
                return status;
        if (config->database == NULL)
                return sr_cli_fail(
                        cli, "there is no history: it is off and no database is named (history.database)");

        int r = sr_history_open(config->database, true, &history, &notice, &error);

        if (r >= 0)
                switch (a.action) {
                case ACTION_LIST:
                        r = list(history, &a, &text, &error);
                        break;
                case ACTION_SHOW:
                        r = show(history, &a, &text, &error);
                        break;
                case ACTION_PRUNE:
                        r = prune(config->database, history, &a, &text, &error);
                        break;
                }
        if (r < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        return sr_cli_print(cli, &text);
}

const struct sr_verb sr_verb_history = {
        .name = "history",
        .usage = (const char *const[]){"history [--limit N] [--json]", "history show ID [--json]",
                                       "history prune [--keep N] [--older-than DAYS] [--json]", NULL},
        .summary = "list, show or delete recorded runs",
        .description =
                "Lists the newest runs, newest first; `show` prints all that is known of one, with the\n"
                "beginning of its code; `prune` deletes.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = history_main,
};
