// The documents of an image: index, manifest and configuration, as the OCI image specification and Docker's
// image manifest version 2, schema 2 define them. Pure parsing: text in, structs out.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"

enum sr_image_media {
        SR_MEDIA_INDEX,
        SR_MEDIA_MANIFEST,
        SR_MEDIA_CONFIG,
        SR_MEDIA_LAYER,
        SR_MEDIA_FOREIGN_LAYER, // its contents are kept elsewhere
        SR_MEDIA_OTHER,
};

#define SR_MEDIA_TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define SR_MEDIA_TYPE_CONFIG   "application/vnd.oci.image.config.v1+json"
#define SR_MEDIA_TYPE_LAYER    "application/vnd.oci.image.layer.v1.tar"
#define SR_MEDIA_TYPE_INDEX    "application/vnd.oci.image.index.v1+json"

struct sr_image_descriptor {
        enum sr_image_media media;
        char *media_type;
        char *digest; // valid
        int64_t size; // bytes, at most SR_IMAGE_MAX_BLOB_BYTES
        // In an index:
        char *os, *architecture; // NULL when no platform is given
        char *name;              // what the index calls it, NULL when nothing
        bool attestation;        // is about another image and holds none
};

struct sr_image_index {
        struct sr_image_descriptor *manifests;
        size_t count;
};

struct sr_image_manifest {
        char *media_type; // what it says of itself, NULL when nothing
        struct sr_image_descriptor config;
        struct sr_image_descriptor *layers; // lowest first
        size_t layer_count;
};

struct sr_image_config {
        char *os, *architecture; // NULL when not said
        char **diff_ids;         // hex digits, lowest layer first
        char **environment;      // "NAME=value"
        char **labels;           // "name=value"
};

// Each: -EINVAL with a message that says what is wrong with the document, not which one it is.
// oci-layout, which says of which version the rest is (image-layout.md, "oci-layout file"):
int sr_image_layout_check(const struct sr_buf *text, struct sr_error **error);
int sr_image_index_parse(const struct sr_buf *text, struct sr_image_index *ret, struct sr_error **error);
int sr_image_manifest_parse(const struct sr_buf *text, struct sr_image_manifest *ret,
                            struct sr_error **error);
int sr_image_config_parse(const struct sr_buf *text, struct sr_image_config *ret, struct sr_error **error);

void sr_image_index_clear(struct sr_image_index *index);
void sr_image_manifest_clear(struct sr_image_manifest *manifest);
void sr_image_config_clear(struct sr_image_config *config);
#define _cleanup_index_    __attribute__((cleanup(sr_image_index_clear)))
#define _cleanup_manifest_ __attribute__((cleanup(sr_image_manifest_clear)))
#define _cleanup_oci_      __attribute__((cleanup(sr_image_config_clear)))

// The architecture of this machine in the words of images (GOARCH): "amd64".
const char *sr_image_host_architecture(void);

// The chain id of layers by their diff ids (OCI image specification, config.md, "Layer ChainID"); all are hex
// digits without "sha256:". -ENOTSUP when libcrypto cannot do SHA-256.
int sr_image_chain_id(char *const *diff_ids, char ret_hex[SR_DIGEST_HEX_LENGTH + 1]);

// Appends a configuration and a manifest of an image of one plain tar layer. created is ISO 8601.
void sr_image_config_write(struct sr_buf *out, const char *created, const char *created_by,
                           const char *diff_id_hex, char *const *environment, char *const *labels);
void sr_image_manifest_write(struct sr_buf *out, const char *config_hex, size_t config_size,
                             const char *layer_hex, int64_t layer_size);
