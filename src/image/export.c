#include "image/export.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/json.h"
#include "image/limits.h"
#include "image/oci.h"
#include "image/walk.h"

#define LAYOUT "{\"imageLayoutVersion\":\"1.0.0\"}"

static int fail(const char *path, const char *what, int errnum, struct sr_error **error)
{
        return sr_error_set(error, SR_ERROR_HOST, errnum, "%s cannot be %s: %s", path, what,
                            strerror(errnum));
}

// The directory of the store that image is in, from its tree: "<store>/trees/<chain id>/rootfs".
static int open_store(const struct sr_image *image, struct sr_error **error)
{
        _cleanup_free_ char *path = sr_asprintf("%s/../../..", image->tree);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? fail(path, "opened", errno, error) : fd;
}

static int make_target(const char *path, struct sr_error **error)
{
        static const char *const parts[] = {"blobs", "blobs/sha256"};
        _cleanup_close_ int fd = -1;
        _cleanup_strv_ char **names = NULL;
        int r;

        if (mkdir(path, 0755) < 0 && errno != EEXIST)
                return fail(path, "made", errno, error);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -errno : sr_image_read_names(fd, &names);
        if (r < 0)
                return fail(path, "opened", -r, error);
        if (names != NULL)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, ENOTEMPTY,
                                    "%s is not empty; name a directory that is, or does not exist yet", path);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                if (mkdirat(fd, parts[i], 0755) < 0)
                        return fail(path, "written to", errno, error);
        return sr_fd_steal(fd);
}

static int write_file(int fd, const char *path, const char *bytes, size_t length, struct sr_error **error)
{
        _cleanup_close_ int file = openat(fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        int r = file < 0 ? -errno : sr_fd_write_all(file, bytes, length);

        return r < 0 ? fail(path, "written", -r, error) : 0;
}

static int copy_blob(int from_fd, int to_fd, const char *digest, struct sr_error **error)
{
        _cleanup_free_ char *path = sr_asprintf("blobs/sha256/%s", sr_digest_hex(digest));
        _cleanup_close_ int from = openat(from_fd, path, O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int to =
                from < 0 ? -1 : openat(to_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        if (to < 0 && from >= 0 && errno == EEXIST) // two layers of an image may be one blob
                return 0;
        if (from < 0 || to < 0)
                return fail(path, from < 0 ? "read" : "written", errno, error);
        for (;;) {
                ssize_t n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0);

                if (n == 0)
                        return 0;
                if (n > 0 || errno == EINTR)
                        continue;
                if (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
                        return fail(path, "copied", errno, error);
                break;
        }

        // The kernel does not copy between these file systems.
        _cleanup_free_ char *buffer = sr_calloc(1, 256 * 1024);
        ssize_t n;

        while ((n = read(from, buffer, 256 * 1024)) != 0) {
                int r = n < 0 ? -errno : sr_fd_write_all(to, buffer, (size_t)n);

                if (r < 0 && r != -EINTR)
                        return fail(path, "copied", -r, error);
        }
        return 0;
}

static void write_index(const struct sr_image *image, const char *media_type, size_t size, struct sr_buf *out)
{
        struct sr_json_writer w = {.out = out, .first = true};

        sr_json_open_object(&w, NULL);
        sr_json_integer(&w, "schemaVersion", 2);
        sr_json_string(&w, "mediaType", SR_MEDIA_TYPE_INDEX);
        sr_json_open_array(&w, "manifests");
        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "mediaType", media_type != NULL ? media_type : SR_MEDIA_TYPE_MANIFEST);
        sr_json_string(&w, "digest", image->digest);
        sr_json_integer(&w, "size", (int64_t)size);
        sr_json_open_object(&w, "annotations");
        sr_json_string(&w, "org.opencontainers.image.ref.name", image->reference);
        sr_json_close_object(&w);
        sr_json_close_object(&w);
        sr_json_close_array(&w);
        sr_json_close_object(&w);
}

int sr_image_export(const struct sr_image *image, const char *path, struct sr_error **error)
{
        _cleanup_close_ int store = open_store(image, error);
        _cleanup_close_ int target = store < 0 ? -1 : make_target(path, error);
        _cleanup_free_ char *manifest_path = sr_asprintf("blobs/sha256/%s", sr_digest_hex(image->digest));
        _cleanup_manifest_ struct sr_image_manifest manifest = {0};
        _cleanup_buf_ struct sr_buf text = {0}, index = {0};
        int r;

        if (store < 0 || target < 0)
                return -EIO;
        r = sr_fd_read_file(store, manifest_path, SR_IMAGE_MAX_JSON_BYTES, &text);
        if (r < 0)
                return fail("the image's manifest", "read", -r, error);
        r = sr_image_manifest_parse(&text, &manifest, error);
        if (r < 0)
                return sr_error_prefix(error, r, "the image's manifest");
        r = copy_blob(store, target, image->digest, error);
        if (r == 0)
                r = copy_blob(store, target, manifest.config.digest, error);
        for (size_t i = 0; r == 0 && i < manifest.layer_count; i++)
                r = copy_blob(store, target, manifest.layers[i].digest, error);
        if (r == 0)
                r = write_file(target, "oci-layout", LAYOUT, strlen(LAYOUT), error);
        write_index(image, manifest.media_type, text.len, &index);
        return r < 0 ? r : write_file(target, "index.json", index.data, index.len, error);
}
