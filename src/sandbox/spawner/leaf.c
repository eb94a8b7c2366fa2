#include "sandbox/spawner/leaf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

// The period that a share of processor time is given in (Documentation/scheduler/sched-bwc.rst: the default),
// and the least quota the kernel takes.
#define CPU_PERIOD_US    100000u
#define CPU_QUOTA_MIN_US 1000u
// What is charged at a time (mm/memcontrol.c, MEMCG_CHARGE_BATCH): that near to its limit is at it.
#define CHARGE_PAGES 64u
// The part of the memory limit that version 1 lets sockets have beside it.
#define SOCKET_SHARE 8
// Longer than any file read here, memory.events and cpu.stat of the largest kernels included.
#define FILE_MAX 4096

static bool holds(const struct sr_wire_hierarchy *hierarchy, enum sr_controller controller)
{
        return hierarchy->controllers & SR_WIRE_CONTROLLER(controller);
}

enum sr_enforcer sr_leaf_enforcer(const struct sr_leaf_host *host, enum sr_controller controller)
{
        for (unsigned i = 0; i < host->count; i++)
                if (holds(&host->hierarchies[i], controller))
                        return host->hierarchies[i].version == 2 ? SR_ENFORCER_CGROUP2 : SR_ENFORCER_CGROUP1;
        return SR_ENFORCER_NONE;
}

static int write_text(int directory, const char *file, const char *text)
{
        _cleanup_close_ int fd = openat(directory, file, O_WRONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int write_number(int directory, const char *file, uint64_t number)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        return write_text(directory, file, text);
}

// The file as a string; "" when it cannot be read.
static void read_text(int directory, const char *file, char text[FILE_MAX])
{
        _cleanup_close_ int fd = openat(directory, file, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, FILE_MAX - 1);

        text[n > 0 ? n : 0] = '\0';
}

// The number that follows `key` and a space at the beginning of a line; 0 when there is none.
static uint64_t keyed_number(const char *text, const char *key)
{
        size_t length = strlen(key);

        for (const char *line = text; line != NULL && *line != '\0';) {
                if (strncmp(line, key, length) == 0 && line[length] == ' ')
                        return strtoull(line + length + 1, NULL, 10);
                line = strchr(line, '\n');
                line = line != NULL ? line + 1 : NULL;
        }
        return 0;
}

static bool read_number(int directory, const char *file, uint64_t *ret)
{
        char text[FILE_MAX];

        read_text(directory, file, text);
        if (text[0] < '0' || text[0] > '9')
                return false;
        *ret = strtoull(text, NULL, 10);
        return true;
}

static uint64_t quota_us(const struct sr_leaf_limits *limits)
{
        uint64_t quota = (uint64_t)limits->cpu_millis * CPU_PERIOD_US / 1000;

        return quota > CPU_QUOTA_MIN_US ? quota : CPU_QUOTA_MIN_US;
}

// Whether the host swaps at all: /proc/swaps then has a line below its heading. When in doubt, yes.
static bool host_swaps(void)
{
        char text[FILE_MAX];

        read_text(AT_FDCWD, "/proc/swaps", text);
        const char *end = strchr(text, '\n');

        return end == NULL || end[1] != '\0';
}

// Documentation/admin-guide/cgroup-v2.rst. A kernel without swap accounting has no memory.swap.max; where
// there is swap, the limit would then not be one.
static int limit_version_2(int directory, const struct sr_wire_hierarchy *hierarchy,
                           const struct sr_leaf_limits *limits)
{
        char text[48];
        int r = 0;

        if (holds(hierarchy, SR_CONTROLLER_MEMORY) && limits->memory_bytes > 0) {
                r = write_number(directory, "memory.max", limits->memory_bytes);
                if (r == 0) {
                        r = write_number(directory, "memory.swap.max", 0);
                        if (r == -ENOENT && !host_swaps())
                                r = 0;
                }
                if (r == 0)
                        r = write_number(directory, "memory.oom.group", 1);
        }
        if (r == 0 && holds(hierarchy, SR_CONTROLLER_CPU) && limits->cpu_millis > 0) {
                snprintf(text, sizeof(text), "%" PRIu64 " %u", quota_us(limits), CPU_PERIOD_US);
                r = write_text(directory, "cpu.max", text);
        }
        if (r == 0 && holds(hierarchy, SR_CONTROLLER_PIDS))
                r = write_number(directory, "pids.max", (uint64_t)limits->processes + 1);
        return r;
}

// Asks for a word when memory runs out (Documentation/admin-guide/cgroup-v1/memory.rst, "OOM Control").
static int watch_memory(int directory, int *ret_event)
{
        char text[32];
        _cleanup_close_ int control = openat(directory, "memory.oom_control", O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

        if (control < 0 || event < 0)
                return -errno;
        snprintf(text, sizeof(text), "%d %d", event, control);
        int r = write_text(directory, "cgroup.event_control", text);
        if (r == 0)
                *ret_event = sr_fd_steal(event);
        return r;
}

// What waits in TCP and UDP sockets is no part of the limit of version 1; it has one of its own, none by
// default (Documentation/admin-guide/cgroup-v1/memory.rst, "Socket memory"). A kernel without it has no such
// file.
static int limit_sockets_version_1(int directory, uint64_t memory_bytes)
{
        int r = write_number(directory, "memory.kmem.tcp.limit_in_bytes", memory_bytes / SOCKET_SHARE);

        return r == -ENOENT ? 0 : r;
}

// Documentation/admin-guide/cgroup-v1/{memory,pids}.rst, scheduler/sched-bwc.rst.
static int limit_version_1(int directory, const struct sr_wire_hierarchy *hierarchy,
                           const struct sr_leaf_limits *limits, int *ret_event)
{
        int r = 0;

        if (holds(hierarchy, SR_CONTROLLER_MEMORY) && limits->memory_bytes > 0) {
                r = write_number(directory, "memory.limit_in_bytes", limits->memory_bytes);
                // Memory and swap together; a kernel without swap accounting lacks it.
                if (r == 0)
                        r = write_number(directory, "memory.memsw.limit_in_bytes", limits->memory_bytes);
                if (r == -ENOENT && !host_swaps())
                        r = 0;
                if (r == 0)
                        r = limit_sockets_version_1(directory, limits->memory_bytes);
                if (r == 0)
                        r = watch_memory(directory, ret_event);
        }
        if (r == 0 && holds(hierarchy, SR_CONTROLLER_CPU) && limits->cpu_millis > 0) {
                r = write_number(directory, "cpu.cfs_period_us", CPU_PERIOD_US);
                if (r == 0)
                        r = write_number(directory, "cpu.cfs_quota_us", quota_us(limits));
        }
        if (r == 0 && holds(hierarchy, SR_CONTROLLER_PIDS))
                r = write_number(directory, "pids.max", (uint64_t)limits->processes + 1);
        return r;
}

static void leaf_name(unsigned slot, char name[24])
{
        snprintf(name, 24, "run-%u", slot);
}

// A leaf that is there already was not let go in time, and must be empty by now.
static int make_directory(int base, const char *name, int *ret)
{
        int r = mkdirat(base, name, 0755) < 0 ? -errno : 0;

        if (r == -EEXIST && unlinkat(base, name, AT_REMOVEDIR) == 0)
                r = mkdirat(base, name, 0755) < 0 ? -errno : 0;
        if (r == 0) {
                *ret = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                r = *ret < 0 ? -errno : 0;
        }
        return r;
}

int sr_leaf_make(const struct sr_leaf_host *host, unsigned slot, const struct sr_leaf_limits *limits,
                 struct sr_leaf *ret)
{
        char name[24];
        int r = 0;

        *ret = SR_LEAF_NONE;
        ret->slot = slot;
        ret->made = host->count > 0;
        leaf_name(slot, name);
        for (unsigned i = 0; i < host->count && r == 0; i++) {
                const struct sr_wire_hierarchy *hierarchy = &host->hierarchies[i];

                r = make_directory(host->base[i], name, &ret->directory[i]);
                if (r == 0)
                        r = hierarchy->version == 2
                                    ? limit_version_2(ret->directory[i], hierarchy, limits)
                                    : limit_version_1(ret->directory[i], hierarchy, limits, &ret->oom_event);
        }
        if (r < 0)
                sr_leaf_remove(host, ret);
        return r;
}

int sr_leaf_cgroup2(const struct sr_leaf_host *host, const struct sr_leaf *leaf)
{
        for (unsigned i = 0; i < host->count; i++)
                if (host->hierarchies[i].version == 2)
                        return leaf->directory[i];
        return -1;
}

int sr_leaf_open_tasks(const struct sr_leaf_host *host, const struct sr_leaf *leaf,
                       int ret[SR_WIRE_HIERARCHIES_MAX], unsigned *ret_count)
{
        *ret_count = 0;
        for (unsigned i = 0; i < host->count; i++) {
                if (host->hierarchies[i].version == 2)
                        continue;
                int fd = openat(leaf->directory[i], "tasks", O_WRONLY | O_CLOEXEC);
                if (fd < 0) {
                        int r = -errno;

                        while (*ret_count > 0)
                                close(ret[--*ret_count]);
                        return r;
                }
                ret[(*ret_count)++] = fd;
        }
        return 0;
}

// v2 counts under "oom" where the limit was reached, and nothing below it (cgroup-v2.rst, memory.events). v1
// has the most that was used, which is then as good as the limit; its failcnt is not kept of memory and swap
// together by every kernel.
static bool ran_out(int directory, unsigned version)
{
        uint64_t most = 0, most_with_swap = 0, limit = 0;
        char text[FILE_MAX];

        if (version == 2) {
                read_text(directory, "memory.events", text);
                return keyed_number(text, "oom") > 0;
        }
        if (!read_number(directory, "memory.limit_in_bytes", &limit))
                return false;
        (void)read_number(directory, "memory.max_usage_in_bytes", &most);
        (void)read_number(directory, "memory.memsw.max_usage_in_bytes", &most_with_swap);
        if (most < most_with_swap)
                most = most_with_swap;
        return most + CHARGE_PAGES * (uint64_t)sysconf(_SC_PAGESIZE) >= limit;
}

bool sr_leaf_is_over(const struct sr_leaf_host *host, const struct sr_leaf *leaf, uint64_t limit_bytes)
{
        for (unsigned i = 0; i < host->count && leaf->made; i++) {
                uint64_t used = 0, sockets = 0;
                char text[FILE_MAX];

                if (host->hierarchies[i].version != 1 || !holds(&host->hierarchies[i], SR_CONTROLLER_MEMORY))
                        continue;
                (void)read_number(leaf->directory[i], "memory.kmem.tcp.usage_in_bytes", &sockets);
                (void)read_number(leaf->directory[i], "memory.usage_in_bytes", &used);
                if (sockets == 0 || used + sockets <= limit_bytes)
                        continue;
                // Pages of files are given up when there is need; those of tmpfs, which count as such, are
                // not.
                read_text(leaf->directory[i], "memory.stat", text);
                uint64_t cache = keyed_number(text, "cache"), shared = keyed_number(text, "shmem");
                uint64_t spare = cache > shared ? cache - shared : 0;
                return used + sockets > limit_bytes + spare;
        }
        return false;
}

bool sr_leaf_ran_out(const struct sr_leaf_host *host, const struct sr_leaf *leaf)
{
        for (unsigned i = 0; i < host->count && leaf->made; i++)
                if (holds(&host->hierarchies[i], SR_CONTROLLER_MEMORY))
                        return ran_out(leaf->directory[i], host->hierarchies[i].version);
        return false;
}

// Something in the leaf was killed for want of memory.
static void note_kill(int directory, unsigned version, struct sr_leaf_usage *usage)
{
        if (ran_out(directory, version))
                usage->hits |= SR_HIT_MEMORY;
        else
                usage->killed_outside = true;
}

static void read_version_2(int directory, const struct sr_wire_hierarchy *hierarchy,
                           struct sr_leaf_usage *usage)
{
        char text[FILE_MAX];

        if (holds(hierarchy, SR_CONTROLLER_MEMORY)) {
                read_text(directory, "memory.events", text);
                if (keyed_number(text, "oom_kill") > 0)
                        note_kill(directory, 2, usage);
                // Since Linux 5.19.
                usage->has_peak = read_number(directory, "memory.peak", &usage->peak_bytes);
        }
        if (holds(hierarchy, SR_CONTROLLER_PIDS)) {
                read_text(directory, "pids.events", text);
                if (keyed_number(text, "max") > 0)
                        usage->hits |= SR_HIT_PIDS;
        }
        // There whatever the controllers.
        read_text(directory, "cpu.stat", text);
        usage->cpu_us = keyed_number(text, "usage_usec");
        usage->has_cpu = usage->cpu_us > 0;
}

static void read_version_1(int directory, const struct sr_wire_hierarchy *hierarchy,
                           struct sr_leaf_usage *usage)
{
        char text[FILE_MAX];
        uint64_t nanoseconds;

        if (holds(hierarchy, SR_CONTROLLER_MEMORY)) {
                read_text(directory, "memory.oom_control", text);
                if (keyed_number(text, "oom_kill") > 0)
                        note_kill(directory, 1, usage);
                usage->has_peak = read_number(directory, "memory.max_usage_in_bytes", &usage->peak_bytes);
        }
        if (holds(hierarchy, SR_CONTROLLER_PIDS)) {
                read_text(directory, "pids.events", text);
                if (keyed_number(text, "max") > 0)
                        usage->hits |= SR_HIT_PIDS;
        }
        if (hierarchy->controllers & SR_WIRE_CPU_USAGE &&
            read_number(directory, "cpuacct.usage", &nanoseconds)) {
                usage->cpu_us = nanoseconds / 1000;
                usage->has_cpu = true;
        }
}

void sr_leaf_read(const struct sr_leaf_host *host, const struct sr_leaf *leaf, struct sr_leaf_usage *ret)
{
        *ret = (struct sr_leaf_usage){0};
        for (unsigned i = 0; i < host->count && leaf->made; i++) {
                if (host->hierarchies[i].version == 2)
                        read_version_2(leaf->directory[i], &host->hierarchies[i], ret);
                else
                        read_version_1(leaf->directory[i], &host->hierarchies[i], ret);
        }
}

void sr_leaf_remove(const struct sr_leaf_host *host, struct sr_leaf *leaf)
{
        char name[24];

        if (!leaf->made)
                return;
        leaf_name(leaf->slot, name);
        sr_fd_close(leaf->oom_event);
        for (unsigned i = 0; i < host->count; i++) {
                sr_fd_close(leaf->directory[i]);
                (void)unlinkat(host->base[i], name, AT_REMOVEDIR);
        }
        *leaf = SR_LEAF_NONE;
}
