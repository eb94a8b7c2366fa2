// What an SQLite result code or an errno means for whoever keeps the history.

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "history/internal.h"

bool history_is_damage(int rc)
{
        return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

int history_fail_system(const struct sr_history *history, int errnum, const char *doing,
                        struct sr_error **error)
{
        const char *advice = "";

        if (errnum == ENOSPC || errnum == EDQUOT)
                advice = "; free some space";
        else if (errnum == EACCES || errnum == EPERM || errnum == EROFS)
                advice = "; make it writable, or name another file with history.database";
        return sr_error_set(error, SR_ERROR_HOST, errnum, "the history %s cannot be %s: %s%s", history->path,
                            doing, strerror(errnum), advice);
}

// The errno that keeps the file or its companions from being written; 0 when nothing does that can be seen.
static int unwritable(const struct sr_history *history)
{
        _cleanup_free_ char *directory = history_directory(history->file);

        // With the ids in effect, as for open().
        if (faccessat(AT_FDCWD, history->file, W_OK, AT_EACCESS) < 0 ||
            faccessat(AT_FDCWD, directory, W_OK, AT_EACCESS) < 0)
                return errno;
        return 0;
}

static int fail_to_write(const struct sr_history *history, struct sr_error **error)
{
        int errnum = unwritable(history);

        // A connection that had to be opened as immutable knows better.
        if (history->reason != NULL)
                return sr_error_set(error, SR_ERROR_HOST, sr_error_get_errno(history->reason), "%s",
                                    sr_error_message(history->reason));
        return history_fail_system(history, errnum != 0 ? errnum : EROFS, "written", error);
}

int history_fail(const struct sr_history *history, int rc, struct sr_error **error)
{
        const char *said = history->db != NULL ? sqlite3_errmsg(history->db) : sqlite3_errstr(rc);
        int errnum = history->db != NULL ? sqlite3_system_errno(history->db) : 0;
        const char *path = history->path;

        if (history_is_damage(rc))
                return sr_error_set(
                        error, SR_ERROR_HOST, EBADMSG,
                        "the history %s is damaged (%s); the next run that is recorded sets it aside and "
                        "begins a new one",
                        path, said);
        switch (rc & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return sr_error_set(
                        error, SR_ERROR_HOST, EBUSY,
                        "the history %s is kept locked by another program; end that program, or name another "
                        "file with history.database",
                        path);
        case SQLITE_FULL:
                return history_fail_system(history, ENOSPC, "written", error);
        case SQLITE_READONLY:
                return fail_to_write(history, error);
        case SQLITE_CANTOPEN:
        case SQLITE_PERM:
        case SQLITE_AUTH:
                // What SQLite keeps is the errno of its last try, which was for reading.
                if (unwritable(history) != 0)
                        errnum = unwritable(history);
                return history_fail_system(history, errnum != 0 ? errnum : EACCES, "opened", error);
        case SQLITE_IOERR:
                // The shared memory file is where a full disk shows first.
                if (rc == SQLITE_IOERR_SHMSIZE)
                        errnum = ENOSPC;
                return history_fail_system(history, errnum != 0 ? errnum : EIO, "read or written", error);
        case SQLITE_MISMATCH:
                return sr_error_set(
                        error, SR_ERROR_HOST, EINVAL,
                        "the history %s was written by a newer version of this program; use that one, or "
                        "name another file with history.database",
                        path);
        case SQLITE_ERROR:
                return sr_error_set(
                        error, SR_ERROR_HOST, EINVAL,
                        "the history %s holds tables of another layout (%s); name another file with "
                        "history.database",
                        path, said);
        default:
                return sr_error_set(error, SR_ERROR_INTERNAL, EIO, "the history %s cannot be used: %s", path,
                                    said);
        }
}
