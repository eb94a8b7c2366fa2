// The documents of an image that was built here.
#include "base/alloc.h"
#include "image/json.h"
#include "image/oci.h"

void sr_image_config_write(struct sr_buf *out, const char *created, const char *created_by,
                           const char *diff_id_hex, char *const *environment, char *const *labels)
{
        _cleanup_free_ char *diff_id = sr_asprintf(SR_DIGEST_PREFIX "%s", diff_id_hex);
        struct sr_json_writer w = {.out = out, .first = true};

        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "created", created);
        sr_json_string(&w, "architecture", sr_image_host_architecture());
        sr_json_string(&w, "os", "linux");
        sr_json_open_object(&w, "config");
        sr_image_json_write_array(&w, "Env", environment);
        sr_image_json_write_object(&w, "Labels", labels);
        sr_json_close_object(&w);
        sr_json_open_object(&w, "rootfs");
        sr_json_string(&w, "type", "layers");
        sr_json_open_array(&w, "diff_ids");
        sr_json_string(&w, NULL, diff_id);
        sr_json_close_array(&w);
        sr_json_close_object(&w);
        sr_json_open_array(&w, "history");
        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "created", created);
        sr_json_string(&w, "created_by", created_by);
        sr_json_close_object(&w);
        sr_json_close_array(&w);
        sr_json_close_object(&w);
}

static void write_descriptor(struct sr_json_writer *w, const char *key, const char *media_type,
                             const char *hex, int64_t size)
{
        _cleanup_free_ char *digest = sr_asprintf(SR_DIGEST_PREFIX "%s", hex);

        sr_json_open_object(w, key);
        sr_json_string(w, "mediaType", media_type);
        sr_json_string(w, "digest", digest);
        sr_json_integer(w, "size", size);
        sr_json_close_object(w);
}

void sr_image_manifest_write(struct sr_buf *out, const char *config_hex, size_t config_size,
                             const char *layer_hex, int64_t layer_size)
{
        struct sr_json_writer w = {.out = out, .first = true};

        sr_json_open_object(&w, NULL);
        sr_json_integer(&w, "schemaVersion", 2);
        sr_json_string(&w, "mediaType", SR_MEDIA_TYPE_MANIFEST);
        write_descriptor(&w, "config", SR_MEDIA_TYPE_CONFIG, config_hex, (int64_t)config_size);
        sr_json_open_array(&w, "layers");
        write_descriptor(&w, NULL, SR_MEDIA_TYPE_LAYER, layer_hex, layer_size);
        sr_json_close_array(&w);
        sr_json_close_object(&w);
}
