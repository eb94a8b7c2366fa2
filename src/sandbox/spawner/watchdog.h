// Memory held without a cgroup: looking at what a sandbox has, the oftener the nearer it is to its limit.
//
// Theory of operation. The sandbox's own /proc lists its processes and nothing else, so it is the list to
// walk. Resident sizes are added up first, which is cheap; as pages shared by several processes count several
// times there, a sum over the limit is checked against their proportional shares (smaps_rollup) before
// anybody is killed, with processes that are one in memory (vfork) and mapped files of the tmpfs counted
// once. The tmpfs of the sandbox count too, and page tables, which a program can fill without having a page.
// What belongs to no process is out of sight, so the filter then refuses what could hold it (memfd, System V
// segments).
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sr_watchdog {
        DIR *processes;      // the sandbox's /proc; NULL until it is there
        uint64_t peak_bytes; // the most that was seen
        uint64_t cpu_us;     // used by the processes that were alive when last looked at, 0: not known
        unsigned most;       // processes and threads at once, at most
        unsigned looks;
        uint64_t table_bytes; // held by page tables when last looked at
        unsigned doubts;      // looks in a row whose sum may have counted memory twice
        uint64_t next_ns;     // when to look again (CLOCK_MONOTONIC)
};

// Looks at the sandbox whose init is `init`; other_bytes is what its tmpfs hold. true when it has more than
// limit_bytes.
bool sr_watchdog_look(struct sr_watchdog *watchdog, pid_t init, uint64_t other_bytes, uint64_t limit_bytes);
// Notes the processor time of what still lives, before it is killed.
void sr_watchdog_note_cpu(struct sr_watchdog *watchdog, pid_t init);
void sr_watchdog_end(struct sr_watchdog *watchdog);
