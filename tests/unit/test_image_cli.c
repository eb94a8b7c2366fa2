// `sandbox-runner image` as a command: statuses, what goes to which stream, and the confined helper's side.

#include "image_layout.h"

#include <stdio.h>
#include <sys/wait.h>

#include "base/json.h"

static char *program;

struct outcome {
        int status;
        char *out, *err;
};

static void outcome_clear(struct outcome *outcome)
{
        free(outcome->out);
        free(outcome->err);
}
#define _cleanup_outcome_ __attribute__((cleanup(outcome_clear)))

// Runs the program in a child with its own home, standard input from input_fd (-1: nothing) and, when
// directory_fd is not negative, that as descriptor 3.
static struct outcome run_with(void **state, int input_fd, int directory_fd, const char *const *arguments)
{
        int out = memfd_create("out", 0), err = memfd_create("err", 0), status, count = 1;
        char *argv[16] = {(char[]){"sandbox-runner image"}};
        struct outcome outcome;
        pid_t child;

        for (; arguments[count - 1] != NULL; count++)
                argv[count] = sr_strdup(arguments[count - 1]);
        child = fork();
        if (child == 0) {
                clearenv();
                setenv("HOME", *state, 1);
                setenv("PATH", "/usr/bin:/bin", 1);
                dup2(out, 1);
                dup2(err, 2);
                dup2(input_fd >= 0 ? input_fd : open("/dev/null", O_RDONLY), 0);
                // Last, as any of the others may be 3; and it may be that itself.
                if (directory_fd >= 0 && (dup2(directory_fd, 3) < 0 || fcntl(3, F_SETFD, 0) < 0))
                        _exit(98);
                execv(program, argv);
                _exit(99);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        for (int i = 1; i < count; i++)
                free(argv[i]);
        lseek(out, 0, SEEK_SET);
        lseek(err, 0, SEEK_SET);
        outcome.status = WEXITSTATUS(status);
        for (int i = 0; i < 2; i++) {
                struct sr_buf buf = {0};

                assert_int_equal(sr_fd_read_all(i == 0 ? out : err, 1 << 20, &buf), 0);
                *(i == 0 ? &outcome.out : &outcome.err) = sr_buf_steal(&buf, NULL);
        }
        close(out);
        close(err);
        return outcome;
}

#define run(...) run_with(state, -1, -1, (const char *const[]){__VA_ARGS__, NULL})

static void assert_has(const char *text, const char *part)
{
        if (strstr(text, part) == NULL)
                fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void help_is_on_stdout_and_mistakes_on_stderr(void **state)
{
        static const char *const verbs[] = {"build", "import", "list", "inspect", "rm", "gc", "export"};
        _cleanup_outcome_ struct outcome all = run("--help");

        assert_int_equal(all.status, 0);
        assert_string_equal(all.err, "");
        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
                _cleanup_outcome_ struct outcome one = run(verbs[i], "--help"), other = run("help", verbs[i]);
                _cleanup_free_ char *usage = sr_asprintf("Usage: sandbox-runner image %s", verbs[i]);

                assert_int_equal(one.status, 0);
                assert_has(one.out, usage);
                assert_string_equal(one.out, other.out);
                assert_has(all.out, verbs[i]);
        }
        _cleanup_outcome_ struct outcome version = run("--version");

        assert_string_equal(version.out, "sandbox-runner " SR_VERSION "\n");

        static const char *const mistakes[][4] = {
                {NULL},
                {"frobnicate"},
                {"list", "extra"},
                {"inspect"},
                {"rm", "a", "b"},
                {"list", "--no-such-option"},
                {"import", "x", "--name"},
                {"list", "--json=yes"},
                {"build", "x", "--name", "y"}, // another verb's option
        };

        for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
                const char *arguments[5] = {0};

                memcpy(arguments, mistakes[i], sizeof(mistakes[i]));

                _cleanup_outcome_ struct outcome outcome = run_with(state, -1, -1, arguments);

                assert_int_equal(outcome.status, 2);
                assert_string_equal(outcome.out, "");
                assert_has(outcome.err, "--help");
        }
}

static void images_come_and_go(void **state)
{
        _cleanup_free_ char *layout = path_in(state, "layout"), *store = path_in(state, "elsewhere");
        struct blob manifest = layout_simple(layout, "n");
        _cleanup_json_ cJSON *list = NULL, *one = NULL;
        {
                _cleanup_outcome_ struct outcome none = run("--store", store, "list"),
                                                 json = run("list", "--json");

                assert_int_equal(none.status, 0);
                assert_string_equal(none.out, "");
                assert_has(none.err, "there are no images");
                assert_int_equal(json.status, 0);
                assert_string_equal(json.out, "[]\n");
                assert_int_equal(access(store, F_OK), -1); // looking makes nothing
        }
        _cleanup_outcome_ struct outcome import = run("import", layout, "--store", store, "--name", "my/app");

        assert_int_equal(import.status, 0);
        assert_has(import.out, "my/app:latest  ");
        assert_has(import.out, manifest.digest);
        assert_has(import.err, "unpacking layer 2 of 2");

        _cleanup_outcome_ struct outcome text = run("list", "--store", store);
        _cleanup_outcome_ struct outcome json = run("list", "--json", "--store", store);
        _cleanup_outcome_ struct outcome inspect =
                run("inspect", "docker.io/my/app", "--json", "--store", store);
        _cleanup_outcome_ struct outcome plain = run("inspect", "my/app", "--store", store);

        assert_has(text.out, "my/app:latest");
        assert_int_equal(sr_json_parse(json.out, strlen(json.out), 9, &list, NULL), 0);
        assert_int_equal(cJSON_GetArraySize(list), 1);
        assert_string_equal(sr_json_member(cJSON_GetArrayItem(list, 0), "reference")->valuestring,
                            "my/app:latest");
        assert_int_equal(sr_json_parse(inspect.out, strlen(inspect.out), 9, &one, NULL), 0);
        assert_string_equal(sr_json_member(one, "digest")->valuestring, manifest.digest);
        assert_has(plain.out, "PATH=/bin");

        _cleanup_outcome_ struct outcome absent = run("inspect", "nothing", "--store", store);
        _cleanup_outcome_ struct outcome gone = run("rm", "my/app", "--store", store);
        _cleanup_outcome_ struct outcome again = run("rm", "my/app", "--store", store);
        _cleanup_outcome_ struct outcome gc = run("gc", "--store", store);

        assert_int_equal(absent.status, 1);
        assert_has(absent.err, "there is no image nothing:latest");
        assert_int_equal(gone.status, 0);
        assert_has(gone.err, "1 root file systems, 4 blobs");
        assert_int_equal(again.status, 1);
        assert_int_equal(gc.status, 0);
}

static void a_failed_import_names_what_it_was(void **state)
{
        _cleanup_free_ char *file = path_in(state, "file");

        write_file(file, "nonsense", 8);

        _cleanup_outcome_ struct outcome missing = run("import", "/nonexistent"), bad = run("import", file);
        _cleanup_outcome_ struct outcome standard = run("import", "-");

        assert_int_equal(missing.status, 1);
        assert_has(missing.err, "/nonexistent cannot be opened: No such file");
        assert_int_equal(bad.status, 1);
        assert_has(bad.err, file);
        assert_int_equal(standard.status, 1);
        assert_has(standard.err, "cannot import standard input");
}

static void the_helper_has_nothing_but_its_descriptors(void **state)
{
        _cleanup_free_ char *root = path_in(state, "root");
        _cleanup_json_ cJSON *document = NULL;
        struct tar tar;

        assert_int_equal(mkdir(root, 0755), 0);
        tar_begin(&tar, ARCHIVE_FILTER_ZSTD);
        tar_file(&tar, "a/b", "text");
        tar_end(&tar);

        _cleanup_close_ int fd = bytes_fd(&tar.bytes),
                            directory = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        static const char *const arguments[] = {"unpack-layer", "1000000", "10", NULL};
        static const char *const strict[] = {"unpack-layer", "1000000", "0", NULL};
        static const char *const few[] = {"unpack-layer", "1000000", NULL};
        _cleanup_outcome_ struct outcome good = run_with(state, fd, directory, arguments);

        assert_int_equal(good.status, 0);
        assert_string_equal(good.err, "");
        assert_int_equal(sr_json_parse(good.out, strlen(good.out), 2, &document, NULL), 0);
        assert_ptr_equal(strchr(good.out, '\n'), good.out + strlen(good.out) - 1);
        assert_true(sr_digest_valid(sr_json_member(document, "diff_id")->valuestring));
        assert_int_equal(sr_json_member(document, "entries")->valueint, 1);

        _cleanup_free_ char *text = read_text(directory, "a/b");

        assert_string_equal(text, "text");
        lseek(fd, 0, SEEK_SET);

        _cleanup_outcome_ struct outcome limited = run_with(state, fd, directory, strict);
        _cleanup_outcome_ struct outcome wrong = run_with(state, fd, directory, few);

        assert_int_equal(limited.status, 1);
        assert_string_equal(limited.out, "");
        assert_string_equal(limited.err, "it holds more than the 0 entries it may\n");
        assert_int_equal(wrong.status, 1);
        sr_buf_clear(&tar.bytes);
}

int main(void)
{
        // The two are built into one directory.
        const char *spawner = getenv("SR_TEST_SPAWNER");
        const struct CMUnitTest tests[] = {
                directory_test(help_is_on_stdout_and_mistakes_on_stderr),
                directory_test(images_come_and_go),
                directory_test(a_failed_import_names_what_it_was),
                directory_test(the_helper_has_nothing_but_its_descriptors),
        };

        if (spawner == NULL || strchr(spawner, '/') == NULL) {
                fprintf(stderr, "SR_TEST_SPAWNER must name sandbox-runner-spawner; run this through ctest\n");
                return 1;
        }
        program = sr_asprintf("%.*s/sandbox-runner-image", (int)(strrchr(spawner, '/') - spawner), spawner);

        int failed = cmocka_run_group_tests(tests, NULL, NULL);

        free(program);
        return failed;
}
