#include "image/ref.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "image/json.h"
#include "image/limits.h"
#include "image/reference.h"
#include "image/text.h"

#define SUFFIX ".json"

char *sr_image_ref_path(const char *reference)
{
        char *path = sr_asprintf("refs/%s" SUFFIX, reference);

        for (char *at = path + strlen("refs/"); *at != '\0'; at++)
                if (*at == '/')
                        *at = '+';
        return path;
}

char *sr_image_ref_from_name(const char *name)
{
        size_t length = strlen(name), suffix = strlen(SUFFIX);

        if (length <= suffix || strcmp(name + length - suffix, SUFFIX) != 0)
                return NULL;

        _cleanup_free_ char *reference = sr_memdup0(name, length - suffix);
        _cleanup_free_ char *familiar = NULL;

        for (char *at = reference; *at != '\0'; at++)
                if (*at == '+')
                        *at = '/';
        // Only the form that sr_image_ref_path() is given counts, so that each image has one file.
        if (sr_image_reference_normalise(reference, &familiar, NULL) < 0 || strcmp(familiar, reference) != 0)
                return NULL;
        return sr_steal(reference);
}

// Fills image from the document; returns what is wrong with it, or NULL.
static const char *read_members(const cJSON *document, struct sr_image *image)
{
        image->reference = sr_image_json_text(document, "reference");
        image->digest = sr_image_json_text(document, "manifest");
        image->chain_id = sr_image_json_text(document, "chain_id");
        if (image->reference == NULL)
                return "it has no reference";
        if (!sr_digest_valid(image->digest))
                return "its manifest is no SHA-256 digest";
        if (image->chain_id == NULL || !sr_digest_hex_valid(image->chain_id, strlen(image->chain_id)))
                return "its chain_id is not 64 hex digits";
        if (!sr_image_json_size(document, "created", &image->created_us))
                return "its created is no time";
        if (!sr_image_json_size(document, "size", &image->size))
                return "its size is no number of bytes";
        if (sr_image_json_settings(document, "environment", &image->environment) < 0)
                return "its environment is not a list of \"NAME=value\"";
        if (sr_image_json_settings(document, "labels", &image->labels) < 0)
                return "its labels are not texts";
        return NULL;
}

static int damaged(const char *directory, const char *path, const char *reference, const char *why,
                   struct sr_error **error)
{
        return sr_error_set(
                error, SR_ERROR_IMAGE, EBADMSG,
                "%s/%s is damaged: %s; remove it with `sandbox-runner image rm %s` and bring the image "
                "in again",
                directory, path, why, reference);
}

int sr_image_ref_read(int store_fd, const char *directory, const char *reference, struct sr_image **ret,
                      struct sr_error **error)
{
        _cleanup_free_ char *path = sr_image_ref_path(reference);
        _cleanup_image_ struct sr_image *image = sr_new(struct sr_image);
        _cleanup_error_ struct sr_error *inner = NULL;
        _cleanup_buf_ struct sr_buf text = {0};
        _cleanup_json_ cJSON *document = NULL;
        int r = sr_fd_read_file(store_fd, path, SR_IMAGE_MAX_REF_FILE_BYTES, &text);

        if (r == -ENOENT || r == -ENAMETOOLONG) // none that long was ever stored
                return -ENOENT;
        if (r == -EFBIG)
                return damaged(directory, path, reference, "it is too large", error);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_IMAGE, -r, "%s/%s cannot be read: %s", directory, path,
                                    strerror(-r));
        if (sr_image_json_parse(text.data != NULL ? text.data : "", text.len, &document, &inner) < 0)
                return damaged(directory, path, reference, sr_error_message(inner), error);

        const char *fault = read_members(document, image);

        if (fault == NULL && strcmp(image->reference, reference) != 0)
                fault = "it names another image";
        if (fault != NULL)
                return damaged(directory, path, reference, fault, error);
        image->tree = sr_asprintf("%s/trees/%s/rootfs", directory, image->chain_id);
        *ret = sr_steal(image);
        return 0;
}

void sr_image_ref_write(const struct sr_image *image, struct sr_buf *out)
{
        struct sr_json_writer w = {.out = out, .indent = 2, .first = true};

        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "reference", image->reference);
        sr_json_string(&w, "manifest", image->digest);
        sr_json_string(&w, "chain_id", image->chain_id);
        sr_json_integer(&w, "created", image->created_us);
        sr_json_integer(&w, "size", image->size);
        sr_image_json_write_array(&w, "environment", image->environment);
        sr_image_json_write_object(&w, "labels", image->labels);
        sr_json_close_object(&w);
        sr_buf_append_char(out, '\n');
}

int sr_image_store_check_format(int store_fd, const char *directory, struct sr_error **error)
{
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_fd_read_file(store_fd, "format", 32, &text);

        if (r == -ENOENT)
                return r;
        if (r < 0 && r != -EFBIG)
                return sr_error_set(error, SR_ERROR_IMAGE, -r, "%s/format cannot be read: %s", directory,
                                    strerror(-r));

        size_t digits = text.data != NULL ? strspn(text.data, "0123456789") : 0;

        if (r < 0 || digits == 0 || digits > 9 || strcmp(text.data + digits, "\n") != 0)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, EBADMSG,
                        "%s is not an image store: its file `format` does not hold a version; choose "
                        "another directory with --store",
                        directory);

        int version = atoi(text.data);

        if (version > SR_IMAGE_STORE_FORMAT)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, ENOTSUP,
                        "the image store %s was made by a newer version of SandboxRunner (format %d, "
                        "this one knows %d); upgrade, or choose another directory with --store",
                        directory, version, SR_IMAGE_STORE_FORMAT);
        if (version < SR_IMAGE_STORE_FORMAT)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, ENOTSUP,
                        "the image store %s has format %d, which no version of SandboxRunner made; "
                        "choose another directory with --store",
                        directory, version);
        return 0;
}
