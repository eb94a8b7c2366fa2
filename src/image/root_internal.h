// What the files of the root module share; see root.h.
#pragma once

#include "image/placed.h"
#include "image/root.h"

struct sr_image_root {
        int fd;
        bool fresh;                    // was empty, so that no lower layer has put anything there
        struct sr_image_placed placed; // unused while fresh
        // The parent found last: archives list a directory's entries together.
        char *parent_path;
        int parent_fd;
        ino_t parent_inode;
        bool parent_valid; // false once something was removed that the path might have led through
};

// Says that what failed with errnum. Returns -errnum.
int sr_image_root_fail(struct sr_error **error, int errnum, const char *what);
// Opens the directory path ("" for the root). A descriptor or a negative errno.
int sr_image_root_open_directory(const struct sr_image_root *root, const char *path);
// Finds the directory that path is in, and its last component. The descriptor is the root's own and good
// until the next call. -ENOENT when it is missing and not to be made.
int sr_image_root_find_parent(struct sr_image_root *root, const char *path, bool make, int *ret_fd,
                              const char **ret_name);
// Whether an error of sr_image_root_find_parent means that there is nothing at the path.
bool sr_image_root_is_absent(int r);
