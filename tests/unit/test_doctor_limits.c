// `doctor`: why a limit has no cgroup, and why programs have no ids of their own.

#include "doctor_host.h"

#define WATCHED "memory: watchdog, cpu: none, pids: watchdog"

static void test_limits_are_held(void **state)
{
        struct host *host = *state;

        host->doctor.host.memory = host->doctor.host.cpu = host->doctor.host.pids = "cgroup2";
        expect(host, doctor_check_limits, DOCTOR_OK, "memory: cgroup2, cpu: cgroup2, pids: cgroup2", NULL);
        host->doctor.host.memory = host->doctor.host.cpu = host->doctor.host.pids = "cgroup1";
        expect(host, doctor_check_limits, DOCTOR_OK, "memory: cgroup1, cpu: cgroup1, pids: cgroup1", NULL);
        host->doctor.runner = NULL;
        expect(host, doctor_check_limits, DOCTOR_WARNING, "not known", NULL);
}

static void test_limits_without_a_user_manager(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *command = sr_asprintf("rm -rf '%s/run/user'", host->root);

        assert_int_equal(system(command), 0);
        expect(host, doctor_check_limits, DOCTOR_WARNING, WATCHED ": no systemd of the user ann is running",
               "sudo loginctl enable-linger ann");
        assert_non_null(strstr(host->finding.fix,
                               "\nsudo systemd-run --uid=1000 --same-dir --property=Delegate=yes "
                               "--pty sandbox-runner …"));
        host->config.strict_limits = true;
        expect(host, doctor_check_limits, DOCTOR_ERROR, WATCHED, "enable-linger");
}

static void test_limits_without_a_bus(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/run/user/1000/bus", host->root);

        assert_int_equal(unlink(path), 0);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "there is no /run/user/1000/bus",
               "sudo apt-get install dbus-user-session && sudo systemctl restart user@1000.service");
}

static void test_limits_of_a_service_without_delegation(void **state)
{
        struct host *host = *state;

        const char *fix = "sudo mkdir -p /etc/systemd/system/runner.service.d && printf "
                          "'[Service]\\nDelegate=yes\\n' | sudo tee -a "
                          "/etc/systemd/system/runner.service.d/sandbox-runner.conf && sudo systemctl "
                          "daemon-reload && sudo systemctl restart runner.service";
        _cleanup_free_ char *command = sr_asprintf("rm -rf '%s/run/user'", host->root);

        put(host, "/proc/self/cgroup", "0::/system.slice/runner.service\n");
        host->doctor.host.limits_why = sr_strdup("the system bus does not answer");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "the system bus does not answer", fix);
        assert_int_equal(system(command), 0);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "none is delegated to the service runner.service",
               fix);
        assert_non_null(strstr(host->finding.fix, "\nsudo loginctl enable-linger ann"));
        be_user(host, 0, 0, 0);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "the system bus does not answer", "Delegate=yes");
        sr_freep(&host->doctor.host.limits_why);
}

static void test_limits_without_the_library(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/usr/lib/libsystemd.so.0", host->root);

        assert_int_equal(unlink(path), 0);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "libsystemd.so.0",
               "sudo apt-get install libsystemd0");
        look(host);
        host->doctor.facts.sd_bus = false;
        doctor_check_limits(&host->doctor, &host->finding);
        assert_non_null(strstr(host->finding.found, "built without sd-bus"));
        assert_non_null(strstr(host->finding.fix, "libsystemd-dev"));
}

static void test_limits_without_systemd(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *command = sr_asprintf("rm -rf '%s/run/systemd'", host->root);

        assert_int_equal(system(command), 0);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "no systemd here", "sudo sandbox-runner …");
}

static void test_limits_that_systemd_did_not_give(void **state)
{
        struct host *host = *state;

        host->doctor.host.limits_why = sr_strdup("systemd did not give a scope: no");
        expect(host, doctor_check_limits, DOCTOR_WARNING, WATCHED ": systemd did not give a scope: no",
               "journalctl --user");
        sr_freep(&host->doctor.host.limits_why);
}

static void test_limits_some_of_which_are_handed_down(void **state)
{
        struct host *host = *state;

        host->doctor.host.memory = host->doctor.host.pids = "cgroup2";
        expect(host, doctor_check_limits, DOCTOR_WARNING,
               "memory: cgroup2, cpu: none, pids: cgroup2: not handed down to us, of the controllers: cpu",
               "/etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu memory pids\\n'");
}

#define VERSION_1                                                                                            \
        "25 22 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"                                  \
        "26 22 0:23 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"

static void test_limits_of_version_1(void **state)
{
        struct host *host = *state;
        put(host, "/etc/default/grub", "");
        const char *boot = "systemd.unified_cgroup_hierarchy=1 /' /etc/default/grub && sudo update-grub";

        put(host, "/sys/fs/cgroup/memory/cgroup.procs", "");
        put(host, "/proc/self/mountinfo", MOUNTS VERSION_1);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "are on cgroup version 1, which only root", boot);
        assert_non_null(strstr(host->finding.fix, "\nsudo sandbox-runner …"));
        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/run/systemd/container", "");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "are on cgroup version 1",
               "on the container's host: sudo sed -i "
               "'s/^GRUB_CMDLINE_LINUX=\"/&systemd.unified_cgroup_hierarchy=1");
        be_in_pid_namespace(host, "pid:[4026531836]");
        // The hybrid layout: a cgroup2 mount beside them that has none.
        put(host, "/sys/fs/cgroup/unified/cgroup.procs", "");
        put(host, "/sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n");
        put(host, "/proc/self/mountinfo",
            MOUNTS VERSION_1 "27 22 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "(its cgroup2 mount has none)", boot);
        // The root of a rootless container is no better off; the host's root has them.
        be_user(host, 0, 0, 0);
        put(host, "/proc/self/uid_map", "0 1000 1\n1 100000 65536\n");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "which only root", "update-grub");
        put(host, "/proc/self/uid_map", "0 0 4294967295\n");
        host->doctor.host.limits_why = sr_strdup("no cgroup could be made");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "no cgroup could be made", NULL);
        sr_freep(&host->doctor.host.limits_why);
}

// Without GRUB, whose files we know, there are only words.
static void test_limits_of_version_1_without_grub(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *command = sr_asprintf("rm -rf '%s/run/systemd'", host->root);

        put(host, "/sys/fs/cgroup/memory/cgroup.procs", "");
        put(host, "/proc/self/mountinfo", MOUNTS VERSION_1);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "are on cgroup version 1",
               "add systemd.unified_cgroup_hierarchy=1 to the command line of the kernel");
        assert_int_equal(host->finding.words, 1);
        assert_int_equal(system(command), 0);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "are on cgroup version 1",
               "add cgroup_no_v1=all to");
}

static void test_limits_without_a_mount(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/sys/fs/cgroup/cgroup.procs", host->root);

        // It is in the table of mounts, but something lies over it.
        assert_int_equal(unlink(path), 0);
        expect(host, doctor_check_limits, DOCTOR_WARNING, "no cgroup hierarchy with a controller is mounted",
               "sudo mount -t cgroup2 none /sys/fs/cgroup");
        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/.dockerenv", "");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "no cgroup hierarchy",
               "docker run --cgroupns=private");
}

static void test_limits_in_a_container(void **state)
{
        struct host *host = *state;

        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/.dockerenv", "");
        be_user(host, 0, 0, 0);
        host->doctor.host.limits_why = sr_strdup("it holds other processes and hands no controllers on");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "holds other processes",
               ">/sys/fs/cgroup/cgroup.subtree_control");
        put(host, "/proc/self/mountinfo",
            MOUNTS "25 22 0:22 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "read-only",
               "docker run --security-opt writable-cgroups=true");
        put(host, "/run/.containerenv", "");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "read-only",
               "podman run --security-opt unmask=/sys/fs/cgroup");
        put(host, "/var/run/secrets/kubernetes.io/x", "");
        expect(host, doctor_check_limits, DOCTOR_WARNING, "read-only", "cgroup_writable");
        sr_freep(&host->doctor.host.limits_why);
}

// Ids

static void test_ids_of_their_own(void **state)
{
        struct host *host = *state;

        host->doctor.host.own_ids = true;
        expect(host, doctor_check_ids, DOCTOR_OK, "range: ", NULL);
        host->doctor.runner = NULL;
        expect(host, doctor_check_ids, DOCTOR_WARNING, "not known", NULL);
}

static void test_ids_under_no_new_privs(void **state)
{
        struct host *host = *state;

        be_user(host, 1000, 1, 0);
        expect(host, doctor_check_ids, DOCTOR_WARNING, "no_new_privs", "setpriv --no-new-privs");
        put(host, "/proc/self/cgroup", "0::/system.slice/runner.service\n");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "no_new_privs", "NoNewPrivileges=no");
        assert_non_null(strstr(host->finding.fix, "/etc/systemd/system/runner.service.d"));
        put(host, "/proc/self/cgroup", "0::/user.slice/user@1000.service/mine.service\n");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "no_new_privs",
               "~/.config/systemd/user/mine.service.d");
        assert_null(strstr(host->finding.fix, "sudo"));
}

static void test_ids_without_the_programs(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/usr/bin/newgidmap", host->root);

        assert_int_equal(unlink(path), 0);
        expect(host, doctor_check_ids, DOCTOR_WARNING, "newgidmap is not installed",
               "sudo apt-get install uidmap");
        assert_null(strstr(host->finding.fix, "usermod"));
        put(host, "/etc/subuid", "");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "newgidmap is not installed",
               "sudo apt-get install uidmap && sudo usermod --add-subuids 262144-327679 --add-subgids "
               "262144-327679 ann");
}

static void test_ids_without_a_range(void **state)
{
        struct host *host = *state;

        put(host, "/etc/subuid", "bob:100000:65536\nannie:1:2\n");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "the user ann has no range in /etc/subuid",
               "sudo usermod --add-subuids 262144-327679 --add-subgids 262144-327679 ann");
        put(host, "/etc/subuid", "ann:165536:65536\n");
        put(host, "/etc/subgid", "");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "no range in /etc/subgid", "usermod --add-subuids");
        // A range, but too small: the spawner's sentence has the command too, which is to be read once.
        put(host, "/etc/subgid", "ann:165536:10\n");
        host->doctor.host.ids_why = sr_strdup("/etc/subgid gives no range; as root: usermod …");
        expect(host, doctor_check_ids, DOCTOR_WARNING,
               "the user ann has a range of 10 ids in /etc/subgid, and 2100 are needed",
               "sudo usermod --add-subuids 262144-327679");
        assert_null(strstr(host->finding.found, "usermod"));
        sr_freep(&host->doctor.host.ids_why);
        // Where no id is left, words.
        put(host, "/etc/subuid", "bob:1:4294967294\n");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "the user ann has no range in /etc/subuid",
               "give the user ann a line");
}

static void test_ids_of_a_uid_without_a_name(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/usr/bin/newgidmap", host->root);

        be_user(host, 4242, 0, 0);
        expect(host, doctor_check_ids, DOCTOR_WARNING,
               "the uid 4242 has no name in /etc/passwd, and newuidmap maps ids for users with a name alone",
               "sudo touch /etc/subuid /etc/subgid && { getent group 4242 || sudo groupadd --gid 4242 "
               "snippets; "
               "} && sudo useradd --uid 4242 --gid 4242 ");
        assert_null(strstr(host->finding.fix, "USER"));
        assert_null(strstr(host->finding.fix, "uidmap"));
        assert_int_equal(unlink(path), 0);
        expect(host, doctor_check_ids, DOCTOR_WARNING, "no name in /etc/passwd",
               "sudo apt-get install uidmap && sudo touch");
        expect(host, doctor_check_limits, DOCTOR_WARNING,
               "the uid 4242 has no name in /etc/passwd, so systemd runs nothing for it",
               "sudo useradd --uid 4242");
}

static void test_ids_of_a_user_in_another_group(void **state)
{
        struct host *host = *state;

        put(host, "/etc/passwd", "ann:x:1000:100:Ann:/home/ann:/bin/sh\n");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "which is 100, but this was started with group 1000",
               "start it with group 100");
        put(host, "/proc/self/cgroup", "0::/system.slice/runner.service\n");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "which is 100", "Group=");
        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/.dockerenv", "");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "which is 100", "docker run --user 1000:100");
}

static void test_ids_where_root_is_weak(void **state)
{
        struct host *host = *state;

        host->is_weak = true;
        be_user(host, 1000, 0, 0);
        expect(host, doctor_check_ids, DOCTOR_WARNING, "no CAP_SYS_ADMIN",
               "sudo setcap cap_setuid+ep /usr/bin/newuidmap && sudo setcap cap_setgid+ep "
               "/usr/bin/newgidmap");
        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/.dockerenv", "");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "no CAP_SYS_ADMIN", "in the container's image: ");
}

static void test_ids_that_newuidmap_cannot_map(void **state)
{
        struct host *host = *state;

        put_mode(host, "/usr/bin/newuidmap", 0755);
        expect(host, doctor_check_ids, DOCTOR_WARNING, "neither the set-id bit nor capabilities",
               "apt-get install --reinstall uidmap");
        put_mode(host, "/usr/bin/newuidmap", 04755);
        look(host);
        host->doctor.facts.mappers_nosuid = true;
        doctor_check_ids(&host->doctor, &host->finding);
        assert_non_null(strstr(host->finding.found, "nosuid"));
        assert_non_null(strstr(host->finding.fix, "remount,suid"));
        host->doctor.host.ids_why = sr_strdup("newuidmap: uid range [1-1101) -> [1-1101) not allowed");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "not allowed", NULL);
        sr_freep(&host->doctor.host.ids_why);
}

static void test_ids_of_root(void **state)
{
        struct host *host = *state;

        be_user(host, 0, 0, 0);
        expect(host, doctor_check_ids, DOCTOR_OK,
               "range: programs run with host ids of their own from 2069692416", NULL);
        put(host, "/proc/self/gid_map", "0 0 65536\n");
        host->doctor.runner = NULL;
        expect(host, doctor_check_ids, DOCTOR_ERROR, "2069692416 to 2069757951 are not mapped",
               "start it as an ordinary user");
        assert_non_null(strstr(host->finding.fix, "sandbox.root_id_base="));
        put(host, "/proc/self/uid_map", "0 1000 1\n1 100000 65536\n");
        expect(host, doctor_check_ids, DOCTOR_WARNING, "the ordinary user 1000 outside", "/etc/subuid");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_limits_are_held),
                TEST(test_limits_without_a_user_manager),
                TEST(test_limits_without_a_bus),
                TEST(test_limits_of_a_service_without_delegation),
                TEST(test_limits_without_the_library),
                TEST(test_limits_without_systemd),
                TEST(test_limits_that_systemd_did_not_give),
                TEST(test_limits_some_of_which_are_handed_down),
                TEST(test_limits_of_version_1),
                TEST(test_limits_of_version_1_without_grub),
                TEST(test_limits_without_a_mount),
                TEST(test_limits_in_a_container),
                TEST(test_ids_of_their_own),
                TEST(test_ids_under_no_new_privs),
                TEST(test_ids_without_the_programs),
                TEST(test_ids_without_a_range),
                TEST(test_ids_of_a_uid_without_a_name),
                TEST(test_ids_of_a_user_in_another_group),
                TEST(test_ids_where_root_is_weak),
                TEST(test_ids_that_newuidmap_cannot_map),
                TEST(test_ids_of_root),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
