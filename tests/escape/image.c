// Changing the image: it is shared by every run that uses it.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "escape.h"

#define READ_ONLY ERRORS(EROFS, EACCES, EPERM)

// A file that every root file system has in some place.
static const char *some_file(struct trial *trial)
{
        static const char *const paths[] = {"/etc/passwd", "/etc/ld.so.cache", "/usr/bin/env", "/bin/sh",
                                            "/escape"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                if (access(paths[i], R_OK) == 0)
                        return paths[i];
        decide(trial, UNDECIDED, "no file found");
        return NULL;
}

static void write_file(struct trial *trial)
{
        const char *path = some_file(trial);

        if (path == NULL)
                return;
        expect(trial, "append", open(path, O_WRONLY | O_APPEND | O_CLOEXEC), READ_ONLY);
        expect(trial, "read and write", open(path, O_RDWR | O_CLOEXEC), READ_ONLY);
        expect(trial, "truncate", truncate(path, 1 << 20), READ_ONLY);
}

static void make_files(struct trial *trial)
{
        static const char *const directories[] = {"/",    "/etc", "/usr",     "/usr/bin", "/usr/lib",
                                                  "/bin", "/var", "/var/tmp", "/home",    "/root",
                                                  "/run", "/opt", "/srv",     "/mnt"};

        for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++) {
                char path[64];

                snprintf(path, sizeof(path), "%s/made-inside", directories[i]);
                int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                expect(trial, directories[i], fd, ERRORS(EROFS, EACCES, EPERM, ENOENT));
                close(fd);
                if (mkdir(path, 0700) == 0)
                        decide(trial, OPEN, "%s takes a directory", directories[i]);
        }
}

static void make_unnamed(struct trial *trial)
{
        static const char *const directories[] = {"/", "/usr", "/etc"};

        for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
                expect(trial, directories[i], open(directories[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600),
                       READ_ONLY);
}

static void link_in(struct trial *trial)
{
        char path[32];
        int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        expect(trial, "an unnamed file",
               linkat(AT_FDCWD, path, AT_FDCWD, "/usr/linked-inside", AT_SYMLINK_FOLLOW),
               ERRORS(EROFS, EXDEV, EACCES, EPERM));
        expect(trial, "by descriptor", linkat(fd, "", AT_FDCWD, "/usr/linked-inside", AT_EMPTY_PATH),
               ERRORS(EROFS, EXDEV, EACCES, EPERM, ENOENT));
        expect(trial, "symlink", symlink("/scratch", "/usr/linked-inside"), READ_ONLY);
        close(fd);
}

static void link_out(struct trial *trial)
{
        const char *path = some_file(trial);

        if (path != NULL)
                expect(trial, NULL, link(path, "/tmp/linked"), ERRORS(EXDEV, EPERM, EROFS));
}

static void rename_file(struct trial *trial)
{
        const char *path = some_file(trial);

        if (path == NULL)
                return;
        expect(trial, "away", rename(path, "/tmp/moved"), ERRORS(EXDEV, EROFS, EACCES, EPERM, EBUSY));
        expect(trial, "exchanged", syscall(SYS_renameat2, AT_FDCWD, "/usr", AT_FDCWD, "/bin", 2),
               ERRORS(EROFS, EACCES, EPERM, ENOENT, EXDEV));
        expect(trial, "a directory", rename("/usr", "/made-inside"),
               ERRORS(EROFS, EACCES, EPERM, EBUSY, ENOENT));
}

static void remove_file(struct trial *trial)
{
        const char *path = some_file(trial);

        if (path != NULL)
                expect(trial, NULL, unlink(path), ERRORS(EROFS, EACCES, EPERM, EBUSY));
}

static void change_attributes(struct trial *trial)
{
        const char *path = some_file(trial);
        struct stat info;

        if (path == NULL || stat(path, &info) < 0)
                return;
        expect(trial, "mode", chmod(path, 0777), READ_ONLY);
        expect(trial, "owner", chown(path, getuid(), getgid()), READ_ONLY);
        expect(trial, "times", utimes(path, NULL), READ_ONLY);
        expect(trial, "attribute", setxattr(path, "user.made", "1", 1, 0),
               ERRORS(EROFS, EACCES, EPERM, ENOTSUP));
        expect(trial, "by descriptor", syscall(SYS_fchmod, open(path, O_RDONLY | O_CLOEXEC), 0777),
               READ_ONLY);
}

// /proc/self/mem writes where the memory map forbids it; what it changes must be a private copy.
static void write_mapping(struct trial *trial, int sharing)
{
        const char *path = some_file(trial);
        char before[16] = {0}, after[16] = {0};
        int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

        if (file < 0 || pread(file, before, sizeof(before), 0) <= 0) {
                decide(trial, UNDECIDED, "no file could be read");
                return;
        }
        void *map = mmap(NULL, 4096, PROT_READ, sharing, file, 0);
        if (map == MAP_FAILED) {
                decide(trial, UNDECIDED, "no file could be mapped");
                return;
        }
        for (unsigned i = 0; i < 100; i++) {
                (void)!pwrite(memory, "escaped", 7, (off_t)(intptr_t)map);
                madvise(map, 4096, MADV_DONTNEED);
        }
        if (mprotect(map, 4096, PROT_READ | PROT_WRITE) == 0 && sharing == MAP_SHARED)
                decide(trial, OPEN, "a shared mapping became writable");
        if (pread(file, after, sizeof(after), 0) <= 0 || memcmp(before, after, sizeof(before)) != 0)
                decide(trial, OPEN, "the file changed");
        decide(trial, HELD, "unchanged");
        close(file);
        close(memory);
}

static void write_private(struct trial *trial)
{
        write_mapping(trial, MAP_PRIVATE);
}

static void write_shared(struct trial *trial)
{
        write_mapping(trial, MAP_SHARED);
}

// Splicing a page of the image into a pipe and writing the pipe must not write the page (CVE-2022-0847).
static void write_pipe(struct trial *trial)
{
        const char *path = some_file(trial);
        static char page[4096];
        char before[16] = {0}, after[16] = {0};
        int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC), ends[2];
        off64_t at = 0;

        if (file < 0 || pipe(ends) < 0 || pread(file, before, sizeof(before), 0) <= 0) {
                decide(trial, UNDECIDED, "no file could be read");
                return;
        }
        // Every slot of the pipe has once held a page that may be merged into.
        for (unsigned i = 0; i < 16; i++)
                (void)!write(ends[1], page, sizeof(page));
        for (unsigned i = 0; i < 16; i++)
                (void)!read(ends[0], page, sizeof(page));
        if (splice(file, &at, ends[1], NULL, 1, 0) == 1)
                (void)!write(ends[1], "escaped", 7);
        if (pread(file, after, sizeof(after), 0) <= 0 || memcmp(before, after, sizeof(before)) != 0)
                decide(trial, OPEN, "the file changed");
        decide(trial, HELD, "unchanged");
}

static void watch_inotify(struct trial *trial)
{
        expect(trial, NULL, inotify_init1(IN_CLOEXEC), ERRORS(ENOSYS));
}

static void watch_fanotify(struct trial *trial)
{
        expect(trial, NULL, syscall(SYS_fanotify_init, 0, 0), WALL);
        expect(trial, "mark", syscall(SYS_fanotify_mark, -1, 1, 1ul, AT_FDCWD, "/"), WALL);
}

static void watch_directory(struct trial *trial)
{
        int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        expect(trial, "notify", fcntl(fd, F_NOTIFY, 1), ERRORS(EPERM));
        close(fd);
}

// A lease lets its holder delay whoever opens the file.
static void lease(struct trial *trial)
{
        const char *path = some_file(trial);

        if (path != NULL)
                expect(trial, NULL, fcntl(open(path, O_RDONLY | O_CLOEXEC), F_SETLEASE, F_RDLCK),
                       ERRORS(EPERM));
}

static const struct attempt attempts[] = {
        {"image-write", ALONE, "write to a file of the image", write_file, NULL},
        {"image-create", ALONE, "make files outside /tmp and /scratch", make_files, NULL},
        {"image-unnamed", ALONE, "make an unnamed file in the image", make_unnamed, NULL},
        {"image-link", ALONE, "link a file of its own into the image", link_in, NULL},
        {"image-link-out", ALONE, "link a file of the image to where it may write", link_out, NULL},
        {"image-rename", ALONE, "rename files of the image", rename_file, NULL},
        {"image-remove", ALONE, "remove a file of the image", remove_file, NULL},
        {"image-attributes", ALONE, "change mode, owner, times, attributes", change_attributes, NULL},
        {"image-memory-private", ALONE, "write a private mapping of a file through /proc/self/mem",
         write_private, NULL},
        {"image-memory-shared", ALONE, "write a shared mapping of a file through /proc/self/mem",
         write_shared, NULL},
        {"image-pipe", ALONE, "write a page of a file through a pipe", write_pipe, NULL},
        {"image-inotify", ALONE, "watch with inotify what others read", watch_inotify, NULL},
        {"image-fanotify", ALONE, "watch with fanotify what others read", watch_fanotify, NULL},
        {"image-dnotify", ALONE, "watch a directory", watch_directory, NULL},
        {"image-lease", ALONE, "hold up who opens a file", lease, NULL},
};
SUBJECT(image_subject, "the image", attempts);
