// The checks of `doctor` that are about the kernel and what it lets this user do.

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "cli/doctor.h"
#include "sys/id_map.h"
#include "sys/syscalls.h"

// What is read under /proc and /sys is short.
#define SETTING_LIMIT 65536
// What sandboxes started by root use, from sandbox.root_id_base on.
#define ROOT_IDS 65536u

// A setting as text without the line end; NULL when the kernel has no such file.
static char *read_setting(const char *path)
{
        _cleanup_buf_ struct sr_buf text = {0};

        if (sr_fd_read_file(AT_FDCWD, path, SETTING_LIMIT, &text) < 0 || text.data == NULL)
                return NULL;
        text.data[strcspn(text.data, "\n")] = '\0';
        return sr_strdup(text.data);
}

static bool setting_is(const char *path, const char *value)
{
        _cleanup_free_ char *text = read_setting(path);

        return text != NULL && strcmp(text, value) == 0;
}

void doctor_check_kernel(const struct doctor *d, struct doctor_finding *f)
{
        struct utsname name;
        unsigned major = 0, minor = 0;

        (void)d;
        uname(&name);
        // mount_setattr(2), the newest call that a sandbox cannot be made without, came with 5.12.
        if (sscanf(name.release, "%u.%u", &major, &minor) == 2 && (major < 5 || (major == 5 && minor < 12))) {
                doctor_found(f, DOCTOR_MISSING, "%s %s is older than 5.12, the oldest that sandboxes work on",
                             name.sysname, name.release);
                doctor_advise(f, "start a newer kernel");
                return;
        }
        doctor_found(f, DOCTOR_OK, "%s %s, %s", name.sysname, name.release, name.machine);
}

// The switches by which a host forbids user namespaces, most specific first.
static const struct {
        const char *path, *value, *detail, *advice;
} userns_switches[] = {
        {"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0",
         "as root: sysctl -w kernel.unprivileged_userns_clone=1 (and the same line in /etc/sysctl.d to keep "
         "it)"},
        {"/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0",
         "as root: sysctl -w user.max_user_namespaces=15000 (and the same line in /etc/sysctl.d to keep it)"},
        {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
         "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
         "give sandbox-runner-spawner an AppArmor profile with `userns,`, or as root: "
         "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
};

// Says which switch, if any, is behind a failed step.
static void blame_switch(struct doctor_finding *f, const char *what, int errnum)
{
        for (size_t i = 0; i < sizeof(userns_switches) / sizeof(userns_switches[0]); i++)
                if (setting_is(userns_switches[i].path, userns_switches[i].value)) {
                        doctor_found(f, DOCTOR_MISSING, "%s: %s: %s", what, strerror(errnum),
                                     userns_switches[i].detail);
                        doctor_advise(f, "%s", userns_switches[i].advice);
                        return;
                }
        doctor_found(f, DOCTOR_MISSING, "%s: %s", what, strerror(errnum));
        doctor_advise(
                f, errnum == ENOSPC
                           ? "a limit of namespaces is reached: as root raise those in /proc/sys/user"
                           : "a container or a security module forbids it here; allow it there (for docker: "
                             "--security-opt seccomp=unconfined --security-opt apparmor=unconfined)");
}

void doctor_check_user_namespaces(const struct doctor *d, struct doctor_finding *f)
{
        switch (d->trial.failed) {
        case SR_HOST_FORK:
                doctor_found(f, DOCTOR_MISSING, "no process could be started to try: %s",
                             strerror(d->trial.error));
                doctor_advise(f, "raise the limit of processes of this user (ulimit -u)");
                break;
        case SR_HOST_USER_NAMESPACE:
                blame_switch(f, "cannot be made", d->trial.error);
                break;
        case SR_HOST_ID_MAP:
                blame_switch(f, "can be made, but no id can be mapped in them", d->trial.error);
                break;
        default:
                doctor_found(f, DOCTOR_OK, "can be made, with an id mapped");
        }
}

// A step that comes after one that failed was not tried.
static bool not_tried(const struct doctor *d, enum sr_host_step step, struct doctor_finding *f)
{
        if (d->trial.failed >= step)
                return false;
        doctor_found(f, DOCTOR_MISSING, "not tried, because an earlier step failed");
        return true;
}

void doctor_check_namespaces(const struct doctor *d, struct doctor_finding *f)
{
        if (not_tried(d, SR_HOST_NAMESPACES, f))
                return;
        if (d->trial.failed == SR_HOST_NAMESPACES)
                blame_switch(f, "mount, pid, network, ipc, uts and cgroup namespaces cannot be made",
                             d->trial.error);
        else if (d->trial.failed == SR_HOST_MOUNT)
                blame_switch(f, "can be made, but nothing can be mounted in them", d->trial.error);
        else
                doctor_found(f, DOCTOR_OK, "mount, pid, network, ipc, uts and cgroup namespaces can be made");
}

void doctor_check_proc(const struct doctor *d, struct doctor_finding *f)
{
        if (not_tried(d, SR_HOST_PROC, f))
                return;
        if (d->trial.failed == SR_HOST_PROC) {
                doctor_found(
                        f, DOCTOR_MISSING,
                        "a fresh /proc cannot be mounted: %s: parts of this host's own /proc are covered, as "
                        "containers do it",
                        strerror(d->trial.error));
                doctor_advise(f, "let the container have an uncovered /proc (for docker: --security-opt "
                                 "systempaths=unconfined; for kubernetes: procMount: Unmasked)");
                return;
        }
        doctor_found(f, DOCTOR_OK, "a fresh /proc can be mounted");
}

void doctor_check_seccomp(const struct doctor *d, struct doctor_finding *f)
{
        (void)d;
        // A bad address is EFAULT where filters are supported and EINVAL where not (seccomp(2), NOTES).
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0 && errno == EFAULT) {
                doctor_found(f, DOCTOR_OK, "filters can be installed");
                return;
        }
        doctor_found(f, DOCTOR_MISSING, "the kernel cannot filter system calls: %s", strerror(errno));
        doctor_advise(f, "start a kernel with CONFIG_SECCOMP_FILTER");
}

// Each is made with arguments that cannot succeed, so that the error tells an absent call from a present one.
static int try_clone3(void)
{
        return (int)syscall(SYS_clone3, NULL, 0);
}

static int try_openat2(void)
{
        return (int)syscall(SYS_openat2, -1, "", NULL, 0);
}

static int try_open_tree(void)
{
        return sr_sys_open_tree(-1, "", ~0u);
}

static int try_move_mount(void)
{
        return sr_sys_move_mount(-1, "", -1, "", ~0u);
}

static int try_mount_setattr(void)
{
        return (int)syscall(SYS_mount_setattr, -1, "", ~0u, NULL, 0);
}

static int try_close_range(void)
{
        return sr_sys_close_range(2, 1, 0);
}

static int try_pidfd_open(void)
{
        return sr_sys_pidfd_open(-1);
}

static const struct {
        const char *name;
        const char *since;
        int (*try)(void);
        bool asks_first; // looks at privileges before arguments, so EPERM says nothing
} system_calls[] = {
        {"open_tree", "5.2", try_open_tree, false},
        {"move_mount", "5.2", try_move_mount, true},
        {"clone3", "5.3", try_clone3, false},
        {"pidfd_open", "5.3", try_pidfd_open, false},
        {"openat2", "5.6", try_openat2, false},
        {"close_range", "5.9", try_close_range, false},
        {"mount_setattr", "5.12", try_mount_setattr, false},
};

void doctor_check_system_calls(const struct doctor *d, struct doctor_finding *f)
{
        _cleanup_buf_ struct sr_buf there = {0}, absent = {0};

        (void)d;
        for (size_t i = 0; i < sizeof(system_calls) / sizeof(system_calls[0]); i++) {
                // A call that a filter of somebody else's forbids answers EPERM.
                bool lacking = system_calls[i].try() < 0 &&
                               (errno == ENOSYS || (errno == EPERM && !system_calls[i].asks_first));
                struct sr_buf *list = lacking ? &absent : &there;

                sr_buf_printf(list, "%s%s", list->len > 0 ? ", " : "", system_calls[i].name);
                if (lacking)
                        sr_buf_printf(list, " (%s)",
                                      errno == EPERM ? "forbidden here" : system_calls[i].since);
        }
        if (absent.len == 0) {
                doctor_found(f, DOCTOR_OK, "%s", there.data);
                return;
        }
        doctor_found(f, DOCTOR_MISSING, "not available: %s", absent.data);
        doctor_advise(
                f, "start a kernel from the version in brackets on, or let the container this is allow the "
                   "call");
}

void doctor_check_cgroups(const struct doctor *d, struct doctor_finding *f)
{
        struct statfs found;
        _cleanup_free_ char *controllers = NULL;
        const char *version = "none mounted";

        (void)d;
        if (statfs("/sys/fs/cgroup", &found) == 0) {
                if (found.f_type == CGROUP2_SUPER_MAGIC) {
                        version = "version 2";
                        controllers = read_setting("/sys/fs/cgroup/cgroup.controllers");
                } else if (access("/sys/fs/cgroup/memory", F_OK) == 0 ||
                           access("/sys/fs/cgroup/cpu", F_OK) == 0) {
                        version = "version 1";
                }
        }
        // Nothing to be done about it: no advice.
        doctor_found(
                f, DOCTOR_WARNING,
                "%s%s%s%s; this version does not use them, so memory and processor time of a run are not "
                "capped by the kernel",
                version, controllers != NULL ? " (" : "", controllers != NULL ? controllers : "",
                controllers != NULL ? ")" : "");
}

void doctor_check_landlock(const struct doctor *d, struct doctor_finding *f)
{
        long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

        (void)d;
        if (version > 0)
                doctor_found(f, DOCTOR_OK, "version %ld; not used by this version", version);
        else
                doctor_found(f, DOCTOR_OK, "not in this kernel; not used by this version");
}

static bool in_path(const char *program)
{
        _cleanup_free_ char *path = sr_asprintf("%s:/usr/bin", getenv("PATH") != NULL ? getenv("PATH") : "");
        char *rest = path, *directory;

        while ((directory = strsep(&rest, ":")) != NULL) {
                _cleanup_free_ char *candidate = sr_asprintf("%s/%s", directory, program);

                if (*directory != '\0' && access(candidate, X_OK) == 0)
                        return true;
        }
        return false;
}

// Whether the ids that sandboxes started by root use are there, as users and as groups.
static bool has_root_ids(uint32_t base)
{
        uint32_t outside;

        return sr_sys_id_map_find("/proc/self/uid_map", base, ROOT_IDS, &outside) == 0 &&
               sr_sys_id_map_find("/proc/self/gid_map", base, ROOT_IDS, &outside) == 0;
}

// Whether our root is an ordinary user outside this user namespace, as in a rootless container.
static bool root_is_ordinary_outside(void)
{
        uint32_t outside;

        return sr_sys_id_map_find("/proc/self/uid_map", 0, 1, &outside) == 0 && outside != 0;
}

void doctor_check_identity(const struct doctor *d, struct doctor_finding *f)
{
        if (geteuid() == 0) {
                uint32_t base = d->config->root_id_base;

                if (!has_root_ids(base) && root_is_ordinary_outside()) {
                        doctor_found(f, DOCTOR_WARNING,
                                     "started by the root of a container, who is an ordinary user outside: "
                                     "programs run "
                                     "with that one id, kept apart by namespaces and the system call filter");
                        return;
                }
                if (!has_root_ids(base)) {
                        doctor_found(f, DOCTOR_MISSING,
                                     "started by the root of a container that has no host ids %u to %u", base,
                                     base + ROOT_IDS - 1);
                        doctor_advise(
                                f,
                                "start it as an ordinary user, or set sandbox.root_id_base to the first of "
                                "65536 ids that nobody uses");
                        return;
                }
                doctor_found(f, DOCTOR_OK,
                             "started by root: programs run with host ids from %u on, which own nothing",
                             d->config->root_id_base);
                return;
        }
        doctor_found(
                f, DOCTOR_WARNING,
                "programs run with the host id of this user, kept apart by namespaces and the system call "
                "filter; subordinate ids (%s, newuidmap %s) are not used by this version",
                access("/etc/subuid", R_OK) == 0 ? "/etc/subuid is there" : "no /etc/subuid",
                in_path("newuidmap") ? "is there" : "is not installed");
}
