#include "cli/host_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "sys/syscalls.h"

static const struct {
        enum doctor_namespace kind;
        int flag;
} namespaces[] = {
        {DOCTOR_NS_MOUNT, CLONE_NEWNS}, {DOCTOR_NS_PID, CLONE_NEWPID}, {DOCTOR_NS_NET, CLONE_NEWNET},
        {DOCTOR_NS_IPC, CLONE_NEWIPC},  {DOCTOR_NS_UTS, CLONE_NEWUTS}, {DOCTOR_NS_CGROUP, CLONE_NEWCGROUP},
};

// What the children tell, one after the other: the step that failed, or that none did.
struct report {
        enum sr_host_step failed;
        int error;
        enum doctor_namespace refused;
        char label[sizeof(((struct sr_host_trial *)NULL)->label)];
};

// In the children: a step that fails is told through the pipe, and the child ends.
__attribute__((noreturn)) static void finish(int fd, struct report *report, enum sr_host_step step)
{
        report->error = step == SR_HOST_ALL_DONE ? 0 : errno;
        report->failed = step;
        (void)!write(fd, report, sizeof(*report));
        _exit(0);
}

static int write_file(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        size_t length = strlen(text);

        if (fd < 0)
                return -1;

        ssize_t n = write(fd, text, length);

        sr_fd_close(fd);
        return n == (ssize_t)length ? 0 : -1;
}

// Our own id alone, as an ordinary user may map it (user_namespaces(7)).
static int map_self(uid_t uid, gid_t gid)
{
        char line[64];

        // The map files belong to root while a process is not dumpable, as ours is.
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        // Absent before Linux 3.19.
        if (write_file("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
                return -1;
        snprintf(line, sizeof(line), "0 %u 1", (unsigned)uid);
        if (write_file("/proc/self/uid_map", line) < 0)
                return -1;
        snprintf(line, sizeof(line), "0 %u 1", (unsigned)gid);
        return write_file("/proc/self/gid_map", line);
}

// The label that AppArmor gave this process, without its mode.
static void read_label(struct report *report)
{
        int fd = open("/proc/self/attr/apparmor/current", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, report->label, sizeof(report->label) - 1) : -1;

        sr_fd_close(fd);
        report->label[n > 0 ? n : 0] = '\0';
        report->label[strcspn(report->label, " \n")] = '\0';
}

// All at once, as a sandbox does it; where that fails, one by one to learn which.
static int make_namespaces(struct report *report)
{
        int all = 0;

        for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++)
                all |= namespaces[i].flag;
        if (unshare(all) == 0)
                return 0;

        int error = errno;

        for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++)
                if (unshare(namespaces[i].flag) < 0) {
                        report->refused = namespaces[i].kind;
                        return -1;
                }
        errno = error;
        return -1;
}

__attribute__((noreturn)) static void mount_proc(int fd, struct report *report)
{
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                finish(fd, report, SR_HOST_MOUNT);
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                finish(fd, report, SR_HOST_PROC);
        finish(fd, report, SR_HOST_ALL_DONE);
}

__attribute__((noreturn)) static void try_namespaces(int fd)
{
        uid_t uid = geteuid();
        gid_t gid = getegid();
        struct report report = {.failed = SR_HOST_FORK};

        if (unshare(CLONE_NEWUSER) < 0)
                finish(fd, &report, SR_HOST_USER_NAMESPACE);
        read_label(&report);
        if (map_self(uid, gid) < 0)
                finish(fd, &report, SR_HOST_ID_MAP);
        if (make_namespaces(&report) < 0)
                finish(fd, &report, SR_HOST_NAMESPACES);

        // A new pid namespace begins with the next child.
        pid_t child = fork();

        if (child < 0)
                finish(fd, &report, SR_HOST_FORK);
        if (child == 0)
                mount_proc(fd, &report);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
                ;
        _exit(0);
}

static void run_namespaces(struct sr_host_trial *trial)
{
        int pipes[2];
        struct report report = {.failed = SR_HOST_FORK, .error = ECHILD};
        ssize_t n;

        if (pipe2(pipes, O_CLOEXEC) < 0) {
                trial->failed = SR_HOST_FORK;
                trial->error = errno;
                return;
        }

        pid_t child = fork();

        if (child == 0) {
                sr_fd_close(pipes[0]);
                try_namespaces(pipes[1]);
        }
        if (child < 0)
                report.error = errno;
        sr_fd_close(pipes[1]);
        if (child > 0) {
                struct report told;

                do
                        n = read(pipes[0], &told, sizeof(told));
                while (n < 0 && errno == EINTR);
                if (n == (ssize_t)sizeof(told))
                        report = told;
                int status = 0;

                while (waitpid(child, &status, 0) < 0 && errno == EINTR)
                        ;
                // A filter may kill instead of refusing; the first call it could mind is unshare.
                if (n == 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) {
                        report.failed = SR_HOST_USER_NAMESPACE;
                        report.error = EPERM;
                }
        }
        sr_fd_close(pipes[0]);
        trial->failed = report.failed;
        trial->error = report.error;
        trial->refused = report.refused;
        memcpy(trial->label, report.label, sizeof(trial->label));
}

// Each is made with arguments that cannot succeed, so that the error tells an absent call from a present one.
static int try_open_tree(void)
{
        return sr_sys_open_tree(-1, "", ~0u);
}

static int try_move_mount(void)
{
        return sr_sys_move_mount(-1, "", -1, "", ~0u);
}

static int try_clone3(void)
{
        return (int)syscall(SYS_clone3, NULL, 0);
}

static int try_pidfd_open(void)
{
        return sr_sys_pidfd_open(-1);
}

static int try_openat2(void)
{
        return (int)syscall(SYS_openat2, -1, "", NULL, 0);
}

static int try_close_range(void)
{
        return sr_sys_close_range(2, 1, 0);
}

static int try_mount_setattr(void)
{
        return (int)syscall(SYS_mount_setattr, -1, "", ~0u, NULL, 0);
}

static const struct {
        const char *name;
        unsigned since; // minor version of Linux 5
        int (*try)(void);
        bool asks_first; // looks at privileges before arguments, so EPERM says nothing
} calls[SR_HOST_CALL_COUNT] = {
        [SR_HOST_OPEN_TREE] = {"open_tree", 2, try_open_tree, false},
        [SR_HOST_MOVE_MOUNT] = {"move_mount", 2, try_move_mount, true},
        [SR_HOST_CLONE3] = {"clone3", 3, try_clone3, false},
        [SR_HOST_PIDFD_OPEN] = {"pidfd_open", 3, try_pidfd_open, false},
        [SR_HOST_OPENAT2] = {"openat2", 6, try_openat2, false},
        [SR_HOST_CLOSE_RANGE] = {"close_range", 9, try_close_range, false},
        [SR_HOST_MOUNT_SETATTR] = {"mount_setattr", 12, try_mount_setattr, false},
};

const char *sr_host_call_name(enum sr_host_call call)
{
        return calls[call].name;
}

unsigned sr_host_call_since(enum sr_host_call call)
{
        return calls[call].since;
}

void sr_host_try(struct sr_host_trial *ret)
{
        *ret = (struct sr_host_trial){0};
        run_namespaces(ret);
        for (size_t i = 0; i < SR_HOST_CALL_COUNT; i++)
                // A call that a filter of somebody else's forbids answers EPERM.
                if (calls[i].try() < 0 && (errno == ENOSYS || (errno == EPERM && !calls[i].asks_first)))
                        ret->calls[i] = errno;
        // A bad address is EFAULT where filters are supported and EINVAL where not (seccomp(2), NOTES).
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0 && errno != EFAULT)
                ret->seccomp = errno;

        long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

        ret->landlock = version > 0 ? version : 0;
}
