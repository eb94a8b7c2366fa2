// Root file systems: from the layers of an image to trees/<chain id>.
//
// All layers of an image are unpacked into one directory. (Beginning with hard links to the tree of the
// layers below would save disk where images share layers, but needs that tree to be kept without what every
// root file system gets, and to belong to whom the helper runs as.)
#pragma once

#include "image/unpack.h"
#include "image/work.h"

struct sr_image_tree_request {
        const char *chain_id;  // hex digits
        char *const *diff_ids; // hex digits, lowest layer first
        // Opens a layer's blob. A descriptor, which the tree closes, or a negative errno.
        int (*open_layer)(void *context, size_t layer, struct sr_error **error);
        void *context;
        const struct sr_image_confine *confine; // may be NULL
        const struct sr_image_progress *progress;
};

struct sr_image_tree {
        struct sr_image_work *work; // NULL: the tree was there already
        int64_t size;               // bytes, as the tree's manifest counts them
};

// Unpacks the tree, unless the store has it, and leaves it for sr_image_tree_publish. Another process that is
// doing the same is waited for.
int sr_image_tree_make(struct sr_image_writer *writer, const struct sr_image_tree_request *request,
                       struct sr_image_tree *ret, struct sr_error **error);
// Puts a new tree into the store. Everything must be on disk (sr_image_writer_sync).
int sr_image_tree_publish(struct sr_image_writer *writer, const char *chain_id, struct sr_image_tree *tree,
                          struct sr_error **error);
void sr_image_tree_clear(struct sr_image_tree *tree);
#define _cleanup_tree_ __attribute__((cleanup(sr_image_tree_clear)))
