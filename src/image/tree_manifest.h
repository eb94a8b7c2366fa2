// The manifest beside an unpacked root file system: what every entry of it was when it was published, so that
// it can be checked later.
//
//   sandbox-runner tree manifest 1
//   entries 00000000000000001234 size 00000000000123456789
//   d 0755 0 - usr
//   f 0644 1234 <64 hex, SHA-256 of the contents> usr/a\040b
//   l 0777 7 <64 hex, SHA-256 of the target> lib
//
// in the order of a walk that takes the names of a directory in byte order. Blanks, control characters, '\'
// and bytes from 0x7f on are written as three octal digits after '\'. size is in bytes and counts each file
// once, however many hard links it has.
#pragma once

#include <stdint.h>

#include "base/error.h"

#define SR_IMAGE_TREE_MANIFEST "manifest"

// Writes directory_fd/manifest of the root file system open as root_fd, and gives the size.
int sr_image_tree_manifest_write(int root_fd, int directory_fd, int64_t *ret_size, struct sr_error **error);
// Reads the size back. Negative errno without a message when it cannot be read.
int sr_image_tree_manifest_size(int directory_fd, int64_t *ret_size);
