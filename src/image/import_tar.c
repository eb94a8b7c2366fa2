// A tar archive of an image layout is read once, from front to back, as it may be a pipe: its blobs, of which
// the index that tells what they are may come last, are all staged; those that no image needs go with the
// stage.
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "image/archive.h"
#include "image/import.h"
#include "image/limits.h"
#include "image/root.h"
#include "image/text.h"

#define BLOBS "blobs/sha256/"

struct reading {
        struct sr_image_archive *archive;
        struct sr_image_blobs *blobs;
        const struct sr_image_progress *progress;
        struct sr_buf index;
        bool has_index, has_layout, is_docker_archive;
};

// Reads the entry, a document, into *ret.
static int read_document(struct reading *reading, struct sr_buf *ret, struct sr_error **error)
{
        const void *bytes;
        size_t length;
        int64_t offset;
        int r;

        sr_buf_clear(ret);
        while ((r = sr_image_archive_data(reading->archive, &bytes, &length, &offset, error)) > 0) {
                if (ret->len + length > SR_IMAGE_MAX_JSON_BYTES || offset != (int64_t)ret->len)
                        return sr_error_set(error, SR_ERROR_IMAGE, E2BIG,
                                            "it is larger than such a document may be");
                sr_buf_append(ret, bytes, length);
        }
        return r;
}

static int check_layout(struct reading *reading, struct sr_error **error)
{
        _cleanup_buf_ struct sr_buf text = {0};
        int r = read_document(reading, &text, error);

        reading->has_layout = true;
        return r < 0 ? r : sr_image_layout_check(&text, error);
}

static int stage_blob(struct reading *reading, struct archive_entry *entry, const char *hex,
                      struct sr_error **error)
{
        static const char zeros[4096];
        _cleanup_blob_ struct sr_image_blob_writer *writer = NULL;
        const void *bytes;
        size_t length;
        int64_t size = archive_entry_size(entry), at = 0, offset;
        int r = sr_image_blob_begin(reading->blobs, hex, -1, &writer, error);

        if (r == -EEXIST)
                return 0;

        _cleanup_free_ char *size_text = sr_image_size_text(size > 0 ? (uint64_t)size : 0);

        if (size >= 1000000)
                sr_image_report(reading->progress, "reading blob %.12s (%s)", hex, size_text);
        while (r == 0 && (r = sr_image_archive_data(reading->archive, &bytes, &length, &offset, error)) > 0) {
                r = 0;
                // A sparse entry: holes are zeros.
                for (; r == 0 && at < offset; at += (int64_t)sizeof(zeros))
                        r = sr_image_blob_append(writer, zeros,
                                                 offset - at < (int64_t)sizeof(zeros) ? (size_t)(offset - at)
                                                                                      : sizeof(zeros),
                                                 error);
                if (r == 0)
                        r = sr_image_blob_append(writer, bytes, length, error);
                at = offset + (int64_t)length;
        }
        return r < 0 ? r : sr_image_blob_end(writer, error);
}

static int read_entry(struct reading *reading, struct archive_entry *entry, const char *path,
                      struct sr_error **error)
{
        if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != NULL)
                return 0;
        if (strcmp(path, "oci-layout") == 0)
                return check_layout(reading, error);
        if (strcmp(path, "index.json") == 0) {
                reading->has_index = true;
                return read_document(reading, &reading->index, error);
        }
        if (strcmp(path, "manifest.json") == 0)
                reading->is_docker_archive = true;
        if (strncmp(path, BLOBS, strlen(BLOBS)) == 0 &&
            sr_digest_hex_valid(path + strlen(BLOBS), strlen(path + strlen(BLOBS))))
                return stage_blob(reading, entry, path + strlen(BLOBS), error);
        return 0;
}

static int read_all(struct reading *reading, struct sr_error **error)
{
        struct archive_entry *entry;
        uint64_t entries = 0;
        int r;

        while ((r = sr_image_archive_next(reading->archive, &entry, error)) > 0) {
                const char *given = archive_entry_pathname(entry);
                _cleanup_free_ char *path = sr_strdup(given != NULL ? given : "");

                if (++entries > SR_IMAGE_MAX_TREE_ENTRIES)
                        return sr_error_set(error, SR_ERROR_IMAGE, E2BIG, "it has too many entries");
                if (sr_image_path_clean(path) < 0)
                        continue; // no name of a layout
                r = read_entry(reading, entry, path, error);
                if (r < 0) {
                        _cleanup_free_ char *shown = sr_image_printable(path);

                        return sr_error_prefix(error, r, "%s", shown);
                }
        }
        if (r == 0 && !reading->has_index && reading->is_docker_archive)
                return sr_error_set(error, SR_ERROR_IMAGE, ENOTSUP,
                                    "it is an archive of `docker save` in its old format; convert it with "
                                    "`skopeo copy docker-archive:FILE oci-archive:NEW-FILE`");
        if (r == 0 && (!reading->has_index || !reading->has_layout))
                return sr_error_set(error, SR_ERROR_IMAGE, EINVAL,
                                    "it is not an archive of an OCI image layout: it has no %s",
                                    reading->has_index ? "oci-layout" : "index.json");
        return r;
}

int sr_image_import_read_tar(struct sr_image_blobs *blobs, int fd, const struct sr_image_progress *progress,
                             struct sr_buf *ret_index, struct sr_error **error)
{
        _cleanup_archive_ struct sr_image_archive *archive = NULL;
        struct reading reading = {.blobs = blobs, .progress = progress};
        int r = sr_image_archive_open(fd, SR_IMAGE_MAX_TREE_BYTES, &archive, error);

        reading.archive = archive;
        if (r == 0)
                r = read_all(&reading, error);
        if (r < 0) {
                sr_buf_clear(&reading.index);
                return r;
        }
        *ret_index = reading.index;
        return 0;
}
