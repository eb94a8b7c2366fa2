// What the kernel shows and takes through files: /proc, /sys, control groups.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "escape.h"

#define CLOSED ERRORS(EACCES, EPERM, EROFS, ENOENT)

// Opens for writing and writes nothing: that it opens is enough. A cover of /dev/null takes everything.
static void expect_unwritable(struct trial *trial, const char *path)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat info;

        if (fd >= 0 && fstat(fd, &info) == 0 && S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3))
                decide(trial, HELD, "covered");
        else
                expect(trial, path, fd, CLOSED);
        close(fd);
}

static void expect_unreadable(struct trial *trial, const char *path)
{
        static char text[4096];
        struct stat info;

        if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
                DIR *directory = opendir(path);
                unsigned count = 0;

                while (directory != NULL && readdir(directory) != NULL)
                        count++;
                if (directory != NULL)
                        closedir(directory);
                if (directory != NULL && count > 2)
                        decide(trial, OPEN, "%s has entries", path);
                else
                        decide(trial, HELD, "covered");
                return;
        }
        // /proc/kmsg waits for news.
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        long n = fd < 0 ? -1 : read(fd, text, sizeof(text));

        if (n == 0)
                decide(trial, HELD, "covered");
        else
                expect(trial, path, n, ERRORS(EACCES, EPERM, ENOENT, EROFS));
        close(fd);
}

#define EACH(function, expect_one, ...)                                                                      \
        static void function(struct trial *trial)                                                            \
        {                                                                                                    \
                static const char *const paths[] = {__VA_ARGS__};                                            \
                                                                                                             \
                for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)                                  \
                        expect_one(trial, paths[i]);                                                         \
        }

EACH(settings, expect_unwritable, "/proc/sys/kernel/hostname", "/proc/sys/kernel/ns_last_pid",
     "/proc/sys/kernel/shmmax", "/proc/sys/kernel/msgmni", "/proc/sys/net/ipv4/ip_forward",
     "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/binfmt_misc/register",
     "/proc/sys/fs/file-max", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/yama/ptrace_scope")
EACH(core_pattern, expect_unwritable, "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/core_pipe_limit",
     "/proc/sys/fs/suid_dumpable")
EACH(helpers, expect_unwritable, "/proc/sys/kernel/modprobe", "/proc/sys/kernel/poweroff_cmd",
     "/sys/kernel/uevent_helper", "/proc/sys/kernel/hotplug")
EACH(sysrq, expect_unwritable, "/proc/sysrq-trigger", "/proc/sys/kernel/sysrq")
EACH(machine, expect_unwritable, "/proc/irq/default_smp_affinity", "/proc/irq/0/smp_affinity", "/proc/mtrr",
     "/proc/bus/pci/00/00.0", "/proc/acpi/wakeup", "/proc/scsi/scsi", "/proc/timer_stats", "/proc/driver/rtc")
EACH(core, expect_unreadable, "/proc/kcore")
EACH(messages, expect_unreadable, "/proc/kmsg")
EACH(pages, expect_unreadable, "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup")
EACH(keys, expect_unreadable, "/proc/keys")
EACH(internals, expect_unreadable, "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
     "/proc/interrupts", "/proc/asound", "/proc/acpi", "/proc/scsi", "/proc/vmallocinfo", "/proc/slabinfo")
EACH(sysfs, expect_unwritable, "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled",
     "/sys/module/kernel/parameters/crash_kexec_post_notifiers", "/sys/firmware/efi/efivars/x",
     "/sys/kernel/debug/tracing/trace", "/sys/fs/selinux/enforce", "/sys/bus/pci/rescan",
     "/sys/class/net/lo/mtu", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
     "/sys/kernel/profiling")
EACH(firmware, expect_unreadable, "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing",
     "/sys/kernel/security", "/sys/devices/virtual/powercap")
EACH(devices, expect_unreadable, "/sys/class/block", "/sys/class/net", "/sys/bus/pci/devices",
     "/sys/class/dmi/id/product_serial")

// Addresses of the kernel that are all 0 tell nothing.
static void symbols(struct trial *trial)
{
        static char text[4096];
        long n = read_text("/proc/kallsyms", text, sizeof(text));

        if (n < 0 || n == 0)
                decide(trial, HELD, n == 0 ? "covered" : "closed");
        else if (strncmp(text, "0000000000000000 ", 17) == 0)
                decide(trial, HELD, "no addresses");
        else
                decide(trial, OPEN, "addresses");
}

// Wherever a control group is mounted.
static void control_groups(struct trial *trial)
{
        static const char *const files[] = {"cgroup.procs",          "tasks",         "memory.max",
                                            "memory.limit_in_bytes", "cpu.max",       "pids.max",
                                            "devices.allow",         "release_agent", "notify_on_release",
                                            "cgroup.subtree_control"};
        static char text[65536];
        char *line, *rest = text;

        if (read_text("/proc/self/mountinfo", text, sizeof(text)) < 0) {
                decide(trial, UNDECIDED, "/proc/self/mountinfo cannot be read");
                return;
        }
        while ((line = strsep(&rest, "\n")) != NULL) {
                char point[256], path[512];

                if (strstr(line, " - cgroup") == NULL || sscanf(line, "%*s %*s %*s %*s %255s", point) != 1)
                        continue;
                for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
                        snprintf(path, sizeof(path), "%s/%s", point, files[i]);
                        expect_unwritable(trial, path);
                }
                snprintf(path, sizeof(path), "%s/made-inside", point);
                expect(trial, path, mkdir(path, 0700), CLOSED);
        }
        decide(trial, HELD, "not mounted");
}

static const struct attempt attempts[] = {
        {"sysctl-write", ALONE, "change settings of the kernel", settings, NULL},
        {"core-pattern", ALONE, "have the kernel run a program at a crash", core_pattern, NULL},
        {"kernel-helpers", ALONE, "have the kernel run a program for modules or devices", helpers, NULL},
        {"sysrq", ALONE, "write to sysrq-trigger", sysrq, NULL},
        {"proc-machine-write", ALONE, "change interrupts, buses and drivers through /proc", machine, NULL},
        {"kcore", ALONE, "read the kernel's memory from /proc/kcore", core, NULL},
        {"kmsg", ALONE, "read the kernel's log from /proc/kmsg", messages, NULL},
        {"kpage", ALONE, "read what physical pages are used for", pages, NULL},
        {"proc-keys", ALONE, "read which keys there are", keys, NULL},
        {"kallsyms", ALONE, "read the kernel's addresses", symbols, NULL},
        {"proc-internals", ALONE, "read timers, interrupts and devices of the host", internals, NULL},
        {"sysfs-write", ALONE, "change the machine through /sys", sysfs, NULL},
        {"sysfs-firmware", ALONE, "read firmware and traces in /sys", firmware, NULL},
        {"sysfs-devices", ALONE, "read the host's devices in /sys", devices, NULL},
        {"cgroup-write", ALONE, "change or make a control group", control_groups, NULL},
};
SUBJECT(proc_subject, "/proc, /sys and control groups", attempts);
