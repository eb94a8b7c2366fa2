// Unpacking layers: what comes out of good archives.

#include "image_world.h"

#include <sys/xattr.h>

static void a_layer_becomes_a_tree(void **state)
{
        static const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_ZSTD};
        char first[SR_DIGEST_HEX_LENGTH + 1] = "";

        for (size_t i = 0; i < 3; i++) {
                struct world world;
                struct tar tar;
                struct sr_image_layer_summary summary;
                char target[16] = {0};
                _cleanup_error_ struct sr_error *error = NULL;

                open_world(&world, state);
                tar_begin(&tar, filters[i]);
                tar_directory(&tar, "./");
                tar_add(&tar, "./usr/",
                        (struct tar_entry){.type = AE_IFDIR, .mode = 0755, .mtime = 1111111111});
                tar_file(&tar, "./usr/a", "hello");
                tar_add(&tar, "usr/empty", (struct tar_entry){.type = AE_IFREG, .mode = 0600});
                tar_symlink(&tar, "usr/link", "a");
                tar_hardlink(&tar, "usr/hard", "./usr/a");
                tar_file(&tar, "usr/\xc3\xa9 \xe2\x82\xac", "utf-8");
                if (apply(&world, &tar, &summary, &error) < 0)
                        fail_msg("%s", sr_error_message(error));
                assert_int_equal(summary.entries, 7);
                assert_true(summary.bytes > 7 * 512);
                // The same archive whatever it was compressed with.
                assert_true(i == 0 || strcmp(summary.diff_id, first) == 0);
                memcpy(first, summary.diff_id, sizeof(first));
                assert_text(world.root, "usr/a", "hello");
                assert_text(world.root, "usr/\xc3\xa9 \xe2\x82\xac", "utf-8");
                assert_int_equal(look(world.root, "usr/empty").st_size, 0);
                assert_int_equal(look(world.root, "usr/a").st_ino, look(world.root, "usr/hard").st_ino);
                assert_int_equal(readlinkat(world.root, "usr/link", target, sizeof(target)), 1);
                assert_string_equal(target, "a");
                assert_int_equal(look(world.root, "usr/a").st_mtime, TAR_TIME);
                assert_int_equal(look(world.root, "usr/link").st_mtime, TAR_TIME);
                assert_int_equal(look(world.root, "usr").st_mtime, 1111111111);
                assert_int_equal(look(world.root, "usr/a").st_uid, geteuid());
                assert_int_equal(sr_image_remove_tree(world.outside, "root", NULL), 0);
                close_world(&world);
        }
}

static void modes_lose_what_a_sandbox_must_not_have(void **state)
{
        struct world world;
        struct tar tar;
        static const struct {
                const char *name;
                int type;
                unsigned mode, expected;
        } cases[] = {
                {"suid", AE_IFREG, 04755, 0755},    {"sgid", AE_IFREG, 02755, 0755},
                {"sticky", AE_IFREG, 01777, 0777},  {"none", AE_IFREG, 0, 0600},
                {"readonly", AE_IFREG, 0444, 0644}, {"dir", AE_IFDIR, 0, 0700},
                {"dirgid", AE_IFDIR, 02775, 0775},  {"tmp", AE_IFDIR, 01777, 01777},
                {"closed", AE_IFDIR, 0055, 0755},
        };
        const mode_t before = umask(077);

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                tar_add(&tar, cases[i].name,
                        (struct tar_entry){.type = cases[i].type, .mode = cases[i].mode});
        tar_file(&tar, "made/on/the/way", "x");
        apply_well(&world, &tar);
        umask(before);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                if ((look(world.root, cases[i].name).st_mode & 07777) != cases[i].expected)
                        fail_msg("%s has mode %o", cases[i].name, look(world.root, cases[i].name).st_mode);
        assert_int_equal(look(world.root, "made/on").st_mode & 07777, 0755);
        close_world(&world);
}

static void extended_attributes_are_left_out(void **state)
{
        struct world world;
        struct tar tar;
        char names[1024];

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);

        struct archive_entry *entry = archive_entry_new();

        archive_entry_set_pathname(entry, "a");
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0755);
        archive_entry_set_size(entry, 0);
        archive_entry_xattr_add_entry(entry, "security.capability", "\1\0\0\2", 4);
        archive_entry_xattr_add_entry(entry, "trusted.overlay.opaque", "y", 1);
        archive_entry_xattr_add_entry(entry, "user.note", "x", 1);
        assert_int_equal(archive_write_header(tar.archive, entry), ARCHIVE_OK);
        archive_entry_free(entry);
        apply_well(&world, &tar);

        _cleanup_free_ char *path = path_in(state, "root/a");

        assert_int_equal(llistxattr(path, names, sizeof(names)), 0);
        close_world(&world);
}

static void devices_are_skipped_and_hide_what_was_there(void **state)
{
        static const int types[] = {AE_IFCHR, AE_IFBLK, AE_IFIFO};
        struct world world;
        struct tar tar;

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "dev/0", "lower");
        tar_file(&tar, "dev/other", "lower");
        apply_well(&world, &tar);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        for (size_t i = 0; i < 3; i++) {
                char name[] = "dev/0";

                name[4] = (char)('0' + i);
                tar_add(&tar, name, (struct tar_entry){.type = types[i], .mode = 0666});
        }
        tar_file(&tar, "after", "x");
        apply_well(&world, &tar);
        assert_false(is_there(world.root, "dev/0"));
        assert_false(is_there(world.root, "dev/1"));
        assert_false(is_there(world.root, "dev/2"));
        assert_true(is_there(world.root, "dev/other"));
        assert_true(is_there(world.root, "after"));
        close_world(&world);
}

// A name that two layers share must not be written through: the file of the lower one may be linked
// elsewhere.
static void a_file_is_replaced_not_written_to(void **state)
{
        struct world world;
        struct tar tar;

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "a", "old");
        tar_hardlink(&tar, "b", "a");
        apply_well(&world, &tar);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "a", "new");
        apply_well(&world, &tar);
        assert_text(world.root, "a", "new");
        assert_text(world.root, "b", "old");
        close_world(&world);
}

static void kinds_replace_each_other(void **state)
{
        struct world world;
        struct tar tar;

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "file-to-dir", "x");
        tar_file(&tar, "dir-to-file/in/it", "x");
        tar_file(&tar, "dir-to-link/in/it", "x");
        tar_symlink(&tar, "link-to-dir", "dir-to-file");
        tar_add(&tar, "dir", (struct tar_entry){.type = AE_IFDIR, .mode = 0755});
        tar_file(&tar, "dir/stays", "x");
        apply_well(&world, &tar);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_directory(&tar, "file-to-dir");
        tar_file(&tar, "dir-to-file", "x");
        tar_symlink(&tar, "dir-to-link", "dir");
        tar_directory(&tar, "link-to-dir");
        tar_add(&tar, "dir", (struct tar_entry){.type = AE_IFDIR, .mode = 0700});
        apply_well(&world, &tar);
        assert_true(S_ISDIR(look(world.root, "file-to-dir").st_mode));
        assert_true(S_ISREG(look(world.root, "dir-to-file").st_mode));
        assert_true(S_ISLNK(look(world.root, "dir-to-link").st_mode));
        assert_true(S_ISDIR(look(world.root, "link-to-dir").st_mode));
        assert_int_equal(look(world.root, "dir").st_mode & 07777, 0700);
        assert_true(is_there(world.root, "dir/stays"));
        close_world(&world);
}

static void whiteouts_hide_what_is_below(void **state)
{
        struct world world;
        struct tar tar;

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "a", "x");
        tar_file(&tar, "keep", "x");
        tar_file(&tar, "d/one", "x");
        tar_file(&tar, "d/two/three", "x");
        tar_symlink(&tar, "l", "d");
        tar_file(&tar, "e/old", "x");
        tar_file(&tar, "e/sub/old", "x");
        apply_well(&world, &tar);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        // What this layer puts there comes first, and stays.
        tar_file(&tar, "d/new", "x");
        tar_file(&tar, "d/two/new", "x");
        tar_file(&tar, ".wh.a", "");
        tar_file(&tar, ".wh.never-there", "");
        tar_file(&tar, ".wh.d", "");
        tar_file(&tar, ".wh.l", "");
        tar_file(&tar, "no/.wh.parent", "");
        tar_file(&tar, "keep/.wh.not-a-directory", "");
        tar_file(&tar, "e/before", "x");
        tar_file(&tar, "e/.wh..wh..opq", "");
        tar_file(&tar, "e/after", "x");
        tar_file(&tar, ".wh..wh.plnk/1.2", "aufs's own");
        tar_file(&tar, ".wh..wh.aufs", "aufs's own");
        apply_well(&world, &tar);
        assert_false(is_there(world.root, "a"));
        assert_true(is_there(world.root, "keep"));
        assert_false(is_there(world.root, "l"));
        assert_false(is_there(world.root, "d/one"));
        assert_false(is_there(world.root, "d/two/three"));
        assert_true(is_there(world.root, "d/new"));
        assert_true(is_there(world.root, "d/two/new"));
        assert_false(is_there(world.root, "e/old"));
        assert_false(is_there(world.root, "e/sub"));
        assert_true(is_there(world.root, "e/before"));
        assert_true(is_there(world.root, "e/after"));
        assert_false(is_there(world.root, "no"));
        assert_false(is_there(world.root, ".wh..wh.plnk"));
        assert_false(is_there(world.root, ".wh..wh.aufs"));
        close_world(&world);
}

static void an_opaque_root_is_emptied(void **state)
{
        struct world world;
        struct tar tar;

        open_world(&world, state);
        write_file(strcat(strcpy((char[256]){0}, *state), "/secret"), "mine", 4);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "a/b", "x");
        tar_symlink(&tar, "out", "..");
        apply_well(&world, &tar);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "new", "x");
        tar_file(&tar, "out/.wh.secret", ""); // out leads to the root itself
        tar_file(&tar, ".wh..wh..opq", "");
        apply_well(&world, &tar);
        assert_false(is_there(world.root, "a"));
        assert_false(is_there(world.root, "out"));
        assert_true(is_there(world.root, "new"));
        assert_true(is_there(world.outside, "secret"));
        close_world(&world);
}

static char *deep_path(size_t depth, const char *name)
{
        struct sr_buf path = {0};

        for (size_t i = 0; i < depth; i++)
                sr_buf_append_text(&path, "ab/");
        sr_buf_append_text(&path, name);
        return sr_buf_steal(&path, NULL);
}

// Deeper than PATH_MAX, and than descriptors or a stack frame a level would allow.
static void deep_trees_are_made_and_removed(void **state)
{
        const size_t depth = 2500;
        _cleanup_free_ char *file = deep_path(depth, "file"), *link = deep_path(depth, "hard");
        _cleanup_free_ char *whiteout = deep_path(depth, ".wh.file"), *too_deep = deep_path(5000, "file");
        _cleanup_error_ struct sr_error *error = NULL;
        struct world world;
        struct tar tar;

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, file, "deep");
        tar_hardlink(&tar, link, file);
        apply_well(&world, &tar);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, whiteout, "");
        apply_well(&world, &tar);

        int fd = dup(world.root);

        for (size_t i = 0; i < depth; i++) {
                int next = openat(fd, "ab", O_PATH | O_DIRECTORY | O_CLOEXEC);

                assert_true(next >= 0);
                close(fd);
                fd = next;
        }
        assert_false(is_there(fd, "file"));
        assert_text(fd, "hard", "deep");
        close(fd);
        // A link in a path that is too long for the kernel is refused, not followed.
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, too_deep, "x");
        assert_int_equal(apply(&world, &tar, NULL, &error), -E2BIG);
        assert_message(error, "deep", NULL);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, ".wh.ab", "");
        apply_well(&world, &tar);
        assert_false(is_there(world.root, "ab"));
        close_world(&world);
}

static void sparse_files_keep_their_holes(void **state)
{
        struct world world;
        struct tar tar;
        struct archive_entry *entry = archive_entry_new();

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        archive_entry_set_pathname(entry, "sparse");
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_size(entry, 8 << 20);
        archive_entry_sparse_add_entry(entry, 4 << 20, 4096);
        assert_int_equal(archive_write_header(tar.archive, entry), ARCHIVE_OK);
        archive_entry_free(entry);

        _cleanup_free_ char *data = sr_calloc(1, 8 << 20);

        memset(data + (4 << 20), 'x', 4096);
        assert_int_equal(archive_write_data(tar.archive, data, 8 << 20), 8 << 20);
        apply_well(&world, &tar);

        _cleanup_free_ char *found = read_text(world.root, "sparse");

        assert_int_equal(look(world.root, "sparse").st_size, 8 << 20);
        assert_true(look(world.root, "sparse").st_blocks * 512 < 1 << 20);
        assert_memory_equal(found, data, 8 << 20);
        close_world(&world);
}

// Layers of nothing, as tools write them for steps that change no file.
static void empty_layers_are_good(void **state)
{
        static const char block[1024];
        struct world world;

        open_world(&world, state);
        for (size_t length = 0; length <= sizeof(block); length += sizeof(block)) {
                _cleanup_buf_ struct sr_buf bytes = {0};
                struct sr_image_layer_summary summary;
                char hex[SR_DIGEST_HEX_LENGTH + 1];

                sr_buf_append(&bytes, block, length);

                _cleanup_close_ int fd = bytes_fd(&bytes);

                assert_int_equal(sr_image_unpack_layer(fd, world.root, &plenty, &summary, NULL), 0);
                assert_int_equal(summary.entries, 0);
                assert_int_equal(summary.bytes, length);
                assert_int_equal(sr_digest_of(block, length, hex), 0);
                assert_string_equal(summary.diff_id, hex);
        }
        close_world(&world);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                directory_test(a_layer_becomes_a_tree),
                directory_test(modes_lose_what_a_sandbox_must_not_have),
                directory_test(extended_attributes_are_left_out),
                directory_test(devices_are_skipped_and_hide_what_was_there),
                directory_test(a_file_is_replaced_not_written_to),
                directory_test(kinds_replace_each_other),
                directory_test(whiteouts_hide_what_is_below),
                directory_test(an_opaque_root_is_emptied),
                directory_test(deep_trees_are_made_and_removed),
                directory_test(sparse_files_keep_their_holes),
                directory_test(empty_layers_are_good),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
