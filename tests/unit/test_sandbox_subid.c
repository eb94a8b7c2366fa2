// Ids an ordinary user may give away: reading /etc/subuid, and running what maps them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "sandbox/subid.h"

static void the_largest_range_of_the_user_is_found(void **state)
{
        static const char text[] = "# a comment\n"
                                   "alice:100000:65536\n"
                                   "bob:165536:1000\n"
                                   "1001:400000:70000\n"
                                   "bob:300000:65536\n"
                                   "bobby:500000:99999\n"
                                   "10012:600000:99999\n";
        struct sr_subid_range range = {0};

        (void)state;
        assert_true(sr_subid_find(text, "bob", 7, &range));
        assert_int_equal(range.first, 300000);
        assert_int_equal(range.count, 65536);
        // By number as well, and the larger of both.
        assert_true(sr_subid_find(text, "bob", 1001, &range));
        assert_int_equal(range.first, 400000);
        assert_int_equal(range.count, 70000);
        assert_true(sr_subid_find(text, NULL, 1001, &range));
        assert_int_equal(range.first, 400000);
        assert_false(sr_subid_find(text, "carol", 100, &range));
        assert_false(sr_subid_find(text, "bo", 1, &range));
        assert_false(sr_subid_find("", "bob", 1001, &range));
        assert_false(sr_subid_find(NULL, "bob", 1001, &range));
}

static void lines_that_make_no_sense_are_passed_over(void **state)
{
        static const char *const lines[] = {
                "bob",
                "bob:",
                "bob:1",
                "bob:1:",
                "bob:x:5",
                "bob:100000:0",
                "bob:0:65536",
                "bob:4294967295:1",
                "bob:4294900000:4294967295",
                "bob:99999999999:10",
                ":1:1",
                "bob:-5:10",
        };
        struct sr_subid_range range = {.first = 1, .count = 2};

        (void)state;
        for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
                if (sr_subid_find(lines[i], "bob", 1001, &range))
                        fail_msg("%s gave %u:%u", lines[i], range.first, range.count);
        }
        assert_int_equal(range.first, 1);
        assert_int_equal(range.count, 2);
        // Without the last line's end, as an editor may leave it.
        assert_true(sr_subid_find("x:1:1\nbob:100000:65536", "bob", 1001, &range));
        assert_int_equal(range.count, 65536);
}

#define ROOT_IDS 2069692416u

static char *propose(const char *subuid, const char *subgid, const char *passwd, uint32_t root_id_base)
{
        const char *const texts[] = {subuid, subgid, passwd};
        static const char *const names[] = {"etc/subuid", "etc/subgid", "etc/passwd"};
        char root[] = "/tmp/sr-subid-XXXXXX";

        assert_non_null(mkdtemp(root));
        _cleanup_close_ int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(mkdirat(at, "etc", 0700), 0);
        for (size_t i = 0; i < 3; i++) {
                if (texts[i] == NULL)
                        continue;
                _cleanup_close_ int fd = openat(at, names[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

                assert_int_equal(sr_fd_write_all(fd, texts[i], strlen(texts[i])), 0);
        }
        char *command = sr_subid_add_command(root, "ann", root_id_base);

        for (size_t i = 0; i < 3; i++)
                (void)unlinkat(at, names[i], 0);
        (void)unlinkat(at, "etc", AT_REMOVEDIR);
        assert_int_equal(rmdir(root), 0);
        return command;
}

static void a_range_that_nobody_has_is_proposed(void **state)
{
        static const struct {
                const char *subuid, *subgid, *passwd;
                uint32_t root_id_base;
                const char *range; // NULL: none
        } cases[] = {
                {NULL, NULL, NULL, ROOT_IDS, "131072-196607"},
                {"", "", "", ROOT_IDS, "131072-196607"},
                // Beyond the highest end of both files, though there is room below.
                {"bob:100000:65536\n", "", NULL, ROOT_IDS, "196608-262143"},
                {"bob:131072:65536\n", "", NULL, ROOT_IDS, "196608-262143"},
                {"bob:131072:65537\n", "", NULL, ROOT_IDS, "262144-327679"},
                {"bob:100000:65536", "bob:100000:65536\neve:400000:1", NULL, ROOT_IDS, "458752-524287"},
                {"# bob:900000:1\nx\n\nbob:1\n:5:5\nbob:-5:1\nbob:99999999999:1\n", NULL, NULL, ROOT_IDS,
                 "131072-196607"},
                // Users, by uid and by group, with a password field or without.
                {"", "", "root:x:0:0::/:/bin/sh\ndora::131072:100::/:\n", ROOT_IDS, "196608-262143"},
                {"", "", "dora:x:5:196608::/:\neve:x:131071:5::/:\nodd:131073\n", ROOT_IDS, "131072-196607"},
                {"", "", "dora:x:5:196608::/:\neve:x:131073:5::/:\n", ROOT_IDS, "262144-327679"},
                {"bob:100000:65536\n", "", NULL, 200000, "327680-393215"},
                {"bob:131072:65536\n", "", NULL, 150000, "262144-327679"},
                // With the end of all ids taken, the first gap.
                {"containers:2147483647:2147483648\nbob:100000:65536\n", "eve:262143:10\n", NULL, ROOT_IDS,
                 "327680-393215"},
                {"bob:4294770000:99999999999\n", "", "eve:x:131072:1::/:\n", ROOT_IDS, "196608-262143"},
                {"bob:4294836224:1\n", "", NULL, ROOT_IDS, "131072-196607"},
                {"bob:4294770687:1\n", "", NULL, ROOT_IDS, "4294770688-4294836223"},
                {"bob:1:4294967294\n", "", NULL, ROOT_IDS, NULL},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const char *range = cases[i].range;
                _cleanup_free_ char *command =
                        propose(cases[i].subuid, cases[i].subgid, cases[i].passwd, cases[i].root_id_base);
                _cleanup_free_ char *wanted =
                        sr_asprintf("usermod --add-subuids %s --add-subgids %s ann", range, range);

                if (range == NULL ? command != NULL : command == NULL || strcmp(command, wanted) != 0)
                        fail_msg("%zu: %s, not %s", i, command != NULL ? command : "none", wanted);
        }
}

static int run(const char *script, char **ret_said)
{
        char *arguments[] = {sr_strdup("sh"), sr_strdup("-c"), sr_strdup(script), NULL};
        struct sr_subid_helper helper = SR_SUBID_HELPER_NONE;

        *ret_said = NULL;
        assert_int_equal(sr_subid_start("/bin/sh", arguments, &helper), 0);
        int r = sr_subid_finish(&helper, ret_said);
        for (size_t i = 0; arguments[i] != NULL; i++)
                free(arguments[i]);
        assert_int_equal(helper.pid, 0);
        assert_int_equal(helper.output, -1);
        return r;
}

static void what_a_helper_says_is_kept_when_it_fails(void **state)
{
        _cleanup_free_ char *nothing = NULL, *said = NULL, *silent = NULL, *killed = NULL, *much = NULL;

        (void)state;
        assert_int_equal(run("exit 0", &nothing), 0);
        assert_null(nothing);
        assert_true(run("echo no such luck >&2; echo more >&2; exit 1", &said) < 0);
        assert_string_equal(said, "no such luck");
        assert_true(run("exit 3", &silent) < 0);
        assert_string_equal(silent, "");
        assert_true(run("kill -9 $$", &killed) < 0);
        // More than is kept is read all the same, so that it ends.
        assert_true(run("yes x | head -n 100000; exit 1", &much) < 0);
        assert_string_equal(much, "x");
}

static void a_helper_inherits_nothing(void **state)
{
        _cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int high = fcntl(fd, F_DUPFD_CLOEXEC, 200);
        _cleanup_free_ char *script = sr_asprintf("test ! -e /proc/self/fd/%d", high), *said = NULL;

        (void)state;
        assert_true(high >= 200);
        assert_int_equal(run(script, &said), 0);
        setenv("SR_TEST_SECRET", "secret", 1);
        assert_true(run("echo \"[$SR_TEST_SECRET]\"; exit 1", &said) < 0);
        assert_string_equal(said, "[]");
}

static void a_helper_that_is_not_there_is_an_error(void **state)
{
        char *arguments[] = {NULL};
        struct sr_subid_helper helper = SR_SUBID_HELPER_NONE;
        char *said = NULL;

        (void)state;
        assert_int_equal(sr_subid_start("/no/such/program", arguments, &helper), -ENOENT);
        assert_int_equal(sr_subid_finish(&helper, &said), 0);
        assert_null(said);
        assert_null(sr_subid_find_program("no-such-program"));
        _cleanup_free_ char *shell = sr_subid_find_program("sh");
        assert_non_null(shell);
        assert_int_equal(shell[0], '/');
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_largest_range_of_the_user_is_found),
                cmocka_unit_test(lines_that_make_no_sense_are_passed_over),
                cmocka_unit_test(a_range_that_nobody_has_is_proposed),
                cmocka_unit_test(what_a_helper_says_is_kept_when_it_fails),
                cmocka_unit_test(a_helper_inherits_nothing),
                cmocka_unit_test(a_helper_that_is_not_there_is_an_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
