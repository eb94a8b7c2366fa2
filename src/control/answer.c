// One line of a client's, and what is said to it. Lines come from whoever may connect; nothing in them is
// trusted.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "control/internal.h"
#include "run/run.h"

// The deepest request is {"runs":[1]}.
#define DEPTH_MAX 4
// The integers that a double holds exactly end here.
#define NUMBER_MAX 9007199254740992.0

static bool read_number(const cJSON *item, uint64_t *ret)
{
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= NUMBER_MAX) ||
            item->valuedouble != floor(item->valuedouble))
                return false;
        *ret = (uint64_t)item->valuedouble;
        return true;
}

struct listing {
        struct sr_json_writer *w;
        size_t count;
};

static void show(void *context, const struct sr_run_view *run)
{
        struct listing *listing = context;
        struct sr_json_writer *w = listing->w;

        listing->count++;
        sr_json_open_object(w, NULL);
        sr_json_integer(w, "number", (int64_t)run->number);
        sr_json_string(w, "language", run->language);
        sr_json_string(w, "state", sr_run_state_name(run->state));
        sr_json_integer(w, "asked_us", run->asked_us);
        sr_json_number(w, "elapsed_ms", (double)run->elapsed_us / 1e3, 3);
        sr_json_number(w, "timeout_ms", (double)run->timeout_us / 1e3, 3);
        sr_json_string(w, "code", run->line);
        sr_json_close_object(w);
}

// Returns what is wrong with the request, NULL when it was answered.
static const char *list(struct sr_runner *runner, const char *kind, const cJSON *request,
                        struct sr_json_writer *w)
{
        const cJSON *item = sr_json_member(request, "after");
        struct listing listing = {.w = w};
        uint64_t after = 0;

        if (item != NULL && !read_number(item, &after))
                return "\"after\" is no number of a run";
        sr_json_string(w, "server", kind);
        sr_json_open_array(w, "runs");

        uint64_t last = sr_runner_look(runner, after, SR_CONTROL_PAGE, show, &listing);

        sr_json_close_array(w);
        sr_json_integer(w, "last", (int64_t)last);
        sr_json_bool(w, "more", listing.count == SR_CONTROL_PAGE);
        return NULL;
}

static const char *stop(struct sr_runner *runner, const cJSON *request, struct sr_json_writer *w)
{
        static const char *const names[] = {
                [SR_RUN_LIVES] = "ending", [SR_RUN_IS_OVER] = "ended", [SR_RUN_NEVER_WAS] = "unknown"};
        const cJSON *runs = sr_json_member(request, "runs"), *item;
        uint64_t numbers[SR_CONTROL_PAGE];
        size_t count = 0;

        if (!cJSON_IsArray(runs) || cJSON_GetArraySize(runs) > SR_CONTROL_PAGE)
                return "\"runs\" is no array of at most 100 numbers of runs";
        cJSON_ArrayForEach(item, runs)
        {
                if (!read_number(item, &numbers[count++]))
                        return "\"runs\" holds something that is no number of a run";
        }
        sr_json_open_array(w, "runs");
        for (size_t i = 0; i < count; i++)
                sr_json_string(w, NULL, names[sr_runner_end(runner, numbers[i])]);
        sr_json_close_array(w);
        return NULL;
}

void control_answer(struct sr_runner *runner, const char *kind, const char *line, size_t length,
                    struct sr_buf *out)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_json_ cJSON *request = NULL;
        struct sr_json_writer w = {.out = out, .first = true};
        const char *method = NULL, *problem = NULL;

        if (sr_json_parse(line, length, DEPTH_MAX, &request, &error) < 0)
                problem = sr_error_message(error);
        else
                method = cJSON_GetStringValue(sr_json_member(request, "method"));
        sr_json_open_object(&w, NULL);
        if (problem == NULL && method != NULL && strcmp(method, "list") == 0)
                problem = list(runner, kind, request, &w);
        else if (problem == NULL && method != NULL && strcmp(method, "stop") == 0)
                problem = stop(runner, request, &w);
        else if (problem == NULL)
                problem = "there is no such method";
        if (problem != NULL)
                sr_json_string(&w, "error", problem);
        sr_json_close_object(&w);
        sr_buf_append_char(out, '\n');
}
