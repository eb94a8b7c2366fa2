// Stores over time: several processes at once, killed imports, leftovers, removal, export.

#include "image_import.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "image/export.h"
#include "image/remove.h"

// A root file system that no image has.
#define UNUSED_TREE "1111111111111111111111111111111111111111111111111111111111111111"

static void several_processes_import_one_image_once(void **state)
{
        enum { PROCESSES = 6 };
        _cleanup_free_ char *store_path = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_image_ struct sr_image *image = NULL;
        pid_t children[PROCESSES];

        layout_simple(layout, "n");
        for (int i = 0; i < PROCESSES; i++) {
                children[i] = fork();
                if (children[i] == 0) {
                        _cleanup_images_ struct sr_image_list list = {0};

                        _exit(import_from(store_path, layout, NULL, &list, NULL) < 0 || list.count != 1);
                }
        }
        for (int i = 0; i < PROCESSES; i++) {
                int status;

                assert_int_equal(waitpid(children[i], &status, 0), children[i]);
                assert_int_equal(status, 0);
        }
        assert_int_equal(count_in(store_path, "trees"), 1);
        assert_int_equal(count_in(store_path, "blobs/sha256"), 4);
        assert_int_equal(count_in(store_path, "tmp"), 0);
        assert_int_equal(sr_image_store_open(store_path, NULL, &store, NULL), 0);
        assert_int_equal(sr_image_store_find(store, "app:1", &image, NULL), 0);
}

// Images that differ in their settings alone have one root file system.
static void images_of_the_same_layers_share_their_tree(void **state)
{
        enum { IMAGES = 4 };
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_buf_ struct sr_buf list = {0};
        struct layer layer;
        struct tar tar;
        pid_t children[IMAGES];

        tar_begin(&tar, ARCHIVE_FILTER_GZIP);
        for (int i = 0; i < 200; i++) {
                _cleanup_free_ char *name = sr_asprintf("file%d", i);

                tar_file(&tar, name, "x");
        }
        layer = layout_layer(layout, &tar);
        for (int i = 0; i < IMAGES; i++) {
                _cleanup_free_ char *environment = sr_asprintf("[\"N=%d\"]", i);
                _cleanup_free_ char *note =
                        sr_asprintf(",\"annotations\":{\"org.opencontainers.image.ref.name\":\"app:%d\"}", i);
                struct blob manifest = layout_manifest(
                        layout,
                        (struct manifest_parts){.layers = &layer, .count = 1, .environment = environment});

                index_add(&list, SR_MEDIA_TYPE_MANIFEST, &manifest, note);
        }
        layout_index(layout, list.data);
        for (int i = 0; i < IMAGES; i++) {
                children[i] = fork();
                if (children[i] == 0) {
                        _cleanup_images_ struct sr_image_list images = {0};
                        _cleanup_free_ char *name = sr_asprintf("app:%d", i);

                        _exit(import_from(store, layout, name, &images, NULL) < 0);
                }
        }
        for (int i = 0; i < IMAGES; i++) {
                int status;

                assert_int_equal(waitpid(children[i], &status, 0), children[i]);
                assert_int_equal(status, 0);
        }
        assert_int_equal(count_in(store, "refs"), IMAGES);
        assert_int_equal(count_in(store, "trees"), 1);
        assert_int_equal(count_in(store, "blobs/sha256"), 2 * IMAGES + 1);
        assert_int_equal(count_in(store, "tmp"), 0);
}

// Killed at any moment, an import leaves nothing or the whole; the next one clears up.
static void a_killed_import_leaves_nothing_or_the_whole(void **state)
{
        _cleanup_free_ char *store_path = path_in(state, "store"), *layout = path_in(state, "layout");
        enum { ROUNDS = 40 };
        unsigned absent = 0, whole = 0, takes_us = 0;

        // In the first round it is left alone, to see how long it takes.
        for (unsigned round = 0; round <= ROUNDS; round++) {
                _cleanup_free_ char *note = sr_asprintf("round %u", round);
                _cleanup_store_ struct sr_image_store *store = NULL;
                _cleanup_image_ struct sr_image *image = NULL;
                _cleanup_images_ struct sr_image_list list = {0};
                struct sr_image_freed freed;
                uint64_t start;
                pid_t child;
                int r;

                layout_simple(layout, note); // a new image each time
                start = sr_clock_monotonic_ns();
                child = fork();
                if (child == 0) {
                        (void)import_from(store_path, layout, NULL, &list, NULL);
                        _exit(0);
                }
                if (round > 0) {
                        usleep(takes_us * round / ROUNDS * 3 / 2);
                        kill(child, SIGKILL);
                }
                waitpid(child, NULL, 0);
                if (round == 0)
                        takes_us = (unsigned)((sr_clock_monotonic_ns() - start) / 1000);
                assert_int_equal(sr_image_store_open(store_path, NULL, &store, NULL), 0);
                r = sr_image_store_find(store, "app:1", &image, NULL);
                if (r == 0) {
                        _cleanup_close_ int tree = open(image->tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                        _cleanup_free_ char *found = read_text(tree, "note"),
                                            *motd = read_text(tree, "etc/motd");

                        assert_string_equal(found, note);
                        assert_string_equal(motd, "hello");
                        whole++;
                } else {
                        assert_int_equal(r, -ENOENT);
                        absent++;
                }
                import_well(store_path, layout, NULL, &list);
                assert_int_equal(count_in(store_path, "tmp"), 0);
                assert_int_equal(sr_image_remove(store_path, "app:1", &freed, NULL), 0);
                assert_nothing_imported(store_path);
                assert_int_equal(sr_image_remove_tree(AT_FDCWD, layout, NULL), 0);
        }
        print_message("%u absent, %u whole; one takes %u us\n", absent, whole, takes_us);
        assert_true(absent > 0 && whole > 1);
}

static void removal_frees_what_no_other_image_needs(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_free_ char *lock_path = path_in(state, "store/lock"),
                            *damaged = path_in(state, "store/refs/bad:1.json");
        _cleanup_images_ struct sr_image_list list = {0}, more = {0};
        _cleanup_error_ struct sr_error *error = NULL, *broken = NULL;
        struct sr_image_freed freed;

        layout_simple(layout, "n");
        import_well(store, layout, "a", &list);
        import_well(store, layout, "b", &more);
        assert_int_equal(sr_image_remove(store, "a", &freed, NULL), 0);
        assert_int_equal(freed.trees, 0);
        assert_int_equal(freed.blobs, 0);
        assert_int_equal(sr_image_remove(store, "a", &freed, &error), -ENOENT);
        assert_message(error, "there is no image a:latest", NULL);
        // A run has the store locked: the name goes, the space stays.
        _cleanup_close_ int lock = open(lock_path, O_RDWR | O_CLOEXEC);

        assert_int_equal(flock(lock, LOCK_SH), 0);
        assert_int_equal(sr_image_remove(store, "docker.io/library/b:latest", &freed, NULL), 0);
        assert_true(freed.postponed);
        assert_int_equal(count_in(store, "refs"), 0);
        assert_int_equal(count_in(store, "trees"), 1);
        assert_int_equal(flock(lock, LOCK_UN), 0);
        // What cannot be read may need anything.
        write_file(damaged, "{", 1);
        assert_true(sr_image_collect(store, &freed, &broken) < 0);
        assert_message(broken, "no space was freed", "bad:1.json", NULL);
        assert_int_equal(count_in(store, "trees"), 1);
        assert_int_equal(sr_image_remove(store, "bad:1", &freed, NULL), 0);
        assert_int_equal(freed.trees, 1);
        assert_int_equal(freed.blobs, 4);
        assert_true(freed.bytes > 1000);
        assert_nothing_imported(store);
}

// Whether the deleting in tmp/<a directory>/0 has begun: its first name is gone, others are there.
static bool is_deleting(const char *store)
{
        _cleanup_free_ char *tmp = sr_asprintf("%s/tmp", store);
        _cleanup_close_ int fd = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_ char **names = NULL;

        assert_int_equal(sr_image_read_names(fd, &names), 0);
        for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
                _cleanup_free_ char *first = sr_asprintf("%s/0/a", names[i]),
                                    *rest = sr_asprintf("%s/0/b", names[i]);

                if (faccessat(fd, first, F_OK, 0) < 0 && faccessat(fd, rest, F_OK, 0) == 0)
                        return true;
        }
        return false;
}

// Stops a process in the midst of deleting a large tree, and looks whether a run could take the lock. (Where
// the process is done before it could be stopped, that is easy, but no fault.)
static void assert_open_while_deleting(const char *store, const char *tree)
{
        _cleanup_free_ char *lock_path = sr_asprintf("%s/lock", store), *rest = sr_asprintf("%s/b", tree);
        _cleanup_free_ char *first = sr_asprintf("%s/a", tree);
        struct sr_image_freed freed;
        siginfo_t ended = {0};
        int status = 0;
        pid_t child;

        assert_int_equal(sr_fd_make_directories(rest, 0755), 0);
        write_file(first, "x", 1);
        for (int i = 0; i < 3000; i++) {
                _cleanup_free_ char *name = sr_asprintf("%s/%d", rest, i);

                write_file(name, "", 0);
        }
        child = fork();
        if (child == 0)
                _exit(sr_image_collect(store, &freed, NULL) < 0 || freed.postponed);
        while (!is_deleting(store) && ended.si_pid == 0 &&
               waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0)
                usleep(100);
        kill(child, SIGSTOP);

        _cleanup_close_ int lock = open(lock_path, O_RDWR | O_CLOEXEC);
        int r = flock(lock, LOCK_SH | LOCK_NB);

        kill(child, SIGCONT);
        waitpid(child, &status, 0);
        assert_int_equal(r, 0);
        assert_int_equal(status, 0);
        assert_int_equal(count_in(store, "trees"), 0);
        assert_int_equal(count_in(store, "tmp"), 0);
}

static void nobody_waits_for_the_deleting(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_free_ char *unused = path_in(state, "store/trees/" UNUSED_TREE),
                            *leftover = path_in(state, "store/tmp/import-1/0");
        _cleanup_images_ struct sr_image_list list = {0};
        struct sr_image_freed freed;

        layout_simple(layout, "n");
        import_well(store, layout, NULL, &list);
        assert_int_equal(sr_image_remove(store, "app:1", &freed, NULL), 0);
        assert_open_while_deleting(store, unused);
        assert_open_while_deleting(store, leftover);
}

static void leftovers_are_removed_unless_somebody_works_there(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_free_ char *mine = path_in(state, "store/tmp/import-1/closed"),
                            *busy = path_in(state, "store/tmp/busy");
        _cleanup_free_ char *file = path_in(state, "store/tmp/file"),
                            *link = path_in(state, "store/tmp/link");
        _cleanup_images_ struct sr_image_list list = {0};

        layout_simple(layout, "n");
        assert_int_equal(sr_fd_make_directories(mine, 0755), 0);
        assert_int_equal(sr_fd_make_directories(busy, 0755), 0);
        assert_int_equal(chmod(mine, 0), 0);
        write_file(file, "x", 1);
        assert_int_equal(symlink(layout, link), 0);

        _cleanup_close_ int fd = open(busy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(flock(fd, LOCK_EX), 0);
        import_well(store, layout, NULL, &list);
        assert_int_equal(count_in(store, "tmp"), 1);
        assert_int_equal(access(busy, F_OK), 0);
        assert_int_equal(count_in(layout, "."), 3); // what the link led to
}

static void assert_blobs_whole(const char *store)
{
        _cleanup_free_ char *directory = sr_asprintf("%s/blobs/sha256", store);
        _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_ char **names = NULL;

        assert_int_equal(sr_image_read_names(fd, &names), 0);
        assert_int_equal(sr_strv_length(names), 4);
        for (size_t i = 0; names[i] != NULL; i++) {
                _cleanup_buf_ struct sr_buf bytes = {0};
                char hex[SR_DIGEST_HEX_LENGTH + 1];

                assert_int_equal(sr_fd_read_file(fd, names[i], 1 << 20, &bytes), 0);
                assert_int_equal(sr_digest_of(bytes.data, bytes.len, hex), 0);
                assert_string_equal(hex, names[i]);
        }
}

// A disk that changes a byte: importing the image again mends every blob, whether or not its tree is there.
static void importing_again_repairs_damaged_blobs(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_free_ char *archive = path_in(state, "archive");
        _cleanup_free_ char *blobs = path_in(state, "layout/blobs/sha256"),
                            *trees = path_in(state, "store/trees");
        _cleanup_images_ struct sr_image_list first = {0};
        _cleanup_close_ int names_fd = -1;
        _cleanup_strv_ char **names = NULL;
        struct tar tar;

        layout_simple(layout, "n");
        make_tar(layout, &tar, ARCHIVE_FILTER_NONE);
        write_file(archive, tar.bytes.data, tar.bytes.len);
        sr_buf_clear(&tar.bytes);
        import_well(store, layout, NULL, &first);
        names_fd = open(blobs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(sr_image_read_names(names_fd, &names), 0);
        for (size_t i = 0; names[i] != NULL; i++) {
                for (int how = 0; how < 4; how++) {
                        _cleanup_free_ char *path = sr_asprintf("%s/blobs/sha256/%s", store, names[i]);
                        _cleanup_images_ struct sr_image_list list = {0};
                        _cleanup_buf_ struct sr_buf bytes = {0};

                        assert_int_equal(sr_fd_read_file(AT_FDCWD, path, 1 << 20, &bytes), 0);
                        bytes.data[bytes.len / 2] ^= 1;
                        write_file(path, bytes.data, bytes.len);
                        if (how & 1)
                                assert_int_equal(sr_image_remove_tree(AT_FDCWD, trees, NULL), 0);
                        import_well(store, how & 2 ? archive : layout, NULL, &list);
                        assert_string_equal(list.images[0]->digest, first.images[0]->digest);
                        assert_int_equal(access(list.images[0]->tree, F_OK), 0);
                        assert_blobs_whole(store);
                        assert_int_equal(count_in(store, "tmp"), 0);
                }
        }

        // Where the source lacks the blob too, the message says that the store's is of no use.
        for (size_t i = 0; names[i] != NULL; i++) {
                _cleanup_free_ char *path = sr_asprintf("%s/blobs/sha256/%s", store, names[i]);
                _cleanup_images_ struct sr_image_list list = {0};
                _cleanup_error_ struct sr_error *error = NULL;
                _cleanup_buf_ struct sr_buf bytes = {0};

                assert_int_equal(sr_fd_read_file(AT_FDCWD, path, 1 << 20, &bytes), 0);
                write_file(path, "damaged", 7);
                assert_int_equal(unlinkat(names_fd, names[i], 0), 0);
                assert_true(import_from(store, layout, NULL, &list, &error) < 0);
                assert_message(error, names[i], "that of the store is damaged", NULL);
                write_file(path, bytes.data, bytes.len);
                assert_true(import_from(store, layout, NULL, &list, NULL) == 0);
        }
}

// Only a name that is not there is nothing to remove; one that cannot be looked at is trouble.
static void a_tree_that_cannot_be_reached_is_an_error(void **state)
{
        _cleanup_free_ char *file = path_in(state, "file");
        _cleanup_error_ struct sr_error *error = NULL;

        write_file(file, "x", 1);

        _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);

        assert_int_equal(sr_image_remove_tree(fd, "below", &error), -ENOTDIR);
        assert_message(error, "cannot look at below", NULL);
        assert_int_equal(sr_image_remove_tree(AT_FDCWD, *state, NULL), 0);
        assert_int_equal(sr_image_remove_tree(AT_FDCWD, *state, NULL), 0);
        assert_int_equal(mkdir(*state, 0700), 0);
}

static void an_export_can_be_imported(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_free_ char *out = path_in(state, "out"), *second = path_in(state, "second");
        _cleanup_images_ struct sr_image_list list = {0}, back = {0};
        _cleanup_error_ struct sr_error *error = NULL;

        layout_simple(layout, "n");
        import_well(store, layout, NULL, &list);
        assert_int_equal(sr_image_export(list.images[0], out, NULL), 0);
        import_well(second, out, NULL, &back);
        assert_string_equal(back.images[0]->reference, "app:1");
        assert_string_equal(back.images[0]->digest, list.images[0]->digest);
        assert_string_equal(back.images[0]->chain_id, list.images[0]->chain_id);
        assert_true(sr_image_export(list.images[0], out, &error) < 0);
        assert_message(error, "is not empty", NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                directory_test(several_processes_import_one_image_once),
                directory_test(images_of_the_same_layers_share_their_tree),
                directory_test(a_killed_import_leaves_nothing_or_the_whole),
                directory_test(removal_frees_what_no_other_image_needs),
                directory_test(nobody_waits_for_the_deleting),
                directory_test(leftovers_are_removed_unless_somebody_works_there),
                directory_test(importing_again_repairs_damaged_blobs),
                directory_test(a_tree_that_cannot_be_reached_is_an_error),
                directory_test(an_export_can_be_imported),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
