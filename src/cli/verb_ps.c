// `ps`: what runs and waits in the servers of this user, and in `run`s by hand.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/control.h"
#include "cli/text.h"

enum { OPTION_JSON = 256 };

static const struct sr_option options[] = {
        {'q', "quiet", NULL, "print the ids alone"},
        {OPTION_JSON, "json", NULL, "print a JSON array"},
        {0},
};

struct row {
        const struct sr_control_server *server;
        const struct sr_control_run *run;
};

char *sr_control_id(const struct sr_control_server *server, uint64_t number)
{
        return sr_asprintf("%lld.%llu", (long long)server->pid, (unsigned long long)number);
}

// In the order in which they were asked for.
static int compare(const void *left, const void *right)
{
        const struct row *a = left, *b = right;

        if (a->run->asked_us != b->run->asked_us)
                return a->run->asked_us < b->run->asked_us ? -1 : 1;
        if (a->server->pid != b->server->pid)
                return a->server->pid < b->server->pid ? -1 : 1;
        return a->run->number < b->run->number ? -1 : a->run->number > b->run->number;
}

static struct row *gather(const struct sr_control_view *view, size_t *ret_count)
{
        size_t count = 0;
        struct row *rows;

        for (size_t i = 0; i < view->count; i++)
                count += view->servers[i].count;
        rows = sr_new_array(struct row, count + 1);
        *ret_count = 0;
        for (size_t i = 0; i < view->count; i++)
                for (size_t k = 0; k < view->servers[i].count; k++)
                        rows[(*ret_count)++] =
                                (struct row){.server = &view->servers[i], .run = &view->servers[i].runs[k]};
        qsort(rows, count, sizeof(*rows), compare);
        return rows;
}

static void add_time(struct sr_text_table *table, double ms)
{
        long long seconds = (long long)(ms / 1e3);

        if (ms < 60e3)
                sr_text_table_addf(table, "%.1fs", ms / 1e3);
        else if (seconds < 3600)
                sr_text_table_addf(table, "%lldm%02llds", seconds / 60, seconds % 60);
        else
                sr_text_table_addf(table, "%lldh%02lldm", seconds / 3600, seconds / 60 % 60);
}

static void print_table(const struct row *rows, size_t count, struct sr_buf *out)
{
        static const char *const titles[] = {"ID",      "LANGUAGE", "STATE", "ELAPSED",
                                             "TIMEOUT", "SERVER",   "CODE"};
        _cleanup_table_ struct sr_text_table table = {.columns = sizeof(titles) / sizeof(titles[0]),
                                                      .width = sr_text_terminal_width()};

        for (size_t i = 0; i < table.columns; i++)
                sr_text_table_add(&table, titles[i]);
        for (const struct row *row = rows; row < rows + count; row++) {
                _cleanup_free_ char *id = sr_control_id(row->server, row->run->number);

                sr_text_table_add(&table, id);
                sr_text_table_add(&table, row->run->language);
                sr_text_table_add(&table, row->run->state);
                add_time(&table, row->run->elapsed_ms);
                add_time(&table, row->run->timeout_ms);
                sr_text_table_addf(&table, "%lld (%s)", (long long)row->server->pid, row->server->kind);
                sr_text_table_add(&table, row->run->code);
        }
        sr_text_table_print(&table, out);
}

static void print_json(const struct row *rows, size_t count, struct sr_buf *out)
{
        struct sr_json_writer w = {.out = out, .indent = 2, .first = true};

        sr_json_open_array(&w, NULL);
        for (const struct row *row = rows; row < rows + count; row++) {
                _cleanup_free_ char *id = sr_control_id(row->server, row->run->number);
                _cleanup_free_ char *asked = sr_clock_format_iso(row->run->asked_us);

                sr_json_open_object(&w, NULL);
                sr_json_string(&w, "id", id);
                sr_json_string(&w, "language", row->run->language);
                sr_json_string(&w, "state", row->run->state);
                sr_json_string(&w, "asked", asked);
                sr_json_number(&w, "elapsed_ms", row->run->elapsed_ms, 2);
                sr_json_number(&w, "timeout_ms", row->run->timeout_ms, 2);
                sr_json_string(&w, "code", row->run->code);
                sr_json_open_object(&w, "server");
                sr_json_integer(&w, "pid", row->server->pid);
                sr_json_string(&w, "kind", row->server->kind);
                sr_json_close_object(&w);
                sr_json_close_object(&w);
        }
        sr_json_close_array(&w);
        sr_buf_append_char(out, '\n');
}

int sr_control_view_all(struct sr_cli *cli, struct sr_control_view **ret)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_config_ struct sr_config *config = NULL;
        int status = sr_cli_load_config(cli, &config);

        if (status != SR_EXIT_OK)
                return status;
        if (sr_control_look(config->control_directories, ret, &error) < 0)
                return sr_cli_fail(cli, "%s", sr_error_message(error));
        for (char *const *problem = (*ret)->problems; problem != NULL && *problem != NULL; problem++)
                sr_cli_say("%s", *problem);
        return SR_EXIT_OK;
}

static int ps_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_view_ struct sr_control_view *view = NULL;
        _cleanup_buf_ struct sr_buf text = {0};
        _cleanup_free_ struct row *rows = NULL;
        bool json = false, quiet = false;
        size_t count;
        int status;

        sr_cli_scan(cli, arguments);
        for (enum sr_cli_item item; (item = sr_cli_next(cli)) != SR_CLI_END;) {
                if (item == SR_CLI_STOP)
                        return cli->status;
                if (item == SR_CLI_WORD)
                        return sr_cli_usage(cli, "unexpected argument \"%s\"", cli->scan.value);
                if (cli->scan.option->id == OPTION_JSON)
                        json = true;
                else
                        quiet = true;
        }
        if (json && quiet)
                return sr_cli_usage(cli, "--json and --quiet are two ways to print: choose one");
        status = sr_control_view_all(cli, &view);
        if (status != SR_EXIT_OK)
                return status;
        rows = gather(view, &count);
        if (json)
                print_json(rows, count, &text);
        else if (!quiet)
                print_table(rows, count, &text);
        for (size_t i = 0; quiet && i < count; i++)
                sr_buf_printf(&text, "%lld.%llu\n", (long long)rows[i].server->pid,
                              (unsigned long long)rows[i].run->number);
        status = sr_cli_print(cli, &text);
        return status == SR_EXIT_OK && view->incomplete ? SR_EXIT_FAILURE : status;
}

const struct sr_verb sr_verb_ps = {
        .name = "ps",
        .usage = (const char *const[]){"ps [--json | --quiet]", NULL},
        .summary = "list what runs and waits now",
        .description =
                "Lists the runs of all servers of this user, and those of `run`, in the order in which they\n"
                "were asked for. STATE is waiting (for a slot), compile or run; ELAPSED the time in that\n"
                "state, TIMEOUT the limit of the stage. `stop` ends a run by its ID.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = ps_main,
};
