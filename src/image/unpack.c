#include "image/unpack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/archive.h"
#include "image/json.h"
#include "image/limits.h"
#include "image/root.h"
#include "image/text.h"

#define WHITEOUT        ".wh."
#define WHITEOUT_META   ".wh..wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

// Paths of directories whose times are to be set at the end are kept up to this many bytes; the times of
// those after it are left to when they were unpacked.
#define MAX_TIMES_BYTES (64 * SR_IMAGE_MIB)

struct directory_time {
        char *path;
        struct timespec mtime;
};

struct unpack {
        struct sr_image_archive *archive;
        struct sr_image_root *root;
        const struct sr_image_layer_limits *limits;
        uint64_t entries, content;
        struct directory_time *times;
        size_t times_count, times_room, times_bytes;
};

static int refuse(struct sr_error **error, int errnum, const char *why)
{
        return sr_error_set(error, SR_ERROR_IMAGE, errnum, "%s", why);
}

static struct timespec entry_time(struct archive_entry *entry)
{
        return (struct timespec){.tv_sec = archive_entry_mtime(entry),
                                 .tv_nsec = archive_entry_mtime_nsec(entry)};
}

// Counts bytes of file content, holes included, against the limit.
static int count_content(struct unpack *unpack, uint64_t bytes, struct sr_error **error)
{
        if (bytes > unpack->limits->bytes - unpack->content) {
                _cleanup_free_ char *size = sr_image_size_text(unpack->limits->bytes);

                return sr_error_set(error, SR_ERROR_IMAGE, E2BIG,
                                    "with it the files take more than the %s they may", size);
        }
        unpack->content += bytes;
        return 0;
}

static int write_at(int fd, const char *bytes, size_t length, int64_t offset, struct sr_error **error)
{
        while (length > 0) {
                ssize_t n = pwrite(fd, bytes, length, offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return sr_error_set(error, SR_ERROR_HOST, errno, "the file cannot be written: %s",
                                            strerror(errno));
                bytes += n;
                offset += n;
                length -= (size_t)n;
        }
        return 0;
}

// Copies the entry's data to fd.
static int write_data(struct unpack *unpack, struct archive_entry *entry, int fd, struct sr_error **error)
{
        int64_t size = archive_entry_size(entry), end = 0, offset;
        const void *bytes;
        size_t length;
        int r = size < 0 ? refuse(error, EINVAL, "its size is negative")
                         : count_content(unpack, (uint64_t)size, error);

        if (r < 0)
                return r;
        while ((r = sr_image_archive_data(unpack->archive, &bytes, &length, &offset, error)) > 0) {
                if (offset < 0 || offset > size || length > (uint64_t)(size - offset))
                        return refuse(error, EINVAL, "its data goes past its size");
                r = write_at(fd, bytes, length, offset, error);
                if (r < 0)
                        return r;
                if (offset + (int64_t)length > end)
                        end = offset + (int64_t)length;
        }
        if (r == 0 && end < size && ftruncate(fd, size) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno,
                                    "the file cannot be made as long as it should be: %s", strerror(errno));
        return r;
}

static int place_file(struct unpack *unpack, struct archive_entry *entry, const char *path,
                      struct sr_error **error)
{
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, entry_time(entry)};
        const mode_t mode = (archive_entry_perm(entry) & 0777) | S_IRUSR | S_IWUSR;
        _cleanup_close_ int fd = -1;
        int r = sr_image_root_file(unpack->root, path, &fd, error);

        if (r == 0)
                r = write_data(unpack, entry, fd, error);
        if (r < 0)
                return r;
        if (fchmod(fd, mode) < 0 || (archive_entry_mtime_is_set(entry) && futimens(fd, times) < 0))
                return sr_error_set(error, SR_ERROR_HOST, errno, "its mode or time cannot be set: %s",
                                    strerror(errno));
        return 0;
}

// Notes when a directory is to have been changed: whatever is put into it later changes that time.
static void note_time(struct unpack *unpack, const char *path, struct timespec mtime)
{
        size_t length = strlen(path);

        if (length > MAX_TIMES_BYTES - unpack->times_bytes)
                return;
        unpack->times_bytes += length;
        if (unpack->times_count == unpack->times_room) {
                unpack->times_room = unpack->times_room > 0 ? unpack->times_room * 2 : 64;
                unpack->times = sr_realloc(unpack->times, unpack->times_room, sizeof(*unpack->times));
        }
        unpack->times[unpack->times_count++] =
                (struct directory_time){.path = sr_strdup(path), .mtime = mtime};
}

static int place_directory(struct unpack *unpack, struct archive_entry *entry, const char *path,
                           struct sr_error **error)
{
        const mode_t mode = (archive_entry_perm(entry) & (0777 | S_ISVTX)) | S_IRWXU;
        int r = sr_image_root_directory(unpack->root, path, mode, error);

        if (r == 0 && archive_entry_mtime_is_set(entry))
                note_time(unpack, path, entry_time(entry));
        return r;
}

static int place_symlink(struct unpack *unpack, struct archive_entry *entry, const char *path,
                         struct sr_error **error)
{
        const char *target = archive_entry_symlink(entry);

        if (target == NULL || *target == '\0')
                return refuse(error, EINVAL, "it is a symbolic link without a target");

        int r = sr_image_root_symlink(unpack->root, path, target, error);

        if (r == 0 && archive_entry_mtime_is_set(entry))
                r = sr_image_root_set_time(unpack->root, path, false, entry_time(entry), error);
        return r;
}

static int place_link(struct unpack *unpack, const char *target, const char *path, struct sr_error **error)
{
        _cleanup_free_ char *clean = sr_strdup(target);

        if (sr_image_path_clean(clean) < 0 || *clean == '\0')
                return refuse(error, EINVAL, "it is a hard link to something outside the image");
        return sr_image_root_link(unpack->root, path, clean, error);
}

static int place_by_type(struct unpack *unpack, struct archive_entry *entry, const char *path,
                         struct sr_error **error)
{
        const char *link = archive_entry_hardlink(entry);

        if (link != NULL)
                return place_link(unpack, link, path, error);
        switch (archive_entry_filetype(entry)) {
        case AE_IFREG:
                return place_file(unpack, entry, path, error);
        case AE_IFDIR:
                return place_directory(unpack, entry, path, error);
        case AE_IFLNK:
                return place_symlink(unpack, entry, path, error);
        case AE_IFCHR:
        case AE_IFBLK:
        case AE_IFIFO:
        case AE_IFSOCK:
                // Left out; yet what a lower layer has there is not what this one wants.
                return sr_image_root_remove(unpack->root, path, error);
        default:
                return refuse(error, EINVAL, "it is of a type that images do not have");
        }
}

// What a parent component that is named like a whiteout means for the entry below it.
enum inside { INSIDE_NOTHING, INSIDE_META, INSIDE_WHITEOUT };

static enum inside find_whiteout_parent(const char *path)
{
        enum inside found = INSIDE_NOTHING;

        for (const char *slash; (slash = strchr(path, '/')) != NULL; path = slash + 1) {
                if (strncmp(path, WHITEOUT_META, strlen(WHITEOUT_META)) == 0)
                        return INSIDE_META;
                if (strncmp(path, WHITEOUT, strlen(WHITEOUT)) == 0)
                        found = INSIDE_WHITEOUT;
        }
        return found;
}

// Applies the whiteout whose last component (at name in path) begins with ".wh.".
static int place_whiteout(struct unpack *unpack, char *path, char *name, struct sr_error **error)
{
        const char *hidden = name + strlen(WHITEOUT);

        if (strcmp(name, WHITEOUT_OPAQUE) == 0) {
                *(name > path ? name - 1 : name) = '\0';
                return sr_image_root_opaque(unpack->root, path, error);
        }
        if (strncmp(name, WHITEOUT_META, strlen(WHITEOUT_META)) == 0)
                return 0;
        if (*hidden == '\0' || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
                return refuse(error, EINVAL, "it is a whiteout of no file");

        _cleanup_free_ char *whole = sr_asprintf("%.*s%s", (int)(name - path), path, hidden);

        return sr_image_root_whiteout(unpack->root, whole, error);
}

static int place(struct unpack *unpack, struct archive_entry *entry, struct sr_error **error)
{
        const char *given = archive_entry_pathname(entry);
        _cleanup_free_ char *path = given != NULL ? sr_strdup(given) : NULL;
        int r = path != NULL ? sr_image_path_clean(path) : refuse(error, EINVAL, "it has no usable name");

        if (path == NULL)
                return r;
        if (r == -ELOOP)
                return sr_error_set(error, SR_ERROR_IMAGE, E2BIG, "its path is more than %d directories deep",
                                    SR_IMAGE_MAX_PATH_DEPTH);
        if (r < 0)
                return refuse(error, EINVAL, "its path leaves the image");
        if (*path == '\0') // the root itself, which is ours
                return 0;

        char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;

        switch (find_whiteout_parent(path)) {
        case INSIDE_META:
                return 0;
        case INSIDE_WHITEOUT:
                return refuse(error, EINVAL, "it is inside a whiteout");
        case INSIDE_NOTHING:
                break;
        }
        if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
                return place_whiteout(unpack, path, name, error);
        return place_by_type(unpack, entry, path, error);
}

static int place_all(struct unpack *unpack, struct sr_error **error)
{
        struct archive_entry *entry;
        int r;

        while ((r = sr_image_archive_next(unpack->archive, &entry, error)) > 0) {
                if (++unpack->entries > unpack->limits->entries)
                        return sr_error_set(error, SR_ERROR_IMAGE, E2BIG,
                                            "it holds more than the %llu entries it may",
                                            (unsigned long long)unpack->limits->entries);
                r = place(unpack, entry, error);
                if (r < 0) {
                        const char *path = archive_entry_pathname(entry);
                        _cleanup_free_ char *shown = sr_image_printable(path != NULL ? path : "");

                        return sr_error_prefix(error, r, "entry %llu, \"%s\"",
                                               (unsigned long long)unpack->entries, shown);
                }
        }
        return r;
}

// Backwards, as a directory comes before those in it.
static int set_times(struct unpack *unpack, struct sr_error **error)
{
        int r = 0;

        for (size_t i = unpack->times_count; i > 0 && r == 0; i--)
                r = sr_image_root_set_time(unpack->root, unpack->times[i - 1].path, true,
                                           unpack->times[i - 1].mtime, error);
        return r;
}

int sr_image_unpack_layer(int input_fd, int root_fd, const struct sr_image_layer_limits *limits,
                          struct sr_image_layer_summary *ret, struct sr_error **error)
{
        _cleanup_archive_ struct sr_image_archive *archive = NULL;
        _cleanup_root_ struct sr_image_root *root = NULL;
        struct unpack unpack = {.limits = limits};
        struct sr_image_layer_summary summary = {.entries = 0};
        int r = sr_image_archive_open(input_fd, limits->bytes, &archive, error);

        if (r == 0)
                r = sr_image_root_open(root_fd, &root, error);
        if (r < 0)
                return r;
        unpack.archive = archive;
        unpack.root = root;
        r = place_all(&unpack, error);
        if (r == 0)
                r = set_times(&unpack, error);
        if (r == 0)
                r = sr_image_archive_finish(archive, summary.diff_id, &summary.bytes, error);
        for (size_t i = 0; i < unpack.times_count; i++)
                free(unpack.times[i].path);
        free(unpack.times);
        if (r < 0)
                return r;
        summary.entries = unpack.entries;
        *ret = summary;
        return 0;
}
