// Runs kept in SQLite. The table `runs` is the one the Python server writes and reads, unchanged; facts it
// does not know are in our own table `run_facts`, joined by id.
//
// Theory of operation: WAL and short transactions, so that several servers share one file. A history that
// cannot be used never fails a run: the caller reports the error and goes on. A handle whose file was moved
// or deleted, or could be opened for reading only, opens it again at each use: what helps (room on the disk,
// say) helps at once. One handle may be used by many threads.
//
// A lock of somebody else's is waited for at most a second. Whoever comes in the 5 s after a wait in vain
// waits 20 ms, which is enough for other writers but not for a lock that is kept: so a program that keeps the
// file locked delays one use in so many seconds, not each, nor those that wait behind it.
//
// A damaged file is set aside as <name>.damaged-<unix seconds> (its -wal, -shm and -journal with it) and a
// new one begun: when it is opened for writing and when a run is added, not otherwise. Servers that share the
// file agree on this by a lock on its directory.
//
// Opening takes about half a millisecond, the first one of a process some more: do it at the first use. The
// log (-wal) of a short-lived process stays behind on purpose; the next connection goes on with it.
//
// The format is 1 (PRAGMA user_version, with PRAGMA application_id 0x53625278, "SbRx"). A file of the Python
// server's gets both, which it does not look at.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

struct sr_history;

struct sr_history_record {
        int64_t id;
        int64_t timestamp_us; // Unix time
        char *language;
        char *code; // at most 500 characters of valid UTF-8
        size_t code_length;
        char *status;
        bool has_exit_code;
        int exit_code;
        double duration_ms;
        int64_t stdout_size;
        int64_t stderr_size;
        char *facts; // JSON object with the rest of the result (reason, signal, image, …), or NULL
};

// Opens path, making the file and its directories (0700, the file 0600, whatever the umask) when absent; with
// read_only set nothing is made or set aside and a missing file is an empty history. A file that can only be
// read is opened, and sr_history_add fails. A file that is kept locked is no failure here: the first use of
// the handle waits for it, or fails. *ret_notice (freed by the caller) is a sentence when a damaged file was
// set aside, else NULL.
int sr_history_open(const char *path, bool read_only, struct sr_history **ret, char **ret_notice,
                    struct sr_error **error);
struct sr_history *sr_history_close(struct sr_history *history);
void sr_history_closep(struct sr_history **history);
#define _cleanup_history_ __attribute__((cleanup(sr_history_closep)))

// The sentence left when a damaged file was set aside after sr_history_open, given once; freed by the caller.
// NULL when there is none.
char *sr_history_take_notice(struct sr_history *history);

// Adds one run; code is cut to its first 500 characters here. record->id is ignored. ret_id may be NULL. A
// damaged file is set aside and the run added to the new one.
int sr_history_add(struct sr_history *history, const struct sr_history_record *record, int64_t *ret_id,
                   struct sr_error **error);
// The newest limit records, newest first; none for a limit below 1. *ret, freed by the caller with
// sr_history_records_free, is never NULL.
int sr_history_list(struct sr_history *history, int64_t limit, struct sr_history_record **ret,
                    size_t *ret_count, struct sr_error **error);
// One record, freed with sr_history_records_free(record, 1); -ENOENT when there is none.
int sr_history_get(struct sr_history *history, int64_t id, struct sr_history_record **ret,
                   struct sr_error **error);
// Deletes records: all but the newest keep (keep < 0: no such bound), and those older than before_us
// (0: no such bound). *ret_deleted (ret_deleted may be NULL) counts them.
int sr_history_prune(struct sr_history *history, int64_t keep, int64_t before_us, int64_t *ret_deleted,
                     struct sr_error **error);
// The member reason of the facts; NULL when it is not known. The caller frees it.
char *sr_history_record_reason(const struct sr_history_record *record);
enum sr_history_extra {
        SR_HISTORY_PLAIN,
        SR_HISTORY_REASON, // the member reason, where it is known
        SR_HISTORY_FACTS,  // the member facts (an object, or null)
};
// Writes one record as an object with the members of the Python server's get_execution_history, in its order,
// and what is asked for besides.
void sr_history_record_write(const struct sr_history_record *record, enum sr_history_extra extra,
                             struct sr_json_writer *w);
// Accepts NULL; returns NULL.
struct sr_history_record *sr_history_records_free(struct sr_history_record *records, size_t count);
