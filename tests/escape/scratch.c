// What a run leaves behind, for the next one or for the host to stumble over.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "escape.h"

// Deeper than any path may be long, and than a remover that recurses may go.
#define CHAIN_DEPTH 2500

static const char *const places[] = {"/tmp",      "/scratch",    "/dev/shm",  "/var/tmp", "/run",
                                     "/run/lock", "/dev/mqueue", "/var/lock", "/"};

static void leave_files(struct trial *trial)
{
        unsigned made = 0;

        for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
                char path[64];

                snprintf(path, sizeof(path), "%s/left-behind", places[i]);
                int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
                made += fd >= 0 && write(fd, "secret", 6) == 6;
                close(fd);
        }
        if (made < 3)
                decide(trial, UNDECIDED, "only %u files could be left", made);
}

static void find_files(struct trial *trial)
{
        for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
                char path[64];

                snprintf(path, sizeof(path), "%s/left-behind", places[i]);
                expect(trial, path, access(path, F_OK), ERRORS(ENOENT));
        }
}

static void leave_segments(struct trial *trial)
{
        int fd = shm_open("/left-behind", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        // Where no control group accounts it, there is no such memory.
        int id = shmget(0x5e5c, 4096, IPC_CREAT | 0666);

        if ((id < 0 && errno != ENOSYS) || fd < 0)
                decide(trial, UNDECIDED, "no shared memory could be left");
        close(fd);
}

static void find_segments(struct trial *trial)
{
        expect(trial, "System V", shmget(0x5e5c, 0, 0), ERRORS(ENOENT, ENOSYS));
        expect(trial, "POSIX", shm_open("/left-behind", O_RDONLY | O_CLOEXEC, 0), ERRORS(ENOENT));
}

static void leave_process(struct trial *trial)
{
        pid_t pid = fork();

        if (pid < 0)
                decide(trial, UNDECIDED, "fork");
        if (pid == 0) {
                // As a daemon would, out of reach of signals to the group, with the streams still open.
                setsid();
                signal(SIGHUP, SIG_IGN);
                signal(SIGTERM, SIG_IGN);
                if (fork() != 0)
                        _exit(0);
                int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
                struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0left-behind"};

                bind(fd, (struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 12));
                listen(fd, 1);
                for (;;)
                        pause();
        }
        usleep(50000);
}

static void find_process(struct trial *trial)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0left-behind"};

        expect(trial, "its socket",
               connect(fd, (struct sockaddr *)&address,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 12)),
               ERRORS(ECONNREFUSED));
        close(fd);
}

static int make_chain(const char *place)
{
        if (chdir(place) < 0)
                return -1;
        for (unsigned i = 0; i < CHAIN_DEPTH; i++)
                if (mkdir("deep", 0700) < 0 || chdir("deep") < 0)
                        return -1;
        return open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 ? -1 : chdir("/");
}

static void leave_chain(struct trial *trial)
{
        static const char *const deep[] = {"/tmp", "/scratch", "/dev/shm"};

        for (size_t i = 0; i < sizeof(deep) / sizeof(*deep); i++)
                if (make_chain(deep[i]) < 0)
                        decide(trial, UNDECIDED, "%s: %s", deep[i], strerrorname_np(errno));
}

static void find_chain(struct trial *trial)
{
        expect(trial, "/tmp", access("/tmp/deep", F_OK), ERRORS(ENOENT));
        expect(trial, "/scratch", access("/scratch/deep", F_OK), ERRORS(ENOENT));
        expect(trial, "/dev/shm", access("/dev/shm/deep", F_OK), ERRORS(ENOENT));
        leave_chain(trial); // and there is room for it again
}

// Names that lead a careless host out of /scratch. Whoever starts these then writes /scratch/planted as it
// writes a source file, looks at ESCAPE_DIRECTORY/secret, and runs /scratch/planted as it runs what a
// compiler made; then this half looks from a last sandbox.
static void plant_link(struct trial *trial)
{
        const char *directory = know(trial, "ESCAPE_DIRECTORY");
        char target[512];

        snprintf(target, sizeof(target), "%s/secret", directory != NULL ? directory : "");
        if (symlink(target, "/scratch/planted") < 0)
                decide(trial, UNDECIDED, "no link could be made");
}

static void plant_program_link(struct trial *trial)
{
        const char *directory = know(trial, "ESCAPE_DIRECTORY");
        char target[512];

        snprintf(target, sizeof(target), "%s/program", directory != NULL ? directory : "");
        if (symlink(target, "/scratch/planted") < 0)
                decide(trial, UNDECIDED, "no link could be made");
}

static void plant_magic_link(struct trial *trial)
{
        if (symlink("/proc/self/root/../proc/1/root/proc/self/exe", "/scratch/planted") < 0)
                decide(trial, UNDECIDED, "no link could be made");
}

static void plant_fifo(struct trial *trial)
{
        if (mkfifo("/scratch/planted", 0777) < 0)
                decide(trial, UNDECIDED, "no fifo could be made");
}

static void plant_directory(struct trial *trial)
{
        if (mkdir("/scratch/planted", 0777) < 0)
                decide(trial, UNDECIDED, "no directory could be made");
}

static void plant_socket(struct trial *trial)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/scratch/planted"};

        if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                decide(trial, UNDECIDED, "no socket could be made");
        close(fd);
}

static void look_at_planted(struct trial *trial)
{
        struct stat info;

        if (lstat("/scratch/planted", &info) < 0)
                decide(trial, UNDECIDED, "it is gone");
        else
                decide(trial, HELD, "neither followed nor replaced");
}

static const struct attempt attempts[] = {
        {"left-files", SEQUEL, "find files of an earlier run", find_files, leave_files},
        {"left-segments", SEQUEL, "find shared memory of an earlier run", find_segments, leave_segments},
        {"left-process", SEQUEL, "leave a process that outlives its run", find_process, leave_process},
        {"left-chain", SEQUEL, "leave directories 2,500 deep in /tmp, /scratch and /dev/shm", find_chain,
         leave_chain},
        {"plant-link", PLANT, "have the host write through a link to one of its files", look_at_planted,
         plant_link},
        {"plant-program-link", PLANT, "have the host run a program of its own by a link", look_at_planted,
         plant_program_link},
        {"plant-magic-link", PLANT, "have the host run pid 1's program by a link", look_at_planted,
         plant_magic_link},
        {"plant-fifo", PLANT, "have the host wait for a fifo", look_at_planted, plant_fifo},
        {"plant-directory", PLANT, "have the host write where a directory is", look_at_planted,
         plant_directory},
        {"plant-socket", PLANT, "have the host open a socket", look_at_planted, plant_socket},
};
SUBJECT(scratch_subject, "leftovers", attempts);
