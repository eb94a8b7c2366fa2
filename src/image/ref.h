// The reference files of a store: refs/<escaped reference>.json, what a run reads of an image.
//
// Escaping: a reference becomes a single file name by writing '/' as '+', which no reference with a SHA-256
// digest holds; nothing else needs it, as a reference begins with a letter, a digit or '[' and has no white
// space. It is reversible and keeps the length.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "image/store.h"

// "refs/sandbox-runner+python:3.json"; reference is in familiar form. The caller frees it.
char *sr_image_ref_path(const char *reference);
// The reference of a file name in refs/, or NULL when it is no name of a reference file. The caller frees it.
char *sr_image_ref_from_name(const char *name);

// Reads one reference file of the store whose directory is open as store_fd; directory is its path, for tree
// and messages. -ENOENT without a message when there is no such file. store of the image is left at 0.
int sr_image_ref_read(int store_fd, const char *directory, const char *reference, struct sr_image **ret,
                      struct sr_error **error);
// Appends the contents of image's reference file.
void sr_image_ref_write(const struct sr_image *image, struct sr_buf *out);

// Checks the `format` file of a store. 0 when it is ours to read; -ENOENT without a message when there is
// none (nothing was ever put there).
int sr_image_store_check_format(int store_fd, const char *directory, struct sr_error **error);
#define SR_IMAGE_STORE_FORMAT 1
