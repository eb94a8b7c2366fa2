// Walking a tree that somebody else laid out: by descriptors and names, never by path, never through a
// symbolic link, without recursion and with two descriptors open however deep it goes.
#pragma once

#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"

struct sr_walk_entry {
        int parent_fd; // the directory it is in
        ino_t parent_inode;
        const char *name;        // its name there
        const char *path;        // from the top of the walk, without a leading slash
        const struct stat *stat; // not followed
};

struct sr_walk_visitor {
        // Called for each entry, for a directory before its contents (which are read after it returns).
        int (*visit)(void *context, const struct sr_walk_entry *entry, struct sr_error **error);
        // Called for each directory after its contents; may be NULL.
        int (*leave)(void *context, const struct sr_walk_entry *entry, struct sr_error **error);
        void *context;
};

// Visits everything below the directory open as fd (which may be O_PATH), names of a directory in byte order.
// Entries may vanish while it walks. Stops at the first failure of a visitor and returns it.
int sr_image_walk(int fd, const struct sr_walk_visitor *visitor, struct sr_error **error);

// Removes parent_fd/name, whatever it is, with everything in it. 0 too when there is no such thing.
int sr_image_remove_tree(int parent_fd, const char *name, struct sr_error **error);
// Removes everything in the directory open as fd.
int sr_image_remove_contents(int fd, struct sr_error **error);
// The names in the directory open as fd, in byte order, without "." and "..": NULL-terminated, freed by the
// caller, NULL when there are none. 0 or a negative errno.
int sr_image_read_names(int fd, char ***ret);
