// Importing a layout into a store, and counting what is in it.
#pragma once

#include "image_layout.h"

#include "image/import.h"
#include "image/store.h"

UNUSED static int import_from(const char *store, const char *layout, const char *name,
                              struct sr_image_list *ret, struct sr_error **error)
{
        const struct sr_image_import_options options = {.name = name};
        _cleanup_close_ int fd = open(layout, O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        return sr_image_import(store, fd, &options, ret, error);
}

UNUSED static void import_well(const char *store, const char *layout, const char *name,
                               struct sr_image_list *ret)
{
        _cleanup_error_ struct sr_error *error = NULL;

        if (import_from(store, layout, name, ret, &error) < 0)
                fail_msg("%s", sr_error_message(error));
}

// An archive of a layout.
UNUSED static void make_tar(const char *layout, struct tar *tar, int filter)
{
        _cleanup_close_ int fd = open(layout, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int blobs = openat(fd, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        static const char *const documents[] = {"oci-layout", "index.json"};
        _cleanup_strv_ char **names = NULL;

        tar_begin(tar, filter);
        tar_directory(tar, "./blobs/sha256/");
        assert_int_equal(sr_image_read_names(blobs, &names), 0);
        for (size_t i = 0; names[i] != NULL; i++) {
                _cleanup_free_ char *path = sr_asprintf("./blobs/sha256/%s", names[i]);
                _cleanup_buf_ struct sr_buf bytes = {0};

                assert_int_equal(sr_fd_read_file(blobs, names[i], 1 << 24, &bytes), 0);
                tar_add(tar, path, (struct tar_entry){AE_IFREG, 0644, NULL, bytes.data, bytes.len, 0});
        }
        for (size_t i = 0; i < 2; i++) {
                _cleanup_buf_ struct sr_buf bytes = {0};

                if (sr_fd_read_file(fd, documents[i], 1 << 24, &bytes) == 0)
                        tar_add(tar, documents[i],
                                (struct tar_entry){AE_IFREG, 0644, NULL, bytes.data, bytes.len, 0});
        }
        tar_end(tar);
}

UNUSED static size_t count_in(const char *store, const char *directory)
{
        _cleanup_free_ char *path = sr_asprintf("%s/%s", store, directory);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_ char **names = NULL;

        if (fd < 0)
                return 0;
        assert_int_equal(sr_image_read_names(fd, &names), 0);
        return sr_strv_length(names);
}

// Nothing but what every store has.
UNUSED static void assert_nothing_imported(const char *store)
{
        assert_int_equal(count_in(store, "refs"), 0);
        assert_int_equal(count_in(store, "trees"), 0);
        assert_int_equal(count_in(store, "blobs/sha256"), 0);
        assert_int_equal(count_in(store, "tmp"), 0);
}
