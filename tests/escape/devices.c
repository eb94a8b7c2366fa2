// Device nodes: making them, and those of the host.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include "escape.h"

#ifndef TIOCLINUX
#define TIOCLINUX 0x541c
#endif

// Not there, or with nothing behind it: what is not there cannot be opened by mistake.
static void expect_absent(struct trial *trial, const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        expect(trial, path, fd, ERRORS(ENOENT, ENOTDIR, ENXIO));
        close(fd);
}

#define EACH(function, ...)                                                                                  \
        static void function(struct trial *trial)                                                            \
        {                                                                                                    \
                static const char *const paths[] = {__VA_ARGS__};                                            \
                                                                                                             \
                for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)                                  \
                        expect_absent(trial, paths[i]);                                                      \
        }
EACH(disks, "/dev/sda", "/dev/sda1", "/dev/vda", "/dev/vda1", "/dev/nvme0n1", "/dev/xvda", "/dev/dm-0",
     "/dev/loop0", "/dev/loop-control", "/dev/mapper/control", "/dev/sg0", "/dev/ram0", "/dev/block",
     "/dev/disk")
EACH(memory, "/dev/mem", "/dev/kmem", "/dev/port", "/dev/nvram")
EACH(kvm, "/dev/kvm", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/vfio/vfio", "/dev/sev",
     "/dev/nitro_enclaves")
EACH(fuse, "/dev/fuse", "/dev/cuse", "/dev/autofs", "/dev/btrfs-control")
EACH(tun, "/dev/net/tun", "/dev/ppp", "/dev/rfkill", "/dev/vsock")
EACH(kernel_log, "/dev/kmsg", "/dev/log", "/run/systemd/journal/socket")
EACH(terminals, "/dev/tty", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/hvc0", "/dev/ptmx",
     "/dev/pts/ptmx", "/dev/pts/0", "/dev/vcs")
EACH(faults, "/dev/userfaultfd", "/dev/cpu/0/msr", "/dev/cpu/0/cpuid", "/dev/udmabuf", "/dev/binder")
EACH(others, "/dev/dri/card0", "/dev/dri/renderD128", "/dev/fb0", "/dev/input/event0", "/dev/uinput",
     "/dev/snd/seq", "/dev/rtc0", "/dev/hpet", "/dev/watchdog", "/dev/mei0", "/dev/tpm0", "/dev/gpiochip0",
     "/dev/bus/usb")

// In each place that takes new files.
static void make_node(struct trial *trial, mode_t kind, unsigned major, unsigned minor)
{
        static const char *const paths[] = {"/tmp/node", "/scratch/node", "/dev/shm/node", "/dev/node"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                long result = mknod(paths[i], kind | 0600, makedev(major, minor));

                if (result == 0) {
                        // A node that cannot be opened leads nowhere.
                        int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);

                        decide(trial, OPEN, "%s made%s", paths[i], fd >= 0 ? " and opened" : "");
                        close(fd);
                        unlink(paths[i]);
                }
                if (result < 0)
                        expect(trial, paths[i], result, ERRORS(EPERM, EACCES, EROFS, ENOENT));
        }
}

static void make_disk(struct trial *trial)
{
        make_node(trial, S_IFBLK, 8, 0);
}

static void make_memory(struct trial *trial)
{
        make_node(trial, S_IFCHR, 1, 1);
}

static void make_null(struct trial *trial)
{
        make_node(trial, S_IFCHR, 1, 3);
}

static void change_devices(struct trial *trial)
{
        expect(trial, "unlink", unlink("/dev/null"), ERRORS(EROFS, EACCES, EPERM, EBUSY));
        expect(trial, "create", open("/dev/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600),
               ERRORS(EROFS, EACCES));
        expect(trial, "symlink", symlink("/scratch", "/dev/new-link"), ERRORS(EROFS, EACCES));
}

// There is no terminal; the filter must answer before the kernel finds that out, and read the request as the
// kernel does, in 32 bits.
static void type_ahead(struct trial *trial)
{
        char byte = '\n';

        expect(trial, NULL, ioctl(0, TIOCSTI, &byte), ERRORS(EPERM));
        expect(trial, "high bits", ioctl(0, TIOCSTI | 1ul << 32, &byte), ERRORS(EPERM));
}

static void paste(struct trial *trial)
{
        char request = 3;

        expect(trial, NULL, ioctl(0, TIOCLINUX, &request), ERRORS(EPERM));
        expect(trial, "high bits", ioctl(0, TIOCLINUX | 1ul << 32, &request), ERRORS(EPERM));
}

static void take_terminal(struct trial *trial)
{
        int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

        expect(trial, "/dev/tty", fd, ERRORS(ENOENT, ENXIO));
        expect(trial, "TIOCSCTTY", ioctl(0, TIOCSCTTY, 1), ERRORS(EPERM, ENOTTY));
        close(fd);
}

static const struct attempt attempts[] = {
        {"device-disk", ALONE, "open a disk", disks, NULL},
        {"device-memory", ALONE, "open the machine's memory or ports", memory, NULL},
        {"device-kvm", ALONE, "open /dev/kvm and other devices for virtual machines", kvm, NULL},
        {"device-fuse", ALONE, "open /dev/fuse and other file system devices", fuse, NULL},
        {"device-tun", ALONE, "open a network device", tun, NULL},
        {"device-log", ALONE, "open the kernel's or the system's log", kernel_log, NULL},
        {"device-terminal", ALONE, "open or make a terminal", terminals, NULL},
        {"device-fault", ALONE, "open /dev/userfaultfd and processor registers", faults, NULL},
        {"device-other", ALONE, "open graphics, input, clocks and the like", others, NULL},
        {"mknod-disk", ALONE, "make a node of a disk", make_disk, NULL},
        {"mknod-memory", ALONE, "make a node of the machine's memory", make_memory, NULL},
        {"mknod-null", ALONE, "make a node of a harmless device", make_null, NULL},
        {"dev-change", ALONE, "replace entries of /dev", change_devices, NULL},
        {"ioctl-tiocsti", ALONE, "type into the terminal of who started it", type_ahead, NULL},
        {"ioctl-tioclinux", ALONE, "paste into a console", paste, NULL},
        {"take-terminal", ALONE, "take the terminal of who started it", take_terminal, NULL},
};
SUBJECT(devices_subject, "devices", attempts);
