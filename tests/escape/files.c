// Out of the root directory: descriptors, working directories, links, handles; and our own helpers'
// surroundings.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escape.h"

static bool is_root(const char *path)
{
        struct stat root, found;

        return stat("/", &root) == 0 && stat(path, &found) == 0 && root.st_dev == found.st_dev &&
               root.st_ino == found.st_ino;
}

static void dots(struct trial *trial)
{
        static const char *const paths[] = {"/..",
                                            "/../../../..",
                                            "/proc/self/root/..",
                                            "/proc/self/cwd/../../../..",
                                            "/proc/self/root/proc/self/root/..",
                                            "/tmp/../..",
                                            "/dev/shm/../../.."};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                if (!is_root(paths[i]))
                        decide(trial, OPEN, "%s is not the root", paths[i]);
        if (chdir("/") < 0)
                decide(trial, UNDECIDED, "chdir to /");
        for (unsigned i = 0; i < 64; i++)
                if (chdir("..") < 0)
                        break;
        if (!is_root("."))
                decide(trial, OPEN, "beyond the root");
        decide(trial, HELD, "stays in the root");
}

// A directory that is moved while it is the working directory: .. must not lead past the root from it.
static void moved_directory(struct trial *trial)
{
        mkdir("/tmp/a", 0700);
        mkdir("/tmp/a/b", 0700);
        if (chdir("/tmp/a/b") < 0 || rename("/tmp/a/b", "/tmp/b") < 0) {
                decide(trial, UNDECIDED, "no directory could be moved");
                return;
        }
        for (unsigned i = 0; i < 8; i++)
                if (chdir("..") < 0)
                        break;
        if (is_root("."))
                decide(trial, HELD, "stays in the root");
        else
                decide(trial, OPEN, "beyond the root");
}

static void removed_directory(struct trial *trial)
{
        mkdir("/tmp/gone", 0700);
        errno = 0;
        if (chdir("/tmp/gone") < 0 || rmdir("/tmp/gone") < 0) {
                decide(trial, UNDECIDED, "no directory could be removed");
                return;
        }
        for (unsigned i = 0; i < 8; i++)
                if (chdir("..") < 0)
                        break;
        if (errno == ENOENT || is_root("."))
                decide(trial, HELD, "stays in the root");
        else
                decide(trial, OPEN, "beyond the root");
}

static void inherited(struct trial *trial)
{
        for (int fd = 0; fd < 65536; fd++) {
                bool open_here = fcntl(fd, F_GETFD) >= 0;

                if (open_here && fd > 2)
                        decide(trial, OPEN, "descriptor %d is open", fd);
                if (!open_here && fd <= 2)
                        decide(trial, UNDECIDED, "descriptor %d is closed", fd);
        }
        decide(trial, HELD, "0 to 2 only");
}

static void inherited_directory(struct trial *trial)
{
        for (int fd = 0; fd < 1024; fd++)
                if (fcntl(fd, F_GETFD) >= 0)
                        expect(trial, "fchdir", fchdir(fd), ERRORS(ENOTDIR));
}

// What 0 to 2 lead to is a pipe or a null device: opened anew it is nothing else.
static void reopened(struct trial *trial)
{
        for (int fd = 0; fd <= 2; fd++) {
                char path[32];
                struct stat info;

                snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
                int again = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
                if (again >= 0 && fstat(again, &info) == 0 && !S_ISFIFO(info.st_mode) &&
                    !S_ISCHR(info.st_mode))
                        decide(trial, OPEN, "descriptor %d leads to a file", fd);
                close(again);
        }
        decide(trial, HELD, "pipes and the null device");
}

static void read_secret(struct trial *trial)
{
        const char *directory = know(trial, "ESCAPE_DIRECTORY");
        static const char *const ways[] = {"", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/../.."};

        for (size_t i = 0; i < sizeof(ways) / sizeof(*ways) && directory != NULL; i++) {
                char path[512];

                snprintf(path, sizeof(path), "%s%s/secret", ways[i], directory);
                expect(trial, path, open(path, O_RDONLY | O_CLOEXEC), ERRORS(ENOENT, EACCES, EPERM));
        }
}

static void host_files(struct trial *trial)
{
        static const char *const paths[] = {
                "/etc/shadow",
                "/root/.ssh",
                "/root/.bashrc",
                "/var/run/docker.sock",
                "/run/docker.sock",
                "/run/dbus",
                "/run/systemd",
                "/run/user",
                "/var/lib/docker",
                "/boot/grub",
                "/host",
                "/etc/ssh/ssh_host_rsa_key",
                "/run/containerd",
                "/var/lib/sandbox-runner",
        };

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);

                expect(trial, paths[i], fd, ERRORS(ENOENT, EACCES, EPERM, ENXIO));
                close(fd);
        }
}

static void handles(struct trial *trial)
{
        struct {
                unsigned bytes;
                int type;
                unsigned char handle[128];
        } file = {.bytes = sizeof(file.handle)};
        int mount_id;

        expect(trial, NULL, syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &file, &mount_id, 0), WALL);
}

// The handle of the root directory of most file systems: inode 2 (see the "shocker" exploit of 2014).
static void open_handle(struct trial *trial)
{
        struct {
                unsigned bytes;
                int type;
                unsigned char handle[8];
        } file = {8, 1, {2}};
        int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        expect(trial, NULL, syscall(SYS_open_by_handle_at, fd, &file, O_RDONLY), WALL);
        close(fd);
}

// A program that was started from a file the host still needs must not be able to replace it, neither while
// it runs nor by a descriptor that it kept for when it does not.
static int overwrite_later(void *path)
{
        for (unsigned i = 0; i < 20; i++) {
                int fd = open(path, O_WRONLY | O_CLOEXEC);

                if (fd >= 0)
                        return 0;
                if (errno != ETXTBSY)
                        return errno;
                usleep(1000);
        }
        return ETXTBSY;
}

static void own_executable(struct trial *trial)
{
        char path[32];
        int kept = open("/proc/self/exe", O_PATH | O_CLOEXEC);

        expect(trial, "while it runs", open("/proc/self/exe", O_WRONLY | O_CLOEXEC),
               ERRORS(EROFS, EACCES, EPERM, ETXTBSY));
        expect(trial, "truncated", truncate("/proc/self/exe", 0), ERRORS(EROFS, EACCES, EPERM, ETXTBSY));
        snprintf(path, sizeof(path), "/proc/self/fd/%d", kept);
        errno = in_child(overwrite_later, path);
        expect(trial, "by a kept descriptor", errno == 0 ? 0 : -1, ERRORS(EROFS, EACCES, EPERM, ETXTBSY));
        close(kept);
}

// Not while anybody runs it: this program becomes another one that holds the descriptor and then looks again.
static void replaced_executable(struct trial *trial)
{
        struct stat info;
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        if (fd < 0 || fstat(fd, &info) < 0) {
                expect(trial, "/proc/self/exe", -1, ERRORS(EACCES, EPERM, ENOENT));
                return;
        }
        // A copy in memory has no name by which anybody else could meet it.
        if (info.st_nlink == 0) {
                decide(trial, HELD, "it is a copy");
                close(fd);
                return;
        }
        // Both could be done to a file that is running.
        expect(trial, "mode", fchmod(fd, info.st_mode & 0777), ERRORS(EROFS, EACCES, EPERM));
        expect(trial, "times", futimens(fd, NULL), ERRORS(EROFS, EACCES, EPERM));
        close(fd);
}

// The directory that a helper of ours is given must be all that it reaches by it.
static void job_directory(struct trial *trial)
{
        static const char *const paths[] = {"..", "../..", "../../../../../../../..",
                                            "../../../../../../../../etc/passwd"};

        if (fcntl(3, F_GETFD) < 0) {
                decide(trial, UNDECIDED, "there is no directory");
                return;
        }
        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                int fd = openat(3, paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);

                expect(trial, paths[i], fd, ERRORS(EACCES, EPERM, ENOENT, EXDEV));
                close(fd);
        }
        if (fchdir(3) == 0)
                expect(trial, "fchdir and ..", open("../..", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                       ERRORS(EACCES, EPERM, ENOENT));
}

// Reading what lies above is one thing, changing it another.
static void job_write(struct trial *trial)
{
        if (fcntl(3, F_GETFD) < 0) {
                decide(trial, UNDECIDED, "there is no directory");
                return;
        }
        int made = openat(3, "made-inside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (made < 0)
                decide(trial, UNDECIDED, "not even its own directory: %s", strerrorname_np(errno));
        close(made);
        unlinkat(3, "made-inside", 0);
        expect(trial, "create", openat(3, "../made-inside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600),
               ERRORS(EACCES, EPERM, EROFS));
        expect(trial, "write", openat(3, "../secret", O_WRONLY | O_CLOEXEC), ERRORS(EACCES, EPERM, EROFS));
        expect(trial, "remove", unlinkat(3, "../secret", 0), ERRORS(EACCES, EPERM, EROFS));
        expect(trial, "rename", renameat(3, "../secret", 3, "secret"), ERRORS(EACCES, EPERM, EROFS, EXDEV));
}

static const struct attempt attempts[] = {
        {"dot-dot", ALONE, "go up from the root", dots, NULL},
        {"moved-directory", ALONE, "go up from a directory that was moved away", moved_directory, NULL},
        {"removed-directory", ALONE, "go up from a directory that was removed", removed_directory, NULL},
        {"descriptors", ALONE, "find a descriptor left open", inherited, NULL},
        {"descriptor-directory", ALONE, "change into an inherited descriptor", inherited_directory, NULL},
        {"descriptor-reopen", ALONE, "open its own streams anew", reopened, NULL},
        {"host-secret", ALONE, "read a file of the host by its path", read_secret, NULL},
        {"host-files", ALONE, "open secrets and sockets of a usual host", host_files, NULL},
        {"name-to-handle", ALONE, "make a file handle", handles, NULL},
        {"open-by-handle", ALONE, "open a file of the host by a guessed handle", open_handle, NULL},
        {"own-executable", SEALED, "overwrite the file it was started from", own_executable, NULL},
        {"own-executable-mode", SEALED, "change mode and times of that file", replaced_executable, NULL},
        {"job-directory", JOB, "read what lies above the directory that a helper is given", job_directory,
         NULL},
        {"job-directory-write", JOB, "change what lies above that directory", job_write, NULL},
        {"job-executable", JOB, "overwrite the program that a helper runs", own_executable, NULL},
        {"job-executable-mode", JOB, "change mode and times of that program", replaced_executable, NULL},
        {"job-secret", JOB, "read a file of the host from a helper", read_secret, NULL},
};
SUBJECT(files_subject, "out of the root", attempts);
