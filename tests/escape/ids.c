// Becoming somebody else, or winning a privilege back.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "escape.h"

// An id that is not mapped is EINVAL, one that is mapped but not ours EPERM; both leave us who we are.
#define STAYS ERRORS(EPERM, EINVAL)

// The raw calls: the C library's look for threads.
static void set_user(struct trial *trial)
{
        expect(trial, "setuid", syscall(SYS_setuid, 0), STAYS);
        expect(trial, "setreuid", syscall(SYS_setreuid, 0, 0), STAYS);
        expect(trial, "setresuid", syscall(SYS_setresuid, 0, 0, 0), STAYS);
        expect(trial, "another user", syscall(SYS_setresuid, 65534, 65534, 65534), STAYS);
}

static void set_group(struct trial *trial)
{
        expect(trial, "setgid", syscall(SYS_setgid, 0), STAYS);
        expect(trial, "setregid", syscall(SYS_setregid, 0, 0), STAYS);
        expect(trial, "setresgid", syscall(SYS_setresgid, 0, 0, 0), STAYS);
}

static void set_groups(struct trial *trial)
{
        gid_t groups[] = {0};

        expect(trial, NULL, syscall(SYS_setgroups, 1, groups), STAYS);
        expect(trial, "none", syscall(SYS_setgroups, 0, NULL), STAYS);
}

static void set_file_system_user(struct trial *trial)
{
        long before = syscall(SYS_setfsuid, -1);

        syscall(SYS_setfsuid, 0);
        long after = syscall(SYS_setfsuid, -1);
        // 0 before as well is an engine that runs programs as root.
        if (after == before && after != 0)
                decide(trial, HELD, "unchanged");
        else
                decide(trial, OPEN, "file system user %ld", after);
}

static void is_not_root(struct trial *trial)
{
        if (getuid() != 0 && geteuid() != 0 && getgid() != 0 && getegid() != 0)
                decide(trial, HELD, "an ordinary user");
        else
                decide(trial, OPEN, "uid %u, gid %u", (unsigned)geteuid(), (unsigned)getegid());
}

static void regain_capabilities(struct trial *trial)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};

        expect(trial, NULL, syscall(SYS_capset, &header, data), ERRORS(EPERM));
        expect(trial, "ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0),
               ERRORS(EPERM));
}

static void has_capabilities(struct trial *trial)
{
        static const char *const names[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
        char status[4096];

        if (read_text("/proc/self/status", status, sizeof(status)) < 0) {
                decide(trial, UNDECIDED, "/proc/self/status cannot be read");
                return;
        }
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
                const char *at = strstr(status, names[i]);

                if (at == NULL || strtoull(at + 7, NULL, 16) != 0)
                        decide(trial, OPEN, "%.24s", at != NULL ? at : names[i]);
        }
        decide(trial, HELD, "none");
}

static void secure_bits(struct trial *trial)
{
        expect(trial, NULL, prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS | SECBIT_NOROOT, 0, 0, 0),
               ERRORS(EPERM));
}

static void new_privileges(struct trial *trial)
{
        expect(trial, NULL, prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), ERRORS(EINVAL));
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
                decide(trial, OPEN, "new privileges are possible");
}

static void loosen_filter(struct trial *trial)
{
        struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {.len = 1, .filter = allow};

        if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2) {
                decide(trial, OPEN, "there is no filter");
                return;
        }
        expect(trial, "taking it off", prctl(PR_SET_SECCOMP, SECCOMP_MODE_DISABLED, 0, 0, 0), ERRORS(EINVAL));
        // A program may add a filter; the strictest answer counts.
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
        expect(trial, "after a filter that allows all", syscall(SYS_unshare, CLONE_NEWUSER), ERRORS(EPERM));
}

static void memory_map(struct trial *trial)
{
        expect(trial, "start_brk", prctl(PR_SET_MM, PR_SET_MM_START_BRK, sbrk(0), 0, 0), WALL);
        expect(trial, "exe_file", prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, 0, 0, 0), WALL);
}

// 2 is for the kernel to set: core dumps that root alone may read.
static void dumpable(struct trial *trial)
{
        expect(trial, NULL, prctl(PR_SET_DUMPABLE, 2, 0, 0, 0), ERRORS(EINVAL, EPERM));
}

// What a child's exec of path makes of its effective ids. A program that has ended still shows them, until
// it is waited for.
static bool exec_gains(const char *path)
{
        char *const arguments[] = {(char *)(uintptr_t)path, (char *)(uintptr_t) "--version", NULL};
        char file[64], status[4096];
        siginfo_t info;
        unsigned real, effective, uid = 0, gid = 0;
        pid_t pid = fork();

        if (pid == 0) {
                int null = open("/dev/null", O_RDWR);

                dup2(null, 0);
                dup2(null, 1);
                dup2(null, 2);
                execv(path, arguments);
                _exit(127);
        }
        for (unsigned i = 0; i < 50; i++) {
                info.si_pid = 0;
                if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == pid)
                        break;
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
        snprintf(file, sizeof(file), "/proc/%d/status", (int)pid);
        bool known = read_text(file, status, sizeof(status)) > 0;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        const char *uids = strstr(status, "\nUid:"), *gids = strstr(status, "\nGid:");
        if (!known || uids == NULL || gids == NULL)
                return false;
        if (sscanf(uids, "\nUid: %u %u", &real, &effective) == 2)
                uid = effective;
        if (sscanf(gids, "\nGid: %u %u", &real, &effective) == 2)
                gid = effective;
        return uid != geteuid() || gid != getegid();
}

static void set_id_of_image(struct trial *trial)
{
        static const char *const directories[] = {"/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"};
        unsigned found = 0;

        for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++) {
                DIR *directory = opendir(directories[i]);
                const struct dirent *entry;

                while (directory != NULL && found < 8 && (entry = readdir(directory)) != NULL) {
                        char path[512];
                        struct stat info;

                        snprintf(path, sizeof(path), "%s/%s", directories[i], entry->d_name);
                        if (lstat(path, &info) < 0 || !S_ISREG(info.st_mode) || (info.st_mode & 06000) == 0)
                                continue;
                        found++;
                        if (exec_gains(path))
                                decide(trial, OPEN, "%s gives an id", path);
                }
                if (directory != NULL)
                        closedir(directory);
        }
        decide(trial, HELD, found > 0 ? "no privilege" : "none there");
}

// A file can only be given to whoever is mapped, so its bits are tried for what the mounts say of them.
static void set_id_of_own(struct trial *trial)
{
        static const char *const places[] = {"/", "/tmp", "/scratch", "/dev/shm"};
        struct statvfs info;

        for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
                if (statvfs(places[i], &info) == 0 && (info.f_flag & ST_NOSUID) == 0)
                        decide(trial, OPEN, "%s heeds set-id bits", places[i]);
        if (copy_self("/scratch/set-id") == 0) {
                if (chown("/scratch/set-id", 0, 0) == 0 && getuid() != 0)
                        decide(trial, OPEN, "a file was given to root");
                if (chmod("/scratch/set-id", 06755) == 0 && exec_gains("/scratch/set-id"))
                        decide(trial, OPEN, "its own copy gives an id");
        }
        decide(trial, HELD, "no privilege");
}

static void file_capabilities(struct trial *trial)
{
        static const uint32_t value[] = {0x02000001, ~0u, 0, ~0u, 0};

        close(open("/scratch/capable", O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
        expect(trial, NULL,
               syscall(SYS_setxattr, "/scratch/capable", "security.capability", value, sizeof(value), 0),
               ERRORS(EPERM, ENOTSUP));
}

static void login_id(struct trial *trial)
{
        int fd = open("/proc/self/loginuid", O_WRONLY | O_CLOEXEC);

        expect(trial, NULL, fd < 0 ? -1 : write(fd, "0", 1), ERRORS(EPERM, EACCES, ENOENT, EROFS, EINVAL));
        close(fd);
}

static const struct attempt attempts[] = {
        {"root-user", ALONE, "be root to begin with", is_not_root, NULL},
        {"setuid-root", ALONE, "become root, or another user", set_user, NULL},
        {"setgid-root", ALONE, "become group 0", set_group, NULL},
        {"setgroups", ALONE, "join or leave groups", set_groups, NULL},
        {"setfsuid-root", ALONE, "act on files as root", set_file_system_user, NULL},
        {"capabilities", ALONE, "hold a capability", has_capabilities, NULL},
        {"capset", ALONE, "raise capabilities", regain_capabilities, NULL},
        {"securebits", ALONE, "change how ids and capabilities go together", secure_bits, NULL},
        {"no-new-privileges", ALONE, "take no_new_privs back", new_privileges, NULL},
        {"filter-loosen", ALONE, "take the filter off, or overrule it", loosen_filter, NULL},
        {"prctl-set-mm", ALONE, "move its own memory map, name another executable", memory_map, NULL},
        {"prctl-dumpable", ALONE, "dump core as root would", dumpable, NULL},
        {"set-id-image", ALONE, "run set-id programs of the image", set_id_of_image, NULL},
        {"set-id-own", ALONE, "run a set-id copy of itself", set_id_of_own, NULL},
        {"file-capabilities", ALONE, "give a file capabilities", file_capabilities, NULL},
        {"login-id", ALONE, "change its login id", login_id, NULL},
};
SUBJECT(ids_subject, "ids and privileges", attempts);
