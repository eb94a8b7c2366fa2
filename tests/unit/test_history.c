// History: what is kept, the Python server's database both ways, damage, crowds, and disks that say no.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "history/history.h"

#define PYTHON "/usr/bin/python3"

struct fixture {
        char *root; // 0755, so that a test may become somebody else
        char *path; // root/state/history.db; state/ is not there yet
};

static int setup(void **state)
{
        struct fixture *f = sr_new(struct fixture);
        char template[] = "/tmp/sr-history-XXXXXX";

        f->root = sr_strdup(mkdtemp(template));
        f->path = sr_asprintf("%s/state/history.db", f->root);
        assert_int_equal(chmod(f->root, 0755), 0);
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *command = sr_asprintf("chmod -R u+rwX '%s'; rm -rf '%s'", f->root, f->root);

        assert_int_equal(system(command), 0);
        free(f->root);
        free(f->path);
        free(f);
        return 0;
}

static struct sr_history *open_history(const char *path, bool read_only)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_history *history = NULL;
        _cleanup_free_ char *notice = NULL;

        if (sr_history_open(path, read_only, &history, &notice, &error) < 0)
                fail_msg("%s", sr_error_message(error));
        assert_null(notice);
        assert_non_null(history);
        return history;
}

static struct sr_history_record sample(const char *code)
{
        return (struct sr_history_record){
                .timestamp_us = 1764451503123456,
                .language = (char[]){"python"},
                .code = (char *)(uintptr_t)code,
                .code_length = strlen(code),
                .status = (char[]){"success"},
                .has_exit_code = true,
                .duration_ms = 12.5,
                .stdout_size = 3,
                .stderr_size = 4,
                .facts = (char[]){"{\"reason\":\"exit\"}"},
        };
}

static int64_t add(struct sr_history *history, const char *code)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_history_record record = {
                .timestamp_us = 1764451503123456,
                .language = (char[]){"python"},
                .code = (char *)(uintptr_t)code,
                .code_length = strlen(code),
                .status = (char[]){"success"},
                .facts = (char[]){"{\"reason\":\"exit\"}"},
        };
        int64_t id = -1;

        if (sr_history_add(history, &record, &id, &error) < 0)
                fail_msg("%s", sr_error_message(error));
        return id;
}

static size_t count(struct sr_history *history)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_history_record *records = NULL;
        size_t found = 0;

        if (sr_history_list(history, INT64_MAX, &records, &found, &error) < 0)
                fail_msg("%s", sr_error_message(error));
        assert_non_null(records);
        sr_history_records_free(records, found);
        return found;
}

// The message of an addition that must fail, freed by the caller.
static char *refused(struct sr_history *history)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_history_record record = sample("x");
        int64_t id = 77;

        record.language = (char[]){"python"};
        record.status = (char[]){"success"};
        record.facts = NULL;
        assert_true(sr_history_add(history, &record, &id, &error) < 0);
        assert_int_equal(id, 77);
        print_message("%s\n", sr_error_message(error));
        return sr_strdup(sr_error_message(error));
}

static void assert_has(const char *text, const char *word)
{
        if (strstr(text, word) == NULL)
                fail_msg("no \"%s\" in: %s", word, text);
}

static void put_bytes(const char *path, const char *bytes, size_t length)
{
        _cleanup_free_ char *directory = sr_memdup0(path, (size_t)(strrchr(path, '/') - path));

        assert_int_equal(sr_fd_make_directories(directory, 0755), 0);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(sr_fd_write_all(fd, bytes, length), 0);
}

// The names in the directory of the database that begin like this.
static size_t files_like(struct fixture *f, const char *begin, char **ret_path)
{
        _cleanup_free_ char *directory = sr_asprintf("%s/state", f->root);
        DIR *stream = opendir(directory);
        struct dirent *entry;
        size_t found = 0;

        assert_non_null(stream);
        while ((entry = readdir(stream)) != NULL) {
                if (strncmp(entry->d_name, begin, strlen(begin)) != 0)
                        continue;
                if (found++ == 0 && ret_path != NULL)
                        *ret_path = sr_asprintf("%s/%s", directory, entry->d_name);
        }
        closedir(stream);
        return found;
}

// The files set aside, their companions not counted.
static size_t damaged_files(struct fixture *f, char **ret_path)
{
        _cleanup_free_ char *directory = sr_asprintf("%s/state", f->root);
        DIR *stream = opendir(directory);
        struct dirent *entry;
        size_t found = 0;

        assert_non_null(stream);
        while ((entry = readdir(stream)) != NULL) {
                const char *end = entry->d_name + strlen(entry->d_name) - strlen("-wal");

                if (strncmp(entry->d_name, "history.db.damaged-", 19) != 0 || strcmp(end, "-wal") == 0 ||
                    strcmp(end, "-shm") == 0)
                        continue;
                if (found++ == 0 && ret_path != NULL)
                        *ret_path = sr_asprintf("%s/%s", directory, entry->d_name);
        }
        closedir(stream);
        return found;
}

// One number out of the database by a connection of our own.
static int64_t query(const char *path, const char *sql)
{
        sqlite3 *db = NULL;
        sqlite3_stmt *statement = NULL;
        int64_t value;

        assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
        sqlite3_busy_timeout(db, 5000);
        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        value = sqlite3_column_int64(statement, 0);
        sqlite3_finalize(statement);
        sqlite3_close(db);
        return value;
}

static void execute(const char *path, const char *sql)
{
        sqlite3 *db = NULL;
        char *message = NULL;

        assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
                         SQLITE_OK);
        if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
                fail_msg("%s: %s", sql, message);
        sqlite3_close(db);
}

// Runs a Python script with the path of the database as its argument; it must exit with 0.
static void run_python(struct fixture *f, const char *script)
{
        pid_t child = fork();
        int status = -1;

        assert_true(child >= 0);
        if (child == 0) {
                execl(PYTHON, "python3", "-c", script, f->path, (char *)NULL);
                _exit(127);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
}

// Ends a forked child of a test without the parent's clean-ups.
#define CHILD_DONE(ok) _exit((ok) ? 0 : 1)

static void expect_exit(pid_t child, int code)
{
        int status = -1;

        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), code);
}

static void test_round_trip(void **state)
{
        struct fixture *f = *state;
        _cleanup_history_ struct sr_history *history = open_history(f->path, false);
        struct sr_history_record first = sample("print(1)"), second = sample("a\0b"), *records = NULL;
        size_t found = 0;
        int64_t id = 0;

        first.language = (char[]){"python"};
        first.status = (char[]){"error"};
        first.facts = (char[]){"{\"reason\":\"exit\"}"};
        first.exit_code = 3;
        second.language = (char[]){"cpp"};
        second.status = (char[]){"timeout"};
        second.code_length = 3;
        second.has_exit_code = false;
        second.facts = NULL;
        second.timestamp_us++;
        assert_int_equal(sr_history_add(history, &first, &id, NULL), 0);
        assert_int_equal(id, 1);
        assert_int_equal(sr_history_add(history, &second, NULL, NULL), 0);

        assert_int_equal(sr_history_list(history, 20, &records, &found, NULL), 0);
        assert_int_equal(found, 2);
        assert_int_equal(records[0].id, 2);
        assert_int_equal(records[0].timestamp_us, 1764451503123457);
        assert_string_equal(records[0].language, "cpp");
        assert_string_equal(records[0].status, "timeout");
        assert_false(records[0].has_exit_code);
        assert_int_equal(records[0].code_length, 3);
        assert_memory_equal(records[0].code, "a\0b", 4);
        assert_null(records[0].facts);

        assert_int_equal(records[1].id, 1);
        assert_int_equal(records[1].timestamp_us, 1764451503123456);
        assert_string_equal(records[1].code, "print(1)");
        assert_true(records[1].has_exit_code);
        assert_int_equal(records[1].exit_code, 3);
        assert_true(records[1].duration_ms == 12.5);
        assert_int_equal(records[1].stdout_size, 3);
        assert_int_equal(records[1].stderr_size, 4);
        assert_string_equal(records[1].facts, "{\"reason\":\"exit\"}");
        sr_history_records_free(records, found);
}

static void test_get_and_limits(void **state)
{
        struct fixture *f = *state;
        _cleanup_history_ struct sr_history *history = open_history(f->path, false);
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_history_record *record = NULL;
        size_t found = 7;

        for (int i = 0; i < 5; i++)
                add(history, "x");
        assert_int_equal(sr_history_get(history, 4, &record, NULL), 0);
        assert_int_equal(record->id, 4);
        record = sr_history_records_free(record, 1);
        assert_int_equal(sr_history_get(history, 6, &record, &error), -ENOENT);
        assert_null(record);
        assert_has(sr_error_message(error), "no run 6");

        static const struct {
                int64_t limit;
                size_t found;
        } cases[] = {{3, 3}, {5, 5}, {INT64_MAX, 5}, {0, 0}, {-1, 0}, {INT64_MIN, 0}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sr_history_record *records = NULL;

                assert_int_equal(sr_history_list(history, cases[i].limit, &records, &found, NULL), 0);
                assert_int_equal(found, cases[i].found);
                assert_non_null(records);
                if (found > 0)
                        assert_int_equal(records[0].id, 5);
                sr_history_records_free(records, found);
        }
}

// 500 characters whatever their length in bytes, and never half of one.
static void test_code_is_cut_by_characters(void **state)
{
        struct fixture *f = *state;
        _cleanup_history_ struct sr_history *history = open_history(f->path, false);
        static const char *const characters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x8d"};

        for (size_t i = 0; i < 4; i++) {
                for (int many = 499; many <= 501; many++) {
                        _cleanup_buf_ struct sr_buf code = {0};
                        struct sr_history_record *record = NULL;
                        size_t kept = (size_t)(many < 500 ? many : 500) * strlen(characters[i]);

                        for (int n = 0; n < many; n++)
                                sr_buf_append_text(&code, characters[i]);
                        assert_int_equal(sr_history_get(history, add(history, code.data), &record, NULL), 0);
                        assert_int_equal(record->code_length, kept);
                        assert_memory_equal(record->code, code.data, kept);
                        sr_history_records_free(record, 1);
                }
        }
        assert_int_equal(query(f->path, "SELECT max(length(code_snippet)) FROM runs"), 500);
}

static void test_invalid_text_comes_out_valid(void **state)
{
        struct fixture *f = *state;
        struct sr_history *history = open_history(f->path, false);
        struct sr_history_record *record = NULL;
        int64_t id = add(history, "a\xff"
                                  "b");

        execute(f->path,
                "INSERT INTO runs (timestamp, language, code_snippet, status, exit_code, duration_ms) "
                "VALUES (9e99, CAST(x'66ff' AS TEXT), printf('%.*c', 600, 'y'), '', 99999999999, 1)");
        execute(f->path, "INSERT INTO run_facts VALUES (2, 'no json')");
        assert_int_equal(sr_history_get(history, id, &record, NULL), 0);
        assert_string_equal(record->code, "a\xef\xbf\xbd"
                                          "b");
        sr_history_records_free(record, 1);
        assert_int_equal(sr_history_get(history, 2, &record, NULL), 0);
        assert_string_equal(record->language, "f\xef\xbf\xbd");
        assert_int_equal(record->code_length, 500);
        assert_int_equal(record->timestamp_us, 0);
        assert_int_equal(record->exit_code, INT32_MAX);
        assert_null(record->facts);
        sr_history_records_free(record, 1);
        sr_history_close(history);
}

// Facts of a row that somebody deleted do not pass to the next run of that id.
static void test_stale_facts_are_replaced(void **state)
{
        struct fixture *f = *state;
        struct sr_history *history = open_history(f->path, false);
        struct sr_history_record *record = NULL;

        execute(f->path, "INSERT INTO run_facts VALUES (1, '{\"stale\":true}')");
        assert_int_equal(sr_history_get(history, add(history, "x"), &record, NULL), 0);
        assert_int_equal(record->id, 1);
        assert_string_equal(record->facts, "{\"reason\":\"exit\"}");
        sr_history_records_free(record, 1);
        sr_history_close(history);
}

static mode_t mode_of(const char *path)
{
        struct stat found;

        assert_int_equal(stat(path, &found), 0);
        return found.st_mode & 07777;
}

static void test_modes_whatever_the_umask(void **state)
{
        struct fixture *f = *state;
        static const mode_t masks[] = {0, 077, 0777};

        for (size_t i = 0; i < 3; i++) {
                _cleanup_free_ char *path = sr_asprintf("%s/%zu/deep/er/h.db", f->root, i);
                _cleanup_free_ char *top = sr_asprintf("%s/%zu", f->root, i);
                _cleanup_free_ char *below = sr_asprintf("%s/%zu/deep/er", f->root, i);
                _cleanup_free_ char *wal = sr_asprintf("%s-wal", path);
                _cleanup_free_ char *shm = sr_asprintf("%s-shm", path);
                mode_t before = umask(masks[i]);
                struct sr_history *history = open_history(path, false);

                add(history, "x");
                umask(before);
                assert_int_equal(mode_of(top), 0700);
                assert_int_equal(mode_of(below), 0700);
                assert_int_equal(mode_of(path), 0600);
                assert_int_equal(mode_of(wal), 0600);
                assert_int_equal(mode_of(shm), 0600);
                sr_history_close(history);
        }
        assert_int_equal(mode_of(f->root), 0755);
}

static void test_reading_only_makes_nothing(void **state)
{
        struct fixture *f = *state;
        struct sr_history *history = open_history(f->path, true);
        struct sr_history_record *record = NULL;
        _cleanup_free_ char *directory = sr_asprintf("%s/state", f->root);

        assert_int_equal(count(history), 0);
        assert_int_equal(sr_history_get(history, 1, &record, NULL), -ENOENT);
        free(refused(history));
        assert_int_equal(sr_history_prune(history, 0, 0, NULL, NULL), -EROFS);
        assert_int_equal(access(directory, F_OK), -1);

        // What comes to be meanwhile is seen, and nothing is left beside it.
        put_bytes(f->path, "", 0);
        assert_int_equal(count(history), 0);
        execute(f->path, "CREATE TABLE other (x)");
        assert_int_equal(count(history), 0);
        execute(f->path, "DROP TABLE other");
        struct sr_history *writer = open_history(f->path, false);

        add(writer, "x");
        assert_int_equal(count(history), 1);
        add(writer, "y");
        assert_int_equal(count(history), 2);
        sr_history_close(writer);
        sr_history_close(history);
        execute(f->path, "PRAGMA wal_checkpoint(TRUNCATE)");
        assert_int_equal(files_like(f, "history.db", NULL), 1);
        history = open_history(f->path, true);
        assert_int_equal(count(history), 2);
        sr_history_close(history);
        assert_int_equal(files_like(f, "history.db", NULL), 1);
}

// A log that a short-lived process left is read by the next, by us and by others.
static void test_log_is_left_and_found(void **state)
{
        struct fixture *f = *state;

        for (int i = 0; i < 3; i++) {
                struct sr_history *history = open_history(f->path, false);

                assert_int_equal(add(history, "x"), i + 1);
                sr_history_close(history);
        }
        assert_int_equal(files_like(f, "history.db-wal", NULL), 1);
        assert_int_equal(query(f->path, "SELECT count(*) FROM runs"), 3);

        // A long one is copied into the database at the end.
        struct sr_history *history = open_history(f->path, false);

        for (int i = 0; i < 100; i++)
                add(history, "x");
        sr_history_close(history);
        assert_int_equal(files_like(f, "history.db-wal", NULL), 0);

        // And it does not grow without end.
        history = open_history(f->path, false);
        _cleanup_free_ char *wal = sr_asprintf("%s-wal", f->path);
        struct stat found;

        for (int i = 0; i < 2000; i++)
                add(history, "x");
        assert_int_equal(stat(wal, &found), 0);
        assert_true(found.st_size > 0 && found.st_size < 8 * 1024 * 1024);
        sr_history_close(history);
}

#define OLD_TABLE                                                                                            \
        "import sqlite3, sys, time\n"                                                                        \
        "d = sqlite3.connect(sys.argv[1], timeout=10)\n"                                                     \
        "d.execute('''CREATE TABLE IF NOT EXISTS runs(id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL " \
        "NOT "                                                                                               \
        "NULL, language TEXT NOT NULL, code_snippet TEXT NOT NULL, status TEXT NOT NULL, exit_code "         \
        "INTEGER, "                                                                                          \
        "duration_ms REAL NOT NULL, stdout_size INTEGER NOT NULL DEFAULT 0, stderr_size INTEGER NOT NULL "   \
        "DEFAULT 0)''')\n"
#define OLD_INSERT                                                                                           \
        "d.execute('INSERT INTO runs (timestamp, language, code_snippet, status, exit_code, duration_ms, "   \
        "stdout_size, stderr_size) VALUES (?,?,?,?,?,?,?,?)', "

static void test_database_of_the_python_server(void **state)
{
        struct fixture *f = *state;
        struct sr_history_record *records = NULL;
        struct stat before, after;
        size_t found = 0;

        put_bytes(f->path, "", 0);
        run_python(f, OLD_TABLE OLD_INSERT
                   "(1764451503.123456, 'python', 'a\\0b\\u20ac', 'success', 0, 1.25, 5, 6))\n" OLD_INSERT
                   "(1764451504.5, 'cpp', 'int', 'timeout', None, 30000.0, 0, 0))\n"
                   "d.commit(); d.close()");

        // Reading alone changes nothing, not even the log mode.
        assert_int_equal(stat(f->path, &before), 0);
        struct sr_history *history = open_history(f->path, true);

        assert_int_equal(sr_history_list(history, 9, &records, &found, NULL), 0);
        assert_int_equal(found, 2);
        assert_int_equal(records[1].timestamp_us, 1764451503123456);
        assert_int_equal(records[1].code_length, 6);
        assert_memory_equal(records[1].code, "a\0b\xe2\x82\xac", 6);
        assert_true(records[1].has_exit_code);
        assert_false(records[0].has_exit_code);
        assert_true(records[0].duration_ms == 30000.0);
        assert_null(records[0].facts);
        sr_history_records_free(records, found);
        sr_history_close(history);
        assert_int_equal(stat(f->path, &after), 0);
        assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
        assert_int_equal(files_like(f, "history.db", NULL), 1);

        // Ours goes on where it ended, and the other way round, with both open.
        history = open_history(f->path, false);
        assert_int_equal(add(history, "\xe2\x82\xac"), 3);
        run_python(f, OLD_TABLE "rows = d.execute('SELECT * FROM runs ORDER BY id').fetchall()\n"
                                "assert len(rows) == 3, rows\n"
                                "assert rows[0][3] == 'a\\0b\\u20ac', rows\n"
                                "assert rows[2] == (3, 1764451503.123456, 'python', '\\u20ac', 'success', "
                                "None, 0.0, 0, 0), rows\n" OLD_INSERT
                                "(time.time(), 'python', 'x', 'error', 1, 2.0, 0, 0))\n"
                                "d.execute('DELETE FROM runs WHERE id = 3')\n"
                                "d.commit(); d.close()");
        assert_int_equal(sr_history_list(history, 9, &records, &found, NULL), 0);
        assert_int_equal(found, 3);
        assert_int_equal(records[0].id, 4);
        assert_null(records[0].facts);
        assert_true(records[0].timestamp_us > 1764451503123456);
        sr_history_records_free(records, found);
        // The facts of the deleted row are there still, unseen; pruning takes them.
        assert_int_equal(query(f->path, "SELECT count(*) FROM run_facts"), 1);
        assert_int_equal(sr_history_prune(history, -1, 0, NULL, NULL), 0);
        assert_int_equal(query(f->path, "SELECT count(*) FROM run_facts"), 0);
        assert_int_equal(count(history), 3);
        sr_history_close(history);
}

// A database of ours is to the Python server as if it had made it itself.
static void test_our_database_in_python(void **state)
{
        struct fixture *f = *state;
        struct sr_history *history = open_history(f->path, false);

        add(history, "x");
        sr_history_close(history);
        run_python(f, OLD_TABLE
                   "ours = d.execute('PRAGMA table_info(runs)').fetchall()\n"
                   "o = sqlite3.connect(':memory:')\n"
                   "o.execute('''CREATE TABLE runs(id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT "
                   "NULL, "
                   "language TEXT NOT NULL, code_snippet TEXT NOT NULL, status TEXT NOT NULL, exit_code "
                   "INTEGER, "
                   "duration_ms REAL NOT NULL, stdout_size INTEGER NOT NULL DEFAULT 0, stderr_size INTEGER "
                   "NOT NULL "
                   "DEFAULT 0)''')\n"
                   "assert ours == o.execute('PRAGMA table_info(runs)').fetchall(), ours\n"
                   "d.execute(\"INSERT INTO runs (timestamp, language, code_snippet, status, duration_ms) "
                   "VALUES (1, 'a', 'b', 'c', 2)\")\n"
                   "assert d.execute('SELECT max(id) FROM runs').fetchone() == (2,)\n"
                   "d.commit(); d.close()");
        history = open_history(f->path, false);
        assert_int_equal(count(history), 2);
        sr_history_close(history);
}

static void test_columns_in_any_order(void **state)
{
        struct fixture *f = *state;
        struct sr_history_record *record = NULL;

        put_bytes(f->path, "", 0);
        execute(f->path,
                "CREATE TABLE runs (status TEXT NOT NULL, note TEXT, stderr_size INTEGER NOT NULL DEFAULT 0, "
                "code_snippet TEXT NOT NULL, duration_ms REAL NOT NULL, exit_code INTEGER, id INTEGER "
                "PRIMARY KEY "
                "AUTOINCREMENT, language TEXT NOT NULL, stdout_size INTEGER NOT NULL DEFAULT 0, timestamp "
                "REAL NOT NULL)");
        struct sr_history *history = open_history(f->path, false);

        assert_int_equal(sr_history_get(history, add(history, "hello"), &record, NULL), 0);
        assert_string_equal(record->code, "hello");
        assert_string_equal(record->language, "python");
        assert_string_equal(record->status, "success");
        assert_string_equal(record->facts, "{\"reason\":\"exit\"}");
        sr_history_records_free(record, 1);
        sr_history_close(history);
}

static void expect_open_failure(const char *path, bool read_only, int errnum, const char *word)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_history *history = NULL;
        char *notice = NULL;

        assert_int_equal(sr_history_open(path, read_only, &history, &notice, &error), -errnum);
        assert_null(history);
        assert_null(notice);
        print_message("%s\n", sr_error_message(error));
        assert_has(sr_error_message(error), word);
}

static void test_files_that_are_no_history(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *below = sr_asprintf("%s/below", f->path);

        expect_open_failure("", false, EINVAL, "history.database");
        put_bytes(f->path, "", 0);
        expect_open_failure(below, false, ENOTDIR, "below");
        execute(f->path, "CREATE TABLE runs (id INTEGER PRIMARY KEY, something TEXT)");
        expect_open_failure(f->path, false, EINVAL, "another layout (");
        execute(f->path, "DROP TABLE runs");
        // Numbers of other programs say nothing; a later format of ours does.
        execute(f->path, "PRAGMA user_version = 7");
        sr_history_close(open_history(f->path, false));
        assert_int_equal(query(f->path, "PRAGMA user_version"), 7);
        execute(f->path, "PRAGMA application_id = 0x53625278");
        expect_open_failure(f->path, false, EINVAL, "newer version");
        expect_open_failure(f->path, true, EINVAL, "newer version");
        assert_int_equal(unlink(f->path), 0);
        assert_int_equal(mkfifo(f->path, 0600), 0);
        expect_open_failure(f->path, false, EINVAL, "not a regular file");
}

static void test_format_is_noted(void **state)
{
        struct fixture *f = *state;

        sr_history_close(open_history(f->path, false));
        assert_int_equal(query(f->path, "PRAGMA user_version"), 1);
        assert_int_equal(query(f->path, "PRAGMA application_id"), 0x53625278);
}

// Kinds of damage: the file's bytes, and whether opening shows it.
enum damage { GARBAGE, SHORT_GARBAGE, ZEROS, TRUNCATED, LAST_PAGE, SCHEMA, DAMAGE_COUNT };

// Writes a database with that damage; *ret is its bytes.
static void put_damaged(struct fixture *f, enum damage damage, struct sr_buf *ret)
{
        static const char garbage[] = "this is no database\n";

        if (damage >= TRUNCATED) {
                struct sr_history *history = open_history(f->path, false);

                for (int i = 0; i < 200; i++)
                        add(history,
                            "x = 1 # something to fill pages with, so that the table has a tree of them");
                sr_history_close(history);
                execute(f->path, "PRAGMA wal_checkpoint(TRUNCATE)");
                assert_int_equal(sr_fd_read_file(AT_FDCWD, f->path, 1 << 24, ret), 0);
        }
        switch (damage) {
        case GARBAGE:
                for (int i = 0; i < 500; i++)
                        sr_buf_append_text(ret, garbage);
                break;
        case SHORT_GARBAGE:
                sr_buf_append_text(ret, garbage);
                break;
        case ZEROS:
                memset(sr_buf_reserve(ret, 8192), 0, 8192);
                ret->len = 8192;
                break;
        case TRUNCATED:
                ret->len = ret->len / 4096 / 2 * 4096;
                break;
        case LAST_PAGE:
                // All but the schema.
                memset(ret->data + 4096, 0xee, ret->len - 4096);
                break;
        case SCHEMA:
                memset(ret->data + 100, 0xee, 3996);
                break;
        default:
                fail();
        }
        put_bytes(f->path, ret->data, ret->len);
}

static void assert_bytes(const char *path, const struct sr_buf *wanted)
{
        _cleanup_buf_ struct sr_buf found = {0};

        assert_int_equal(sr_fd_read_file(AT_FDCWD, path, 1 << 24, &found), 0);
        assert_int_equal(found.len, wanted->len);
        assert_memory_equal(found.data, wanted->data, wanted->len);
}

static void test_damaged_file_is_set_aside_at_opening(void **state)
{
        for (int damage = 0; damage < DAMAGE_COUNT; damage++) {
                void *own = NULL;

                setup(&own);
                struct fixture *f = own;
                _cleanup_buf_ struct sr_buf bytes = {0};
                _cleanup_free_ char *aside = NULL, *notice = NULL;
                struct sr_history *history = NULL;

                put_damaged(f, damage, &bytes);
                // Whoever only reads is told, and nothing is touched.
                if (damage != LAST_PAGE) {
                        expect_open_failure(f->path, true, EBADMSG, "damaged");
                        assert_int_equal(damaged_files(f, NULL), 0);
                }
                assert_bytes(f->path, &bytes);

                assert_int_equal(sr_history_open(f->path, false, &history, &notice, NULL), 0);
                assert_non_null(notice);
                print_message("%s\n", notice);
                assert_int_equal(damaged_files(f, &aside), 1);
                assert_has(notice, aside);
                assert_has(notice, f->path);
                assert_bytes(aside, &bytes);
                assert_int_equal(add(history, "x"), 1);
                assert_int_equal(count(history), 1);
                assert_null(sr_history_take_notice(history));
                sr_history_close(history);
                teardown(&own);
        }
        (void)state;
}

// A second damaged file of the same second takes another name.
static void test_set_aside_replaces_nothing(void **state)
{
        struct fixture *f = *state;

        for (int i = 0; i < 3; i++) {
                _cleanup_free_ char *notice = NULL;
                struct sr_history *history = NULL;

                put_bytes(f->path, "no database", 11);
                assert_int_equal(sr_history_open(f->path, false, &history, &notice, NULL), 0);
                assert_non_null(notice);
                sr_history_close(history);
                // With its log the next one would be sound.
                execute(f->path, "PRAGMA wal_checkpoint(TRUNCATE)");
        }
        assert_int_equal(damaged_files(f, NULL), 3);
}

static void test_damage_found_while_adding(void **state)
{
        struct fixture *f = *state;
        struct sr_history *history = open_history(f->path, false);
        struct sr_history_record *records = NULL;
        _cleanup_free_ char *notice = NULL, *aside = NULL;
        _cleanup_error_ struct sr_error *error = NULL;
        size_t found = 0;

        for (int i = 0; i < 200; i++)
                add(history, "x = 1 # something to fill pages with, so that the table has a tree of them");
        // Behind its back: the tree's pages are gone, in the log too.
        execute(f->path, "PRAGMA wal_checkpoint(TRUNCATE)");
        {
                _cleanup_close_ int fd = open(f->path, O_WRONLY | O_CLOEXEC);
                _cleanup_free_ char *noise = sr_calloc(1 << 16, 1);

                memset(noise, 0xee, 1 << 16);
                assert_int_equal(pwrite(fd, noise, 1 << 16, 4096), 1 << 16);
        }
        // Another writer, so that what the connection remembers of the file is not trusted.
        execute(f->path, "PRAGMA user_version = 1");

        // Reading fails with a sentence and moves nothing.
        assert_int_equal(sr_history_list(history, 1000, &records, &found, &error), -EBADMSG);
        assert_has(sr_error_message(error), "damaged");
        assert_int_equal(sr_history_prune(history, 5, 0, NULL, NULL), -EBADMSG);
        assert_int_equal(damaged_files(f, NULL), 0);
        // Adding goes on in a new file.
        assert_int_equal(add(history, "new"), 1);
        assert_int_equal(damaged_files(f, &aside), 1);
        // Its log went along.
        assert_int_equal(files_like(f, "history.db.damaged-", NULL), 3);
        notice = sr_history_take_notice(history);
        assert_non_null(notice);
        assert_has(notice, ".damaged-");
        assert_null(sr_history_take_notice(history));
        assert_int_equal(count(history), 1);
        assert_int_equal(add(history, "newer"), 2);
        sr_history_close(history);
        assert_int_equal(query(f->path, "SELECT count(*) FROM runs"), 2);
}

// Many servers find the same damage at once: one sets the file aside, nobody's run is lost.
static void test_damage_found_by_a_crowd(void **state)
{
        for (int round = 0; round < 10; round++) {
                enum { CROWD = 8 };
                void *own = NULL;

                setup(&own);
                struct fixture *f = own;
                pid_t children[CROWD];
                int gate[2];

                put_bytes(f->path, "this is no database", 19);
                assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
                for (int i = 0; i < CROWD; i++) {
                        children[i] = fork();
                        assert_true(children[i] >= 0);
                        if (children[i] == 0) {
                                struct sr_history *history = NULL;
                                struct sr_error *error = NULL;
                                struct sr_history_record record = sample("x");
                                char *notice = NULL, byte;
                                bool ok = true;

                                record.language = record.status = (char[]){"x"};
                                record.facts = NULL;
                                close(gate[1]);
                                (void)!read(gate[0], &byte, 1);
                                ok = sr_history_open(f->path, false, &history, &notice, &error) == 0;
                                for (int n = 0; ok && n < 5; n++)
                                        ok = sr_history_add(history, &record, NULL, &error) == 0;
                                if (!ok)
                                        fprintf(stderr, "%s\n", sr_error_message(error));
                                sr_history_close(history);
                                CHILD_DONE(ok);
                        }
                }
                close(gate[0]);
                close(gate[1]);
                for (int i = 0; i < CROWD; i++)
                        expect_exit(children[i], 0);
                assert_int_equal(damaged_files(f, NULL), 1);
                assert_int_equal(query(f->path, "SELECT count(*) FROM runs"), CROWD * 5);
                teardown(&own);
        }
        (void)state;
}

static void test_file_moved_or_deleted_meanwhile(void **state)
{
        struct fixture *f = *state;
        struct sr_history *history = open_history(f->path, false), *reader = open_history(f->path, true);
        _cleanup_free_ char *elsewhere = sr_asprintf("%s/elsewhere.db", f->root);

        add(history, "x");
        add(history, "x");
        assert_int_equal(count(reader), 2);
        assert_int_equal(rename(f->path, elsewhere), 0);
        assert_int_equal(add(history, "y"), 1);
        assert_int_equal(count(history), 1);
        assert_int_equal(count(reader), 1);
        assert_int_equal(unlink(f->path), 0);
        assert_int_equal(count(reader), 0);
        assert_int_equal(add(history, "z"), 1);
        assert_int_equal(count(reader), 1);
        sr_history_close(history);
        sr_history_close(reader);
        assert_int_equal(query(f->path, "SELECT count(*) FROM runs"), 1);
}

static void test_through_a_symbolic_link(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *link = sr_asprintf("%s/link.db", f->root);
        _cleanup_free_ char *notice = NULL, *aside = NULL;
        struct sr_history *history = NULL;
        struct stat found;

        put_bytes(f->path, "no database", 11);
        assert_int_equal(symlink(f->path, link), 0);
        assert_int_equal(sr_history_open(link, false, &history, &notice, NULL), 0);
        assert_non_null(notice);
        add(history, "x");
        sr_history_close(history);
        // The link stays; what it names was set aside.
        assert_int_equal(lstat(link, &found), 0);
        assert_true(S_ISLNK(found.st_mode));
        assert_int_equal(damaged_files(f, &aside), 1);
        assert_int_equal(query(f->path, "SELECT count(*) FROM runs"), 1);
}

struct thread_work {
        struct sr_history *history;
        bool ok;
};

static void *add_many(void *argument)
{
        struct thread_work *w = argument;
        struct sr_history_record record = sample("x"), *records = NULL;
        size_t found;

        record.language = record.status = (char[]){"x"};
        record.facts = (char[]){"{}"};
        w->ok = true;
        for (int i = 0; w->ok && i < 50; i++) {
                w->ok = sr_history_add(w->history, &record, NULL, NULL) == 0 &&
                        sr_history_list(w->history, 2, &records, &found, NULL) == 0;
                if (w->ok)
                        sr_history_records_free(records, found);
        }
        return NULL;
}

static void test_threads_share_a_handle(void **state)
{
        struct fixture *f = *state;
        _cleanup_history_ struct sr_history *history = open_history(f->path, false);
        pthread_t threads[8];
        struct thread_work work[8];

        for (int i = 0; i < 8; i++) {
                work[i] = (struct thread_work){.history = history};
                assert_int_equal(pthread_create(&threads[i], NULL, add_many, &work[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_true(work[i].ok);
        }
        assert_int_equal(count(history), 400);
}

// Several servers from the first moment on, the Python one among them.
static void test_processes_share_a_file(void **state)
{
        struct fixture *f = *state;
        pid_t children[6];
        _cleanup_free_ char *directory = sr_asprintf("%s/state", f->root);

        assert_int_equal(mkdir(directory, 0700), 0);
        for (int i = 0; i < 6; i++) {
                children[i] = fork();
                assert_true(children[i] >= 0);
                if (children[i] == 0 && i == 0) {
                        execl(PYTHON, "python3", "-c",
                              OLD_TABLE "for i in range(50):\n"
                                        "    " OLD_INSERT
                                        "(time.time(), 'python', 'x', 'error', 1, 2.0, 0, 0))\n"
                                        "    d.commit()\n",
                              f->path, (char *)NULL);
                        _exit(127);
                }
                if (children[i] == 0) {
                        struct sr_history *history = NULL;
                        struct sr_error *error = NULL;
                        struct sr_history_record record = sample("x");
                        char *notice = NULL;
                        bool ok = sr_history_open(f->path, false, &history, &notice, &error) == 0;

                        record.language = record.status = (char[]){"x"};
                        record.facts = (char[]){"{}"};
                        for (int n = 0; ok && n < 50; n++)
                                ok = sr_history_add(history, &record, NULL, &error) == 0;
                        if (!ok)
                                fprintf(stderr, "%s\n", sr_error_message(error));
                        sr_history_close(history);
                        CHILD_DONE(ok && notice == NULL);
                }
        }
        for (int i = 0; i < 6; i++)
                expect_exit(children[i], 0);
        assert_int_equal(query(f->path, "SELECT count(*) FROM runs"), 300);
        assert_int_equal(query(f->path, "SELECT count(*) FROM run_facts"), 250);
        assert_int_equal(
                query(f->path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
                0);
}

// Whatever the moment of the kill: the file is sound, and a run is there with its facts or not at all.
static void test_killed_in_the_middle(void **state)
{
        struct fixture *f = *state;
        int64_t last = 0;

        for (int round = 0; round < 20; round++) {
                struct timespec pause = {.tv_nsec = round * 1100000};
                int begun[2], status;
                char byte;

                assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
                pid_t child = fork();

                assert_true(child >= 0);
                if (child == 0) {
                        struct sr_history *history = NULL;
                        char *notice = NULL;
                        struct sr_history_record record = sample("x");

                        record.language = record.status = (char[]){"x"};
                        record.facts = (char[]){"{}"};
                        if (sr_history_open(f->path, false, &history, &notice, NULL) == 0)
                                while (sr_history_add(history, &record, NULL, NULL) == 0)
                                        (void)!write(begun[1], "", 1);
                        CHILD_DONE(false);
                }
                close(begun[1]);
                assert_int_equal(read(begun[0], &byte, 1), 1);
                nanosleep(&pause, NULL);
                assert_int_equal(kill(child, SIGKILL), 0);
                assert_int_equal(waitpid(child, &status, 0), child);
                assert_true(WIFSIGNALED(status));
                close(begun[0]);

                struct sr_history *history = open_history(f->path, false);
                int64_t id = add(history, "after");

                assert_true(id > last);
                last = id;
                sr_history_close(history);
                assert_int_equal(query(f->path,
                                       "SELECT count(*) FROM runs WHERE id NOT IN (SELECT run_id FROM "
                                       "run_facts)"),
                                 0);
        }
        assert_true(last > 40);
        assert_int_equal(
                query(f->path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
                0);
        assert_int_equal(damaged_files(f, NULL), 0);
}

static sqlite3 *lock_database(const char *path, const char *sql)
{
        sqlite3 *db = NULL;

        assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        return db;
}

static double seconds_since(uint64_t began)
{
        return (double)(sr_clock_monotonic_ns() - began) / 1e9;
}

static void test_locked_for_long(void **state)
{
        struct fixture *f = *state;
        struct sr_history *history = open_history(f->path, false);

        add(history, "x");

        sqlite3 *db = lock_database(f->path, "BEGIN IMMEDIATE");

        // Readers are not held up.
        assert_int_equal(count(history), 1);

        uint64_t began = sr_clock_monotonic_ns();
        _cleanup_free_ char *said = refused(history);

        assert_has(said, "locked by another program");
        // Waited for; and by a dozen together no longer than by one.
        assert_true(seconds_since(began) > 0.5);
        for (int i = 0; i < 11; i++)
                free(refused(history));
        assert_true(seconds_since(began) < 4);
        assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        // Free again, it is used at once.
        assert_int_equal(add(history, "y"), 2);
        sr_history_close(history);
}

// The Python server's file in the middle of a write of its own: not even readable.
static void test_locked_when_opened(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/old.db", f->root);

        execute(path, "CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL, "
                      "language TEXT NOT NULL, code_snippet TEXT NOT NULL, status TEXT NOT NULL, exit_code "
                      "INTEGER, duration_ms REAL NOT NULL, stdout_size INTEGER NOT NULL DEFAULT 0, "
                      "stderr_size INTEGER NOT NULL DEFAULT 0)");

        sqlite3 *db = lock_database(path, "BEGIN EXCLUSIVE");
        uint64_t began = sr_clock_monotonic_ns();
        struct sr_history *writer = open_history(path, false), *reader = open_history(path, true);
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_history_record *records = NULL;
        size_t found = 0;

        assert_true(seconds_since(began) < 0.9);
        free(refused(writer));
        assert_int_equal(sr_history_list(reader, 1, &records, &found, &error), -EBUSY);
        assert_has(sr_error_message(error), "locked by another program");
        assert_null(records);
        assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        assert_int_equal(add(writer, "x"), 1);
        assert_int_equal(count(reader), 1);
        sr_history_close(writer);
        sr_history_close(reader);
}

// More rows than are read at once, with gaps between their ids and at the ends.
static void test_a_long_list(void **state)
{
        struct fixture *f = *state;
        struct sr_history *history = open_history(f->path, false);
        static const int64_t limits[] = {1, 999, 1000, 1001, 2000, 2299, 2300, 5000, INT64_MAX};

        execute(f->path,
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2300) INSERT INTO "
                "runs SELECT i * 3 - 2000, i, 'l', 'c' || i, 's', 0, 1, 2, 3 FROM n");
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL;
                struct sr_history_record *records = NULL;
                size_t found = 0;

                assert_int_equal(sr_history_list(history, limits[i], &records, &found, &error), 0);
                assert_int_equal(found, limits[i] < 2300 ? limits[i] : 2300);
                for (size_t at = 0; at < found; at++) {
                        assert_int_equal(records[at].id, (2300 - (int64_t)at) * 3 - 2000);
                        assert_int_equal(records[at].timestamp_us, (2300 - (int64_t)at) * 1000000);
                }
                sr_history_records_free(records, found);
        }
        sr_history_close(history);
}

static void test_a_record_as_json(void **state)
{
        (void)state;
        struct sr_history_record record = sample("a\n");
        _cleanup_buf_ struct sr_buf text = {0};
        struct sr_json_writer w = {.out = &text, .first = true};

        record.id = 7;
        record.language = (char[]){"python"};
        record.status = (char[]){"success"};
        record.facts = (char[]){"{\"reason\":\"exit\"}"};
        record.timestamp_us = INT64_C(1795987503123456);
        record.exit_code = 3;
        sr_json_open_array(&w, NULL);
        sr_history_record_write(&record, SR_HISTORY_PLAIN, &w);
        sr_history_record_write(&record, SR_HISTORY_REASON, &w);
        record.has_exit_code = false;
        sr_history_record_write(&record, SR_HISTORY_FACTS, &w);
        record.facts = NULL;
        sr_history_record_write(&record, SR_HISTORY_FACTS, &w);
        sr_history_record_write(&record, SR_HISTORY_REASON, &w);
        sr_json_close_array(&w);
#define FIRST                                                                                                \
        "{\"id\":7,\"timestamp\":\"2026-11-29T21:25:03.123456+00:00\",\"language\":\"python\","              \
        "\"code_snippet\":\"a\\n\",\"status\":\"success\",\"exit_code\":"
#define LAST ",\"duration_ms\":12.5,\"stdout_size\":3,\"stderr_size\":4"
        assert_string_equal(text.data, "[" FIRST "3" LAST "}," FIRST "3" LAST ",\"reason\":\"exit\"}," FIRST
                                       "null" LAST ",\"facts\":{\"reason\":\"exit\"}}," FIRST "null" LAST
                                       ",\"facts\":null}," FIRST "null" LAST "}]");
#undef FIRST
#undef LAST
}

static bool write_map(const char *path, const char *word, unsigned id)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        _cleanup_free_ char *text = sr_asprintf("0 %u 1", id);

        if (word == NULL)
                word = text;
        return fd >= 0 && write(fd, word, strlen(word)) > 0;
}

// A mount namespace of its own; whoever is not root becomes it in a user namespace.
static bool may_mount(void)
{
        unsigned uid = getuid(), gid = getgid();

        if (uid != 0 &&
            (unshare(CLONE_NEWUSER) < 0 || !write_map("/proc/self/setgroups", "deny", 0) ||
             !write_map("/proc/self/uid_map", NULL, uid) || !write_map("/proc/self/gid_map", NULL, gid)))
                return false;
        return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

// Runs body in a child with a tmpfs mounted at root/disk.
static void with_small_disk(struct fixture *f, const char *options,
                            void (*body)(struct fixture *f, const char *disk))
{
        _cleanup_free_ char *disk = sr_asprintf("%s/disk", f->root);
        int status = -1;
        pid_t child;

        assert_int_equal(mkdir(disk, 0755), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                if (!may_mount() || mount("sr-history", disk, "tmpfs", 0, options) < 0)
                        _exit(77);
                body(f, disk);
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
                print_message("needs root or user namespaces, to mount a small tmpfs\n");
                skip();
        }
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// cmocka's assertions do not belong in a child: this one reports and ends it.
#define CHECK(condition)                                                                                     \
        do {                                                                                                 \
                if (!(condition)) {                                                                          \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
                        _exit(1);                                                                            \
                }                                                                                            \
        } while (0)

static void fill(const char *path)
{
        static const char block[4096];
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        CHECK(fd >= 0);
        while (write(fd, block, sizeof(block)) > 0)
                continue;
        CHECK(errno == ENOSPC);
        close(fd);
}

static void on_full_disk(struct fixture *f, const char *disk)
{
        _cleanup_free_ char *path = sr_asprintf("%s/deep/history.db", disk);
        _cleanup_free_ char *filler = sr_asprintf("%s/filler", disk);
        _cleanup_free_ char *code = sr_calloc(501, 1);
        struct sr_history_record record = sample("x"), *records = NULL;
        struct sr_history *history = NULL, *second = NULL;
        struct sr_error *error = NULL;
        char *notice = NULL;
        size_t added = 0, found = 0;

        (void)f;
        memset(code, 'x', 500);
        record.language = record.status = (char[]){"x"};
        record.facts = (char[]){"{}"};
        record.code = code;
        record.code_length = 500;

        // Nothing fits: one sentence, and as soon as there is room it works.
        fill(filler);
        CHECK(sr_history_open(path, false, &history, &notice, &error) == -ENOSPC);
        fprintf(stderr, "%s\n", sr_error_message(error));
        CHECK(strstr(sr_error_message(error), "free some space") != NULL);
        error = sr_error_free(error);
        CHECK(unlink(filler) == 0);
        CHECK(sr_history_open(path, false, &history, &notice, &error) == 0);
        while (sr_history_add(history, &record, NULL, &error) == 0)
                added++;
        fprintf(stderr, "%zu added: %s\n", added, sr_error_message(error));
        CHECK(added > 10);
        CHECK(sr_error_get_errno(error) == ENOSPC);
        CHECK(strstr(sr_error_message(error), "free some space") != NULL);
        error = sr_error_free(error);

        // What is there can be read, by a second server too, and nothing counts as damage.
        CHECK(sr_history_list(history, 10000, &records, &found, &error) == 0 && found == added);
        sr_history_records_free(records, found);
        CHECK(sr_history_open(path, true, &second, &notice, &error) == 0);
        CHECK(sr_history_list(second, 10000, &records, &found, &error) == 0 && found == added);
        sr_history_records_free(records, found);
        sr_history_close(second);
        CHECK(sr_history_add(history, &record, NULL, NULL) == -ENOSPC);

        // Pruning needs room for its log; with more room all is well.
        CHECK(mount(NULL, disk, NULL, MS_REMOUNT, "size=4m") == 0);
        CHECK(sr_history_add(history, &record, NULL, &error) == 0);
        CHECK(sr_history_prune(history, 3, 0, NULL, NULL) == 0);
        CHECK(sr_history_list(history, 10000, &records, &found, NULL) == 0 && found == 3);
        sr_history_records_free(records, found);
        sr_history_close(history);
        CHECK(notice == NULL);
}

static void test_full_disk(void **state)
{
        with_small_disk(*state, "size=256k", on_full_disk);
}

// The log was copied and deleted when the disk was full and the server closed: nothing can be made beside the
// file then.
static void on_full_disk_without_log(struct fixture *f, const char *disk)
{
        _cleanup_free_ char *path = sr_asprintf("%s/history.db", disk);
        _cleanup_free_ char *filler = sr_asprintf("%s/filler", disk);
        struct sr_history_record record = sample("x"), *records = NULL;
        struct sr_history *history = NULL;
        struct sr_error *error = NULL;
        char *notice = NULL;
        size_t found = 0;

        (void)f;
        record.language = record.status = (char[]){"x"};
        record.facts = NULL;
        CHECK(sr_history_open(path, false, &history, &notice, NULL) == 0);
        CHECK(sr_history_add(history, &record, NULL, NULL) == 0);
        sr_history_close(history);
        execute(path, "PRAGMA wal_checkpoint(TRUNCATE)");
        fill(filler);
        CHECK(sr_history_open(path, false, &history, &notice, &error) == 0);
        CHECK(sr_history_list(history, 9, &records, &found, NULL) == 0 && found == 1);
        sr_history_records_free(records, found);
        CHECK(sr_history_add(history, &record, NULL, &error) == -ENOSPC);
        fprintf(stderr, "%s\n", sr_error_message(error));
        CHECK(strstr(sr_error_message(error), "free some space") != NULL);
        sr_error_free(error);
        CHECK(unlink(filler) == 0);
        CHECK(sr_history_add(history, &record, NULL, NULL) == 0);
        CHECK(sr_history_list(history, 9, &records, &found, NULL) == 0 && found == 2);
        sr_history_records_free(records, found);
        sr_history_close(history);
}

static void test_full_disk_without_log(void **state)
{
        with_small_disk(*state, "size=256k", on_full_disk_without_log);
}

static void on_read_only_disk(struct fixture *f, const char *disk)
{
        // Characters that mean something in a URI.
        _cleanup_free_ char *path = sr_asprintf("%s/his%%to?ry#.db", disk);
        struct sr_history_record record = sample("x"), *records = NULL;
        struct sr_history *history = NULL;
        struct sr_error *error = NULL;
        char *notice = NULL;
        size_t found = 0;

        (void)f;
        record.language = record.status = (char[]){"x"};
        record.facts = (char[]){"{}"};
        CHECK(sr_history_open(path, false, &history, &notice, NULL) == 0);
        CHECK(sr_history_add(history, &record, NULL, NULL) == 0);
        sr_history_close(history);
        execute(path, "PRAGMA wal_checkpoint(TRUNCATE)");
        CHECK(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);

        for (int read_only = 0; read_only < 2; read_only++) {
                CHECK(sr_history_open(path, read_only != 0, &history, &notice, &error) == 0);
                CHECK(sr_history_list(history, 9, &records, &found, NULL) == 0 && found == 1);
                CHECK(records[0].facts != NULL);
                sr_history_records_free(records, found);
                CHECK(sr_history_add(history, &record, NULL, &error) < 0);
                fprintf(stderr, "%s\n", sr_error_message(error));
                CHECK(sr_error_get_errno(error) == EROFS);
                error = sr_error_free(error);
                if (read_only == 0) {
                        CHECK(mount(NULL, disk, NULL, MS_REMOUNT, NULL) == 0);
                        CHECK(sr_history_add(history, &record, NULL, NULL) == 0);
                        sr_history_close(history);
                        execute(path, "DELETE FROM runs WHERE id > 1; PRAGMA wal_checkpoint(TRUNCATE)");
                        CHECK(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
                } else {
                        // What is written meanwhile is seen.
                        struct sr_history *writer = NULL;

                        CHECK(mount(NULL, disk, NULL, MS_REMOUNT, NULL) == 0);
                        CHECK(sr_history_open(path, false, &writer, &notice, NULL) == 0);
                        CHECK(sr_history_add(writer, &record, NULL, NULL) == 0);
                        CHECK(sr_history_list(history, 9, &records, &found, NULL) == 0 && found == 2);
                        sr_history_records_free(records, found);
                        sr_history_close(history);
                        sr_history_close(writer);
                        CHECK(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
                }
        }
        _cleanup_free_ char *other = sr_asprintf("%s/other/h.db", disk);

        CHECK(sr_history_open(other, false, &history, &notice, &error) == -EROFS);
        fprintf(stderr, "%s\n", sr_error_message(error));
        CHECK(strstr(sr_error_message(error), "history.database") != NULL);
        sr_error_free(error);
}

static void test_read_only_disk(void **state)
{
        with_small_disk(*state, "size=1m", on_read_only_disk);
}

// Without permission: the file, then its directory.
static void test_without_permission(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *directory = sr_asprintf("%s/state", f->root);
        _cleanup_free_ char *inside = sr_asprintf("%s/state/new/h.db", f->root);
        struct sr_history *history = open_history(f->path, false);
        bool root = geteuid() == 0;

        add(history, "x");
        sr_history_close(history);
        execute(f->path, "PRAGMA wal_checkpoint(TRUNCATE)");
        assert_int_equal(chmod(f->path, 0444), 0);
        assert_int_equal(chmod(directory, 0555), 0);
        if (root)
                assert_int_equal(seteuid(65534), 0);
        history = open_history(f->path, false);
        size_t readable = count(history);
        _cleanup_free_ char *said = refused(history);

        sr_history_close(history);
        expect_open_failure(inside, false, EACCES, "make it writable");
        history = open_history(f->path, true);
        readable += count(history);
        sr_history_close(history);
        if (root)
                assert_int_equal(seteuid(0), 0);
        assert_int_equal(readable, 2);
        assert_has(said, "make it writable");
        assert_int_equal(chmod(directory, 0700), 0);
        assert_int_equal(chmod(f->path, 0600), 0);
}

static void test_prune(void **state)
{
        struct fixture *f = *state;
        _cleanup_history_ struct sr_history *history = open_history(f->path, false);
        struct sr_history_record record = sample("x");
        int64_t deleted = -1;

        record.language = record.status = (char[]){"x"};
        record.facts = (char[]){"{}"};
        for (int i = 1; i <= 10; i++) {
                record.timestamp_us = i * INT64_C(1000000);
                assert_int_equal(sr_history_add(history, &record, NULL, NULL), 0);
        }
        assert_int_equal(sr_history_prune(history, -1, 0, &deleted, NULL), 0);
        assert_int_equal(deleted, 0);
        assert_int_equal(sr_history_prune(history, 10, 0, &deleted, NULL), 0);
        assert_int_equal(deleted, 0);
        assert_int_equal(sr_history_prune(history, 8, 0, &deleted, NULL), 0);
        assert_int_equal(deleted, 2);
        // Older than, not as old as.
        assert_int_equal(sr_history_prune(history, -1, 5000000, &deleted, NULL), 0);
        assert_int_equal(deleted, 2);
        assert_int_equal(count(history), 6);
        assert_int_equal(query(f->path, "SELECT min(id) FROM runs"), 5);
        assert_int_equal(query(f->path, "SELECT count(*) FROM run_facts"), 6);
        // Both bounds together.
        assert_int_equal(sr_history_prune(history, 5, 7000001, &deleted, NULL), 0);
        assert_int_equal(deleted, 3);
        assert_int_equal(sr_history_prune(history, 0, 0, &deleted, NULL), 0);
        assert_int_equal(deleted, 3);
        assert_int_equal(count(history), 0);
        // Ids are never given twice.
        assert_int_equal(add(history, "x"), 11);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                CASE(test_round_trip),
                CASE(test_get_and_limits),
                CASE(test_code_is_cut_by_characters),
                CASE(test_invalid_text_comes_out_valid),
                CASE(test_stale_facts_are_replaced),
                CASE(test_modes_whatever_the_umask),
                CASE(test_reading_only_makes_nothing),
                CASE(test_log_is_left_and_found),
                CASE(test_database_of_the_python_server),
                CASE(test_our_database_in_python),
                CASE(test_columns_in_any_order),
                CASE(test_files_that_are_no_history),
                CASE(test_format_is_noted),
                CASE(test_damaged_file_is_set_aside_at_opening),
                CASE(test_set_aside_replaces_nothing),
                CASE(test_damage_found_while_adding),
                CASE(test_damage_found_by_a_crowd),
                CASE(test_file_moved_or_deleted_meanwhile),
                CASE(test_through_a_symbolic_link),
                CASE(test_threads_share_a_handle),
                CASE(test_processes_share_a_file),
                CASE(test_killed_in_the_middle),
                CASE(test_locked_for_long),
                CASE(test_locked_when_opened),
                CASE(test_a_long_list),
                CASE(test_a_record_as_json),
                CASE(test_full_disk),
                CASE(test_full_disk_without_log),
                CASE(test_read_only_disk),
                CASE(test_without_permission),
                CASE(test_prune),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
