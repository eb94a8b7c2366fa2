// Other ways into the kernel than the one the filter is written for, and odd execution modes.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "escape.h"

#ifdef __x86_64__
static long enter_32(long number, long first)
{
        long result;

        __asm__ volatile("int $0x80"
                         : "=a"(result)
                         : "0"(number), "b"(first)
                         : "memory", "r8", "r9", "r10", "r11");
        return result;
}

// In a child: a kernel without this entry ends the process with a signal, which is a wall as well.
static int enter_getpid(void *unused)
{
        long result = enter_32(20, 0);

        (void)unused;
        return result < 0 && result > -200 ? (int)-result : 0;
}

static int enter_unshare(void *unused)
{
        long result = enter_32(310, 0x10000000);

        (void)unused;
        return result < 0 && result > -200 ? (int)-result : 0;
}

static void judge_entry(struct trial *trial, const char *label, int status)
{
        if (status < 0) {
                decide(trial, HELD, "no such entry");
                return;
        }
        errno = status;
        expect(trial, label, status == 0 ? 0 : -1, ERRORS(ENOSYS, EPERM));
}

static void int_80(struct trial *trial)
{
        judge_entry(trial, "getpid", in_child(enter_getpid, NULL));
        judge_entry(trial, "unshare", in_child(enter_unshare, NULL));
}

static void x32(struct trial *trial)
{
        expect(trial, "getpid", syscall(0x40000000 | SYS_getpid), ERRORS(ENOSYS, EPERM));
        expect(trial, "unshare", syscall(0x40000000 | SYS_unshare, 0x10000000), ERRORS(ENOSYS, EPERM));
        expect(trial, "ptrace", syscall(0x40000000 | 521, 16, 1, 0, 0), ERRORS(ENOSYS, EPERM));
}

static void ldt(struct trial *trial)
{
        // A descriptor for a segment of 64 KiB, written with the old and the new mode.
        uint32_t entry[4] = {0, 0, 0xffff, 0x51};

        expect(trial, "write", syscall(SYS_modify_ldt, 1, entry, sizeof(entry)), ERRORS(EPERM, ENOSYS));
        expect(trial, "new mode", syscall(SYS_modify_ldt, 0x11, entry, sizeof(entry)), ERRORS(EPERM, ENOSYS));
        expect(trial, "read", syscall(SYS_modify_ldt, 0, entry, sizeof(entry)), ERRORS(EPERM, ENOSYS));
}
#else
static void other_architecture(struct trial *trial)
{
        decide(trial, HELD, "no such entry");
}
#define int_80 other_architecture
#define x32    other_architecture
#define ldt    other_architecture
#endif

static void set_personality(struct trial *trial, unsigned long persona)
{
        expect(trial, NULL, syscall(SYS_personality, persona), ERRORS(EPERM));
}

static void no_randomize(struct trial *trial)
{
        set_personality(trial, ADDR_NO_RANDOMIZE);
}

static void read_implies_exec(struct trial *trial)
{
        set_personality(trial, READ_IMPLIES_EXEC);
}

static void map_page_zero(struct trial *trial)
{
        set_personality(trial, MMAP_PAGE_ZERO);
        expect(trial, "mmap at 0",
               (long)(intptr_t)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
               ERRORS(EPERM, EACCES));
}

static void odd_domain(struct trial *trial)
{
        set_personality(trial, PER_SVR4);
        set_personality(trial, PER_LINUX32 | ADDR_COMPAT_LAYOUT);
}

static void old_calls(struct trial *trial)
{
        expect(trial, "uselib", syscall(134, "/nowhere"), ERRORS(EPERM, ENOSYS));
        expect(trial, "ustat", syscall(136, 0, NULL), ERRORS(EPERM, ENOSYS));
        expect(trial, "sysfs", syscall(139, 3), ERRORS(EPERM, ENOSYS));
        expect(trial, "_sysctl", syscall(156, NULL), ERRORS(EPERM, ENOSYS));
        expect(trial, "nfsservctl", syscall(180, 0, NULL, NULL), ERRORS(EPERM, ENOSYS));
}

static int exec_copy(void *path)
{
        execl(path, "escape", NULL);
        return errno;
}

// Where files are only data they do not run.
static void exec_from_tmp(struct trial *trial)
{
        static char tmp[] = "/tmp/copy", shm[] = "/dev/shm/copy";
        char *const paths[] = {tmp, shm};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                if (copy_self(paths[i]) < 0) {
                        decide(trial, UNDECIDED, "%s: %s", paths[i], strerrorname_np(errno));
                        continue;
                }
                // Without a name this program exits with 2, which is no error number that exec gives here.
                int status = in_child(exec_copy, paths[i]);
                errno = status;
                expect(trial, paths[i], status == UNDECIDED ? 0 : -1, ERRORS(EACCES));
        }
}

static const struct attempt attempts[] = {
        {"int-80", ALONE, "32-bit system calls", int_80, NULL},
        {"x32", ALONE, "x32 system calls", x32, NULL},
        {"modify-ldt", ALONE, "segments of its own", ldt, NULL},
        {"personality-no-randomize", ALONE, "turn address randomisation off", no_randomize, NULL},
        {"personality-read-implies-exec", ALONE, "make all memory executable", read_implies_exec, NULL},
        {"map-page-zero", ALONE, "map the page at 0", map_page_zero, NULL},
        {"personality-other", ALONE, "other execution domains", odd_domain, NULL},
        {"old-calls", ALONE, "calls of long ago", old_calls, NULL},
        {"exec-from-tmp", ALONE, "run a program from /tmp or /dev/shm", exec_from_tmp, NULL},
};
SUBJECT(entry_subject, "ways into the kernel", attempts);
