// An image of one layer, made here from a root file system and a description of it.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/import.h"
#include "image/json.h"
#include "image/limits.h"
#include "image/oci.h"
#include "image/reference.h"

#define MAX_REFERENCES 64 // more than any recipe has use for

static int refuse(struct sr_error **error, const char *why)
{
        return sr_error_set(error, SR_ERROR_IMAGE, EINVAL, "%s", why);
}

static int read_references(const cJSON *document, char ***ret, struct sr_error **error)
{
        const cJSON *list = sr_image_json_array(document, "references"), *item;
        _cleanup_strv_ char **references = NULL;

        if (list == NULL || cJSON_GetArraySize(list) == 0 || cJSON_GetArraySize(list) > MAX_REFERENCES)
                return refuse(error, "it needs \"references\", a list of the image's names");
        cJSON_ArrayForEach(item, list)
        {
                _cleanup_free_ char *text = sr_image_json_value_text(item), *familiar = NULL;
                int r = text != NULL ? sr_image_reference_normalise(text, &familiar, error)
                                     : refuse(error, "one of its references is not a text");

                if (r < 0)
                        return r;
                sr_strv_append(&references, sr_steal(familiar));
        }
        *ret = sr_steal(references);
        return 0;
}

int sr_image_description_parse(const struct sr_buf *text, struct sr_image_description *ret,
                               struct sr_error **error)
{
        _cleanup_description_ struct sr_image_description description = {0};
        _cleanup_json_ cJSON *document = NULL;
        int r = sr_image_json_parse(text->data != NULL ? text->data : "", text->len, &document, error);

        if (r == 0)
                r = read_references(document, &description.references, error);
        if (r < 0)
                return r;
        if (sr_image_json_settings(document, "environment", &description.environment) < 0)
                return refuse(error, "its environment is not an object of texts");
        if (sr_image_json_settings(document, "labels", &description.labels) < 0)
                return refuse(error, "its labels are not an object of texts");
        *ret = description;
        description = (struct sr_image_description){0};
        return 0;
}

void sr_image_description_clear(struct sr_image_description *description)
{
        sr_strv_free(description->references);
        sr_strv_free(description->environment);
        sr_strv_free(description->labels);
        *description = (struct sr_image_description){0};
}

static int read_description(int directory_fd, struct sr_image_description *ret, struct sr_error **error)
{
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_fd_read_file(directory_fd, "image.json", SR_IMAGE_MAX_JSON_BYTES, &text);

        if (r < 0)
                return sr_error_set(error, SR_ERROR_IMAGE, -r, "image.json cannot be read: %s", strerror(-r));
        r = sr_image_description_parse(&text, ret, error);
        return r < 0 ? sr_error_prefix(error, r, "image.json") : 0;
}

// Stages layer, configuration and manifest; *ret describes the manifest.
static int stage_image(struct sr_image_blobs *blobs, int directory_fd, const char *recipe,
                       const struct sr_image_description *description, struct sr_image_descriptor *ret,
                       struct sr_error **error)
{
        _cleanup_free_ char *created = sr_clock_format_iso(sr_clock_realtime_us());
        _cleanup_free_ char *created_by = sr_asprintf("sandbox-runner image build %s", recipe);
        _cleanup_buf_ struct sr_buf config = {0}, manifest = {0};
        char layer_hex[SR_DIGEST_HEX_LENGTH + 1], config_hex[SR_DIGEST_HEX_LENGTH + 1];
        char manifest_hex[SR_DIGEST_HEX_LENGTH + 1];
        int64_t layer_size;
        int r = sr_image_blobs_move(blobs, directory_fd, "rootfs.tar", layer_hex, &layer_size, error);

        if (r < 0)
                return r;
        sr_image_config_write(&config, created, created_by, layer_hex, description->environment,
                              description->labels);
        r = sr_image_blobs_add(blobs, &config, config_hex, error);
        if (r < 0)
                return r;
        sr_image_manifest_write(&manifest, config_hex, config.len, layer_hex, layer_size);
        r = sr_image_blobs_add(blobs, &manifest, manifest_hex, error);
        if (r < 0)
                return r;
        *ret = (struct sr_image_descriptor){
                .media = SR_MEDIA_MANIFEST,
                .digest = sr_asprintf(SR_DIGEST_PREFIX "%s", manifest_hex),
                .size = (int64_t)manifest.len,
        };
        return 0;
}

int sr_image_import_rootfs(struct sr_image_writer *writer, const struct sr_image_work *work, int directory_fd,
                           const char *recipe, const struct sr_image_import_options *options,
                           struct sr_image_list *ret, struct sr_error **error)
{
        _cleanup_description_ struct sr_image_description description = {0};
        _cleanup_blobs_ struct sr_image_blobs *blobs = NULL;
        struct sr_image_descriptor manifest = {0};
        struct sr_image_list list = {0};
        int r = read_description(directory_fd, &description, error);

        if (r == 0)
                r = sr_image_blobs_open(writer, work, -1, &blobs, error);
        if (r < 0)
                return r;
        sr_strv_append(&description.labels, sr_asprintf(SR_IMAGE_RECIPE_LABEL "=%s", recipe));
        r = stage_image(blobs, directory_fd, recipe, &description, &manifest, error);
        for (size_t i = 0; r == 0 && description.references[i] != NULL; i++)
                r = sr_image_import_manifest(writer, work, blobs, &manifest, description.references[i],
                                             options, &list, error);
        free(manifest.digest);
        if (r < 0) {
                sr_image_list_clear(&list);
                return r;
        }
        *ret = list;
        return 0;
}
