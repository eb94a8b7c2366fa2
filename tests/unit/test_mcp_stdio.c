// MCP on descriptors: lines in and out, ends of every kind, a client that does not read.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_runner.h"

#include "base/fd.h"
#include "base/json.h"
#include "mcp/stdio.h"

#define INITIALIZE                                                                                           \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-" \
        "18\"}}\n"
#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"
#define PONG(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"
#define CANCEL(id)                                                                                           \
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}\n"
#define RUN(id, code)                                                                                        \
        "{\"jsonrpc\":\"2.0\",\"id\":" id                                                                    \
        ",\"method\":\"tools/call\",\"params\":{\"name\":\"run_code\",\"arguments\":{"                       \
        "\"language\":\"python\",\"code\":\"" code "\"}}}\n"
#define HISTORY(id)                                                                                          \
        "{\"jsonrpc\":\"2.0\",\"id\":" id                                                                    \
        ",\"method\":\"tools/call\",\"params\":{\"name\":\"get_execution_history\"}}\n"
#define MIB ((size_t)1024 * 1024)

// The server on a thread of its own, and our ends of its descriptors.
struct fixture {
        struct sr_config config;
        struct sr_runner *runner;
        int in, out, stop;         // ours; -1: closed
        int server_in, server_out; // the server's
        struct sr_buf received;    // what came and was not looked at yet
        pthread_t thread;
        bool running;
        int result;
        struct sr_error *error;
};

static void *serve(void *argument)
{
        struct fixture *f = argument;

        f->result = sr_mcp_stdio_run(&f->config, f->runner, f->server_in, f->server_out, f->stop, &f->error);
        return NULL;
}

static void start(struct fixture *f)
{
        f->running = true;
        assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

static void start_on_pipes(struct fixture *f)
{
        int in[2], out[2];

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        f->server_in = in[0];
        f->in = in[1];
        f->server_out = out[1];
        f->out = out[0];
        start(f);
}

// As Node.js starts its children.
static void start_on_sockets(struct fixture *f)
{
        int in[2], out[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out), 0);
        f->server_in = in[0];
        f->in = in[1];
        f->server_out = out[1];
        f->out = out[0];
        start(f);
}

// The server must return by itself, within a time in which nothing of ours could make it.
static void expect_return(struct fixture *f)
{
        struct timespec deadline;

        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += 20;
        if (pthread_timedjoin_np(f->thread, NULL, &deadline) != 0)
                abort(); // the thread uses f: there is no going on
        f->running = false;
}

static int set_up(void **state)
{
        struct fixture *f = sr_new(struct fixture);

        signal(SIGPIPE, SIG_IGN);
        f->config = (struct sr_config){.default_timeout_s = 10,
                                       .max_timeout_s = 30,
                                       .max_code_bytes = 50 * 1024,
                                       .slots = 2,
                                       .max_queue = 64};
        f->runner = fake_runner_reset();
        f->in = f->out = f->server_in = f->server_out = -1;
        f->stop = eventfd(0, EFD_CLOEXEC);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        uint64_t one = 1;

        if (f->running) {
                assert_int_equal(write(f->stop, &one, sizeof(one)), sizeof(one));
                expect_return(f);
        }
        fake_runner_wait_idle(f->runner);
        fake_runner_reset();
        sr_fd_close(f->in);
        sr_fd_close(f->out);
        sr_fd_close(f->server_in);
        sr_fd_close(f->server_out);
        sr_fd_close(f->stop);
        sr_buf_clear(&f->received);
        sr_error_free(f->error);
        free(f);
        return 0;
}

static void put_n(struct fixture *f, const char *bytes, size_t length)
{
        assert_int_equal(sr_fd_write_all(f->in, bytes, length), 0);
}

static void put(struct fixture *f, const char *text)
{
        put_n(f, text, strlen(text));
}

static void end_input(struct fixture *f)
{
        f->in = sr_fd_close(f->in);
}

// The next line without its end, freed by the caller; NULL at the end of the output.
static char *get_line(struct fixture *f)
{
        for (;;) {
                char *end = f->received.len > 0 ? memchr(f->received.data, '\n', f->received.len) : NULL;

                if (end != NULL) {
                        size_t length = (size_t)(end - f->received.data);
                        char *line = sr_memdup0(f->received.data, length);

                        sr_buf_consume(&f->received, length + 1);
                        return line;
                }

                char *to = sr_buf_reserve(&f->received, 65536);
                struct pollfd wait = {.fd = f->out, .events = POLLIN};

                if (poll(&wait, 1, 20000) != 1)
                        fail_msg("no line within 20 s; so far: %s", f->received.data);

                ssize_t n = read(f->out, to, 65536);

                assert_true(n >= 0);
                if (n == 0) {
                        assert_int_equal(f->received.len, 0); // no half line
                        return NULL;
                }
                f->received.len += (size_t)n;
                f->received.data[f->received.len] = '\0';
        }
}

static void expect_line(struct fixture *f, const char *expected)
{
        _cleanup_free_ char *line = get_line(f);

        assert_non_null(line);
        assert_string_equal(line, expected);
}

static void expect_line_with(struct fixture *f, const char *part)
{
        _cleanup_free_ char *line = get_line(f);

        if (line == NULL || strstr(line, part) == NULL)
                fail_msg("%s is not in %.300s", part, line != NULL ? line : "(nothing)");
}

static void expect_end(struct fixture *f)
{
        f->server_out = sr_fd_close(f->server_out);

        _cleanup_free_ char *line = get_line(f);

        assert_null(line);
}

static void begin(struct fixture *f)
{
        put(f, INITIALIZE);
        expect_line_with(f, "\"protocolVersion\":\"2025-06-18\"");
}

static void talk(struct fixture *f)
{
        begin(f);
        put(f, PING("1") "\n" PING("2") "\r\n\n  \n\r\n\t" PING("3") "\n");
        expect_line(f, PONG("1"));
        expect_line(f, PONG("2"));
        expect_line(f, PONG("3"));
        put(f, RUN("4", "echo a\xe2\x80\xa8z"));
        expect_line_with(f, "\"stdout\":\"a\xe2\x80\xa8z\"");
        end_input(f);
        expect_return(f);
        assert_int_equal(f->result, 0);
        expect_end(f);
}

static void speaks_over_pipes(void **state)
{
        start_on_pipes(*state);
        talk(*state);
}

static void speaks_over_sockets(void **state)
{
        start_on_sockets(*state);
        talk(*state);
}

static void speaks_over_one_socket_for_both(void **state)
{
        struct fixture *f = *state;
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        f->server_in = pair[0];
        f->server_out = dup(pair[0]);
        f->in = pair[1];
        f->out = dup(pair[1]);
        start(f);
        begin(f);
        put(f, RUN("1", "nap"));
        // The end of our input only; the answer still finds its way.
        assert_int_equal(shutdown(f->in, SHUT_WR), 0);
        expect_line_with(f, "\"id\":1,");
        expect_return(f);
        assert_int_equal(f->result, 0);
}

static void takes_a_message_in_pieces(void **state)
{
        static const char text[] = PING("\"\xc3\xa9\"") "\n" PING("8") "\n";
        struct fixture *f = *state;

        start_on_pipes(f);
        for (size_t i = 0; i < sizeof(text) - 1; i++) {
                const struct timespec step = {.tv_nsec = 200 * 1000};

                put_n(f, text + i, 1);
                nanosleep(&step, NULL);
        }
        expect_line(f, PONG("\"\xc3\xa9\""));
        expect_line(f, PONG("8"));
}

static void the_last_line_needs_no_end(void **state)
{
        struct fixture *f = *state;

        start_on_pipes(f);
        put(f, PING("1"));
        end_input(f);
        expect_line(f, PONG("1"));
        expect_return(f);
        expect_end(f);
}

static void calls_received_are_answered_after_the_end_of_input(void **state)
{
        struct fixture *f = *state;

        start_on_pipes(f);
        begin(f);
        put(f, RUN("1", "nap") RUN("2", "nap"));
        end_input(f);

        _cleanup_free_ char *first = get_line(f), *second = get_line(f);

        assert_non_null(strstr(first, "\"status\":\"success\""));
        assert_non_null(strstr(second, "\"status\":\"success\""));
        expect_return(f);
        assert_int_equal(f->result, 0);
        assert_int_equal(f->runner->cancelled, 0);
        expect_end(f);
}

static void a_cancelled_call_does_not_hold_the_end_up(void **state)
{
        struct fixture *f = *state;

        start_on_pipes(f);
        begin(f);
        put(f, RUN("1", "wait"));
        fake_runner_wait_started(f->runner, 1);
        put(f, CANCEL("1"));
        end_input(f);
        expect_return(f);
        assert_int_equal(f->result, 0);
        expect_end(f);
}

static void being_told_to_stop_kills_what_runs(void **state)
{
        struct fixture *f = *state;
        uint64_t one = 1;

        start_on_pipes(f);
        begin(f);
        put(f, RUN("1", "wait") RUN("2", "wait"));
        fake_runner_wait_started(f->runner, 2);
        assert_int_equal(write(f->stop, &one, sizeof(one)), sizeof(one));
        expect_return(f);
        assert_int_equal(f->result, 0);
        fake_runner_wait_idle(f->runner);
        assert_int_equal(f->runner->cancelled, 2);
        assert_true(f->runner->stopped);
        expect_end(f);
}

static void a_history_that_keeps_us_waiting_holds_nothing_up(void **state)
{
        struct fixture *f = *state;

        f->runner->history_waits = true;
        start_on_pipes(f);
        begin(f);
        put(f, HISTORY("1") RUN("2", "wait") HISTORY("3") PING("4") "\n");
        expect_line(f, PONG("4"));
        fake_runner_wait_started(f->runner, 1);
        put(f, CANCEL("2") CANCEL("3"));
        fake_runner_wait_idle(f->runner);
        assert_int_equal(f->runner->cancelled, 1);
        put(f, RUN("5", "echo x"));
        expect_line_with(f, "\"id\":5");
        fake_runner_free_history(f->runner);
        expect_line_with(f, "\"id\":1,\"result\"");
        end_input(f);
        expect_return(f);
        expect_end(f);
        // What was cancelled before its turn was not read at all.
        assert_int_equal(f->runner->listed, 1);
        assert_false(f->runner->stopped);
}

static void not_many_wait_for_the_history(void **state)
{
        struct fixture *f = *state;

        f->runner->history_waits = true;
        start_on_pipes(f);
        begin(f);
        put(f, HISTORY("1"));
        while (f->runner->listed == 0)
                sched_yield();
        for (int i = 0; i < 8; i++)
                put(f, HISTORY("2"));
        put(f, HISTORY("3"));
        expect_line_with(
                f, "\"id\":3,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"too many calls wait");
        fake_runner_free_history(f->runner);
        expect_line_with(f, "\"id\":1,\"result\":{\"content\":[]");
        for (int i = 0; i < 8; i++)
                expect_line_with(f, "\"id\":2,\"result\":{\"content\":[]");
}

static void being_told_to_stop_does_not_wait_for_the_history(void **state)
{
        struct fixture *f = *state;
        uint64_t one = 1;

        f->runner->history_waits = true;
        start_on_pipes(f);
        begin(f);
        put(f, HISTORY("1") HISTORY("2") PING("3") "\n");
        expect_line(f, PONG("3"));
        assert_int_equal(write(f->stop, &one, sizeof(one)), sizeof(one));
        expect_return(f);
        assert_int_equal(f->result, 0);
        expect_end(f);
}

static void stops_while_a_client_does_not_read(void **state)
{
        struct fixture *f = *state;
        uint64_t one = 1;

        start_on_pipes(f);
        begin(f);
        put(f, RUN("1", "big 2000000") RUN("2", "wait"));
        fake_runner_wait_started(f->runner, 2);
        assert_int_equal(write(f->stop, &one, sizeof(one)), sizeof(one));
        expect_return(f);
        assert_int_equal(f->result, 0);
}

static void a_client_that_closed_its_end_kills_what_runs(struct fixture *f)
{
        begin(f);
        put(f, RUN("1", "wait"));
        fake_runner_wait_started(f->runner, 1);
        f->out = sr_fd_close(f->out);
        expect_return(f);
        assert_int_equal(f->result, 0);
        fake_runner_wait_idle(f->runner);
        assert_int_equal(f->runner->cancelled, 1);
        assert_true(f->runner->stopped);
}

static void a_closed_pipe_kills_what_runs(void **state)
{
        start_on_pipes(*state);
        a_client_that_closed_its_end_kills_what_runs(*state);
}

static void a_closed_socket_kills_what_runs(void **state)
{
        start_on_sockets(*state);
        a_client_that_closed_its_end_kills_what_runs(*state);
}

static void input_that_ended_does_not_hide_a_client_that_is_gone(void **state)
{
        struct fixture *f = *state;

        start_on_pipes(f);
        begin(f);
        put(f, RUN("1", "wait"));
        fake_runner_wait_started(f->runner, 1);
        end_input(f);
        f->out = sr_fd_close(f->out);
        expect_return(f);
        fake_runner_wait_idle(f->runner);
        assert_int_equal(f->runner->cancelled, 1);
}

// Until what comes to us has come to a stop, so that a server that writes more than it has room for is stuck
// now.
static void wait_until_full(struct fixture *f)
{
        const struct timespec step = {.tv_nsec = 20 * 1000 * 1000};
        int before = 0, held = 0;

        for (int i = 0, quiet = 0; quiet < 10 || held < 32768; i++) {
                assert_true(i < 1000);
                nanosleep(&step, NULL);
                assert_int_equal(ioctl(f->out, FIONREAD, &held), 0);
                quiet = held == before ? quiet + 1 : 0;
                before = held;
        }
}

// Waits until a count has stood still for long enough that a busy machine is no excuse.
static size_t settle(atomic_size_t *count)
{
        const struct timespec step = {.tv_nsec = 100 * 1000 * 1000};
        size_t before = 0, now;

        for (int quiet = 0; quiet < 20; quiet++) {
                now = atomic_load(count);
                if (now != before)
                        quiet = 0;
                before = now;
                nanosleep(&step, NULL);
        }
        return before;
}

// Fills the pipe with answers that nobody reads; a cancellation behind them must still be heard, and all that
// was answered must still be there.
static void a_client_that_does_not_read_is_still_heard(struct fixture *f)
{
        put(f, INITIALIZE RUN("1", "wait"));
        fake_runner_wait_started(f->runner, 1);
        put(f, RUN("2", "big 3000000"));
        wait_until_full(f);
        for (int i = 0; i < 2000; i++)
                put(f, PING("7") "\n");
        put(f, CANCEL("1"));
        fake_runner_wait_idle(f->runner);
        assert_int_equal(f->runner->cancelled, 1);
        expect_line_with(f, "\"protocolVersion\"");

        int pongs = 0, results = 0;

        end_input(f);
        for (int i = 0; i < 2001; i++) {
                _cleanup_free_ char *line = get_line(f);

                pongs += strcmp(line, PONG("7")) == 0;
                if (strncmp(line, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\"", 30) == 0) {
                        _cleanup_json_ cJSON *answer = NULL;

                        assert_int_equal(sr_json_parse(line, strlen(line), 64, &answer, NULL), 0);
                        results++;
                }
        }
        assert_int_equal(pongs, 2000);
        assert_int_equal(results, 1);
        expect_return(f);
        expect_end(f);
}

static void a_pipe_that_is_not_read_is_still_heard(void **state)
{
        start_on_pipes(*state);
        a_client_that_does_not_read_is_still_heard(*state);
}

static void a_socket_that_is_not_read_is_still_heard(void **state)
{
        start_on_sockets(*state);
        a_client_that_does_not_read_is_still_heard(*state);
}

struct flood {
        int fd;
        int count;
        atomic_size_t sent;
};

static void *flood(void *argument)
{
        static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
        struct flood *flood = argument;

        for (int i = 0; i < flood->count; i++, atomic_fetch_add(&flood->sent, 1))
                if (sr_fd_write_all(flood->fd, text, sizeof(text) - 1) < 0)
                        break;
        return NULL;
}

// Lists of some 4 KB each are not gathered in memory for a client that leaves them unread: requests are no
// longer taken, and all are answered once it reads again.
static void answers_that_are_not_read_have_a_bound(void **state)
{
        struct fixture *f = *state;
        struct flood many = {.count = 8000};
        pthread_t thread;

        start_on_pipes(f);
        begin(f);
        many.fd = f->in;
        assert_int_equal(pthread_create(&thread, NULL, flood, &many), 0);
        assert_in_range(settle(&many.sent), 1000, 7500);
        for (int i = 0; i < many.count; i++) {
                _cleanup_free_ char *line = get_line(f);

                assert_true(strlen(line) > 3000);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
}

// What was read in one go is not answered in one go: 400 short requests ask for some 250 MB.
static void requests_that_were_read_wait_for_the_client_too(void **state)
{
        static const char text[] = RUN("1", "big 300000");
        struct fixture *f = *state;
        _cleanup_buf_ struct sr_buf all = {0};

        f->runner->only_inline = true;
        start_on_pipes(f);
        begin(f);
        for (int i = 0; i < 400; i++)
                sr_buf_append(&all, text, sizeof(text) - 1);
        put_n(f, all.data, all.len);
        wait_until_full(f);
        assert_in_range(settle(&f->runner->submitted), 2, 100);
}

static void takes_messages_of_several_mib(void **state)
{
        struct fixture *f = *state;
        _cleanup_buf_ struct sr_buf text = {0};
        size_t length = 8 * MIB;

        start_on_pipes(f);
        begin(f);
        sr_buf_append_text(
                &text,
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"run_code\","
                "\"arguments\":{\"language\":\"python\",\"code\":\"");
        memset(sr_buf_reserve(&text, length), 'x', length);
        text.len += length;
        sr_buf_append_text(&text, "\"}}}\n");
        put_n(f, text.data, text.len);

        _cleanup_free_ char *line = get_line(f);

        assert_true(strlen(line) > 2 * length);
        assert_int_equal(f->runner->code_length, length);
}

static void refuses_a_line_beyond_the_bound_and_goes_on(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *block = sr_calloc(MIB, 1);

        start_on_pipes(f);
        begin(f);
        memset(block, ' ', MIB);
        for (int i = 0; i < 40; i++)
                put_n(f, block, MIB);
        put(f, PING("1") "\n" PING("2") "\n");
        expect_line_with(f, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"the "
                            "message is longer than the 16 MiB");
        expect_line(f, PONG("2"));
        // One that ends with the input.
        for (int i = 0; i < 17; i++)
                put_n(f, block, MIB);
        end_input(f);
        expect_line_with(f, "-32600");
        expect_return(f);
        expect_end(f);
}

static void survives_input_that_is_no_text(void **state)
{
        static const char nul[] = "{\"jsonrpc\":\"2.0\",\0\"id\":1}\n";
        struct fixture *f = *state;

        start_on_pipes(f);
        put(f, "\xff\xfe\x80\n");
        expect_line_with(f, "\"id\":null,\"error\":{\"code\":-32700");
        put(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\"}\n");
        expect_line_with(f, "not UTF-8 at byte");
        put_n(f, nul, sizeof(nul) - 1);
        expect_line_with(f, "-32700");
        put(f, "\x1b[A\n");
        expect_line_with(f, "-32700");
        put(f, PING("1") "\n");
        expect_line(f, PONG("1"));
}

static void files_serve_as_input_and_output(void **state)
{
        char in_path[] = "/tmp/sr-test-mcp-in-XXXXXX", out_path[] = "/tmp/sr-test-mcp-out-XXXXXX";
        struct fixture *f = *state;

        f->server_in = mkostemp(in_path, O_CLOEXEC);
        f->server_out = mkostemp(out_path, O_CLOEXEC);
        assert_true(f->server_in >= 0 && f->server_out >= 0);
        f->in = dup(f->server_in);
        put(f, INITIALIZE RUN("1", "nap") PING("2") "\n");
        assert_int_equal(lseek(f->server_in, 0, SEEK_SET), 0);
        start(f);
        expect_return(f);
        assert_int_equal(f->result, 0);
        f->out = open(out_path, O_RDONLY | O_CLOEXEC);
        unlink(in_path);
        unlink(out_path);
        expect_line_with(f, "\"protocolVersion\"");
        expect_line(f, PONG("2"));
        expect_line_with(f, "\"id\":1,");
        expect_end(f);
}

static void dev_null_is_an_empty_input(void **state)
{
        struct fixture *f = *state;

        f->server_in = open("/dev/null", O_RDONLY | O_CLOEXEC);
        f->server_out = open("/dev/null", O_WRONLY | O_CLOEXEC);
        start(f);
        expect_return(f);
        assert_int_equal(f->result, 0);
}

static void descriptors_that_are_not_open_are_an_error(void **state)
{
        struct fixture *f = *state;

        f->server_in = 900;
        f->server_out = open("/dev/null", O_WRONLY | O_CLOEXEC);
        start(f);
        expect_return(f);
        assert_int_equal(f->result, -EBADF);
        assert_non_null(strstr(sr_error_message(f->error), "standard input"));
        f->error = sr_error_free(f->error);
        f->server_in = sr_fd_close(f->server_out);
        f->server_in = open("/dev/null", O_RDONLY | O_CLOEXEC);
        f->server_out = 900;
        start(f);
        expect_return(f);
        assert_int_equal(f->result, -EBADF);
        assert_non_null(strstr(sr_error_message(f->error), "standard output"));
        f->server_out = -1;
}

static void the_flags_of_the_descriptors_stay(void **state)
{
        struct fixture *f = *state;

        start_on_pipes(f);

        int in_flags = fcntl(f->server_in, F_GETFL), out_flags = fcntl(f->server_out, F_GETFL);

        begin(f);
        assert_int_equal(fcntl(f->server_in, F_GETFL), in_flags);
        assert_int_equal(fcntl(f->server_out, F_GETFL), out_flags);
}

static void non_blocking_descriptors_work_too(void **state)
{
        struct fixture *f = *state;
        int in[2], out[2];

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        f->server_in = in[0];
        f->in = in[1];
        f->server_out = out[1];
        f->out = out[0];
        assert_int_equal(fcntl(f->server_in, F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(fcntl(f->server_out, F_SETFL, O_NONBLOCK), 0);
        start(f);
        begin(f);
        put(f, RUN("1", "big 1000000"));
        expect_line_with(f, "\"id\":1,");
}

// An idle server must not spin.
static void waits_without_using_the_processor(void **state)
{
        struct fixture *f = *state;
        const struct timespec pause = {.tv_nsec = 500 * 1000 * 1000};
        struct timespec before, after;
        clockid_t clock;

        start_on_pipes(f);
        begin(f);
        put(f, RUN("1", "wait"));
        fake_runner_wait_started(f->runner, 1);
        end_input(f);
        assert_int_equal(pthread_getcpuclockid(f->thread, &clock), 0);
        clock_gettime(clock, &before);
        nanosleep(&pause, NULL);
        clock_gettime(clock, &after);
        assert_true((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 < 100);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(speaks_over_pipes),
                TEST(speaks_over_sockets),
                TEST(speaks_over_one_socket_for_both),
                TEST(takes_a_message_in_pieces),
                TEST(the_last_line_needs_no_end),
                TEST(calls_received_are_answered_after_the_end_of_input),
                TEST(a_cancelled_call_does_not_hold_the_end_up),
                TEST(being_told_to_stop_kills_what_runs),
                TEST(stops_while_a_client_does_not_read),
                TEST(a_history_that_keeps_us_waiting_holds_nothing_up),
                TEST(not_many_wait_for_the_history),
                TEST(being_told_to_stop_does_not_wait_for_the_history),
                TEST(a_closed_pipe_kills_what_runs),
                TEST(a_closed_socket_kills_what_runs),
                TEST(input_that_ended_does_not_hide_a_client_that_is_gone),
                TEST(a_pipe_that_is_not_read_is_still_heard),
                TEST(a_socket_that_is_not_read_is_still_heard),
                TEST(answers_that_are_not_read_have_a_bound),
                TEST(requests_that_were_read_wait_for_the_client_too),
                TEST(takes_messages_of_several_mib),
                TEST(refuses_a_line_beyond_the_bound_and_goes_on),
                TEST(survives_input_that_is_no_text),
                TEST(files_serve_as_input_and_output),
                TEST(dev_null_is_an_empty_input),
                TEST(descriptors_that_are_not_open_are_an_error),
                TEST(the_flags_of_the_descriptors_stay),
                TEST(non_blocking_descriptors_work_too),
                TEST(waits_without_using_the_processor),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
