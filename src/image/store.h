// The image store: what `run` needs to know of images. Reading it needs neither libarchive nor libcrypto.
//
// Layout of a store directory (format 1):
//   format                      "1\n"
//   lock                        flock: shared while a run uses the store, exclusive for gc and rm
//   blobs/sha256/<64 hex>       manifests, configs, layers, by digest
//   trees/<64 hex>/rootfs/      an unpacked root file system, named by the chain id (hex part) of its layers;
//                               published by rename, so it is whole or absent
//   trees/<64 hex>/…            a manifest of the tree beside it
//   refs/<escaped reference>.json   {"reference","manifest","chain_id","created","size","environment":[…],
//                               "labels":{…}}: written at import so that a run reads one small file
//   tmp/                        work in progress; what is not locked there is leftover
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct sr_image {
        char *reference;    // as stored: "python:3.12-slim"
        char *digest;       // manifest digest, "sha256:…"
        char *chain_id;     // 64 hex digits
        char *tree;         // absolute path of the root file system
        unsigned store;     // 0: the store itself, 1: the lower store
        char **environment; // "NAME=value" from the image's configuration
        char **labels;      // "name=value"
        int64_t size;       // bytes of the unpacked tree
        int64_t created_us; // when it was brought in
        bool held;          // sr_image_store_hold() was called; lock_fd is the lock
        int lock_fd;
};

struct sr_image_store;

// Opens a store for reading. directory need not exist yet (it is then empty). lower may be NULL. Takes no
// lock that keeps others out.
int sr_image_store_open(const char *directory, const char *lower, struct sr_image_store **ret,
                        struct sr_error **error);
struct sr_image_store *sr_image_store_close(struct sr_image_store *store);
void sr_image_store_closep(struct sr_image_store **store);
#define _cleanup_store_ __attribute__((cleanup(sr_image_store_closep)))

// The directories whose trees/ a sandbox may use: "<store>/trees" and, where there is one, the lower one's.
// NULL-terminated, owned by the store.
char *const *sr_image_store_tree_roots(const struct sr_image_store *store);

// Finds an image by reference (normalised: "python" is "python:latest"). -ENOENT with a message when absent.
int sr_image_store_find(struct sr_image_store *store, const char *reference, struct sr_image **ret,
                        struct sr_error **error);
// Keeps gc and rm from the image's tree until it is freed: takes the shared lock of its store. Does not wait:
// -EAGAIN without a message while something is being removed there. -ESTALE with a message when the image was
// removed since it was found.
int sr_image_store_hold(struct sr_image_store *store, struct sr_image *image, struct sr_error **error);
// All images, sorted by reference.
int sr_image_store_list(struct sr_image_store *store, struct sr_image ***ret, size_t *ret_count,
                        struct sr_error **error);
struct sr_image *sr_image_free(struct sr_image *image);
void sr_image_freep(struct sr_image **image);
#define _cleanup_image_ __attribute__((cleanup(sr_image_freep)))
