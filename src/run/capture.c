#include "run/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/utf8.h"

#define CHUNK          65536
#define CANCEL_FDS_MAX 4

// The contract's words.
static const char truncation_marker[] = "\n\n[... OUTPUT TRUNCATED ...]";

struct pump {
        struct sr_sandbox *sandbox;
        const struct sr_capture_options *options;
        struct sr_capture *capture;
        int out, err;        // read ends
        int feed;            // write end of standard input, -1 when there is none or no more
        struct sr_buf input; // read from stdin_fd, not yet in the pipe
        bool input_ended;
        bool killed;
        bool told_late;
};

// Reads once. false at the end of the stream.
static bool drain(struct pump *pump, int fd, int number, struct sr_capture_stream *stream)
{
        char bytes[CHUNK];
        ssize_t n = read(fd, bytes, sizeof(bytes));

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        if (n == 0)
                return false;
        stream->total += (uint64_t)n;
        if (stream->kept.len < pump->options->keep_bytes) {
                uint64_t room = pump->options->keep_bytes - stream->kept.len;

                sr_buf_append(&stream->kept, bytes, (uint64_t)n < room ? (size_t)n : (size_t)room);
        }
        if (pump->options->output != NULL)
                pump->options->output(pump->options->output_context, number, bytes, (size_t)n);
        return true;
}

static void kill_once(struct pump *pump)
{
        if (!pump->killed)
                sr_sandbox_kill(pump->sandbox);
        pump->killed = true;
}

// Moves what stdin_fd has into the pipe; closes the pipe at the end of it, or when the program reads no more.
static void feed(struct pump *pump, bool source_ready)
{
        if (source_ready && pump->input.len == 0) {
                char *to = sr_buf_reserve(&pump->input, CHUNK);
                ssize_t n = read(pump->options->stdin_fd, to, CHUNK);

                if (n > 0)
                        pump->input.len = (size_t)n;
                else if (n == 0 || (errno != EAGAIN && errno != EINTR))
                        pump->input_ended = true;
        }
        if (pump->input.len > 0) {
                ssize_t n = write(pump->feed, pump->input.data, pump->input.len);

                if (n > 0)
                        sr_buf_consume(&pump->input, (size_t)n);
                else if (n < 0 && errno != EAGAIN && errno != EINTR)
                        pump->feed = sr_fd_close(pump->feed);
        }
        if (pump->input_ended && pump->input.len == 0)
                pump->feed = sr_fd_close(pump->feed);
}

// Milliseconds until somebody wants to hear that it takes long, -1 when nobody does.
static int until_late(const struct pump *pump)
{
        const struct sr_run_late *late = pump->options->late;

        if (late == NULL || pump->told_late)
                return -1;

        uint64_t now = sr_clock_monotonic_ns();

        return late->at_ns > now ? (int)((late->at_ns - now) / 1000000) + 1 : 0;
}

static void tell_late(struct pump *pump)
{
        pump->told_late = true;
        pump->options->late->call(pump->options->late->context);
}

// Until the outcome is there. When it is, all of the stage is dead, so what its pipes hold is the rest.
static void pump_until_outcome(struct pump *pump)
{
        enum { OUT, ERR, OUTCOME, SOURCE, FEED, CANCEL, COUNT = CANCEL + CANCEL_FDS_MAX };
        const struct sr_capture_options *options = pump->options;
        struct pollfd polls[COUNT] = {
                [OUT] = {.fd = pump->out, .events = POLLIN},
                [ERR] = {.fd = pump->err, .events = POLLIN},
                [OUTCOME] = {.fd = sr_sandbox_poll_fd(pump->sandbox), .events = POLLIN},
                [SOURCE] = {.fd = -1, .events = POLLIN},
                [FEED] = {.fd = -1, .events = POLLOUT},
        };

        for (size_t i = 0; i < CANCEL_FDS_MAX; i++)
                polls[CANCEL + i] = (struct pollfd){
                        .fd = i < options->cancel_count ? options->cancel_fds[i] : -1, .events = POLLIN};
        do {
                bool wants_input = pump->feed >= 0 && pump->input.len == 0 && !pump->input_ended;

                polls[SOURCE].fd = wants_input ? options->stdin_fd : -1;
                polls[FEED].fd = pump->feed >= 0 && pump->input.len > 0 ? pump->feed : -1;
                if (poll(polls, COUNT, until_late(pump)) < 0)
                        continue; // EINTR
                if (until_late(pump) == 0)
                        tell_late(pump);
                if (polls[OUT].revents != 0 && !drain(pump, pump->out, 1, &pump->capture->out))
                        polls[OUT].fd = -1;
                if (polls[ERR].revents != 0 && !drain(pump, pump->err, 2, &pump->capture->err))
                        polls[ERR].fd = -1;
                if (polls[SOURCE].revents != 0 || polls[FEED].revents != 0)
                        feed(pump, polls[SOURCE].revents != 0);
                for (size_t i = 0; i < options->cancel_count; i++) {
                        if (polls[CANCEL + i].revents == 0)
                                continue;
                        polls[CANCEL + i].fd = -1;
                        kill_once(pump);
                }
                if (pump->capture->out.total + pump->capture->err.total > options->kill_bytes) {
                        pump->capture->over_the_limit = true;
                        kill_once(pump);
                }
        } while (polls[OUTCOME].revents == 0);
}

// What is left in a pipe nobody writes to any more. The descriptor does not block.
static void drain_rest(struct pump *pump, int fd, int number, struct sr_capture_stream *stream)
{
        uint64_t before;

        do
                before = stream->total;
        while (drain(pump, fd, number, stream) && stream->total > before);
}

static int make_pipe(int *ret_read, int *ret_write, struct sr_error **error)
{
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return sr_error_set(error, SR_ERROR_INTERNAL, errno, "making a pipe: %s", strerror(errno));
        *ret_read = ends[0];
        *ret_write = ends[1];
        return 0;
}

int sr_capture_run(struct sr_sandbox *sandbox, const struct sr_sandbox_spec *spec,
                   const struct sr_capture_options *options, struct sr_capture *ret, struct sr_error **error)
{
        _cleanup_close_ int out_read = -1, out_write = -1, err_read = -1, err_write = -1, in_read = -1;
        struct sr_capture capture = {0};
        struct pump pump = {.sandbox = sandbox, .options = options, .capture = &capture, .feed = -1};
        int r = make_pipe(&out_read, &out_write, error);

        if (r == 0)
                r = make_pipe(&err_read, &err_write, error);
        if (r == 0 && options->stdin_fd >= 0)
                r = make_pipe(&in_read, &pump.feed, error);
        if (r == 0) {
                // Ours do not block; the program's ends are descriptions of their own and do.
                (void)fcntl(out_read, F_SETFL, O_NONBLOCK);
                (void)fcntl(err_read, F_SETFL, O_NONBLOCK);
                if (pump.feed >= 0)
                        (void)fcntl(pump.feed, F_SETFL, O_NONBLOCK);
                r = sr_sandbox_start(sandbox, spec,
                                     &(struct sr_sandbox_streams){in_read, out_write, err_write}, error);
        }
        if (r == 0) {
                out_write = sr_fd_close(out_write);
                err_write = sr_fd_close(err_write);
                in_read = sr_fd_close(in_read);
                pump.out = out_read;
                pump.err = err_read;
                pump_until_outcome(&pump);
                drain_rest(&pump, out_read, 1, &capture.out);
                drain_rest(&pump, err_read, 2, &capture.err);
                r = sr_sandbox_finish(sandbox, &capture.outcome, error);
        }
        sr_fd_close(pump.feed);
        sr_buf_clear(&pump.input);
        *ret = capture;
        return r;
}

void sr_capture_clear(struct sr_capture *capture)
{
        sr_buf_clear(&capture->out.kept);
        sr_buf_clear(&capture->err.kept);
}

char *sr_capture_text(const struct sr_capture_stream *stream, size_t *ret_length, bool *ret_truncated)
{
        bool truncated = stream->total > stream->kept.len;
        size_t length = stream->kept.len;
        struct sr_buf text = {0};

        if (truncated)
                length = sr_utf8_complete_prefix(stream->kept.data, length);
        sr_utf8_append_sanitized(&text, stream->kept.data, length);
        if (truncated)
                sr_buf_append_text(&text, truncation_marker);
        *ret_truncated = truncated;
        return sr_buf_steal(&text, ret_length);
}
