// The blobs of one import: where they come from, checked against their digest and size on the way, and staged
// until the image is complete.
//
// A blob is looked for in the store, among those staged, and in the source; only then is it missing. One of
// the store is read first to see whether it still is what its name says; a damaged one counts as absent, so
// that importing an image again repairs it.
#pragma once

#include <stdint.h>

#include "image/oci.h"
#include "image/work.h"

struct sr_image_blobs;

// Staging happens in work; source_fd (borrowed, -1: none) is an OCI image layout's directory.
int sr_image_blobs_open(struct sr_image_writer *writer, const struct sr_image_work *work, int source_fd,
                        struct sr_image_blobs **ret, struct sr_error **error);
struct sr_image_blobs *sr_image_blobs_close(struct sr_image_blobs *blobs);
void sr_image_blobs_closep(struct sr_image_blobs **blobs);
#define _cleanup_blobs_ __attribute__((cleanup(sr_image_blobs_closep)))

// Makes sure that the blob is there, and that it will be in the store with the image. what names it in
// messages.
int sr_image_blobs_fetch(struct sr_image_blobs *blobs, const struct sr_image_descriptor *descriptor,
                         const char *what, struct sr_error **error);
// Whether fetching it would neither read nor copy anything.
bool sr_image_blobs_have(const struct sr_image_blobs *blobs, const struct sr_image_descriptor *descriptor);
// Opens a blob that was fetched, for reading. A descriptor or a negative errno.
int sr_image_blobs_open_blob(struct sr_image_blobs *blobs, const char *digest, struct sr_error **error);
// Fetches and reads a document, whose digest is checked wherever it comes from.
int sr_image_blobs_document(struct sr_image_blobs *blobs, const struct sr_image_descriptor *descriptor,
                            const char *what, struct sr_buf *ret, struct sr_error **error);

// Stages a blob whose bytes come piece by piece. begin fails with -EEXIST, without a message, when the store
// or the stage has one of that digest (hex digits) and size already; size -1 means that any will do.
struct sr_image_blob_writer;
int sr_image_blob_begin(struct sr_image_blobs *blobs, const char *hex, int64_t size,
                        struct sr_image_blob_writer **ret, struct sr_error **error);
int sr_image_blob_append(struct sr_image_blob_writer *writer, const void *bytes, size_t length,
                         struct sr_error **error);
// Checks the digest (and the size, when one was given) and stages it.
int sr_image_blob_end(struct sr_image_blob_writer *writer, struct sr_error **error);
struct sr_image_blob_writer *sr_image_blob_free(struct sr_image_blob_writer *writer);
void sr_image_blob_freep(struct sr_image_blob_writer **writer);
#define _cleanup_blob_ __attribute__((cleanup(sr_image_blob_freep)))

// Stages a document made here; gives its hex digits.
int sr_image_blobs_add(struct sr_image_blobs *blobs, const struct sr_buf *bytes,
                       char ret_hex[SR_DIGEST_HEX_LENGTH + 1], struct sr_error **error);
// Stages the regular file directory_fd/name by moving it; gives its hex digits and its size. Nobody may write
// to it any more.
int sr_image_blobs_move(struct sr_image_blobs *blobs, int directory_fd, const char *name,
                        char ret_hex[SR_DIGEST_HEX_LENGTH + 1], int64_t *ret_size, struct sr_error **error);

// Whether anything fetched is not in the store yet.
bool sr_image_blobs_pending(const struct sr_image_blobs *blobs);
// Puts what was fetched into the store. Everything must be on disk (sr_image_writer_sync).
int sr_image_blobs_publish(struct sr_image_blobs *blobs, struct sr_error **error);
