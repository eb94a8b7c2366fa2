// What every root file system gets: accounts merged into those of the image, files and mount points.

#include "image_fixture.h"

#include "image/skeleton.h"

#define ROOT    "root:x:0:0:root:/root:/bin/sh\n"
#define SANDBOX "sandbox:x:1000:1000:Sandbox user:/tmp:/bin/sh\n"
#define NOBODY  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"

static void accounts_of_the_image_stay(void **state)
{
        static const struct {
                const char *before, *after; // NULL: no file
        } cases[] = {
                {NULL, ROOT SANDBOX NOBODY},
                {"", ROOT SANDBOX NOBODY},
                {"root:*:0:0::/:/bin/ash\n", "root:*:0:0::/:/bin/ash\n" SANDBOX NOBODY},
                // No newline at the end.
                {"root:*:0:0::/:/bin/ash", "root:*:0:0::/:/bin/ash\n" SANDBOX NOBODY},
                // Another user has our number: a look-up by number must find ours.
                {ROOT "node:x:1000:1000::/home/node:/bin/sh\nlast:x:5:5::/:/x\n",
                 ROOT SANDBOX "node:x:1000:1000::/home/node:/bin/sh\nlast:x:5:5::/:/x\n" NOBODY},
                // And one our name.
                {ROOT "sandbox:x:77:77::/:/x\n", ROOT SANDBOX "sandbox:x:77:77::/:/x\n" NOBODY},
                {ROOT SANDBOX NOBODY, ROOT SANDBOX NOBODY},
                {ROOT "sandbox:!:1000:5:theirs:/home:/x\n" NOBODY,
                 ROOT "sandbox:!:1000:5:theirs:/home:/x\n" NOBODY},
                {"toor:x:0:0::/:/x\n\n:::\nnonsense\n", "toor:x:0:0::/:/x\n\n:::\nnonsense\n" SANDBOX NOBODY},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *etc = path_in(state, "etc"), *passwd = path_in(state, "etc/passwd");
                _cleanup_close_ int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                _cleanup_error_ struct sr_error *error = NULL;

                mkdir(etc, 0755);
                unlink(passwd);
                if (cases[i].before != NULL)
                        write_file(passwd, cases[i].before, strlen(cases[i].before));
                if (sr_image_skeleton_apply(fd, &error) < 0)
                        fail_msg("%s", sr_error_message(error));

                _cleanup_free_ char *found = read_text(fd, "etc/passwd");

                assert_string_equal(found, cases[i].after);
        }

        _cleanup_close_ int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *group = read_text(fd, "etc/group");

        assert_string_equal(group, "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n");
}

static void links_of_the_image_are_not_written_through(void **state)
{
        _cleanup_free_ char *outside = path_in(state, "outside"), *root = path_in(state, "root");
        _cleanup_free_ char *etc = path_in(state, "root/real-etc"),
                            *secret = path_in(state, "outside/passwd");
        _cleanup_error_ struct sr_error *error = NULL;
        struct stat stat;

        assert_int_equal(sr_fd_make_directories(outside, 0755), 0);
        assert_int_equal(sr_fd_make_directories(etc, 0755), 0);
        write_file(secret, "mine", 4);

        _cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(symlinkat("/real-etc", fd, "etc"), 0);
        assert_int_equal(symlinkat("../../outside/passwd", fd, "real-etc/passwd"), 0);
        assert_int_equal(symlinkat("../../../../../../../../etc/hosts", fd, "real-etc/hosts"), 0);
        assert_int_equal(symlinkat("../outside", fd, "tmp"), 0);
        assert_int_equal(mkfifoat(fd, "real-etc/group", 0644), 0);
        alarm(20); // reading a FIFO would wait
        if (sr_image_skeleton_apply(fd, &error) < 0)
                fail_msg("%s", sr_error_message(error));
        alarm(0);

        _cleanup_free_ char *untouched = read_text(AT_FDCWD, secret),
                            *passwd = read_text(fd, "real-etc/passwd");

        assert_string_equal(untouched, "mine");
        assert_non_null(strstr(passwd, SANDBOX));
        // /etc may be elsewhere in the image; a mount point may not.
        assert_int_equal(fstatat(fd, "etc", &stat, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(S_ISLNK(stat.st_mode));
        assert_int_equal(fstatat(fd, "real-etc/passwd", &stat, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(S_ISREG(stat.st_mode));
        assert_int_equal(fstatat(fd, "tmp", &stat, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(S_ISDIR(stat.st_mode));
        assert_int_equal(stat.st_mode & 07777, 01777);
}

static void files_are_replaced_or_kept(void **state)
{
        _cleanup_free_ char *etc = path_in(state, "etc"), *hosts = path_in(state, "etc/hosts");
        _cleanup_free_ char *resolv = path_in(state, "etc/resolv.conf"),
                            *nss = path_in(state, "etc/nsswitch.conf");
        static const char *const mounts[] = {"dev", "proc", "scratch", "tmp"};

        assert_int_equal(mkdir(etc, 0755), 0);
        write_file(hosts, "6.6.6.6 localhost\n", 18);
        write_file(resolv, "nameserver 6.6.6.6\n", 19);
        write_file(nss, "passwd: mine\n", 13);

        _cleanup_close_ int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(sr_image_skeleton_apply(fd, NULL), 0);

        _cleanup_free_ char *h = read_text(fd, "etc/hosts"), *r = read_text(fd, "etc/resolv.conf");
        _cleanup_free_ char *n = read_text(fd, "etc/nsswitch.conf"), *name = read_text(fd, "etc/hostname");

        assert_non_null(strstr(h, "127.0.0.1 localhost"));
        assert_null(strstr(h, "6.6.6.6"));
        assert_null(strstr(r, "nameserver"));
        assert_string_equal(n, "passwd: mine\n");
        assert_string_equal(name, "sandbox\n");
        for (size_t i = 0; i < 4; i++) {
                struct stat stat;

                assert_int_equal(fstatat(fd, mounts[i], &stat, AT_SYMLINK_NOFOLLOW), 0);
                assert_true(S_ISDIR(stat.st_mode));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                directory_test(accounts_of_the_image_stay),
                directory_test(links_of_the_image_are_not_written_through),
                directory_test(files_are_replaced_or_kept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
