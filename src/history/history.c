// Records in and out.

#include "history/history.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/utf8.h"
#include "history/internal.h"

#define CODE_CHARACTERS 500
#define UTF8_MAX        4 // bytes of a character
#define FACTS_DEPTH     64
#define SLICE           1000 // rows that are read at once

int sr_history_open(const char *path, bool read_only, struct sr_history **ret, char **ret_notice,
                    struct sr_error **error)
{
        _cleanup_history_ struct sr_history *history = NULL;
        _cleanup_error_ struct sr_error *failure = NULL;
        int r;

        if (path == NULL || *path == '\0')
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "the history has no file: name one with history.database");
        history = sr_new(struct sr_history);
        history->path = sr_strdup(path);
        history->read_only = read_only;
        (void)pthread_mutex_init(&history->lock, NULL);
        // Whoever opens may hold up others meanwhile: a lock is for the first use to wait for.
        history->impatient_until_ns = UINT64_MAX;
        r = history_connect(history, !read_only, &failure);
        history->impatient_until_ns = 0;
        if (r < 0 && r != -EBUSY) {
                if (error != NULL)
                        *error = sr_steal(failure);
                return r;
        }
        *ret_notice = sr_steal(history->notice);
        *ret = sr_steal(history);
        return 0;
}

struct sr_history *sr_history_close(struct sr_history *history)
{
        if (history == NULL)
                return NULL;
        history_disconnect(history);
        (void)pthread_mutex_destroy(&history->lock);
        free(history->path);
        free(history->file);
        free(history->notice);
        free(history);
        return NULL;
}

void sr_history_closep(struct sr_history **history)
{
        *history = sr_history_close(*history);
}

char *sr_history_take_notice(struct sr_history *history)
{
        char *notice;

        (void)pthread_mutex_lock(&history->lock);
        notice = sr_steal(history->notice);
        (void)pthread_mutex_unlock(&history->lock);
        return notice;
}

// What is done with an open connection; gives an SQLite result code and may be called again after a failure.
typedef int (*worker)(struct sr_history *history, void *context);

// Leaves nothing of a failed piece of work: no statement half-way, no transaction.
static void abandon(struct sr_history *history)
{
        for (int i = 0; i < HISTORY_STATEMENT_COUNT; i++)
                (void)sqlite3_reset(history->statements[i]);
        if (!sqlite3_get_autocommit(history->db))
                (void)sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
}

static int attempt(struct sr_history *history, worker work, void *context, bool set_aside, int *ret_rc,
                   struct sr_error **error)
{
        int r = history_connect(history, set_aside, error);

        *ret_rc = SQLITE_OK;
        // Nothing there, and nothing may be made.
        if (r < 0 || history->db == NULL)
                return r;
        *ret_rc = work(history, context);
        if (*ret_rc == SQLITE_OK)
                return 0;
        // The message and code of the connection are those of the failure until here.
        r = history_fail(history, *ret_rc, error);
        abandon(history);
        return r;
}

// With set_aside a file that turns out to be damaged is replaced and the work done in the new one.
static int perform(struct sr_history *history, worker work, void *context, bool set_aside,
                   struct sr_error **error)
{
        _cleanup_error_ struct sr_error *failure = NULL;
        int rc, r;

        (void)pthread_mutex_lock(&history->lock);
        r = attempt(history, work, context, set_aside, &rc, &failure);
        if (r < 0 && history_is_damage(rc) && set_aside) {
                _cleanup_free_ char *what = sr_strdup(sqlite3_errstr(rc));

                failure = sr_error_free(failure);
                r = history_set_aside(history, what, &failure);
                if (r == 0)
                        r = attempt(history, work, context, set_aside, &rc, &failure);
        } else if (r < 0 && rc == SQLITE_READONLY_DBMOVED) {
                // Moved by another server between the check and the write.
                failure = sr_error_free(failure);
                r = attempt(history, work, context, set_aside, &rc, &failure);
        }
        if (r != -EBUSY)
                history->impatient_until_ns = 0;
        else if (history_patience(history) == HISTORY_BUSY_MS)
                history->impatient_until_ns =
                        sr_clock_monotonic_ns() + HISTORY_IMPATIENT_MS * UINT64_C(1000000);
        (void)pthread_mutex_unlock(&history->lock);
        if (r < 0 && error != NULL)
                *error = sr_steal(failure);
        return r;
}

// Runs a statement that gives no rows.
static int step(struct sr_history *history, enum history_statement which)
{
        int rc = sqlite3_step(history->statements[which]);

        if (rc != SQLITE_DONE)
                return rc == SQLITE_ROW ? SQLITE_MISUSE : rc;
        (void)sqlite3_reset(history->statements[which]);
        return SQLITE_OK;
}

struct addition {
        const struct sr_history_record *record;
        struct sr_buf code; // valid UTF-8, cut
        int64_t id;
};

static int bind_text(sqlite3_stmt *statement, int at, const char *text, size_t length)
{
        return sqlite3_bind_text64(statement, at, text, length, SQLITE_STATIC, SQLITE_UTF8);
}

static int add_run(struct sr_history *history, struct addition *addition)
{
        const struct sr_history_record *record = addition->record;
        sqlite3_stmt *run = history->statements[HISTORY_ADD_RUN];
        int rc = sqlite3_bind_double(run, 1, (double)record->timestamp_us / 1e6);

        if (rc == SQLITE_OK)
                rc = bind_text(run, 2, record->language, strlen(record->language));
        if (rc == SQLITE_OK)
                rc = bind_text(run, 3, addition->code.data, addition->code.len);
        if (rc == SQLITE_OK)
                rc = bind_text(run, 4, record->status, strlen(record->status));
        if (rc == SQLITE_OK)
                rc = record->has_exit_code ? sqlite3_bind_int(run, 5, record->exit_code)
                                           : sqlite3_bind_null(run, 5);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_double(run, 6, record->duration_ms);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(run, 7, record->stdout_size);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(run, 8, record->stderr_size);
        if (rc == SQLITE_OK)
                rc = step(history, HISTORY_ADD_RUN);
        addition->id = sqlite3_last_insert_rowid(history->db);
        return rc;
}

static int add_facts(struct sr_history *history, const struct addition *addition)
{
        const char *facts = addition->record->facts;
        sqlite3_stmt *statement = history->statements[HISTORY_ADD_FACTS];
        int rc;

        if (facts == NULL)
                return SQLITE_OK;
        rc = sqlite3_bind_int64(statement, 1, addition->id);
        if (rc == SQLITE_OK)
                rc = bind_text(statement, 2, facts, strlen(facts));
        return rc == SQLITE_OK ? step(history, HISTORY_ADD_FACTS) : rc;
}

static int work_add(struct sr_history *history, void *context)
{
        int rc;

        if (!history->writable)
                return SQLITE_READONLY;
        rc = step(history, HISTORY_BEGIN);
        if (rc == SQLITE_OK)
                rc = add_run(history, context);
        if (rc == SQLITE_OK)
                rc = add_facts(history, context);
        return rc == SQLITE_OK ? step(history, HISTORY_COMMIT) : rc;
}

int sr_history_add(struct sr_history *history, const struct sr_history_record *record, int64_t *ret_id,
                   struct sr_error **error)
{
        struct addition addition = {.record = record};
        size_t length = record->code_length;
        int r;

        if (history->read_only)
                return sr_error_set(error, SR_ERROR_INTERNAL, EROFS,
                                    "the history %s was opened for reading only", history->path);
        // What is past these bytes cannot be among the first characters.
        if (length > CODE_CHARACTERS * UTF8_MAX)
                length = CODE_CHARACTERS * UTF8_MAX;
        sr_buf_reserve(&addition.code, 0);
        sr_utf8_append_sanitized(&addition.code, record->code, length);
        addition.code.len = sr_utf8_prefix(addition.code.data, addition.code.len, CODE_CHARACTERS);
        r = perform(history, work_add, &addition, true, error);
        sr_buf_clear(&addition.code);
        if (r == 0 && ret_id != NULL)
                *ret_id = addition.id;
        return r;
}

// A column as valid UTF-8, whatever wrote it; "" for NULL.
static char *take_text(sqlite3_stmt *row, int column, size_t *ret_length)
{
        _cleanup_buf_ struct sr_buf text = {0};
        const void *bytes = sqlite3_column_text(row, column);

        if (bytes != NULL)
                sr_utf8_append_sanitized(&text, bytes, (size_t)sqlite3_column_bytes(row, column));
        return sr_buf_steal(&text, ret_length);
}

static char *take_code(sqlite3_stmt *row, int column, size_t *ret_length)
{
        char *code = take_text(row, column, ret_length);

        *ret_length = sr_utf8_prefix(code, *ret_length, CODE_CHARACTERS);
        code[*ret_length] = '\0';
        return code;
}

// Facts go into answers as they are, so what is not a JSON object is left out.
static char *take_facts(sqlite3_stmt *row, int column)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_json_ cJSON *facts = NULL;
        size_t length = 0;

        if (sqlite3_column_type(row, column) == SQLITE_NULL)
                return NULL;
        text = take_text(row, column, &length);
        if (strlen(text) != length || sr_json_parse(text, length, FACTS_DEPTH, &facts, NULL) < 0 ||
            !cJSON_IsObject(facts))
                return NULL;
        return sr_steal(text);
}

static int64_t take_timestamp(sqlite3_stmt *row, int column)
{
        double microseconds = sqlite3_column_double(row, column) * 1e6;

        // Past the year 9999 there is no ISO 8601 text either.
        return fabs(microseconds) < 253402300800e6 ? llround(microseconds) : 0;
}

static int take_int(sqlite3_stmt *row, int column)
{
        int64_t value = sqlite3_column_int64(row, column);

        return value > INT_MAX ? INT_MAX : value < INT_MIN ? INT_MIN : (int)value;
}

static void take_row(sqlite3_stmt *row, struct sr_history_record *to)
{
        *to = (struct sr_history_record){
                .id = sqlite3_column_int64(row, 0),
                .timestamp_us = take_timestamp(row, 1),
                .language = take_text(row, 2, NULL),
                .status = take_text(row, 4, NULL),
                .has_exit_code = sqlite3_column_type(row, 5) != SQLITE_NULL,
                .exit_code = take_int(row, 5),
                .duration_ms = sqlite3_column_double(row, 6),
                .stdout_size = sqlite3_column_int64(row, 7),
                .stderr_size = sqlite3_column_int64(row, 8),
                .facts = take_facts(row, 9),
        };
        to->code = take_code(row, 3, &to->code_length);
}

static void clear_record(struct sr_history_record *record)
{
        free(record->language);
        free(record->code);
        free(record->status);
        free(record->facts);
}

struct selection {
        enum history_statement statement;
        int64_t argument; // how many, or which
        int64_t last;     // of a list: the highest id
        struct sr_history_record *records;
        size_t count, room;
        size_t kept; // of them, from earlier slices
};

static void drop(struct selection *selection)
{
        selection->records = sr_history_records_free(selection->records, selection->count);
        selection->count = selection->room = selection->kept = 0;
}

// For another attempt at the same slice.
static void drop_slice(struct selection *selection)
{
        while (selection->count > selection->kept)
                clear_record(&selection->records[--selection->count]);
}

static int work_select(struct sr_history *history, void *context)
{
        struct selection *selection = context;
        sqlite3_stmt *statement = history->statements[selection->statement];
        int rc;

        drop_slice(selection);
        rc = sqlite3_bind_int64(statement, 1, selection->argument);
        if (rc == SQLITE_OK && selection->statement == HISTORY_LIST)
                rc = sqlite3_bind_int64(statement, 2, selection->last);
        while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
                if (selection->count == selection->room) {
                        selection->room = selection->room * 2 + 16;
                        selection->records = sr_realloc(selection->records, selection->room,
                                                        sizeof(struct sr_history_record));
                }
                take_row(statement, &selection->records[selection->count++]);
                rc = SQLITE_OK;
        }
        if (rc != SQLITE_DONE)
                return rc;
        (void)sqlite3_reset(statement);
        return SQLITE_OK;
}

static int select_records(struct sr_history *history, struct selection *selection, struct sr_error **error)
{
        int r = perform(history, work_select, selection, false, error);

        if (r < 0)
                drop(selection);
        else if (selection->records == NULL)
                selection->records = sr_new(struct sr_history_record);
        return r;
}

int sr_history_list(struct sr_history *history, int64_t limit, struct sr_history_record **ret,
                    size_t *ret_count, struct sr_error **error)
{
        struct selection selection = {.statement = HISTORY_LIST, .last = INT64_MAX};
        int64_t left = limit > 0 ? limit : 0; // to SQLite a negative limit is none at all
        bool more;

        // Slice by slice, so that a run which ends meanwhile need not wait for the whole of a long list.
        do {
                int r;

                selection.kept = selection.count;
                selection.argument = left < SLICE ? left : SLICE;
                r = select_records(history, &selection, error);
                if (r < 0)
                        return r;

                size_t found = selection.count - selection.kept;

                left -= (int64_t)found;
                more = found == SLICE && left > 0 && selection.records[selection.count - 1].id > INT64_MIN;
                if (more) {
                        selection.last = selection.records[selection.count - 1].id - 1;
                        sched_yield();
                }
        } while (more);
        *ret = selection.records;
        *ret_count = selection.count;
        return 0;
}

int sr_history_get(struct sr_history *history, int64_t id, struct sr_history_record **ret,
                   struct sr_error **error)
{
        struct selection selection = {.statement = HISTORY_GET, .argument = id};
        int r = select_records(history, &selection, error);

        if (r < 0)
                return r;
        if (selection.count == 0) {
                free(selection.records);
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, ENOENT, "the history %s has no run %lld",
                                    history->path, (long long)id);
        }
        *ret = selection.records;
        return 0;
}

struct pruning {
        int64_t keep, before_us;
        int64_t deleted;
};

static int delete_where(struct sr_history *history, const char *condition, struct pruning *pruning)
{
        _cleanup_free_ char *sql = sr_asprintf("DELETE FROM runs WHERE %s", condition);
        int rc = sqlite3_exec(history->db, sql, NULL, NULL, NULL);

        if (rc == SQLITE_OK)
                pruning->deleted += sqlite3_changes64(history->db);
        return rc;
}

static int work_prune(struct sr_history *history, void *context)
{
        // Facts of rows that the Python server deleted: it does not enforce foreign keys.
        static const char orphans[] = "DELETE FROM run_facts WHERE run_id NOT IN (SELECT id FROM runs)";
        struct pruning *pruning = context;
        int rc;

        if (!history->writable)
                return SQLITE_READONLY;
        pruning->deleted = 0;
        rc = step(history, HISTORY_BEGIN);
        if (rc == SQLITE_OK && pruning->keep >= 0) {
                _cleanup_free_ char *condition =
                        sr_asprintf("id <= (SELECT id FROM runs ORDER BY id DESC LIMIT 1 OFFSET %lld)",
                                    (long long)pruning->keep);

                rc = delete_where(history, condition, pruning);
        }
        if (rc == SQLITE_OK && pruning->before_us != 0) {
                // Digits, not a double printed: the point is a comma in some locales.
                _cleanup_free_ char *condition =
                        sr_asprintf("timestamp < %lld / 1000000.0", (long long)pruning->before_us);

                rc = delete_where(history, condition, pruning);
        }
        if (rc == SQLITE_OK)
                rc = sqlite3_exec(history->db, orphans, NULL, NULL, NULL);
        return rc == SQLITE_OK ? step(history, HISTORY_COMMIT) : rc;
}

int sr_history_prune(struct sr_history *history, int64_t keep, int64_t before_us, int64_t *ret_deleted,
                     struct sr_error **error)
{
        struct pruning pruning = {.keep = keep, .before_us = before_us};
        int r;

        if (history->read_only)
                return sr_error_set(error, SR_ERROR_INTERNAL, EROFS,
                                    "the history %s was opened for reading only", history->path);
        r = perform(history, work_prune, &pruning, false, error);
        if (r == 0 && ret_deleted != NULL)
                *ret_deleted = pruning.deleted;
        return r;
}

struct sr_history_record *sr_history_records_free(struct sr_history_record *records, size_t count)
{
        for (size_t i = 0; records != NULL && i < count; i++)
                clear_record(&records[i]);
        free(records);
        return NULL;
}
