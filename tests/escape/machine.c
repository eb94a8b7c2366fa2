// The machine's own state: clocks, modules, power, swap, names. Arguments do nothing where they get through.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "escape.h"

#define REFUSED ERRORS(EPERM, ENOSYS)

#define CALL(function, number, ...)                                                                          \
        static void function(struct trial *trial)                                                            \
        {                                                                                                    \
                expect(trial, NULL, syscall(number, __VA_ARGS__), REFUSED);                                  \
        }
CALL(kexec_load, SYS_kexec_load, 0ul, 0ul, NULL, 0ul)
CALL(kexec_file_load, SYS_kexec_file_load, -1, -1, 0ul, NULL, 0ul)
CALL(restart, SYS_reboot, 0xfee1dead, 672274793, 0, NULL)
CALL(accounting, SYS_acct, "/nowhere/accounting")
CALL(hang_up, SYS_vhangup, 0)
CALL(system_log, SYS_syslog, 3, (char[16]){0}, 16)

static void modules(struct trial *trial)
{
        expect(trial, "init_module", syscall(SYS_init_module, "", 0ul, ""), REFUSED);
        expect(trial, "finit_module", syscall(SYS_finit_module, -1, "", 0), REFUSED);
        expect(trial, "delete_module", syscall(SYS_delete_module, "no-such-module", 0), REFUSED);
}

static void swap(struct trial *trial)
{
        expect(trial, "swapon", syscall(SYS_swapon, "/nowhere/swap", 0), REFUSED);
        expect(trial, "swapoff", syscall(SYS_swapoff, "/nowhere/swap"), REFUSED);
}

static void quota(struct trial *trial)
{
        expect(trial, "quotactl", syscall(SYS_quotactl, 0x80000200, "/nowhere/device", 0, NULL), REFUSED);
        expect(trial, "quotactl_fd", syscall(443, -1, 0x80000200, 0, NULL), REFUSED);
}

static void time_of_day(struct trial *trial)
{
        struct timeval now;

        gettimeofday(&now, NULL);
        expect(trial, "settimeofday", syscall(SYS_settimeofday, &now, NULL), REFUSED);
        expect(trial, "time zone", syscall(SYS_settimeofday, NULL, (int[2]){0, 0}), REFUSED);
}

static void set_clock(struct trial *trial)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        expect(trial, NULL, syscall(SYS_clock_settime, CLOCK_REALTIME, &now), REFUSED);
}

static void adjust_clock(struct trial *trial)
{
        // Not synchronised is what most clocks are; it is read first, where that is possible.
        struct timex change = {.status = STA_UNSYNC};

        syscall(SYS_adjtimex, &change);
        change.modes = ADJ_STATUS;
        expect(trial, "adjtimex", syscall(SYS_adjtimex, &change), REFUSED);
        expect(trial, "clock_adjtime", syscall(SYS_clock_adjtime, CLOCK_REALTIME, &change), REFUSED);
}

static void ports(struct trial *trial)
{
#ifdef SYS_iopl
        expect(trial, "iopl", syscall(SYS_iopl, 3), REFUSED);
        expect(trial, "ioperm", syscall(SYS_ioperm, 0x80ul, 1ul, 1), REFUSED);
#else
        decide(trial, HELD, "no such calls");
#endif
}

static void names(struct trial *trial)
{
        struct utsname name;

        uname(&name);
        expect(trial, "host", syscall(SYS_sethostname, name.nodename, strlen(name.nodename)), REFUSED);
        expect(trial, "domain", syscall(SYS_setdomainname, name.domainname, strlen(name.domainname)),
               REFUSED);
}

static const struct attempt attempts[] = {
        {"kexec-load", ALONE, "load another kernel", kexec_load, NULL},
        {"kexec-file-load", ALONE, "load another kernel from a file", kexec_file_load, NULL},
        {"modules", ALONE, "load and unload modules", modules, NULL},
        {"reboot", ALONE, "reboot", restart, NULL},
        {"swap", ALONE, "swap on and off", swap, NULL},
        {"acct", ALONE, "process accounting", accounting, NULL},
        {"quota", ALONE, "quotas", quota, NULL},
        {"settimeofday", ALONE, "set the time", time_of_day, NULL},
        {"clock-settime", ALONE, "set a clock", set_clock, NULL},
        {"clock-adjust", ALONE, "adjust a clock", adjust_clock, NULL},
        {"io-ports", ALONE, "reach io ports", ports, NULL},
        {"kernel-log", ALONE, "read the kernel's log", system_log, NULL},
        {"vhangup", ALONE, "hang up the terminal", hang_up, NULL},
        {"host-name", ALONE, "change the host's name", names, NULL},
};
SUBJECT(machine_subject, "the machine", attempts);
