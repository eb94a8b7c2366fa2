#include "sandbox/spawner/start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/step.h"
#include "sys/syscalls.h"

// Where the new root is put together; only seen in the spawner's own mount namespace. The first that exists.
static const char *const building_sites[] = {"/tmp", "/var", "/usr", "/etc"};

// The character devices a program gets, bound from the host's /dev, with the numbers they must have
// (Documentation/admin-guide/devices.txt).
static const struct {
        const char *name;
        unsigned minor;
} devices[] = {{"null", 3}, {"zero", 5}, {"full", 7}, {"random", 8}, {"urandom", 9}};

static const struct {
        const char *name, *target;
} links[] = {
        {"fd", "/proc/self/fd"},
        {"stdin", "/proc/self/fd/0"},
        {"stdout", "/proc/self/fd/1"},
        {"stderr", "/proc/self/fd/2"},
};

// What a program of the host needs to run: code, libraries and the loader's tables. Nothing of a user's.
static const char *const host_directories[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
static const char *const host_files[] = {"etc/ld.so.cache", "etc/ld.so.conf", "etc/alternatives"};

static int make_directory(const char *path)
{
        return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_file(const char *path)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        return fd < 0 ? -errno : 0;
}

// Binds the tree at from (a descriptor with "" or a path) to the existing path `to`.
static int bind_tree(int dirfd, const char *from, const char *to, unsigned flags, uint64_t attributes)
{
        struct mount_attr attr = {.attr_set = attributes};
        unsigned empty = *from == '\0' ? AT_EMPTY_PATH : 0;
        _cleanup_close_ int tree =
                sr_sys_open_tree(dirfd, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | empty | flags);

        if (tree < 0)
                return -errno;
        if (attributes != 0 &&
            sr_sys_mount_setattr(tree, "", AT_EMPTY_PATH | (flags & AT_RECURSIVE), &attr) < 0)
                return -errno;
        return sr_sys_move_mount(tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int enter_building_site(void)
{
        static const char *const directories[] = {"stores", "scratch", "root", "dev", "proc", "host"};
        int r = -ENOENT;

        for (size_t i = 0; i < sizeof(building_sites) / sizeof(*building_sites) && r == -ENOENT; i++) {
                r = mount("tmpfs", building_sites[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m") < 0
                            ? -errno
                            : 0;
                if (r == 0 && chdir(building_sites[i]) < 0)
                        r = -errno;
        }
        for (size_t i = 0; i < sizeof(directories) / sizeof(*directories) && r == 0; i++)
                r = make_directory(directories[i]);
        return r;
}

static int bind_stores(void)
{
        for (int i = 0; i < SR_START_STORES_MAX; i++) {
                char path[32];
                int r;

                if (fcntl(SR_START_STORE_FD + i, F_GETFD) < 0)
                        continue; // that store does not exist
                snprintf(path, sizeof(path), "stores/%d", i);
                r = make_directory(path);
                if (r == 0)
                        r = bind_tree(SR_START_STORE_FD + i, "", path, 0,
                                      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
                if (r < 0)
                        return r;
                close(SR_START_STORE_FD + i);
        }
        return 0;
}

static int bind_device(const char *name, unsigned minor)
{
        char from[32], to[32];
        struct stat found;

        snprintf(from, sizeof(from), "/dev/%s", name);
        snprintf(to, sizeof(to), "dev/%s", name);
        if (stat(from, &found) < 0)
                return -errno;
        if (!S_ISCHR(found.st_mode) || found.st_rdev != makedev(1, minor))
                return -ENODEV;

        int r = make_file(to);

        return r < 0 ? r : bind_tree(AT_FDCWD, from, to, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

static int make_devices(void)
{
        struct mount_attr sealed = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};

        if (mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") < 0)
                return -errno;
        for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
                int r = bind_device(devices[i].name, devices[i].minor);

                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
                char path[32];

                snprintf(path, sizeof(path), "dev/%s", links[i].name);
                if (symlink(links[i].target, path) < 0)
                        return -errno;
        }
        if (mkdir("dev/shm", 01777) < 0)
                return -errno;
        // Read-only keeps nodes and links from being replaced; writing to a device is not writing to its
        // mount.
        return sr_sys_mount_setattr(AT_FDCWD, "dev", 0, &sealed) < 0 ? -errno : 0;
}

// One directory or link of the host's root, as it is there: on merged-/usr systems /bin is a link.
static int bind_host_directory(const char *name)
{
        char from[64], to[64], target[64];
        struct stat found;

        snprintf(from, sizeof(from), "/%s", name);
        snprintf(to, sizeof(to), "host/%s", name);
        if (lstat(from, &found) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (S_ISLNK(found.st_mode)) {
                ssize_t length = readlink(from, target, sizeof(target) - 1);

                if (length < 0)
                        return -errno;
                target[length] = '\0';
                return symlink(target, to) < 0 ? -errno : 0;
        }
        int r = S_ISDIR(found.st_mode) ? make_directory(to) : make_file(to);

        if (r == 0)
                r = bind_tree(AT_FDCWD, from, to, AT_RECURSIVE,
                              MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        return r;
}

static int make_host_root(void)
{
        static const char *const empty[] = {"host/etc", "host/dev", "host/proc", "host/tmp", "host/scratch"};
        struct mount_attr sealed = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
        int r = 0;

        if (mount("tmpfs", "host", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") < 0)
                return -errno;
        for (size_t i = 0; i < sizeof(empty) / sizeof(*empty) && r == 0; i++)
                r = make_directory(empty[i]);
        for (size_t i = 0; i < sizeof(host_directories) / sizeof(*host_directories) && r == 0; i++)
                r = bind_host_directory(host_directories[i]);
        for (size_t i = 0; i < sizeof(host_files) / sizeof(*host_files) && r == 0; i++)
                r = bind_host_directory(host_files[i]);
        if (r == 0 && sr_sys_mount_setattr(AT_FDCWD, "host", 0, &sealed) < 0)
                r = -errno;
        return r;
}

// After this nothing of the host's mount tree is left in the namespace, which also makes each copy of it
// cheap.
static int leave_host(void)
{
        if (sr_sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        return 0;
}

static int make_private(void)
{
        return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

// The host's own /proc is still visible, which is what the kernel asks for before it gives a fresh one; this
// fresh one is then what each sandbox's /proc is allowed by.
static int mount_proc(void)
{
        return mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? -errno : 0;
}

int sr_start_prepare(struct sr_wire_failure *ret)
{
        static const struct {
                enum sr_step_kind step;
                int (*run)(void);
        } steps[] = {
                {SR_STEP_START_PRIVATE, make_private}, {SR_STEP_START_ROOT, enter_building_site},
                {SR_STEP_START_STORE, bind_stores},    {SR_STEP_START_DEVICES, make_devices},
                {SR_STEP_START_PROC, mount_proc},      {SR_STEP_START_HOST, make_host_root},
                {SR_STEP_START_PIVOT, leave_host},
        };

        for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
                int r = steps[i].run();

                if (r < 0) {
                        *ret = (struct sr_wire_failure){.step = steps[i].step, .errnum = -r};
                        return r;
                }
        }
        return 0;
}
