#include "image/work.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/limits.h"
#include "image/ref.h"
#include "image/walk.h"

#define DIRECTORY_FLAGS   (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define LEFTOVER_TRIES    10
#define LEFTOVER_PAUSE_NS 100000000
#define LOCK_POLL_NS      20000000 // flock has no timeout

struct sr_image_writer {
        char *path;
        int fd, tmp_fd, lock_fd;
};

struct sr_image_work {
        char *name;
        int fd; // locked
        int tmp_fd;
};

void sr_image_report(const struct sr_image_progress *progress, const char *format, ...)
{
        va_list arguments;

        if (progress == NULL || progress->report == NULL)
                return;
        va_start(arguments, format);

        _cleanup_free_ char *sentence = sr_vasprintf(format, arguments);

        va_end(arguments);
        progress->report(progress->context, sentence);
}

static int fail(const struct sr_image_writer *writer, const char *path, const char *what, int errnum,
                struct sr_error **error)
{
        return sr_error_set(error, SR_ERROR_HOST, errnum, "%s/%s cannot be %s: %s", writer->path, path, what,
                            strerror(errnum));
}

static int make_store(struct sr_image_writer *writer, struct sr_error **error)
{
        int r = sr_fd_make_directories(writer->path, 0755);

        if (r == 0) {
                writer->fd = open(writer->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                r = writer->fd < 0 ? -errno : 0;
        }
        if (r < 0)
                return sr_error_set(
                        error, SR_ERROR_HOST, -r,
                        "the image store %s cannot be made: %s; choose another directory with --store",
                        writer->path, strerror(-r));
        return 0;
}

static int refuse_unwritable(const struct sr_image_writer *writer, int errnum, struct sr_error **error)
{
        return sr_error_set(
                error, SR_ERROR_HOST, errnum,
                "the image store %s cannot be written to: %s; choose another directory with --store",
                writer->path, strerror(errnum));
}

static int make_parts(struct sr_image_writer *writer, struct sr_error **error)
{
        static const char *const parts[] = {"tmp", "refs", "trees", "blobs", "blobs/sha256"};

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                if (mkdirat(writer->fd, parts[i], 0755) < 0 && errno != EEXIST)
                        return refuse_unwritable(writer, errno, error);
        writer->tmp_fd = openat(writer->fd, "tmp", DIRECTORY_FLAGS);
        if (writer->tmp_fd < 0)
                return fail(writer, "tmp", "opened", errno, error);
        writer->lock_fd = openat(writer->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (writer->lock_fd < 0)
                return refuse_unwritable(writer, errno, error);
        return 0;
}

// Takes a flock, waiting at most milliseconds (0: for ever). 0, -EBUSY or another negative errno.
static int take_lock(int fd, int operation, uint64_t milliseconds)
{
        const struct timespec pause = {.tv_nsec = LOCK_POLL_NS};
        const uint64_t end = sr_clock_monotonic_ns() + milliseconds * 1000000;

        for (;;) {
                if (flock(fd, milliseconds == 0 ? operation : operation | LOCK_NB) == 0)
                        return 0;
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return -errno;
                if (milliseconds == 0)
                        continue;
                if (sr_clock_monotonic_ns() >= end)
                        return -EBUSY;
                nanosleep(&pause, NULL);
        }
}

static int lock_store(struct sr_image_writer *writer, int operation, struct sr_error **error)
{
        int r = take_lock(writer->lock_fd, operation, operation == LOCK_EX ? SR_IMAGE_LOCK_WAIT_MS : 0);

        if (r == -EBUSY)
                return sr_error_set(
                        error, SR_ERROR_LIMIT, EBUSY,
                        "the image store %s is in use by a run or an import; try again when it is done",
                        writer->path);
        return r < 0 ? fail(writer, "lock", "locked", -r, error) : 0;
}

// The format is written once, by rename, so that a reader sees it whole.
static int write_format(struct sr_image_writer *writer, struct sr_error **error)
{
        _cleanup_work_ struct sr_image_work *work = NULL;
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_image_work_open_unique(writer, "format", &work, error);

        sr_buf_printf(&text, "%d\n", SR_IMAGE_STORE_FORMAT);
        if (r == 0)
                r = sr_image_work_write(work, "format", &text, true, error);
        if (r == 0)
                r = sr_image_publish(writer, work, "format", "format", NULL, error);
        return r;
}

// Whether the name in tmp/ still is the file open as fd.
static bool is_still(const struct sr_image_writer *writer, const char *name, int fd)
{
        struct stat found, open;

        return fstatat(writer->tmp_fd, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &open) == 0 &&
               found.st_dev == open.st_dev && found.st_ino == open.st_ino;
}

// Removes what is in tmp/ under this name, unless somebody works there.
static void remove_leftover(struct sr_image_writer *writer, const char *name)
{
        _cleanup_close_ int fd = openat(writer->tmp_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        // A link or a socket cannot be opened, and was never made here.
        if (fd < 0 && errno != ELOOP && errno != ENXIO)
                return;
        if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_still(writer, name, fd)))
                return;
        // What cannot be removed (another user's, in a shared store) does no harm.
        (void)sr_image_remove_tree(writer->tmp_fd, name, NULL);
}

static void remove_leftovers(struct sr_image_writer *writer)
{
        _cleanup_strv_ char **names = NULL;

        if (sr_image_read_names(writer->tmp_fd, &names) < 0)
                return;
        for (size_t i = 0; names != NULL && names[i] != NULL; i++)
                remove_leftover(writer, names[i]);
}

int sr_image_writer_open(const char *directory, int operation, struct sr_image_writer **ret,
                         struct sr_error **error)
{
        _cleanup_writer_ struct sr_image_writer *writer = sr_new(struct sr_image_writer);
        int r;

        *writer =
                (struct sr_image_writer){.path = sr_strdup(directory), .fd = -1, .tmp_fd = -1, .lock_fd = -1};
        r = make_store(writer, error);
        if (r < 0)
                return r;
        // Before anything is put into a store that is not ours to write to.
        r = sr_image_store_check_format(writer->fd, directory, error);
        if (r < 0 && r != -ENOENT)
                return r;

        bool fresh = r == -ENOENT;

        r = make_parts(writer, error);
        if (r == 0)
                r = lock_store(writer, operation, error);
        if (r == 0 && fresh)
                r = write_format(writer, error);
        if (r < 0)
                return r;
        // That may take long; who has the store for himself does it when he lets the others in.
        if (operation != LOCK_EX)
                remove_leftovers(writer);
        *ret = sr_steal(writer);
        return 0;
}

void sr_image_writer_unlock(struct sr_image_writer *writer)
{
        (void)flock(writer->lock_fd, LOCK_UN);
        remove_leftovers(writer);
}

struct sr_image_writer *sr_image_writer_close(struct sr_image_writer *writer)
{
        if (writer != NULL) {
                sr_fd_close(writer->lock_fd);
                sr_fd_close(writer->tmp_fd);
                sr_fd_close(writer->fd);
                free(writer->path);
                free(writer);
        }
        return NULL;
}

void sr_image_writer_closep(struct sr_image_writer **writer)
{
        *writer = sr_image_writer_close(*writer);
}

int sr_image_writer_fd(const struct sr_image_writer *writer)
{
        return writer->fd;
}

const char *sr_image_writer_path(const struct sr_image_writer *writer)
{
        return writer->path;
}

// One try at the directory: made or opened, and locked. 0; -EAGAIN when another process removed it meanwhile;
// another negative errno.
static int try_work(struct sr_image_writer *writer, const char *name,
                    const struct sr_image_progress *progress, int *ret_fd, bool *waited)
{
        _cleanup_close_ int fd = -1;

        if (mkdirat(writer->tmp_fd, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(writer->tmp_fd, name, DIRECTORY_FLAGS);
        if (fd < 0)
                return errno == ENOENT ? -EAGAIN : -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK)
                        return -errno;
                *waited = true;
                sr_image_report(progress, "waiting for another process that is doing the same");

                int r = take_lock(fd, LOCK_EX, 0);

                if (r < 0)
                        return r;
        }
        if (!is_still(writer, name, fd))
                return -EAGAIN;
        *ret_fd = sr_fd_steal(fd);
        return 0;
}

// Empties a directory that somebody else may have been killed in. A helper of his may be writing for a moment
// yet.
static int clear_leftovers(struct sr_image_work *work, struct sr_error **error)
{
        const struct timespec pause = {.tv_nsec = LEFTOVER_PAUSE_NS};

        for (int i = 0; i < LEFTOVER_TRIES; i++) {
                if (sr_image_remove_contents(work->fd, NULL) == 0)
                        return 0;
                nanosleep(&pause, NULL);
        }

        int r = sr_image_remove_contents(work->fd, error);

        return r < 0 ? sr_error_prefix(error, r, "leftovers of an earlier try cannot be removed") : 0;
}

int sr_image_work_open(struct sr_image_writer *writer, const char *name,
                       const struct sr_image_progress *progress, struct sr_image_work **ret, bool *ret_waited,
                       struct sr_error **error)
{
        _cleanup_work_ struct sr_image_work *work = NULL;
        _cleanup_close_ int fd = -1;
        bool waited = false;
        int r;

        do
                r = try_work(writer, name, progress, &fd, &waited);
        while (r == -EAGAIN);
        if (r < 0) {
                _cleanup_free_ char *path = sr_asprintf("tmp/%s", name);

                return fail(writer, path, "made", -r, error);
        }
        work = sr_new(struct sr_image_work);
        *work = (struct sr_image_work){
                .name = sr_strdup(name), .fd = sr_fd_steal(fd), .tmp_fd = writer->tmp_fd};
        r = clear_leftovers(work, error);
        if (r < 0)
                return r;
        *ret = sr_steal(work);
        if (ret_waited != NULL)
                *ret_waited = waited;
        return 0;
}

int sr_image_work_open_unique(struct sr_image_writer *writer, const char *prefix, struct sr_image_work **ret,
                              struct sr_error **error)
{
        uint64_t number = 0;

        if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
                return sr_error_set(error, SR_ERROR_HOST, errno, "the kernel gives no random numbers: %s",
                                    strerror(errno));

        _cleanup_free_ char *name = sr_asprintf("%s-%016" PRIx64, prefix, number);

        return sr_image_work_open(writer, name, NULL, ret, NULL, error);
}

struct sr_image_work *sr_image_work_close(struct sr_image_work *work)
{
        if (work != NULL) {
                // Still locked, so that nobody works in it. Trouble leaves leftovers, for the next import.
                (void)sr_image_remove_tree(work->tmp_fd, work->name, NULL);
                sr_fd_close(work->fd);
                free(work->name);
                free(work);
        }
        return NULL;
}

void sr_image_work_closep(struct sr_image_work **work)
{
        *work = sr_image_work_close(*work);
}

int sr_image_work_fd(const struct sr_image_work *work)
{
        return work->fd;
}

const char *sr_image_work_name(const struct sr_image_work *work)
{
        return work->name;
}

int sr_image_writer_sync(struct sr_image_writer *writer, struct sr_error **error)
{
        return syncfs(writer->fd) < 0 ? fail(writer, "", "written to disk", errno, error) : 0;
}

// Writes the directory that path is in to disk, so that a rename into it lasts.
static int sync_parent(struct sr_image_writer *writer, const char *path)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *parent =
                slash != NULL ? sr_memdup0(path, (size_t)(slash - path)) : sr_strdup(".");
        _cleanup_close_ int fd = openat(writer->fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int sr_image_publish(struct sr_image_writer *writer, const struct sr_image_work *work, const char *name,
                     const char *path, bool *ret_there, struct sr_error **error)
{
        int r = renameat(work->fd, name, writer->fd, path) < 0 ? -errno : 0;
        bool there = r == -EEXIST || r == -ENOTEMPTY;

        if (r < 0 && (!there || ret_there == NULL))
                return fail(writer, path, "put in place", -r, error);
        if (ret_there != NULL)
                *ret_there = there;
        r = sync_parent(writer, path);
        return r < 0 ? fail(writer, path, "written to disk", -r, error) : 0;
}

int sr_image_work_write(const struct sr_image_work *work, const char *name, const struct sr_buf *bytes,
                        bool durable, struct sr_error **error)
{
        _cleanup_close_ int fd =
                openat(work->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
        int r = fd < 0 ? -errno : sr_fd_write_all(fd, bytes->data, bytes->len);

        if (r == 0 && durable && fsync(fd) < 0)
                r = -errno;
        if (r < 0)
                return sr_error_set(error, SR_ERROR_HOST, -r,
                                    "a file of the image store cannot be written: %s", strerror(-r));
        return 0;
}
