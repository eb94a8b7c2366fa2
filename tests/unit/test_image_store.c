// Reading stores: which image answers to a reference, and what is said when a store is not as it should be.

#include "image_fixture.h"

#include "image/ref.h"
#include "image/store.h"

#define CHAIN  "1111111111111111111111111111111111111111111111111111111111111111"
#define DIGEST "sha256:2222222222222222222222222222222222222222222222222222222222222222"

static void make_store(const char *path, const char *format)
{
        static const char *const parts[] = {"refs", "trees/" CHAIN "/rootfs"};

        for (size_t i = 0; i < 2; i++) {
                _cleanup_free_ char *part = sr_asprintf("%s/%s", path, parts[i]);

                assert_int_equal(sr_fd_make_directories(part, 0755), 0);
        }

        _cleanup_free_ char *file = sr_asprintf("%s/format", path);

        write_file(file, format, strlen(format));
}

static void put_reference(const char *store, const char *reference, const char *digest, int64_t size)
{
        char variable[] = "A=b=c", label[] = "l=\xc3\xa9\n\"";
        char *environment[] = {variable, NULL}, *labels[] = {label, NULL};
        _cleanup_free_ char *name = sr_strdup(reference), *chain = sr_strdup(CHAIN),
                            *manifest = sr_strdup(digest);
        const struct sr_image image = {.reference = name,
                                       .digest = manifest,
                                       .chain_id = chain,
                                       .environment = environment,
                                       .labels = labels,
                                       .size = size,
                                       .created_us = 1796007677329441};
        _cleanup_free_ char *ref = sr_image_ref_path(reference), *path = sr_asprintf("%s/%s", store, ref);
        _cleanup_buf_ struct sr_buf text = {0};

        sr_image_ref_write(&image, &text);
        write_file(path, text.data, text.len);
}

static void an_image_is_found_by_every_spelling(void **state)
{
        static const char *const spellings[] = {"python:3", "library/python:3", "docker.io/library/python:3",
                                                ("python@" DIGEST)};
        _cleanup_store_ struct sr_image_store *store = NULL;

        make_store(*state, "1\n");
        put_reference(*state, "python:3", DIGEST, 42);
        assert_int_equal(sr_image_store_open(*state, NULL, &store, NULL), 0);
        for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
                _cleanup_image_ struct sr_image *image = NULL;
                _cleanup_error_ struct sr_error *error = NULL;
                _cleanup_free_ char *tree = path_in(state, "trees/" CHAIN "/rootfs");

                if (sr_image_store_find(store, spellings[i], &image, &error) < 0)
                        fail_msg("%s: %s", spellings[i], sr_error_message(error));
                assert_string_equal(image->reference, "python:3");
                assert_string_equal(image->digest, DIGEST);
                assert_string_equal(image->chain_id, CHAIN);
                assert_string_equal(image->tree, tree);
                assert_string_equal(image->environment[0], "A=b=c");
                assert_null(image->environment[1]);
                assert_string_equal(image->labels[0], "l=\xc3\xa9\n\"");
                assert_int_equal(image->size, 42);
                assert_int_equal(image->created_us, 1796007677329441);
                assert_int_equal(image->store, 0);
        }
}

static void an_absent_image_is_named(void **state)
{
        static const char *const absent[] = {
                "python", "python:4", "ruby:3",
                "python@sha256:3333333333333333333333333333333333333333333333333333333333333333"};
        _cleanup_store_ struct sr_image_store *store = NULL;

        make_store(*state, "1\n");
        put_reference(*state, "python:3", DIGEST, 42);
        assert_int_equal(sr_image_store_open(*state, NULL, &store, NULL), 0);
        for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
                _cleanup_image_ struct sr_image *image = NULL;
                _cleanup_error_ struct sr_error *error = NULL;

                assert_int_equal(sr_image_store_find(store, absent[i], &image, &error), -ENOENT);
                assert_message(error, absent[i], *state, "image list", NULL);
        }

        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_image_ struct sr_image *image = NULL;

        assert_int_equal(sr_image_store_find(store, "../../etc/passwd", &image, &error), -EINVAL);
}

static void the_upper_store_comes_first(void **state)
{
        _cleanup_free_ char *upper = path_in(state, "upper"), *lower = path_in(state, "lower");
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_image_ struct sr_image *shadowed = NULL, *shared = NULL;
        struct sr_image **list;
        size_t count;

        make_store(lower, "1\n");
        put_reference(lower, "b:1", DIGEST, 1);
        put_reference(lower, "a:1", DIGEST, 2);
        // The upper one is not there yet when the store is opened.
        assert_int_equal(sr_image_store_open(upper, lower, &store, NULL), 0);
        assert_int_equal(sr_image_store_find(store, "b:1", &shared, NULL), 0);
        assert_int_equal(shared->store, 1);
        assert_int_equal(strncmp(shared->tree, lower, strlen(lower)), 0);
        make_store(upper, "1\n");
        put_reference(upper, "b:1", DIGEST, 3);
        put_reference(upper, "z/c:1", DIGEST, 4);
        assert_int_equal(sr_image_store_find(store, "b:1", &shadowed, NULL), 0);
        assert_int_equal(shadowed->store, 0);
        assert_int_equal(shadowed->size, 3);

        assert_int_equal(sr_image_store_list(store, &list, &count, NULL), 0);
        assert_int_equal(count, 3);
        assert_string_equal(list[0]->reference, "a:1");
        assert_int_equal(list[0]->store, 1);
        assert_string_equal(list[1]->reference, "b:1");
        assert_int_equal(list[1]->size, 3);
        assert_string_equal(list[2]->reference, "z/c:1");
        for (size_t i = 0; i < count; i++)
                sr_image_free(list[i]);
        free(list);

        char *const *roots = sr_image_store_tree_roots(store);
        _cleanup_free_ char *first = path_in(state, "upper/trees"), *second = path_in(state, "lower/trees");

        assert_string_equal(roots[0], first);
        assert_string_equal(roots[1], second);
        assert_null(roots[2]);
}

static void an_absent_store_is_empty(void **state)
{
        _cleanup_free_ char *path = path_in(state, "nowhere");
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_image_ struct sr_image *image = NULL;
        struct sr_image **list;
        size_t count = 7;

        assert_int_equal(sr_image_store_open(path, NULL, &store, NULL), 0);
        assert_int_equal(sr_image_store_list(store, &list, &count, NULL), 0);
        assert_int_equal(count, 0);
        free(list);
        assert_int_equal(sr_image_store_find(store, "a", &image, NULL), -ENOENT);
        assert_int_equal(access(path, F_OK), -1);
}

static void formats_that_are_not_ours_are_refused(void **state)
{
        static const struct {
                const char *format, *message;
        } cases[] = {
                {"2\n", "newer version"},
                {"999999999\n", "newer version"},
                {"0\n", "no version of"},
                {"", "not an image store"},
                {"1", "not an image store"},
                {"x\n", "not an image store"},
                {"1 \n", "not an image store"},
                {"9999999999999999999999999999999999999\n", "not an image store"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_store_ struct sr_image_store *store = NULL;
                _cleanup_error_ struct sr_error *error = NULL;

                make_store(*state, cases[i].format);
                assert_true(sr_image_store_open(*state, NULL, &store, &error) < 0);
                assert_message(error, *state, cases[i].message, NULL);
        }
}

static void a_damaged_reference_file_is_named(void **state)
{
        static const char *const contents[] = {
                "",
                "{",
                "[]",
                "null",
                "{}",
                "{\"reference\":\"a:1\"}",
                "{\"reference\":\"a:1\",\"manifest\":\"sha256:..\",\"chain_id\":\"" CHAIN
                "\",\"created\":1,\"size\":1}",
                "{\"reference\":\"a:1\",\"manifest\":\"" DIGEST
                "\",\"chain_id\":\"../../x\",\"created\":1,\"size\":1}",
                "{\"reference\":\"a:1\",\"manifest\":\"" DIGEST "\",\"chain_id\":\"" CHAIN
                "\",\"created\":1,\"size\":-1}",
                "{\"reference\":\"b:1\",\"manifest\":\"" DIGEST "\",\"chain_id\":\"" CHAIN
                "\",\"created\":1,\"size\":1}",
                "{\"reference\":\"a:1\",\"manifest\":\"" DIGEST "\",\"chain_id\":\"" CHAIN
                "\",\"created\":1,\"size\":1,\"environment\":[\"A\"]}",
                "{\"reference\":\"a:1\",\"manifest\":\"" DIGEST "\",\"chain_id\":\"" CHAIN
                "\",\"created\":1,\"size\":1,\"environment\":[\"A=\\u0000\"]}",
        };
        _cleanup_free_ char *path = path_in(state, "refs/a:1.json");

        make_store(*state, "1\n");
        for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
                _cleanup_store_ struct sr_image_store *store = NULL;
                _cleanup_error_ struct sr_error *error = NULL;
                _cleanup_image_ struct sr_image *image = NULL;
                struct sr_image **list;
                size_t count;

                write_file(path, contents[i], strlen(contents[i]));
                assert_int_equal(sr_image_store_open(*state, NULL, &store, NULL), 0);
                assert_true(sr_image_store_find(store, "a:1", &image, &error) < 0);
                assert_message(error, path, "is damaged", "image rm a:1", NULL);
                assert_true(sr_image_store_list(store, &list, &count, NULL) < 0);
        }
}

static void an_image_without_its_tree_is_incomplete(void **state)
{
        _cleanup_free_ char *tree = path_in(state, "trees/" CHAIN "/rootfs");
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_image_ struct sr_image *image = NULL;

        make_store(*state, "1\n");
        put_reference(*state, "a:1", DIGEST, 1);
        assert_int_equal(rmdir(tree), 0);
        assert_int_equal(sr_image_store_open(*state, NULL, &store, NULL), 0);
        assert_int_equal(sr_image_store_find(store, "a:1", &image, &error), -ESTALE);
        assert_message(error, "a:1", "incomplete", tree, NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                directory_test(an_image_is_found_by_every_spelling),
                directory_test(an_absent_image_is_named),
                directory_test(the_upper_store_comes_first),
                directory_test(an_absent_store_is_empty),
                directory_test(formats_that_are_not_ours_are_refused),
                directory_test(a_damaged_reference_file_is_named),
                directory_test(an_image_without_its_tree_is_incomplete),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
