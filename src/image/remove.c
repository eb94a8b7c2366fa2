#include "image/remove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/fd.h"
#include "image/limits.h"
#include "image/oci.h"
#include "image/ref.h"
#include "image/reference.h"
#include "image/tree_manifest.h"
#include "image/walk.h"
#include "image/work.h"

// Theory of operation: with the store locked for us alone, what is to go is only moved into a directory of
// ours in tmp/, which is quick however much it is; so that nobody waits for what takes long, the deleting,
// that is done when the store is no longer locked.
struct collection {
        struct sr_image_writer *writer;
        struct sr_image_work *removed;
        size_t taken; // how many things are in it
        int store_fd;
        char **trees, **blobs; // hex digits of what is needed
        struct sr_image_freed freed;
};

static bool contains(char *const *list, const char *hex)
{
        for (size_t i = 0; list != NULL && list[i] != NULL; i++)
                if (strcmp(list[i], hex) == 0)
                        return true;
        return false;
}

static void keep_blob(struct collection *collection, const char *digest)
{
        sr_strv_append(&collection->blobs, sr_strdup(sr_digest_hex(digest)));
}

// Keeps what the manifest of an image names. One that is gone or damaged names nothing: the tree is what is
// run.
static void keep_manifest(struct collection *collection, const char *digest)
{
        _cleanup_free_ char *path = sr_asprintf("blobs/sha256/%s", sr_digest_hex(digest));
        _cleanup_manifest_ struct sr_image_manifest manifest = {0};
        _cleanup_buf_ struct sr_buf text = {0};

        keep_blob(collection, digest);
        if (sr_fd_read_file(collection->store_fd, path, SR_IMAGE_MAX_JSON_BYTES, &text) < 0 ||
            sr_image_manifest_parse(&text, &manifest, NULL) < 0)
                return;
        keep_blob(collection, manifest.config.digest);
        for (size_t i = 0; i < manifest.layer_count; i++)
                keep_blob(collection, manifest.layers[i].digest);
}

static int list_names(struct collection *collection, const char *directory, int *ret_fd, char ***ret,
                      struct sr_error **error)
{
        _cleanup_close_ int fd = openat(collection->store_fd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = fd < 0 ? -errno : sr_image_read_names(fd, ret);

        if (r < 0)
                return sr_error_set(error, SR_ERROR_HOST, -r, "%s/%s cannot be read: %s",
                                    sr_image_writer_path(collection->writer), directory, strerror(-r));
        *ret_fd = sr_fd_steal(fd);
        return 0;
}

static int mark(struct collection *collection, struct sr_error **error)
{
        _cleanup_close_ int fd = -1;
        _cleanup_strv_ char **names = NULL;
        int r = list_names(collection, "refs", &fd, &names, error);

        for (size_t i = 0; r == 0 && names != NULL && names[i] != NULL; i++) {
                _cleanup_free_ char *reference = sr_image_ref_from_name(names[i]);
                _cleanup_image_ struct sr_image *image = NULL;

                if (reference == NULL)
                        continue;
                r = sr_image_ref_read(collection->store_fd, sr_image_writer_path(collection->writer),
                                      reference, &image, error);
                if (r == -ENOENT) {
                        r = 0;
                } else if (r == 0) {
                        sr_strv_append(&collection->trees, sr_strdup(image->chain_id));
                        keep_manifest(collection, image->digest);
                }
        }
        return r < 0 ? sr_error_prefix(error, r, "no space was freed") : 0;
}

// Moves a tree or a blob out of its place at once, so that no half of one is ever found there.
static int take_away(struct collection *collection, int fd, const char *name, const char *what,
                     struct sr_error **error)
{
        _cleanup_free_ char *to = sr_asprintf("%zu", collection->taken++);

        if (renameat(fd, name, sr_image_work_fd(collection->removed), to) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "the %s %s cannot be removed: %s", what,
                                    name, strerror(errno));
        return 0;
}

static int sweep_trees(struct collection *collection, struct sr_error **error)
{
        _cleanup_close_ int fd = -1;
        _cleanup_strv_ char **names = NULL;
        int r = list_names(collection, "trees", &fd, &names, error);

        for (size_t i = 0; r == 0 && names != NULL && names[i] != NULL; i++) {
                if (!sr_digest_hex_valid(names[i], strlen(names[i])) || contains(collection->trees, names[i]))
                        continue;

                _cleanup_close_ int tree =
                        openat(fd, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                int64_t size = 0;

                if (tree >= 0)
                        (void)sr_image_tree_manifest_size(tree, &size);
                r = take_away(collection, fd, names[i], "root file system", error);
                if (r == 0) {
                        collection->freed.trees++;
                        collection->freed.bytes += (uint64_t)size;
                }
        }
        return r;
}

static int sweep_blobs(struct collection *collection, struct sr_error **error)
{
        _cleanup_close_ int fd = -1;
        _cleanup_strv_ char **names = NULL;
        int r = list_names(collection, "blobs/sha256", &fd, &names, error);

        for (size_t i = 0; r == 0 && names != NULL && names[i] != NULL; i++) {
                struct stat found;

                if (contains(collection->blobs, names[i]) ||
                    fstatat(fd, names[i], &found, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                r = take_away(collection, fd, names[i], "blob", error);
                if (r == 0) {
                        collection->freed.blobs++;
                        collection->freed.bytes += (uint64_t)found.st_size;
                }
        }
        return r;
}

int sr_image_collect(const char *store_directory, struct sr_image_freed *ret, struct sr_error **error)
{
        _cleanup_writer_ struct sr_image_writer *writer = NULL;
        _cleanup_error_ struct sr_error *busy = NULL;
        struct collection collection = {0};
        int r = sr_image_writer_open(store_directory, LOCK_EX, &writer, &busy);

        if (r == -EBUSY) {
                *ret = (struct sr_image_freed){.postponed = true};
                return 0;
        }
        if (r < 0) {
                if (error != NULL)
                        *error = sr_steal(busy);
                return r;
        }
        collection.writer = writer;
        collection.store_fd = sr_image_writer_fd(writer);
        r = mark(&collection, error);
        if (r == 0)
                r = sr_image_work_open_unique(writer, "removed", &collection.removed, error);
        if (r == 0)
                r = sweep_trees(&collection, error);
        if (r == 0)
                r = sweep_blobs(&collection, error);
        sr_image_writer_unlock(writer);
        collection.removed = sr_image_work_close(collection.removed);
        sr_strv_free(collection.trees);
        sr_strv_free(collection.blobs);
        if (r == 0)
                *ret = collection.freed;
        return r;
}

// Removes the reference file, and writes that to disk. -ENOENT without a message when there is none.
static int remove_reference(const char *store_directory, const char *familiar, struct sr_error **error)
{
        _cleanup_close_ int fd = open(store_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int refs_fd = -1;
        _cleanup_free_ char *path = sr_image_ref_path(familiar);

        if (fd < 0 && errno == ENOENT)
                return -ENOENT;
        if (fd < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "the image store %s cannot be opened: %s",
                                    store_directory, strerror(errno));

        int r = sr_image_store_check_format(fd, store_directory, error);

        if (r < 0)
                return r;
        if (unlinkat(fd, path, 0) < 0) {
                if (errno == ENOENT || errno == ENAMETOOLONG)
                        return -ENOENT;
                return sr_error_set(error, SR_ERROR_HOST, errno, "%s/%s cannot be removed: %s",
                                    store_directory, path, strerror(errno));
        }
        refs_fd = openat(fd, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (refs_fd >= 0)
                (void)fsync(refs_fd);
        return 0;
}

int sr_image_remove(const char *store_directory, const char *reference, struct sr_image_freed *ret,
                    struct sr_error **error)
{
        _cleanup_free_ char *familiar = NULL;
        int r = sr_image_reference_normalise(reference, &familiar, error);

        if (r < 0)
                return r;
        r = remove_reference(store_directory, familiar, error);
        if (r == -ENOENT)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, ENOENT,
                        "there is no image %s in the store %s (`sandbox-runner image list` shows what "
                        "there is)",
                        familiar, store_directory);
        if (r < 0)
                return r;
        r = sr_image_collect(store_directory, ret, error);
        return r < 0 ? sr_error_prefix(error, r, "%s was removed, but", familiar) : 0;
}
