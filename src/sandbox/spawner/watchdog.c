#include "sandbox/spawner/watchdog.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

// The next look comes before a program that takes memory this fast can be over its limit, but never sooner
// than the shortest interval nor later than the longest. Zeroed pages come at a few GiB a second.
#define BYTES_PER_MS    (12u << 20)
#define INTERVAL_MIN_NS 1000000u
#define INTERVAL_MAX_NS 20000000u
// Far from the limit, looking takes at most an eighth of a processor, however many processes there are.
#define COST_MULTIPLE 8
// Longer than any file read here.
#define FILE_MAX 2048

// What /proc/PID/stat says of one process (man 5 proc_pid_stat).
struct sample {
        uint64_t cpu_ticks;
        unsigned threads;
        uint64_t resident_pages;
        char teller[16]; // the number its memory is told under
};

static bool read_text(int directory, const char *path, char text[FILE_MAX])
{
        _cleanup_close_ int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, FILE_MAX - 1);

        text[n > 0 ? n : 0] = '\0';
        return n > 0;
}

// The name in the second field is the program's to choose, and may hold spaces and brackets: fields are
// counted from the last closing one.
static bool read_sample(int directory, const char *pid, struct sample *ret)
{
        char path[280], text[FILE_MAX];

        snprintf(path, sizeof(path), "%s/stat", pid);
        if (strlen(pid) >= sizeof(ret->teller) || !read_text(directory, path, text))
                return false;
        const char *at = strrchr(text, ')');
        unsigned long long user, system, children_user, children_system, threads;
        long long resident;

        if (at == NULL || sscanf(at + 1,
                                 " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d "
                                 "%llu %*d %*u %*u %lld",
                                 &user, &system, &children_user, &children_system, &threads, &resident) != 6)
                return false;
        *ret = (struct sample){
                .cpu_ticks = user + system + children_user + children_system,
                .threads = (unsigned)threads,
                .resident_pages = resident > 0 ? (uint64_t)resident : 0,
        };
        strcpy(ret->teller, pid);
        return true;
}

// Each thread has a directory under its own number too (man 5 proc), and one that has ended tells of no
// memory: the first thread may have, while others go on.
static bool read_process(int directory, const char *pid, struct sample *ret)
{
        char path[280];

        if (!read_sample(directory, pid, ret))
                return false;
        if (ret->resident_pages > 0 || ret->threads < 2)
                return true;
        snprintf(path, sizeof(path), "%s/task", pid);
        int fd = openat(directory, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *threads = fd >= 0 ? fdopendir(fd) : NULL;
        if (threads == NULL) {
                sr_fd_close(fd);
                return true;
        }
        for (const struct dirent *entry = readdir(threads); entry != NULL && ret->resident_pages == 0;
             entry = readdir(threads)) {
                struct sample sample;

                if (entry->d_name[0] != '.' && read_sample(directory, entry->d_name, &sample) &&
                    sample.resident_pages > 0)
                        *ret = sample;
        }
        closedir(threads);
        return true;
}

static uint64_t resident_bytes(uint64_t pages)
{
        return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

// The process's share of the pages it has, in bytes. What is not told counts whole.
static uint64_t proportional_bytes(int directory, const char *pid)
{
        struct sample sample;
        char path[280], text[FILE_MAX];

        if (!read_process(directory, pid, &sample))
                return 0; // ended meanwhile
        snprintf(path, sizeof(path), "%s/smaps_rollup", sample.teller);
        const char *at = read_text(directory, path, text) ? strstr(text, "\nPss:") : NULL;

        return at == NULL ? resident_bytes(sample.resident_pages) : strtoull(at + 5, NULL, 10) * 1024;
}

// Opens the sandbox's own /proc. Until init has changed its root, the way there leads to ours, which lists
// the processes of everybody.
static bool open_processes(struct sr_watchdog *watchdog, pid_t init)
{
        char path[48];
        struct stat ours, theirs;

        if (watchdog->processes != NULL)
                return true;
        snprintf(path, sizeof(path), "/proc/%d/root/proc", (int)init);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &theirs) < 0 || stat("/proc", &ours) < 0 || ours.st_dev == theirs.st_dev)
                return false;
        // Not yet mounted over the image's empty directory.
        if (faccessat(fd, "1/stat", F_OK, 0) < 0)
                return false;
        watchdog->processes = fdopendir(fd);
        if (watchdog->processes == NULL)
                return false;
        (void)sr_fd_steal(fd);
        return true;
}

// The next process of the list that is not init; NULL at the end.
static const char *next_process(DIR *processes)
{
        const struct dirent *entry;

        while ((entry = readdir(processes)) != NULL)
                if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1") != 0)
                        return entry->d_name;
        return NULL;
}

static uint64_t shares(DIR *processes)
{
        uint64_t sum = 0;
        const char *pid;

        rewinddir(processes);
        while ((pid = next_process(processes)) != NULL)
                sum += proportional_bytes(dirfd(processes), pid);
        return sum;
}

static uint64_t look(struct sr_watchdog *watchdog, unsigned *ret_processes)
{
        uint64_t pages = 0, ticks = 0;
        unsigned threads = 0;
        struct sample sample;
        const char *pid;

        *ret_processes = 0;
        rewinddir(watchdog->processes);
        while ((pid = next_process(watchdog->processes)) != NULL)
                if (read_process(dirfd(watchdog->processes), pid, &sample)) {
                        ++*ret_processes;
                        pages += sample.resident_pages;
                        ticks += sample.cpu_ticks;
                        threads += sample.threads;
                }
        // What init has reaped is in its figures.
        if (read_sample(dirfd(watchdog->processes), "1", &sample))
                ticks += sample.cpu_ticks;
        watchdog->cpu_us = ticks * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
        if (threads > watchdog->most)
                watchdog->most = threads;
        return resident_bytes(pages);
}

// How long to wait after a look that found `bytes` and took cost_ns.
static uint64_t interval_ns(uint64_t bytes, uint64_t limit_bytes, uint64_t cost_ns)
{
        uint64_t room = bytes < limit_bytes ? limit_bytes - bytes : 0;
        uint64_t wait = room / BYTES_PER_MS * 1000000u;

        if (room > limit_bytes / 4 && wait < cost_ns * COST_MULTIPLE)
                wait = cost_ns * COST_MULTIPLE;
        if (wait > INTERVAL_MAX_NS)
                wait = INTERVAL_MAX_NS;
        return wait > INTERVAL_MIN_NS ? wait : INTERVAL_MIN_NS;
}

bool sr_watchdog_look(struct sr_watchdog *watchdog, pid_t init, uint64_t other_bytes, uint64_t limit_bytes)
{
        uint64_t began_ns = sr_clock_monotonic_ns(), bytes = other_bytes;
        unsigned processes = 0;

        if (open_processes(watchdog, init)) {
                bytes += look(watchdog, &processes);
                // One process alone shares with nobody; taking its shares would take its time.
                if (bytes > limit_bytes && processes > 1)
                        bytes = shares(watchdog->processes) + other_bytes;
                if (bytes > watchdog->peak_bytes)
                        watchdog->peak_bytes = bytes;
        }
        uint64_t now_ns = sr_clock_monotonic_ns();

        watchdog->next_ns = now_ns + interval_ns(bytes, limit_bytes, now_ns - began_ns);
        return bytes > limit_bytes;
}

void sr_watchdog_note_cpu(struct sr_watchdog *watchdog, pid_t init)
{
        unsigned processes;

        if (open_processes(watchdog, init))
                (void)look(watchdog, &processes);
}

void sr_watchdog_end(struct sr_watchdog *watchdog)
{
        if (watchdog->processes != NULL)
                closedir(watchdog->processes);
        *watchdog = (struct sr_watchdog){0};
}
