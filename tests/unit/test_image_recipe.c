// Recipes: what a script leaves becomes an image, and what it does wrong is told.

#include "image_fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "image/recipe.h"
#include "image/store.h"

static void put_recipe(void **state, const char *name, const char *script)
{
        _cleanup_free_ char *directory = sr_asprintf("%s/recipes/%s", (const char *)*state, name);
        _cleanup_free_ char *path = sr_asprintf("%s/build", directory);

        assert_int_equal(sr_fd_make_directories(directory, 0755), 0);
        write_file(path, script, strlen(script));
        assert_int_equal(chmod(path, 0755), 0);
}

// A script that makes a tree with one file, which holds what is given, and counts its runs.
#define GOOD(what)                                                                                           \
        "#!/bin/sh\nset -e\necho run >>\"$(dirname \"$0\")/runs\"\nmkdir \"$1/t\"\necho " what               \
        " >\"$1/t/which\"\ntar -C \"$1/t\" -cf \"$1/rootfs.tar\" .\n"                                        \
        "echo '{\"references\":[\"sandbox-runner/thing:2\",\"thing\"],\"environment\":{\"PATH\":\"/x:/y\"}," \
        "\"labels\":{\"org.opencontainers.image.version\":\"2.5\"}}' >\"$1/image.json\"\necho done\n"

struct heard {
        struct sr_buf text;
};

static void hear(void *context, const char *line)
{
        struct heard *heard = context;

        sr_buf_printf(&heard->text, "[%s]", line);
}

static int build(void **state, const char *name, struct sr_image_build_options options,
                 struct sr_image_list *ret, char **ret_kept, struct sr_error **error)
{
        _cleanup_free_ char *store = path_in(state, "store"), *recipes = path_in(state, "recipes");

        return sr_image_recipe_build(store, recipes, name, &options, ret, ret_kept, error);
}

static size_t runs(void **state, const char *name)
{
        _cleanup_free_ char *path = sr_asprintf("%s/recipes/%s/runs", (const char *)*state, name);
        _cleanup_buf_ struct sr_buf text = {0};

        return sr_fd_read_file(AT_FDCWD, path, 4096, &text) < 0 ? 0 : text.len / 4;
}

static size_t count_in(void **state, const char *directory)
{
        _cleanup_free_ char *path = path_in(state, directory);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_ char **names = NULL;

        if (fd < 0)
                return 0;
        assert_int_equal(sr_image_read_names(fd, &names), 0);
        return sr_strv_length(names);
}

static void a_recipe_becomes_an_image(void **state)
{
        _cleanup_images_ struct sr_image_list list = {0}, second = {0};
        _cleanup_error_ struct sr_error *error = NULL;
        struct heard heard = {0};
        const struct sr_image_build_options options = {.output = hear, .output_context = &heard};

        put_recipe(state, "thing", GOOD("first"));
        if (build(state, "thing", options, &list, NULL, &error) < 0)
                fail_msg("%s", sr_error_message(error));
        assert_int_equal(list.count, 2);
        assert_string_equal(list.images[0]->reference, "sandbox-runner/thing:2");
        assert_string_equal(list.images[1]->reference, "thing:latest");
        assert_string_equal(list.images[0]->digest, list.images[1]->digest);
        assert_string_equal(list.images[0]->environment[0], "PATH=/x:/y");
        assert_string_equal(list.images[0]->labels[0], "org.opencontainers.image.version=2.5");
        assert_string_equal(list.images[0]->labels[1], "sandbox-runner.recipe=thing");
        assert_string_equal(heard.text.data, "[done]");
        sr_buf_clear(&heard.text);

        _cleanup_close_ int tree = open(list.images[0]->tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *text = read_text(tree, "which");

        assert_string_equal(text, "first\n");
        assert_int_equal(count_in(state, "store/tmp"), 0);
        assert_int_equal(count_in(state, "store/kept"), 0);
        // Built anew, the name means the new one; when only missing ones are wanted, nothing is done.
        put_recipe(state, "thing", GOOD("second"));
        assert_int_equal(build(state, "thing", (struct sr_image_build_options){.if_missing = true}, &second,
                               NULL, NULL),
                         0);
        assert_int_equal(second.count, 2);
        assert_string_equal(second.images[0]->digest, list.images[0]->digest);
        assert_int_equal(runs(state, "thing"), 1);
        sr_image_list_clear(&second);
        assert_int_equal(build(state, "thing", (struct sr_image_build_options){0}, &second, NULL, NULL), 0);
        assert_string_not_equal(second.images[0]->chain_id, list.images[0]->chain_id);
        assert_int_equal(runs(state, "thing"), 2);
}

static void an_unknown_recipe_is_answered_with_those_there_are(void **state)
{
        static const char *const names[] = {"nope", "../thing",       "thing/",       "",
                                            ".",    "thing/../thing", "hidden\x1b[2J"};
        _cleanup_free_ char *plain = path_in(state, "recipes/no-script");

        put_recipe(state, "thing", GOOD("x"));
        put_recipe(state, "other", GOOD("x"));
        put_recipe(state, ".hidden", GOOD("x"));
        assert_int_equal(mkdir(plain, 0755), 0);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                _cleanup_images_ struct sr_image_list list = {0};
                _cleanup_error_ struct sr_error *error = NULL;

                assert_true(build(state, names[i], (struct sr_image_build_options){0}, &list, NULL, &error) <
                            0);
                assert_message(error, "there is no recipe", "there are: other, thing", NULL);
                assert_null(strchr(sr_error_message(error), '\x1b'));
        }

        _cleanup_images_ struct sr_image_list list = {0};
        _cleanup_error_ struct sr_error *error = NULL;

        assert_true(sr_image_recipe_build("/nonexistent/store", "/nonexistent/recipes", "x",
                                          &(struct sr_image_build_options){0}, &list, NULL, &error) < 0);
        assert_message(error, "/nonexistent/recipes", "images.recipes", NULL);
}

static void a_recipe_that_fails_is_told_with_its_last_words(void **state)
{
        static const struct {
                const char *script, *message, *more;
        } cases[] = {
                {"#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8; do echo line $i; done\nprintf unfinished >&2\nexit "
                 "3\n",
                 "failed with exit code 3", "line 8\n    unfinished"},
                {"#!/bin/sh\nexit 7\n", "failed with exit code 7", "said nothing"},
                {"#!/bin/sh\nkill -9 $$\n", "signal 9", "Killed"},
                {"#!/nonexistent/interpreter\n", "exit code 126", "ENOENT"},
                {"#!/bin/sh\ntrue\n", "not usable", "image.json"},
                {"#!/bin/sh\necho '{\"references\":[\"a\"]}' >\"$1/image.json\"\n", "not usable",
                 "rootfs.tar"},
                {"#!/bin/sh\necho '{}' >\"$1/image.json\"\n", "not usable", "references"},
                {"#!/bin/sh\necho '{\"references\":[]}' >\"$1/image.json\"\n", "not usable", "references"},
                {"#!/bin/sh\necho '{\"references\":[\"A B\"]}' >\"$1/image.json\"\n", "not usable",
                 "not an image reference"},
                {"#!/bin/sh\necho '{\"references\":[\"a\"],\"environment\":{\"A=B\":\"x\"}}' "
                 ">\"$1/image.json\"\n",
                 "not usable", "environment"},
                {"#!/bin/sh\necho '{\"references\":[\"a\"]}' >\"$1/image.json\"\necho no tar "
                 ">\"$1/rootfs.tar\"\n",
                 "not usable", "not a tar archive"},
                {"#!/bin/sh\necho '{\"references\":[\"a\"]}' >\"$1/image.json\"\nln -s /etc/passwd "
                 "\"$1/rootfs.tar\"\n",
                 "not usable", "rootfs.tar"},
                {"#!/bin/sh\nrm -r \"$1\"\n", "output directory", "away"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_images_ struct sr_image_list list = {0};
                _cleanup_error_ struct sr_error *error = NULL;

                put_recipe(state, "bad", cases[i].script);
                if (build(state, "bad", (struct sr_image_build_options){0}, &list, NULL, &error) >= 0)
                        fail_msg("case %zu made an image", i);
                assert_message(error, "recipe bad", cases[i].message, cases[i].more, NULL);
                assert_null(strstr(sr_error_message(error), "line 3"));
                assert_int_equal(count_in(state, "store/refs"), 0);
                assert_int_equal(count_in(state, "store/trees"), 0);
                assert_int_equal(count_in(state, "store/blobs/sha256"), 0);
                assert_int_equal(count_in(state, "store/tmp"), 0);
        }
}

static void the_output_can_be_kept(void **state)
{
        _cleanup_images_ struct sr_image_list list = {0};
        _cleanup_free_ char *kept = NULL, *note = NULL;

        put_recipe(state, "bad", "#!/bin/sh\necho hello >\"$1/note\"\nexit 1\n");
        assert_true(build(state, "bad", (struct sr_image_build_options){.keep = true}, &list, &kept, NULL) <
                    0);
        assert_non_null(kept);

        _cleanup_free_ char *path = sr_asprintf("%s/note", kept);

        note = read_text(AT_FDCWD, path);
        assert_string_equal(note, "hello\n");
        // It is no leftover.
        put_recipe(state, "thing", GOOD("x"));
        assert_int_equal(build(state, "thing", (struct sr_image_build_options){0}, &list, NULL, NULL), 0);
        assert_int_equal(access(path, F_OK), 0);
}

// Whether a process is gone. Nobody may reap it here, so that a zombie counts as gone.
static bool is_gone(pid_t pid)
{
        _cleanup_free_ char *path = sr_asprintf("/proc/%d/stat", (int)pid);
        _cleanup_buf_ struct sr_buf line = {0};

        return sr_fd_read_file(AT_FDCWD, path, 4096, &line) < 0 || strstr(line.data, ") Z ") != NULL;
}

static void assert_gone(pid_t pid)
{
        for (int i = 0; i < 2000 && !is_gone(pid); i++)
                usleep(10000);
        assert_true(is_gone(pid));
}

// A daemon that the script left holds its output open; the build does not wait for it, and ends it.
static void what_a_script_leaves_running_is_ended(void **state)
{
        _cleanup_free_ char *note = path_in(state, "left"), *script = NULL;
        _cleanup_buf_ struct sr_buf text = {0};
        _cleanup_images_ struct sr_image_list list = {0};
        uint64_t start = sr_clock_monotonic_ns();

        script = sr_asprintf("%ssleep 300 &\necho $! >%s\n", GOOD("x"), note);
        put_recipe(state, "thing", script);
        assert_int_equal(build(state, "thing", (struct sr_image_build_options){0}, &list, NULL, NULL), 0);
        assert_true(sr_clock_monotonic_ns() - start < 20000000000u);
        assert_int_equal(sr_fd_read_file(AT_FDCWD, note, 64, &text), 0);
        assert_gone((pid_t)atoi(text.data));
}

static void builds_of_one_recipe_share_the_work(void **state)
{
        enum { PROCESSES = 4 };
        pid_t children[PROCESSES];

        put_recipe(state, "thing", GOOD("x") "sleep 1\n");
        for (int i = 0; i < PROCESSES; i++) {
                children[i] = fork();
                if (children[i] == 0) {
                        _cleanup_images_ struct sr_image_list list = {0};
                        int r = build(state, "thing", (struct sr_image_build_options){0}, &list, NULL, NULL);

                        _exit(r < 0 || list.count != 2);
                }
        }
        for (int i = 0; i < PROCESSES; i++) {
                int status;

                assert_int_equal(waitpid(children[i], &status, 0), children[i]);
                assert_int_equal(status, 0);
        }
        assert_int_equal(runs(state, "thing"), 1);
        assert_int_equal(count_in(state, "store/trees"), 1);
}

// Starts a build in another process; returns when its script has written the ids of its processes.
static pid_t start_slow(void **state, const char *commands, pid_t *ret_pids, size_t count)
{
        _cleanup_free_ char *started = path_in(state, "started"), *fresh = path_in(state, "started.new");
        _cleanup_free_ char *script = sr_asprintf("#!/bin/sh\nbegun() { echo \"$*\" >%s; mv %s %s; }\n%s",
                                                  fresh, fresh, started, commands);
        _cleanup_buf_ struct sr_buf text = {0};
        pid_t builder;
        char *at;

        (void)unlink(started);
        put_recipe(state, "slow", script);
        builder = fork();
        if (builder == 0) {
                _cleanup_images_ struct sr_image_list list = {0};
                _cleanup_error_ struct sr_error *error = NULL;
                int r = build(state, "slow", (struct sr_image_build_options){0}, &list, NULL, &error);

                _exit(r == -EINTR && strstr(sr_error_message(error), "told to") != NULL ? 7 : 8);
        }
        for (int i = 0; i < 2000 && access(started, F_OK) < 0; i++)
                usleep(10000);
        assert_int_equal(sr_fd_read_file(AT_FDCWD, started, 64, &text), 0);
        at = text.data;
        for (size_t i = 0; i < count; i++) {
                ret_pids[i] = (pid_t)strtol(at, &at, 10);
                assert_true(ret_pids[i] > 1);
        }
        return builder;
}

// In short sleeps, as a shell that is told to end just before it starts a command waits for that one first.
#define IDLE "while :; do sleep 0.1; done\n"

// A shell waits for its command before it looks at signals, and a command may not care for them.
#define FOREGROUND                                                                                           \
        "sh -c 'trap \"\" TERM; sleep 300 & echo $$ $! >\"$0.pids\"; wait' \"$1/x\" &\n"                     \
        "until [ -s \"$1/x.pids\" ]; do sleep 0.01; done\n"

static void a_script_ends_with_its_builder(void **state)
{
        _cleanup_free_ char *cleared = path_in(state, "cleared");
        _cleanup_free_ char *heeds =
                sr_asprintf("trap 'echo x >%s; exit 1' TERM\nsleep 300 &\nbegun $$ $!\n" IDLE, cleared);
        const char *const scripts[] = {heeds, FOREGROUND "begun $(cat \"$1/x.pids\")\nsleep 300\n"};

        for (size_t i = 0; i < 2; i++) {
                pid_t pids[2];
                pid_t builder = start_slow(state, scripts[i], pids, 2);

                kill(builder, SIGKILL);
                waitpid(builder, NULL, 0);
                assert_gone(pids[0]);
                assert_gone(pids[1]);
        }
        assert_int_equal(access(cleared, F_OK), 0);
}

// Told to stop, the builder lets the script clear up, takes away what it left, and says why it failed.
static void a_script_is_stopped_with_its_builder(void **state)
{
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
        _cleanup_free_ char *cleared = path_in(state, "cleared");

        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
                _cleanup_free_ char *script = sr_asprintf(
                        "trap 'echo x >%s; exit 0' TERM\nsleep 300 &\nbegun $$ $!\n" IDLE, cleared);
                pid_t pids[2];
                pid_t builder = start_slow(state, script, pids, 2);
                uint64_t start = sr_clock_monotonic_ns();
                int status;

                kill(builder, signals[i]);
                assert_int_equal(waitpid(builder, &status, 0), builder);
                assert_true(WIFEXITED(status));
                assert_int_equal(WEXITSTATUS(status), 7);
                assert_true(sr_clock_monotonic_ns() - start < 5000000000u);
                assert_true(is_gone(pids[0]) && is_gone(pids[1]));
                assert_int_equal(unlink(cleared), 0);
                assert_int_equal(count_in(state, "store/tmp"), 0);
        }
}

static void a_second_signal_ends_a_script_that_does_not_heed_the_first(void **state)
{
        pid_t pids[2];
        pid_t builder = start_slow(state,
                                   "trap 'begun again' TERM\n" FOREGROUND
                                   "begun $(cat \"$1/x.pids\")\nwhile :; do wait; done\n",
                                   pids, 2);
        _cleanup_free_ char *started = path_in(state, "started");
        _cleanup_buf_ struct sr_buf text = {0};
        uint64_t start = sr_clock_monotonic_ns();
        int status;

        kill(builder, SIGTERM);
        for (int i = 0; i < 2000 && (text.data == NULL || strstr(text.data, "again") == NULL); i++) {
                usleep(1000);
                sr_buf_clear(&text);
                assert_int_equal(sr_fd_read_file(AT_FDCWD, started, 64, &text), 0);
        }
        kill(builder, SIGTERM);
        assert_int_equal(waitpid(builder, &status, 0), builder);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 7);
        assert_true(sr_clock_monotonic_ns() - start < 5000000000u);
        assert_true(is_gone(pids[0]) && is_gone(pids[1]));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                directory_test(a_recipe_becomes_an_image),
                directory_test(an_unknown_recipe_is_answered_with_those_there_are),
                directory_test(a_recipe_that_fails_is_told_with_its_last_words),
                directory_test(the_output_can_be_kept),
                directory_test(what_a_script_leaves_running_is_ended),
                directory_test(builds_of_one_recipe_share_the_work),
                directory_test(a_script_ends_with_its_builder),
                directory_test(a_script_is_stopped_with_its_builder),
                directory_test(a_second_signal_ends_a_script_that_does_not_heed_the_first),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
