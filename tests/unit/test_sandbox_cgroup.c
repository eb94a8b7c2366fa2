// Where cgroups are found, from the kernel's texts; and, where this host has some, what is made and removed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_layout.h"

#define MEMORY SR_WIRE_CONTROLLER(SR_CONTROLLER_MEMORY)
#define CPU    SR_WIRE_CONTROLLER(SR_CONTROLLER_CPU)
#define PIDS   SR_WIRE_CONTROLLER(SR_CONTROLLER_PIDS)

static void a_unified_host_has_one_place(void **state)
{
        struct sr_cgroup_layout layout;

        (void)state;
        sr_cgroup_layout_parse(
                "22 1 0:20 / /sys rw - sysfs sysfs rw\n"
                "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
                "0::/system.slice/a.service\n", "cpuset cpu io memory pids\n", &layout);
        assert_true(layout.has_version_2);
        assert_int_equal(layout.count, 1);
        assert_int_equal(layout.places[0].version, 2);
        assert_int_equal(layout.places[0].controllers, MEMORY | CPU | PIDS);
        assert_string_equal(layout.places[0].mount_point, "/sys/fs/cgroup");
        assert_string_equal(layout.places[0].own, "/sys/fs/cgroup/system.slice/a.service");
        sr_cgroup_layout_clear(&layout);
}

static void a_host_of_version_1_has_a_place_for_each_hierarchy(void **state)
{
        struct sr_cgroup_layout layout;

        (void)state;
        sr_cgroup_layout_parse("1 0 0:1 / /c/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                               "2 0 0:2 / /c/memory rw - cgroup cgroup rw,memory\n"
                               "3 0 0:3 / /c/freezer rw - cgroup cgroup rw,freezer\n"
                               "4 0 0:4 / /c/a\\040b rw - cgroup cgroup rw,pids\n"
                               "5 0 0:2 / /again/memory rw - cgroup cgroup rw,memory\n"
                               "6 0 0:5 / /c/unified rw - cgroup2 cgroup2 rw\n",
                               "4:pids:/\n3:cpu,cpuacct:/user/x\n2:memory:/m\n0::/\n", "", &layout);
        assert_true(layout.has_version_2);
        assert_int_equal(layout.count, 3);
        assert_int_equal(layout.places[0].controllers, CPU | SR_WIRE_CPU_USAGE);
        assert_string_equal(layout.places[0].own, "/c/cpu,cpuacct/user/x");
        assert_int_equal(layout.places[1].controllers, MEMORY);
        assert_string_equal(layout.places[1].own, "/c/memory/m");
        assert_int_equal(layout.places[2].controllers, PIDS);
        assert_string_equal(layout.places[2].own, "/c/a b");
        sr_cgroup_layout_clear(&layout);
}

static void a_mount_of_a_part_shows_what_lies_below_it(void **state)
{
        static const struct {
                const char *root, *path, *directory;
        } cases[] = {
                {"/", "/", "/m"},
                {"/", "/a/b", "/m/a/b"},
                {"/docker/x", "/docker/x", "/m"},
                {"/docker/x", "/docker/x/y", "/m/y"},
                {"/docker/x", "/docker/xy", NULL},
                {"/docker/x", "/", NULL},
                {"/", "/../other", NULL},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                _cleanup_free_ char *found = sr_cgroup_layout_directory("/m", cases[i].root, cases[i].path);

                if (cases[i].directory == NULL)
                        assert_null(found);
                else
                        assert_string_equal(found, cases[i].directory);
        }
}

static void units_of_systemd_are_told_by_their_names(void **state)
{
        (void)state;
        assert_true(sr_cgroup_layout_is_unit("/c/user.slice/user-1000.slice/user@1000.service/init.scope"));
        assert_true(sr_cgroup_layout_is_unit("/c/user@1000.service/app.slice"));
        assert_true(sr_cgroup_layout_is_unit("/c/user@1000.service/run-1.service"));
        assert_false(sr_cgroup_layout_is_unit("/c/system.slice/a.service/server"));
        assert_false(sr_cgroup_layout_is_unit("/c/system.slice/a.service/scope"));
        assert_false(sr_cgroup_layout_is_unit("/c"));
}

static void broken_lines_are_passed_over(void **state)
{
        struct sr_cgroup_layout layout;

        (void)state;
        sr_cgroup_layout_parse("\n1\n1 2 3 4 5\n1 0 0:1 / /c rw - cgroup\n- - - - - - - - -\n", "x\n:\n::\n",
                               "memory", &layout);
        assert_int_equal(layout.count, 0);
        sr_cgroup_layout_clear(&layout);
}

static void a_subtree_says_what_it_holds_and_goes(void **state)
{
        struct sr_wire_hierarchy hierarchies[SR_WIRE_HIERARCHIES_MAX];
        int descriptors[SR_WIRE_HIERARCHIES_MAX];
        // Something to put into the subtree in the spawner's place.
        pid_t child = fork();

        (void)state;
        if (child == 0) {
                pause();
                _exit(0);
        }
        struct sr_cgroup *cgroup = sr_cgroup_make(child, geteuid(), getegid());
        struct sr_limits limits = sr_cgroup_limits(cgroup);
        unsigned count = sr_cgroup_hierarchies(cgroup, hierarchies, descriptors);
        bool all = true;

        for (unsigned i = 0; i < SR_CONTROLLER_COUNT; i++) {
                bool held = limits.by[i] >= SR_ENFORCER_CGROUP1, found = false;

                for (unsigned j = 0; j < count; j++)
                        found = found || hierarchies[j].controllers & SR_WIRE_CONTROLLER(i);
                assert_int_equal(held, found);
                all = all && held;
        }
        assert_int_equal(sr_cgroup_why(cgroup) == NULL, all);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);

        // What is removed has no links left: its directory cannot be read any more.
        int kept[SR_WIRE_HIERARCHIES_MAX];

        for (unsigned i = 0; i < count; i++)
                kept[i] = dup(descriptors[i]);
        assert_null(sr_cgroup_remove(cgroup));
        for (unsigned i = 0; i < count; i++) {
                assert_int_equal(faccessat(kept[i], "cgroup.procs", F_OK, 0), -1);
                close(kept[i]);
        }
}

// What bears a name like ours and is not ours stays, and so does a subtree whose server lives.
static void only_subtrees_of_the_dead_are_swept(void **state)
{
        static const char *const names[] = {"sandbox-runner-1-0123abcd", "sandbox-runner-2-0123abcd",
                                            "sandbox-runner-mine", "sandbox-runner-3-0123abcd.scope"};
        static const bool kept[] = {false, true, true, true};
        struct sr_wire_hierarchy hierarchies[SR_WIRE_HIERARCHIES_MAX];
        int descriptors[SR_WIRE_HIERARCHIES_MAX];
        struct sr_cgroup *cgroup = sr_cgroup_make(getpid(), geteuid(), getegid());

        (void)state;
        if (sr_cgroup_hierarchies(cgroup, hierarchies, descriptors) == 0 || hierarchies[0].version != 1) {
                print_message("skipped: root on a host of cgroup v1 is needed to see what is swept\n");
                sr_cgroup_remove(cgroup);
                skip();
        }
        int base = openat(descriptors[0], "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        for (size_t i = 0; i < 4; i++)
                assert_int_equal(mkdirat(base, names[i], 0755), 0);
        int lock = openat(base, names[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(flock(lock, LOCK_EX), 0);
        sr_cgroup_remove(cgroup);
        cgroup = sr_cgroup_make(getpid(), geteuid(), getegid());
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(faccessat(base, names[i], F_OK, 0) == 0, kept[i]);
                (void)unlinkat(base, names[i], AT_REMOVEDIR);
        }
        sr_cgroup_remove(cgroup);
        close(lock);
        close(base);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_unified_host_has_one_place),
                cmocka_unit_test(a_host_of_version_1_has_a_place_for_each_hierarchy),
                cmocka_unit_test(a_mount_of_a_part_shows_what_lies_below_it),
                cmocka_unit_test(units_of_systemd_are_told_by_their_names),
                cmocka_unit_test(broken_lines_are_passed_over),
                cmocka_unit_test(a_subtree_says_what_it_holds_and_goes),
                cmocka_unit_test(only_subtrees_of_the_dead_are_swept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
