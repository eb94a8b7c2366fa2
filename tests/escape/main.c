// escape --list                 each attempt: name, kind, subject, description, separated by tabs
// escape NAME                   makes the attempt; prints NAME, a tab and what happened
// escape NAME first             prepares it (kinds with two halves); prints "ready" and, for a pair, stays
// escape --all                  makes every attempt that needs no partner, each in a process of its own
// escape --arm                  makes /scratch/escape executable (see driver.c)
//
// Exit code: 0 the wall held, 1 it did not, 2 it could not be decided.
//
// Environment: ESCAPE_SANDBOXED must be set, so that nobody runs this on a host by mistake. About the host:
// ESCAPE_PID a process, ESCAPE_PORT a TCP listener on its loopback, ESCAPE_SOCKET an abstract and
// ESCAPE_DIRECTORY/socket a Unix listener, ESCAPE_DIRECTORY/secret a file, ESCAPE_KEY a System V segment.

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escape.h"

#define SECONDS_MAX 25 // under emulation some take many

static const struct subject *const subjects[] = {
        &namespaces_subject, &mounts_subject,  &init_subject,    &signals_subject,
        &limits_subject,     &ids_subject,     &proc_subject,    &devices_subject,
        &files_subject,      &image_subject,   &scratch_subject, &sockets_subject,
        &ipc_subject,        &surface_subject, &machine_subject, &entry_subject,
};
static const char *const kinds[] = {"alone", "sealed", "pair", "sequel", "plant", "job"};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

// OPEN is worse than UNDECIDED is worse than HELD.
static unsigned badness(enum verdict verdict)
{
        return verdict == HELD ? 0 : verdict == UNDECIDED ? 1 : 2;
}

void decide(struct trial *trial, enum verdict verdict, const char *format, ...)
{
        va_list arguments;

        if (*trial->said != '\0' && badness(verdict) <= badness(trial->verdict))
                return;
        trial->verdict = verdict;
        va_start(arguments, format);
        vsnprintf(trial->said, sizeof(trial->said), format, arguments);
        va_end(arguments);
}

bool expect(struct trial *trial, const char *label, long result, const int *errors)
{
        int errnum = errno;
        const char *name = strerrorname_np(errnum);
        bool wall = false;

        for (; *errors != 0; errors++)
                wall = wall || (result < 0 && errnum == *errors);
        if (result >= 0)
                decide(trial, OPEN, "%s%sallowed", label != NULL ? label : "", label != NULL ? ": " : "");
        else if (!wall)
                decide(trial, OPEN, "%s%s%s", label != NULL ? label : "", label != NULL ? ": " : "",
                       name != NULL ? name : "an unknown error");
        else
                decide(trial, HELD, "%s", name != NULL ? name : "an unknown error");
        return wall;
}

const char *know(struct trial *trial, const char *name)
{
        const char *value = getenv(name);

        if (value == NULL)
                decide(trial, UNDECIDED, "%s is not set", name);
        return value;
}

int in_child(int (*function)(void *), void *argument)
{
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(function(argument));
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return 255;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

long read_text(const char *path, char *text, size_t size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t length = 0;
        ssize_t n = 0;

        if (fd < 0)
                return -1;
        while (length < size - 1 && (n = read(fd, text + length, size - 1 - length)) > 0)
                length += (size_t)n;
        int errnum = errno;
        close(fd);
        errno = errnum;
        text[length] = '\0';
        return n < 0 ? -1 : (long)length;
}

int copy_self(const char *to)
{
        int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        int fd = from < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
        ssize_t n = fd < 0 ? -1 : 1;

        while (n > 0)
                n = sendfile(fd, from, NULL, 1 << 20);
        int errnum = errno;
        close(from);
        close(fd);
        errno = errnum;
        return n < 0 ? -1 : 0;
}

static const struct attempt *find(const char *name)
{
        for (size_t i = 0; i < COUNT(subjects); i++)
                for (size_t j = 0; j < subjects[i]->count; j++)
                        if (strcmp(subjects[i]->attempts[j].name, name) == 0)
                                return &subjects[i]->attempts[j];
        return NULL;
}

static int list(void)
{
        for (size_t i = 0; i < COUNT(subjects); i++)
                for (size_t j = 0; j < subjects[i]->count; j++) {
                        const struct attempt *attempt = &subjects[i]->attempts[j];

                        printf("%s\t%s\t%s\t%s\n", attempt->name, kinds[attempt->kind], subjects[i]->name,
                               attempt->what);
                }
        return 0;
}

static int perform(const struct attempt *attempt)
{
        struct trial trial = {.verdict = HELD};

        alarm(SECONDS_MAX);
        attempt->run(&trial);
        if (*trial.said == '\0')
                decide(&trial, UNDECIDED, "nothing was tried");
        printf("%s\t%s\n", attempt->name, trial.said);
        return trial.verdict;
}

static int prepare(const struct attempt *attempt)
{
        struct trial trial = {.verdict = HELD};

        if (attempt->first == NULL) {
                fprintf(stderr, "escape: %s has no first half\n", attempt->name);
                return UNDECIDED;
        }
        attempt->first(&trial);
        if (trial.verdict != HELD) {
                printf("%s\t%s\n", attempt->name, trial.said);
                return trial.verdict;
        }
        printf("ready\n");
        fflush(stdout);
        while (attempt->kind == PAIR)
                pause();
        return 0;
}

static int run_one(void *name)
{
        execl("/proc/self/exe", "escape", name, NULL);
        return UNDECIDED;
}

static int run_all(void)
{
        int worst = HELD;

        for (size_t i = 0; i < COUNT(subjects); i++)
                for (size_t j = 0; j < subjects[i]->count; j++) {
                        const struct attempt *attempt = &subjects[i]->attempts[j];

                        if (attempt->kind != ALONE && attempt->kind != SEALED)
                                continue;
                        int status = in_child(run_one, (void *)(size_t)attempt->name);
                        if (status < 0)
                                printf("%s\tended by signal %d\n", attempt->name, -status);
                        printf("=\t%d\n", status < 0 ? UNDECIDED : status);
                        fflush(stdout);
                        if (status != HELD)
                                worst = OPEN;
                }
        return worst;
}

int main(int argc, char **argv)
{
        if (argc == 2 && strcmp(argv[1], "--list") == 0)
                return list();
        if (getenv("ESCAPE_SANDBOXED") == NULL) {
                fputs("escape: this is for the inside of a sandbox: see escape-driver, which makes one\n",
                      stderr);
                return UNDECIDED;
        }
        if (argc == 2 && strcmp(argv[1], "--all") == 0)
                return run_all();
        if (argc == 2 && strcmp(argv[1], "--arm") == 0) {
                if (chmod("/scratch/escape", 0755) == 0)
                        return 0;
                perror("escape: /scratch/escape");
                return UNDECIDED;
        }

        const struct attempt *attempt = argc == 2 || argc == 3 ? find(argv[1]) : NULL;

        if (attempt == NULL || (argc == 3 && strcmp(argv[2], "first") != 0)) {
                fputs("usage: escape --list | --all | NAME [first]\n", stderr);
                return UNDECIDED;
        }
        return argc == 3 ? prepare(attempt) : perform(attempt);
}
