// Shared memory, semaphores, queues, files and locks between two sandboxes, and those of the host.
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include "escape.h"

#define KEY  0x5e5d
#define NAME "/escape-pair"
#define NONE ERRORS(ENOENT, ENOSYS)

// Where no control group accounts them, no such objects may be made at all; then there are none to find.
static void must(struct trial *trial, const char *what, long result)
{
        if (result < 0 && errno != ENOSYS)
                decide(trial, UNDECIDED, "%s: %s", what, strerrorname_np(errno));
}

static void make_shm(struct trial *trial)
{
        must(trial, "shmget", shmget(KEY, 4096, IPC_CREAT | 0666));
}

static void find_shm(struct trial *trial)
{
        expect(trial, NULL, shmget(KEY, 0, 0), NONE);
        // By number as well, which needs no key.
        for (int id = 0; id < 64; id++)
                if (shmat(id, NULL, SHM_RDONLY) != (void *)-1)
                        decide(trial, OPEN, "segment %d attached", id);
}

static void make_msg(struct trial *trial)
{
        must(trial, "msgget", msgget(KEY, IPC_CREAT | 0666));
}

static void find_msg(struct trial *trial)
{
        expect(trial, NULL, msgget(KEY, 0), NONE);
}

static void make_sem(struct trial *trial)
{
        must(trial, "semget", semget(KEY, 1, IPC_CREAT | 0666));
}

static void find_sem(struct trial *trial)
{
        expect(trial, NULL, semget(KEY, 0, 0), NONE);
}

static void make_posix_shm(struct trial *trial)
{
        must(trial, "shm_open", shm_open(NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
        if (sem_open(NAME, O_CREAT, 0666, 0) == SEM_FAILED)
                must(trial, "sem_open", -1);
}

static void find_posix_shm(struct trial *trial)
{
        expect(trial, "memory", shm_open(NAME, O_RDONLY | O_CLOEXEC, 0), ERRORS(ENOENT));
        expect(trial, "semaphore", sem_open(NAME, 0) == SEM_FAILED ? -1 : 0, ERRORS(ENOENT));
}

// No message queue may be made at all where its memory is not allowed for; then there is nothing to find.
static void make_queue(struct trial *trial)
{
        if (mq_open(NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0666, NULL) == (mqd_t)-1 && errno != EMFILE)
                must(trial, "mq_open", -1);
}

static void find_queue(struct trial *trial)
{
        expect(trial, NULL, mq_open(NAME, O_RDONLY | O_CLOEXEC), NONE);
}

static void make_files(struct trial *trial)
{
        static const char *const paths[] = {"/tmp/escape-pair", "/scratch/escape-pair",
                                            "/dev/shm/escape-pair-file"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                must(trial, paths[i], open(paths[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
}

static void find_files(struct trial *trial)
{
        static const char *const paths[] = {"/tmp/escape-pair", "/scratch/escape-pair",
                                            "/dev/shm/escape-pair-file"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                expect(trial, paths[i], access(paths[i], F_OK), ERRORS(ENOENT));
}

static int shared_file(void)
{
        static const char *const paths[] = {"/etc/passwd", "/etc/ld.so.cache", "/usr/bin/env"};
        int fd = -1;

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths) && fd < 0; i++)
                fd = open(paths[i], O_RDONLY);
        return fd;
}

static void hold_lock(struct trial *trial)
{
        must(trial, "flock", flock(shared_file(), LOCK_EX | LOCK_NB));
}

static void meet_lock(struct trial *trial)
{
        int fd = shared_file();

        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                decide(trial, HELD, "not seen");
        else if (errno == EWOULDBLOCK)
                decide(trial, OPEN, "seen");
        else
                decide(trial, UNDECIDED, "%s", strerrorname_np(errno));
        close(fd);
}

static void host_shm(struct trial *trial)
{
        const char *key = know(trial, "ESCAPE_KEY");

        if (key != NULL)
                expect(trial, NULL, shmget((key_t)strtol(key, NULL, 10), 0, 0), NONE);
}

static void wait_idle(struct trial *trial)
{
        (void)trial;
}

// The partner has the same numbers as we have: those must mean our own processes.
static void signal_partner(struct trial *trial)
{
        unsigned hit = 0;

        for (pid_t pid = 2; pid < 4096; pid++)
                hit += pid != getpid() && kill(pid, SIGKILL) == 0;
        if (hit == 0)
                decide(trial, HELD, "ESRCH");
        else
                decide(trial, OPEN, "%u processes hit", hit);
}

static const struct attempt attempts[] = {
        {"pair-shm", PAIR, "System V shared memory of another sandbox", find_shm, make_shm},
        {"pair-msg", PAIR, "System V message queue of another sandbox", find_msg, make_msg},
        {"pair-sem", PAIR, "System V semaphores of another sandbox", find_sem, make_sem},
        {"pair-posix-shm", PAIR, "POSIX shared memory and semaphores of another sandbox", find_posix_shm,
         make_posix_shm},
        {"pair-mqueue", PAIR, "POSIX message queue of another sandbox", find_queue, make_queue},
        {"pair-files", PAIR, "files of another sandbox in /tmp, /scratch and /dev/shm", find_files,
         make_files},
        {"pair-signal", PAIR, "signals to another sandbox by number", signal_partner, wait_idle},
        {"pair-lock", PAIR, "see a lock that another sandbox holds on a file of the image", meet_lock,
         hold_lock},
        {"host-shm", ALONE, "System V shared memory of the host", host_shm, NULL},
};
SUBJECT(ipc_subject, "between sandboxes", attempts);
