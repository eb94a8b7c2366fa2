#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/limits.h"
#include "image/skeleton.h"
#include "image/text.h"
#include "image/tree_manifest.h"

// Finds the tree in the store. -ENOENT without a message when it is not there.
static int find_tree(struct sr_image_writer *writer, const char *chain_id, int64_t *ret_size)
{
        _cleanup_free_ char *path = sr_asprintf("trees/%s", chain_id);
        _cleanup_close_ int fd = openat(sr_image_writer_fd(writer), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || sr_image_tree_manifest_size(fd, ret_size) < 0)
                return -ENOENT;
        return faccessat(fd, "rootfs", F_OK, AT_SYMLINK_NOFOLLOW) < 0 ? -ENOENT : 0;
}

// Makes the directory name with exactly this mode, whatever the umask. A descriptor or a negative errno.
static int make_directory(int fd, const char *name, mode_t mode, struct sr_error **error)
{
        _cleanup_close_ int made = -1;

        if (mkdirat(fd, name, mode) == 0)
                made = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (made < 0 || fchmod(made, mode) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno,
                                    "the directory for the root file system cannot be "
                                    "made: %s",
                                    strerror(errno));
        return sr_fd_steal(made);
}

// Who owns a tree: its top and what is unpacked belong to whom the confined helper runs as. For an ordinary
// user that is himself. For root it is the first id of the sandboxes' range, while the skeleton's files and
// the directory around the tree are root's own. That is fine: a snippet runs as a later id of the range and
// sees the tree through a read-only mount.
static int unpack_layer(const struct sr_image_tree_request *request, size_t layer, int root_fd,
                        struct sr_image_layer_limits *limits, struct sr_error **error)
{
        _cleanup_close_ int fd = request->open_layer(request->context, layer, error);
        struct sr_image_layer_summary summary;
        struct stat found;
        int r;

        if (fd < 0)
                return fd;

        _cleanup_free_ char *size = sr_image_size_text(fstat(fd, &found) == 0 ? (uint64_t)found.st_size : 0);

        sr_image_report(request->progress, "unpacking layer %zu of %zu (%s)", layer + 1,
                        sr_strv_length(request->diff_ids), size);
        r = sr_image_unpack_layer_confined(request->confine, fd, root_fd, limits, &summary, error);
        if (r < 0)
                return r;
        if (strcmp(summary.diff_id, request->diff_ids[layer]) != 0)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, EBADMSG,
                        "it is not what the image's configuration says: its diff id is sha256:%s, and it "
                        "should be sha256:%s",
                        summary.diff_id, request->diff_ids[layer]);
        limits->bytes -= summary.bytes;
        limits->entries -= summary.entries;
        return 0;
}

static int unpack_layers(const struct sr_image_tree_request *request, int root_fd, struct sr_error **error)
{
        struct sr_image_layer_limits limits = {.bytes = SR_IMAGE_MAX_TREE_BYTES,
                                               .entries = SR_IMAGE_MAX_TREE_ENTRIES};

        for (size_t i = 0; request->diff_ids[i] != NULL; i++) {
                int r = unpack_layer(request, i, root_fd, &limits, error);

                if (r < 0)
                        return sr_error_prefix(error, r, "layer %zu", i + 1);
        }
        return 0;
}

static int fill_tree(const struct sr_image_tree_request *request, int work_fd, int64_t *ret_size,
                     struct sr_error **error)
{
        _cleanup_close_ int out_fd = make_directory(work_fd, "out", 0755, error);
        _cleanup_close_ int root_fd = out_fd < 0 ? -1 : make_directory(out_fd, "rootfs", 0755, error);
        int r = out_fd < 0 ? out_fd : root_fd < 0 ? -EIO : unpack_layers(request, root_fd, error);

        if (r < 0)
                return r;
        r = sr_image_skeleton_apply(root_fd, error);
        if (r < 0)
                return sr_error_prefix(error, r, "the root file system cannot be completed");
        r = sr_image_tree_manifest_write(root_fd, out_fd, ret_size, error);
        if (r < 0)
                return sr_error_prefix(error, r, "the root file system cannot be listed");
        return 0;
}

int sr_image_tree_make(struct sr_image_writer *writer, const struct sr_image_tree_request *request,
                       struct sr_image_tree *ret, struct sr_error **error)
{
        _cleanup_free_ char *name = sr_asprintf("tree-%s", request->chain_id);
        _cleanup_tree_ struct sr_image_tree tree = {0};

        if (find_tree(writer, request->chain_id, &tree.size) == 0) {
                *ret = tree;
                return 0;
        }

        int r = sr_image_work_open(writer, name, request->progress, &tree.work, NULL, error);

        if (r < 0)
                return r;
        // Whoever was waited for has probably made it.
        if (find_tree(writer, request->chain_id, &tree.size) == 0)
                tree.work = sr_image_work_close(tree.work);
        else
                r = fill_tree(request, sr_image_work_fd(tree.work), &tree.size, error);
        if (r < 0)
                return r;
        *ret = tree;
        tree = (struct sr_image_tree){0};
        return 0;
}

int sr_image_tree_publish(struct sr_image_writer *writer, const char *chain_id, struct sr_image_tree *tree,
                          struct sr_error **error)
{
        _cleanup_free_ char *path = sr_asprintf("trees/%s", chain_id);
        bool there;

        if (tree->work == NULL)
                return 0;

        int r = sr_image_publish(writer, tree->work, "out", path, &there, error);

        if (r == 0 && there) {
                // It was not whole (see find_tree), so that nothing uses it; it goes where leftovers go.
                r = renameat(sr_image_writer_fd(writer), path, sr_image_work_fd(tree->work), "old") < 0
                            ? -errno
                            : 0;
                if (r < 0)
                        return sr_error_set(error, SR_ERROR_HOST, -r,
                                            "the damaged %s/%s cannot be moved away: %s",
                                            sr_image_writer_path(writer), path, strerror(-r));
                r = sr_image_publish(writer, tree->work, "out", path, NULL, error);
        }
        tree->work = sr_image_work_close(tree->work);
        return r;
}

void sr_image_tree_clear(struct sr_image_tree *tree)
{
        tree->work = sr_image_work_close(tree->work);
}
