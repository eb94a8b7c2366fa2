#include "image/archive.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "image/limits.h"
#include "image/text.h"

#define READ_SIZE (256 * 1024)

struct sr_image_archive {
        int fd;
        char *buffer;          // READ_SIZE bytes, what the decompressor was given last
        struct archive *bytes; // decompresses
        struct archive *tar;   // reads the tar format from it
        struct sr_digest *digest;
        uint64_t compressed, expanded, max_bytes;
        bool ended;               // the decompressor has given everything
        struct sr_error *trouble; // what went wrong inside a callback, in our words
        locale_t locale, before;
};

// Notes what went wrong in a callback, for the call of libarchive that it returns to.
__attribute__((format(printf, 3, 4))) static void note(struct sr_image_archive *archive, int errnum,
                                                       const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        if (archive->trouble == NULL) {
                _cleanup_free_ char *text = sr_vasprintf(format, arguments);

                (void)sr_error_set(&archive->trouble, SR_ERROR_IMAGE, errnum, "%s", text);
        }
        va_end(arguments);
}

static la_ssize_t read_compressed(struct archive *reader, void *context, const void **ret)
{
        struct sr_image_archive *archive = context;
        ssize_t n;

        do
                n = read(archive->fd, archive->buffer, READ_SIZE);
        while (n < 0 && errno == EINTR);
        if (n < 0) {
                note(archive, errno, "it cannot be read: %s", strerror(errno));
                archive_set_error(reader, errno, "read failed");
                return -1;
        }
        archive->compressed += (uint64_t)n;
        *ret = archive->buffer;
        return n;
}

// Gives the next uncompressed bytes, counted and digested. 0 at the end, -1 after note().
static la_ssize_t next_expanded(struct sr_image_archive *archive, const void **ret)
{
        la_int64_t offset;
        size_t length = 0;

        while (!archive->ended && length == 0) {
                int r = archive_read_data_block(archive->bytes, ret, &length, &offset);

                if (r == ARCHIVE_EOF) {
                        archive->ended = true;
                } else if (r != ARCHIVE_OK) {
                        const char *why = archive_error_string(archive->bytes);

                        note(archive, EBADMSG, "it cannot be decompressed: %s",
                             why != NULL ? why : "damaged data");
                        return -1;
                }
        }
        if (archive->ended)
                return 0;
        archive->expanded += length;
        if (archive->expanded > archive->max_bytes) {
                _cleanup_free_ char *size = sr_image_size_text(archive->max_bytes);

                note(archive, E2BIG, "it expands to more than the %s it may take", size);
                return -1;
        }
        if (archive->expanded > SR_IMAGE_RATIO_FREE_BYTES &&
            archive->expanded / SR_IMAGE_MAX_RATIO > archive->compressed) {
                note(archive, E2BIG,
                     "it expands to more than %d times its size, as only a decompression bomb does",
                     SR_IMAGE_MAX_RATIO);
                return -1;
        }
        if (archive->digest != NULL)
                sr_digest_update(archive->digest, *ret, length);
        return (la_ssize_t)length;
}

static la_ssize_t read_expanded(struct archive *reader, void *context, const void **ret)
{
        la_ssize_t n = next_expanded(context, ret);

        if (n < 0)
                archive_set_error(reader, EIO, "read failed");
        return n;
}

// Hands over what a callback noted, else what libarchive says.
static int fail(struct sr_image_archive *archive, struct archive *reader, struct sr_error **error)
{
        if (archive->trouble != NULL) {
                int r = -sr_error_get_errno(archive->trouble);

                if (error != NULL)
                        *error = sr_steal(archive->trouble);
                return r;
        }

        const char *why = archive_error_string(reader);
        _cleanup_free_ char *shown = sr_image_printable(why != NULL ? why : "damaged data");

        if (why != NULL && strstr(why, "Unrecognized archive format") != NULL)
                return sr_error_set(error, SR_ERROR_IMAGE, EBADMSG,
                                    "it is not a tar archive (plain, gzip and zstd are understood)");
        return sr_error_set(error, SR_ERROR_IMAGE, EBADMSG, "it is damaged: %s", shown);
}

static int open_readers(struct sr_image_archive *archive, struct sr_error **error)
{
        struct archive_entry *whole;
        int r;

        archive->bytes = archive_read_new();
        archive->tar = archive_read_new();
        if (archive->bytes == NULL || archive->tar == NULL)
                return sr_error_set(error, SR_ERROR_INTERNAL, ENOMEM, "no memory left to read an archive");
        // Named one by one: "all" includes decompressors that libarchive would start as programs.
        archive_read_support_filter_none(archive->bytes);
        archive_read_support_filter_gzip(archive->bytes);
        archive_read_support_filter_zstd(archive->bytes);
        archive_read_support_format_raw(archive->bytes);
        archive_read_support_format_empty(archive->bytes);
        archive_read_support_filter_none(archive->tar);
        archive_read_support_format_tar(archive->tar);
        archive_read_support_format_empty(archive->tar);
        r = archive_read_open(archive->bytes, archive, NULL, read_compressed, NULL);
        if (r == ARCHIVE_OK)
                r = archive_read_next_header(archive->bytes, &whole);
        if (r == ARCHIVE_EOF)
                archive->ended = true;
        else if (r != ARCHIVE_OK)
                return fail(archive, archive->bytes, error);
        if (archive_read_open(archive->tar, archive, NULL, read_expanded, NULL) != ARCHIVE_OK)
                return fail(archive, archive->tar, error);
        return 0;
}

int sr_image_archive_open(int fd, uint64_t max_bytes, struct sr_image_archive **ret, struct sr_error **error)
{
        _cleanup_archive_ struct sr_image_archive *archive = sr_new(struct sr_image_archive);

        archive->fd = fd;
        archive->max_bytes = max_bytes;
        archive->buffer = sr_calloc(READ_SIZE, 1);
        archive->digest = sr_digest_new();
        // In any other locale libarchive warns of every name that is not ASCII, and gives some as none. This
        // one is part of the C library, so that no file is read for it.
        archive->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        if (archive->locale != (locale_t)0)
                archive->before = uselocale(archive->locale);

        int r = open_readers(archive, error);

        if (r < 0)
                return r;
        *ret = sr_steal(archive);
        return 0;
}

struct sr_image_archive *sr_image_archive_close(struct sr_image_archive *archive)
{
        if (archive != NULL) {
                archive_read_free(archive->tar);
                archive_read_free(archive->bytes);
                if (archive->locale != (locale_t)0) {
                        uselocale(archive->before);
                        freelocale(archive->locale);
                }
                sr_digest_free(archive->digest);
                sr_error_free(archive->trouble);
                free(archive->buffer);
                free(archive);
        }
        return NULL;
}

void sr_image_archive_closep(struct sr_image_archive **archive)
{
        *archive = sr_image_archive_close(*archive);
}

int sr_image_archive_next(struct sr_image_archive *archive, struct archive_entry **ret,
                          struct sr_error **error)
{
        int r = archive_read_next_header(archive->tar, ret);

        if (r == ARCHIVE_EOF)
                return archive->trouble != NULL ? fail(archive, archive->tar, error) : 0;
        // A warning is about what we do not take from the entry, or leaves its name empty, which is seen
        // later.
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
                return fail(archive, archive->tar, error);
        return 1;
}

int sr_image_archive_data(struct sr_image_archive *archive, const void **ret_bytes, size_t *ret_length,
                          int64_t *ret_offset, struct sr_error **error)
{
        la_int64_t offset = 0;
        int r = archive_read_data_block(archive->tar, ret_bytes, ret_length, &offset);

        *ret_offset = offset;
        if (r == ARCHIVE_EOF)
                return 0;
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
                return fail(archive, archive->tar, error);
        return 1;
}

int sr_image_archive_finish(struct sr_image_archive *archive, char ret_hex[SR_DIGEST_HEX_LENGTH + 1],
                            uint64_t *ret_bytes, struct sr_error **error)
{
        const void *bytes;
        la_ssize_t n;

        while ((n = next_expanded(archive, &bytes)) > 0)
                continue;
        if (n < 0)
                return fail(archive, archive->bytes, error);

        int r = sr_digest_finish(archive->digest, ret_hex);

        if (r < 0)
                return sr_error_set(error, SR_ERROR_HOST, -r,
                                    "libcrypto cannot compute SHA-256 on this host");
        *ret_bytes = archive->expanded;
        return 0;
}
