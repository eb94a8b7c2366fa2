// MCP on standard input and output. See stdio.h.
//
// Theory of operation. One thread polls: input, output, the stop descriptor, and an eventfd. Runs end on
// threads of the runner, which put their answer at the end of a queue and wake the poller; it alone writes.
// So a reader that is slow blocks nobody: cancellations are read and other runs end while its answers wait.
//
// The descriptors may be shared with other processes (a terminal, a log), so O_NONBLOCK is not set on them. A
// pipe or terminal is written PIPE_BUF bytes at a time, each after poll() has promised that as many fit; a
// socket with MSG_DONTWAIT; a file at once.

#include "mcp/stdio.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "mcp/jsonrpc.h"
#include "mcp/server.h"
#include "mcp/tools.h"
#include "run/run.h"

#define MIB ((size_t)1024 * 1024)

// The longest line read. Code may be written as \uXXXX throughout, six bytes for one, and a client may send
// more than is allowed to learn so from the runner.
#define LINE_MIN (16 * MIB)
#define ESCAPED  6
// Answers that a client leaves unread before no more of its requests are read.
#define UNSENT_MAX (16 * MIB)
// Calls in flight beyond those that the runner itself takes: room for its own, better worded refusals.
#define SPARE_CALLS 16
#define READ_SIZE   65536
// A buffer that has held something big is given back.
#define BUFFER_KEEP MIB

struct stdio {
        struct sr_mcp_session *session;
        struct sr_mcp_sink sink;
        size_t line_max;

        int in_fd;
        struct sr_buf input;
        size_t scanned; // bytes of input that hold no line end
        bool skipping;  // inside a line that is too long
        bool input_ended;

        int out_fd;
        bool out_socket, out_file;
        bool gone;             // nobody reads it any more
        struct sr_buf sending; // what the poller is writing; its own
        size_t sent;           // of it
        pthread_mutex_t lock;
        struct sr_buf queue; // answers after those; guarded by lock
        int wake_fd;
};

// A sink's send: any thread.
static void enqueue(void *context, const char *bytes, size_t length)
{
        struct stdio *s = context;
        uint64_t one = 1;

        if (bytes != NULL) {
                pthread_mutex_lock(&s->lock);
                sr_buf_append(&s->queue, bytes, length);
                sr_buf_append_char(&s->queue, '\n');
                pthread_mutex_unlock(&s->lock);
        }
        // Without an answer too: the poller waits for the last call to end.
        ssize_t ignored = write(s->wake_fd, &one, sizeof(one));
        (void)ignored;
}

static size_t unsent(struct stdio *s)
{
        pthread_mutex_lock(&s->lock);

        size_t queued = s->queue.len;

        pthread_mutex_unlock(&s->lock);
        return s->sending.len - s->sent + queued;
}

static void reuse(struct sr_buf *buf)
{
        buf->len = 0;
        if (buf->cap > BUFFER_KEEP)
                sr_buf_clear(buf);
}

// Writes as much as goes without waiting, after poll() has promised room. 0 or a negative errno.
static int write_some(struct stdio *s)
{
        bool ready = true;

        while (ready || s->out_socket || s->out_file) {
                if (s->sent == s->sending.len) {
                        reuse(&s->sending);
                        s->sent = 0;
                        pthread_mutex_lock(&s->lock);

                        struct sr_buf empty = s->sending;

                        s->sending = s->queue;
                        s->queue = empty;
                        pthread_mutex_unlock(&s->lock);
                        if (s->sending.len == 0)
                                return 0;
                }

                const char *from = s->sending.data + s->sent;
                size_t left = s->sending.len - s->sent;
                ssize_t n;

                if (s->out_socket)
                        n = send(s->out_fd, from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
                else
                        n = write(s->out_fd, from, left < PIPE_BUF || s->out_file ? left : PIPE_BUF);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                s->sent += (size_t)n;
                ready = false;
        }
        return 0;
}

static void reject_long_line(struct stdio *s)
{
        _cleanup_buf_ struct sr_buf message = {0};
        _cleanup_free_ char *problem =
                sr_asprintf("the message is longer than the %zu MiB that one may have", s->line_max / MIB);

        sr_jsonrpc_write_error(&message, NULL, SR_JSONRPC_INVALID_REQUEST, problem);
        enqueue(s, message.data, message.len);
}

static void take_line(struct stdio *s, const char *line, size_t length)
{
        size_t blank = 0;

        while (blank < length && (line[blank] == ' ' || line[blank] == '\t' || line[blank] == '\r'))
                blank++;
        if (s->skipping)
                s->skipping = false; // this was its end
        else if (length > s->line_max)
                reject_long_line(s);
        else if (blank < length)
                (void)sr_mcp_session_receive(s->session, line, length, &s->sink);
}

// Hands on the whole lines of the input, as long as the client reads its answers.
static void take_lines(struct stdio *s)
{
        size_t start = 0;

        while (unsent(s) <= UNSENT_MAX) {
                size_t from = start + s->scanned, left = s->input.len - from;
                const char *end = left > 0 ? memchr(s->input.data + from, '\n', left) : NULL;

                if (end == NULL && !(s->input_ended && start < s->input.len)) {
                        s->scanned = s->input.len - start;
                        if (s->skipping || s->scanned > s->line_max) {
                                if (!s->skipping)
                                        reject_long_line(s);
                                s->skipping = true;
                                s->scanned = 0;
                                start = s->input.len;
                        }
                        break;
                }

                // The last line needs no end.
                size_t length = (end != NULL ? (size_t)(end - s->input.data) : s->input.len) - start;

                take_line(s, s->input.data + start, length);
                start += length + (end != NULL);
                s->scanned = 0;
        }
        if (start > 0)
                sr_buf_consume(&s->input, start);
        if (s->input.len == 0)
                reuse(&s->input);
}

static int read_some(struct stdio *s)
{
        char *to = sr_buf_reserve(&s->input, READ_SIZE);
        ssize_t n = read(s->in_fd, to, READ_SIZE);

        if (n < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : -errno;
        s->input_ended = n == 0;
        s->input.len += (size_t)n;
        s->input.data[s->input.len] = '\0';
        return 0;
}

static int on_output(struct stdio *s, short events, struct sr_error **error)
{
        int r = 0;

        if ((events & POLLNVAL) != 0)
                r = -EBADF;
        else if ((events & (POLLERR | POLLHUP)) != 0)
                r = -EPIPE;
        else if ((events & POLLOUT) != 0)
                r = write_some(s);
        s->gone = r == -EPIPE || r == -ECONNRESET;
        if (r == 0 || s->gone)
                return 0;
        return sr_error_set(error, SR_ERROR_HOST, -r, "cannot write to standard output: %s", strerror(-r));
}

static int on_input(struct stdio *s, short events, struct sr_error **error)
{
        int r = 0;

        if ((events & POLLNVAL) != 0)
                r = -EBADF;
        else if (events != 0)
                r = read_some(s);
        s->gone = s->gone || r == -ECONNRESET;
        if (r == 0 || s->gone)
                return 0;
        return sr_error_set(error, SR_ERROR_HOST, -r, "cannot read standard input: %s", strerror(-r));
}

static bool finished(struct stdio *s)
{
        // In this order: an answer is queued before its call is gone.
        return s->input_ended && s->input.len == 0 && sr_mcp_session_calls(s->session) == 0 && unsent(s) == 0;
}

// Told to stop: what is there already goes out as far as the client takes it at once.
static void flush_now(struct stdio *s)
{
        struct pollfd out = {.fd = s->out_fd, .events = POLLOUT};

        while (unsent(s) > 0 && poll(&out, 1, 0) == 1 && out.revents == POLLOUT && write_some(s) == 0)
                ;
}

static int serve(struct stdio *s, int stop_fd, struct sr_error **error)
{
        for (;;) {
                take_lines(s);
                if (finished(s))
                        return 0;

                size_t waiting = unsent(s);
                bool reading = !s->input_ended && waiting <= UNSENT_MAX;
                struct pollfd fds[] = {
                        {.fd = stop_fd, .events = POLLIN},
                        {.fd = s->wake_fd, .events = POLLIN},
                        {.fd = s->out_fd, .events = waiting > 0 ? POLLOUT : 0},
                        {.fd = reading ? s->in_fd : -1, .events = POLLIN},
                };
                uint64_t woken;

                if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0) {
                        if (errno == EINTR)
                                continue;
                        return sr_error_set(error, SR_ERROR_INTERNAL, errno, "cannot wait for input: %s",
                                            strerror(errno));
                }
                if (fds[0].revents != 0) {
                        flush_now(s);
                        return 0;
                }
                if (fds[1].revents != 0)
                        (void)!read(s->wake_fd, &woken, sizeof(woken));

                int r = on_output(s, fds[2].revents, error);

                if (r == 0 && !s->gone)
                        r = on_input(s, fds[3].revents, error);
                if (r < 0 || s->gone)
                        return r;
        }
}

int sr_mcp_stdio_run(const struct sr_config *config, struct sr_runner *runner, int in_fd, int out_fd,
                     int stop_fd, struct sr_error **error)
{
        _cleanup_close_ int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        _cleanup_tools_ struct sr_mcp_tools *tools = NULL;
        struct stdio s = {.in_fd = in_fd, .out_fd = out_fd, .wake_fd = wake_fd};
        struct stat out;

        if (wake_fd < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "cannot make an eventfd: %s",
                                    strerror(errno));
        if (fstat(out_fd, &out) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "cannot write to standard output: %s",
                                    strerror(errno));
        s.out_socket = S_ISSOCK(out.st_mode);
        s.out_file = S_ISREG(out.st_mode);
        s.line_max = config->max_code_bytes * ESCAPED * 2;
        if (s.line_max < LINE_MIN)
                s.line_max = LINE_MIN;
        s.sink = (struct sr_mcp_sink){.send = enqueue, .context = &s};
        pthread_mutex_init(&s.lock, NULL);
        tools = sr_mcp_tools_new(config, runner);
        s.session = sr_mcp_session_new(sr_mcp_tools_set(tools),
                                       (size_t)config->slots + config->max_queue + SPARE_CALLS);

        int r = serve(&s, stop_fd, error);

        // All that is under way ends at once, not only what watches the handle of its call.
        if (!finished(&s))
                sr_runner_stop(runner);
        s.session = sr_mcp_session_free(s.session);
        pthread_mutex_destroy(&s.lock);
        sr_buf_clear(&s.input);
        sr_buf_clear(&s.sending);
        sr_buf_clear(&s.queue);
        return r;
}
