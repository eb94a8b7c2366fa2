// `doctor`: facts read from a host made of files, and what it says of a kernel and what that forbids.

#include <errno.h>

#include "doctor_host.h"

// Facts

static void test_facts_of_a_healthy_host(void **state)
{
        const struct doctor_facts *facts = look(*state);

        assert_int_equal(facts->uid, 1000);
        assert_string_equal(facts->user, "ann");
        assert_int_equal(facts->gid, 1000);
        assert_int_equal(facts->primary_gid, 1000);
        assert_int_equal(facts->container, DOCTOR_CONTAINER_NONE);
        assert_null(facts->unit);
        assert_null(facts->user_unit);
        assert_false(facts->in_chroot);
        assert_string_equal(facts->os_id, "debian");
        assert_string_equal(facts->os_version, "12");
        assert_string_equal(facts->kernel_release, "6.1.0-9-amd64");
        assert_int_equal(facts->kernel_major, 6);
        assert_int_equal(facts->kernel_minor, 1);
        assert_false(facts->no_new_privs);
        assert_false(facts->filtered);
        assert_true(facts->has_user_namespaces);
        assert_int_equal(facts->max_namespaces[DOCTOR_NS_USER], 31000);
        assert_int_equal(facts->max_namespaces[DOCTOR_NS_PID], -1);
        assert_int_equal(facts->unprivileged_userns_clone, -1);
        assert_int_equal(facts->apparmor_restriction, -1);
        assert_null(facts->covered);
        assert_false(facts->cgroup1);
        assert_true(facts->cgroup2);
        assert_string_equal(facts->cgroup_controllers, "memory, cpu, pids");
        assert_false(facts->cgroup_read_only);
        assert_true(facts->systemd && facts->user_manager && facts->user_bus && facts->libsystemd);
        assert_true(facts->has_newuidmap && facts->has_newgidmap);
        assert_false(facts->mappers_plain || facts->mappers_nosuid);
        assert_int_equal(facts->subuid_count, 65536);
        assert_int_equal(facts->subgid_count, 65536);
        assert_true(facts->root_ids_mapped);
        assert_int_equal(facts->root_outside, 0);
}

static void test_facts_of_nothing(void **state)
{
        struct host *host = *state;
        struct doctor_facts facts;
        _cleanup_free_ char *empty = sr_asprintf("%s/nothing", host->root);

        doctor_facts_read(empty, BASE, &facts);
        assert_null(facts.kernel_release);
        assert_null(facts.user);
        assert_false(facts.has_user_namespaces);
        assert_int_equal(facts.max_namespaces[DOCTOR_NS_USER], -1);
        assert_string_equal(facts.cgroup_controllers, "");
        assert_false(facts.in_chroot || facts.cgroup1 || facts.cgroup2 || facts.root_ids_mapped);
        doctor_facts_clear(&facts);
}

static void test_units(void **state)
{
        struct host *host = *state;
        static const struct {
                const char *cgroup, *unit, *user_unit;
        } cases[] = {
                {"0::/system.slice/runner.service\n", "runner.service", NULL},
                {"0::/system.slice/runner.service/server\n", "runner.service", NULL},
                {"0::/system.slice/system-runner.slice/runner@a.service\n", "runner@a.service", NULL},
                {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/mine.service\n", NULL,
                 "mine.service"},
                {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n", NULL, NULL},
                {"0::/user.slice/user-1000.slice/session-1.scope\n", NULL, NULL},
                {"4:memory:/x\n1:name=systemd:/system.slice/old.service\n", "old.service", NULL},
                {"0::/\n", NULL, NULL},
                {"0::\n", NULL, NULL},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                put(host, "/proc/self/cgroup", cases[i].cgroup);
                const struct doctor_facts *facts = look(host);

                if (cases[i].unit != NULL)
                        assert_string_equal(facts->unit, cases[i].unit);
                else
                        assert_null(facts->unit);
                if (cases[i].user_unit != NULL)
                        assert_string_equal(facts->user_unit, cases[i].user_unit);
                else
                        assert_null(facts->user_unit);
        }
}

static void test_containers(void **state)
{
        struct host *host = *state;

        // A machine made from a container's image keeps the mark, but begins with the first pid namespace.
        put(host, "/.dockerenv", "");
        assert_int_equal(look(host)->container, DOCTOR_CONTAINER_NONE);
        be_in_pid_namespace(host, "pid:[4026532201]");
        assert_int_equal(look(host)->container, DOCTOR_CONTAINER_DOCKER);
        put(host, "/run/.containerenv", "");
        assert_int_equal(look(host)->container, DOCTOR_CONTAINER_PODMAN);
        put(host, "/var/run/secrets/kubernetes.io/serviceaccount/token", "");
        assert_int_equal(look(host)->container, DOCTOR_CONTAINER_KUBERNETES);
}

static void test_the_largest_range_counts(void **state)
{
        put(*state, "/etc/subuid", "ann:1:10\n1000:200000:70000\nann:300000:20\nnobody\nann\n");
        assert_int_equal(look(*state)->subuid_count, 70000);
}

// Kernel

static void test_kernel(void **state)
{
        struct host *host = *state;

        expect(host, doctor_check_kernel, DOCTOR_OK, "Linux 6.1.0-9-amd64 has all", NULL);
        assert_null(strstr(host->finding.found, "5.19"));
        put(host, "/proc/sys/kernel/osrelease", "5.15.0-1-amd64\n");
        expect(host, doctor_check_kernel, DOCTOR_OK, "before 5.19", NULL);
}

static void test_old_kernel(void **state)
{
        struct host *host = *state;

        put(host, "/proc/sys/kernel/osrelease", "5.10.0-28-amd64\n");
        host->doctor.trial.calls[SR_HOST_MOUNT_SETATTR] = ENOSYS;
        expect(host, doctor_check_kernel, DOCTOR_ERROR,
               "Linux 5.10.0-28-amd64 is older than 5.12, the oldest that sandboxes work on; it lacks "
               "mount_setattr",
               "boot Linux 5.12 or newer");
        put(host, "/etc/os-release", "ID=debian\nVERSION_ID=\"11\"\n");
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "5.12",
               "sudo apt-get install -t bullseye-backports linux-image-amd64");
        put(host, "/etc/os-release", "ID=ubuntu\nVERSION_ID=\"20.04\"\n");
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "5.12",
               "sudo apt-get install linux-generic-hwe-20.04");
        be_user(host, 0, 0, 0);
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "5.12", "apt-get install linux-generic-hwe-20.04");
        assert_null(strstr(host->finding.fix, "sudo"));
        put(host, "/.dockerenv", "");
        be_in_pid_namespace(host, "pid:[1]");
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "5.12", "boot the host");
        // A distribution may have brought the call to an older kernel.
        host->doctor.trial.calls[SR_HOST_MOUNT_SETATTR] = 0;
        expect(host, doctor_check_kernel, DOCTOR_OK, "has all", NULL);
}

static void test_calls_that_a_filter_forbids(void **state)
{
        struct host *host = *state;

        // Filters of containers answer ENOSYS too, so that libraries fall back.
        host->doctor.trial.calls[SR_HOST_CLONE3] = ENOSYS;
        host->doctor.trial.calls[SR_HOST_OPENAT2] = EPERM;
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "a system call filter forbids clone3, openat2",
               "without the system call filter");
        put(host, "/proc/self/cgroup", "0::/system.slice/runner.service\n");
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "filter", "/etc/systemd/system/runner.service.d");
        assert_non_null(strstr(host->finding.fix, "SystemCallFilter="));
        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/.dockerenv", "");
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "filter",
               "docker run --security-opt seccomp=unconfined");
        put(host, "/run/.containerenv", "");
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "filter",
               "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL");
        put(host, "/var/run/secrets/kubernetes.io/x", "");
        expect(host, doctor_check_kernel, DOCTOR_ERROR, "filter", "seccompProfile: {type: Unconfined}");
}

// Namespaces

static void test_namespaces_work(void **state)
{
        // Whatever the settings say: it was tried.
        put(*state, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        put(*state, "/proc/sys/kernel/unprivileged_userns_clone", "0\n");
        expect(*state, doctor_check_user_namespaces, DOCTOR_OK, "can be made", NULL);
        expect(*state, doctor_check_namespaces, DOCTOR_OK, "can be made", NULL);
        expect(*state, doctor_check_proc, DOCTOR_OK, "can be mounted", NULL);
}

static void test_user_namespaces_are_limited(void **state)
{
        struct host *host = *state;

        break_trial(host, SR_HOST_USER_NAMESPACE, ENOSPC);
        put(host, "/proc/sys/user/max_user_namespaces", "0\n");
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR, "user.max_user_namespaces is 0",
               "echo user.max_user_namespaces=15000 | sudo tee -a /etc/sysctl.d/60-sandbox-runner.conf && "
               "sudo "
               "sysctl --system");
        put(host, "/proc/sys/user/max_user_namespaces", "10\n");
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR, "in use",
               "echo user.max_user_namespaces=100000 | sudo");
        // What comes after is not blamed.
        expect(host, doctor_check_namespaces, DOCTOR_ERROR, "not tried", NULL);
        expect(host, doctor_check_proc, DOCTOR_ERROR, "not tried", NULL);
        put(host, "/.dockerenv", "");
        be_in_pid_namespace(host, "pid:[1]");
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR, "in use", "on the container's host: ");
}

static void test_user_namespaces_are_roots_alone(void **state)
{
        struct host *host = *state;

        break_trial(host, SR_HOST_USER_NAMESPACE, EPERM);
        put(host, "/proc/sys/kernel/unprivileged_userns_clone", "0\n");
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR, "kernel.unprivileged_userns_clone is 0",
               "echo kernel.unprivileged_userns_clone=1 | sudo tee -a");
        // Root may all the same: something else is behind it.
        be_user(host, 0, 0, 0);
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR, "Operation not permitted", "journalctl");
}

static void test_user_namespaces_are_not_built_in(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/proc/self/ns/user", host->root);

        assert_int_equal(unlink(path), 0);
        break_trial(host, SR_HOST_USER_NAMESPACE, EINVAL);
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR, "built without", "CONFIG_USER_NS=y");
}

static void test_apparmor(void **state)
{
        struct host *host = *state;
        static const struct {
                enum sr_host_step step;
                int error;
                void (*check)(const struct doctor *d, struct doctor_finding *f);
        } cases[] = {
                // Without Ubuntu's profile for it the namespace is refused; with it all that comes after is.
                {SR_HOST_USER_NAMESPACE, EACCES, doctor_check_user_namespaces},
                {SR_HOST_ID_MAP, EPERM, doctor_check_user_namespaces},
                {SR_HOST_NAMESPACES, EPERM, doctor_check_namespaces},
                {SR_HOST_MOUNT, EACCES, doctor_check_namespaces},
                {SR_HOST_PROC, EACCES, doctor_check_proc},
        };

        put(host, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                break_trial(host, cases[i].step, cases[i].error);
                expect(host, cases[i].check, DOCTOR_ERROR, "AppArmor",
                       "'profile sandbox-runner \"/{usr/bin/sandbox-runner}\" flags=(unconfined) {' '  "
                       "userns,' '}' | sudo tee /etc/apparmor.d/sandbox-runner && sudo apparmor_parser -r "
                       "/etc/apparmor.d/sandbox-runner");
                assert_non_null(strstr(host->finding.fix,
                                       "\necho kernel.apparmor_restrict_unprivileged_userns=0 | sudo"));
        }
        // The profile is there but not loaded, or for a program elsewhere.
        put(host, "/etc/apparmor.d/sandbox-runner", "");
        expect(host, doctor_check_proc, DOCTOR_ERROR, "AppArmor", "sudo apparmor_parser -r");
        assert_null(strstr(host->finding.fix, "tee /etc/apparmor.d"));
}

static void test_apparmor_by_its_label(void **state)
{
        struct host *host = *state;

        break_trial(host, SR_HOST_MOUNT, EACCES);
        strcpy(host->doctor.trial.label, "unprivileged_userns");
        expect(host, doctor_check_namespaces, DOCTOR_ERROR, "AppArmor", "apparmor_parser");
        strcpy(host->doctor.trial.label, "unconfined");
        expect(host, doctor_check_namespaces, DOCTOR_ERROR, "Permission denied", "journalctl");
}

static void test_a_profile_of_its_own(void **state)
{
        struct host *host = *state;

        strcpy(host->doctor.trial.label, "docker-default");
        break_trial(host, SR_HOST_MOUNT, EACCES);
        expect(host, doctor_check_namespaces, DOCTOR_ERROR, "profile docker-default", "/etc/apparmor.d");
        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/.dockerenv", "");
        expect(host, doctor_check_namespaces, DOCTOR_ERROR, "profile docker-default",
               "docker run --security-opt apparmor=unconfined");
        break_trial(host, SR_HOST_PROC, EACCES);
        expect(host, doctor_check_proc, DOCTOR_ERROR, "profile docker-default", "apparmor=unconfined");
        // It is the kernel that says EPERM to a masked /proc.
        break_trial(host, SR_HOST_PROC, EPERM);
        expect(host, doctor_check_proc, DOCTOR_ERROR, "whole can be seen", "mount -t proc");
}

static void test_one_kind_of_namespace_is_refused(void **state)
{
        struct host *host = *state;

        break_trial(host, SR_HOST_NAMESPACES, ENOSPC);
        host->doctor.trial.refused = DOCTOR_NS_NET;
        put(host, "/proc/sys/user/max_net_namespaces", "0\n");
        expect(host, doctor_check_user_namespaces, DOCTOR_OK, "can be made", NULL);
        expect(host, doctor_check_namespaces, DOCTOR_ERROR,
               "no net namespace can be made: user.max_net_namespaces is 0",
               "echo user.max_net_namespaces=15000 | sudo");
        host->doctor.trial.refused = DOCTOR_NS_IPC;
        host->doctor.trial.error = EINVAL;
        expect(host, doctor_check_namespaces, DOCTOR_ERROR,
               "no ipc namespace can be made: this kernel was built", "CONFIG_IPC_NS");
}

static void test_a_filter_forbids_namespaces(void **state)
{
        struct host *host = *state;

        break_trial(host, SR_HOST_USER_NAMESPACE, EPERM);
        be_user(host, 1000, 1, 2);
        put(host, "/proc/self/cgroup", "0::/system.slice/runner.service\n");
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR,
               "RestrictNamespaces=", "RestrictNamespaces=no\\nSystemCallFilter=");
        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/.dockerenv", "");
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR, "the container's",
               "docker run --security-opt seccomp=unconfined");
}

static void test_a_chroot_forbids_namespaces(void **state)
{
        struct host *host = *state;

        break_trial(host, SR_HOST_USER_NAMESPACE, EPERM);
        put(host, "/proc/self/mountinfo", "23 22 0:20 / /proc rw,nosuid - proc proc rw\n");
        expect(host, doctor_check_user_namespaces, DOCTOR_ERROR, "chroot", "systemd-nspawn");
}

static void test_no_process_can_be_started(void **state)
{
        break_trial(*state, SR_HOST_FORK, EAGAIN);
        expect(*state, doctor_check_user_namespaces, DOCTOR_ERROR, "no process could be started",
               "ulimit -u");
}

static void test_masked_proc(void **state)
{
        struct host *host = *state;

        break_trial(host, SR_HOST_PROC, EPERM);
        put(host, "/proc/self/mountinfo",
            MOUNTS "30 23 0:5 /null /proc/kcore rw,nosuid - devtmpfs udev rw\n"
                   "31 23 0:30 / /proc/acpi ro,relatime - tmpfs tmpfs ro\n");
        expect(host, doctor_check_proc, DOCTOR_ERROR,
               "covered, as containers do it (/proc/kcore, /proc/acpi)",
               "docker run --security-opt systempaths=unconfined");
        assert_non_null(strstr(host->finding.fix, "\npodman run --security-opt unmask=ALL"));
        put(host, "/proc/self/cgroup", "0::/system.slice/runner.service\n");
        expect(host, doctor_check_proc, DOCTOR_ERROR, "covered", "ProtectKernelTunables=no");
        be_in_pid_namespace(host, "pid:[1]");
        put(host, "/.dockerenv", "");
        expect(host, doctor_check_proc, DOCTOR_ERROR, "covered", "docker run");
        assert_null(strstr(host->finding.fix, "podman"));
        put(host, "/run/.containerenv", "");
        expect(host, doctor_check_proc, DOCTOR_ERROR, "covered", "podman run --security-opt unmask=ALL");
        assert_null(strstr(host->finding.fix, "docker"));
        put(host, "/var/run/secrets/kubernetes.io/x", "");
        expect(host, doctor_check_proc, DOCTOR_ERROR, "covered", "procMount: Unmasked");
}

static void test_read_only_and_absent_proc(void **state)
{
        struct host *host = *state;

        break_trial(host, SR_HOST_PROC, EPERM);
        put(host, "/proc/self/mountinfo",
            "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n23 22 0:20 / /proc ro,nosuid - proc proc rw\n");
        expect(host, doctor_check_proc, DOCTOR_ERROR, "read-only", "docker run");
        put(host, "/proc/self/mountinfo", "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n");
        expect(host, doctor_check_proc, DOCTOR_ERROR, "whole can be seen", "sudo mount -t proc proc /proc");
}

static void test_seccomp_and_landlock(void **state)
{
        struct host *host = *state;

        expect(host, doctor_check_seccomp, DOCTOR_OK, "filtered", NULL);
        expect(host, doctor_check_landlock, DOCTOR_OK, "version 2", NULL);
        host->doctor.trial.seccomp = EINVAL;
        host->doctor.trial.landlock = 0;
        expect(host, doctor_check_seccomp, DOCTOR_ERROR, "cannot filter", "CONFIG_SECCOMP_FILTER=y");
        expect(host, doctor_check_landlock, DOCTOR_OK, "do without", NULL);
}

// Configuration

static void test_problems_of_the_configuration(void **state)
{
        struct host *host = *state;
        char *problems[] = {(char *)(uintptr_t) "a: wrong", (char *)(uintptr_t) "b: wrong", NULL};

        expect(host, doctor_check_configuration, DOCTOR_OK, "without a mistake", NULL);
        host->doctor.config_problems = problems;
        expect(host, doctor_check_configuration, DOCTOR_ERROR, "a: wrong; b: wrong", "correct it");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_facts_of_a_healthy_host),
                TEST(test_facts_of_nothing),
                TEST(test_units),
                TEST(test_containers),
                TEST(test_the_largest_range_counts),
                TEST(test_kernel),
                TEST(test_old_kernel),
                TEST(test_calls_that_a_filter_forbids),
                TEST(test_namespaces_work),
                TEST(test_user_namespaces_are_limited),
                TEST(test_user_namespaces_are_roots_alone),
                TEST(test_user_namespaces_are_not_built_in),
                TEST(test_apparmor),
                TEST(test_apparmor_by_its_label),
                TEST(test_a_profile_of_its_own),
                TEST(test_one_kind_of_namespace_is_refused),
                TEST(test_a_filter_forbids_namespaces),
                TEST(test_a_chroot_forbids_namespaces),
                TEST(test_no_process_can_be_started),
                TEST(test_masked_proc),
                TEST(test_read_only_and_absent_proc),
                TEST(test_seccomp_and_landlock),
                TEST(test_problems_of_the_configuration),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
