#include "sandbox/spawner/watchdog.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sys/syscalls.h"

// The next look comes before a program that takes memory this fast can be over its limit, but never sooner
// than the shortest interval nor later than the longest. Zeroed pages come at a few GiB a second.
#define BYTES_PER_MS    (12u << 20)
#define INTERVAL_MIN_NS 1000000u
#define INTERVAL_MAX_NS 20000000u
// Far from the limit, looking takes at most an eighth of a processor, however many processes there are.
#define COST_MULTIPLE 8
// Page tables grow slowly beside what they map: every so many looks will do for them.
#define LOOKS_PER_TABLES 4
// Longer than any file read here.
#define FILE_MAX 2048

// Processes whose memory is told apart, more than a run may have by default.
#define SHARES_MAX 256
// Of those, pairs that are one in memory at once, and how often a doubtful sum is taken again.
#define PAIRS_MAX 2
#define LOOKS_MAX 3
// Doubtful sums in a row after which they are believed: one that starts programs all the time is seen
// undecided a few times, one that hides behind it does not gain much.
#define DOUBTS_MAX 16

// What /proc/PID/stat says of one process (man 5 proc_pid_stat).
struct sample {
        uint64_t cpu_ticks;
        unsigned threads;
        uint64_t resident_pages;
        char teller[16]; // the number its memory is told under
};

// The part of the memory that a process has a share of, and where it begins and ends.
struct share {
        long number;                    // it is told under
        pid_t outer;                    // the same in our pid namespace; 0: not known
        unsigned long long first, last; // 0, 0: not to be compared
        uint64_t own_bytes, shared_file_bytes;
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

static uint64_t larger(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

static uint64_t kibibytes(const char *text, const char *key)
{
        const char *at = strstr(text, key);

        return at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10) * 1024;
}

// What is not told counts whole.
static void read_share(int directory, const char *pid, struct share *ret)
{
        struct sample sample;
        char path[280], text[FILE_MAX];

        *ret = (struct share){0};
        if (!read_process(directory, pid, &sample))
                return; // ended meanwhile
        ret->number = strtol(sample.teller, NULL, 10);
        snprintf(path, sizeof(path), "%s/smaps_rollup", sample.teller);
        if (!read_text(directory, path, text) || strstr(text, "\nPss:") == NULL) {
                ret->own_bytes = resident_bytes(sample.resident_pages);
                return;
        }
        ret->shared_file_bytes = kibibytes(text, "\nPss_Shmem:"); // since Linux 5.3
        ret->own_bytes = kibibytes(text, "\nPss:") - ret->shared_file_bytes;
        if (sscanf(text, "%llx-%llx", &ret->first, &ret->last) != 2)
                ret->first = ret->last = 0;
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

// Notes the numbers that the processes have in our pid namespace, where kcmp wants them. NSpid has both
// (man 5 proc_pid_status), and every sandbox has the inner ones.
static void find_outer_pids(pid_t init, struct share *shares, unsigned count)
{
        char path[48], text[FILE_MAX], *end;
        struct stat sandbox, found;

        snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)init);
        DIR *all = stat(path, &sandbox) < 0 ? NULL : opendir("/proc");
        if (all == NULL)
                return;
        for (const struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
                long outer = strtol(entry->d_name, &end, 10), inner = 0;

                if (outer <= 0 || *end != '\0')
                        continue;
                snprintf(path, sizeof(path), "/proc/%ld/status", outer);
                const char *at = read_text(AT_FDCWD, path, text) ? strstr(text, "\nNSpid:") : NULL;
                if (at == NULL || sscanf(at + 7, "%*d %ld", &inner) != 1)
                        continue;
                snprintf(path, sizeof(path), "/proc/%ld/ns/pid", outer);
                if (stat(path, &found) < 0 || found.st_ino != sandbox.st_ino)
                        continue;
                for (unsigned i = 0; i < count; i++)
                        if (shares[i].number == inner)
                                shares[i].outer = (pid_t)outer;
        }
        closedir(all);
}

// Whether two processes may be one in memory, as between vfork and exec: they then show the same pages twice.
static bool may_be_same(const struct share *a, const struct share *b)
{
        return a->last != 0 && a->first == b->first && a->last == b->last;
}

// Whether few enough such pairs to be believed would explain what is over the limit. Only then is the answer
// worth the time, in which the others go on.
static bool can_explain(const struct share *shares, unsigned count, uint64_t over_bytes)
{
        uint64_t largest = 0;

        for (unsigned i = 1; i < count; i++)
                for (unsigned j = 0; j < i && shares[i].own_bytes > largest; j++)
                        if (may_be_same(&shares[i], &shares[j]))
                                largest = shares[i].own_bytes;
        return largest * PAIRS_MAX >= over_bytes;
}

// Where it cannot be told they are taken for two.
static uint64_t counted_twice(pid_t init, struct share *shares, unsigned count)
{
        uint64_t sum = 0;

        find_outer_pids(init, shares, count);
        for (unsigned i = 1; i < count; i++)
                for (unsigned j = 0; j < i; j++)
                        if (may_be_same(&shares[i], &shares[j]) && shares[i].outer > 0 &&
                            shares[j].outer > 0 && sr_sys_is_same_memory(shares[i].outer, shares[j].outer)) {
                                sum += shares[i].own_bytes;
                                break;
                        }
        return sum;
}

// What the processes share counts once, and what is in the sandbox's tmpfs, which they may have mapped, too.
static uint64_t shares(DIR *processes, pid_t init, uint64_t tmpfs_bytes, uint64_t limit_bytes,
                       bool *ret_doubtful)
{
        static struct share found[SHARES_MAX]; // large, and there is one thread
        uint64_t own = 0, shared = 0;
        unsigned count = 0;
        struct share more;
        const char *pid;

        rewinddir(processes);
        while ((pid = next_process(processes)) != NULL) {
                struct share *share = count < SHARES_MAX ? &found[count++] : &more;

                read_share(dirfd(processes), pid, share);
                own += share->own_bytes;
                shared += share->shared_file_bytes;
        }
        uint64_t sum = own + larger(shared, tmpfs_bytes);

        *ret_doubtful = sum > limit_bytes && can_explain(found, count, sum - limit_bytes);
        return *ret_doubtful ? sum - counted_twice(init, found, count) : sum;
}

static uint64_t table_bytes(int directory, const struct sample *sample)
{
        char path[48], text[FILE_MAX];

        snprintf(path, sizeof(path), "%s/status", sample->teller);
        return read_text(directory, path, text) ? kibibytes(text, "\nVmPTE:") : 0;
}

static uint64_t look(struct sr_watchdog *watchdog, unsigned *ret_processes)
{
        bool tables = watchdog->looks++ % LOOKS_PER_TABLES == 0;
        uint64_t pages = 0, ticks = 0;
        unsigned threads = 0;
        struct sample sample;
        const char *pid;

        *ret_processes = 0;
        if (tables)
                watchdog->table_bytes = 0;
        // What init has reaped is in its figures. They come first, so that nobody who ends meanwhile is
        // counted both there and below.
        if (read_sample(dirfd(watchdog->processes), "1", &sample))
                ticks += sample.cpu_ticks;
        rewinddir(watchdog->processes);
        while ((pid = next_process(watchdog->processes)) != NULL)
                if (read_process(dirfd(watchdog->processes), pid, &sample)) {
                        ++*ret_processes;
                        pages += sample.resident_pages;
                        ticks += sample.cpu_ticks;
                        if (tables)
                                watchdog->table_bytes += table_bytes(dirfd(watchdog->processes), &sample);
                        threads += sample.threads;
                }
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
        uint64_t began_ns = sr_clock_monotonic_ns(), bytes = other_bytes, tables = 0;
        unsigned processes = 0;

        if (open_processes(watchdog, init)) {
                bytes += look(watchdog, &processes);
                tables = watchdog->table_bytes;
                bytes += tables;
                // One process alone shares with nobody but the tmpfs; taking its shares would take its time.
                // A program that was started meanwhile was its starter's memory and is no more.
                bool doubtful = processes > 1 || bytes - other_bytes <= limit_bytes;
                for (int i = 0; i < LOOKS_MAX && doubtful && bytes > limit_bytes; i++)
                        bytes = tables + shares(watchdog->processes, init, other_bytes,
                                                limit_bytes > tables ? limit_bytes - tables : 0, &doubtful);
                doubtful = doubtful && bytes > limit_bytes;
                watchdog->doubts = doubtful ? watchdog->doubts + 1 : 0;
                if (doubtful && watchdog->doubts <= DOUBTS_MAX)
                        bytes = limit_bytes;
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
