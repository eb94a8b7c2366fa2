// Mounting, moving and uncovering; another root.
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "escape.h"

// From sys/mount.h, which some C libraries do not let stand beside linux/mount.h.
#define DETACH 2

static long mount_call(const char *source, const char *target, const char *type, unsigned long flags)
{
        return syscall(SYS_mount, source, target, type, flags, NULL);
}

// Namespaces and mounts are the filter's to refuse, before the kernel looks at anything.
#define REFUSED ERRORS(EPERM)

static void mount_tmpfs(struct trial *trial)
{
        expect(trial, NULL, mount_call("none", "/tmp", "tmpfs", 0), REFUSED);
}

static void mount_bind(struct trial *trial)
{
        expect(trial, NULL, mount_call("/", "/tmp", NULL, MS_BIND | MS_REC), REFUSED);
}

static void mount_proc(struct trial *trial)
{
        expect(trial, NULL, mount_call("proc", "/tmp", "proc", 0), REFUSED);
}

static void mount_sysfs(struct trial *trial)
{
        expect(trial, NULL, mount_call("sysfs", "/tmp", "sysfs", 0), REFUSED);
}

static void mount_cgroup(struct trial *trial)
{
        expect(trial, "cgroup2", mount_call("none", "/tmp", "cgroup2", 0), REFUSED);
        expect(trial, "cgroup", mount_call("none", "/tmp", "cgroup", 0), REFUSED);
}

static void mount_overlay(struct trial *trial)
{
        expect(trial, NULL,
               syscall(SYS_mount, "none", "/tmp", "overlay", 0ul, "lowerdir=/usr,upperdir=/tmp,workdir=/tmp"),
               REFUSED);
}

static void remount_writable(struct trial *trial)
{
        expect(trial, "/", mount_call(NULL, "/", NULL, MS_REMOUNT | MS_BIND), REFUSED);
        expect(trial, "super block", mount_call(NULL, "/", NULL, MS_REMOUNT), REFUSED);
        expect(trial, "/proc/sys", mount_call(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND), REFUSED);
        expect(trial, "/tmp", mount_call(NULL, "/tmp", NULL, MS_REMOUNT | MS_BIND), REFUSED);
}

static void propagation(struct trial *trial)
{
        expect(trial, NULL, mount_call(NULL, "/", NULL, MS_SHARED | MS_REC), REFUSED);
}

static void mount_move(struct trial *trial)
{
        expect(trial, NULL, mount_call("/proc", "/tmp", NULL, MS_MOVE), REFUSED);
}

static void umount_tmp(struct trial *trial)
{
        expect(trial, NULL, syscall(SYS_umount2, "/tmp", 0), REFUSED);
}

static void umount_cover(struct trial *trial)
{
        expect(trial, "/proc/kcore", syscall(SYS_umount2, "/proc/kcore", DETACH), REFUSED);
        expect(trial, "/proc/sys", syscall(SYS_umount2, "/proc/sys", DETACH), REFUSED);
        expect(trial, "/proc", syscall(SYS_umount2, "/proc", DETACH), REFUSED);
}

static void umount_root(struct trial *trial)
{
        expect(trial, NULL, syscall(SYS_umount2, "/", DETACH), REFUSED);
}

static void fsopen_family(struct trial *trial)
{
        expect(trial, "fsopen", syscall(SYS_fsopen, "tmpfs", 0), REFUSED);
        expect(trial, "fsconfig", syscall(SYS_fsconfig, -1, 6, NULL, NULL, 0), REFUSED);
        expect(trial, "fsmount", syscall(SYS_fsmount, -1, 0, 0), REFUSED);
        expect(trial, "fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0), REFUSED);
}

static void open_tree(struct trial *trial)
{
        expect(trial, NULL, syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE), REFUSED);
        expect(trial, "without a copy", syscall(SYS_open_tree, AT_FDCWD, "/", 0), REFUSED);
}

static void move_mount(struct trial *trial)
{
        expect(trial, NULL, syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/tmp", 0), REFUSED);
}

static void set_attributes(struct trial *trial)
{
        struct {
                uint64_t attr_set, attr_clr, propagation, userns_fd;
        } attributes = {.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

        expect(trial, NULL,
               syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attributes, sizeof(attributes)),
               REFUSED);
}

static void pivot(struct trial *trial)
{
        expect(trial, NULL, syscall(SYS_pivot_root, "/tmp", "/tmp"), REFUSED);
        expect(trial, "to .", syscall(SYS_pivot_root, ".", "."), REFUSED);
}

// The old way out: a root below the working directory, then up past it.
static void chroot_out(struct trial *trial)
{
        mkdir("/tmp/inner", 0700);
        expect(trial, NULL, syscall(SYS_chroot, "/tmp/inner"), REFUSED);
}

static void chroot_init(struct trial *trial)
{
        expect(trial, NULL, syscall(SYS_chroot, "/proc/1/root"), REFUSED);
}

static const struct attempt attempts[] = {
        {"mount-tmpfs", ALONE, "mount a tmpfs", mount_tmpfs, NULL},
        {"mount-bind", ALONE, "bind the root over /tmp", mount_bind, NULL},
        {"mount-proc", ALONE, "mount a fresh, unmasked proc", mount_proc, NULL},
        {"mount-sysfs", ALONE, "mount sysfs", mount_sysfs, NULL},
        {"mount-cgroup", ALONE, "mount the control groups", mount_cgroup, NULL},
        {"mount-overlay", ALONE, "mount a writable overlay of the image", mount_overlay, NULL},
        {"mount-move", ALONE, "move /proc away", mount_move, NULL},
        {"mount-propagation", ALONE, "share mounts with the host", propagation, NULL},
        {"remount-writable", ALONE, "remount what is read-only", remount_writable, NULL},
        {"umount-tmp", ALONE, "unmount /tmp", umount_tmp, NULL},
        {"umount-cover", ALONE, "uncover what is masked in /proc", umount_cover, NULL},
        {"umount-root", ALONE, "detach the root", umount_root, NULL},
        {"fsopen", ALONE, "fsopen, fsconfig, fsmount, fspick", fsopen_family, NULL},
        {"open-tree", ALONE, "open_tree of the root", open_tree, NULL},
        {"move-mount", ALONE, "move_mount of /proc", move_mount, NULL},
        {"mount-setattr", ALONE, "clear read-only and nosuid with mount_setattr", set_attributes, NULL},
        {"pivot-root", ALONE, "pivot_root", pivot, NULL},
        {"chroot", ALONE, "chroot below the working directory", chroot_out, NULL},
        {"chroot-init", ALONE, "chroot to the root of pid 1", chroot_init, NULL},
};
SUBJECT(mounts_subject, "mounts", attempts);
