#include "sandbox/spawner/verdict.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sandbox/spawner/init.h"
#include "sandbox/spawner/tmpfs.h"
#include "sandbox/step.h"

// Reads what init reported. Whatever is in the pipe that is no whole, known record is passed over: the
// verdict is then that init died without one. killed_outside: the host was out of memory, not the program.
static void read_reports(const struct sr_spawner_run *run, uint64_t now_ns, bool killed_outside,
                         struct sr_wire_outcome *outcome)
{
        struct sr_report record;
        uint64_t started_ns = 0, ended_ns = now_ns;
        bool ended = false;

        while (read(run->report, &record, sizeof(record)) == sizeof(record)) {
                if (record.kind == SR_REPORT_STARTED && started_ns == 0) {
                        started_ns = record.time_ns;
                } else if (record.kind == SR_REPORT_FAILED && outcome->failure.step == SR_STEP_NONE) {
                        outcome->failure = (struct sr_wire_failure){record.step, record.errnum};
                } else if (record.kind == SR_REPORT_ENDED && !ended) {
                        ended = true;
                        ended_ns = record.time_ns;
                        outcome->wait_status = record.wait_status;
                }
        }
        if (started_ns != 0) {
                outcome->launch_ns = started_ns > run->requested_ns ? started_ns - run->requested_ns : 0;
                outcome->wall_ns = ended_ns > started_ns ? ended_ns - started_ns : 0;
        }
        // An end that init reported is the truth even when the deadline came just after; but a program that
        // was killed while memory ran out was killed for that.
        bool killed =
                !ended || (WIFSIGNALED(outcome->wait_status) && WTERMSIG(outcome->wait_status) == SIGKILL);

        if (outcome->failure.step != SR_STEP_NONE)
                outcome->end = SR_WIRE_END_FAILED;
        else if (killed && outcome->hits & SR_HIT_MEMORY)
                outcome->end = SR_WIRE_END_MEMORY;
        else if (ended && killed && killed_outside)
                outcome->end = SR_WIRE_END_DIED;
        else if (ended)
                outcome->end = SR_WIRE_END_EXITED;
        else if (run->end != SR_WIRE_END_EXITED)
                outcome->end = run->end;
        else
                outcome->end = SR_WIRE_END_DIED;
}

static uint64_t microseconds(struct timeval time)
{
        return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

// Reaps init when it is dead. What the kernel says of init's own usage covers what it reaped itself: the
// program and all it had waited for; not what was killed along with init. So it serves where there is no
// cgroup, and there the watchdog's last look counts too.
static bool reap(const struct sr_spawner_run *run, struct sr_wire_outcome *outcome)
{
        struct rusage usage = {0};
        int status;

        if (wait4(run->init, &status, WNOHANG, &usage) == 0)
                return false;
        outcome->cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
        outcome->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
        outcome->has_usage = WIFEXITED(status);
        return true;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

// What the stage used and which limits it ran into. true when something of it was killed for want of memory
// that is not its own.
static bool read_usage(const struct sr_spawner_state *state, const struct sr_spawner_run *run,
                       struct sr_wire_outcome *outcome)
{
        struct sr_leaf_usage usage;

        sr_leaf_read(&state->leaves, &run->own.leaf, &usage);
        outcome->hits = usage.hits;
        if (usage.has_cpu)
                outcome->cpu_us = usage.cpu_us;
        else
                outcome->cpu_us = larger(outcome->cpu_us, run->watchdog.cpu_us);
        if (usage.has_peak)
                outcome->peak_bytes = usage.peak_bytes;
        else
                outcome->peak_bytes = larger(outcome->peak_bytes, run->watchdog.peak_bytes);
        if ((usage.has_cpu || run->watchdog.cpu_us > 0) && (usage.has_peak || run->watchdog.peak_bytes > 0))
                outcome->has_usage = 1;
        if (run->end == SR_WIRE_END_MEMORY)
                outcome->hits |= SR_HIT_MEMORY;
        if (run->watchdog.most >= run->own.limits.leaf.processes && run->watched)
                outcome->hits |= SR_HIT_PIDS;
        if (sr_tmpfs_usage(run->own.tmp).full || sr_tmpfs_usage(run->own.shm).full)
                outcome->hits |= SR_HIT_TMP;
        if (sr_run_scratch_usage(run).full)
                outcome->hits |= SR_HIT_SCRATCH;
        return usage.killed_outside;
}

bool sr_verdict_reach(const struct sr_spawner_state *state, const struct sr_spawner_run *run,
                      struct sr_wire_outcome *ret)
{
        uint64_t now_ns = sr_clock_monotonic_ns();

        *ret = (struct sr_wire_outcome){0};
        if (!reap(run, ret))
                return false;
        read_reports(run, now_ns, read_usage(state, run, ret), ret);
        return true;
}
