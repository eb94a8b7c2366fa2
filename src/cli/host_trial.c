#include "cli/host_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

// In the children: a step that fails is told through the pipe, and the child ends.
__attribute__((noreturn)) static void fail(int fd, enum sr_host_step step)
{
        struct sr_host_trial trial = {.failed = step, .error = errno};

        (void)!write(fd, &trial, sizeof(trial));
        _exit(1);
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

        // Absent before Linux 3.19.
        // The map files belong to root while a process is not dumpable, as ours is.
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        if (write_file("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
                return -1;
        snprintf(line, sizeof(line), "0 %u 1", (unsigned)uid);
        if (write_file("/proc/self/uid_map", line) < 0)
                return -1;
        snprintf(line, sizeof(line), "0 %u 1", (unsigned)gid);
        return write_file("/proc/self/gid_map", line);
}

static void mount_proc(int fd)
{
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                fail(fd, SR_HOST_MOUNT);
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                fail(fd, SR_HOST_PROC);
        _exit(0);
}

static void try_all(int fd)
{
        uid_t uid = geteuid();
        gid_t gid = getegid();

        if (unshare(CLONE_NEWUSER) < 0)
                fail(fd, SR_HOST_USER_NAMESPACE);
        if (map_self(uid, gid) < 0)
                fail(fd, SR_HOST_ID_MAP);
        if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                    CLONE_NEWCGROUP) < 0)
                fail(fd, SR_HOST_NAMESPACES);

        // A new pid namespace begins with the next child.
        pid_t child = fork();

        if (child < 0)
                fail(fd, SR_HOST_FORK);
        if (child == 0)
                mount_proc(fd);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
                ;
        _exit(0);
}

void sr_host_try_namespaces(struct sr_host_trial *ret)
{
        int pipes[2];
        struct sr_host_trial told;
        ssize_t n;

        *ret = (struct sr_host_trial){.failed = SR_HOST_FORK};
        if (pipe2(pipes, O_CLOEXEC) < 0) {
                ret->error = errno;
                return;
        }

        pid_t child = fork();

        if (child == 0) {
                sr_fd_close(pipes[0]);
                try_all(pipes[1]);
        }
        ret->error = child < 0 ? errno : 0;
        sr_fd_close(pipes[1]);
        if (child > 0) {
                do
                        n = read(pipes[0], &told, sizeof(told));
                while (n < 0 && errno == EINTR);
                *ret = n == (ssize_t)sizeof(told) ? told : (struct sr_host_trial){.failed = SR_HOST_ALL_DONE};
                while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        sr_fd_close(pipes[0]);
}
