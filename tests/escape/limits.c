// Resource limits, priorities and the out-of-memory killer.
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "escape.h"

static void raise_limits(struct trial *trial)
{
        static const struct {
                const char *name;
                __rlimit_resource_t resource;
        } limits[] = {
                {"STACK", RLIMIT_STACK},       {"MEMLOCK", RLIMIT_MEMLOCK},       {"CORE", RLIMIT_CORE},
                {"MSGQUEUE", RLIMIT_MSGQUEUE}, {"SIGPENDING", RLIMIT_SIGPENDING}, {"NOFILE", RLIMIT_NOFILE},
                {"FSIZE", RLIMIT_FSIZE},       {"NPROC", RLIMIT_NPROC},           {"NICE", RLIMIT_NICE},
                {"RTPRIO", RLIMIT_RTPRIO},
        };

        for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
                struct rlimit limit;

                if (getrlimit(limits[i].resource, &limit) < 0 || limit.rlim_max == RLIM_INFINITY) {
                        decide(trial, OPEN, "%s has no limit", limits[i].name);
                        continue;
                }
                limit.rlim_max++;
                expect(trial, limits[i].name, setrlimit(limits[i].resource, &limit), ERRORS(EPERM));
        }
}

static void set_limit_of(struct trial *trial, const char *label, uint64_t pid)
{
        struct rlimit64 limit = {.rlim_cur = 1000000, .rlim_max = 1000000};

        expect(trial, label, syscall(SYS_prlimit64, pid, RLIMIT_CPU, &limit, NULL), ERRORS(EPERM));
}

static void limit_init(struct trial *trial)
{
        set_limit_of(trial, NULL, 1);
}

static void limit_parent(struct trial *trial)
{
        set_limit_of(trial, NULL, (uint64_t)getppid());
}

// The kernel reads 32 bits of the pid.
static void limit_high_bits(struct trial *trial)
{
        set_limit_of(trial, NULL, 1ull << 32 | 1);
}

static void nice_below(struct trial *trial)
{
        expect(trial, "setpriority", setpriority(PRIO_PROCESS, 0, -20), ERRORS(EACCES, EPERM));
        errno = 0;
        expect(trial, "nice", nice(-5) == -1 && errno != 0 ? -1 : 0, ERRORS(EPERM));
}

static void nice_init(struct trial *trial)
{
        expect(trial, "pid 1", setpriority(PRIO_PROCESS, 1, 19), ERRORS(EPERM));
        expect(trial, "its group", setpriority(PRIO_PGRP, 1, 19), ERRORS(EPERM, ENOSYS, ESRCH));
}

static void nice_user(struct trial *trial)
{
        expect(trial, NULL, setpriority(PRIO_USER, 0, 19), ERRORS(EPERM));
}

static void realtime(struct trial *trial)
{
        struct sched_param parameters = {.sched_priority = 1};
        struct {
                uint32_t size, policy;
                uint64_t flags;
                int32_t nice;
                uint32_t priority;
                uint64_t runtime, deadline, period;
        } deadline = {.size = 48, .policy = 6, .runtime = 1000000, .deadline = 10000000, .period = 10000000};

        expect(trial, "fifo", sched_setscheduler(0, SCHED_FIFO, &parameters), ERRORS(EPERM));
        expect(trial, "rr", sched_setscheduler(0, SCHED_RR, &parameters), ERRORS(EPERM));
        expect(trial, "deadline", syscall(SYS_sched_setattr, 0, &deadline, 0), ERRORS(EPERM));
}

static void schedule_init(struct trial *trial)
{
        struct sched_param parameters = {.sched_priority = 0};

        expect(trial, NULL, sched_setscheduler(1, SCHED_IDLE, &parameters), ERRORS(EPERM));
}

static void affinity_init(struct trial *trial)
{
        cpu_set_t set;

        // The set it has already, as far as this process may know.
        if (sched_getaffinity(1, sizeof(set), &set) < 0)
                sched_getaffinity(0, sizeof(set), &set);
        expect(trial, NULL, sched_setaffinity(1, sizeof(set), &set), ERRORS(EPERM));
}

static void io_priority(struct trial *trial)
{
        expect(trial, "pid 1", syscall(SYS_ioprio_set, 1, 1, 3 << 13), ERRORS(EPERM));
        expect(trial, "realtime", syscall(SYS_ioprio_set, 1, 0, 1 << 13), ERRORS(EPERM));
}

static void oom_score(struct trial *trial)
{
        static const char *const paths[] = {"/proc/self/oom_score_adj", "/proc/1/oom_score_adj",
                                            "/proc/self/oom_adj"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                int fd = open(paths[i], O_WRONLY | O_CLOEXEC);
                const char *value = strstr(paths[i], "score") != NULL ? "-1000" : "-17";

                expect(trial, paths[i], fd < 0 ? -1 : write(fd, value, strlen(value)),
                       ERRORS(EACCES, EPERM, EROFS, ENOENT));
                close(fd);
        }
}

static void lock_memory(struct trial *trial)
{
        static char pages[1 << 20];

        expect(trial, NULL, syscall(SYS_mlock, pages, sizeof(pages)), ERRORS(EPERM, ENOMEM));
}

static const struct attempt attempts[] = {
        {"rlimit-raise", ALONE, "raise a hard limit", raise_limits, NULL},
        {"prlimit-init", ALONE, "set a limit of pid 1", limit_init, NULL},
        {"prlimit-parent", ALONE, "set a limit of the parent", limit_parent, NULL},
        {"prlimit-high-bits", ALONE, "set a limit of pid 1, named with a bit the kernel drops",
         limit_high_bits, NULL},
        {"nice-negative", ALONE, "a higher priority", nice_below, NULL},
        {"nice-init", ALONE, "lower the priority of pid 1", nice_init, NULL},
        {"nice-user", ALONE, "lower the priority of the whole user", nice_user, NULL},
        {"realtime", ALONE, "realtime and deadline scheduling", realtime, NULL},
        {"schedule-init", ALONE, "change the scheduling of pid 1", schedule_init, NULL},
        {"affinity-init", ALONE, "change the processors of pid 1", affinity_init, NULL},
        {"io-priority", ALONE, "change io priorities", io_priority, NULL},
        {"oom-score", ALONE, "be spared when memory runs out", oom_score, NULL},
        {"lock-memory", ALONE, "lock memory", lock_memory, NULL},
};
SUBJECT(limits_subject, "limits and priorities", attempts);
