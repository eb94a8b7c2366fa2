#include "sandbox/spawner/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/spawner/steps.h"
#include "sandbox_filters.h"
#include "sys/syscalls.h"

// Before a call that does not return, the address sanitizer asks for the alternate signal stack, which init's
// filter refuses. Only for functions that run after it.
#define UNDER_INIT_FILTER __attribute__((no_sanitize("address")))

// The largest thing on it is a path.
#define SNIPPET_STACK_BYTES (64 * 1024)

static void report(enum sr_report_kind kind, unsigned step, int errnum, int wait_status)
{
        struct sr_report record = {
                .kind = kind,
                .step = step,
                .errnum = errnum,
                .wait_status = wait_status,
                .time_ns = sr_clock_monotonic_ns(),
        };

        // Shorter than PIPE_BUF: whole or not at all. When nobody reads, nobody is left to tell.
        (void)sr_fd_write_all(SR_PLAN_FD_REPORT, &record, sizeof(record));
}

UNDER_INIT_FILTER static _Noreturn void fail(unsigned step, int r)
{
        report(SR_REPORT_FAILED, step, -r, 0);
        _exit(127);
}

// "0" is the writer itself. All that this process does from here on is counted to the sandbox.
static int join_cgroups(const struct sr_launch *launch)
{
        for (unsigned i = 0; i < launch->task_count; i++)
                if (write(launch->tasks[i], "0", 1) != 1)
                        return -errno;
        return 0;
}

// Moves each descriptor to its number and closes all others, those of the spawner's other runs included.
static int arrange_descriptors(const struct sr_launch *launch)
{
        const struct {
                int from, to, flags;
        } moves[] = {
                {launch->stdin_fd, STDIN_FILENO, 0},
                {launch->stdout_fd, STDOUT_FILENO, 0},
                {launch->stderr_fd, STDERR_FILENO, 0},
                {launch->directory_fd, SR_PLAN_FD_DIRECTORY, 0},
                {launch->program_fd, SR_PLAN_FD_PROGRAM, O_CLOEXEC},
                {launch->root_fd, SR_PLAN_FD_ROOT, O_CLOEXEC},
                {launch->scratch_fd, SR_PLAN_FD_SCRATCH, O_CLOEXEC},
                {launch->tmp_fd, SR_PLAN_FD_TMP, O_CLOEXEC},
                {launch->shm_fd, SR_PLAN_FD_SHM, O_CLOEXEC},
        };

        for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++) {
                if (moves[i].from < 0)
                        close(moves[i].to);
                else if (dup3(moves[i].from, moves[i].to, moves[i].flags) < 0)
                        return -errno;
        }
        return sr_sys_close_range(SR_PLAN_FD_FIRST_FREE, ~0u, 0) < 0 ? -errno : 0;
}

// The snippet's process shares init's memory until exec, and init sleeps until then (CLONE_VFORK): copying
// the page tables of a process that is about to exec is a sixth of a launch. What it may therefore not do is
// change anything init still needs; it only makes system calls.
UNDER_INIT_FILTER static int snippet_main(void *argument)
{
        const struct sr_launch *launch = argument;

        for (unsigned i = 0; i < launch->plan.snippet_count; i++) {
                const struct sr_step *step = &launch->plan.snippet[i];

                if (step->kind == SR_STEP_EXEC)
                        report(SR_REPORT_STARTED, 0, 0, 0);

                int r = sr_step_run_snippet(launch, step);

                if (r < 0)
                        fail(step->kind, r);
        }
        fail(SR_STEP_EXEC, -ENOEXEC);
}

// init keeps what it needs to reap and to report, and nothing more. It never execs, so its bounding set gives
// nothing.
static int drop_privileges(const struct sr_launch *launch)
{
        close(SR_PLAN_FD_SETTINGS); // the snippet's process has used its own copy
        // First of all undumpable again: the snippet's process had to be otherwise, and shared this memory.
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NAME, "sandbox-init", 0, 0, 0) < 0 ||
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || cap_set_proc(launch->no_capabilities) < 0)
                return -errno;
        return sr_sys_seccomp_filter(0, sr_filter_init, sizeof(sr_filter_init) / sizeof(struct sock_filter)) <
                               0
                       ? -errno
                       : 0;
}

// Reaps everything; when the program itself ends, says how and exits at once: the kernel then kills whatever
// the program left behind, so that pipes reach their end even if a daemon held them.
UNDER_INIT_FILTER static _Noreturn void reap(pid_t program)
{
        for (;;) {
                int status = 0;
                pid_t pid = wait4(-1, &status, __WALL, NULL);

                if (pid == program) {
                        report(SR_REPORT_ENDED, 0, 0, status);
                        _exit(0);
                }
                if (pid < 0 && errno != EINTR)
                        fail(SR_STEP_FORK, -errno);
        }
}

UNDER_INIT_FILTER _Noreturn void sr_init_main(const struct sr_launch *launch)
{
        static char stack[SNIPPET_STACK_BYTES] __attribute__((aligned(16)));
        // First the report, so that a failure is heard.
        if (dup3(launch->report_fd, SR_PLAN_FD_REPORT, O_CLOEXEC) < 0)
                _exit(127);

        int r = join_cgroups(launch);

        if (r < 0)
                fail(SR_STEP_JOIN, r);
        // From inside the leaf, so that it is the root of all that /proc/self/cgroup shows.
        if (unshare(CLONE_NEWCGROUP) < 0)
                fail(SR_STEP_CGROUP_NAMESPACE, -errno);
        r = arrange_descriptors(launch);
        if (r < 0)
                fail(SR_STEP_DESCRIPTORS, r);
        // A session of its own is a scheduling group of its own (man 7 sched, autogroup), not the spawner's.
        if (setsid() < 0)
                fail(SR_STEP_SESSION, -errno);
        for (unsigned i = 0; i < launch->plan.init_count; i++) {
                const struct sr_step *step = &launch->plan.init[i];

                r = sr_step_run_init(launch, step);
                if (r < 0)
                        fail(step->kind, r);
        }
        // The mounts are attached; what is left of them as descriptors would be a way around the pivot.
        if (sr_sys_close_range(SR_PLAN_FD_ROOT, ~0u, 0) < 0)
                fail(SR_STEP_CLOSE, -errno);

        pid_t program = clone(snippet_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
                              (void *)(uintptr_t)launch);

        if (program < 0)
                fail(SR_STEP_FORK, -errno);
        r = drop_privileges(launch);
        if (r < 0)
                fail(SR_STEP_INIT_PRIVILEGES, r);
        reap(program);
}
