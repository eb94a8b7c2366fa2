#include "sandbox/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>

// Hidden because they show or change what belongs to the host (the list docker and runc mask). A directory is
// covered by an empty read-only tmpfs, a file by /dev/null; what the kernel does not have is passed over.
// init's own environment is empty; covered, it also reads as such where init may not be looked into.
static const char *const masked[] = {
        "proc/1/environ",     "proc/acpi",        "proc/asound",      "proc/interrupts", "proc/kcore",
        "proc/keys",          "proc/kmsg",        "proc/kpagecgroup", "proc/kpagecount", "proc/kpageflags",
        "proc/latency_stats", "proc/sched_debug", "proc/scsi",        "proc/timer_list", "proc/sysrq-trigger",
};

// Readable but never writable, whoever the program is.
// init's own directory is among them: where one id is all there is, it belongs to the program too.
static const char *const read_only[] = {"proc/1", "proc/bus", "proc/fs", "proc/irq", "proc/sys"};

static const char *const tcp_buffers[] = {"net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"};

// Limits that are the same for every program.
static const struct {
        unsigned resource;
        uint64_t value;
} fixed_limits[] = {
        {RLIMIT_STACK, 8u << 20},
        {RLIMIT_MEMLOCK, 0},
        // 1, not 0: the kernel then skips a core_pattern that is a pipe as well (man 5 core).
        {RLIMIT_CORE, 1},
        {RLIMIT_MSGQUEUE, 0},
        // Queued signals and timers are charged to the user on the host as well.
        {RLIMIT_SIGPENDING, 256},
        {RLIMIT_NICE, 0},
        {RLIMIT_RTPRIO, 0},
};

static void add(struct sr_step *list, unsigned *count, struct sr_step step)
{
        assert(*count < SR_PLAN_STEPS_MAX);
        list[(*count)++] = step;
}

#define INIT(...)    add(plan->init, &plan->init_count, (struct sr_step){__VA_ARGS__})
#define SNIPPET(...) add(plan->snippet, &plan->snippet_count, (struct sr_step){__VA_ARGS__})

__attribute__((format(printf, 2, 3))) static const char *text(struct sr_plan *plan, const char *format, ...)
{
        char *at = plan->text + plan->text_used;
        size_t room = SR_PLAN_TEXT_MAX - plan->text_used;
        va_list arguments;

        va_start(arguments, format);
        int length = vsnprintf(at, room, format, arguments);
        va_end(arguments);
        assert(length >= 0 && (size_t)length < room);
        plan->text_used += (unsigned)length + 1;
        return at;
}

static void plan_mounts(struct sr_plan *plan, const struct sr_wire_stage *stage)
{
        INIT(.kind = SR_STEP_ATTACH_ROOT, .fd = SR_PLAN_FD_ROOT);
        INIT(.kind = SR_STEP_ATTACH_DEVICES, .path = "dev");
        INIT(.kind = SR_STEP_ATTACH_TMPFS, .path = "dev/shm", .fd = SR_PLAN_FD_SHM);
        INIT(.kind = SR_STEP_ATTACH_TMPFS, .path = "tmp", .fd = SR_PLAN_FD_TMP);
        INIT(.kind = SR_STEP_PROC, .path = "proc", .number = MS_NOSUID | MS_NODEV | MS_NOEXEC);
        INIT(.kind = SR_STEP_SETTINGS, .path = "proc/sys", .fd = SR_PLAN_FD_SETTINGS);
        for (size_t i = 0; i < sizeof(read_only) / sizeof(*read_only); i++)
                INIT(.kind = SR_STEP_READ_ONLY, .path = read_only[i]);
        for (size_t i = 0; i < sizeof(masked) / sizeof(*masked); i++)
                INIT(.kind = SR_STEP_MASK, .path = masked[i]);
        if (stage->scratch != SR_WIRE_SCRATCH_NONE)
                INIT(.kind = SR_STEP_ATTACH_SCRATCH, .path = "scratch", .fd = SR_PLAN_FD_SCRATCH);
}

static void plan_program(struct sr_plan *plan, const struct sr_plan_input *input)
{
        const struct sr_wire_stage *stage = input->stage;

        SNIPPET(.kind = SR_STEP_SESSION);
        SNIPPET(.kind = SR_STEP_AFFINITY);
        SNIPPET(.kind = SR_STEP_IDS, .value = input->parent_id);
        SNIPPET(.kind = SR_STEP_USER_NAMESPACE,
                .options = text(plan, "%u %u 1\n", SR_PLAN_ID, input->parent_id));
        // As the program, whose quota of keys it then counts in.
        SNIPPET(.kind = SR_STEP_KEYRING);
        SNIPPET(.kind = SR_STEP_NO_NAMESPACES, .path = "user/max_user_namespaces", .options = "0",
                .fd = SR_PLAN_FD_SETTINGS);
        SNIPPET(.kind = SR_STEP_DIRECTORY, .path = stage->in_scratch ? "/scratch" : "/tmp");
        for (size_t i = 0; i < sizeof(fixed_limits) / sizeof(*fixed_limits); i++)
                SNIPPET(.kind = SR_STEP_RLIMIT, .number = fixed_limits[i].resource,
                        .value = fixed_limits[i].value);
        SNIPPET(.kind = SR_STEP_RLIMIT, .number = RLIMIT_NOFILE, .value = stage->open_files);
        SNIPPET(.kind = SR_STEP_RLIMIT, .number = RLIMIT_FSIZE, .value = stage->file_bytes);
        // Where a cgroup holds the limit, this comes second by one, so that it is the cgroup that counts it.
        SNIPPET(.kind = SR_STEP_RLIMIT, .number = RLIMIT_NPROC,
                .value = stage->processes + (input->pids_by_cgroup ? 1u : 0u));
        SNIPPET(.kind = SR_STEP_CAPABILITIES);
        SNIPPET(.kind = SR_STEP_NO_NEW_PRIVILEGES);
        SNIPPET(.kind = SR_STEP_LANDLOCK,
                .number = (stage->scratch == SR_WIRE_SCRATCH_WRITE ? SR_PLAN_WALL_SCRATCH : 0) |
                          (input->watched ? SR_PLAN_WALL_WATCHED : 0),
                .fd = stage->descriptors & SR_WIRE_HAS_DIRECTORY ? SR_PLAN_FD_DIRECTORY : 0);
        SNIPPET(.kind = SR_STEP_CLOSE, .number = (stage->descriptors & SR_WIRE_HAS_DIRECTORY) != 0);
        SNIPPET(.kind = SR_STEP_FILTER, .number = input->watched);
        SNIPPET(.kind = SR_STEP_EXEC,
                .fd = stage->descriptors & SR_WIRE_HAS_PROGRAM ? SR_PLAN_FD_PROGRAM : 0);
}

void sr_plan_build(const struct sr_plan_input *input, struct sr_plan *ret)
{
        struct sr_plan *plan = ret;

        *plan = (struct sr_plan){0};
        plan_mounts(plan, input->stage);
        INIT(.kind = SR_STEP_PIVOT);
        INIT(.kind = SR_STEP_HOST_NAME, .path = "sandbox");
        INIT(.kind = SR_STEP_LOOPBACK);
        // As many connections as the watchdog does not count must not hold much either: TCP lets its buffers
        // grow to some MiB each (Documentation/networking/ip-sysctl.rst: least, first and largest size).
        for (size_t i = 0; input->sockets_apart && i < sizeof(tcp_buffers) / sizeof(*tcp_buffers); i++)
                INIT(.kind = SR_STEP_TCP_BUFFERS, .path = tcp_buffers[i], .options = "4096 65536 131072",
                     .fd = SR_PLAN_FD_SETTINGS);
        plan_program(plan, input);
}
