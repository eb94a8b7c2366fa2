// Hostile and damaged layers: nothing gets out of the root, limits hold, and what is refused is named.

#include "image_world.h"

static void links_lead_inside_the_root(void **state)
{
        // A directory of the host that an escape would reach; inside the root there is none of that name.
        _cleanup_free_ char *host = path_in(state, "host"), *secret = path_in(state, "secret");
        _cleanup_free_ char *up = sr_asprintf("../../../../../../../..%s", host), *inside = NULL;
        _cleanup_strv_ char **names = NULL;
        struct world world;
        struct tar tar;

        open_world(&world, state);
        write_file(secret, "mine", 4);
        assert_int_equal(mkdir(host, 0755), 0);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_directory(&tar, "usr/sr-lib");
        tar_symlink(&tar, "lib", "usr/sr-lib");
        tar_file(&tar, "lib/x", "through lib");
        tar_symlink(&tar, "absolute", "/usr/sr-lib");
        tar_file(&tar, "absolute/y", "through absolute");
        tar_symlink(&tar, "up", "../../../../../../../../usr/sr-lib");
        tar_file(&tar, "up/z", "through up");
        tar_symlink(&tar, "host", host);
        tar_file(&tar, "host/1", "not on the host");
        tar_symlink(&tar, "host-up", up);
        tar_file(&tar, "host-up/2", "not on the host");
        tar_hardlink(&tar, "host-up/3", "host/1");
        tar_directory(&tar, "host/4");
        tar_symlink(&tar, "host/5", "x");
        tar_symlink(&tar, "out", "..");
        tar_file(&tar, "out/secret", "overwritten?");
        tar_symlink(&tar, "later", "usr/later/deep");
        tar_file(&tar, "later/w", "made where it leads");
        tar_symlink(&tar, "link", "../secret");
        tar_file(&tar, "link", "a file in the place of the link");
        apply_well(&world, &tar);
        assert_text(world.root, "usr/sr-lib/x", "through lib");
        assert_text(world.root, "usr/sr-lib/y", "through absolute");
        assert_text(world.root, "usr/sr-lib/z", "through up");
        inside = sr_asprintf("%s/2", host + 1);
        assert_text(world.root, inside, "not on the host");
        assert_text(world.root, "secret", "overwritten?");
        assert_text(world.root, "usr/later/deep/w", "made where it leads");
        assert_text(world.root, "link", "a file in the place of the link");
        assert_text(world.outside, "secret", "mine");

        _cleanup_close_ int fd = open(host, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(sr_image_read_names(fd, &names), 0);
        assert_null(names);
        close_world(&world);
}

static void hard_links_are_scoped_to_the_root(void **state)
{
        struct world world;
        struct tar tar;

        open_world(&world, state);
        write_file(strcat(strcpy((char[256]){0}, *state), "/secret"), "mine", 4);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "secret", "inside");
        tar_symlink(&tar, "out", "..");
        tar_hardlink(&tar, "a", "/secret");
        tar_hardlink(&tar, "b", "out/secret");
        tar_symlink(&tar, "link", "/secret");
        tar_hardlink(&tar, "c", "link"); // the link itself
        tar_hardlink(&tar, "secret", "secret");
        apply_well(&world, &tar);
        assert_text(world.root, "a", "inside");
        assert_text(world.root, "b", "inside");
        assert_text(world.root, "secret", "inside");
        assert_true(S_ISLNK(look(world.root, "c").st_mode));
        assert_int_equal(look(world.outside, "secret").st_nlink, 1);

        static const char *const targets[] = {"../secret", "missing", "out", "dir", "/"};
        struct stat before = look(world.outside, "secret");

        for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL;

                tar_begin(&tar, ARCHIVE_FILTER_NONE);
                tar_directory(&tar, "dir");
                tar_hardlink(&tar, "bad", targets[i]);
                // "out" is a link, which may have a second name.
                assert_true(strcmp(targets[i], "out") == 0 ? apply(&world, &tar, NULL, &error) == 0
                                                           : apply(&world, &tar, NULL, &error) < 0);
                assert_true(strcmp(targets[i], "out") == 0 ||
                            strstr(sr_error_message(error), "hard link") != NULL);
        }
        assert_int_equal(look(world.outside, "secret").st_nlink, before.st_nlink);
        close_world(&world);
}

static void bad_names_are_refused_and_delete_nothing(void **state)
{
        static const struct {
                const char *path, *message;
        } cases[] = {
                {".wh.", "whiteout"},    {".wh..", "whiteout"},   {".wh...", "whiteout"},
                {"a/.wh.", "whiteout"},  {"a/.wh..", "whiteout"}, {"a/.wh...", "whiteout"},
                {".wh.a/b", "whiteout"}, {"../x", "leaves"},      {"a/../../x", "leaves"},
                {"/../x", "leaves"},     {"..", "leaves"},        {"file/x", "no directory"},
        };
        struct world world;
        struct tar tar;

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "a/b", "x");
        tar_file(&tar, "file", "x");
        apply_well(&world, &tar);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL;

                tar_begin(&tar, ARCHIVE_FILTER_NONE);
                tar_file(&tar, cases[i].path, "x");
                if (apply(&world, &tar, NULL, &error) >= 0)
                        fail_msg("%s was taken", cases[i].path);
                assert_message(error, cases[i].message, cases[i].path, "entry 1", NULL);
                assert_true(is_there(world.root, "a/b"));
                assert_false(is_there(world.outside, "x"));
        }
        // A name must not drive the terminal that it is shown on.
        _cleanup_error_ struct sr_error *error = NULL;

        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "../\x1b[2J\n", "x");
        assert_true(apply(&world, &tar, NULL, &error) < 0);
        assert_null(strchr(sr_error_message(error), '\x1b'));
        assert_null(strchr(sr_error_message(error), '\n'));
        close_world(&world);
}

static int apply_limited(struct world *world, struct tar *tar, struct sr_image_layer_limits limits,
                         struct sr_error **error)
{
        struct sr_image_layer_summary summary;

        tar_end(tar);

        _cleanup_close_ int fd = bytes_fd(&tar->bytes);
        int r = sr_image_unpack_layer(fd, world->root, &limits, &summary, error);

        sr_buf_clear(&tar->bytes);
        return r;
}

static void limits_hold(void **state)
{
        _cleanup_free_ char *zeros = sr_calloc(1, 1 << 20);
        struct world world;
        struct tar tar;

        open_world(&world, state);
        for (int round = 0; round < 2; round++) {
                _cleanup_error_ struct sr_error *error = NULL;
                const struct sr_image_layer_limits limits = {.bytes = 2 << 20,
                                                             .entries = round == 0 ? 10 : 3};

                tar_begin(&tar, ARCHIVE_FILTER_GZIP);
                for (int i = 0; i < 4; i++) {
                        char name[2] = {(char)('a' + i), 0};

                        tar_add(&tar, name,
                                (struct tar_entry){AE_IFREG, 0644, NULL, zeros, round == 0 ? 1 << 20 : 1, 0});
                }
                assert_int_equal(apply_limited(&world, &tar, limits, &error), -E2BIG);
                assert_message(error, round == 0 ? "2.1 MB" : "3 entries", NULL);
        }
        // A sparse file takes no space in the archive.
        struct archive_entry *entry = archive_entry_new();
        _cleanup_error_ struct sr_error *error = NULL;

        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        archive_entry_set_pathname(entry, "sparse");
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_size(entry, 3 << 20);
        archive_entry_sparse_add_entry(entry, 0, 1);
        assert_int_equal(archive_write_header(tar.archive, entry), ARCHIVE_OK);
        archive_entry_free(entry);
        assert_int_equal(archive_write_data(tar.archive, zeros, 1), 1);
        assert_int_equal(apply_limited(&world, &tar, (struct sr_image_layer_limits){2 << 20, 10}, &error),
                         -E2BIG);
        assert_message(error, "sparse", "2.1 MB", NULL);
        close_world(&world);
}

static void a_decompression_bomb_is_seen(void **state)
{
        _cleanup_free_ char *zeros = sr_calloc(1, 1 << 20);
        _cleanup_error_ struct sr_error *error = NULL;
        struct world world;
        struct tar tar;

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_ZSTD);
        for (int i = 0; i < 200; i++)
                tar_add(&tar, "zeros", (struct tar_entry){AE_IFREG, 0644, NULL, zeros, 1 << 20, 0});
        assert_int_equal(apply(&world, &tar, NULL, &error), -E2BIG);
        assert_message(error, "bomb", NULL);
        close_world(&world);
}

// Cuts, changes and replaces bytes: an error or, where nothing that matters was hit, a tree; never a crash.
static void damaged_archives_are_refused(void **state)
{
        static const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_ZSTD};
        struct world world;

        open_world(&world, state);
        for (size_t f = 0; f < 3; f++) {
                struct tar tar;
                struct sr_image_layer_summary good, summary;
                size_t refused = 0, tries = 0;

                tar_begin(&tar, filters[f]);
                for (int i = 0; i < 8; i++) {
                        char name[] = "dir/file0";

                        name[8] = (char)('0' + i);
                        tar_file(&tar, name, "some text that is compressed");
                }
                tar_end(&tar);

                _cleanup_close_ int whole = bytes_fd(&tar.bytes);

                assert_int_equal(sr_image_unpack_layer(whole, world.root, &plenty, &good, NULL), 0);
                for (size_t cut = 0; cut < tar.bytes.len; cut += 1 + tar.bytes.len / 100, tries++) {
                        struct sr_buf part = {.data = tar.bytes.data, .len = cut};
                        _cleanup_close_ int fd = bytes_fd(&part);
                        int r = sr_image_unpack_layer(fd, world.root, &plenty, &summary, NULL);

                        // What is cut at the end of a member looks whole; then the digest tells.
                        assert_true(r < 0 || strcmp(summary.diff_id, good.diff_id) != 0);
                        refused += r < 0;
                }
                assert_true(refused > tries / 2);
                for (size_t at = 0; at < tar.bytes.len; at += 1 + tar.bytes.len / 200) {
                        tar.bytes.data[at] ^= 0x55;

                        _cleanup_close_ int fd = bytes_fd(&tar.bytes);

                        (void)sr_image_unpack_layer(fd, world.root, &plenty, &summary, NULL);
                        tar.bytes.data[at] ^= 0x55;
                }
                sr_buf_clear(&tar.bytes);
        }

        static const char *const others[] = {"no archive at all, but long enough to be looked at", "PK\3\4",
                                             "BZh91AY&SY"};

        for (size_t i = 0; i < 3; i++) {
                _cleanup_error_ struct sr_error *error = NULL;
                _cleanup_buf_ struct sr_buf bytes = {0};
                struct sr_image_layer_summary summary;

                sr_buf_append(&bytes, others[i], strlen(others[i]));
                while (bytes.len < 2048)
                        sr_buf_append_char(&bytes, 'x');

                _cleanup_close_ int fd = bytes_fd(&bytes);

                assert_true(sr_image_unpack_layer(fd, world.root, &plenty, &summary, &error) < 0);
                assert_message(error, "not a tar archive", NULL);
        }
        close_world(&world);
}

struct confinement {
        int calls;
        const char *answer; // NULL: do it
};

static int run_confined(void *context, char *const *argv, int input_fd, int directory_fd,
                        struct sr_buf *ret_output, struct sr_error **error)
{
        struct confinement *confinement = context;
        struct sr_image_layer_limits limits = {strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10)};
        struct sr_image_layer_summary summary;

        confinement->calls++;
        assert_string_equal(argv[0], "sandbox-runner-image");
        assert_string_equal(argv[1], "unpack-layer");
        assert_null(argv[4]);
        if (confinement->answer != NULL) {
                sr_buf_append_text(ret_output, confinement->answer);
                return 0;
        }

        int r = sr_image_unpack_layer(input_fd, directory_fd, &limits, &summary, error);

        if (r == 0)
                sr_buf_printf(ret_output, "{\"diff_id\":\"sha256:%s\",\"entries\":%llu,\"bytes\":%llu}\n",
                              summary.diff_id, (unsigned long long)summary.entries,
                              (unsigned long long)summary.bytes);
        return r;
}

static void a_helper_is_believed_no_further_than_needed(void **state)
{
        static const char *const lies[] = {
                "",
                "{}",
                "[]",
                "x",
                "{\"diff_id\":\"sha256:../..\",\"entries\":1,\"bytes\":1}",
                "{\"diff_id\":\"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\","
                "\"entries\":-1,"
                "\"bytes\":1}",
                "{\"diff_id\":\"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\","
                "\"entries\":1,"
                "\"bytes\":99999999999}",
        };
        struct confinement confinement = {0};
        const struct sr_image_confine confine = {.run = run_confined, .context = &confinement};
        struct sr_image_layer_summary summary;
        struct world world;
        struct tar tar;

        open_world(&world, state);
        tar_begin(&tar, ARCHIVE_FILTER_GZIP);
        tar_file(&tar, "a", "x");
        tar_end(&tar);

        _cleanup_close_ int fd = bytes_fd(&tar.bytes);

        assert_int_equal(sr_image_unpack_layer_confined(&confine, fd, world.root, &plenty, &summary, NULL),
                         0);
        assert_int_equal(confinement.calls, 1);
        assert_int_equal(summary.entries, 1);
        assert_text(world.root, "a", "x");
        for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL;

                confinement.answer = lies[i];
                assert_true(sr_image_unpack_layer_confined(&confine, fd, world.root, &plenty, &summary,
                                                           &error) < 0);
                assert_message(error, "helper", NULL);
        }
        sr_buf_clear(&tar.bytes);
        close_world(&world);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                directory_test(links_lead_inside_the_root),
                directory_test(hard_links_are_scoped_to_the_root),
                directory_test(bad_names_are_refused_and_delete_nothing),
                directory_test(limits_hold),
                directory_test(a_decompression_bomb_is_seen),
                directory_test(damaged_archives_are_refused),
                directory_test(a_helper_is_believed_no_further_than_needed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
