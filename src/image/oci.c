#include "image/oci.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/alloc.h"
#include "image/json.h"
#include "image/limits.h"
#include "image/text.h"

// OCI image specification, media-types.md; distribution, image manifest version 2, schema 2.
static const struct {
        const char *type;
        enum sr_image_media media;
} media_types[] = {
        {SR_MEDIA_TYPE_INDEX, SR_MEDIA_INDEX},
        {"application/vnd.docker.distribution.manifest.list.v2+json", SR_MEDIA_INDEX},
        {SR_MEDIA_TYPE_MANIFEST, SR_MEDIA_MANIFEST},
        {"application/vnd.docker.distribution.manifest.v2+json", SR_MEDIA_MANIFEST},
        {SR_MEDIA_TYPE_CONFIG, SR_MEDIA_CONFIG},
        {"application/vnd.docker.container.image.v1+json", SR_MEDIA_CONFIG},
        {SR_MEDIA_TYPE_LAYER, SR_MEDIA_LAYER},
        {"application/vnd.oci.image.layer.v1.tar+gzip", SR_MEDIA_LAYER},
        {"application/vnd.oci.image.layer.v1.tar+zstd", SR_MEDIA_LAYER},
        {"application/vnd.docker.image.rootfs.diff.tar", SR_MEDIA_LAYER},
        {"application/vnd.docker.image.rootfs.diff.tar.gzip", SR_MEDIA_LAYER},
        {"application/vnd.docker.image.rootfs.diff.tar.zstd", SR_MEDIA_LAYER},
        {"application/vnd.oci.image.layer.nondistributable.v1.tar", SR_MEDIA_FOREIGN_LAYER},
        {"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", SR_MEDIA_FOREIGN_LAYER},
        {"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", SR_MEDIA_FOREIGN_LAYER},
        {"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", SR_MEDIA_FOREIGN_LAYER},
};

// uname's machine and the name that images use for it (GOARCH).
static const struct {
        const char *machine, *architecture;
} architectures[] = {
        {"x86_64", "amd64"},        {"aarch64", "arm64"}, {"armv7l", "arm"},
        {"armv6l", "arm"},          {"i686", "386"},      {"i586", "386"},
        {"ppc64le", "ppc64le"},     {"s390x", "s390x"},   {"riscv64", "riscv64"},
        {"loongarch64", "loong64"},
};

const char *sr_image_host_architecture(void)
{
        static struct utsname host;

        if (uname(&host) < 0)
                return "unknown";
        for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++)
                if (strcmp(architectures[i].machine, host.machine) == 0)
                        return architectures[i].architecture;
        return host.machine;
}

static enum sr_image_media find_media(const char *type)
{
        for (size_t i = 0; type != NULL && i < sizeof(media_types) / sizeof(media_types[0]); i++)
                if (strcmp(media_types[i].type, type) == 0)
                        return media_types[i].media;
        return SR_MEDIA_OTHER;
}

static void clear_descriptor(struct sr_image_descriptor *descriptor)
{
        free(descriptor->media_type);
        free(descriptor->digest);
        free(descriptor->os);
        free(descriptor->architecture);
        free(descriptor->name);
        *descriptor = (struct sr_image_descriptor){0};
}

static int refuse(struct sr_error **error, const char *why)
{
        return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "%s", why);
}

// Reads a descriptor into *ret, which the caller clears also after a failure. what names it in messages.
static int read_descriptor(const cJSON *object, const char *what, struct sr_image_descriptor *ret,
                           struct sr_error **error)
{
        ret->media_type = sr_image_json_text(object, "mediaType");
        ret->digest = sr_image_json_text(object, "digest");
        if (!cJSON_IsObject(object) || ret->media_type == NULL || ret->digest == NULL)
                return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "%s lacks a media type or a digest", what);
        if (!sr_digest_valid(ret->digest)) {
                _cleanup_free_ char *shown = sr_image_printable(ret->digest);

                return sr_error_set(
                        error, SR_ERROR_IMAGE, EINVAL,
                        "the digest of %s, \"%s\", is not \"sha256:\" and 64 lower-case hex digits", what,
                        shown);
        }
        if (!sr_image_json_size(object, "size", &ret->size) ||
            (uint64_t)ret->size > SR_IMAGE_MAX_BLOB_BYTES) {
                _cleanup_free_ char *most = sr_image_size_text(SR_IMAGE_MAX_BLOB_BYTES);

                return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "the size of %s is no number up to %s",
                                    what, most);
        }
        ret->media = find_media(ret->media_type);
        return 0;
}

// What an index says of a manifest besides its descriptor.
static void read_index_notes(const cJSON *object, struct sr_image_descriptor *ret)
{
        // The first is the full name where container tools also write a bare tag as the second.
        static const char *const names[] = {"io.containerd.image.name", "org.opencontainers.image.ref.name"};
        const cJSON *platform = sr_image_json_object(object, "platform");
        const cJSON *annotations = sr_image_json_object(object, "annotations");

        if (platform != NULL) {
                ret->os = sr_image_json_text(platform, "os");
                ret->architecture = sr_image_json_text(platform, "architecture");
        }
        for (size_t i = 0; annotations != NULL && ret->name == NULL && i < sizeof(names) / sizeof(names[0]);
             i++)
                ret->name = sr_image_json_text(annotations, names[i]);
        ret->attestation =
                (annotations != NULL && sr_json_member(annotations, "vnd.docker.reference.type") != NULL) ||
                (ret->os != NULL && strcmp(ret->os, "unknown") == 0);
}

static int check_version(const cJSON *document, struct sr_error **error)
{
        int64_t version;

        if (!sr_image_json_size(document, "schemaVersion", &version) || version != 2)
                return refuse(error,
                              "its schemaVersion is not 2 (images in older formats are not understood)");
        return 0;
}

int sr_image_layout_check(const struct sr_buf *text, struct sr_error **error)
{
        _cleanup_json_ cJSON *document = NULL;
        _cleanup_free_ char *version = NULL;
        int r = sr_image_json_parse(text->data != NULL ? text->data : "", text->len, &document, error);

        if (r < 0)
                return r;
        version = sr_image_json_text(document, "imageLayoutVersion");
        if (version == NULL || strncmp(version, "1.", 2) != 0)
                return refuse(error, "its image layout is not of version 1");
        return 0;
}

int sr_image_index_parse(const struct sr_buf *text, struct sr_image_index *ret, struct sr_error **error)
{
        _cleanup_index_ struct sr_image_index index = {0};
        _cleanup_json_ cJSON *document = NULL;
        const cJSON *manifests, *item;
        int r = sr_image_json_parse(text->data != NULL ? text->data : "", text->len, &document, error);

        if (r == 0)
                r = check_version(document, error);
        if (r < 0)
                return r;
        manifests = sr_image_json_array(document, "manifests");
        if (manifests == NULL)
                return refuse(error, "it has no list of manifests");
        index.manifests = sr_new_array(struct sr_image_descriptor, (size_t)cJSON_GetArraySize(manifests));
        cJSON_ArrayForEach(item, manifests)
        {
                struct sr_image_descriptor *descriptor = &index.manifests[index.count++];

                r = read_descriptor(item, "a manifest", descriptor, error);
                if (r < 0)
                        return r;
                read_index_notes(item, descriptor);
        }
        *ret = index;
        index = (struct sr_image_index){0};
        return 0;
}

static int read_layer(const cJSON *item, size_t number, struct sr_image_descriptor *ret,
                      struct sr_error **error)
{
        _cleanup_free_ char *what = sr_asprintf("layer %zu", number);
        int r = read_descriptor(item, what, ret, error);

        if (r < 0 || ret->media == SR_MEDIA_LAYER)
                return r;
        if (ret->media == SR_MEDIA_FOREIGN_LAYER)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, EINVAL,
                        "%s is one of those whose contents may not be passed on, so that they are not here",
                        what);

        _cleanup_free_ char *shown = sr_image_printable(ret->media_type);

        return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "%s is of the unknown type %s", what, shown);
}

int sr_image_manifest_parse(const struct sr_buf *text, struct sr_image_manifest *ret, struct sr_error **error)
{
        _cleanup_manifest_ struct sr_image_manifest manifest = {0};
        _cleanup_json_ cJSON *document = NULL;
        const cJSON *layers, *item;
        int r = sr_image_json_parse(text->data != NULL ? text->data : "", text->len, &document, error);

        if (r == 0)
                r = check_version(document, error);
        if (r < 0)
                return r;
        layers = sr_image_json_array(document, "layers");
        if (layers == NULL || cJSON_GetArraySize(layers) == 0)
                return refuse(error, "it has no layers, and so no root file system");
        if (cJSON_GetArraySize(layers) > SR_IMAGE_MAX_LAYERS)
                return sr_error_set(error, SR_ERROR_IMAGE, E2BIG, "it has %d layers; at most %d are taken",
                                    cJSON_GetArraySize(layers), SR_IMAGE_MAX_LAYERS);
        manifest.media_type = sr_image_json_text(document, "mediaType");
        r = read_descriptor(sr_json_member(document, "config"), "the configuration", &manifest.config, error);
        if (r < 0)
                return r;
        if (manifest.config.media != SR_MEDIA_CONFIG) {
                _cleanup_free_ char *shown = sr_image_printable(manifest.config.media_type);

                return sr_error_set(
                        error, SR_ERROR_IMAGE, EINVAL,
                        "its configuration is of the type %s: it is something else than a container image",
                        shown);
        }
        manifest.layers = sr_new_array(struct sr_image_descriptor, (size_t)cJSON_GetArraySize(layers));
        cJSON_ArrayForEach(item, layers)
        {
                struct sr_image_descriptor *layer = &manifest.layers[manifest.layer_count++];

                r = read_layer(item, manifest.layer_count, layer, error);
                if (r < 0)
                        return r;
        }
        *ret = manifest;
        manifest = (struct sr_image_manifest){0};
        return 0;
}

static int read_diff_ids(const cJSON *document, char ***ret, struct sr_error **error)
{
        const cJSON *list = sr_image_json_array(sr_image_json_object(document, "rootfs"), "diff_ids"), *item;
        _cleanup_strv_ char **ids = NULL;
        size_t count = 0;

        if (list == NULL)
                return refuse(error, "it does not list the layers of its root file system");
        ids = sr_new_array(char *, (size_t)cJSON_GetArraySize(list) + 1);
        cJSON_ArrayForEach(item, list)
        {
                _cleanup_free_ char *digest = sr_image_json_value_text(item);

                if (!sr_digest_valid(digest))
                        return refuse(error, "a diff id of its layers is no SHA-256 digest");
                ids[count++] = sr_strdup(sr_digest_hex(digest));
        }
        *ret = sr_steal(ids);
        return 0;
}

static size_t total_length(char *const *texts)
{
        size_t total = 0;

        for (size_t i = 0; texts != NULL && texts[i] != NULL; i++)
                total += strlen(texts[i]);
        return total;
}

int sr_image_config_parse(const struct sr_buf *text, struct sr_image_config *ret, struct sr_error **error)
{
        _cleanup_oci_ struct sr_image_config config = {0};
        _cleanup_json_ cJSON *document = NULL;
        int r = sr_image_json_parse(text->data != NULL ? text->data : "", text->len, &document, error);

        if (r == 0)
                r = read_diff_ids(document, &config.diff_ids, error);
        if (r < 0)
                return r;

        const cJSON *settings = sr_image_json_object(document, "config");

        config.os = sr_image_json_text(document, "os");
        config.architecture = sr_image_json_text(document, "architecture");
        if (settings != NULL && sr_image_json_settings(settings, "Env", &config.environment) < 0)
                return refuse(error, "its environment is not a list of \"NAME=value\"");
        if (settings != NULL && sr_image_json_settings(settings, "Labels", &config.labels) < 0)
                return refuse(error, "its labels are not texts with a name");
        if (total_length(config.environment) + total_length(config.labels) > SR_IMAGE_MAX_SETTINGS_BYTES) {
                _cleanup_free_ char *most = sr_image_size_text(SR_IMAGE_MAX_SETTINGS_BYTES);

                return sr_error_set(error, SR_ERROR_IMAGE, E2BIG,
                                    "its environment and labels take more than %s", most);
        }
        *ret = config;
        config = (struct sr_image_config){0};
        return 0;
}

void sr_image_index_clear(struct sr_image_index *index)
{
        for (size_t i = 0; i < index->count; i++)
                clear_descriptor(&index->manifests[i]);
        free(index->manifests);
        *index = (struct sr_image_index){0};
}

void sr_image_manifest_clear(struct sr_image_manifest *manifest)
{
        free(manifest->media_type);
        clear_descriptor(&manifest->config);
        for (size_t i = 0; i < manifest->layer_count; i++)
                clear_descriptor(&manifest->layers[i]);
        free(manifest->layers);
        *manifest = (struct sr_image_manifest){0};
}

void sr_image_config_clear(struct sr_image_config *config)
{
        free(config->os);
        free(config->architecture);
        sr_strv_free(config->diff_ids);
        sr_strv_free(config->environment);
        sr_strv_free(config->labels);
        *config = (struct sr_image_config){0};
}

int sr_image_chain_id(char *const *diff_ids, char ret_hex[SR_DIGEST_HEX_LENGTH + 1])
{
        char chain[SR_DIGEST_HEX_LENGTH + 1];

        memcpy(chain, diff_ids[0], sizeof(chain));
        for (size_t i = 1; diff_ids[i] != NULL; i++) {
                _cleanup_free_ char *text =
                        sr_asprintf(SR_DIGEST_PREFIX "%s " SR_DIGEST_PREFIX "%s", chain, diff_ids[i]);
                int r = sr_digest_of(text, strlen(text), chain);

                if (r < 0)
                        return r;
        }
        memcpy(ret_hex, chain, sizeof(chain));
        return 0;
}
