// A host made of files, and a doctor that looks at it: shared by the tests of `doctor`.
#pragma once

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "cli/doctor.h"

#define BASE 2069692416u

// A host of files, and a doctor that looks at it. The trial went well and nothing has a cgroup until a test
// says otherwise.
struct host {
        char *root;
        struct sr_config config;
        struct doctor doctor;
        struct doctor_finding finding;
        bool is_weak; // root has what Docker gives it
};

static inline void put(struct host *host, const char *path, const char *text)
{
        _cleanup_free_ char *full = sr_asprintf("%s%s", host->root, path);
        _cleanup_free_ char *directory = sr_memdup0(full, (size_t)(strrchr(full, '/') - full));

        assert_int_equal(sr_fd_make_directories(directory, 0755), 0);
        _cleanup_close_ int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

        assert_true(fd >= 0);
        assert_int_equal(sr_fd_write_all(fd, text, strlen(text)), 0);
}

static inline void put_mode(struct host *host, const char *path, mode_t mode)
{
        _cleanup_free_ char *full = sr_asprintf("%s%s", host->root, path);

        put(host, path, "");
        assert_int_equal(chmod(full, mode), 0);
}

static inline void be_in_pid_namespace(struct host *host, const char *name)
{
        _cleanup_free_ char *full = sr_asprintf("%s/proc/self/ns/pid", host->root);

        (void)unlink(full);
        assert_int_equal(symlink(name, full), 0);
}

static inline void be_user(struct host *host, unsigned uid, int no_new_privs, int seccomp)
{
        _cleanup_free_ char *text =
                sr_asprintf("Name:\tx\nUid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nCapBnd:\t%s\n"
                            "NoNewPrivs:\t%d\nSeccomp:\t%d\n",
                            uid, uid, uid, uid, uid, uid, uid, uid,
                            host->is_weak ? "00000000a80425fb" : "000001ffffffffff", no_new_privs, seccomp);

        put(host, "/proc/self/status", text);
}

#define MOUNTS                                                                                               \
        "22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n"                                                   \
        "23 22 0:20 / /proc rw,nosuid - proc proc rw\n"                                                      \
        "24 23 0:21 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"

// A Debian with systemd and cgroup version 2 alone; ann, its user, has all she needs.
static inline int setup(void **state)
{
        struct host *host = sr_new(struct host);
        char template[] = "/tmp/sr-doctor-XXXXXX";

        host->root = sr_strdup(mkdtemp(template));
        be_user(host, 1000, 0, 0);
        put(host, "/proc/self/ns/user", "");
        be_in_pid_namespace(host, "pid:[4026531836]");
        put(host, "/proc/self/uid_map", "         0          0 4294967295\n");
        put(host, "/proc/self/gid_map", "         0          0 4294967295\n");
        put(host, "/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-1.scope\n");
        put(host, "/proc/self/mountinfo",
            MOUNTS "25 22 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
        put(host, "/sys/fs/cgroup/cgroup.procs", "1\n");
        put(host, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n");
        put(host, "/proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
        put(host, "/proc/sys/user/max_user_namespaces", "31000\n");
        put(host, "/proc/sys/user/max_net_namespaces", "31000\n");
        put(host, "/etc/os-release", "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n");
        put(host, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n");
        put(host, "/etc/subuid", "bob:100000:65536\nann:165536:65536\n");
        put(host, "/etc/subgid", "bob:100000:65536\n1000:165536:65536\n");
        put_mode(host, "/usr/bin/newuidmap", 04755);
        put_mode(host, "/usr/bin/newgidmap", 04755);
        put(host, "/usr/lib/libsystemd.so.0", "");
        put(host, "/run/systemd/system/x", "");
        put(host, "/run/user/1000/systemd/private", "");
        put(host, "/run/user/1000/bus", "");

        host->config.root_id_base = BASE;
        host->doctor = (struct doctor){
                .config = &host->config,
                .trial = {.failed = SR_HOST_ALL_DONE, .landlock = 2},
                .runner = (struct sr_runner *)(uintptr_t)host, // only ever compared with NULL
                .host = {.memory = "watchdog", .cpu = "none", .pids = "watchdog"},
        };
        *state = host;
        return 0;
}

static inline void forget(struct host *host)
{
        doctor_facts_clear(&host->doctor.facts);
        doctor_finding_clear(&host->finding);
        host->finding = (struct doctor_finding){0};
}

static inline int teardown(void **state)
{
        struct host *host = *state;
        _cleanup_free_ char *command = sr_asprintf("rm -rf '%s'", host->root);

        forget(host);
        assert_int_equal(system(command), 0);
        free(host->root);
        free(host);
        return 0;
}

static inline const struct doctor_facts *look(struct host *host)
{
        forget(host);
        doctor_facts_read(host->root, BASE, &host->doctor.facts);
        // However these tests were built, and wherever these files lie.
        host->doctor.facts.sd_bus = true;
        host->doctor.facts.mappers_nosuid = false;
        host->doctor.facts.programs = sr_strdup("/{usr/bin/sandbox-runner}");
        return &host->doctor.facts;
}

// Looks at the host, checks, and expects a state, words in what was found and words in the first way to mend
// it (NULL: there is none).
static inline void expect(struct host *host, void (*check)(const struct doctor *d, struct doctor_finding *f),
                          enum doctor_state state, const char *found, const char *fix)
{
        look(host);
        check(&host->doctor, &host->finding);
        if (host->finding.state != state || strstr(host->finding.found, found) == NULL)
                fail_msg("found \"%s\" (state %d), not \"%s\" (state %d)", host->finding.found,
                         host->finding.state, found, state);
        if (fix == NULL)
                assert_null(host->finding.fix);
        else if (host->finding.fix == NULL || strstr(host->finding.fix, fix) == NULL)
                fail_msg("the way to mend it is \"%s\", not \"%s\"", host->finding.fix, fix);
}

static inline void break_trial(struct host *host, enum sr_host_step step, int error)
{
        host->doctor.trial.failed = step;
        host->doctor.trial.error = error;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
