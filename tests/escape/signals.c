// Signals to pid 1, to everybody and to processes outside.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "escape.h"

static void wait_a_little(void)
{
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

// A signal that pid 1 is not sent or does not heed; when it does, this program ends with it and the trial
// ends without a verdict.
static void kill_init(struct trial *trial)
{
        static const int numbers[] = {SIGTERM, SIGHUP, SIGSEGV, SIGSTOP, SIGKILL};

        for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
                long result = kill(1, numbers[i]);

                if (result == 0) {
                        wait_a_little();
                        decide(trial, HELD, "not heeded");
                } else {
                        expect(trial, "kill", result, ERRORS(EPERM));
                }
        }
        if (syscall(SYS_tgkill, 1, 1, SIGKILL) < 0)
                expect(trial, "tgkill", -1, ERRORS(EPERM));
}

static void queue_to_init(struct trial *trial)
{
        siginfo_t info = {.si_signo = SIGKILL, .si_code = SI_KERNEL};

        // What looks as if the kernel had sent it may be sent to oneself only.
        expect(trial, "forged", syscall(SYS_rt_sigqueueinfo, 1, SIGKILL, &info), ERRORS(EPERM));
}

static void pidfd_kill_init(struct trial *trial)
{
        int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
        long result = syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);

        if (result == 0) {
                wait_a_little();
                decide(trial, HELD, "not heeded");
        } else {
                expect(trial, NULL, result, ERRORS(EPERM, EBADF));
        }
        close(pidfd);
}

// Sees only processes of its own sandbox: itself and pid 1, with --all the one that started it.
static void see_processes(struct trial *trial)
{
        DIR *directory = opendir("/proc");
        unsigned count = 0;

        while (directory != NULL) {
                const struct dirent *entry = readdir(directory);

                if (entry == NULL)
                        break;
                count += strspn(entry->d_name, "0123456789") == strlen(entry->d_name);
        }
        if (directory != NULL)
                closedir(directory);
        if (count >= 1 && count <= 3)
                decide(trial, HELD, "its own only");
        else
                decide(trial, OPEN, "%u processes", count);
}

static void kill_outside(struct trial *trial)
{
        const char *text = know(trial, "ESCAPE_PID");
        long pid = text != NULL ? strtol(text, NULL, 10) : 0;

        if (pid > 20)
                expect(trial, NULL, kill((pid_t)pid, SIGTERM), ERRORS(ESRCH));
        else
                decide(trial, UNDECIDED, "its number may be one of ours");
}

static void probe_pids(struct trial *trial)
{
        unsigned others = 0;

        for (pid_t pid = 2; pid < 65536; pid++)
                others += pid != getpid() && pid != getppid() && (kill(pid, 0) == 0 || errno != ESRCH);
        // Threads and dead children of the same sandbox are few.
        if (others <= 1)
                decide(trial, HELD, "ESRCH");
        else
                decide(trial, OPEN, "%u processes answer", others);
}

static void own_outside(struct trial *trial)
{
        const char *text = know(trial, "ESCAPE_PID");
        int ends[2];

        if (text == NULL || pipe(ends) < 0)
                return;
        expect(trial, NULL, fcntl(ends[0], F_SETOWN, (int)strtol(text, NULL, 10)), ERRORS(ESRCH));
}

static void wait_for_ever(struct trial *trial)
{
        (void)trial;
}

// Whoever starts the pair sees whether the partner has survived.
static void kill_everybody(struct trial *trial)
{
        see_processes(trial);
        if (trial->verdict != HELD) {
                decide(trial, UNDECIDED, "no sandbox: not tried");
                return;
        }
        *trial->said = '\0';
        if (kill(-1, SIGKILL) < 0)
                expect(trial, NULL, -1, ERRORS(ESRCH, EPERM));
        else
                decide(trial, HELD, "its own only");
}

static const struct attempt attempts[] = {
        {"kill-init", ALONE, "kill or stop pid 1", kill_init, NULL},
        {"sigqueue-init", ALONE, "send pid 1 a signal that looks like the kernel's", queue_to_init, NULL},
        {"pidfd-kill-init", ALONE, "kill pid 1 by a pid descriptor", pidfd_kill_init, NULL},
        {"kill-outside", ALONE, "kill a process of the host", kill_outside, NULL},
        {"kill-everybody", PAIR, "kill -1 beside another sandbox", kill_everybody, wait_for_ever},
        {"sigio-outside", ALONE, "have SIGIO sent to a process of the host", own_outside, NULL},
        {"probe-pids", ALONE, "find a process by trying every number", probe_pids, NULL},
        {"see-processes", ALONE, "see processes of others in /proc", see_processes, NULL},
};
SUBJECT(signals_subject, "signals and processes", attempts);
