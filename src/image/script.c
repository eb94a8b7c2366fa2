// Theory of operation: the script and what it starts are a process group, which a guard leads, a child of
// ours that does nothing but read from a pipe. When this process dies, however it does, the pipe ends and the
// guard ends the group; a signal at the death of the parent would reach the shell alone, and shells put off
// their traps until the command they wait for is done. As long as the guard is not reaped nothing else can
// get the group's id. Being a fork of ours it also keeps the locks of the work directories until all are
// gone, so that nobody clears up where the script still writes.
#include "image/script.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/text.h"
#include "sys/syscalls.h"

#define LAST_LINES 5
#define MAX_LINE   65536 // a longer one is handed on in pieces
// Between asking the script to end and ending it. With its builder dead, its directory stays locked for all
// of that time.
#define GRACE_MS        5000
#define ORPHAN_GRACE_MS 2000

struct script {
        pid_t guard, pid; // -1: not started
        int life_fd;      // the guard reads the other end
        int signal_fd;
        sigset_t mask;        // before the script was started
        int stopped;          // the signal that told us to stop, or 0
        uint64_t deadline_ns; // when it was: until then the script may end by itself
        int output_fd;        // what it prints, non-blocking
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

// The guard's whole life, with every signal blocked but SIGKILL.
static _Noreturn void guard(int life_fd)
{
        char byte;

        while (read(life_fd, &byte, 1) < 0 && errno == EINTR)
                ;
        (void)kill(0, SIGTERM);
        (void)poll(NULL, 0, ORPHAN_GRACE_MS);
        (void)kill(0, SIGKILL);
        _exit(0);
}

// In the child: never returns.
static _Noreturn void become_script(const char *path, const char *argument, pid_t group, int null_fd,
                                    int output_fd)
{
        sigset_t none;

        (void)signal(SIGPIPE, SIG_DFL);
        (void)signal(SIGCHLD, SIG_DFL);
        sigemptyset(&none);
        if (setpgid(0, group) == 0 && dup2(null_fd, STDIN_FILENO) >= 0 &&
            dup2(output_fd, STDOUT_FILENO) >= 0 && dup2(output_fd, STDERR_FILENO) >= 0 &&
            sigprocmask(SIG_SETMASK, &none, NULL) == 0)
                execl(path, path, argument, (char *)NULL);

        const char *why = strerrorname_np(errno);

        (void)sr_fd_write_all(output_fd, "it cannot be started: ", strlen("it cannot be started: "));
        (void)sr_fd_write_all(output_fd, why, strlen(why));
        _exit(126);
}

// Starts the guard, as the leader of a process group. It keeps output_fd, so that a script whose builder is
// dead may clear up and speak about it, but no end that is written to.
static int start_guard(struct script *script, int script_end)
{
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;

        _cleanup_close_ int guard_end = ends[0];

        script->life_fd = ends[1];
        script->guard = fork();
        if (script->guard == 0) {
                close(script->life_fd);
                close(script_end);
                guard(guard_end);
        }
        return script->guard < 0 || setpgid(script->guard, script->guard) < 0 ? -errno : 0;
}

static int start_script(struct script *script, int script_end, const char *path, const char *argument)
{
        _cleanup_close_ int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (null_fd < 0)
                return -errno;
        script->pid = fork();
        if (script->pid == 0)
                become_script(path, argument, script->guard, null_fd, script_end);
        if (script->pid < 0)
                return -errno;
        // Here too, as it may not have come to it when the group must end. It may have begun to run, which
        // forbids it: then it did.
        (void)setpgid(script->pid, script->guard);
        return 0;
}

// Takes the signals that end a program into signal_fd, but for those that our caller had ignored (nohup).
static int catch_signals(struct script *script, sigset_t *ret_mask)
{
        static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        sigset_t set;

        *ret_mask = script->mask;
        sigemptyset(&set);
        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
                struct sigaction action;

                if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
                        sigaddset(&set, signals[i]);
                        sigaddset(ret_mask, signals[i]);
                }
        }
        script->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return script->signal_fd < 0 ? -errno : 0;
}

static int start(struct script *script, const char *path, const char *argument)
{
        sigset_t all, caught;
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;

        _cleanup_close_ int script_end = ends[1];
        int r;

        script->output_fd = ends[0];
        r = fcntl(script->output_fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : catch_signals(script, &caught);
        // Both children begin with everything blocked.
        sigfillset(&all);
        if (r == 0)
                r = -pthread_sigmask(SIG_SETMASK, &all, NULL);
        if (r == 0)
                r = start_guard(script, script_end);
        if (r == 0)
                r = start_script(script, script_end, path, argument);
        return r < 0 ? r : -pthread_sigmask(SIG_SETMASK, &caught, NULL);
}

// Ends what is left of the group and takes back what start did.
static void finish(struct script *script)
{
        if (script->guard > 0) {
                (void)kill(-script->guard, SIGKILL);
                // Where it could not be made a leader.
                (void)kill(script->guard, SIGKILL);
        }
        while (script->pid > 0 && waitpid(script->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        while (script->guard > 0 && waitpid(script->guard, NULL, 0) < 0 && errno == EINTR)
                ;
        sr_fd_close(script->life_fd);
        sr_fd_close(script->signal_fd);
        sr_fd_close(script->output_fd);
        (void)pthread_sigmask(SIG_SETMASK, &script->mask, NULL);
}

// Told to stop ourselves: the script is asked to end, and made to when it is told again.
static void take_signal(struct script *script)
{
        struct signalfd_siginfo info;

        if (read(script->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
                return;
        (void)kill(-script->guard, script->stopped == 0 ? SIGTERM : SIGKILL);
        if (script->stopped == 0)
                script->deadline_ns = sr_clock_monotonic_ns() + GRACE_MS * 1000000ull;
        script->stopped = (int)info.ssi_signo;
}

// How long to wait for something to happen, for poll. Ends a script that was asked to end and did not.
static int patience_ms(const struct script *script)
{
        uint64_t now = sr_clock_monotonic_ns();

        if (script->stopped == 0)
                return -1;
        if (now < script->deadline_ns)
                return (int)((script->deadline_ns - now) / 1000000) + 1;
        (void)kill(-script->guard, SIGKILL);
        return -1;
}

// Follows the script until it ends; what it left running does not hold us up. Gives its wait status.
static int follow(struct script *script, int *ret_status)
{
        _cleanup_close_ int process = sr_sys_pidfd_open(script->pid);
        bool open = true;

        if (process < 0)
                return -errno;
        for (bool ended = false; !ended;) {
                struct pollfd fds[3] = {{.fd = process, .events = POLLIN},
                                        {.fd = open ? script->output_fd : -1, .events = POLLIN},
                                        {.fd = script->signal_fd, .events = POLLIN}};

                if (poll(fds, 3, patience_ms(script)) < 0) {
                        if (errno != EINTR)
                                return -errno;
                        continue;
                }
                ended = fds[0].revents != 0;
                if (open && (ended || fds[1].revents != 0))
                        open = read_output(script);
                if (fds[2].revents != 0)
                        take_signal(script);
        }
        hand_on_lines(script, true);
        while (waitpid(script->pid, ret_status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        script->pid = -1;
        return 0;
}

static int judge(const struct script *script, int status, struct sr_error **error)
{
        _cleanup_free_ char *how = NULL;
        _cleanup_buf_ struct sr_buf last = {0};
        size_t kept = script->lines < LAST_LINES ? script->lines : LAST_LINES;

        if (script->stopped != 0)
                return sr_error_set(error, SR_ERROR_HOST, EINTR,
                                    "it was stopped, as this program was told to (%s)",
                                    strsignal(script->stopped));
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
        struct script script = {.guard = -1,
                                .pid = -1,
                                .life_fd = -1,
                                .signal_fd = -1,
                                .output_fd = -1,
                                .output = output,
                                .context = context};
        int status = 0, r = -pthread_sigmask(SIG_SETMASK, NULL, &script.mask);

        if (r == 0)
                r = start(&script, path, argument);
        if (r == 0)
                r = follow(&script, &status);
        finish(&script);
        r = r < 0 ? sr_error_set(error, SR_ERROR_HOST, -r, "it cannot be run: %s", strerror(-r))
                  : judge(&script, status, error);
        sr_buf_clear(&script.pending);
        for (size_t i = 0; i < LAST_LINES; i++)
                free(script.last[i]);
        return r;
}
