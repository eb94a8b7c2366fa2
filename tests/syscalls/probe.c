// Which system calls get through the filters this program runs under. Static, so that it runs anywhere: on
// the host, in a sandbox, in a container of another make.
//
//   probe ask [x32|i386]   asks the kernel for its filters' verdict on every number; no call is made
//   probe call             makes every call, with arguments that fail, and tells what it answered
//
// A line a number: the number, a space, and one of: through (ask alone), an errno's number, 0 for success,
// "killed N" by signal N, "hung". With call, "skipped" for what the table below names.
//
// Theory of operation of ask. A process adds a filter of its own that passes every call on to a listener
// (SECCOMP_RET_USER_NOTIF). Of all filters the strictest answer counts, and an errno is stricter than that:
// what an older filter refuses gets its errno, and what all older ones allow waits for the listener, which
// sees that and kills the process; another one goes on. So nothing is made, not even exit or reboot, and
// every number has a definite verdict. The listener is the parent, which shares descriptors with the process,
// and memory for the verdicts: from its filter on the process can make no other call. It asks with a few sets
// of arguments, because some filters look at them, and a number is through when one of them is.
//
// call shows the same from the other side: with each number in a process of its own.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBERS 512 // well above the highest call of any kernel that is known
#define X32     0x40000000
#define THROUGH 1 // an answer that no call has: those are 0 or a negative errno

enum entry { NATIVE, X32_CALLS, I386_CALLS };

// Not to be made with arguments that fail, because they have none or do not come back.
static const struct {
        long number;
        const char *reason;
} not_made[] = {
#ifdef SYS_vfork
        {SYS_vfork, "the child would run on its parent's stack"},
#endif
#ifdef SYS_pause
        {SYS_pause, "it waits for ever, as it should"},
#endif
        {SYS_exit, "it does not come back"},
        {SYS_exit_group, "it does not come back"},
        {SYS_rt_sigreturn, "it takes the registers from the stack, whatever lies there"},
};

struct verdicts {
        volatile long answers[NUMBERS]; // THROUGH, or what the call with the first arguments answered
        volatile int number;            // in question
        volatile int listener;          // -1: not there yet; below that: an errno, there will be none
        volatile bool done;
};

static long native_call(long number, const long *arguments)
{
#ifdef __x86_64__
        long result;
        register long r10 __asm__("r10") = arguments[3];
        register long r8 __asm__("r8") = arguments[4];
        register long r9 __asm__("r9") = arguments[5];

        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10),
                           "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
        return result;
#else
        long result = syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                              arguments[5]);

        return result == -1 ? -errno : result;
#endif
}

static long make_call(enum entry entry, long number, const long *arguments)
{
#ifdef __x86_64__
        if (entry == I386_CALLS) {
                int result;

                __asm__ volatile("int $0x80"
                                 : "=a"(result)
                                 : "a"((int)number), "b"((int)arguments[0]), "c"((int)arguments[1]),
                                   "d"((int)arguments[2]), "S"((int)arguments[3]), "D"((int)arguments[4])
                                 : "r8", "r9", "r10", "r11", "memory");
                return result;
        }
#endif
        return native_call(entry == X32_CALLS ? number | X32 : number, arguments);
}

static const long argument_sets[][6] = {
        {0},
        {1, 1, 0, 0, 0, 0},      // of socket: AF_UNIX, SOCK_STREAM
        {0, 0x5401, 0, 0, 0, 0}, // of ioctl: TCGETS
        {-1, -1, -1, -1, -1, -1},
};
#define SETS ((int)(sizeof(argument_sets) / sizeof(*argument_sets)))

static _Noreturn void ask_all(enum entry entry, struct verdicts *verdicts)
{
        struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
        const struct sock_fprog filter = {.len = 1, .filter = code};
        long listener = -1;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
                listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                                   &filter);
        if (listener < 0) {
                verdicts->listener = -1 - errno;
                _exit(1);
        }
        verdicts->listener = (int)listener;
        for (int number = verdicts->number; number < NUMBERS; number++) {
                verdicts->number = number;
                for (int set = 0; set < SETS; set++) {
                        long answer = make_call(entry, number, argument_sets[set]);

                        if (set == 0)
                                verdicts->answers[number] = answer;
                }
        }
        verdicts->done = true;
        for (;;) // exit would only wait for the listener; the parent kills
                ;
}

static bool has_ended(pid_t child)
{
        siginfo_t info = {0};

        return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
}

// Waits for the end of what asker can do by itself. True: its call waits for the listener.
static bool watch(const struct verdicts *verdicts, pid_t asker)
{
        struct pollfd event = {.fd = verdicts->listener, .events = POLLIN};

        while (!verdicts->done && !has_ended(asker))
                if (poll(&event, 1, 10) > 0 && (event.revents & POLLIN) != 0)
                        return true;
        return false;
}

// Memory that children share, of a file: there is none without one where the watchdog holds memory.
static void *shared_memory(size_t size)
{
        FILE *file = tmpfile();

        if (file == NULL || ftruncate(fileno(file), (off_t)size) < 0)
                return MAP_FAILED;
        void *result = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        fclose(file);
        return result;
}

static int ask(enum entry entry)
{
        struct verdicts *verdicts = shared_memory(sizeof(*verdicts));
        int killed[NUMBERS] = {0};

        if (verdicts == MAP_FAILED)
                return perror("probe: mmap"), 1;
        while (!verdicts->done && verdicts->number < NUMBERS) {
                int status = 0;

                verdicts->listener = -1;

                pid_t asker = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);

                if (asker < 0)
                        return perror("probe: clone"), 1;
                if (asker == 0)
                        ask_all(entry, verdicts);
                while (verdicts->listener == -1 && !has_ended(asker))
                        usleep(100);
                if (verdicts->listener < 0) {
                        fprintf(stderr, "probe: no filter with a listener: %s\n",
                                strerror(-1 - verdicts->listener));
                        return 1;
                }

                bool through = watch(verdicts, asker);

                if (through || verdicts->done)
                        kill(asker, SIGKILL);
                waitpid(asker, &status, 0);
                close(verdicts->listener);
                if (through)
                        verdicts->answers[verdicts->number] = THROUGH;
                else if (!verdicts->done) // a filter or the kernel killed it for what it asked
                        killed[verdicts->number] = WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;
                verdicts->number++;
        }
        for (int number = 0; number < NUMBERS; number++) {
                if (killed[number] != 0)
                        printf("%d killed %d\n", number, killed[number]);
                else if (verdicts->answers[number] == THROUGH)
                        printf("%d through\n", number);
                else
                        printf("%d %ld\n", number, -verdicts->answers[number]);
        }
        return 0;
}

static bool is_made(long number)
{
        for (size_t i = 0; i < sizeof(not_made) / sizeof(*not_made); i++)
                if (not_made[i].number == number)
                        return false;
        return true;
}

static void call_one(long number, volatile long *answer)
{
        static const long arguments[6] = {-1, -1, -1, -1, -1, -1};
        const struct itimerval limit = {.it_value = {.tv_sec = 1}};
        const pid_t self = getpid();

        setitimer(ITIMER_REAL, &limit, NULL); // SIGALRM ends it
        *answer = 1;

        long result = make_call(NATIVE, number, arguments);

        if (getpid() == self) // fork has no arguments to fail by
                *answer = result >= 0 ? 0 : result;
        _exit(0);
}

static int call(void)
{
        volatile long *answer = shared_memory(sizeof(*answer));

        if (answer == MAP_FAILED)
                return perror("probe: mmap"), 1;
        for (long number = 0; number < NUMBERS; number++) {
                int status = 0;

                if (!is_made(number)) {
                        printf("%ld skipped\n", number);
                        fflush(stdout);
                        continue;
                }
                fflush(stdout);

                pid_t child = fork();

                if (child < 0)
                        return perror("probe: fork"), 1;
                if (child == 0)
                        call_one(number, answer);
                if (waitpid(child, &status, 0) < 0)
                        return perror("probe: waitpid"), 1;
                if (*answer <= 0)
                        printf("%ld %ld\n", number, -*answer);
                else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM)
                        printf("%ld killed %d\n", number, WTERMSIG(status));
                else
                        printf("%ld hung\n", number);
        }
        return 0;
}

int main(int argc, char **argv)
{
        const char *what = argc > 1 ? argv[1] : "", *entry = argc > 2 ? argv[2] : "";
        int result;

        // A core file of a probe tells nothing.
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (strcmp(what, "ask") == 0 && *entry == '\0')
                result = ask(NATIVE);
#ifdef __x86_64__
        else if (strcmp(what, "ask") == 0 && strcmp(entry, "x32") == 0)
                result = ask(X32_CALLS);
        else if (strcmp(what, "ask") == 0 && strcmp(entry, "i386") == 0)
                result = ask(I386_CALLS);
#endif
        else if (strcmp(what, "call") == 0)
                result = call();
        else
                return fputs("usage: probe ask [x32|i386] | probe call\n", stderr), 2;
        if (fflush(stdout) != 0)
                return perror("probe: writing"), 1;
        return result;
}
