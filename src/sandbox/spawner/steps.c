#include "sandbox/spawner/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/spawner/wall.h"
#include "sandbox_filters.h"
#include "sys/syscalls.h"

// The spawner's own tree, seen until the pivot.
#define TEMPLATE_DEVICES "/dev"
#define TEMPLATE_NULL    "/dev/null"
#define ROOT_MOUNT_POINT "/root"

static int check(int r)
{
        return r < 0 ? -errno : 0;
}

static int attach(int tree, const char *path)
{
        return check(sr_sys_move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH));
}

static int attach_root(int tree)
{
        int r = attach(tree, ROOT_MOUNT_POINT);

        if (r == 0)
                r = check(chdir(ROOT_MOUNT_POINT));
        return r;
}

// /dev is one read-only tmpfs of the spawner's, cloned for everybody: it holds nothing that can be written.
static int attach_devices(const char *path)
{
        _cleanup_close_ int tree = sr_sys_open_tree(AT_FDCWD, TEMPLATE_DEVICES,
                                                    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

        if (tree < 0)
                return -errno;
        return attach(tree, path);
}

// A file is covered by /dev/null, a directory by an empty read-only tmpfs; what is not there needs no cover.
static int mask(const char *path)
{
        if (access(path, F_OK) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (mount(TEMPLATE_NULL, path, NULL, MS_BIND, NULL) == 0)
                return 0;
        if (errno != ENOTDIR)
                return -errno;
        return check(mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k"));
}

static int make_read_only(const char *path)
{
        struct mount_attr attributes = {
                .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
        };

        if (mount(path, path, NULL, MS_BIND, NULL) < 0)
                return errno == ENOENT ? 0 : -errno;
        return check(sr_sys_mount_setattr(AT_FDCWD, path, 0, &attributes));
}

// Keeps /proc/sys for the snippet's process, which has settings of its own to make in its user namespace:
// from here they can be written after the cover is on.
static int keep_settings(const char *path, int number)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        if (fd == number)
                return fd = -1, 0;
        return dup3(fd, number, O_CLOEXEC) < 0 ? -errno : 0;
}

// pivot_root(".", ".") stacks the old root over the new one at the same place; detaching it leaves the new
// one (man 2 pivot_root, NOTES).
static int pivot(void)
{
        if (sr_sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        return 0;
}

static int bring_up_loopback(void)
{
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        return check(ioctl(fd, SIOCSIFFLAGS, &request));
}

static int write_file(int directory, const char *path, const char *text)
{
        _cleanup_close_ int fd = openat(directory, path, O_WRONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return sr_fd_write_all(fd, text, strlen(text));
}

// A kernel without TCP has no such settings.
static int bound_tcp_buffers(const struct sr_step *step)
{
        int r = write_file(step->fd, step->path, step->options);

        return r == -ENOENT ? 0 : r;
}

int sr_step_run_init(const struct sr_launch *launch, const struct sr_step *step)
{
        (void)launch;
        switch (step->kind) {
        case SR_STEP_ATTACH_ROOT:
                return attach_root(step->fd);
        case SR_STEP_ATTACH_DEVICES:
                return attach_devices(step->path);
        case SR_STEP_ATTACH_TMPFS:
                return attach(step->fd, step->path);
        case SR_STEP_PROC:
                return check(mount("proc", step->path, "proc", step->number, NULL));
        case SR_STEP_SETTINGS:
                return keep_settings(step->path, step->fd);
        case SR_STEP_MASK:
                return mask(step->path);
        case SR_STEP_READ_ONLY:
                return make_read_only(step->path);
        case SR_STEP_ATTACH_SCRATCH:
                return attach(step->fd, step->path);
        case SR_STEP_PIVOT:
                return pivot();
        case SR_STEP_HOST_NAME:
                return check(sethostname(step->path, strlen(step->path)));
        case SR_STEP_LOOPBACK:
                return bring_up_loopback();
        case SR_STEP_TCP_BUFFERS:
                return bound_tcp_buffers(step);
        default:
                return -ENOSYS;
        }
}

// The raw calls, not the C library's, which would first look for other threads.
static int change_ids(uint32_t id)
{
        if (getuid() != id) {
                if (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
                        return -errno;
        }
        // The files of /proc/self must belong to this id for the next step, which writes the id map. exec
        // makes the process dumpable anyway; until then there is nothing of the snippet in it.
        return check(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}

// A user namespace inside the one that owns the sandbox's mounts, network and processes: what capability a
// program might win in it reaches none of those, and RLIMIT_NPROC counts in it alone. One id is mapped, which
// an unprivileged process may do for itself once setgroups is denied (man 7 user_namespaces).
static int enter_user_namespace(const char *map)
{
        if (syscall(SYS_unshare, CLONE_NEWUSER) < 0)
                return -errno;

        int r = write_file(AT_FDCWD, "/proc/self/setgroups", "deny");

        if (r == 0)
                r = write_file(AT_FDCWD, "/proc/self/uid_map", map);
        if (r == 0)
                r = write_file(AT_FDCWD, "/proc/self/gid_map", map);
        return r;
}

// The bare calls: libcap's functions ask first what there is to drop, and take an answer that fails for
// nothing.
static int drop_capabilities(const struct sr_launch *launch)
{
        unsigned long value = 0;

        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;
        while (prctl(PR_CAPBSET_DROP, value, 0, 0, 0) == 0)
                value++;
        // EINVAL is the end of the kernel's list, which has this one on every kernel that gets here.
        if (errno != EINVAL || value <= CAP_CHECKPOINT_RESTORE)
                return -errno;
        return check(cap_set_proc(launch->no_capabilities));
}

static int install_filter(bool watched)
{
        if (watched)
                return check(sr_sys_seccomp_filter(0, sr_filter_program_watched,
                                                   sizeof(sr_filter_program_watched) /
                                                           sizeof(struct sock_filter)));
        return check(sr_sys_seccomp_filter(0, sr_filter_program,
                                           sizeof(sr_filter_program) / sizeof(struct sock_filter)));
}

// Only descriptors 0 to 2, the directory where it was asked for, and the two that close at exec are left.
static int close_descriptors(bool keep_directory)
{
        if (!keep_directory && sr_sys_close_range(SR_PLAN_FD_DIRECTORY, SR_PLAN_FD_DIRECTORY, 0) < 0)
                return -errno;
        return check(sr_sys_close_range(SR_PLAN_FD_SETTINGS, ~0u, 0));
}

// execvp(3) without its allocation: a name without a slash is tried in each directory of PATH.
static int execute(const struct sr_launch *launch, int program_fd)
{
        const char *name = launch->arguments[0];
        const char *from = launch->search_path;
        char path[PATH_MAX];
        int result = -ENOENT;

        if (program_fd > 0)
                return check(sr_sys_execveat(program_fd, "", launch->arguments, launch->environment,
                                             AT_EMPTY_PATH));
        if (strchr(name, '/') != NULL || from == NULL)
                return check(execve(name, launch->arguments, launch->environment));
        while (from != NULL) {
                const char *end = strchrnul(from, ':');
                size_t length = (size_t)(end - from), name_length = strlen(name);

                if (length > 0 && length + name_length + 2 <= sizeof(path)) {
                        memcpy(path, from, length);
                        path[length] = '/';
                        memcpy(path + length + 1, name, name_length + 1);
                        execve(path, launch->arguments, launch->environment);
                        if (errno != ENOENT && errno != ENOTDIR)
                                result = -errno;
                }
                from = *end != '\0' ? end + 1 : NULL;
        }
        return result;
}

// Where our own hard limit is lower already, that is the limit.
static int set_limit(__rlimit_resource_t resource, uint64_t value)
{
        struct rlimit limit;

        if (getrlimit(resource, &limit) < 0)
                return -errno;
        if (limit.rlim_max == RLIM_INFINITY || value < limit.rlim_max)
                limit.rlim_max = value;
        limit.rlim_cur = limit.rlim_max;
        return check(setrlimit(resource, &limit));
}

int sr_step_run_snippet(const struct sr_launch *launch, const struct sr_step *step)
{
        switch (step->kind) {
        case SR_STEP_SESSION:
                return check(setsid());
        case SR_STEP_KEYRING:
                // Without keyrings in the kernel there is nothing to part from.
                return sr_sys_new_session_keyring() < 0 && errno != ENOSYS ? -errno : 0;
        case SR_STEP_AFFINITY:
                return check(sched_setaffinity(0, sizeof(launch->processors), &launch->processors));
        case SR_STEP_IDS:
                return change_ids((uint32_t)step->value);
        case SR_STEP_USER_NAMESPACE:
                return enter_user_namespace(step->options);
        case SR_STEP_NO_NAMESPACES:
                // The limit is looked up in the user namespace of who opens the file: the program's own.
                return write_file(step->fd, step->path, step->options);
        case SR_STEP_DIRECTORY:
                return check(chdir(step->path));
        case SR_STEP_RLIMIT:
                return set_limit((__rlimit_resource_t)step->number, step->value);
        case SR_STEP_CAPABILITIES:
                return drop_capabilities(launch);
        case SR_STEP_NO_NEW_PRIVILEGES:
                return check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        case SR_STEP_LANDLOCK:
                return sr_wall_raise((step->number & SR_PLAN_WALL_SCRATCH) != 0,
                                     (step->number & SR_PLAN_WALL_WATCHED) != 0, step->fd);
        case SR_STEP_CLOSE:
                return close_descriptors(step->number != 0);
        case SR_STEP_FILTER:
                return install_filter(step->number != 0);
        case SR_STEP_EXEC:
                return execute(launch, step->fd);
        default:
                return -ENOSYS;
        }
}
