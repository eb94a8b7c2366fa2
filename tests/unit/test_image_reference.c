// Image references: the grammar, what is completed, and what is refused.

#include "image_fixture.h"

#include "image/limits.h"
#include "image/ref.h"
#include "image/reference.h"

static const struct {
        const char *text, *familiar, *canonical;
} good[] = {
        {"python", "python:latest", "docker.io/library/python:latest"},
        {"python:latest", "python:latest", "docker.io/library/python:latest"},
        {"docker.io/library/python:latest", "python:latest", "docker.io/library/python:latest"},
        {"docker.io/python", "python:latest", "docker.io/library/python:latest"},
        {"index.docker.io/python:3", "python:3", "docker.io/library/python:3"},
        {"library/python:3", "python:3", "docker.io/library/python:3"},
        {"python:3.12-slim", "python:3.12-slim", "docker.io/library/python:3.12-slim"},
        {"sandbox-runner/python:3", "sandbox-runner/python:3", "docker.io/sandbox-runner/python:3"},
        {"ghcr.io/a/b/c:1", "ghcr.io/a/b/c:1", "ghcr.io/a/b/c:1"},
        {"localhost/a", "localhost/a:latest", "localhost/a:latest"},
        {"localhost:5000/a:b", "localhost:5000/a:b", "localhost:5000/a:b"},
        {"host:5000/a", "host:5000/a:latest", "host:5000/a:latest"},
        {"localhost:5000", "localhost:5000", "docker.io/library/localhost:5000"},
        {"[::1]:5000/a", "[::1]:5000/a:latest", "[::1]:5000/a:latest"},
        {"[2001:db8::1]/a", "[2001:db8::1]/a:latest", "[2001:db8::1]/a:latest"},
        {"HOST/a", "HOST/a:latest", "HOST/a:latest"},
        // Looks like a domain when it is shortened, so it is not.
        {"docker.io/foo.bar/baz", "docker.io/foo.bar/baz:latest", "docker.io/foo.bar/baz:latest"},
        {"docker.io/localhost/baz", "docker.io/localhost/baz:latest", "docker.io/localhost/baz:latest"},
        {"a__b", "a__b:latest", "docker.io/library/a__b:latest"},
        {"a---b.c_d", "a---b.c_d:latest", "docker.io/library/a---b.c_d:latest"},
        {"a:_X.y-Z", "a:_X.y-Z", "docker.io/library/a:_X.y-Z"},
        {"a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         "a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         "docker.io/library/a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"a:1@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         "a:1@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         "docker.io/library/a:1@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
};

static const char *const bad[] = {
        "",
        ":",
        ":tag",
        "@",
        "a:",
        "a@",
        "a b",
        " a",
        "a ",
        "A",
        "a/B",
        "a//b",
        "/a",
        "a/",
        "-a",
        "a-",
        ".a",
        "a.",
        "a..b",
        "a___b",
        "a._b",
        "a/../b",
        "../a",
        "a:b:c",
        "a:-x",
        "a:.x",
        "a\nb",
        "a\xc3\xa9",
        "a+b",
        "-host.x/a",
        "host-.x/a",
        "host..x/a",
        "host:x/a",
        "host:/a",
        "[::1/a",
        "[]/a",
        "[::g]/a",
        "http://host/a",
        "a@sha256:abc",
        "a@md5:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "a@sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
        "a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855x",
        "a@sha256:../../../../../../../../../../../../../../../../../../../../../../",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
};

static void good_references_are_completed(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                _cleanup_reference_ struct sr_image_reference *reference = NULL, *again = NULL;
                _cleanup_error_ struct sr_error *error = NULL;

                if (sr_image_reference_parse(good[i].text, &reference, &error) < 0)
                        fail_msg("%s: %s", good[i].text, sr_error_message(error));

                _cleanup_free_ char *familiar = sr_image_reference_familiar(reference);
                _cleanup_free_ char *canonical = sr_image_reference_canonical(reference), *same = NULL;

                assert_string_equal(familiar, good[i].familiar);
                assert_string_equal(canonical, good[i].canonical);
                // The short form means the same.
                assert_int_equal(sr_image_reference_parse(familiar, &again, NULL), 0);
                same = sr_image_reference_canonical(again);
                assert_string_equal(same, canonical);
        }
}

static void bad_references_are_refused_with_a_sentence(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                _cleanup_reference_ struct sr_image_reference *reference = NULL;
                _cleanup_error_ struct sr_error *error = NULL;

                if (sr_image_reference_parse(bad[i], &reference, &error) != -EINVAL)
                        fail_msg("\"%s\" was taken", bad[i]);
                assert_null(reference);
                assert_message(error, "is not an image reference", NULL);
                assert_int_equal(sr_error_get_kind(error), SR_ERROR_BAD_REQUEST);
        }
}

static void lengths_are_bounded(void **state)
{
        char text[2048] = {0};
        _cleanup_free_ char *familiar = NULL;

        (void)state;
        memset(text, 'a', 129);
        memcpy(text, "x:", 2);
        assert_int_equal(sr_image_reference_normalise(text, &familiar, NULL), 0); // a tag of 127
        free(sr_steal(familiar));
        memset(text + 2, 'a', 129);
        assert_int_equal(sr_image_reference_normalise(text, &familiar, NULL), -EINVAL);

        memset(text, 0, sizeof(text));
        memset(text, 'a', SR_IMAGE_MAX_REFERENCE_LENGTH - strlen(":latest"));
        assert_int_equal(sr_image_reference_normalise(text, &familiar, NULL), 0);
        assert_int_equal(strlen(familiar), SR_IMAGE_MAX_REFERENCE_LENGTH);
        free(sr_steal(familiar));
        text[strlen(text)] = 'a';
        assert_int_equal(sr_image_reference_normalise(text, &familiar, NULL), -ENAMETOOLONG);
        memset(text, 'a', 256);
        assert_int_equal(sr_image_reference_normalise(text, &familiar, NULL), -EINVAL);
        memset(text, 'a', sizeof(text) - 1);
        assert_int_equal(sr_image_reference_normalise(text, &familiar, NULL), -EINVAL);
}

static void file_names_lead_back_to_references(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                _cleanup_free_ char *path = sr_image_ref_path(good[i].familiar);
                _cleanup_free_ char *back = sr_image_ref_from_name(path + strlen("refs/"));

                assert_memory_equal(path, "refs/", 5);
                assert_null(strchr(path + 5, '/'));
                assert_string_equal(back, good[i].familiar);
        }
        assert_null(sr_image_ref_from_name("python:3")); // no .json
        assert_null(sr_image_ref_from_name(".json"));
        assert_null(sr_image_ref_from_name("python.json")); // not the form that is stored
        assert_null(sr_image_ref_from_name("..+x:latest.json"));
        assert_null(sr_image_ref_from_name("docker.io+a:1.json"));
}

static void digests_have_one_form(void **state)
{
        char hex[SR_DIGEST_HEX_LENGTH + 1];

        (void)state;
        assert_int_equal(sr_digest_of("", 0, hex), 0);
        assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_int_equal(sr_digest_of("abc", 3, hex), 0); // FIPS 180-2, appendix B.1
        assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");

        _cleanup_digest_ struct sr_digest *digest = sr_digest_new();

        for (int round = 0; round < 2; round++) { // finish starts anew
                sr_digest_update(digest, "a", 1);
                sr_digest_update(digest, "bc", 2);
                assert_int_equal(sr_digest_finish(digest, hex), 0);
                assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        }
        assert_false(sr_digest_valid(NULL));
        assert_false(sr_digest_valid("sha256:"));
        assert_false(sr_digest_valid(hex));
        assert_true(
                sr_digest_valid("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        assert_false(
                sr_digest_valid("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015aD"));
        assert_false(
                sr_digest_valid("sha512:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        assert_false(
                sr_digest_valid("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a/"));
        assert_false(
                sr_digest_valid("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015add"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(good_references_are_completed),
                cmocka_unit_test(bad_references_are_refused_with_a_sentence),
                cmocka_unit_test(lengths_are_bounded),
                cmocka_unit_test(file_names_lead_back_to_references),
                cmocka_unit_test(digests_have_one_form),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
