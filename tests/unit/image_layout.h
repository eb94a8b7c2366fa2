// OCI image layouts made piece by piece, for the tests of import.
#pragma once

#include "image_fixture.h"

#include "image/oci.h"

// A blob that was put into a layout.
struct blob {
        char digest[80];
        size_t size;
};

UNUSED static struct blob layout_blob(const char *layout, const void *bytes, size_t length)
{
        struct blob blob = {.size = length};
        char hex[SR_DIGEST_HEX_LENGTH + 1];

        assert_int_equal(sr_digest_of(bytes, length, hex), 0);

        _cleanup_free_ char *directory = sr_asprintf("%s/blobs/sha256", layout), *path = NULL;

        assert_int_equal(sr_fd_make_directories(directory, 0755), 0);
        path = sr_asprintf("%s/%s", directory, hex);
        write_file(path, bytes, length);
        snprintf(blob.digest, sizeof(blob.digest), "sha256:%s", hex);
        return blob;
}

UNUSED static struct blob layout_text(const char *layout, const char *text)
{
        return layout_blob(layout, text, strlen(text));
}

UNUSED static void layout_file(const char *layout, const char *name, const char *text)
{
        _cleanup_free_ char *path = sr_asprintf("%s/%s", layout, name);

        assert_int_equal(sr_fd_make_directories(layout, 0755), 0);
        write_file(path, text, strlen(text));
}

// A layer as it is in a layout, and its diff id.
struct layer {
        struct blob blob;
        char diff_id[80];
};

// Ends tar, which was begun with filter, and puts it into the layout.
UNUSED static struct layer layout_layer(const char *layout, struct tar *tar)
{
        struct layer layer = {0};
        struct archive *reader = archive_read_new();
        struct archive_entry *entry;
        _cleanup_digest_ struct sr_digest *digest = sr_digest_new();
        char buffer[4096], hex[SR_DIGEST_HEX_LENGTH + 1];
        la_ssize_t n;

        tar_end(tar);
        layer.blob = layout_blob(layout, tar->bytes.data, tar->bytes.len);
        archive_read_support_filter_all(reader);
        archive_read_support_format_raw(reader);
        assert_int_equal(archive_read_open_memory(reader, tar->bytes.data, tar->bytes.len), ARCHIVE_OK);
        assert_int_equal(archive_read_next_header(reader, &entry), ARCHIVE_OK);
        while ((n = archive_read_data(reader, buffer, sizeof(buffer))) > 0)
                sr_digest_update(digest, buffer, (size_t)n);
        assert_int_equal(n, 0);
        archive_read_free(reader);
        assert_int_equal(sr_digest_finish(digest, hex), 0);
        snprintf(layer.diff_id, sizeof(layer.diff_id), "sha256:%s", hex);
        sr_buf_clear(&tar->bytes);
        return layer;
}

// A manifest, with its configuration, of up to a few layers. The strings are JSON or media types; NULL: the
// usual.
struct manifest_parts {
        const struct layer *layers;
        size_t count;
        const char *architecture, *environment, *labels;
        const char *layer_type, *config_type;
};

UNUSED static struct blob layout_manifest(const char *layout, struct manifest_parts parts)
{
        _cleanup_buf_ struct sr_buf config = {0}, manifest = {0};
        struct blob blob;

        sr_buf_printf(&config,
                      "{\"os\":\"linux\",\"architecture\":\"%s\",\"config\":{\"Env\":%s,\"Labels\":%s},",
                      parts.architecture != NULL ? parts.architecture : sr_image_host_architecture(),
                      parts.environment != NULL ? parts.environment : "[\"PATH=/bin\"]",
                      parts.labels != NULL ? parts.labels : "null");
        sr_buf_append_text(&config, "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[");
        for (size_t i = 0; i < parts.count; i++)
                sr_buf_printf(&config, "%s\"%s\"", i > 0 ? "," : "", parts.layers[i].diff_id);
        sr_buf_append_text(&config, "]}}");
        blob = layout_text(layout, config.data);
        sr_buf_printf(&manifest,
                      "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu},"
                      "\"layers\":[",
                      parts.config_type != NULL ? parts.config_type : SR_MEDIA_TYPE_CONFIG, blob.digest,
                      blob.size);
        for (size_t i = 0; i < parts.count; i++)
                sr_buf_printf(&manifest, "%s{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu}",
                              i > 0 ? "," : "",
                              parts.layer_type != NULL ? parts.layer_type : SR_MEDIA_TYPE_LAYER,
                              parts.layers[i].blob.digest, parts.layers[i].blob.size);
        sr_buf_append_text(&manifest, "]}");
        return layout_text(layout, manifest.data);
}

// Appends a descriptor to the list of manifests of an index. extra is JSON that begins with a comma, or "".
UNUSED static void index_add(struct sr_buf *list, const char *media_type, const struct blob *blob,
                             const char *extra)
{
        sr_buf_printf(list, "%s{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu%s}",
                      list->len > 0 ? "," : "", media_type, blob->digest, blob->size, extra);
}

// Writes index.json and oci-layout.
UNUSED static void layout_index(const char *layout, const char *list)
{
        _cleanup_free_ char *index = sr_asprintf("{\"schemaVersion\":2,\"manifests\":[%s]}", list);

        layout_file(layout, "index.json", index);
        layout_file(layout, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
}

#define NAMED(name) ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"" name "\"}"

// A layout of one image of two layers, called app:1. *ret_size is the size of the files of its layers.
UNUSED static struct blob layout_simple(const char *layout, const char *note)
{
        struct layer layers[2];
        struct tar tar;
        struct blob manifest;
        _cleanup_buf_ struct sr_buf list = {0};

        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "usr/bin/tool", "tool");
        tar_file(&tar, "gone", "x");
        tar_file(&tar, "note", note);
        layers[0] = layout_layer(layout, &tar);
        tar_begin(&tar, ARCHIVE_FILTER_GZIP);
        tar_file(&tar, ".wh.gone", "");
        tar_file(&tar, "etc/motd", "hello");
        layers[1] = layout_layer(layout, &tar);
        manifest = layout_manifest(layout, (struct manifest_parts){.layers = layers, .count = 2});
        index_add(&list, SR_MEDIA_TYPE_MANIFEST, &manifest, NAMED("app:1"));
        layout_index(layout, list.data);
        return manifest;
}
