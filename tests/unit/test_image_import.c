// Importing layouts: what becomes an image, which of several is taken, and what is refused without a trace.

#include "image_import.h"

#include <sys/wait.h>

static void assert_refused(const char *store, const char *layout, const char *message)
{
        _cleanup_images_ struct sr_image_list list = {0};
        _cleanup_error_ struct sr_error *error = NULL;

        if (import_from(store, layout, "app:1", &list, &error) >= 0)
                fail_msg("an image was made where \"%s\" was expected", message);
        assert_message(error, message, NULL);
        assert_nothing_imported(store);
}

static void a_layout_becomes_an_image(void **state)
{
        _cleanup_free_ char *store_path = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_images_ struct sr_image_list list = {0}, again = {0};
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_image_ struct sr_image *image = NULL;
        struct blob manifest = layout_simple(layout, "n");
        struct stat stat;

        import_well(store_path, layout, NULL, &list);
        assert_int_equal(list.count, 1);
        assert_int_equal(sr_image_store_open(store_path, NULL, &store, NULL), 0);
        assert_int_equal(sr_image_store_find(store, "docker.io/library/app:1", &image, NULL), 0);
        assert_string_equal(image->reference, "app:1");
        assert_string_equal(image->digest, manifest.digest);
        assert_string_equal(image->environment[0], "PATH=/bin");
        assert_string_equal(image->tree, list.images[0]->tree);
        assert_true(image->size > 10 && image->size < 4096);
        assert_true(image->size == list.images[0]->size);

        _cleanup_close_ int tree = open(image->tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *tool = read_text(tree, "usr/bin/tool"), *motd = read_text(tree, "etc/motd");
        _cleanup_free_ char *passwd = read_text(tree, "etc/passwd"),
                            *listing = read_text(tree, "../manifest");

        assert_string_equal(tool, "tool");
        assert_string_equal(motd, "hello");
        assert_int_equal(fstatat(tree, "gone", &stat, 0), -1);
        assert_non_null(strstr(passwd, "sandbox:x:1000:1000:Sandbox user:/tmp:/bin/sh\n"));
        assert_int_equal(fstatat(tree, "tmp", &stat, 0), 0);
        assert_int_equal(stat.st_mode & 07777, 01777);
        assert_int_equal(fstat(tree, &stat), 0);
        assert_int_equal(stat.st_mode & 07777, 0755);
        assert_int_equal(fstatat(tree, "..", &stat, 0), 0);
        assert_int_equal(stat.st_mode & 07777, 0755);
        assert_non_null(strstr(listing, "f 0644 4 "));
        assert_non_null(strstr(listing, " usr/bin/tool\n"));
        // The same again changes nothing, and takes no second tree.
        import_well(store_path, layout, "other", &again);
        assert_int_equal(count_in(store_path, "trees"), 1);
        assert_int_equal(count_in(store_path, "refs"), 2);
        assert_int_equal(count_in(store_path, "blobs/sha256"), 4);
        assert_int_equal(count_in(store_path, "tmp"), 0);
        assert_string_equal(again.images[0]->reference, "other:latest");
        assert_true(again.images[0]->size == image->size);
}

// The chain id of layers, as the OCI image specification defines it: an example computed by hand.
static void chain_ids_are_those_of_the_specification(void **state)
{
        static char one[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        static char two[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        char *first[] = {one, NULL}, *both[] = {one, two, NULL};
        char hex[SR_DIGEST_HEX_LENGTH + 1];

        (void)state;
        assert_int_equal(sr_image_chain_id(first, hex), 0);
        assert_string_equal(hex, one);
        assert_int_equal(sr_image_chain_id(both, hex), 0);
        // printf 'sha256:e3b0… sha256:ba78…' | sha256sum
        assert_string_equal(hex, "a893da35bd22286079f2f3931516d3423eb9b4945f2379e0f8a501ec3d665dd6");
}

static void an_archive_of_a_layout_is_as_good(void **state)
{
        static const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_ZSTD};
        _cleanup_free_ char *layout = path_in(state, "layout");

        layout_simple(layout, "n");
        layout_text(layout, "a blob that no image needs");
        for (size_t i = 0; i < 3; i++) {
                _cleanup_free_ char *name = sr_asprintf("store%zu", i), *store = path_in(state, name);
                _cleanup_free_ char *file = path_in(state, "archive");
                _cleanup_images_ struct sr_image_list list = {0};
                struct tar tar;

                make_tar(layout, &tar, filters[i]);
                if (i == 1) { // by a pipe
                        const struct sr_image_import_options options = {0};
                        int ends[2];

                        assert_int_equal(pipe(ends), 0);
                        if (fork() == 0) {
                                close(ends[0]);
                                _exit(sr_fd_write_all(ends[1], tar.bytes.data, tar.bytes.len) < 0);
                        }
                        close(ends[1]);
                        assert_int_equal(sr_image_import(store, ends[0], &options, &list, NULL), 0);
                        close(ends[0]);
                        wait(NULL);
                } else {
                        write_file(file, tar.bytes.data, tar.bytes.len);
                        import_well(store, file, NULL, &list);
                }
                sr_buf_clear(&tar.bytes);
                assert_string_equal(list.images[0]->reference, "app:1");
                assert_int_equal(count_in(store, "blobs/sha256"), 4);
                assert_int_equal(count_in(store, "tmp"), 0);
        }
}

static struct blob one_layer(const char *layout, const char *architecture, const char *text)
{
        struct layer layer;
        struct tar tar;

        tar_begin(&tar, ARCHIVE_FILTER_ZSTD);
        tar_file(&tar, "which", text);
        layer = layout_layer(layout, &tar);
        return layout_manifest(
                layout, (struct manifest_parts){.layers = &layer, .count = 1, .architecture = architecture});
}

// What the file `which` of an image says.
static char *which(const struct sr_image *image)
{
        _cleanup_close_ int tree = open(image->tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return read_text(tree, "which");
}

#define PLATFORM(os, architecture) ",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" architecture "\"}"

static void the_image_for_this_machine_is_taken(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_free_ char *ours = sr_asprintf(",\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}",
                                                sr_image_host_architecture());
        _cleanup_free_ char *windows = sr_asprintf(
                ",\"platform\":{\"os\":\"windows\",\"architecture\":\"%s\"}", sr_image_host_architecture());
        _cleanup_images_ struct sr_image_list list = {0};
        _cleanup_buf_ struct sr_buf inner = {0}, outer = {0};
        struct blob other = one_layer(layout, "pdp11", "other"), right = one_layer(layout, NULL, "right");
        struct blob attestation = layout_text(layout, "{\"attestation\":1}");

        index_add(&inner, SR_MEDIA_TYPE_MANIFEST, &attestation, PLATFORM("unknown", "unknown"));
        index_add(&inner, SR_MEDIA_TYPE_MANIFEST, &attestation,
                  ",\"annotations\":{\"vnd.docker.reference.type\":\"attestation-manifest\"}");
        index_add(&inner, SR_MEDIA_TYPE_MANIFEST, &other, PLATFORM("linux", "pdp11"));
        index_add(&inner, SR_MEDIA_TYPE_MANIFEST, &other, windows);
        index_add(&inner, "application/vnd.docker.distribution.manifest.v2+json", &right, ours);

        _cleanup_free_ char *document = sr_asprintf("{\"schemaVersion\":2,\"manifests\":[%s]}", inner.data);
        struct blob index = layout_text(layout, document);

        index_add(&outer, "application/vnd.docker.distribution.manifest.list.v2+json", &index,
                  NAMED("multi"));
        layout_index(layout, outer.data);
        import_well(store, layout, NULL, &list);

        _cleanup_free_ char *text = which(list.images[0]);

        assert_string_equal(text, "right");
        assert_string_equal(list.images[0]->digest, right.digest);
        assert_string_equal(list.images[0]->reference, "multi:latest");
        // The index itself is of no further use, and the rest was not even read.
        assert_int_equal(count_in(store, "trees"), 1);
}

static void an_image_for_another_machine_is_refused(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_buf_ struct sr_buf list = {0}, silent = {0};
        struct blob other = one_layer(layout, "pdp11", "other");

        index_add(&list, SR_MEDIA_TYPE_MANIFEST, &other, PLATFORM("linux", "pdp11"));
        layout_index(layout, list.data);
        assert_refused(store, layout, "only for linux/pdp11");
        // Said by the configuration alone.
        index_add(&silent, SR_MEDIA_TYPE_MANIFEST, &other, NAMED("app:1"));
        layout_index(layout, silent.data);
        assert_refused(store, layout, "the image is for linux/pdp11");
}

static void names_choose_among_images(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        struct blob one = one_layer(layout, NULL, "one"), two = one_layer(layout, NULL, "two");
        _cleanup_buf_ struct sr_buf list = {0};

        index_add(&list, SR_MEDIA_TYPE_MANIFEST, &one, NAMED("app:1"));
        index_add(&list, SR_MEDIA_TYPE_MANIFEST, &two,
                  ",\"annotations\":{\"io.containerd.image.name\":\"docker.io/library/app:2\","
                  "\"org.opencontainers.image.ref.name\":\"2\"}");
        layout_index(layout, list.data);
        {
                _cleanup_images_ struct sr_image_list all = {0};

                import_well(store, layout, NULL, &all);
                assert_int_equal(all.count, 2);
                assert_string_equal(all.images[0]->reference, "app:1");
                assert_string_equal(all.images[1]->reference, "app:2");
        }
        {
                _cleanup_images_ struct sr_image_list chosen = {0};

                import_well(store, layout, "docker.io/library/app:2", &chosen);
                assert_int_equal(chosen.count, 1);

                _cleanup_free_ char *text = which(chosen.images[0]);

                assert_string_equal(text, "two");
        }
        {
                _cleanup_images_ struct sr_image_list only = {0};
                _cleanup_free_ char *twice = path_in(state, "twice");
                _cleanup_buf_ struct sr_buf same = {0};
                struct blob image = one_layer(twice, NULL, "same");

                index_add(&same, SR_MEDIA_TYPE_MANIFEST, &image, NAMED("x:1"));
                index_add(&same, SR_MEDIA_TYPE_MANIFEST, &image, NAMED("x:2"));
                layout_index(twice, same.data);
                import_well(store, twice, "third", &only);
                assert_string_equal(only.images[0]->reference, "third:latest");
        }
        _cleanup_images_ struct sr_image_list none = {0};
        _cleanup_error_ struct sr_error *error = NULL, *unnamed = NULL, *bad = NULL;

        assert_true(import_from(store, layout, "third", &none, &error) < 0);
        assert_message(error, "several images", "app:1", "app:2", NULL);

        _cleanup_buf_ struct sr_buf single = {0};

        index_add(&single, SR_MEDIA_TYPE_MANIFEST, &one, "");
        layout_index(layout, single.data);
        assert_true(import_from(store, layout, NULL, &none, &unnamed) < 0);
        assert_message(unnamed, "no name", "--name", NULL);
        assert_true(import_from(store, layout, "Not A Name", &none, &bad) < 0);
        assert_message(bad, "not an image reference", NULL);
}

// A layout of one image whose blob was changed after its digest was taken.
static void damaged_blobs_are_refused(void **state)
{
        static const char *const kinds[] = {"manifest", "configuration", "layer 1", "layer 2"};
        _cleanup_free_ char *store = path_in(state, "store");

        for (size_t kind = 0; kind < 4; kind++) {
                for (int how = 0; how < 4; how++) {
                        _cleanup_free_ char *layout = path_in(state, "layout"),
                                            *archive = path_in(state, "archive");
                        struct blob manifest = layout_simple(layout, "n");
                        _cleanup_free_ char *path =
                                sr_asprintf("%s/blobs/sha256/%s", layout, manifest.digest + 7);
                        _cleanup_buf_ struct sr_buf bytes = {0};
                        struct sr_image_manifest parsed;
                        struct tar tar;

                        assert_int_equal(sr_fd_read_file(AT_FDCWD, path, 1 << 20, &bytes), 0);
                        assert_int_equal(sr_image_manifest_parse(&bytes, &parsed, NULL), 0);
                        if (kind > 0) {
                                const char *digest =
                                        kind == 1 ? parsed.config.digest : parsed.layers[kind - 2].digest;

                                free(path);
                                path = sr_asprintf("%s/blobs/sha256/%s", layout, digest + 7);
                        }
                        sr_image_manifest_clear(&parsed);
                        sr_buf_clear(&bytes);
                        assert_int_equal(sr_fd_read_file(AT_FDCWD, path, 1 << 20, &bytes), 0);
                        bytes.data[bytes.len / 2] ^= 1;
                        if (how == 0)
                                write_file(path, bytes.data, bytes.len);
                        else if (how == 1)
                                write_file(path, bytes.data, bytes.len - 1);
                        else if (how == 2) {
                                sr_buf_append_char(&bytes, 'x');
                                write_file(path, bytes.data, bytes.len);
                        } else {
                                assert_int_equal(unlink(path), 0);
                        }
                        assert_refused(store, layout, kinds[kind]);
                        make_tar(layout, &tar, ARCHIVE_FILTER_NONE);
                        write_file(archive, tar.bytes.data, tar.bytes.len);
                        sr_buf_clear(&tar.bytes);
                        assert_refused(store, archive, how == 3 ? kinds[kind] : "damaged");
                        assert_int_equal(sr_image_remove_tree(AT_FDCWD, layout, NULL), 0);
                }
        }
}

static void a_layer_that_is_not_what_the_configuration_says_is_refused(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_buf_ struct sr_buf list = {0};
        struct layer layer;
        struct blob manifest;
        struct tar tar;

        tar_begin(&tar, ARCHIVE_FILTER_GZIP);
        tar_file(&tar, "a", "x");
        layer = layout_layer(layout, &tar);
        memset(layer.diff_id + 7, 'a', SR_DIGEST_HEX_LENGTH);
        manifest = layout_manifest(layout, (struct manifest_parts){.layers = &layer, .count = 1});
        index_add(&list, SR_MEDIA_TYPE_MANIFEST, &manifest, "");
        layout_index(layout, list.data);
        assert_refused(store, layout, "its diff id is");
}

static void a_bad_layer_leaves_nothing(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        _cleanup_buf_ struct sr_buf list = {0};
        struct layer layers[2];
        struct blob manifest;
        struct tar tar;

        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "a", "x");
        layers[0] = layout_layer(layout, &tar);
        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "b", "x");
        tar_file(&tar, "../c", "x");
        layers[1] = layout_layer(layout, &tar);
        manifest = layout_manifest(layout, (struct manifest_parts){.layers = layers, .count = 2});
        index_add(&list, SR_MEDIA_TYPE_MANIFEST, &manifest, "");
        layout_index(layout, list.data);
        assert_refused(store, layout, "layer 2: entry 2, \"../c\"");
}

static void documents_that_make_no_sense_are_refused(void **state)
{
        static const struct {
                const char *index, *message;
        } cases[] = {
                {"", "index.json"},
                {"{", "index.json"},
                {"[]", "index.json"},
                {"{\"schemaVersion\":1,\"manifests\":[]}", "schemaVersion"},
                {"{\"schemaVersion\":2}", "no list of manifests"},
                {"{\"schemaVersion\":2,\"manifests\":[]}", "no image for"},
                {"{\"schemaVersion\":2,\"manifests\":[1]}", "lacks a media type"},
                {"{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" SR_MEDIA_TYPE_MANIFEST
                 "\",\"digest\":\"sha256:../../../etc/passwd\",\"size\":1}]}",
                 "is not \"sha256:\" and 64"},
                {"{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" SR_MEDIA_TYPE_MANIFEST
                 "\",\"digest\":\"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\","
                 "\"size\":-1}]}",
                 "size"},
                {"{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" SR_MEDIA_TYPE_MANIFEST
                 "\",\"digest\":\"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\","
                 "\"size\":1e300}]}",
                 "size"},
                {"{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" SR_MEDIA_TYPE_MANIFEST
                 "\",\"digest\":\"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\","
                 "\"size\":5000000}]}",
                 "larger than"},
                {"{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"application/x-other\",\"digest\":"
                 "\"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\"size\":1}]}",
                 "no image for"},
        };
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");

        layout_index(layout, "");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                layout_file(layout, "index.json", cases[i].index);
                assert_refused(store, layout, cases[i].message);
        }
        layout_file(layout, "oci-layout", "{\"imageLayoutVersion\":\"2.0.0\"}");
        assert_refused(store, layout, "not of version 1");

        _cleanup_free_ char *marker = path_in(state, "layout/oci-layout"), *empty = path_in(state, "empty");

        unlink(marker);
        assert_refused(store, layout, "not an OCI image layout");
        write_file(empty, "", 0);
        assert_refused(store, empty, "not an archive of an OCI image layout");
        write_file(empty, "just some text, and no archive of any kind at all", 49);
        assert_refused(store, empty, "not a tar archive");
}

static void manifests_that_make_no_image_are_refused(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        struct layer layer, pair[2];
        struct tar tar;

        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "a", "x");
        layer = layout_layer(layout, &tar);
        pair[0] = pair[1] = layer;
        snprintf(pair[1].diff_id, sizeof(pair[1].diff_id), "md5:x");

        const struct {
                struct manifest_parts parts;
                const char *message;
        } cases[] = {
                {{.layers = &layer, .count = 0}, "no layers"},
                {{.layers = pair, .count = 2}, "diff id"},
                {{.layers = &layer, .count = 1, .layer_type = "application/x-other"}, "unknown type"},
                {{.layers = &layer,
                  .count = 1,
                  .layer_type = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"},
                 "may not be passed on"},
                {{.layers = &layer, .count = 1, .config_type = "application/vnd.cncf.helm.config.v1+json"},
                 "something else than a container image"},
                {{.layers = &layer, .count = 1, .environment = "[\"NO_EQUALS\"]"}, "environment"},
                {{.layers = &layer, .count = 1, .environment = "[\"A=\\u0000\"]"}, "environment"},
                {{.layers = &layer, .count = 1, .environment = "{\"A\":1}"}, "environment"},
                {{.layers = &layer, .count = 1, .labels = "[1]"}, "labels"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_buf_ struct sr_buf list = {0};
                struct blob manifest = layout_manifest(layout, cases[i].parts);

                index_add(&list, SR_MEDIA_TYPE_MANIFEST, &manifest, "");
                layout_index(layout, list.data);
                assert_refused(store, layout, cases[i].message);
        }
}

static void a_fifo_in_a_layout_does_not_hold_us_up(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *layout = path_in(state, "layout");
        struct blob manifest = layout_simple(layout, "n");
        _cleanup_free_ char *path = sr_asprintf("%s/blobs/sha256/%s", layout, manifest.digest + 7);

        unlink(path);
        assert_int_equal(mkfifo(path, 0644), 0);
        alarm(20);
        assert_refused(store, layout, "no regular file");
        alarm(0);
}

static void an_old_docker_archive_is_named(void **state)
{
        _cleanup_free_ char *store = path_in(state, "store"), *file = path_in(state, "archive");
        struct tar tar;

        tar_begin(&tar, ARCHIVE_FILTER_NONE);
        tar_file(&tar, "manifest.json", "[]");
        tar_end(&tar);
        write_file(file, tar.bytes.data, tar.bytes.len);
        sr_buf_clear(&tar.bytes);
        assert_refused(store, file, "skopeo copy");
}

static void a_store_that_cannot_be_used_is_named(void **state)
{
        _cleanup_free_ char *layout = path_in(state, "layout"), *file = path_in(state, "file");
        _cleanup_free_ char *below = path_in(state, "file/store"), *newer = path_in(state, "newer");
        _cleanup_images_ struct sr_image_list list = {0};
        _cleanup_error_ struct sr_error *error = NULL, *later = NULL;

        layout_simple(layout, "n");
        write_file(file, "", 0);
        assert_true(import_from(below, layout, NULL, &list, &error) < 0);
        assert_message(error, below, "--store", NULL);
        layout_file(newer, "format", "7\n");
        assert_true(import_from(newer, layout, NULL, &list, &later) < 0);
        assert_message(later, "newer version", NULL);
        assert_int_equal(count_in(*state, "newer"), 1); // nothing was put there
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                directory_test(a_layout_becomes_an_image),
                directory_test(chain_ids_are_those_of_the_specification),
                directory_test(an_archive_of_a_layout_is_as_good),
                directory_test(the_image_for_this_machine_is_taken),
                directory_test(an_image_for_another_machine_is_refused),
                directory_test(names_choose_among_images),
                directory_test(damaged_blobs_are_refused),
                directory_test(a_layer_that_is_not_what_the_configuration_says_is_refused),
                directory_test(a_bad_layer_leaves_nothing),
                directory_test(documents_that_make_no_sense_are_refused),
                directory_test(manifests_that_make_no_image_are_refused),
                directory_test(a_fifo_in_a_layout_does_not_hold_us_up),
                directory_test(an_old_docker_archive_is_named),
                directory_test(a_store_that_cannot_be_used_is_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
