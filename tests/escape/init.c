// Pid 1 and the parent: their memory, files and descriptors.
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "escape.h"

#define HIDDEN ERRORS(EACCES, EPERM, ENOENT, EROFS)

// Cannot be opened, or is covered by something empty.
static void expect_hidden(struct trial *trial, const char *path)
{
        char text[256];
        long n = read_text(path, text, sizeof(text));

        if (n == 0)
                decide(trial, HELD, "empty");
        else
                expect(trial, path, n, HIDDEN);
}

static void expect_closed(struct trial *trial, const char *path, int flags)
{
        int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);

        expect(trial, path, fd, HIDDEN);
        close(fd);
}

static void memory_read(struct trial *trial)
{
        expect_closed(trial, "/proc/1/mem", O_RDONLY);
        expect_closed(trial, "/proc/1/task/1/mem", O_RDONLY);
}

static void memory_write(struct trial *trial)
{
        expect_closed(trial, "/proc/1/mem", O_RDWR);
        expect_closed(trial, "/proc/1/clear_refs", O_WRONLY);
}

static void environment(struct trial *trial)
{
        expect_hidden(trial, "/proc/1/environ");
        expect_hidden(trial, "/proc/1/task/1/environ");
}

static void links(struct trial *trial)
{
        static const char *const paths[] = {"/proc/1/exe", "/proc/1/cwd", "/proc/1/root", "/proc/1/fd/0",
                                            "/proc/1/fd/3"};
        char target[64];

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                expect(trial, paths[i], readlink(paths[i], target, sizeof(target)), HIDDEN);
        expect_closed(trial, "/proc/1/exe", O_RDONLY);
}

static void root(struct trial *trial)
{
        static const char *const paths[] = {"/proc/1/root", "/proc/1/root/etc/shadow", "/proc/1/root/..",
                                            "/proc/1/cwd",  "/proc/1/cwd/../..",       "/proc/1/task/1/root"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                expect_closed(trial, paths[i], O_RDONLY);
}

// The numbers may be listed where pid 1 has the user's own id; what they stand for may not be had.
static void descriptors(struct trial *trial)
{
        static const char *const paths[] = {"/proc/1/fd", "/proc/1/map_files"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                DIR *directory = opendir(paths[i]);
                const struct dirent *entry;

                if (directory == NULL)
                        expect(trial, paths[i], -1, HIDDEN);
                while (directory != NULL && (entry = readdir(directory)) != NULL) {
                        char path[300], target[64];

                        if (*entry->d_name == '.')
                                continue;
                        snprintf(path, sizeof(path), "%s/%s", paths[i], entry->d_name);
                        expect(trial, path, readlink(path, target, sizeof(target)), HIDDEN);
                        expect_closed(trial, path, O_RDONLY);
                }
                if (directory != NULL)
                        closedir(directory);
        }
}

static void maps(struct trial *trial)
{
        static const char *const paths[] = {"/proc/1/maps",  "/proc/1/smaps",      "/proc/1/auxv",
                                            "/proc/1/stack", "/proc/1/syscall",    "/proc/1/pagemap",
                                            "/proc/1/io",    "/proc/1/personality"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                expect_hidden(trial, paths[i]);
}

static void settings(struct trial *trial)
{
        static const char *const paths[] = {
                "/proc/1/oom_score_adj", "/proc/1/comm",
                "/proc/1/attr/current",  "/proc/1/timerslack_ns",
                "/proc/1/setgroups",     "/proc/1/uid_map",
                "/proc/1/autogroup",     "/proc/1/coredump_filter",
                "/proc/1/sched",         "/proc/1/task/1/comm",
        };

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                expect_closed(trial, paths[i], O_WRONLY);
}

static void attach(struct trial *trial, long pid)
{
        long result = ptrace(PTRACE_SEIZE, pid, NULL, NULL);

        if (result == 0)
                ptrace(PTRACE_DETACH, pid, NULL, NULL);
        expect(trial, "seize", result, ERRORS(EPERM));
        result = ptrace(PTRACE_ATTACH, pid, NULL, NULL);
        if (result == 0)
                ptrace(PTRACE_DETACH, pid, NULL, NULL);
        expect(trial, "attach", result, ERRORS(EPERM));
}

static void ptrace_init(struct trial *trial)
{
        attach(trial, 1);
}

static void ptrace_parent(struct trial *trial)
{
        attach(trial, getppid());
}

static int trace_me(void *unused)
{
        (void)unused;
        return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : errno;
}

// A tracer can rewrite a system call after a filter of the tracee has seen it on old kernels.
static void ptrace_own_child(struct trial *trial)
{
        errno = in_child(trace_me, NULL);
        expect(trial, NULL, errno == 0 ? 0 : -1, ERRORS(EPERM));
}

static void vm_read(struct trial *trial)
{
        char byte;
        struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)0x400000, 1};

        expect(trial, NULL, process_vm_readv(1, &here, 1, &there, 1, 0), ERRORS(EPERM));
}

static void vm_write(struct trial *trial)
{
        char byte = 0;
        struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)8, 1};

        expect(trial, NULL, process_vm_writev(1, &here, 1, &there, 1, 0), ERRORS(EPERM));
}

static void take_descriptor(struct trial *trial)
{
        int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);

        expect(trial, NULL, syscall(SYS_pidfd_getfd, pidfd, 0, 0), ERRORS(EPERM));
        close(pidfd);
}

static void advise(struct trial *trial)
{
        int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
        struct iovec there = {(void *)(uintptr_t)0x400000, 4096};

        expect(trial, "process_madvise", syscall(SYS_process_madvise, pidfd, &there, 1ul, 20, 0),
               ERRORS(EPERM));
        expect(trial, "process_mrelease", syscall(448, pidfd, 0), ERRORS(EPERM));
        close(pidfd);
}

static void compare(struct trial *trial)
{
        expect(trial, NULL, syscall(SYS_kcmp, 1, getpid(), 0, 0ul, 0ul), ERRORS(EPERM));
}

static const struct attempt attempts[] = {
        {"init-memory-read", ALONE, "open /proc/1/mem for reading", memory_read, NULL},
        {"init-memory-write", ALONE, "open /proc/1/mem for writing", memory_write, NULL},
        {"init-environment", ALONE, "read /proc/1/environ", environment, NULL},
        {"init-links", ALONE, "read where exe, cwd, root and fd of pid 1 lead", links, NULL},
        {"init-root", ALONE, "go through /proc/1/root and cwd", root, NULL},
        {"init-descriptors", ALONE, "reach the descriptors of pid 1", descriptors, NULL},
        {"init-maps", ALONE, "read the memory layout of pid 1", maps, NULL},
        {"init-settings", ALONE, "write the settings of pid 1", settings, NULL},
        {"ptrace-init", ALONE, "ptrace pid 1", ptrace_init, NULL},
        {"ptrace-parent", ALONE, "ptrace the parent", ptrace_parent, NULL},
        {"ptrace-own-child", ALONE, "be traced by the parent", ptrace_own_child, NULL},
        {"vm-read-init", ALONE, "process_vm_readv from pid 1", vm_read, NULL},
        {"vm-write-init", ALONE, "process_vm_writev into pid 1", vm_write, NULL},
        {"pidfd-getfd-init", ALONE, "take a descriptor of pid 1", take_descriptor, NULL},
        {"madvise-init", ALONE, "process_madvise, process_mrelease on pid 1", advise, NULL},
        {"kcmp-init", ALONE, "compare kernel objects with pid 1", compare, NULL},
};
SUBJECT(init_subject, "pid 1", attempts);
