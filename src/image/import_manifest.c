// The common end of every import: from a manifest whose blobs can be fetched to a reference in the store.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "image/import.h"
#include "image/limits.h"
#include "image/oci.h"
#include "image/ref.h"
#include "image/text.h"
#include "image/tree.h"

struct parts {
        struct sr_image_manifest manifest;
        struct sr_image_config config;
        char chain_id[SR_DIGEST_HEX_LENGTH + 1];
};

static void clear_parts(struct parts *parts)
{
        sr_image_manifest_clear(&parts->manifest);
        sr_image_config_clear(&parts->config);
}

static int check_platform(const struct sr_image_config *config, struct sr_error **error)
{
        const char *host = sr_image_host_architecture();

        if ((config->os == NULL || strcmp(config->os, "linux") == 0) &&
            (config->architecture == NULL || strcmp(config->architecture, host) == 0))
                return 0;

        _cleanup_free_ char *os = sr_image_printable(config->os != NULL ? config->os : "linux");
        _cleanup_free_ char *architecture =
                sr_image_printable(config->architecture != NULL ? config->architecture : "?");

        return sr_error_set(error, SR_ERROR_IMAGE, ENOTSUP,
                            "the image is for %s/%s, and this machine is linux/%s", os, architecture, host);
}

static int read_parts(struct sr_image_blobs *blobs, const struct sr_image_descriptor *descriptor,
                      struct parts *parts, struct sr_error **error)
{
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_image_blobs_document(blobs, descriptor, "the manifest", &text, error);

        if (r < 0)
                return r;
        r = sr_image_manifest_parse(&text, &parts->manifest, error);
        if (r < 0)
                return sr_error_prefix(error, r, "the manifest %s is not usable", descriptor->digest);
        sr_buf_clear(&text);
        r = sr_image_blobs_document(blobs, &parts->manifest.config, "the configuration", &text, error);
        if (r < 0)
                return r;
        r = sr_image_config_parse(&text, &parts->config, error);
        if (r < 0)
                return sr_error_prefix(error, r, "the configuration %s is not usable",
                                       parts->manifest.config.digest);
        r = check_platform(&parts->config, error);
        if (r < 0)
                return r;
        if (sr_strv_length(parts->config.diff_ids) != parts->manifest.layer_count)
                return sr_error_set(error, SR_ERROR_IMAGE, EINVAL,
                                    "the manifest %s has %zu layers, and its configuration speaks of %zu",
                                    descriptor->digest, parts->manifest.layer_count,
                                    sr_strv_length(parts->config.diff_ids));
        r = sr_image_chain_id(parts->config.diff_ids, parts->chain_id);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_HOST, -r,
                                    "libcrypto cannot compute SHA-256 on this host");
        return 0;
}

static int fetch_layers(struct sr_image_blobs *blobs, const struct sr_image_manifest *manifest,
                        const struct sr_image_progress *progress, struct sr_error **error)
{
        for (size_t i = 0; i < manifest->layer_count; i++) {
                const struct sr_image_descriptor *layer = &manifest->layers[i];
                _cleanup_free_ char *what = sr_asprintf("layer %zu", i + 1);
                _cleanup_free_ char *size = sr_image_size_text((uint64_t)layer->size);

                if (!sr_image_blobs_have(blobs, layer))
                        sr_image_report(progress, "reading layer %zu of %zu (%s)", i + 1,
                                        manifest->layer_count, size);

                int r = sr_image_blobs_fetch(blobs, layer, what, error);

                if (r < 0)
                        return r;
        }
        return 0;
}

struct layer_source {
        struct sr_image_blobs *blobs;
        const struct sr_image_manifest *manifest;
};

static int open_layer(void *context, size_t layer, struct sr_error **error)
{
        const struct layer_source *source = context;

        return sr_image_blobs_open_blob(source->blobs, source->manifest->layers[layer].digest, error);
}

// Writes the reference file: from here on the image exists.
static int publish_reference(struct sr_image_writer *writer, const struct sr_image_work *work,
                             const struct sr_image *image, struct sr_error **error)
{
        _cleanup_free_ char *path = sr_image_ref_path(image->reference);
        _cleanup_buf_ struct sr_buf text = {0};

        sr_image_ref_write(image, &text);

        int r = sr_image_work_write(work, "reference", &text, true, error);

        return r < 0 ? r : sr_image_publish(writer, work, "reference", path, NULL, error);
}

static struct sr_image *describe(struct sr_image_writer *writer, const char *reference, const char *digest,
                                 const struct parts *parts, int64_t size)
{
        struct sr_image *image = sr_new(struct sr_image);

        *image = (struct sr_image){
                .reference = sr_strdup(reference),
                .digest = sr_strdup(digest),
                .chain_id = sr_strdup(parts->chain_id),
                .tree = sr_asprintf("%s/trees/%s/rootfs", sr_image_writer_path(writer), parts->chain_id),
                .environment = sr_strv_copy(parts->config.environment),
                .labels = sr_strv_copy(parts->config.labels),
                .size = size,
                .created_us = sr_clock_realtime_us(),
        };
        return image;
}

static int bring_in(struct sr_image_writer *writer, const struct sr_image_work *work,
                    struct sr_image_blobs *blobs, const struct sr_image_descriptor *descriptor,
                    const char *reference, struct parts *parts, const struct sr_image_import_options *options,
                    struct sr_image **ret, struct sr_error **error)
{
        _cleanup_tree_ struct sr_image_tree tree = {0};
        _cleanup_image_ struct sr_image *image = NULL;
        struct layer_source source = {.blobs = blobs, .manifest = &parts->manifest};
        int r = read_parts(blobs, descriptor, parts, error);

        if (r == 0)
                r = fetch_layers(blobs, &parts->manifest, options->progress, error);
        if (r < 0)
                return r;

        const struct sr_image_tree_request request = {.chain_id = parts->chain_id,
                                                      .diff_ids = parts->config.diff_ids,
                                                      .open_layer = open_layer,
                                                      .context = &source,
                                                      .confine = options->confine,
                                                      .progress = options->progress};

        r = sr_image_tree_make(writer, &request, &tree, error);
        if (r == 0 && (tree.work != NULL || sr_image_blobs_pending(blobs))) {
                sr_image_report(options->progress, "writing to disk");
                r = sr_image_writer_sync(writer, error);
        }
        if (r == 0)
                r = sr_image_blobs_publish(blobs, error);
        if (r == 0)
                r = sr_image_tree_publish(writer, parts->chain_id, &tree, error);
        if (r < 0)
                return r;
        image = describe(writer, reference, descriptor->digest, parts, tree.size);
        r = publish_reference(writer, work, image, error);
        if (r < 0)
                return r;
        *ret = sr_steal(image);
        return 0;
}

int sr_image_import_manifest(struct sr_image_writer *writer, const struct sr_image_work *work,
                             struct sr_image_blobs *blobs, const struct sr_image_descriptor *manifest,
                             const char *reference, const struct sr_image_import_options *options,
                             struct sr_image_list *list, struct sr_error **error)
{
        _cleanup_free_ char *name = sr_asprintf("image-%s", sr_digest_hex(manifest->digest));
        _cleanup_work_ struct sr_image_work *lock = NULL;
        _cleanup_image_ struct sr_image *image = NULL;
        struct parts parts = {.chain_id = ""};
        // Two that bring in one image: the second finds all of it in the store when its turn comes.
        int r = sr_image_work_open(writer, name, options->progress, &lock, NULL, error);

        if (r == 0)
                r = bring_in(writer, work, blobs, manifest, reference, &parts, options, &image, error);
        clear_parts(&parts);
        if (r < 0)
                return r;
        list->images = sr_realloc(list->images, list->count + 1, sizeof(*list->images));
        list->images[list->count++] = sr_steal(image);
        return 0;
}

void sr_image_list_clear(struct sr_image_list *list)
{
        for (size_t i = 0; i < list->count; i++)
                sr_image_free(list->images[i]);
        free(list->images);
        *list = (struct sr_image_list){0};
}
