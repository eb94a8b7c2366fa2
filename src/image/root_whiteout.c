// Whiteouts: what lower layers put there goes, what this layer has put there stays.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "image/root_internal.h"
#include "image/walk.h"

static int prune_visit(void *context, const struct sr_walk_entry *entry, struct sr_error **error)
{
        const struct sr_image_root *root = context;

        if (S_ISDIR(entry->stat->st_mode) ||
            sr_image_placed_has(&root->placed, entry->parent_inode, entry->name))
                return 0;
        if (unlinkat(entry->parent_fd, entry->name, 0) < 0)
                return sr_image_root_fail(error, errno, "what it hides cannot be removed");
        return 0;
}

static int prune_leave(void *context, const struct sr_walk_entry *entry, struct sr_error **error)
{
        const struct sr_image_root *root = context;

        if (sr_image_placed_has(&root->placed, entry->parent_inode, entry->name))
                return 0;
        // One that still holds something that this layer has put there stays.
        if (unlinkat(entry->parent_fd, entry->name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY &&
            errno != EEXIST)
                return sr_image_root_fail(error, errno, "what it hides cannot be removed");
        return 0;
}

static int prune_contents(struct sr_image_root *root, int fd, struct sr_error **error)
{
        struct sr_walk_visitor visitor = {.visit = prune_visit, .leave = prune_leave, .context = root};

        root->parent_valid = false;
        return sr_image_walk(fd, &visitor, error);
}

int sr_image_root_whiteout(struct sr_image_root *root, const char *path, struct sr_error **error)
{
        struct sr_walk_entry entry = {0};
        struct stat stat;
        int r = root->fresh ? -ENOENT
                            : sr_image_root_find_parent(root, path, false, &entry.parent_fd, &entry.name);

        if (sr_image_root_is_absent(r))
                return 0;
        if (r < 0)
                return sr_image_root_fail(error, -r, "the directory it is in cannot be opened");
        if (fstatat(entry.parent_fd, entry.name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT
                               ? 0
                               : sr_image_root_fail(error, errno, "what it hides cannot be looked at");
        entry.parent_inode = root->parent_inode;
        entry.stat = &stat;
        if (!S_ISDIR(stat.st_mode))
                return prune_visit(root, &entry, error);

        _cleanup_close_ int fd =
                openat(entry.parent_fd, entry.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return sr_image_root_fail(error, errno, "what it hides cannot be opened");
        r = prune_contents(root, fd, error);
        return r < 0 ? r : prune_leave(root, &entry, error);
}

int sr_image_root_opaque(struct sr_image_root *root, const char *path, struct sr_error **error)
{
        _cleanup_close_ int fd = root->fresh ? -ENOENT : sr_image_root_open_directory(root, path);

        if (sr_image_root_is_absent(fd))
                return 0;
        if (fd < 0)
                return sr_image_root_fail(error, -fd, "the directory it empties cannot be opened");
        return prune_contents(root, fd, error);
}
