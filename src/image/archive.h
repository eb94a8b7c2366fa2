// Reading tar archives that somebody else made, with libarchive: the formats that images use and no others,
// decompression in this process, names in UTF-8 whatever the locale, and limits on what comes out.
//
// Theory of operation: one reader decompresses and sees nothing but bytes; a second one reads the tar format
// from what the first gives. Between them the bytes are counted, limited and (for diff ids) digested.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/error.h"

struct sr_image_archive;

// fd is borrowed and read from where it stands. max_bytes limits the uncompressed archive.
int sr_image_archive_open(int fd, uint64_t max_bytes, struct sr_image_archive **ret, struct sr_error **error);
struct sr_image_archive *sr_image_archive_close(struct sr_image_archive *archive);
void sr_image_archive_closep(struct sr_image_archive **archive);
#define _cleanup_archive_ __attribute__((cleanup(sr_image_archive_closep)))

// Gives the next entry (owned by the archive): 1, or 0 at the end, or a negative errno.
int sr_image_archive_next(struct sr_image_archive *archive, struct archive_entry **ret,
                          struct sr_error **error);
// Gives the next piece of the entry's data: 1, or 0 at its end, or a negative errno. Pieces come in order;
// gaps between them are holes.
int sr_image_archive_data(struct sr_image_archive *archive, const void **ret_bytes, size_t *ret_length,
                          int64_t *ret_offset, struct sr_error **error);
// Reads what follows the last entry, and gives the digest of the whole uncompressed archive and its length.
int sr_image_archive_finish(struct sr_image_archive *archive, char ret_hex[SR_DIGEST_HEX_LENGTH + 1],
                            uint64_t *ret_bytes, struct sr_error **error);
