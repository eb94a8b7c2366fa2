// Which images of a layout are brought in, and under which names.
#include "image/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/limits.h"
#include "image/reference.h"
#include "image/text.h"
#include "sys/beneath.h"

struct import {
        struct sr_image_writer *writer;
        struct sr_image_work *work;
        struct sr_image_blobs *blobs;
        const struct sr_image_import_options *options;
        struct sr_image_list *list;
        struct sr_error **error;
};

static bool fits_host(const struct sr_image_descriptor *manifest)
{
        return (manifest->os == NULL || strcmp(manifest->os, "linux") == 0) &&
               (manifest->architecture == NULL ||
                strcmp(manifest->architecture, sr_image_host_architecture()) == 0);
}

static bool is_candidate(const struct sr_image_descriptor *manifest)
{
        return (manifest->media == SR_MEDIA_MANIFEST || manifest->media == SR_MEDIA_INDEX) &&
               !manifest->attestation && fits_host(manifest);
}

// Says that an index has nothing for this machine, and what it has.
static int refuse_platform(struct import *import, const struct sr_image_index *index)
{
        _cleanup_buf_ struct sr_buf others = {0};

        for (size_t i = 0; i < index->count && others.len < 400; i++) {
                const struct sr_image_descriptor *manifest = &index->manifests[i];

                if (manifest->attestation || manifest->os == NULL || manifest->architecture == NULL)
                        continue;

                _cleanup_free_ char *os = sr_image_printable(manifest->os);
                _cleanup_free_ char *architecture = sr_image_printable(manifest->architecture);

                sr_buf_printf(&others, "%s%s/%s", others.len > 0 ? ", " : " (only for ", os, architecture);
        }
        return sr_error_set(import->error, SR_ERROR_IMAGE, ENOTSUP, "it holds no image for linux/%s%s%s",
                            sr_image_host_architecture(), others.len > 0 ? others.data : "",
                            others.len > 0 ? ")" : "");
}

// Brings in what descriptor stands for; through indexes, the manifest for this machine.
static int import_one(struct import *import, const struct sr_image_descriptor *descriptor,
                      const char *reference)
{
        _cleanup_index_ struct sr_image_index index = {0};

        for (int depth = 0; descriptor->media == SR_MEDIA_INDEX; depth++) {
                _cleanup_buf_ struct sr_buf text = {0};
                struct sr_image_index inner = {0};
                const struct sr_image_descriptor *found = NULL;
                int r = depth < SR_IMAGE_MAX_INDEX_DEPTH
                                ? sr_image_blobs_document(import->blobs, descriptor, "an index", &text,
                                                          import->error)
                                : sr_error_set(import->error, SR_ERROR_IMAGE, ELOOP,
                                               "its indexes are nested too deep");

                if (r == 0)
                        r = sr_image_index_parse(&text, &inner, import->error);
                if (r < 0)
                        return sr_error_prefix(import->error, r, "the index %s", descriptor->digest);
                for (size_t i = 0; i < inner.count && found == NULL; i++)
                        if (is_candidate(&inner.manifests[i]))
                                found = &inner.manifests[i];
                r = found == NULL ? refuse_platform(import, &inner) : 0;
                sr_image_index_clear(&index);
                index = inner;
                descriptor = found;
                if (r < 0)
                        return r;
        }
        return sr_image_import_manifest(import->writer, import->work, import->blobs, descriptor, reference,
                                        import->options, import->list, import->error);
}

// Whether what an index calls an image is the reference: in full, or as its tag alone.
static bool is_called(const struct sr_image_descriptor *manifest, const char *reference)
{
        _cleanup_free_ char *familiar = NULL;
        const char *colon = strrchr(reference, ':');

        if (manifest->name == NULL)
                return false;
        if (colon != NULL && strcmp(colon + 1, manifest->name) == 0)
                return true;
        return sr_image_reference_normalise(manifest->name, &familiar, NULL) == 0 &&
               strcmp(familiar, reference) == 0;
}

static int refuse_choice(struct import *import, const struct sr_image_index *index)
{
        _cleanup_buf_ struct sr_buf names = {0};

        for (size_t i = 0; i < index->count && names.len < 400; i++) {
                if (!is_candidate(&index->manifests[i]) || index->manifests[i].name == NULL)
                        continue;

                _cleanup_free_ char *name = sr_image_printable(index->manifests[i].name);

                sr_buf_printf(&names, "%s%s", names.len > 0 ? ", " : "", name);
        }
        return sr_error_set(
                import->error, SR_ERROR_BAD_REQUEST, EINVAL,
                "it holds several images (%s): leave out --name to bring in all that have a name, or give "
                "one of these",
                names.len > 0 ? names.data : "none has a name");
}

// Brings in one image under the name that was asked for.
static int import_named(struct import *import, const struct sr_image_index *index)
{
        _cleanup_free_ char *reference = NULL;
        const struct sr_image_descriptor *only = NULL, *called = NULL;
        size_t candidates = 0;
        int r = sr_image_reference_normalise(import->options->name, &reference, import->error);

        if (r < 0)
                return r;
        for (size_t i = 0; i < index->count; i++) {
                if (!is_candidate(&index->manifests[i]))
                        continue;
                // One manifest under several names is one image.
                if (only == NULL || strcmp(only->digest, index->manifests[i].digest) != 0)
                        candidates++;
                only = &index->manifests[i];
                if (called == NULL && is_called(only, reference))
                        called = only;
        }
        if (candidates == 0)
                return refuse_platform(import, index);
        if (called == NULL && candidates > 1)
                return refuse_choice(import, index);
        return import_one(import, called != NULL ? called : only, reference);
}

// Brings in every image that the layout names.
static int import_all(struct import *import, const struct sr_image_index *index)
{
        size_t candidates = 0, named = 0;

        for (size_t i = 0; i < index->count; i++) {
                const struct sr_image_descriptor *manifest = &index->manifests[i];
                _cleanup_free_ char *reference = NULL;

                if (!is_candidate(manifest))
                        continue;
                candidates++;
                if (manifest->name == NULL)
                        continue;
                named++;

                int r = sr_image_reference_normalise(manifest->name, &reference, import->error);

                if (r < 0)
                        return sr_error_prefix(import->error, r,
                                               "its name cannot be used (give another with --name)");
                r = import_one(import, manifest, reference);
                if (r < 0)
                        return r;
        }
        if (candidates == 0)
                return refuse_platform(import, index);
        if (named == 0)
                return sr_error_set(import->error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "the image has no name; give it one with --name");
        return 0;
}

// Reads a document of a layout directory.
static int read_document(int fd, const char *name, struct sr_buf *ret, struct sr_error **error)
{
        _cleanup_close_ int file = sr_sys_open_beneath(fd, name);
        int r = file < 0 ? file : sr_fd_read_all(file, SR_IMAGE_MAX_JSON_BYTES, ret);

        if (r == -ENOENT)
                return sr_error_set(error, SR_ERROR_IMAGE, ENOENT,
                                    "it is not an OCI image layout: it has no %s", name);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_IMAGE, -r, "%s cannot be read: %s", name, strerror(-r));
        return 0;
}

static int run(struct import *import, int source_fd, bool directory)
{
        _cleanup_buf_ struct sr_buf layout = {0}, text = {0};
        _cleanup_index_ struct sr_image_index index = {0};
        int r;

        if (directory) {
                r = read_document(source_fd, "oci-layout", &layout, import->error);
                if (r == 0)
                        r = sr_image_layout_check(&layout, import->error);
                if (r == 0)
                        r = read_document(source_fd, "index.json", &text, import->error);
        } else {
                r = sr_image_import_read_tar(import->blobs, source_fd, import->options->progress, &text,
                                             import->error);
        }
        if (r < 0)
                return r;
        r = sr_image_index_parse(&text, &index, import->error);
        if (r < 0)
                return sr_error_prefix(import->error, r, "its index.json is not usable");
        return import->options->name != NULL ? import_named(import, &index) : import_all(import, &index);
}

int sr_image_import(const char *store_directory, int source_fd, const struct sr_image_import_options *options,
                    struct sr_image_list *ret, struct sr_error **error)
{
        _cleanup_writer_ struct sr_image_writer *writer = NULL;
        _cleanup_work_ struct sr_image_work *work = NULL;
        _cleanup_blobs_ struct sr_image_blobs *blobs = NULL;
        struct sr_image_list list = {0};
        struct stat source;

        if (fstat(source_fd, &source) < 0)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, errno, "it cannot be read: %s",
                                    strerror(errno));

        bool directory = S_ISDIR(source.st_mode);
        int r = sr_image_writer_open(store_directory, LOCK_SH, &writer, error);

        if (r == 0)
                r = sr_image_work_open_unique(writer, "import", &work, error);
        if (r == 0)
                r = sr_image_blobs_open(writer, work, directory ? source_fd : -1, &blobs, error);
        if (r == 0) {
                struct import import = {.writer = writer,
                                        .work = work,
                                        .blobs = blobs,
                                        .options = options,
                                        .list = &list,
                                        .error = error};

                r = run(&import, source_fd, directory);
        }
        if (r < 0) {
                sr_image_list_clear(&list);
                return r;
        }
        *ret = list;
        return 0;
}
