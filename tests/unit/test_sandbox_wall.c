// The second wall and the end of user namespaces, each without the filter that comes after them: what a
// program could do if the filter let it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "sandbox/spawner/init.h"
#include "sandbox/spawner/steps.h"
#include "sandbox/spawner/wall.h"
#include "sys/landlock.h"

// Not /tmp, which stays writable.
static char outside[] = "/var/tmp/sr-test-wall-XXXXXX";
static char inside[] = "/tmp/sr-test-wall-XXXXXX";
static char peer_name[64];

// In the children, where cmocka's assertions do not reach.
#define EXPECT(condition)                                                                                    \
        do {                                                                                                 \
                if (!(condition)) {                                                                          \
                        fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno));         \
                        _exit(1);                                                                            \
                }                                                                                            \
        } while (0)

static void in_a_child(void (*body)(void))
{
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
                body();
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

static int create(const char *directory, const char *name)
{
        _cleanup_free_ char *path = sr_asprintf("%s/%s", directory, name);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        return fd < 0 ? -errno : 0;
}

static int open_for(const char *path, int flags)
{
        _cleanup_close_ int fd = open(path, flags | O_CLOEXEC);

        return fd < 0 ? -errno : 0;
}

static bool has_wall(void)
{
        return sr_sys_landlock_version() >= 2;
}

static void raise_wall(bool scratch, int directory)
{
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(sr_wall_raise(scratch, false, directory) == 0);
}

static void write_around(void)
{
        raise_wall(false, 0);
        EXPECT(chdir(inside) == 0);
        EXPECT(create(inside, "file") == 0 && truncate("file", 0) == 0);
        EXPECT(mkdir("a", 0700) == 0 && mkdir("b", 0700) == 0);
        EXPECT(rename("file", "a/file") == 0 && link("a/file", "b/file") == 0 && rename("a", "b/a") == 0);
        EXPECT(symlink("x", "link") == 0 && mkfifo("fifo", 0600) == 0);
        EXPECT(unlink("b/file") == 0 && unlink("b/a/file") == 0 && unlink("link") == 0 &&
               unlink("fifo") == 0);
        EXPECT(rmdir("b/a") == 0 && rmdir("b") == 0);
        EXPECT(open_for("/dev/null", O_WRONLY | O_TRUNC) == 0);
        EXPECT(open_for("/proc/self/comm", O_WRONLY | O_TRUNC) == 0);
        EXPECT(open_for(outside, O_RDONLY) == 0);

        char name[sizeof(outside) + 8];

        snprintf(name, sizeof(name), "%s/old", outside);
        EXPECT(open_for(name, O_RDONLY) == 0);
        if (has_wall()) {
                EXPECT(create(outside, "new") == -EACCES);
                EXPECT(open_for(name, O_WRONLY) == -EACCES);
                EXPECT(unlink(name) < 0 && errno == EACCES);
                EXPECT(rename(name, "old") < 0 && (errno == EACCES || errno == EXDEV));
                // No device, not even where files may be made.
                EXPECT(mknod("device", S_IFCHR | 0600, 0x103) < 0 && (errno == EACCES || errno == EPERM));
        } else {
                EXPECT(open_for(name, O_WRONLY) == 0);
        }
}

static void a_program_writes_where_it_may_and_nowhere_else(void **state)
{
        (void)state;
        if (!has_wall())
                print_message("  this kernel has no Landlock: only that its absence is passed over\n");
        in_a_child(write_around);
}

static void write_into_directory(void)
{
        int fd = open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        EXPECT(fd >= 0);
        raise_wall(false, fd);
        EXPECT(mkdirat(fd, "d", 0700) == 0 && renameat(fd, "old", fd, "d/old") == 0 &&
               renameat(fd, "d/old", fd, "old") == 0 && unlinkat(fd, "d", AT_REMOVEDIR) == 0);
}

static void a_job_writes_into_its_directory(void **state)
{
        (void)state;
        in_a_child(write_into_directory);
}

static void fail_without_scratch(void)
{
        EXPECT(access("/scratch", F_OK) < 0);
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(sr_wall_raise(true, false, 0) == (has_wall() ? -ENOENT : 0));
}

static void fail_without_no_new_privileges(void)
{
        // Root may go without.
        if (geteuid() == 0)
                EXPECT(setresuid(65534, 65534, 65534) == 0);
        EXPECT(sr_wall_raise(false, false, 0) == (has_wall() ? -EPERM : 0));
}

static void a_rule_that_cannot_be_made_is_an_error(void **state)
{
        (void)state;
        in_a_child(fail_without_scratch);
        in_a_child(fail_without_no_new_privileges);
}

static void reach_out(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(peer_name));

        memcpy(address.sun_path + 1, peer_name, strlen(peer_name));
        raise_wall(false, 0);
        EXPECT(fd >= 0);
        if (sr_sys_landlock_version() >= 6) {
                EXPECT(connect(fd, (struct sockaddr *)&address, length) < 0 && errno == EPERM);
                EXPECT(kill(getppid(), 0) < 0 && errno == EPERM);
        } else {
                EXPECT(connect(fd, (struct sockaddr *)&address, length) == 0);
        }
        EXPECT(kill(getpid(), 0) == 0);
}

static void processes_outside_are_out_of_reach(void **state)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)state;
        if (sr_sys_landlock_version() < 6)
                print_message("  this kernel's Landlock knows no scopes: only that this is passed over\n");
        snprintf(peer_name, sizeof(peer_name), "sr-test-%d", (int)getpid());
        memcpy(address.sun_path + 1, peer_name, strlen(peer_name));
        assert_int_equal(bind(fd, (struct sockaddr *)&address,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(peer_name))),
                         0);
        assert_int_equal(listen(fd, 1), 0);
        in_a_child(reach_out);
}

static void make_namespaces(void)
{
        static const struct sr_launch launch;
        _cleanup_free_ char *map = sr_asprintf("%u %u 1\n", SR_PLAN_ID, geteuid());
        struct sr_step settings = {.kind = SR_STEP_SETTINGS, .path = "/proc/sys", .fd = SR_PLAN_FD_SETTINGS};
        struct sr_step enter = {.kind = SR_STEP_USER_NAMESPACE, .options = map};
        struct sr_step end = {.kind = SR_STEP_NO_NAMESPACES,
                              .path = "user/max_user_namespaces",
                              .options = "0",
                              .fd = SR_PLAN_FD_SETTINGS};

        EXPECT(sr_step_run_init(&launch, &settings) == 0);
        EXPECT(sr_step_run_snippet(&launch, &enter) == 0);
        EXPECT(sr_step_run_snippet(&launch, &end) == 0);
        // With every capability of its namespace still held.
        EXPECT(unshare(CLONE_NEWUSER) < 0 && errno == ENOSPC);
        end.path = "user/no_such_limit";
        EXPECT(sr_step_run_snippet(&launch, &end) == -ENOENT);
}

static void no_user_namespace_below_the_programs_own(void **state)
{
        char before[16] = "", after[16] = "";
        _cleanup_close_ int fd = open("/proc/sys/user/max_user_namespaces", O_RDONLY | O_CLOEXEC);

        (void)state;
        assert_true(pread(fd, before, sizeof(before) - 1, 0) > 0);
        in_a_child(make_namespaces);
        // It is the limit of that namespace, not of the host.
        assert_true(pread(fd, after, sizeof(after) - 1, 0) > 0);
        assert_string_equal(before, after);
        assert_int_not_equal(atoi(after), 0);
}

static int make_directories(void **state)
{
        (void)state;
        return mkdtemp(outside) != NULL && mkdtemp(inside) != NULL ? create(outside, "old") : -1;
}

static int remove_directories(void **state)
{
        _cleanup_free_ char *old = sr_asprintf("%s/old", outside);

        (void)state;
        return unlink(old) == 0 && rmdir(outside) == 0 && rmdir(inside) == 0 ? 0 : -1;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_program_writes_where_it_may_and_nowhere_else),
                cmocka_unit_test(a_job_writes_into_its_directory),
                cmocka_unit_test(a_rule_that_cannot_be_made_is_an_error),
                cmocka_unit_test(processes_outside_are_out_of_reach),
                cmocka_unit_test(no_user_namespace_below_the_programs_own),
        };

        return cmocka_run_group_tests(tests, make_directories, remove_directories);
}
