// Theory of operation: the parent of an entry is opened as an O_PATH descriptor by openat2(RESOLVE_IN_ROOT),
// so that the kernel keeps every link and ".." inside; the entry itself is then made, linked or removed by
// its name alone, with calls that never follow it. Files are only ever created (O_EXCL), never opened for
// writing when they exist: nothing is written through a link, be it symbolic or hard.
//
// openat2 takes PATH_MAX bytes at a time. Longer paths are walked in pieces, in which no symbolic link is
// accepted: a link's target could not be resolved against the root from the middle.
#include "image/root_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/limits.h"
#include "image/walk.h"
#include "sys/syscalls.h"

#define MAX_LINKS   40   // as the kernel has it (MAXSYMLINKS)
#define MAX_RETRIES 1000 // of an openat2 that a rename elsewhere on the machine disturbed (EAGAIN)
#define PIECE       (PATH_MAX - 1)

int sr_image_root_fail(struct sr_error **error, int errnum, const char *what)
{
        bool ours = errnum == ENOSPC || errnum == EDQUOT || errnum == EROFS || errnum == EIO ||
                    errnum == EACCES || errnum == EMFILE || errnum == ENFILE || errnum == ENOSYS;
        const char *why = errnum == ENOTDIR ? "a part of its path is no directory"
                          : errnum == ELOOP
                                  ? "its path goes through too many symbolic links, or is too long for one"
                                  : strerror(errnum);

        return sr_error_set(error, ours ? SR_ERROR_HOST : SR_ERROR_IMAGE, errnum, "%s: %s", what, why);
}

static int open_at(int fd, const char *path, uint64_t resolve)
{
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = resolve | RESOLVE_NO_MAGICLINKS};

        for (int i = 0;; i++) {
                int opened = sr_sys_openat2(fd, path, &how);

                if (opened >= 0)
                        return opened;
                if (errno != EAGAIN || i == MAX_RETRIES)
                        return -errno;
        }
}

int sr_image_root_open_directory(const struct sr_image_root *root, const char *path)
{
        _cleanup_close_ int at = -1;
        size_t length = strlen(path);

        if (length == 0)
                return open_at(root->fd, ".", RESOLVE_IN_ROOT);
        if (length <= PIECE)
                return open_at(root->fd, path, RESOLVE_IN_ROOT);
        for (bool first = true; *path != '\0'; first = false) {
                _cleanup_free_ char *piece = NULL;
                size_t cut = strlen(path);

                if (cut > PIECE)
                        for (cut = PIECE; cut > 0 && path[cut] != '/'; cut--)
                                continue;
                if (cut == 0)
                        return -ENAMETOOLONG;
                piece = sr_memdup0(path, cut);
                path += cut + (path[cut] == '/' ? 1 : 0);

                int next = open_at(first ? root->fd : at, piece,
                                   first ? RESOLVE_IN_ROOT : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

                if (next < 0)
                        return next;
                sr_fd_close(at);
                at = next;
        }
        return sr_fd_steal(at);
}

static int inode_of(int fd, ino_t *ret)
{
        struct stat stat;

        if (fstat(fd, &stat) < 0)
                return -errno;
        *ret = stat.st_ino;
        return 0;
}

static void note_placed(struct sr_image_root *root, ino_t directory, const char *name)
{
        if (!root->fresh)
                sr_image_placed_add(&root->placed, directory, name);
}

static int clean(char *path, bool clamp)
{
        size_t out = 0, depth = 0;

        for (size_t at = 0; path[at] != '\0';) {
                size_t length = strcspn(path + at, "/");

                if (length == 2 && path[at] == '.' && path[at + 1] == '.') {
                        if (depth == 0 && !clamp)
                                return -EINVAL;
                        if (depth > 0) {
                                depth--;
                                while (out > 0 && path[--out] != '/')
                                        continue;
                        }
                } else if (length > 0 && !(length == 1 && path[at] == '.')) {
                        if (++depth > SR_IMAGE_MAX_PATH_DEPTH)
                                return -ELOOP;
                        if (out > 0)
                                path[out++] = '/';
                        memmove(path + out, path + at, length);
                        out += length;
                }
                at += length;
                at += strspn(path + at, "/");
        }
        path[out] = '\0';
        return 0;
}

int sr_image_path_clean(char *path)
{
        return clean(path, false);
}

// Makes the directory name in the one open as fd. 0 or a negative errno.
static int make_one(struct sr_image_root *root, int fd, const char *name)
{
        _cleanup_close_ int made = -1;
        ino_t inode = 0;

        if (mkdirat(fd, name, S_IRWXU) < 0)
                return -errno;
        made = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (made < 0 || fchmod(made, 0755) < 0)
                return -errno;

        int r = inode_of(fd, &inode);

        if (r == 0)
                note_placed(root, inode, name);
        return r;
}

// Where path leads when its first done bytes are a symbolic link to nowhere yet: its target and what follows.
// ".." in the target is taken textually, which may differ from what the kernel would do when more links stand
// before it, but never leaves the root.
static int through_link(int fd, const char *name, const char *path, size_t done, char **ret)
{
        char target[PATH_MAX];
        ssize_t length = readlinkat(fd, name, target, sizeof(target) - 1);

        if (length < 0)
                return -errno;
        target[length] = '\0';

        size_t before = done - strlen(name);
        _cleanup_free_ char *whole =
                sr_asprintf("%.*s/%s/%s", target[0] == '/' ? 0 : (int)before, path, target, path + done);
        int r = clean(whole, true);

        if (r == 0)
                *ret = sr_steal(whole);
        return r;
}

// Opens the directory path, making what is missing of it. A descriptor or a negative errno.
static int make_path(struct sr_image_root *root, const char *path)
{
        _cleanup_free_ char *todo = sr_strdup(path);
        _cleanup_close_ int at = sr_image_root_open_directory(root, "");
        size_t done = 0;
        int links = 0;

        while (at >= 0 && todo[done] != '\0') {
                size_t start = done + (todo[done] == '/' ? 1 : 0);
                _cleanup_free_ char *name = sr_memdup0(todo + start, strcspn(todo + start, "/"));
                const uint64_t plain = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
                int next = open_at(at, name, plain);

                done = start + strlen(name);
                if (next == -ENOENT) {
                        int r = make_one(root, at, name);

                        if (r < 0)
                                return r;
                        next = open_at(at, name, plain);
                } else if (next == -ELOOP) {
                        _cleanup_free_ char *whole = sr_memdup0(todo, done);

                        next = sr_image_root_open_directory(root, whole);
                        if (next == -ENOENT) {
                                char *led = NULL;
                                int r = ++links > MAX_LINKS ? -ELOOP
                                                            : through_link(at, name, todo, done, &led);

                                if (r < 0)
                                        return r;
                                free(todo);
                                todo = led;
                                done = 0;
                                next = sr_image_root_open_directory(root, "");
                        }
                }
                sr_fd_close(at);
                at = next;
        }
        return sr_fd_steal(at);
}

int sr_image_root_find_parent(struct sr_image_root *root, const char *path, bool make, int *ret_fd,
                              const char **ret_name)
{
        const char *slash = strrchr(path, '/');
        size_t length = slash != NULL ? (size_t)(slash - path) : 0;

        if (!root->parent_valid || strlen(root->parent_path) != length ||
            memcmp(root->parent_path, path, length) != 0) {
                _cleanup_free_ char *parent = sr_memdup0(path, length);
                _cleanup_close_ int fd = sr_image_root_open_directory(root, parent);

                if (fd == -ENOENT && make)
                        fd = make_path(root, parent);
                if (fd < 0)
                        return fd;

                int r = inode_of(fd, &root->parent_inode);

                if (r < 0)
                        return r;
                free(root->parent_path);
                root->parent_path = sr_steal(parent);
                sr_fd_close(root->parent_fd);
                root->parent_fd = sr_fd_steal(fd);
                root->parent_valid = true;
        }
        *ret_fd = root->parent_fd;
        *ret_name = slash != NULL ? slash + 1 : path;
        return 0;
}

static int need_parent(struct sr_image_root *root, const char *path, int *ret_fd, const char **ret_name,
                       struct sr_error **error)
{
        int r = sr_image_root_find_parent(root, path, true, ret_fd, ret_name);

        return r < 0 ? sr_image_root_fail(error, -r, "the directory it is in cannot be made") : 0;
}

// Removes what stands in the way of a new entry.
static int make_room(struct sr_image_root *root, int parent, const char *name, struct sr_error **error)
{
        root->parent_valid = false;

        int r = sr_image_remove_tree(parent, name, error);

        return r < 0 ? sr_error_prefix(error, r, "what it replaces cannot be removed") : 0;
}

int sr_image_root_open(int fd, struct sr_image_root **ret, struct sr_error **error)
{
        _cleanup_root_ struct sr_image_root *root = sr_new(struct sr_image_root);

        *root = (struct sr_image_root){.fd = fd, .parent_fd = -1};

        _cleanup_close_ int probe = sr_image_root_open_directory(root, "");

        if (probe == -ENOSYS || probe == -EPERM)
                return sr_error_set(
                        error, SR_ERROR_HOST, -probe,
                        "the openat2 system call is missing or forbidden here, and without it an image "
                        "cannot be unpacked safely (Linux 5.6 or later is needed)");
        if (probe < 0)
                return sr_image_root_fail(error, -probe, "the root directory cannot be opened");

        _cleanup_strv_ char **names = NULL;
        int r = sr_image_read_names(fd, &names);

        if (r < 0)
                return sr_image_root_fail(error, -r, "the root directory cannot be read");
        root->fresh = names == NULL;
        *ret = sr_steal(root);
        return 0;
}

struct sr_image_root *sr_image_root_free(struct sr_image_root *root)
{
        if (root != NULL) {
                sr_image_placed_clear(&root->placed);
                free(root->parent_path);
                sr_fd_close(root->parent_fd);
                free(root);
        }
        return NULL;
}

void sr_image_root_freep(struct sr_image_root **root)
{
        *root = sr_image_root_free(*root);
}

int sr_image_root_file(struct sr_image_root *root, const char *path, int *ret_fd, struct sr_error **error)
{
        const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        const char *name;
        int parent, r = need_parent(root, path, &parent, &name, error);

        if (r < 0)
                return r;

        int fd = openat(parent, name, flags, S_IRUSR | S_IWUSR);

        if (fd < 0 && errno == EEXIST) {
                r = make_room(root, parent, name, error);
                if (r < 0)
                        return r;
                fd = openat(parent, name, flags, S_IRUSR | S_IWUSR);
        }
        if (fd < 0)
                return sr_image_root_fail(error, errno, "the file cannot be made");
        note_placed(root, root->parent_inode, name);
        *ret_fd = fd;
        return 0;
}

int sr_image_root_directory(struct sr_image_root *root, const char *path, mode_t mode,
                            struct sr_error **error)
{
        _cleanup_close_ int fd = -1;
        struct stat found;
        const char *name;
        int parent, r = need_parent(root, path, &parent, &name, error);

        if (r < 0)
                return r;
        r = mkdirat(parent, name, S_IRWXU) < 0 ? -errno : 0;
        if (r == -EEXIST) {
                r = fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
                if (r == 0 && !S_ISDIR(found.st_mode)) {
                        r = make_room(root, parent, name, error);
                        if (r < 0)
                                return r;
                        r = mkdirat(parent, name, S_IRWXU) < 0 ? -errno : 0;
                }
        }
        if (r < 0)
                return sr_image_root_fail(error, -r, "the directory cannot be made");
        note_placed(root, root->parent_inode, name);
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fchmod(fd, mode) < 0)
                return sr_image_root_fail(error, errno, "the directory's mode cannot be set");
        return 0;
}

int sr_image_root_symlink(struct sr_image_root *root, const char *path, const char *target,
                          struct sr_error **error)
{
        const char *name;
        int parent, r = need_parent(root, path, &parent, &name, error);

        if (r < 0)
                return r;
        r = symlinkat(target, parent, name) < 0 ? -errno : 0;
        if (r == -EEXIST) {
                r = make_room(root, parent, name, error);
                if (r < 0)
                        return r;
                r = symlinkat(target, parent, name) < 0 ? -errno : 0;
        }
        if (r < 0)
                return sr_image_root_fail(error, -r, "the symbolic link cannot be made");
        note_placed(root, root->parent_inode, name);
        return 0;
}

// Whether two names are of one file.
static bool same_file(int fd, const char *name, int other_fd, const char *other_name)
{
        struct stat one, other;

        return fstatat(fd, name, &one, AT_SYMLINK_NOFOLLOW) == 0 &&
               fstatat(other_fd, other_name, &other, AT_SYMLINK_NOFOLLOW) == 0 &&
               one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int sr_image_root_link(struct sr_image_root *root, const char *path, const char *target,
                       struct sr_error **error)
{
        const char *slash = strrchr(target, '/'), *target_name = slash != NULL ? slash + 1 : target, *name;
        _cleanup_free_ char *target_path = sr_memdup0(target, slash != NULL ? (size_t)(slash - target) : 0);
        _cleanup_close_ int from = sr_image_root_open_directory(root, target_path);
        struct stat found;
        int parent;

        if (from < 0 || fstatat(from, target_name, &found, AT_SYMLINK_NOFOLLOW) < 0)
                return sr_image_root_fail(error, from < 0 ? -from : errno,
                                          "the file that it is a hard link to is not there");
        if (S_ISDIR(found.st_mode))
                return sr_image_root_fail(error, EPERM, "it is a hard link to a directory");

        int r = need_parent(root, path, &parent, &name, error);

        if (r < 0)
                return r;
        r = linkat(from, target_name, parent, name, 0) < 0 ? -errno : 0;
        if (r == -EEXIST && same_file(from, target_name, parent, name))
                r = 0;
        if (r == -EEXIST) {
                r = make_room(root, parent, name, error);
                if (r < 0)
                        return r;
                r = linkat(from, target_name, parent, name, 0) < 0 ? -errno : 0;
        }
        if (r < 0)
                return sr_image_root_fail(error, -r, "the hard link cannot be made");
        note_placed(root, root->parent_inode, name);
        return 0;
}

int sr_image_root_read(const struct sr_image_root *root, const char *path, size_t limit, struct sr_buf *ret,
                       struct sr_error **error)
{
        // Opening a FIFO or a device must neither wait nor do anything.
        struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
        _cleanup_close_ int fd = sr_sys_openat2(root->fd, path, &how);
        struct stat found;

        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENXIO))
                return -ENOENT;
        if (fd < 0 || fstat(fd, &found) < 0)
                return sr_image_root_fail(error, errno, "the file cannot be opened");
        if (!S_ISREG(found.st_mode))
                return -ENOENT;

        int r = sr_fd_read_all(fd, limit, ret);

        return r < 0 ? sr_image_root_fail(error, -r, "the file cannot be read") : 0;
}

bool sr_image_root_is_absent(int r)
{
        return r == -ENOENT || r == -ENOTDIR;
}

int sr_image_root_remove(struct sr_image_root *root, const char *path, struct sr_error **error)
{
        const char *name;
        int parent, r = sr_image_root_find_parent(root, path, false, &parent, &name);

        if (sr_image_root_is_absent(r))
                return 0;
        if (r < 0)
                return sr_image_root_fail(error, -r, "the directory it is in cannot be opened");
        return make_room(root, parent, name, error);
}

int sr_image_root_set_time(struct sr_image_root *root, const char *path, bool directory,
                           struct timespec mtime, struct sr_error **error)
{
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime};
        const char *name;
        struct stat found;
        int parent, r = sr_image_root_find_parent(root, path, false, &parent, &name);

        if (sr_image_root_is_absent(r))
                return 0;
        if (r < 0)
                return sr_image_root_fail(error, -r, "the directory it is in cannot be opened");
        if (fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) < 0 ||
            (directory ? !S_ISDIR(found.st_mode) : !S_ISLNK(found.st_mode)))
                return 0;
        if (utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
                return sr_image_root_fail(error, errno, "its time cannot be set");
        return 0;
}
