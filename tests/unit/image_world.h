// A root that layers are unpacked into, and the directory around it that nothing may get out to.
#pragma once

#include "image_fixture.h"

#include "image/unpack.h"

UNUSED static const struct sr_image_layer_limits plenty = {.bytes = 1 << 30, .entries = 100000};

struct world {
        int outside; // the test's directory
        int root;    // "root" in it
};

UNUSED static void open_world(struct world *world, void **state)
{
        world->outside = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(world->outside >= 0);
        assert_true(mkdirat(world->outside, "root", 0755) == 0 || errno == EEXIST);
        world->root = openat(world->outside, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(world->root >= 0);
}

UNUSED static void close_world(struct world *world)
{
        close(world->root);
        close(world->outside);
}

// Applies the archive, which is freed.
UNUSED static int apply(struct world *world, struct tar *tar, struct sr_image_layer_summary *ret,
                        struct sr_error **error)
{
        struct sr_image_layer_summary summary;

        tar_end(tar);

        _cleanup_close_ int fd = bytes_fd(&tar->bytes);
        int r = sr_image_unpack_layer(fd, world->root, &plenty, ret != NULL ? ret : &summary, error);

        sr_buf_clear(&tar->bytes);
        return r;
}

UNUSED static void apply_well(struct world *world, struct tar *tar)
{
        _cleanup_error_ struct sr_error *error = NULL;

        if (apply(world, tar, NULL, &error) < 0)
                fail_msg("%s", sr_error_message(error));
}

UNUSED static bool is_there(int fd, const char *path)
{
        struct stat stat;

        return fstatat(fd, path, &stat, AT_SYMLINK_NOFOLLOW) == 0;
}

UNUSED static struct stat look(int fd, const char *path)
{
        struct stat stat;

        if (fstatat(fd, path, &stat, AT_SYMLINK_NOFOLLOW) < 0)
                fail_msg("%s: %s", path, strerror(errno));
        return stat;
}

UNUSED static void assert_text(int fd, const char *path, const char *text)
{
        _cleanup_free_ char *found = read_text(fd, path);

        assert_string_equal(found, text);
}
