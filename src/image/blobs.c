#include "image/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/limits.h"
#include "image/text.h"
#include "sys/beneath.h"

#define BLOBS     "blobs/sha256/"
#define STAGE     "stage/"
#define COPY_SIZE (256 * 1024)

// A blob of the store that was read to see whether it is what its name says.
struct checked {
        char *hex;
        int64_t size; // -1: it is damaged
};

struct sr_image_blobs {
        struct sr_image_writer *writer;
        const struct sr_image_work *work;
        int source_fd;
        char **pending; // hex digits of what is to be moved from the stage into the store
        struct checked *checked;
        size_t checked_count, checked_room;
        char *buffer; // COPY_SIZE bytes
};

struct sr_image_blob_writer {
        struct sr_image_blobs *blobs;
        char hex[SR_DIGEST_HEX_LENGTH + 1];
        int64_t size, written;
        int fd;
        struct sr_digest *digest;
};

int sr_image_blobs_open(struct sr_image_writer *writer, const struct sr_image_work *work, int source_fd,
                        struct sr_image_blobs **ret, struct sr_error **error)
{
        if (mkdirat(sr_image_work_fd(work), "stage", 0755) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno,
                                    "a directory of the image store cannot be made: %s", strerror(errno));

        struct sr_image_blobs *blobs = sr_new(struct sr_image_blobs);

        *blobs = (struct sr_image_blobs){.writer = writer, .work = work, .source_fd = source_fd};
        blobs->buffer = sr_calloc(COPY_SIZE, 1);
        *ret = blobs;
        return 0;
}

struct sr_image_blobs *sr_image_blobs_close(struct sr_image_blobs *blobs)
{
        if (blobs != NULL) {
                sr_strv_free(blobs->pending);
                for (size_t i = 0; i < blobs->checked_count; i++)
                        free(blobs->checked[i].hex);
                free(blobs->checked);
                free(blobs->buffer);
                free(blobs);
        }
        return NULL;
}

void sr_image_blobs_closep(struct sr_image_blobs **blobs)
{
        *blobs = sr_image_blobs_close(*blobs);
}

static int refuse_digest(int r, struct sr_error **error)
{
        return sr_error_set(error, SR_ERROR_HOST, -r, "libcrypto cannot compute SHA-256 on this host");
}

// The size of the regular file directory_fd/prefix<hex>, or -1.
static int64_t find_size(int directory_fd, const char *prefix, const char *hex)
{
        _cleanup_free_ char *path = sr_asprintf("%s%s", prefix, hex);
        struct stat found;

        if (fstatat(directory_fd, path, &found, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(found.st_mode))
                return -1;
        return found.st_size;
}

// Reads the rest of fd.
static int digest_file(struct sr_image_blobs *blobs, int fd, const char *name,
                       char ret_hex[SR_DIGEST_HEX_LENGTH + 1], struct sr_error **error)
{
        _cleanup_digest_ struct sr_digest *digest = sr_digest_new();
        ssize_t n;

        while ((n = read(fd, blobs->buffer, COPY_SIZE)) != 0) {
                if (n < 0 && errno != EINTR)
                        return sr_error_set(error, SR_ERROR_HOST, errno, "%s cannot be read: %s", name,
                                            strerror(errno));
                if (n > 0)
                        sr_digest_update(digest, blobs->buffer, (size_t)n);
        }

        int r = sr_digest_finish(digest, ret_hex);

        return r < 0 ? refuse_digest(r, error) : 0;
}

static struct checked *find_checked(const struct sr_image_blobs *blobs, const char *hex)
{
        for (size_t i = 0; i < blobs->checked_count; i++)
                if (strcmp(blobs->checked[i].hex, hex) == 0)
                        return &blobs->checked[i];
        return NULL;
}

static void note_checked(struct sr_image_blobs *blobs, const char *hex, int64_t size)
{
        struct checked *before = find_checked(blobs, hex);

        if (before != NULL) {
                before->size = size;
                return;
        }
        if (blobs->checked_count == blobs->checked_room) {
                blobs->checked_room = blobs->checked_room > 0 ? blobs->checked_room * 2 : 16;
                blobs->checked = sr_realloc(blobs->checked, blobs->checked_room, sizeof(*blobs->checked));
        }
        blobs->checked[blobs->checked_count++] = (struct checked){.hex = sr_strdup(hex), .size = size};
}

// The size of the store's blob, or -1 when there is none or it is not what its name says: a disk or a crash
// may have damaged it since it came in, and this import may have a good one.
static int64_t size_in_store(struct sr_image_blobs *blobs, const char *hex)
{
        const struct checked *checked = find_checked(blobs, hex);
        char found[SR_DIGEST_HEX_LENGTH + 1];

        if (checked != NULL)
                return checked->size;

        _cleanup_free_ char *path = sr_asprintf(BLOBS "%s", hex);
        int64_t size = find_size(sr_image_writer_fd(blobs->writer), BLOBS, hex);
        _cleanup_close_ int fd = size < 0 ? -1
                                          : openat(sr_image_writer_fd(blobs->writer), path,
                                                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (size < 0)
                return -1;
        if (fd < 0 || digest_file(blobs, fd, path, found, NULL) < 0 || strcmp(found, hex) != 0)
                size = -1;
        note_checked(blobs, hex, size);
        return size;
}

static int64_t size_in_stage(const struct sr_image_blobs *blobs, const char *hex)
{
        return find_size(sr_image_work_fd(blobs->work), STAGE, hex);
}

static void note_pending(struct sr_image_blobs *blobs, const char *hex)
{
        for (size_t i = 0; blobs->pending != NULL && blobs->pending[i] != NULL; i++)
                if (strcmp(blobs->pending[i], hex) == 0)
                        return;
        sr_strv_append(&blobs->pending, sr_strdup(hex));
}

int sr_image_blob_begin(struct sr_image_blobs *blobs, const char *hex, int64_t size,
                        struct sr_image_blob_writer **ret, struct sr_error **error)
{
        _cleanup_blob_ struct sr_image_blob_writer *writer = NULL;
        int64_t stored = size_in_store(blobs, hex), staged = size_in_stage(blobs, hex);

        if (size < 0 ? stored >= 0 || staged >= 0 : stored == size || staged == size)
                return -EEXIST;
        writer = sr_new(struct sr_image_blob_writer);
        *writer = (struct sr_image_blob_writer){.blobs = blobs, .size = size};
        memcpy(writer->hex, hex, sizeof(writer->hex));
        writer->digest = sr_digest_new();
        writer->fd = openat(sr_image_work_fd(blobs->work), STAGE "partial",
                            O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (writer->fd < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno,
                                    "a file of the image store cannot be made: %s", strerror(errno));
        *ret = sr_steal(writer);
        return 0;
}

int sr_image_blob_append(struct sr_image_blob_writer *writer, const void *bytes, size_t length,
                         struct sr_error **error)
{
        const uint64_t most = writer->size >= 0 ? (uint64_t)writer->size : SR_IMAGE_MAX_BLOB_BYTES;

        if (length > most - (uint64_t)writer->written)
                return sr_error_set(error, SR_ERROR_IMAGE, EFBIG,
                                    "it is larger than the %" PRIu64 " bytes it %s", most,
                                    writer->size >= 0 ? "should have" : "may have");
        sr_digest_update(writer->digest, bytes, length);
        writer->written += (int64_t)length;

        int r = sr_fd_write_all(writer->fd, bytes, length);

        return r < 0 ? sr_error_set(error, SR_ERROR_HOST, -r, "it cannot be written to the image store: %s",
                                    strerror(-r))
                     : 0;
}

int sr_image_blob_end(struct sr_image_blob_writer *writer, struct sr_error **error)
{
        const int work_fd = sr_image_work_fd(writer->blobs->work);
        _cleanup_free_ char *path = sr_asprintf(STAGE "%s", writer->hex);
        char hex[SR_DIGEST_HEX_LENGTH + 1];
        int r;

        if (writer->size >= 0 && writer->written != writer->size)
                return sr_error_set(error, SR_ERROR_IMAGE, EBADMSG,
                                    "it is cut short: it has %" PRId64 " bytes and should have %" PRId64,
                                    writer->written, writer->size);
        r = sr_digest_finish(writer->digest, hex);
        if (r < 0)
                return refuse_digest(r, error);
        if (strcmp(hex, writer->hex) != 0)
                return sr_error_set(error, SR_ERROR_IMAGE, EBADMSG,
                                    "it is damaged: its digest is sha256:%s, and it should be sha256:%s", hex,
                                    writer->hex);
        if (renameat(work_fd, STAGE "partial", work_fd, path) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "it cannot be put in place: %s",
                                    strerror(errno));
        return 0;
}

struct sr_image_blob_writer *sr_image_blob_free(struct sr_image_blob_writer *writer)
{
        if (writer != NULL) {
                sr_fd_close(writer->fd);
                sr_digest_free(writer->digest);
                free(writer);
        }
        return NULL;
}

void sr_image_blob_freep(struct sr_image_blob_writer **writer)
{
        *writer = sr_image_blob_free(*writer);
}

// Opens a blob of the source. A descriptor or a negative errno.
static int open_source(struct sr_image_blobs *blobs, const char *hex, struct sr_error **error)
{
        const struct checked *stored = find_checked(blobs, hex);
        _cleanup_free_ char *path = sr_asprintf(BLOBS "%s", hex);
        _cleanup_close_ int fd = blobs->source_fd < 0 ? -ENOENT : sr_sys_open_beneath(blobs->source_fd, path);

        if (fd == -ENOENT)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, ENOENT, "blob sha256:%s is not in what is imported%s", hex,
                        stored != NULL && stored->size < 0 ? ", and that of the store is damaged" : "");
        if (fd == -EINVAL)
                return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "%s is no regular file", path);
        if (fd < 0)
                return sr_error_set(error, SR_ERROR_IMAGE, -fd, "%s cannot be read: %s", path, strerror(-fd));
        return sr_fd_steal(fd);
}

static int copy_from_source(struct sr_image_blobs *blobs, const char *hex, int64_t size,
                            struct sr_error **error)
{
        _cleanup_blob_ struct sr_image_blob_writer *writer = NULL;
        _cleanup_close_ int fd = open_source(blobs, hex, error);
        int r = fd < 0 ? fd : sr_image_blob_begin(blobs, hex, size, &writer, error);

        while (r == 0) {
                ssize_t n = read(fd, blobs->buffer, COPY_SIZE);

                if (n == 0)
                        return sr_image_blob_end(writer, error);
                if (n < 0 && errno != EINTR)
                        return sr_error_set(error, SR_ERROR_IMAGE, errno, "it cannot be read: %s",
                                            strerror(errno));
                if (n > 0)
                        r = sr_image_blob_append(writer, blobs->buffer, (size_t)n, error);
        }
        return r;
}

bool sr_image_blobs_have(const struct sr_image_blobs *blobs, const struct sr_image_descriptor *descriptor)
{
        const char *hex = sr_digest_hex(descriptor->digest);
        const struct checked *checked = find_checked(blobs, hex);

        return (checked != NULL && checked->size >= 0) || size_in_stage(blobs, hex) >= 0;
}

int sr_image_blobs_fetch(struct sr_image_blobs *blobs, const struct sr_image_descriptor *descriptor,
                         const char *what, struct sr_error **error)
{
        const char *hex = sr_digest_hex(descriptor->digest);
        int64_t staged = size_in_stage(blobs, hex);

        if (size_in_store(blobs, hex) == descriptor->size)
                return 0;
        if (staged >= 0 && staged != descriptor->size)
                return sr_error_set(error, SR_ERROR_IMAGE, EBADMSG,
                                    "%s has %" PRId64 " bytes and should have %" PRId64, what, staged,
                                    descriptor->size);
        if (staged < 0) {
                int r = copy_from_source(blobs, hex, descriptor->size, error);

                if (r < 0)
                        return sr_error_prefix(error, r, "%s", what);
        }
        note_pending(blobs, hex);
        return 0;
}

int sr_image_blobs_open_blob(struct sr_image_blobs *blobs, const char *digest, struct sr_error **error)
{
        const char *hex = sr_digest_hex(digest);
        bool staged = size_in_stage(blobs, hex) >= 0;
        _cleanup_free_ char *path = sr_asprintf("%s%s", staged ? STAGE : BLOBS, hex);
        int fd = openat(staged ? sr_image_work_fd(blobs->work) : sr_image_writer_fd(blobs->writer), path,
                        O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "blob %s cannot be opened: %s", digest,
                                    strerror(errno));
        return fd;
}

int sr_image_blobs_document(struct sr_image_blobs *blobs, const struct sr_image_descriptor *descriptor,
                            const char *what, struct sr_buf *ret, struct sr_error **error)
{
        char hex[SR_DIGEST_HEX_LENGTH + 1];
        int r;

        if ((uint64_t)descriptor->size > SR_IMAGE_MAX_JSON_BYTES) {
                _cleanup_free_ char *most = sr_image_size_text(SR_IMAGE_MAX_JSON_BYTES);

                return sr_error_set(error, SR_ERROR_IMAGE, E2BIG, "%s is larger than %s", what, most);
        }
        r = sr_image_blobs_fetch(blobs, descriptor, what, error);
        if (r < 0)
                return r;

        _cleanup_close_ int fd = sr_image_blobs_open_blob(blobs, descriptor->digest, error);

        if (fd < 0)
                return fd;
        r = sr_fd_read_all(fd, SR_IMAGE_MAX_JSON_BYTES, ret);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_HOST, -r, "%s cannot be read: %s", what, strerror(-r));
        r = sr_digest_of(ret->data != NULL ? ret->data : "", ret->len, hex);
        if (r < 0)
                return refuse_digest(r, error);
        if (strcmp(hex, sr_digest_hex(descriptor->digest)) != 0)
                return sr_error_set(error, SR_ERROR_IMAGE, EBADMSG,
                                    "%s is damaged: its digest is sha256:%s, not %s", what, hex,
                                    descriptor->digest);
        return 0;
}

int sr_image_blobs_add(struct sr_image_blobs *blobs, const struct sr_buf *bytes,
                       char ret_hex[SR_DIGEST_HEX_LENGTH + 1], struct sr_error **error)
{
        _cleanup_blob_ struct sr_image_blob_writer *writer = NULL;
        int r = sr_digest_of(bytes->data, bytes->len, ret_hex);

        if (r < 0)
                return refuse_digest(r, error);
        r = sr_image_blob_begin(blobs, ret_hex, (int64_t)bytes->len, &writer, error);
        if (r == -EEXIST)
                return 0;
        if (r == 0)
                r = sr_image_blob_append(writer, bytes->data, bytes->len, error);
        if (r == 0)
                r = sr_image_blob_end(writer, error);
        return r;
}

int sr_image_blobs_move(struct sr_image_blobs *blobs, int directory_fd, const char *name,
                        char ret_hex[SR_DIGEST_HEX_LENGTH + 1], int64_t *ret_size, struct sr_error **error)
{
        _cleanup_close_ int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat found;

        if (fd < 0 || fstat(fd, &found) < 0)
                return sr_error_set(error, SR_ERROR_IMAGE, errno, "%s cannot be opened: %s", name,
                                    strerror(errno));
        if (!S_ISREG(found.st_mode))
                return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "%s is no regular file", name);
        if ((uint64_t)found.st_size > SR_IMAGE_MAX_BLOB_BYTES)
                return sr_error_set(error, SR_ERROR_IMAGE, E2BIG, "%s is larger than an image may be", name);

        int r = digest_file(blobs, fd, name, ret_hex, error);

        if (r < 0)
                return r;

        _cleanup_free_ char *path = sr_asprintf(STAGE "%s", ret_hex);

        // A blob is for everybody who may read the store, whatever umask the file was made under.
        if (fchmod(fd, 0644) < 0 || renameat(directory_fd, name, sr_image_work_fd(blobs->work), path) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "%s cannot be put in place: %s", name,
                                    strerror(errno));
        *ret_size = found.st_size;
        return 0;
}

bool sr_image_blobs_pending(const struct sr_image_blobs *blobs)
{
        return blobs->pending != NULL && blobs->pending[0] != NULL;
}

int sr_image_blobs_publish(struct sr_image_blobs *blobs, struct sr_error **error)
{
        int r = 0;

        for (size_t i = 0; r == 0 && blobs->pending != NULL && blobs->pending[i] != NULL; i++) {
                _cleanup_free_ char *from = sr_asprintf(STAGE "%s", blobs->pending[i]);
                _cleanup_free_ char *to = sr_asprintf(BLOBS "%s", blobs->pending[i]);
                int64_t size = size_in_stage(blobs, blobs->pending[i]);

                r = sr_image_publish(blobs->writer, blobs->work, from, to, NULL, error);
                if (r == 0)
                        note_checked(blobs, blobs->pending[i], size);
        }
        blobs->pending = sr_strv_free(blobs->pending);
        return r;
}
