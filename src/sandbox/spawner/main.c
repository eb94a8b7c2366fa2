// The spawner: pid 1 of its own pid namespace, one thread, one loop. It makes sandboxes for the server that
// exec'd it, keeps their deadlines, and exits when the server's socket closes; the kernel then kills
// everything below it. It parses nothing but the fixed structs of protocol.h.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "main/main.h"
#include "sandbox/message.h"
#include "sandbox/spawner/init.h"
#include "sandbox/spawner/run.h"
#include "sandbox/spawner/start.h"
#include "sandbox/step.h"
#include "sys/syscalls.h"

// The shortest slice that the scheduler takes.
#define SLICE_NS 100000u

struct loop {
        struct sr_spawner_state state;
        struct sr_spawner_run runs[SR_WIRE_RUNS_MAX];
        unsigned used; // runs beyond this one were never used: no need to look at them
        int timer;
        uint64_t armed_ns; // when the timer will fire; 0: it is not set
};

// What an event belongs to: the source in the low half, the run's slot above it.
enum source { SOURCE_CONTROL, SOURCE_TIMER, SOURCE_SOCKET, SOURCE_INIT, SOURCE_MEMORY };

static int watch(struct loop *loop, int fd, enum source source, unsigned slot)
{
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)slot << 32 | source};

        return epoll_ctl(loop->state.epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

// Signals as a new process should have them, whatever the server was started with.
static void reset_signals(void)
{
        sigset_t none;

        for (int number = 1; number < NSIG; number++)
                signal(number, SIG_DFL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
}

// Each run takes a few descriptors, and there may be many runs.
static void raise_descriptor_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
}

// Descriptors that arrive later must lie above the numbers init moves them to, so those are taken now.
static int reserve_descriptors(void)
{
        int fd;

        do {
                fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        return -errno;
        } while (fd < SR_PLAN_FD_FIRST_FREE);
        close(fd);
        return 0;
}

// The first message of the server: where the cgroups of the sandboxes are to be made.
static int receive_start(struct sr_leaf_host *ret)
{
        struct sr_wire_start start;
        int descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        size_t count = 0;
        ssize_t n = sr_message_receive(SR_START_CONTROL_FD, &start, sizeof(start), descriptors, &count);

        if (n != sizeof(start) || start.head.version != SR_WIRE_VERSION || start.head.kind != SR_WIRE_START ||
            start.count > SR_WIRE_HIERARCHIES_MAX || start.count != count)
                return -EPROTO;
        ret->count = start.count;
        for (unsigned i = 0; i < start.count; i++) {
                if (start.hierarchies[i].version != 1 && start.hierarchies[i].version != 2)
                        return -EPROTO;
                ret->hierarchies[i] = start.hierarchies[i];
                ret->base[i] = descriptors[i];
        }
        return 0;
}

static int prepare_loop(struct loop *loop)
{
        for (unsigned i = 0; i < SR_WIRE_RUNS_MAX; i++)
                loop->runs[i] = (struct sr_spawner_run){
                        .slot = i,
                        .socket = -1,
                        .pidfd = -1,
                        .report = -1,
                        .own = SR_OWN_NONE,
                };
        int r = reserve_descriptors();
        if (r < 0)
                return r;
        loop->state.epoll = epoll_create1(EPOLL_CLOEXEC);
        loop->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        loop->state.no_capabilities = cap_init();
        if (loop->state.epoll < 0 || loop->timer < 0 || loop->state.no_capabilities == NULL)
                return -errno;
        if (sched_getaffinity(0, sizeof(loop->state.allowed), &loop->state.allowed) < 0)
                return -errno;
        r = watch(loop, SR_START_CONTROL_FD, SOURCE_CONTROL, 0);
        return r < 0 ? r : watch(loop, loop->timer, SOURCE_TIMER, 0);
}

// Whether the timer is for this run: it goes on and nobody has ended it.
static bool is_timed(const struct sr_spawner_run *run)
{
        return run->init != 0 && run->end == SR_WIRE_END_EXITED;
}

static void rearm(struct loop *loop)
{
        uint64_t next = 0;

        for (unsigned i = 0; i < loop->used; i++) {
                const struct sr_spawner_run *run = &loop->runs[i];

                if (!is_timed(run))
                        continue;
                if (next == 0 || run->deadline_ns < next)
                        next = run->deadline_ns;
                // 0: not looked at yet, so now. The timer takes any time of the past, but not 0.
                if (run->look_ns < next)
                        next = run->look_ns > 0 ? run->look_ns : 1;
        }
        if (next == loop->armed_ns)
                return;
        struct itimerspec when = {
                .it_value = {.tv_sec = (time_t)(next / 1000000000u), .tv_nsec = (long)(next % 1000000000u)},
        };
        // Cannot fail: the time is absolute and in range.
        (void)timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &when, NULL);
        loop->armed_ns = next;
}

static void expire(struct loop *loop)
{
        uint64_t fired, now = sr_clock_monotonic_ns();

        (void)!read(loop->timer, &fired, sizeof(fired));
        loop->armed_ns = 0;
        for (unsigned i = 0; i < loop->used; i++) {
                struct sr_spawner_run *run = &loop->runs[i];

                if (is_timed(run) && run->deadline_ns <= now)
                        sr_run_kill(run, SR_WIRE_END_TIMEOUT);
                if (is_timed(run) && run->look_ns <= now)
                        sr_run_look(&loop->state, run);
        }
}

// OPEN: a run begins. Without a free slot its socket is closed at once, which its owner sees.
static void open_run(struct loop *loop, int socket)
{
        for (unsigned i = 0; i < SR_WIRE_RUNS_MAX; i++) {
                struct sr_spawner_run *run = &loop->runs[i];

                if (!sr_run_is_free(run))
                        continue;
                run->socket = socket;
                if (i >= loop->used)
                        loop->used = i + 1;
                // An event may be stale when its turn comes; reading must then not wait.
                if (fcntl(socket, F_SETFL, O_NONBLOCK) < 0 || watch(loop, socket, SOURCE_SOCKET, i) < 0)
                        sr_run_release(&loop->state, run);
                return;
        }
        close(socket);
}

static bool is_kind(const void *bytes, ssize_t length, enum sr_wire_kind kind, size_t least)
{
        const struct sr_wire_head *head = bytes;

        return length >= (ssize_t)least && head->version == SR_WIRE_VERSION && head->kind == kind;
}

// false when the server is gone.
static bool serve_control(struct loop *loop)
{
        struct sr_wire_head head;
        int descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        size_t count = 0;
        ssize_t n = sr_message_receive(SR_START_CONTROL_FD, &head, sizeof(head), descriptors, &count);

        if (n == -EMSGSIZE)
                return true;
        if (n <= 0)
                return false;
        if (count == 1 && is_kind(&head, n, SR_WIRE_OPEN, sizeof(head))) {
                open_run(loop, descriptors[0]);
                return true;
        }
        while (count > 0)
                close(descriptors[--count]);
        return true;
}

static void serve_run(struct loop *loop, struct sr_spawner_run *run)
{
        static union {
                struct sr_wire_head head;
                struct sr_wire_scratch scratch;
                struct sr_wire_stage stage;
                char bytes[sizeof(struct sr_wire_stage) + SR_WIRE_STRINGS_MAX];
        } message;
        int descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        size_t count = 0;
        ssize_t n = sr_message_receive(run->socket, &message, sizeof(message), descriptors, &count);

        if (n == -EAGAIN)
                return;
        if (is_kind(&message, n, SR_WIRE_STAGE, sizeof(message.head))) {
                sr_run_launch(&loop->state, run, &message.stage, (size_t)n, descriptors, count);
                // Out of memory for one event: nothing goes on from there.
                if (run->init != 0 && watch(loop, run->pidfd, SOURCE_INIT, run->slot) < 0)
                        _exit(1);
                if (run->init != 0 && run->own.leaf.oom_event >= 0 &&
                    watch(loop, run->own.leaf.oom_event, SOURCE_MEMORY, run->slot) < 0)
                        _exit(1);
        } else if (is_kind(&message, n, SR_WIRE_SCRATCH, sizeof(message.scratch))) {
                sr_run_make_scratch(run, &message.scratch);
        } else if (is_kind(&message, n, SR_WIRE_KILL, sizeof(message.head))) {
                sr_run_kill(run, SR_WIRE_END_KILLED);
        } else {
                // The end of the socket, or something no server of ours sends.
                sr_run_release(&loop->state, run);
        }
        while (count > 0)
                close(descriptors[--count]);
}

// Work for when there is nothing to do: makes ahead what the next stage of a slot will need, for as many
// slots as can be busy at once with profit. true when there may be more.
static bool work_ahead(struct loop *loop)
{
        unsigned processors = (unsigned)CPU_COUNT(&loop->state.allowed);

        for (unsigned i = 0; i < loop->used && i < processors; i++) {
                struct sr_spawner_run *run = &loop->runs[i];

                if (run->own.wanted && run->init == 0) {
                        sr_own_prepare(&loop->state.leaves, i, &run->own);
                        return true;
                }
        }
        return false;
}

static int serve(struct loop *loop)
{
        struct epoll_event events[32];
        bool idle = false; // nothing came up just now

        for (;;) {
                rearm(loop);

                // What comes in goes before what can be done ahead.
                int wait = idle && !work_ahead(loop) ? -1 : 0;
                int n = epoll_wait(loop->state.epoll, events, sizeof(events) / sizeof(*events), wait);

                idle = n == 0;
                if (n < 0 && errno != EINTR)
                        return -errno;
                for (int i = 0; i < n; i++) {
                        struct sr_spawner_run *run = &loop->runs[events[i].data.u64 >> 32];

                        switch ((enum source)(events[i].data.u64 & 0xff)) {
                        case SOURCE_CONTROL:
                                if (!serve_control(loop))
                                        return 0;
                                break;
                        case SOURCE_TIMER:
                                expire(loop);
                                break;
                        case SOURCE_SOCKET:
                                // An earlier event of this round may have ended the run.
                                if (run->socket >= 0)
                                        serve_run(loop, run);
                                break;
                        case SOURCE_INIT:
                                if (run->init != 0)
                                        sr_run_finish(&loop->state, run);
                                break;
                        case SOURCE_MEMORY:
                                sr_run_out_of_memory(&loop->state, run);
                                break;
                        }
                }
        }
}

int sr_spawner_main(int argc, char **argv)
{
        static struct loop loop;
        struct sr_wire_ready ready = {.head = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_READY}};

        // Started by hand it has no socket to talk to.
        if (argc != 2 || fcntl(SR_START_CONTROL_FD, F_GETFD) < 0) {
                static const char text[] =
                        "sandbox-runner-spawner is started by sandbox-runner, not by hand\n";

                (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
                return 2;
        }
        reset_signals();
        raise_descriptor_limit();
        // Whoever keeps others to their limits must not wait long behind them. Nothing depends on it.
        (void)sr_sys_short_slices(SLICE_NS);
        umask(022);
        prctl(PR_SET_NAME, "sandbox-spawner", 0, 0, 0);
        loop.state.has_range = strcmp(argv[1], "range") == 0;

        int r = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;

        if (r < 0)
                ready.failure = (struct sr_wire_failure){SR_STEP_START_HIDE, -r};
        else
                r = sr_start_prepare(&ready.failure);

        if (r == 0) {
                r = receive_start(&loop.state.leaves);
                if (r < 0)
                        ready.failure = (struct sr_wire_failure){SR_STEP_START_CGROUP, -r};
        }
        if (r == 0) {
                r = prepare_loop(&loop);
                if (r < 0)
                        ready.failure = (struct sr_wire_failure){SR_STEP_START_LOOP, -r};
        }
        if (sr_message_send(SR_START_CONTROL_FD, &ready, sizeof(ready), NULL, 0) < 0 || r < 0)
                _exit(1);
        r = serve(&loop);
        _exit(r < 0 ? 1 : 0);
}
