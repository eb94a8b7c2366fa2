// The socket behind `ps` and `stop`: what hostile lines get, what a client makes of hostile servers, and
// which directories are trusted. The runner is a list that the test holds.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "control/control.h"
#include "run/run.h"

// The runs first to last live, those before first have ended.
struct sr_runner {
        pthread_mutex_t lock;
        uint64_t first, last;
        uint64_t ended[8];
        size_t ended_count;
};

const char *sr_run_state_name(enum sr_run_state state)
{
        return state == SR_RUN_WAITS ? "waiting" : "run";
}

uint64_t sr_runner_look(struct sr_runner *runner, uint64_t after, size_t count,
                        void (*show)(void *context, const struct sr_run_view *run), void *context)
{
        pthread_mutex_lock(&runner->lock);
        for (uint64_t n = runner->first; n <= runner->last && count > 0; n++) {
                if (n <= after)
                        continue;
                show(context, &(struct sr_run_view){
                                      .number = n,
                                      .state = n == runner->last ? SR_RUN_WAITS : SR_RUN_RUNS,
                                      .language = "python",
                                      .line = "a \"b\"\x01\xc3\xa9",
                                      .asked_us = INT64_C(1795987503123456),
                                      .elapsed_us = 1500,
                                      .timeout_us = 10000000,
                              });
                count--;
        }

        uint64_t last = runner->last;

        pthread_mutex_unlock(&runner->lock);
        return last;
}

enum sr_run_found sr_runner_end(struct sr_runner *runner, uint64_t number)
{
        enum sr_run_found found = SR_RUN_IS_OVER;

        pthread_mutex_lock(&runner->lock);
        if (number < 1 || number > runner->last)
                found = SR_RUN_NEVER_WAS;
        else if (number >= runner->first) {
                found = SR_RUN_LIVES;
                if (runner->ended_count < 8)
                        runner->ended[runner->ended_count++] = number;
        }
        pthread_mutex_unlock(&runner->lock);
        return found;
}

struct fixture {
        char *root;
        char *directory; // root/control
        char *directories[3];
        struct sr_runner runner;
        struct sr_control *control;
};

static int setup(void **state)
{
        struct fixture *f = sr_new(struct fixture);
        char template[] = "/tmp/sr-control-XXXXXX";

        umask(077);
        f->root = sr_strdup(mkdtemp(template));
        f->directory = sr_asprintf("%s/control", f->root);
        f->directories[0] = f->directory;
        f->runner = (struct sr_runner){.lock = PTHREAD_MUTEX_INITIALIZER, .first = 1};
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *command = sr_asprintf("rm -rf '%s'", f->root);

        sr_control_stop(f->control);
        assert_int_equal(system(command), 0);
        free(f->root);
        free(f->directory);
        free(f);
        return 0;
}

static void start(struct fixture *f)
{
        const struct sr_control_options options = {
                .directories = f->directories, .kind = "serve", .runner = &f->runner};

        assert_int_equal(sr_control_start(&options, &f->control, NULL), 0);
        assert_non_null(f->control);
}

static char *own_name(const struct fixture *f)
{
        return sr_asprintf("%s/%d.sock", f->directory, (int)getpid());
}

static int connect_to(const struct fixture *f)
{
        _cleanup_free_ char *path = own_name(f);
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct timeval patience = {.tv_sec = 10};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0 && strlen(path) < sizeof(address.sun_path));
        strcpy(address.sun_path, path);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        return fd;
}

// All that is answered to these bytes, "" when the connection is closed without a word.
static char *exchange(const struct fixture *f, const char *bytes, size_t length, bool close_after)
{
        _cleanup_close_ int fd = connect_to(f);
        struct sr_buf answer = {0};
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);

        assert_true(n >= 0 || errno == EPIPE);
        if (close_after)
                shutdown(fd, SHUT_WR);
        for (char space[4096]; (n = recv(fd, space, sizeof(space), 0)) > 0;)
                sr_buf_append(&answer, space, (size_t)n);
        // Closed with something unread is a reset.
        assert_true(n == 0 || errno == ECONNRESET);
        return sr_buf_steal(&answer, NULL);
}

static void assert_answer(const struct fixture *f, const char *line, const char *expected)
{
        _cleanup_free_ char *answer = exchange(f, line, strlen(line), false);

        assert_string_equal(answer, expected);
}

static void assert_refused(const struct fixture *f, const char *line, size_t length)
{
        _cleanup_free_ char *answer = exchange(f, line, length, false);

        assert_memory_equal(answer, "{\"error\":\"", 10);
        assert_string_equal(strchr(answer, '\n'), "\n");
}

static void what_is_asked_is_answered(void **state)
{
        struct fixture *f = *state;

        start(f);
        assert_answer(f, "{\"method\":\"list\"}\n",
                      "{\"server\":\"serve\",\"runs\":[],\"last\":0,\"more\":false}\n");
        f->runner.first = 2;
        f->runner.last = 3;
        assert_answer(
                f, " {\"method\":\"list\", \"after\": 2, \"unknown\": {}}\n and what follows does not matter",
                "{\"server\":\"serve\",\"runs\":[{\"number\":3,\"language\":\"python\",\"state\":\"waiting\","
                "\"asked_us\":1795987503123456,\"elapsed_ms\":1.5,\"timeout_ms\":10000.0,"
                "\"code\":\"a \\\"b\\\"\\u0001\xc3\xa9\"}],\"last\":3,\"more\":false}\n");
        assert_answer(f, "{\"method\":\"stop\",\"runs\":[3,1,4,2,0,3]}\n",
                      "{\"runs\":[\"ending\",\"ended\",\"unknown\",\"ending\",\"unknown\",\"ending\"]}\n");
        assert_int_equal(f->runner.ended_count, 3);
        assert_answer(f, "{\"method\":\"stop\",\"runs\":[]}\n", "{\"runs\":[]}\n");
}

static void hostile_lines_are_refused(void **state)
{
        static const char *const lines[] = {
                "\n",
                "list\n",
                "{}\n",
                "[]\n",
                "null\n",
                "{\"method\":null}\n",
                "{\"method\":[\"list\"]}\n",
                "{\"method\":\"LIST\"}\n",
                "{\"method\":\"list\",\"after\":-1}\n",
                "{\"method\":\"list\",\"after\":1.5}\n",
                "{\"method\":\"list\",\"after\":1e300}\n",
                "{\"method\":\"list\",\"after\":\"1\"}\n",
                "{\"method\":\"list\",\"after\":null}\n",
                "{\"method\":\"stop\"}\n",
                "{\"method\":\"stop\",\"runs\":1}\n",
                "{\"method\":\"stop\",\"runs\":{\"1\":1}}\n",
                "{\"method\":\"stop\",\"runs\":[1,\"2\"]}\n",
                "{\"method\":\"stop\",\"runs\":[1,-2]}\n",
                "{\"method\":\"stop\",\"runs\":[1,2.5]}\n",
                "{\"method\":\"stop\",\"runs\":[1,1e99]}\n",
                "{\"method\":\"stop\",\"runs\":[[1]]}\n",
                "{\"method\":\"stop\",\"runs\":[1]\n",
                "{\"method\":\"stop\",\"runs\":[1]}}\n",
                "{\"method\":\"stop\xff\",\"runs\":[1]}\n",
                "{\"method\":\"stop\\u0000\",\"runs\":[1]}\n",
                "[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n",
        };
        struct fixture *f = *state;
        _cleanup_buf_ struct sr_buf many = {0};

        f->runner.last = 200;
        start(f);
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                assert_refused(f, lines[i], strlen(lines[i]));
        assert_refused(f, "{\"method\":\"list\"\0}\n", 19);
        sr_buf_append_text(&many, "{\"method\":\"stop\",\"runs\":[1");
        for (int i = 0; i < SR_CONTROL_PAGE; i++)
                sr_buf_append_text(&many, ",2");
        sr_buf_append_text(&many, "]}\n");
        assert_refused(f, many.data, many.len);
        // None of it ended anything.
        assert_int_equal(f->runner.ended_count, 0);
}

static void huge_and_half_lines_are_not_waited_for(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *huge = sr_calloc(1, 4 << 20);
        uint64_t began;

        start(f);
        memset(huge, ' ', 4 << 20);
        assert_refused(f, huge, 32768);

        // Far more than is read: the end of the connection is all that must come, and soon.
        began = sr_clock_monotonic_ns();
        free(exchange(f, huge, 100000, false));

        _cleanup_free_ char *half = exchange(f, "{\"method\":\"stop\",\"runs\":[1]}", 28, true);

        assert_string_equal(half, "");
        assert_true(sr_clock_monotonic_ns() - began < UINT64_C(1500000000));

        // Said nothing and goes on saying nothing: closed after a while.
        _cleanup_free_ char *silence = exchange(f, "", 0, false);

        assert_string_equal(silence, "");
        assert_true(sr_clock_monotonic_ns() - began < UINT64_C(8000000000));
}

// More connections than are served at once, none of which says anything.
static void silent_clients_hold_up_the_others_for_a_bounded_time(void **state)
{
        struct fixture *f = *state;
        int held[12];

        start(f);
        for (size_t i = 0; i < 12; i++)
                held[i] = connect_to(f);
        assert_answer(f, "{\"method\":\"list\"}\n",
                      "{\"server\":\"serve\",\"runs\":[],\"last\":0,\"more\":false}\n");
        for (size_t i = 0; i < 12; i++)
                close(held[i]);
}

static struct sr_control_view *look(struct fixture *f)
{
        struct sr_control_view *view = NULL;
        struct sr_error *error = NULL;
        int r = sr_control_look(f->directories, &view, &error);

        if (r < 0)
                print_error("%s\n", sr_error_message(error));
        assert_int_equal(r, 0);
        return view;
}

static void a_client_sees_every_page(void **state)
{
        struct fixture *f = *state;
        const uint64_t numbers[] = {1, 60, 400};
        enum sr_control_end ends[3];

        f->runner.first = 50;
        f->runner.last = 50 + 2 * SR_CONTROL_PAGE - 1; // two full pages, then none
        start(f);

        _cleanup_view_ struct sr_control_view *view = look(f);

        assert_null(view->problems);
        assert_int_equal(view->count, 1);

        const struct sr_control_server *server = view->servers;

        assert_int_equal(server->pid, getpid());
        assert_string_equal(server->kind, "serve");
        assert_int_equal(server->count, 2 * SR_CONTROL_PAGE);
        for (size_t i = 0; i < server->count; i++)
                assert_int_equal(server->runs[i].number, 50 + i);
        assert_string_equal(server->runs[0].code, "a \"b\"\x01\xc3\xa9");
        assert_string_equal(server->runs[0].state, "run");
        assert_int_equal(server->runs[0].asked_us, INT64_C(1795987503123456));
        assert_int_equal(sr_control_end(view, server, numbers, 3, ends, NULL), 0);
        assert_int_equal(ends[0], SR_CONTROL_ENDED);
        assert_int_equal(ends[1], SR_CONTROL_ENDING);
        assert_int_equal(ends[2], SR_CONTROL_UNKNOWN);
        // Gone meanwhile: so are its runs.
        f->control = sr_control_stop(f->control);
        assert_int_equal(sr_control_end(view, server, numbers, 3, ends, NULL), 0);
        assert_int_equal(ends[1], SR_CONTROL_ENDED);
}

// A server that says always the same.
struct impostor {
        int listener;
        const char *answer;
        size_t length;
        pthread_t thread;
        atomic_int served;
};

static void *deceive(void *argument)
{
        struct impostor *impostor = argument;

        for (int fd; (fd = accept4(impostor->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; close(fd)) {
                char request[4096];
                size_t sent = 0;

                atomic_fetch_add(&impostor->served, 1);
                if (recv(fd, request, sizeof(request), 0) <= 0)
                        continue;
                for (ssize_t n = 1; sent < impostor->length && n > 0; sent += n > 0 ? (size_t)n : 0)
                        n = send(fd, impostor->answer + sent, impostor->length - sent, MSG_NOSIGNAL);
        }
        return NULL;
}

static int listen_as(const struct fixture *f, int pid)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s/%d.sock", f->directory, pid);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 4), 0);
        return fd;
}

static void odd_servers_are_named_and_hide_no_other(void **state)
{
        static const char *const answers[] = {
                "\n",
                "nonsense\n",
                "{}\n",
                "{\"server\":\"serve\",\"runs\":{},\"last\":1,\"more\":false}\n",
                "{\"server\":\"serve\",\"runs\":[1],\"last\":1,\"more\":false}\n",
                "{\"server\":\"serve\",\"runs\":[{\"number\":2},{\"number\":2}],\"last\":1,\"more\":false}\n",
                "{\"server\":\"serve\",\"runs\":[{\"number\":0}],\"last\":1,\"more\":false}\n",
                "{\"server\":\"serve\",\"runs\":[{\"number\":1e30}],\"last\":1,\"more\":false}\n",
                "{\"error\":\"another version\"}\n",
                // The same page again and again does not go on.
                "{\"server\":\"serve\",\"runs\":[{\"number\":1}],\"last\":1,\"more\":true}\n",
        };
        struct fixture *f = *state;

        f->runner.last = 1;
        start(f);
        for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
                struct impostor impostor = {.listener = listen_as(f, 1), .answer = answers[i]};
                _cleanup_free_ char *path = sr_asprintf("%s/1.sock", f->directory);

                impostor.length = strlen(answers[i]);
                assert_int_equal(pthread_create(&impostor.thread, NULL, deceive, &impostor), 0);

                _cleanup_view_ struct sr_control_view *view = look(f);

                assert_true(view->incomplete);
                assert_int_equal(sr_strv_length(view->problems), 1);
                assert_non_null(strstr(view->problems[0], "process 1 "));
                assert_int_equal(view->count, 1);
                assert_int_equal(view->servers[0].count, 1);
                assert_true(impostor.served <= 2);
                shutdown(impostor.listener, SHUT_RDWR);
                pthread_join(impostor.thread, NULL);
                close(impostor.listener);
                unlink(path);
        }
}

// Without an end, without a line, or without a word.
static void a_server_that_never_ends_is_left(void **state)
{
        struct fixture *f = *state;
        size_t length = 64 << 20;
        _cleanup_free_ char *flood = sr_calloc(1, length);
        struct impostor impostor = {.answer = flood, .length = length};
        uint64_t began = sr_clock_monotonic_ns();

        assert_int_equal(mkdir(f->directory, 0700), 0);
        memset(flood, ' ', length);
        impostor.listener = listen_as(f, 1);
        assert_int_equal(pthread_create(&impostor.thread, NULL, deceive, &impostor), 0);

        int silent = listen_as(f, 2);
        _cleanup_view_ struct sr_control_view *view = look(f);

        assert_true(view->incomplete);
        assert_int_equal(view->count, 0);
        assert_int_equal(sr_strv_length(view->problems), 2);
        assert_true(sr_clock_monotonic_ns() - began < UINT64_C(8000000000));
        shutdown(impostor.listener, SHUT_RDWR);
        pthread_join(impostor.thread, NULL);
        close(impostor.listener);
        close(silent);
}

static void what_a_server_says_may_hold_anything(void **state)
{
        static const char answer[] =
                "{\"server\":7,\"runs\":[{\"number\":5,\"language\":\"\xef\xa3\xbf\",\"state\":null,\"asked_"
                "us\":-1,"
                "\"elapsed_ms\":\"x\",\"timeout_ms\":1e300,\"code\":\"\\u001b[2J\"}],\"last\":-3}\n";
        struct fixture *f = *state;
        struct impostor impostor = {.answer = answer, .length = sizeof(answer) - 1};

        assert_int_equal(mkdir(f->directory, 0700), 0);
        impostor.listener = listen_as(f, 1);
        assert_int_equal(pthread_create(&impostor.thread, NULL, deceive, &impostor), 0);

        _cleanup_view_ struct sr_control_view *view = look(f);

        assert_int_equal(view->count, 1);
        assert_string_equal(view->servers[0].kind, "");
        assert_int_equal(view->servers[0].last, 0);
        assert_string_equal(view->servers[0].runs[0].language, "\xef\xa3\xbf");
        assert_string_equal(view->servers[0].runs[0].state, "");
        assert_string_equal(view->servers[0].runs[0].code, "\x1b[2J");
        assert_int_equal(view->servers[0].runs[0].asked_us, 0);
        assert_true(view->servers[0].runs[0].timeout_ms == 0);
        shutdown(impostor.listener, SHUT_RDWR);
        pthread_join(impostor.thread, NULL);
        close(impostor.listener);
}

static void dead_sockets_go_and_live_ones_stay(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *dead = sr_asprintf("%s/1.sock", f->directory);
        _cleanup_free_ char *other = sr_asprintf("%s/other", f->directory);
        _cleanup_free_ char *file = sr_asprintf("%s/2.sock", f->directory);

        start(f);
        // Once it answers it has tidied up itself.
        assert_answer(f, "{\"method\":\"stop\",\"runs\":[]}\n", "{\"runs\":[]}\n");
        close(listen_as(f, 1));
        close(open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_int_equal(mkdir(file, 0700), 0);
        assert_int_equal(access(dead, F_OK), 0);

        _cleanup_view_ struct sr_control_view *view = look(f);

        assert_int_equal(view->count, 1);
        assert_int_equal(access(dead, F_OK), -1);
        assert_int_equal(access(other, F_OK), 0);
        assert_int_equal(access(file, F_OK), 0);

        // One that is between its name and its listening is not dead: whoever holds the lock may be that.
        close(listen_as(f, 1));

        _cleanup_close_ int lock = open(f->directory, O_RDONLY | O_CLOEXEC);

        assert_int_equal(flock(lock, LOCK_EX), 0);

        _cleanup_view_ struct sr_control_view *again = look(f);

        assert_int_equal(again->count, 1);
        assert_int_equal(access(dead, F_OK), 0);
}

static void a_socket_of_our_pid_is_replaced_only_when_dead(void **state)
{
        struct fixture *f = *state;
        struct sr_control *second = NULL;
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_free_ char *name = own_name(f);
        const struct sr_control_options options = {
                .directories = f->directories, .kind = "serve", .runner = &f->runner};

        assert_int_equal(mkdir(f->directory, 0700), 0);
        close(listen_as(f, (int)getpid()));
        start(f);
        assert_int_equal(sr_control_start(&options, &second, &error), -EADDRINUSE);
        assert_null(second);
        assert_answer(f, "{\"method\":\"stop\",\"runs\":[]}\n", "{\"runs\":[]}\n");
        f->control = sr_control_stop(f->control);
        assert_int_equal(access(name, F_OK), -1);
}

static void only_a_directory_of_ours_will_do(void **state)
{
        struct fixture *f = *state;
        struct sr_control *control = NULL;
        _cleanup_free_ char *deep = sr_asprintf("%s/absent/control", f->root);
        _cleanup_free_ char *target = sr_asprintf("%s/target", f->root);
        const struct sr_control_options options = {
                .directories = f->directories, .kind = "serve", .runner = &f->runner};

        // Only its last part is made.
        f->directories[0] = deep;
        assert_int_equal(sr_control_start(&options, &control, NULL), -ENOENT);
        f->directories[0] = f->directory;
        assert_int_equal(mkdir(target, 0700), 0);
        assert_int_equal(symlink("target", f->directory), 0);
        assert_int_equal(sr_control_start(&options, &control, NULL), -ENOTDIR);
        unlink(f->directory);
        for (mode_t mode = 01; mode <= 040; mode <<= 1) {
                assert_int_equal(mkdir(f->directory, 0700), 0);
                assert_int_equal(chmod(f->directory, 0700 | mode), 0);
                assert_int_equal(sr_control_start(&options, &control, NULL), -EPERM);
                rmdir(f->directory);
        }
        assert_null(control);

        // The next one is taken, and clients look there too.
        f->directories[0] = deep;
        f->directories[1] = f->directory;
        start(f);

        _cleanup_view_ struct sr_control_view *view = look(f);

        assert_int_equal(view->count, 1);
        assert_null(view->problems);
}

static void no_directories_no_socket(void **state)
{
        struct fixture *f = *state;
        const struct sr_control_options options = {
                .directories = f->directories, .kind = "serve", .runner = &f->runner};

        f->directories[0] = NULL;
        assert_int_equal(sr_control_start(&options, &f->control, NULL), 0);
        assert_null(f->control);

        _cleanup_view_ struct sr_control_view *view = look(f);

        assert_int_equal(view->count, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(what_is_asked_is_answered),
                CASE(hostile_lines_are_refused),
                CASE(huge_and_half_lines_are_not_waited_for),
                CASE(silent_clients_hold_up_the_others_for_a_bounded_time),
                CASE(a_client_sees_every_page),
                CASE(odd_servers_are_named_and_hide_no_other),
                CASE(a_server_that_never_ends_is_left),
                CASE(what_a_server_says_may_hold_anything),
                CASE(dead_sockets_go_and_live_ones_stay),
                CASE(a_socket_of_our_pid_is_replaced_only_when_dead),
                CASE(only_a_directory_of_ours_will_do),
                CASE(no_directories_no_socket),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
