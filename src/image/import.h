// Bringing images into a store: from an OCI image layout (a directory or a tar archive of one) and from a
// root file system with a description, as recipes leave it.
//
// Nothing of an image is visible before all of it is in the store and on disk (see work.h); a failure or a
// crash leaves at most work that the next import removes.
#pragma once

#include "image/blobs.h"
#include "image/store.h"
#include "image/unpack.h"
#include "image/work.h"

struct sr_image_import_options {
        const char *name;                       // what to call it; NULL: as the layout does
        const struct sr_image_confine *confine; // how to unpack in a helper process; NULL: in this one
        const struct sr_image_progress *progress;
};

// A list of images, as brought in.
struct sr_image_list {
        struct sr_image **images;
        size_t count;
};
void sr_image_list_clear(struct sr_image_list *list);
#define _cleanup_images_ __attribute__((cleanup(sr_image_list_clear)))

// Imports from source_fd: a directory, or a tar archive (plain, gzip or zstd), which may be a pipe. Without a
// name every image that the layout names is brought in; with one, the only image, or the one that the layout
// calls so. For images of several platforms this machine's is taken.
int sr_image_import(const char *store_directory, int source_fd, const struct sr_image_import_options *options,
                    struct sr_image_list *ret, struct sr_error **error);

// What a root file system is to become.
struct sr_image_description {
        char **references; // in familiar form
        char **environment;
        char **labels;
};
// Reads {"references": ["python:3.12", …], "environment": {"PATH": "…"}, "labels": {…}}; the last two are
// optional.
int sr_image_description_parse(const struct sr_buf *text, struct sr_image_description *ret,
                               struct sr_error **error);
void sr_image_description_clear(struct sr_image_description *description);
#define _cleanup_description_ __attribute__((cleanup(sr_image_description_clear)))

// Makes an image of the plain tar archive directory_fd/rootfs.tar (which is moved away) and
// directory_fd/image.json. work is a work directory of the caller's on the same file system. recipe is kept
// in the image's label SR_IMAGE_RECIPE_LABEL. options->name is ignored.
int sr_image_import_rootfs(struct sr_image_writer *writer, const struct sr_image_work *work, int directory_fd,
                           const char *recipe, const struct sr_image_import_options *options,
                           struct sr_image_list *ret, struct sr_error **error);
#define SR_IMAGE_RECIPE_LABEL "sandbox-runner.recipe"

// For the functions above: brings in the image of a manifest under a reference in familiar form.
int sr_image_import_manifest(struct sr_image_writer *writer, const struct sr_image_work *work,
                             struct sr_image_blobs *blobs, const struct sr_image_descriptor *manifest,
                             const char *reference, const struct sr_image_import_options *options,
                             struct sr_image_list *list, struct sr_error **error);
// For the functions above: stages the blobs of a tar archive of a layout and gives its index.json.
int sr_image_import_read_tar(struct sr_image_blobs *blobs, int fd, const struct sr_image_progress *progress,
                             struct sr_buf *ret_index, struct sr_error **error);
