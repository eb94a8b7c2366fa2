// The database as a file: finding it, making it, moving it away, and the lock on its directory.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "history/internal.h"

char *history_directory(const char *path)
{
        const char *slash = strrchr(path, '/');

        if (slash == NULL)
                return sr_strdup(".");
        return slash == path ? sr_strdup("/") : sr_memdup0(path, (size_t)(slash - path));
}

// Waits as long as for a lock of SQLite's, then goes on without: a file system that cannot lock must not keep
// anybody from their history.
int history_lock(const char *file, int operation)
{
        _cleanup_free_ char *directory = history_directory(file);
        _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const struct timespec pause = {.tv_nsec = 5000000};

        if (fd < 0)
                return -1;
        for (int waited = 0; flock(fd, operation | LOCK_NB) < 0; waited += 5) {
                if ((errno != EWOULDBLOCK && errno != EINTR) || waited >= HISTORY_BUSY_MS)
                        return -1;
                (void)nanosleep(&pause, NULL);
        }
        return sr_fd_steal(fd);
}

// An empty file is an empty database; SQLite gives its companions the same mode.
static int make_empty(const char *path)
{
        _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
                return errno == EEXIST ? 0 : -errno;
        return fchmod(fd, 0600) < 0 ? -errno : 0;
}

// What path names when the symbolic links that it may itself be are followed, their end existing or not.
static int follow_links(const char *path, char **ret)
{
        _cleanup_free_ char *at = sr_strdup(path);

        // As many as the kernel follows, MAXSYMLINKS of include/linux/namei.h.
        for (int links = 0; links <= 40; links++) {
                char target[PATH_MAX];
                ssize_t length = readlink(at, target, sizeof(target) - 1);
                _cleanup_free_ char *link = at, *directory = NULL;

                if (length < 0) {
                        *ret = sr_steal(link);
                        at = NULL;
                        return 0;
                }
                target[length] = '\0';
                directory = history_directory(link);
                at = target[0] == '/' ? sr_strdup(target) : sr_asprintf("%s/%s", directory, target);
        }
        return -ELOOP;
}

int history_resolve(struct sr_history *history, bool *ret_found, struct sr_error **error)
{
        _cleanup_free_ char *path = NULL, *directory = NULL, *resolved = NULL;
        const char *slash;
        int r = follow_links(history->path, &path);

        if (r < 0)
                return history_fail_system(history, -r, "opened", error);
        directory = history_directory(path);
        if (!history->read_only) {
                r = sr_fd_make_directories(directory, 0700);
                if (r < 0)
                        return history_fail_system(history, -r, "made", error);
        }
        resolved = realpath(directory, NULL);
        if (resolved == NULL) {
                *ret_found = false;
                if (history->read_only && (errno == ENOENT || errno == ENOTDIR))
                        return 0;
                return history_fail_system(history, errno, "opened", error);
        }
        slash = strrchr(path, '/');
        free(history->file);
        history->file = sr_asprintf("%s/%s", strcmp(resolved, "/") == 0 ? "" : resolved,
                                    slash != NULL ? slash + 1 : path);
        *ret_found = true;
        return 0;
}

int history_make_file(struct sr_history *history, bool *ret_found, struct sr_error **error)
{
        struct stat found;
        int r = stat(history->file, &found) < 0 ? -errno : 0;

        *ret_found = true;
        if (r == 0 && !S_ISREG(found.st_mode))
                return sr_error_set(
                        error, SR_ERROR_HOST, EINVAL,
                        "the history %s is not a regular file; name another with history.database",
                        history->path);
        if (history->read_only && (r == -ENOENT || r == -ENOTDIR)) {
                *ret_found = false;
                return 0;
        }
        if (r == -ENOENT)
                r = make_empty(history->file);
        if (r < 0)
                return history_fail_system(history, -r, history->read_only ? "read" : "made", error);
        return 0;
}

// A name for the damaged file under which neither it nor a companion of it would replace anything.
static char *free_name(const char *file, const char *const *companions)
{
        long long now = (long long)(sr_clock_realtime_us() / 1000000);

        for (int attempt = 0;; attempt++) {
                const char *const *companion = companions;
                char *name = attempt == 0 ? sr_asprintf("%s.damaged-%lld", file, now)
                                          : sr_asprintf("%s.damaged-%lld-%d", file, now, attempt);
                bool taken = false;

                for (; !taken && *companion != NULL; companion++) {
                        _cleanup_free_ char *other = sr_asprintf("%s%s", name, *companion);

                        taken = access(other, F_OK) == 0;
                }
                if (!taken)
                        return name;
                free(name);
        }
}

int history_move_away(struct sr_history *history, const char *what, struct sr_error **error)
{
        static const char *const companions[] = {"", "-wal", "-shm", "-journal", NULL};
        _cleanup_free_ char *name = free_name(history->file, companions);

        for (size_t i = 0; companions[i] != NULL; i++) {
                _cleanup_free_ char *from = sr_asprintf("%s%s", history->file, companions[i]);
                _cleanup_free_ char *to = sr_asprintf("%s%s", name, companions[i]);

                if (rename(from, to) == 0 || (i > 0 && errno == ENOENT))
                        continue;
                return sr_error_set(
                        error, SR_ERROR_HOST, errno,
                        "the history %s is damaged (%s) and cannot be set aside as %s: %s; move it away, or "
                        "name another file with history.database",
                        history->path, what, name, strerror(errno));
        }
        free(history->notice);
        history->notice =
                sr_asprintf("the history %s was damaged (%s): it was set aside as %s and a new one begun",
                            history->path, what, name);
        return 0;
}
