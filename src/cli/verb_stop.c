// `stop`: ends runs by their ids and waits until they have ended.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/control.h"
#include "cli/text.h"

// A run is killed at once; what may take longer is its place in the history.
#define WAIT_NS  (UINT64_C(10) * 1000 * 1000 * 1000)
#define STEP_MIN 2   // ms between two looks
#define STEP_MAX 100 // ms

static const struct sr_option options[] = {
        {'a', "all", NULL, "end everything that runs or waits"},
        {0},
};

// One run to end.
struct target {
        const struct sr_control_server *server;
        uint64_t number;
        bool asked;
        bool settled; // nothing more is to be done about it
        bool ended;   // by us
};

struct targets {
        struct target *list;
        size_t count;
        bool failed; // something was not as asked for
};

static void add(struct targets *targets, const struct sr_control_server *server, uint64_t number)
{
        for (size_t i = 0; i < targets->count; i++)
                if (targets->list[i].server == server && targets->list[i].number == number)
                        return;
        targets->list = sr_realloc(targets->list, targets->count + 1, sizeof(*targets->list));
        targets->list[targets->count++] = (struct target){.server = server, .number = number};
}

// Reads a number that is written as we write it.
static bool read_number(const char *text, size_t length, int64_t *ret)
{
        _cleanup_free_ char *copy = sr_memdup0(text, length);

        return copy[0] != '0' && strspn(copy, "0123456789") == length &&
               sr_option_integer("", copy, 1, INT64_C(1) << 53, ret, NULL) == 0;
}

static void refuse(struct targets *targets, const char *id)
{
        _cleanup_buf_ struct sr_buf shown = {0};

        sr_text_append_line(&shown, id, strlen(id));
        sr_cli_say("there is no run \"%s\"; `sandbox-runner ps` lists those that are",
                   shown.data != NULL ? shown.data : "");
        targets->failed = true;
}

// The pid alone is enough where it leaves no doubt. No other prefix is: a run that has ended must not be
// mistaken for another whose id goes on where its own ends.
static void add_only_run(struct targets *targets, const struct sr_control_server *server, const char *id)
{
        if (server->count == 0) {
                sr_cli_say("nothing runs in process %s", id);
                targets->failed = true;
        } else if (server->count > 1) {
                sr_cli_say("process %s has %zu runs: say which, as in %s.%llu", id, server->count, id,
                           (unsigned long long)server->runs[0].number);
                targets->failed = true;
        } else {
                add(targets, server, server->runs[0].number);
        }
}

static void add_id(struct targets *targets, const struct sr_control_view *view, const char *id)
{
        const char *dot = strchr(id, '.');
        int64_t pid, number = 0;

        if (!read_number(id, dot != NULL ? (size_t)(dot - id) : strlen(id), &pid) ||
            (dot != NULL && !read_number(dot + 1, strlen(dot + 1), &number))) {
                refuse(targets, id);
                return;
        }
        for (size_t i = 0; i < view->count; i++) {
                const struct sr_control_server *server = &view->servers[i];

                if (server->pid != pid)
                        continue;
                if (dot == NULL)
                        add_only_run(targets, server, id);
                else
                        add(targets, server, (uint64_t)number);
                return;
        }
        refuse(targets, id);
}

static void take_end(struct targets *targets, struct target *target, enum sr_control_end end)
{
        _cleanup_free_ char *id = sr_control_id(target->server, target->number);

        if (end == SR_CONTROL_UNKNOWN) {
                refuse(targets, id);
        } else if (end == SR_CONTROL_ENDED && !target->asked) {
                sr_cli_say("run %s has ended already", id);
        } else if (end == SR_CONTROL_ENDED) {
                target->ended = true;
        } else {
                target->asked = true;
                return;
        }
        target->settled = true;
}

// One request about the unsettled runs of a server from an index on, as many as it takes. Where it does not
// answer, these are given up. Returns the index to go on from.
static size_t ask_page(struct targets *targets, const struct sr_control_view *view,
                       const struct sr_control_server *server, size_t index)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct target *chosen[SR_CONTROL_PAGE];
        uint64_t numbers[SR_CONTROL_PAGE];
        enum sr_control_end ends[SR_CONTROL_PAGE];
        size_t count = 0;
        int r = 0;

        for (; index < targets->count && count < SR_CONTROL_PAGE; index++) {
                struct target *target = &targets->list[index];

                if (target->server == server && !target->settled) {
                        chosen[count] = target;
                        numbers[count++] = target->number;
                }
        }
        if (count > 0)
                r = sr_control_end(view, server, numbers, count, ends, &error);
        if (r < 0) {
                sr_cli_say("%s", sr_error_message(error));
                targets->failed = true;
        }
        for (size_t i = 0; i < count; i++) {
                if (r < 0)
                        chosen[i]->settled = true;
                else
                        take_end(targets, chosen[i], ends[i]);
        }
        return index;
}

static bool all_settled(const struct targets *targets)
{
        for (size_t i = 0; i < targets->count; i++)
                if (!targets->list[i].settled)
                        return false;
        return true;
}

// Asks again and again until all have ended or the time is up. The ids of those that we ended go to out, in
// the order in which they were named.
static void end_all(struct targets *targets, const struct sr_control_view *view, struct sr_buf *out)
{
        uint64_t until_ns = sr_clock_monotonic_ns() + WAIT_NS;
        long step_ms = STEP_MIN;

        for (;;) {
                for (size_t i = 0; i < view->count; i++)
                        for (size_t index = 0; index < targets->count;)
                                index = ask_page(targets, view, &view->servers[i], index);
                if (all_settled(targets) || sr_clock_monotonic_ns() >= until_ns)
                        break;
                nanosleep(&(struct timespec){.tv_nsec = step_ms * 1000 * 1000}, NULL);
                step_ms = step_ms * 2 < STEP_MAX ? step_ms * 2 : STEP_MAX;
        }
        for (size_t i = 0; i < targets->count; i++) {
                const struct target *target = &targets->list[i];
                _cleanup_free_ char *id = sr_control_id(target->server, target->number);

                if (target->ended)
                        sr_buf_printf(out, "%s\n", id);
                if (target->settled)
                        continue;
                sr_cli_say("run %s has been told to end, but has not ended within %d seconds", id,
                           (int)(WAIT_NS / 1000000000u));
                targets->failed = true;
        }
}

static int stop_main(struct sr_cli *cli, char *const *arguments)
{
        _cleanup_view_ struct sr_control_view *view = NULL;
        _cleanup_buf_ struct sr_buf text = {0};
        _cleanup_strv_ char **ids = sr_new_array(char *, 1);
        struct targets targets = {0};
        bool all = false;
        int status;

        sr_cli_scan(cli, arguments);
        for (enum sr_cli_item item; (item = sr_cli_next(cli)) != SR_CLI_END;) {
                if (item == SR_CLI_STOP)
                        return cli->status;
                if (item == SR_CLI_WORD)
                        sr_strv_append(&ids, sr_strdup(cli->scan.value));
                else
                        all = true;
        }
        if (all && *ids != NULL)
                return sr_cli_usage(cli, "--all leaves nothing to name: either it or ids");
        if (!all && *ids == NULL)
                return sr_cli_usage(cli, "which run? `sandbox-runner ps` lists them; --all ends them all");
        status = sr_control_view_all(cli, &view);
        if (status != SR_EXIT_OK)
                return status;
        for (size_t i = 0; all && i < view->count; i++)
                for (size_t k = 0; k < view->servers[i].count; k++)
                        add(&targets, &view->servers[i], view->servers[i].runs[k].number);
        for (char *const *id = ids; *id != NULL; id++)
                add_id(&targets, view, *id);
        end_all(&targets, view, &text);
        free(targets.list);
        status = sr_cli_print(cli, &text);
        return status == SR_EXIT_OK && (targets.failed || (all && view->incomplete)) ? SR_EXIT_FAILURE
                                                                                     : status;
}

const struct sr_verb sr_verb_stop = {
        .name = "stop",
        .usage = (const char *const[]){"stop ID…", "stop --all", NULL},
        .summary = "end runs",
        .description =
                "Ends runs that `ps` lists, whether they run or wait, waits until they have ended and\n"
                "prints their ids. Who asked for a run gets its result all the same, with the reason\n"
                "`cancelled`. Where a process has a single run, its number before the dot is enough.",
        .options = options,
        .usage_status = SR_EXIT_USAGE,
        .failure_status = SR_EXIT_FAILURE,
        .main = stop_main,
};
