// Shared by the files of src/history only.
#pragma once

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>

#include "base/error.h"
#include "history/history.h"

// How long a lock is waited for.
#define HISTORY_BUSY_MS 1000
// How long after a wait in vain nobody waits as long again, but only for what ordinary writers take.
#define HISTORY_IMPATIENT_MS 5000
#define HISTORY_GLANCE_MS    20

enum history_statement {
        HISTORY_BEGIN,
        HISTORY_COMMIT,
        HISTORY_ADD_RUN,
        HISTORY_ADD_FACTS,
        HISTORY_LIST,
        HISTORY_GET,
        HISTORY_STATEMENT_COUNT,
};

struct sr_history {
        pthread_mutex_t lock; // held by every public function
        char *path;           // as given
        char *file;           // resolved; what the connection uses
        bool read_only;
        bool writable;  // the connection may write
        bool immutable; // the connection was opened without locks
        int wal_pages;  // in the write-ahead log after the last commit
        sqlite3 *db;    // NULL: not open, or read_only and there is nothing to read
        sqlite3_stmt *statements[HISTORY_STATEMENT_COUNT]; // NULL: not for this connection
        bool had_log; // there was a write-ahead log when a read_only connection was opened
        char *notice;
        uint64_t impatient_until_ns; // sr_clock_monotonic_ns(); until then locks are but glanced at
        struct sr_error *reason;     // why the connection is not writable although it should be, or NULL
};

// Makes sure that the connection is open and its file is still the one at path; with set_aside a damaged file
// is replaced on the way. With read_only and nothing to read, db stays NULL and that is no error.
int history_connect(struct sr_history *history, bool set_aside, struct sr_error **error);
void history_disconnect(struct sr_history *history);
// How long the work of now may wait for a lock, in milliseconds.
int history_patience(const struct sr_history *history);
// Closes the connection and moves its file away unless somebody else has done so. what SQLite said goes into
// the notice. The next history_connect makes a new file.
int history_set_aside(struct sr_history *history, const char *what, struct sr_error **error);
// Whether an SQLite result code means that the file is not a sound database.
bool history_is_damage(int rc);
// Turns an SQLite result code into an error that says what to do. Returns a negative errno.
int history_fail(const struct sr_history *history, int rc, struct sr_error **error);
// The same after an error of a system call.
int history_fail_system(const struct sr_history *history, int errnum, const char *doing,
                        struct sr_error **error);

// Finds out what history->path really names, into history->file, and makes the directories where that is
// allowed. *ret_found is false when there is no directory and none may be made.
int history_resolve(struct sr_history *history, bool *ret_found, struct sr_error **error);
// Makes history->file when it is absent and may be made; *ret_found is false when it may not. For whoever
// holds the lock.
int history_make_file(struct sr_history *history, bool *ret_found, struct sr_error **error);
// What stands before the last slash; freed by the caller.
char *history_directory(const char *path);
// Takes a flock (LOCK_SH, LOCK_EX) on the directory of file; gives the descriptor that holds it, or -1.
int history_lock(const char *file, int operation);
// Renames the file and its companions and leaves the notice. The lock is held exclusively.
int history_move_away(struct sr_history *history, const char *what, struct sr_error **error);
