// The connection: opening the file or making it, the tables, and what to do with a damaged file.
//
// Renaming a database under SQLite is safe only when nobody opens or closes it at that moment: a connection
// finds its write-ahead log by name. So whoever opens or closes holds a shared flock on the directory, and
// whoever moves files an exclusive one. Under it, SQLite is asked whether the damaged file is still the one
// at its path: of two servers that find the damage, the second only opens the new file.

#include "history/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

#define FORMAT         1
#define APPLICATION_ID 0x53625278 // "SbRx"
// Pages in the write-ahead log after which it is copied into the database (SQLite's own default).
#define CHECKPOINT_PAGES 1000
// A log below this stays when the last connection closes: copying it costs two fsyncs, several milliseconds
// of a command that takes few; the next connection reads it in a tenth of one.
#define LEAVE_PAGES 128

// What the Python server creates, word for word but for the layout.
static const char create_runs[] =
        "CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL, "
        "language TEXT NOT NULL, code_snippet TEXT NOT NULL, status TEXT NOT NULL, exit_code INTEGER, "
        "duration_ms REAL NOT NULL, stdout_size INTEGER NOT NULL DEFAULT 0, "
        "stderr_size INTEGER NOT NULL DEFAULT 0)";
static const char create_facts[] = "CREATE TABLE IF NOT EXISTS run_facts (run_id INTEGER PRIMARY KEY "
                                   "REFERENCES runs(id) ON DELETE CASCADE, facts TEXT NOT NULL)";

#define COLUMNS                                                                                              \
        "r.id, r.timestamp, r.language, r.code_snippet, r.status, r.exit_code, r.duration_ms, "              \
        "r.stdout_size, "                                                                                    \
        "r.stderr_size, "
#define WITH_FACTS    COLUMNS "f.facts FROM runs AS r LEFT JOIN run_facts AS f ON f.run_id = r.id "
#define WITHOUT_FACTS COLUMNS "NULL FROM runs AS r "
#define NEWEST        "WHERE r.id <= ?2 ORDER BY r.id DESC LIMIT ?1"
#define BY_ID         "WHERE r.id = ?1"

static const struct {
        const char *sql;
        const char *without_facts; // where only the Python server's table is there
        bool writes;
} statements[HISTORY_STATEMENT_COUNT] = {
        [HISTORY_BEGIN] = {"BEGIN IMMEDIATE", NULL, true},
        [HISTORY_COMMIT] = {"COMMIT", NULL, true},
        [HISTORY_ADD_RUN] =
                {"INSERT INTO runs (timestamp, language, code_snippet, status, exit_code, duration_ms, "
                 "stdout_size, stderr_size) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                 NULL, true},
        // REPLACE: an id may have been used before by a row that the Python server deleted.
        [HISTORY_ADD_FACTS] = {"INSERT OR REPLACE INTO run_facts (run_id, facts) VALUES (?1, ?2)", NULL,
                               true},
        [HISTORY_LIST] = {"SELECT " WITH_FACTS NEWEST, "SELECT " WITHOUT_FACTS NEWEST, false},
        [HISTORY_GET] = {"SELECT " WITH_FACTS BY_ID, "SELECT " WITHOUT_FACTS BY_ID, false},
};

static int run_sql(struct sr_history *history, const char *sql)
{
        return sqlite3_exec(history->db, sql, NULL, NULL, NULL);
}

// The first column of the first row, 0 when there is none.
static int read_integer(struct sr_history *history, const char *sql, int64_t *ret)
{
        sqlite3_stmt *statement = NULL;
        int rc = sqlite3_prepare_v2(history->db, sql, -1, &statement, NULL);

        if (rc != SQLITE_OK)
                return rc;
        rc = sqlite3_step(statement);
        *ret = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
        sqlite3_finalize(statement);
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int has_table(struct sr_history *history, const char *name, bool *ret)
{
        _cleanup_free_ char *sql =
                sr_asprintf("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '%s'", name);
        int64_t found = 0;
        int rc = read_integer(history, sql, &found);

        *ret = found != 0;
        return rc;
}

static int prepare_statements(struct sr_history *history, bool without_facts)
{
        for (int i = 0; i < HISTORY_STATEMENT_COUNT; i++) {
                const char *sql = without_facts ? statements[i].without_facts : statements[i].sql;
                int rc;

                if (sql == NULL || (statements[i].writes && !history->writable))
                        continue;
                sqlite3_finalize(history->statements[i]);
                history->statements[i] = NULL;
                rc = sqlite3_prepare_v3(history->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                        &history->statements[i], NULL);
                if (rc != SQLITE_OK)
                        return rc;
        }
        return SQLITE_OK;
}

// After each commit: keeps count, and copies a long log into the database.
static int on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
        struct sr_history *history = context;

        history->wal_pages = pages;
        // What another connection still reads stays in the log until next time.
        if (pages >= CHECKPOINT_PAGES)
                (void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        return SQLITE_OK;
}

static int read_format(struct sr_history *history, int64_t *ret_version, int64_t *ret_application)
{
        int rc = read_integer(history, "PRAGMA user_version", ret_version);

        return rc == SQLITE_OK ? read_integer(history, "PRAGMA application_id", ret_application) : rc;
}

// A format of ours that is not known here is SQLITE_MISMATCH. Other programs' numbers mean nothing.
static int check_format(struct sr_history *history)
{
        int64_t version = 0, application = 0;
        int rc = read_format(history, &version, &application);

        return rc == SQLITE_OK && application == APPLICATION_ID && version > FORMAT ? SQLITE_MISMATCH : rc;
}

// Makes the tables of a file that lacks them and prepares the statements; where these do not fit the tables
// that were there, nothing is changed.
static int set_up(struct sr_history *history)
{
        static const char *const steps[] = {"BEGIN IMMEDIATE", create_runs, create_facts};
        int64_t version = 0, application = 0;
        int rc = read_format(history, &version, &application);

        for (size_t i = 0; rc == SQLITE_OK && i < sizeof(steps) / sizeof(steps[0]); i++)
                rc = run_sql(history, steps[i]);
        // Numbers that are not ours are left alone.
        if (rc == SQLITE_OK && version == 0 && application == 0) {
                _cleanup_free_ char *sql = sr_asprintf("PRAGMA user_version = %d; PRAGMA application_id = %d",
                                                       FORMAT, APPLICATION_ID);

                rc = run_sql(history, sql);
        }
        if (rc == SQLITE_OK)
                rc = prepare_statements(history, false);
        if (rc == SQLITE_OK)
                rc = run_sql(history, "COMMIT");
        return rc;
}

// Not while the Python server is at it, and not on every file system: the old mode works too.
static int use_log(struct sr_history *history)
{
        int64_t pages = 0;
        int rc = read_integer(history, "PRAGMA page_count", &pages);

        // A file with nothing in it has nothing to lose: its first page need not reach the disk before the
        // next step, which takes most of the time of making it.
        if (rc == SQLITE_OK && pages == 0)
                rc = run_sql(history, "PRAGMA synchronous = OFF");
        if (rc != SQLITE_OK)
                return rc;
        (void)sqlite3_busy_timeout(history->db, history_patience(history) / 10);
        rc = run_sql(history, "PRAGMA journal_mode = WAL");
        (void)sqlite3_busy_timeout(history->db, history_patience(history));
        return (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED ? SQLITE_OK : rc;
}

static int configure(struct sr_history *history)
{
        sqlite3_stmt *statement = NULL;
        bool wal;
        int rc;

        (void)sqlite3_extended_result_codes(history->db, 1);
        (void)sqlite3_busy_timeout(history->db, history_patience(history));
        history->writable = !history->read_only && sqlite3_db_readonly(history->db, "main") == 0;
        if (!history->writable)
                return run_sql(history, "PRAGMA query_only = ON");

        (void)sqlite3_wal_hook(history->db, on_commit, history);
        rc = sqlite3_prepare_v2(history->db, "PRAGMA journal_mode", -1, &statement, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(statement);
        wal = rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
        sqlite3_finalize(statement);
        if (rc != SQLITE_ROW)
                return rc;
        rc = wal ? SQLITE_OK : use_log(history);
        // One row is added at a time, which takes few pages (KiB,
        // https://sqlite.org/pragma.html#pragma_cache_size).
        if (rc == SQLITE_OK)
                rc = run_sql(history, "PRAGMA cache_size = -256");
        return rc == SQLITE_OK ? run_sql(history, "PRAGMA synchronous = NORMAL") : rc;
}

// Without the lock of the directory; for whoever holds it.
static void close_connection(struct sr_history *history)
{
        for (int i = 0; i < HISTORY_STATEMENT_COUNT; i++) {
                sqlite3_finalize(history->statements[i]);
                history->statements[i] = NULL;
        }
        // A reader leaves things as it found them.
        if (history->db != NULL && (history->read_only ? history->had_log : history->wal_pages < LEAVE_PAGES))
                (void)sqlite3_db_config(history->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        (void)sqlite3_close(history->db);
        history->db = NULL;
        history->wal_pages = 0;
        history->reason = sr_error_free(history->reason);
        history->writable = history->immutable = false;
}

// What a connection that may not write can use; db is closed again when there is no table of runs.
static int prepare_reading(struct sr_history *history)
{
        bool runs = false, facts = false;
        int rc = has_table(history, "runs", &runs);

        if (rc == SQLITE_OK)
                rc = has_table(history, "run_facts", &facts);
        if (rc == SQLITE_OK && runs)
                rc = prepare_statements(history, !facts);
        if (rc == SQLITE_OK && !runs)
                close_connection(history);
        return rc;
}

// Reads the pages that the next insertion goes through: damage that matters shows here, for a few page reads.
static int prepare_writing(struct sr_history *history)
{
        int64_t newest;
        int rc = prepare_statements(history, false);

        // No such table. Another fault of the layout comes again. What was begun ends with the connection.
        if (rc == SQLITE_ERROR)
                rc = set_up(history);
        if (rc == SQLITE_OK)
                rc = read_integer(history, "SELECT max(id) FROM runs", &newest);
        if (rc == SQLITE_OK)
                rc = read_integer(history, "SELECT max(run_id) FROM run_facts", &newest);
        return rc;
}

static int open_as(struct sr_history *history, const char *name, int flags)
{
        // One connection behind our own mutex.
        int rc = sqlite3_open_v2(name, &history->db, flags | SQLITE_OPEN_NOMUTEX, NULL);

        if (rc == SQLITE_OK)
                rc = configure(history);
        if (rc == SQLITE_OK)
                rc = check_format(history);
        if (rc == SQLITE_OK)
                rc = history->writable ? prepare_writing(history) : prepare_reading(history);
        return rc;
}

static bool has_log(const struct sr_history *history)
{
        _cleanup_free_ char *log = sr_asprintf("%s-wal", history->file);
        struct stat found;

        return stat(log, &found) == 0 ? found.st_size > 0 : errno != ENOENT;
}

// Without write permission for the directory a file in WAL mode opens only as immutable. It is: nobody has it
// open while there is no log.
static bool may_be_immutable(const struct sr_history *history, int rc)
{
        switch (rc & 0xff) {
        case SQLITE_CANTOPEN:
        case SQLITE_READONLY:
        case SQLITE_IOERR:
        case SQLITE_FULL:
                return !has_log(history);
        default:
                return false;
        }
}

static char *immutable_name(const char *file)
{
        struct sr_buf name = {0};

        sr_buf_append_text(&name, "file:");
        for (; *file != '\0'; file++) {
                if (strchr("%?#", *file) != NULL)
                        sr_buf_printf(&name, "%%%02x", (unsigned char)*file);
                else
                        sr_buf_append_char(&name, *file);
        }
        sr_buf_append_text(&name, "?immutable=1");
        return sr_buf_steal(&name, NULL);
}

void history_disconnect(struct sr_history *history)
{
        if (history->db == NULL)
                return;

        int lock = history_lock(history->file, LOCK_SH);

        close_connection(history);
        sr_fd_close(lock);
}

// Gives an SQLite result code, with error set when it is one of failure. After damage the connection is left
// open, so that it can be asked about its file.
static int open_database(struct sr_history *history, struct sr_error **error)
{
        _cleanup_error_ struct sr_error *failure = NULL;
        int rc;

        history->had_log = history->read_only && has_log(history);
        rc = open_as(history, history->file, SQLITE_OPEN_READWRITE);
        if (rc == SQLITE_OK)
                return rc;
        history_fail(history, rc, &failure);
        if (may_be_immutable(history, rc)) {
                _cleanup_free_ char *name = immutable_name(history->file);

                close_connection(history);
                // A file that is still empty is of no use to whoever wants to write.
                if (open_as(history, name, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI) == SQLITE_OK &&
                    (history->db != NULL || history->read_only)) {
                        history->immutable = true;
                        history->reason = sr_steal(failure);
                        return SQLITE_OK;
                }
        }
        if (!history_is_damage(rc))
                close_connection(history);
        *error = sr_steal(failure);
        return rc;
}

// Whether the connection serves as it is. Not when its file was moved or deleted, nor when it was opened for
// reading only because writing was not possible then.
static bool is_current(struct sr_history *history)
{
        int moved = 0;

        if (history->db == NULL || history->immutable || (!history->writable && !history->read_only))
                return false;
        return sqlite3_file_control(history->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
               moved == 0;
}

int history_set_aside(struct sr_history *history, const char *what, struct sr_error **error)
{
        int lock = history_lock(history->file, LOCK_EX);
        int moved = 0, r = 0;

        (void)sqlite3_file_control(history->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
        if (moved == 0)
                r = history_move_away(history, what, error);
        // A connection whose file was moved leaves the files at the old path alone.
        close_connection(history);
        sr_fd_close(lock);
        return r;
}

// One attempt under the shared lock. *ret_rc is what SQLite said.
static int try_connect(struct sr_history *history, int *ret_rc, struct sr_error **error)
{
        bool found = false;
        int r = history_resolve(history, &found, error);

        *ret_rc = SQLITE_OK;
        if (r < 0 || !found)
                return r;

        int lock = history_lock(history->file, LOCK_SH);

        r = history_make_file(history, &found, error);
        if (r == 0 && found) {
                *ret_rc = open_database(history, error);
                if (*ret_rc != SQLITE_OK)
                        r = -EIO;
        }
        sr_fd_close(lock);
        return r;
}

int history_patience(const struct sr_history *history)
{
        return sr_clock_monotonic_ns() < history->impatient_until_ns ? HISTORY_GLANCE_MS : HISTORY_BUSY_MS;
}

int history_connect(struct sr_history *history, bool set_aside, struct sr_error **error)
{
        _cleanup_error_ struct sr_error *failure = NULL;
        int r, rc;

        if (is_current(history)) {
                (void)sqlite3_busy_timeout(history->db, history_patience(history));
                return 0;
        }
        history_disconnect(history);
        r = try_connect(history, &rc, &failure);
        if (r < 0 && history_is_damage(rc) && set_aside) {
                _cleanup_free_ char *what = sr_strdup(sqlite3_errmsg(history->db));

                failure = sr_error_free(failure);
                r = history_set_aside(history, what, &failure);
                if (r == 0)
                        r = try_connect(history, &rc, &failure);
        }
        if (r < 0) {
                r = -sr_error_get_errno(failure);
                close_connection(history);
                if (error != NULL)
                        *error = sr_steal(failure);
        }
        return r;
}
