// Unpacking one layer: a tar archive, plain or compressed with gzip or zstd, laid over a root directory.
//
// A layer is hostile input to a large library, so the work is one function of two descriptors that needs
// nothing else of the file system, and can run in a helper process that has nothing else (sr_image_confine).
//
// What is laid out (OCI image specification, layer.md):
// - files, directories, symbolic and hard links, with their modes and modification times (directories' too);
// - not owners: everything belongs to who unpacks, and can be read, written and entered by him;
// - not set-id bits, extended attributes, access lists, devices, FIFOs and sockets: a sandbox has no use for
//   what they give, and a host might fall for it;
// - whiteouts (".wh.name", ".wh..wh..opq") are applied; other ".wh..wh." names, aufs's own notes, are
// skipped.
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/error.h"

struct sr_image_layer_limits {
        uint64_t bytes; // of the uncompressed archive, and of the files it makes
        uint64_t entries;
};

struct sr_image_layer_summary {
        char diff_id[SR_DIGEST_HEX_LENGTH + 1]; // SHA-256 of the uncompressed archive, its hex digits
        uint64_t entries;
        uint64_t bytes; // of the uncompressed archive
};

// Reads the layer from input_fd to its end and applies it to the directory open as root_fd. Both are
// borrowed. On failure the directory is left as far as it got.
int sr_image_unpack_layer(int input_fd, int root_fd, const struct sr_image_layer_limits *limits,
                          struct sr_image_layer_summary *ret, struct sr_error **error);

// How to run the same in a helper process that can reach nothing but its two descriptors. run starts
// argv (argv[0] is "sandbox-runner-image"; the program is up to run) with input_fd as descriptor 0 and
// directory_fd as descriptor 3, waits for it, and gives what it wrote to descriptor 1; when it failed, the
// error carries what it wrote to descriptor 2. What the helper says is not trusted further than it must be.
struct sr_image_confine {
        int (*run)(void *context, char *const *argv, int input_fd, int directory_fd,
                   struct sr_buf *ret_output, struct sr_error **error);
        void *context;
};

// sr_image_unpack_layer, by confine when it is not NULL.
int sr_image_unpack_layer_confined(const struct sr_image_confine *confine, int input_fd, int root_fd,
                                   const struct sr_image_layer_limits *limits,
                                   struct sr_image_layer_summary *ret, struct sr_error **error);

// The helper's side: `unpack-layer` with arguments as sr_image_unpack_layer_confined gives them (argv[1] is
// the verb). The summary, one line of JSON, is appended to ret_output.
int sr_image_unpack_helper(char *const *argv, struct sr_buf *ret_output, struct sr_error **error);
#define SR_IMAGE_UNPACK_VERB "unpack-layer"
