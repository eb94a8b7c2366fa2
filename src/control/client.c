// The other end: finds the servers, asks them, and reads what they say. A server may be stuck, dying or of
// another version; none may keep the others from being seen.

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "control/internal.h"

#define DEPTH_MAX 8
#define READ_SIZE 65536
#define NS_PER_MS UINT64_C(1000000)
// A server has at most server.slots + server.max_queue runs, 66560; twice that is a server that lies.
#define PAGES_MAX (2 * 66560 / SR_CONTROL_PAGE)

static int no_answer(const char *name, struct sr_error **error)
{
        return sr_error_set(error, SR_ERROR_HOST, ETIMEDOUT, "process %lld does not answer",
                            (long long)control_name_pid(name));
}

static int odd_answer(const char *name, struct sr_error **error)
{
        return sr_error_set(error, SR_ERROR_HOST, EBADMSG,
                            "what process %lld answers is not understood: it may be another version's",
                            (long long)control_name_pid(name));
}

// Waits for the descriptor until a time. false when it has come.
static bool wait_until(int fd, short events, uint64_t until_ns)
{
        uint64_t now = sr_clock_monotonic_ns();
        struct pollfd poll_fd = {.fd = fd, .events = events};

        if (now >= until_ns)
                return false;
        return poll(&poll_fd, 1, (int)((until_ns - now) / NS_PER_MS) + 1) != 0;
}

static int connect_until(int directory, const char *name, uint64_t until_ns)
{
        const struct timespec step = {.tv_nsec = 5 * (long)NS_PER_MS};

        for (;;) {
                int fd = control_connect(directory, name);

                if (fd != -EAGAIN || sr_clock_monotonic_ns() >= until_ns)
                        return fd;
                nanosleep(&step, NULL);
        }
}

// 0 with at least a line; -ESRCH: the server went away; -ETIMEDOUT, -EMSGSIZE.
static int exchange(int fd, const char *request, uint64_t until_ns, struct sr_buf *answer)
{
        size_t left = strlen(request);

        while (left > 0) {
                ssize_t n = send(fd, request, left, MSG_NOSIGNAL);

                if (n < 0 && errno != EAGAIN && errno != EINTR)
                        return -ESRCH;
                if (n < 0 && !wait_until(fd, POLLOUT, until_ns))
                        return -ETIMEDOUT;
                if (n > 0) {
                        request += n;
                        left -= (size_t)n;
                }
        }
        for (;;) {
                char *to = sr_buf_reserve(answer, READ_SIZE);
                ssize_t n = read(fd, to, READ_SIZE);

                if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                        return -ESRCH;
                if (n < 0 && !wait_until(fd, POLLIN, until_ns))
                        return -ETIMEDOUT;
                if (n < 0)
                        continue;
                answer->len += (size_t)n;
                answer->data[answer->len] = '\0';
                if (memchr(to, '\n', (size_t)n) != NULL)
                        return 0;
                if (answer->len > CONTROL_ANSWER_MAX)
                        return -EMSGSIZE;
        }
}

// The answer to one request. -ESRCH without a message: the server is gone.
static int ask(int directory, const char *name, const char *request, cJSON **ret, struct sr_error **error)
{
        uint64_t until_ns = sr_clock_monotonic_ns() + CONTROL_PATIENCE_MS * NS_PER_MS;
        _cleanup_close_ int fd = connect_until(directory, name, until_ns);
        _cleanup_buf_ struct sr_buf answer = {0};
        int r;

        if (fd == -ECONNREFUSED)
                (void)control_remove_dead(directory, name);
        if (fd == -ECONNREFUSED || fd == -ENOENT)
                return -ESRCH;
        if (fd == -EAGAIN)
                return no_answer(name, error);
        if (fd < 0)
                return sr_error_set(error, SR_ERROR_HOST, -fd, "cannot reach process %lld: %s",
                                    (long long)control_name_pid(name), strerror(-fd));
        r = exchange(fd, request, until_ns, &answer);
        if (r == -ETIMEDOUT)
                return no_answer(name, error);
        if (r == -ESRCH)
                return r;
        if (r < 0 || sr_json_parse(answer.data, answer.len, DEPTH_MAX, ret, NULL) < 0)
                return odd_answer(name, error);
        return 0;
}

static char *text_of(const cJSON *object, const char *key)
{
        size_t length;
        char *text = sr_json_string_value(sr_json_member(object, key), &length);

        return text != NULL ? text : sr_strdup("");
}

static double number_of(const cJSON *object, const char *key)
{
        const cJSON *item = sr_json_member(object, key);

        // Far above what is sent, and still an int64_t.
        return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 9e15 ? item->valuedouble
                                                                                          : 0;
}

static void clear_server(struct sr_control_server *server)
{
        for (size_t i = 0; i < server->count; i++) {
                free(server->runs[i].language);
                free(server->runs[i].state);
                free(server->runs[i].code);
        }
        free(server->runs);
        free(server->kind);
}

// Adds the runs of one answer; their numbers must grow. -EBADMSG when they do not.
static int take_runs(struct sr_control_server *server, const cJSON *runs)
{
        uint64_t last = server->count > 0 ? server->runs[server->count - 1].number : 0;
        const cJSON *item;
        int size = cJSON_GetArraySize(runs);

        if (!cJSON_IsArray(runs) || size > SR_CONTROL_PAGE)
                return -EBADMSG;
        server->runs = sr_realloc(server->runs, server->count + (size_t)size + 1, sizeof(*server->runs));
        cJSON_ArrayForEach(item, runs)
        {
                uint64_t number = (uint64_t)number_of(item, "number");

                if (number <= last)
                        return -EBADMSG;
                last = number;
                server->runs[server->count++] = (struct sr_control_run){
                        .number = number,
                        .language = text_of(item, "language"),
                        .state = text_of(item, "state"),
                        .code = text_of(item, "code"),
                        .asked_us = (int64_t)number_of(item, "asked_us"),
                        .elapsed_ms = number_of(item, "elapsed_ms"),
                        .timeout_ms = number_of(item, "timeout_ms"),
                };
        }
        return 0;
}

static int list_server(int directory, const char *name, struct sr_control_server *server,
                       struct sr_error **error)
{
        bool more = true;

        for (int page = 0; more; page++) {
                uint64_t after = server->count > 0 ? server->runs[server->count - 1].number : 0;
                _cleanup_free_ char *request =
                        sr_asprintf("{\"method\":\"list\",\"after\":%llu}\n", (unsigned long long)after);
                _cleanup_json_ cJSON *answer = NULL;
                size_t before = server->count;
                int r = ask(directory, name, request, &answer, error);

                if (r < 0)
                        return r;
                if (page == PAGES_MAX || take_runs(server, sr_json_member(answer, "runs")) < 0)
                        return odd_answer(name, error);
                free(server->kind);
                server->kind = text_of(answer, "server");
                server->last = (uint64_t)number_of(answer, "last");
                more = cJSON_IsTrue(sr_json_member(answer, "more")) && server->count > before;
        }
        return 0;
}

static int look_in(struct sr_control_view *view, int directory, struct sr_error **error)
{
        _cleanup_strv_ char **names = NULL;
        int r = control_directory_list(directory, &names, error);

        if (r < 0)
                return r;
        for (char *const *name = names; *name != NULL; name++) {
                _cleanup_error_ struct sr_error *reason = NULL;
                struct sr_control_server server = {.pid = control_name_pid(*name),
                                                   .place = view->place_count};

                r = list_server(directory, *name, &server, &reason);
                if (r < 0 && r != -ESRCH) {
                        sr_strv_append(&view->problems, sr_strdup(sr_error_message(reason)));
                        view->incomplete = true;
                }
                if (r < 0) {
                        clear_server(&server);
                        continue;
                }
                view->servers = sr_realloc(view->servers, view->count + 1, sizeof(*view->servers));
                view->servers[view->count++] = server;
        }
        return 0;
}

int sr_control_look(char *const *directories, struct sr_control_view **ret, struct sr_error **error)
{
        _cleanup_view_ struct sr_control_view *view = sr_new(struct sr_control_view);

        for (; directories != NULL && *directories != NULL; directories++) {
                _cleanup_error_ struct sr_error *reason = NULL;
                _cleanup_close_ int directory = -1;
                int r = control_directory_open(*directories, false, &directory, &reason);

                if (r == 0)
                        r = look_in(view, directory, &reason);
                if (r == 0) {
                        view->places = sr_realloc(view->places, view->place_count + 1, sizeof(*view->places));
                        view->places[view->place_count++] = sr_fd_steal(directory);
                } else if (r != -ENOENT) {
                        sr_strv_append(&view->problems, sr_strdup(sr_error_message(reason)));
                }
        }
        // No server of ours would use what we refuse, so what others show is all there is.
        if (view->place_count == 0 && view->problems != NULL)
                return sr_error_set(error, SR_ERROR_HOST, EPERM, "%s", view->problems[0]);
        *ret = sr_steal(view);
        return 0;
}

int sr_control_end(const struct sr_control_view *view, const struct sr_control_server *server,
                   const uint64_t *numbers, size_t count, enum sr_control_end *ret, struct sr_error **error)
{
        static const char *const names[] = {[SR_CONTROL_ENDING] = "ending",
                                            [SR_CONTROL_ENDED] = "ended",
                                            [SR_CONTROL_UNKNOWN] = "unknown"};
        _cleanup_free_ char *name = sr_asprintf("%lld.sock", (long long)server->pid);
        _cleanup_buf_ struct sr_buf request = {0};
        _cleanup_json_ cJSON *answer = NULL;
        struct sr_json_writer w = {.out = &request, .first = true};
        const cJSON *runs;
        int r;

        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "method", "stop");
        sr_json_open_array(&w, "runs");
        for (size_t i = 0; i < count; i++)
                sr_json_integer(&w, NULL, (int64_t)numbers[i]);
        sr_json_close_array(&w);
        sr_json_close_object(&w);
        sr_buf_append_char(&request, '\n');
        r = ask(view->places[server->place], name, request.data, &answer, error);
        if (r == -ESRCH) {
                for (size_t i = 0; i < count; i++)
                        ret[i] = SR_CONTROL_ENDED;
                return 0;
        }
        if (r < 0)
                return r;
        runs = sr_json_member(answer, "runs");
        if (!cJSON_IsArray(runs) || (size_t)cJSON_GetArraySize(runs) != count)
                return odd_answer(name, error);

        const cJSON *item = runs->child;

        for (size_t i = 0; i < count; i++, item = item->next) {
                const char *text = cJSON_GetStringValue(item);
                size_t known = 0;

                while (text != NULL && known < 3 && strcmp(names[known], text) != 0)
                        known++;
                if (text == NULL || known == 3)
                        return odd_answer(name, error);
                ret[i] = (enum sr_control_end)known;
        }
        return 0;
}

struct sr_control_view *sr_control_view_free(struct sr_control_view *view)
{
        if (view == NULL)
                return NULL;
        for (size_t i = 0; i < view->count; i++)
                clear_server(&view->servers[i]);
        for (size_t i = 0; i < view->place_count; i++)
                sr_fd_close(view->places[i]);
        free(view->servers);
        free(view->places);
        sr_strv_free(view->problems);
        free(view);
        return NULL;
}

void sr_control_view_freep(struct sr_control_view **view)
{
        *view = sr_control_view_free(*view);
}
