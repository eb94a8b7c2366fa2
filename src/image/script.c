#include "image/script.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "image/text.h"
#include "sys/syscalls.h"

#define LAST_LINES 5
#define MAX_LINE   65536 // a longer one is handed on in pieces

struct script {
        int output_fd; // what it prints, non-blocking
        struct sr_buf pending;
        char *last[LAST_LINES]; // a ring
        size_t lines;
        void (*output)(void *context, const char *line);
        void *context;
};

static void hand_on(struct script *script, char *line)
{
        char **place = &script->last[script->lines % LAST_LINES];
        size_t length = strlen(line);

        if (length > 0 && line[length - 1] == '\r')
                line[length - 1] = '\0';
        if (script->output != NULL)
                script->output(script->context, line);
        if (*line == '\0')
                return;
        free(*place);
        *place = sr_image_printable(line);
        script->lines++;
}

static void hand_on_lines(struct script *script, bool end)
{
        struct sr_buf *pending = &script->pending;

        while (pending->len > 0) {
                char *newline = memchr(pending->data, '\n', pending->len);
                size_t length = newline != NULL ? (size_t)(newline - pending->data) : pending->len;

                if (newline == NULL && !end && length < MAX_LINE)
                        return;

                _cleanup_free_ char *line = sr_memdup0(pending->data, length);

                hand_on(script, line);
                sr_buf_consume(pending, length + (newline != NULL ? 1 : 0));
        }
}

// Reads what there is. false at the end.
static bool read_output(struct script *script)
{
        for (;;) {
                char *to = sr_buf_reserve(&script->pending, 4096);
                ssize_t n = read(script->output_fd, to, 4096);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN;
                if (n == 0)
                        return false;
                script->pending.len += (size_t)n;
                hand_on_lines(script, false);
        }
}

// In the child: never returns.
static _Noreturn void become_script(const char *path, const char *argument, int null_fd, int output_fd,
                                    pid_t parent)
{
        sigset_t none;

        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)signal(SIGCHLD, SIG_DFL);
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() != parent)
                _exit(125); // too late: it is gone already
        if (dup2(null_fd, STDIN_FILENO) >= 0 && dup2(output_fd, STDOUT_FILENO) >= 0 &&
            dup2(output_fd, STDERR_FILENO) >= 0)
                execl(path, path, argument, (char *)NULL);

        const char *why = strerrorname_np(errno);

        (void)sr_fd_write_all(output_fd, "it cannot be started: ", strlen("it cannot be started: "));
        (void)sr_fd_write_all(output_fd, why, strlen(why));
        _exit(126);
}

static int start(const char *path, const char *argument, int *ret_output, pid_t *ret_pid)
{
        _cleanup_close_ int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int ends[2];

        if (null_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return -errno;

        _cleanup_close_ int output = ends[0], child_end = ends[1];
        pid_t parent = getpid(), pid = fork();

        if (pid < 0)
                return -errno;
        if (pid == 0)
                become_script(path, argument, null_fd, child_end, parent);
        if (fcntl(output, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        *ret_output = sr_fd_steal(output);
        *ret_pid = pid;
        return 0;
}

// Follows the script until it ends; what it left running does not hold us up. Gives its wait status.
static int follow(struct script *script, pid_t pid, int *ret_status)
{
        _cleanup_close_ int process = sr_sys_pidfd_open(pid);
        bool open = true;

        if (process < 0)
                return -errno;
        for (bool ended = false; !ended;) {
                struct pollfd fds[2] = {{.fd = process, .events = POLLIN},
                                        {.fd = open ? script->output_fd : -1, .events = POLLIN}};

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return -errno;
                ended = fds[0].revents != 0;
                if (open && (ended || fds[1].revents != 0))
                        open = read_output(script);
        }
        hand_on_lines(script, true);
        while (waitpid(pid, ret_status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return 0;
}

static int judge(const struct script *script, int status, struct sr_error **error)
{
        _cleanup_free_ char *how = NULL;
        _cleanup_buf_ struct sr_buf last = {0};
        size_t kept = script->lines < LAST_LINES ? script->lines : LAST_LINES;

        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        how = WIFEXITED(status) ? sr_asprintf("failed with exit code %d", WEXITSTATUS(status))
                                : sr_asprintf("was ended by signal %d (%s)", WTERMSIG(status),
                                              strsignal(WTERMSIG(status)));
        for (size_t i = script->lines - kept; i < script->lines; i++)
                sr_buf_printf(&last, "\n    %s", script->last[i % LAST_LINES]);
        return sr_error_set(error, SR_ERROR_IMAGE, ECHILD, "it %s%s%s", how,
                            kept > 0 ? "; the last it said:" : " and said nothing",
                            kept > 0 ? last.data : "");
}

int sr_image_script_run(const char *path, const char *argument,
                        void (*output)(void *context, const char *line), void *context,
                        struct sr_error **error)
{
        struct script script = {.output_fd = -1, .output = output, .context = context};
        pid_t pid = -1;
        int status = 0, r = start(path, argument, &script.output_fd, &pid);

        if (r == 0)
                r = follow(&script, pid, &status);
        r = r < 0 ? sr_error_set(error, SR_ERROR_HOST, -r, "it cannot be run: %s", strerror(-r))
                  : judge(&script, status, error);
        sr_fd_close(script.output_fd);
        sr_buf_clear(&script.pending);
        for (size_t i = 0; i < LAST_LINES; i++)
                free(script.last[i]);
        return r;
}
