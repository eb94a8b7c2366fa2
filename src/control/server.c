// The thread that answers. It polls a few clients at once, none of which can hold it up: sockets do not
// block, each exchange has a time limit, requests a size limit, and while all places are taken nobody new is
// let in.

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "control/internal.h"

#define CLIENTS_MAX  8
#define STACK_BYTES  (256 * 1024)
#define READ_SIZE    4096
#define NS_PER_MS    UINT64_C(1000000)
#define PATIENCE_NS  (CONTROL_PATIENCE_MS * NS_PER_MS)
#define ACCEPT_PAUSE 100 // ms, when there is no descriptor for a client

struct client {
        int fd;
        uint64_t until_ns;
        struct sr_buf request, answer; // it is still asking while answer is empty
        size_t sent;
};

struct sr_control {
        struct sr_control_options options;
        char name[sizeof("2147483647.sock")];
        int stop_event;
        int directory, listener;
        pthread_t thread;
        struct client clients[CLIENTS_MAX];
        size_t count;
};

static int start_listening(struct sr_control *control, struct sr_error **error)
{
        _cleanup_error_ struct sr_error *first = NULL;
        char *const *path = control->options.directories;

        for (; *path != NULL; path++) {
                _cleanup_error_ struct sr_error *reason = NULL;
                _cleanup_close_ int directory = -1;
                int r = control_directory_open(*path, true, &directory, &reason);

                if (r == 0) {
                        r = control_listen(directory, control->name, &control->listener, &reason);
                        sr_error_prefix(&reason, r, "%s", *path);
                }
                if (r == 0) {
                        control->directory = sr_fd_steal(directory);
                        return 0;
                }
                // The first is where one would look; a later one that is merely absent explains nothing.
                if (first == NULL || sr_error_get_errno(first) == ENOENT) {
                        sr_error_free(first);
                        first = sr_steal(reason);
                }
        }
        return sr_error_set(error, SR_ERROR_HOST, sr_error_get_errno(first), "%s", sr_error_message(first));
}

static void drop(struct sr_control *control, size_t index)
{
        struct client *client = &control->clients[index];

        sr_fd_close(client->fd);
        sr_buf_clear(&client->request);
        sr_buf_clear(&client->answer);
        *client = control->clients[--control->count];
}

static bool may_ask(int fd)
{
        struct ucred peer;
        socklen_t length = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && length == sizeof(peer) &&
               (peer.uid == geteuid() || peer.uid == 0);
}

// false when there is no descriptor for one now: the listener would be readable all the time.
static bool let_in(struct sr_control *control)
{
        int fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
                return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
        if (!may_ask(fd)) {
                sr_fd_close(fd);
                return true;
        }
        control->clients[control->count++] =
                (struct client){.fd = fd, .until_ns = sr_clock_monotonic_ns() + PATIENCE_NS};
        return true;
}

static void answer(struct sr_control *control, struct client *client, size_t length)
{
        control_answer(control->options.runner, control->options.kind, client->request.data, length,
                       &client->answer);
}

// Goes on with one exchange as far as it goes. false when it is over.
static bool attend(struct sr_control *control, struct client *client)
{
        if (client->answer.len == 0) {
                char *to = sr_buf_reserve(&client->request, READ_SIZE);
                ssize_t n = read(client->fd, to, READ_SIZE);

                if (n <= 0)
                        return n < 0 && (errno == EAGAIN || errno == EINTR);

                const char *end = memchr(to, '\n', (size_t)n);

                client->request.len += (size_t)n;
                client->request.data[client->request.len] = '\0';
                if (end != NULL)
                        answer(control, client, (size_t)(end - client->request.data));
                else if (client->request.len > CONTROL_REQUEST_MAX)
                        sr_buf_append_text(&client->answer, "{\"error\":\"the request is too long\"}\n");
                else
                        return true;
        }

        ssize_t n = send(client->fd, client->answer.data + client->sent, client->answer.len - client->sent,
                         MSG_NOSIGNAL);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        client->sent += (size_t)n;
        return client->sent < client->answer.len;
}

// Milliseconds until the first client's time is up, -1 when there is none.
static int patience(const struct sr_control *control, uint64_t now)
{
        uint64_t until = UINT64_MAX;

        for (size_t i = 0; i < control->count; i++)
                if (control->clients[i].until_ns < until)
                        until = control->clients[i].until_ns;
        if (until == UINT64_MAX)
                return -1;
        return until > now ? (int)((until - now) / NS_PER_MS) + 1 : 0;
}

static void serve(struct sr_control *control)
{
        bool paused = false;

        for (;;) {
                struct pollfd polls[2 + CLIENTS_MAX] = {
                        {.fd = control->stop_event, .events = POLLIN},
                        {.fd = paused || control->count == CLIENTS_MAX ? -1 : control->listener,
                         .events = POLLIN},
                };
                int wait = patience(control, sr_clock_monotonic_ns());

                for (size_t i = 0; i < control->count; i++)
                        polls[2 + i] = (struct pollfd){
                                .fd = control->clients[i].fd,
                                .events = control->clients[i].answer.len == 0 ? POLLIN : POLLOUT};
                if (paused && (wait < 0 || wait > ACCEPT_PAUSE))
                        wait = ACCEPT_PAUSE;
                if (poll(polls, 2 + control->count, wait) < 0)
                        continue; // no memory for a moment
                if (polls[0].revents != 0)
                        return;

                uint64_t now = sr_clock_monotonic_ns();

                // From the last on, because who is dropped makes room for the last.
                for (size_t i = control->count; i-- > 0;)
                        if (polls[2 + i].revents != 0 ? !attend(control, &control->clients[i])
                                                      : now >= control->clients[i].until_ns)
                                drop(control, i);
                paused = polls[1].revents != 0 && !let_in(control);
        }
}

static void remove_others_dead(struct sr_control *control)
{
        _cleanup_strv_ char **names = NULL;

        if (control_directory_list(control->directory, &names, NULL) < 0)
                return;
        for (char *const *name = names; *name != NULL; name++) {
                int fd = strcmp(*name, control->name) != 0 ? control_connect(control->directory, *name) : -1;

                sr_fd_close(fd);
                if (fd == -ECONNREFUSED && !control_remove_dead(control->directory, *name))
                        return; // somebody else is at it; nobody should have to wait for us
        }
}

static void *work(void *argument)
{
        struct sr_control *control = argument;

        remove_others_dead(control);
        serve(control);
        return NULL;
}

// Signals are for the main thread.
static int start_thread(struct sr_control *control)
{
        pthread_attr_t attributes;
        sigset_t all, before;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int r = pthread_create(&control->thread, &attributes, work, control);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return -r;
}

static void take_down(struct sr_control *control)
{
        while (control->count > 0)
                drop(control, control->count - 1);
        if (control->listener >= 0)
                (void)unlinkat(control->directory, control->name, 0);
        sr_fd_close(control->listener);
        sr_fd_close(control->directory);
        sr_fd_close(control->stop_event);
        free(control);
}

int sr_control_start(const struct sr_control_options *options, struct sr_control **ret,
                     struct sr_error **error)
{
        struct sr_control *control;
        int r = 0;

        *ret = NULL;
        if (options->directories == NULL || *options->directories == NULL)
                return 0;
        control = sr_new(struct sr_control);
        *control =
                (struct sr_control){.options = *options, .stop_event = -1, .directory = -1, .listener = -1};
        snprintf(control->name, sizeof(control->name), "%d.sock", (int)getpid());
        control->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (control->stop_event < 0)
                r = sr_error_set(error, SR_ERROR_HOST, errno, "cannot make an eventfd: %s", strerror(errno));
        if (r == 0)
                r = start_listening(control, error);
        if (r == 0) {
                r = start_thread(control);
                if (r < 0)
                        sr_error_set(error, SR_ERROR_HOST, -r, "cannot start a thread: %s", strerror(-r));
        }
        if (r < 0)
                take_down(control);
        else
                *ret = control;
        return r;
}

struct sr_control *sr_control_stop(struct sr_control *control)
{
        const uint64_t one = 1;

        if (control == NULL)
                return NULL;
        (void)!write(control->stop_event, &one, sizeof(one));
        pthread_join(control->thread, NULL);
        take_down(control);
        return NULL;
}

void sr_control_stopp(struct sr_control **control)
{
        *control = sr_control_stop(*control);
}
