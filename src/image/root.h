// A root file system that is being laid out from an archive somebody else wrote. Every name is resolved
// inside the root: absolute symbolic links and ".." stay in it, and the last component is never followed.
//
// It also remembers which names it has placed itself, so that a layer's whiteouts delete only what the layers
// below had put there. Nobody else may write to the root meanwhile.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/error.h"

struct sr_image_root;

// fd, the root directory, is borrowed until the root is freed.
int sr_image_root_open(int fd, struct sr_image_root **ret, struct sr_error **error);
struct sr_image_root *sr_image_root_free(struct sr_image_root *root);
void sr_image_root_freep(struct sr_image_root **root);
#define _cleanup_root_ __attribute__((cleanup(sr_image_root_freep)))

// Rewrites path (as an archive names it) in place: no leading or double slashes, no "." and "..". It may come
// out empty, which is the root itself. -EINVAL when it leaves the root, -ELOOP when it has more than
// SR_IMAGE_MAX_PATH_DEPTH components, both without a message.
int sr_image_path_clean(char *path);

// All that follow take clean, non-empty paths, and messages name what failed and not the path.

// Makes an empty regular file, in the place of whatever had its name, and gives a descriptor to write it by.
// Missing parents are made. The mode is 0600 until the caller sets another.
int sr_image_root_file(struct sr_image_root *root, const char *path, int *ret_fd, struct sr_error **error);
// Makes a directory, or takes the one that is there, with this mode. Whatever else had its name is replaced.
int sr_image_root_directory(struct sr_image_root *root, const char *path, mode_t mode,
                            struct sr_error **error);
int sr_image_root_symlink(struct sr_image_root *root, const char *path, const char *target,
                          struct sr_error **error);
// A second name for target, a clean path of a file that is no directory; the target's last component is not
// followed.
int sr_image_root_link(struct sr_image_root *root, const char *path, const char *target,
                       struct sr_error **error);
// Reads the regular file path of at most limit bytes, following links inside the root. -ENOENT without a
// message when there is none, -EFBIG when it is longer.
int sr_image_root_read(const struct sr_image_root *root, const char *path, size_t limit, struct sr_buf *ret,
                       struct sr_error **error);
// Removes whatever has this name.
int sr_image_root_remove(struct sr_image_root *root, const char *path, struct sr_error **error);
// Whiteouts: removes what lower layers put at path, or everywhere inside the directory path ("" for the
// root).
int sr_image_root_whiteout(struct sr_image_root *root, const char *path, struct sr_error **error);
int sr_image_root_opaque(struct sr_image_root *root, const char *path, struct sr_error **error);
// Sets the modification time of path itself, if it is there and is a directory (directory) or a link.
int sr_image_root_set_time(struct sr_image_root *root, const char *path, bool directory,
                           struct timespec mtime, struct sr_error **error);
