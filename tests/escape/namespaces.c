// New namespaces, and joining those of others.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escape.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static int unshare_flag(void *flag)
{
        return syscall(SYS_unshare, *(unsigned long *)flag) == 0 ? 0 : errno;
}

// In a child, so that a success does not change who makes the report.
static void try_unshare(struct trial *trial, unsigned long flag)
{
        int status = in_child(unshare_flag, &flag);

        errno = status;
        expect(trial, NULL, status == 0 ? 0 : -1, ERRORS(EPERM));
}

static void try_clone(struct trial *trial, unsigned long flag)
{
        long pid = syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0);

        if (pid == 0)
                _exit(0);
        if (expect(trial, NULL, pid, ERRORS(EPERM)) || pid < 0)
                return;
        waitpid((pid_t)pid, NULL, 0);
}

// The C library needs this answer to fall back to clone, whose flags a filter can read.
static void try_clone3(struct trial *trial, uint64_t flag)
{
        struct {
                uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
        } arguments = {.flags = flag, .exit_signal = SIGCHLD};
        long pid = syscall(SYS_clone3, &arguments, sizeof(arguments));

        if (pid == 0)
                _exit(0);
        if (expect(trial, NULL, pid, ERRORS(ENOSYS)) || pid < 0)
                return;
        waitpid((pid_t)pid, NULL, 0);
}

#define FLAG(function, call, flag)                                                                           \
        static void function(struct trial *trial)                                                            \
        {                                                                                                    \
                call(trial, flag);                                                                           \
        }
FLAG(unshare_user, try_unshare, CLONE_NEWUSER)
FLAG(unshare_mount, try_unshare, CLONE_NEWNS)
FLAG(unshare_pid, try_unshare, CLONE_NEWPID)
FLAG(unshare_net, try_unshare, CLONE_NEWNET)
FLAG(unshare_ipc, try_unshare, CLONE_NEWIPC)
FLAG(unshare_uts, try_unshare, CLONE_NEWUTS)
FLAG(unshare_cgroup, try_unshare, CLONE_NEWCGROUP)
FLAG(unshare_time, try_unshare, CLONE_NEWTIME)
FLAG(unshare_all, try_unshare, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET)
// The kernel reads 64 bits here, and a filter that compared 32 would still see these.
FLAG(unshare_high_bits, try_unshare, CLONE_NEWUSER | 1ul << 40)
FLAG(clone_user, try_clone, CLONE_NEWUSER)
FLAG(clone_mount, try_clone, CLONE_NEWNS)
FLAG(clone_pid, try_clone, CLONE_NEWPID)
FLAG(clone_net, try_clone, CLONE_NEWNET)
FLAG(clone_ipc, try_clone, CLONE_NEWIPC)
FLAG(clone_uts, try_clone, CLONE_NEWUTS)
FLAG(clone_cgroup, try_clone, CLONE_NEWCGROUP)
FLAG(clone_user_and_mount, try_clone, CLONE_NEWUSER | CLONE_NEWNS)
// The kernel drops the upper half of clone's flags; a filter must not be misled by it.
FLAG(clone_high_bits, try_clone, CLONE_NEWUSER | 1ul << 33)
FLAG(clone3_plain, try_clone3, 0)
FLAG(clone3_user, try_clone3, CLONE_NEWUSER)
FLAG(clone3_time, try_clone3, CLONE_NEWTIME)
FLAG(clone3_into_cgroup, try_clone3, 0x200000000ull)

static int exec_unshare(void *unused)
{
        int null = open("/dev/null", O_WRONLY);

        (void)unused;
        dup2(null, STDOUT_FILENO);
        execl("/proc/self/exe", "escape", "unshare-user", NULL);
        return UNDECIDED;
}

static void unshare_after_exec(struct trial *trial)
{
        int status = in_child(exec_unshare, NULL);

        if (status == HELD)
                decide(trial, HELD, "EPERM after exec as well");
        else
                decide(trial, status == OPEN ? OPEN : UNDECIDED, "after exec: %s",
                       status == OPEN ? "allowed" : "no answer");
}

static const char *const types[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};

static void setns_all(struct trial *trial, const char *process)
{
        for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
                char path[64];

                snprintf(path, sizeof(path), "/proc/%s/ns/%s", process, types[i]);
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                // What cannot be opened cannot be joined, but the call itself is tried all the same.
                if (fd < 0 && errno != EACCES && errno != EPERM && errno != ENOENT) {
                        expect(trial, path, -1, ERRORS(EACCES));
                        continue;
                }
                expect(trial, types[i], syscall(SYS_setns, fd, 0), ERRORS(EPERM));
                close(fd);
        }
}

static void setns_own(struct trial *trial)
{
        setns_all(trial, "self");
}

static void setns_init(struct trial *trial)
{
        setns_all(trial, "1");
}

static void setns_by_pidfd(struct trial *trial)
{
        int fd = (int)syscall(SYS_pidfd_open, 1, 0);

        expect(trial, NULL, syscall(SYS_setns, fd, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET), ERRORS(EPERM));
        close(fd);
}

static void namespaces_of_init(struct trial *trial)
{
        for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
                char path[64], target[64];

                snprintf(path, sizeof(path), "/proc/1/ns/%s", types[i]);
                expect(trial, types[i], readlink(path, target, sizeof(target)),
                       ERRORS(EACCES, EPERM, ENOENT));
        }
}

static void write_map(struct trial *trial)
{
        static const struct {
                const char *path, *text;
        } files[] = {{"/proc/self/uid_map", "0 0 1\n"},
                     {"/proc/self/gid_map", "0 0 1\n"},
                     {"/proc/self/setgroups", "allow"},
                     {"/proc/self/projid_map", "0 0 1\n"}};

        for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
                int fd = open(files[i].path, O_WRONLY | O_CLOEXEC);
                long n = fd < 0 ? -1 : write(fd, files[i].text, strlen(files[i].text));

                expect(trial, files[i].path, n, ERRORS(EPERM, EACCES, EROFS));
                close(fd);
        }
}

static const struct attempt attempts[] = {
        {"unshare-user", ALONE, "unshare a user namespace", unshare_user, NULL},
        {"unshare-mount", ALONE, "unshare a mount namespace", unshare_mount, NULL},
        {"unshare-pid", ALONE, "unshare a pid namespace", unshare_pid, NULL},
        {"unshare-net", ALONE, "unshare a network namespace", unshare_net, NULL},
        {"unshare-ipc", ALONE, "unshare an ipc namespace", unshare_ipc, NULL},
        {"unshare-uts", ALONE, "unshare a uts namespace", unshare_uts, NULL},
        {"unshare-cgroup", ALONE, "unshare a cgroup namespace", unshare_cgroup, NULL},
        {"unshare-time", ALONE, "unshare a time namespace", unshare_time, NULL},
        {"unshare-all", ALONE, "unshare a user namespace with three others", unshare_all, NULL},
        {"unshare-high-bits", ALONE, "unshare with a flag beyond 32 bits", unshare_high_bits, NULL},
        {"unshare-after-exec", ALONE, "unshare a user namespace in a program that was exec'd",
         unshare_after_exec, NULL},
        {"clone-user", ALONE, "clone into a user namespace", clone_user, NULL},
        {"clone-mount", ALONE, "clone into a mount namespace", clone_mount, NULL},
        {"clone-pid", ALONE, "clone into a pid namespace", clone_pid, NULL},
        {"clone-net", ALONE, "clone into a network namespace", clone_net, NULL},
        {"clone-ipc", ALONE, "clone into an ipc namespace", clone_ipc, NULL},
        {"clone-uts", ALONE, "clone into a uts namespace", clone_uts, NULL},
        {"clone-cgroup", ALONE, "clone into a cgroup namespace", clone_cgroup, NULL},
        {"clone-user-and-mount", ALONE, "clone into a user and a mount namespace at once",
         clone_user_and_mount, NULL},
        {"clone-high-bits", ALONE, "clone into a user namespace with a bit the kernel drops", clone_high_bits,
         NULL},
        {"clone3", ALONE, "clone3, whose flags no filter can read", clone3_plain, NULL},
        {"clone3-user", ALONE, "clone3 into a user namespace", clone3_user, NULL},
        {"clone3-time", ALONE, "clone3 into a time namespace", clone3_time, NULL},
        {"clone3-into-cgroup", ALONE, "clone3 into another control group", clone3_into_cgroup, NULL},
        {"setns-own", ALONE, "setns to the namespaces it is in", setns_own, NULL},
        {"setns-init", ALONE, "setns to those of pid 1", setns_init, NULL},
        {"setns-pidfd", ALONE, "setns by a pid descriptor of pid 1", setns_by_pidfd, NULL},
        {"init-namespaces", ALONE, "read which namespaces pid 1 is in", namespaces_of_init, NULL},
        {"user-map", ALONE, "write its own id maps", write_map, NULL},
};
SUBJECT(namespaces_subject, "namespaces", attempts);
