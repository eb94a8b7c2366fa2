#include "sandbox/subid.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

// /etc/subuid and /etc/passwd of a machine with many users.
#define FILE_MAX (16 << 20)
// As many ids as a distribution gives a user, and where it begins (SUB_UID_COUNT and SUB_UID_MIN of man 5
// login.defs).
#define NEW_RANGE 65536u
#define FIRST_NEW 100000u

// What such a program says is one sentence.
#define OUTPUT_MAX 4096
// They may ask a directory service who the user is (milliseconds).
#define HELPER_TIMEOUT_MS 5000

static bool parse_line(const char *line, const char *name, uid_t uid, struct sr_subid_range *ret)
{
        const char *colon = strchr(line, ':');
        char number[16];
        uint64_t first, count;

        if (colon == NULL)
                return false;
        size_t length = (size_t)(colon - line);
        int digits = snprintf(number, sizeof(number), "%u", (unsigned)uid);
        bool by_name = name != NULL && strlen(name) == length && memcmp(line, name, length) == 0;
        bool by_number = (size_t)digits == length && memcmp(line, number, length) == 0;

        if ((!by_name && !by_number) || sscanf(colon, ":%" SCNu64 ":%" SCNu64, &first, &count) != 2)
                return false;
        // 0 belongs to root and the last id to nobody (-1 means "leave it" in the calls that change ids).
        if (first == 0 || count == 0 || first >= UINT32_MAX || count > UINT32_MAX - first)
                return false;
        *ret = (struct sr_subid_range){.first = (uint32_t)first, .count = (uint32_t)count};
        return true;
}

bool sr_subid_find(const char *text, const char *name, uid_t uid, struct sr_subid_range *ret)
{
        struct sr_subid_range best = {0}, found;

        for (const char *line = text; line != NULL && *line != '\0';) {
                if (parse_line(line, name, uid, &found) && found.count > best.count)
                        best = found;
                line = strchr(line, '\n');
                line = line != NULL ? line + 1 : NULL;
        }
        if (best.count > 0)
                *ret = best;
        return best.count > 0;
}

// Ids that somebody has: from first to before end.
struct taken {
        uint64_t first, end;
};

static void add_taken(struct sr_buf *list, uint64_t first, uint64_t count)
{
        const uint64_t ids = UINT64_C(1) << 32;

        if (first >= ids || count == 0)
                return;
        struct taken taken = {first, count < ids - first ? first + count : ids};

        sr_buf_append(list, &taken, sizeof(taken));
}

static int read_lines(const char *root, const char *path, struct sr_buf *list,
                      void (*read_line)(const char *line, struct sr_buf *list))
{
        _cleanup_free_ char *full = sr_asprintf("%s%s", root, path);
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_fd_read_file(AT_FDCWD, full, FILE_MAX, &text);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (const char *line = text.data; line != NULL && *line != '\0';) {
                read_line(line, list);
                line = strchr(line, '\n');
                line = line != NULL ? line + 1 : NULL;
        }
        return 0;
}

static void read_range(const char *line, struct sr_buf *list)
{
        const char *colon = strpbrk(line, ":\n");
        uint64_t first, count;

        if (*line != '#' && colon != NULL && sscanf(colon, ":%" SCNu64 ":%" SCNu64, &first, &count) == 2)
                add_taken(list, first, count);
}

// name:password:uid:gid:… (man 5 passwd); the password may be empty.
static void read_account(const char *line, struct sr_buf *list)
{
        const char *colon = strpbrk(line, ":\n");
        uint64_t uid, gid;

        colon = colon != NULL && *colon == ':' ? strpbrk(colon + 1, ":\n") : NULL;
        if (colon != NULL && sscanf(colon, ":%" SCNu64 ":%" SCNu64, &uid, &gid) == 2) {
                add_taken(list, uid, 1);
                add_taken(list, gid, 1);
        }
}

static int by_first(const void *a, const void *b)
{
        const struct taken *left = a, *right = b;

        return left->first < right->first ? -1 : left->first > right->first;
}

static uint64_t align(uint64_t id)
{
        return (id + NEW_RANGE - 1) / NEW_RANGE * NEW_RANGE;
}

// The first range from `from` on that is clear of all that is taken, which is sorted.
static uint64_t find_free(const struct taken *taken, size_t count, uint64_t from)
{
        uint64_t first = align(from);

        for (size_t i = 0; i < count; i++)
                if (taken[i].end > first && taken[i].first < first + NEW_RANGE)
                        first = align(taken[i].end);
        return first;
}

char *sr_subid_add_command(const char *root, const char *name, uint32_t root_id_base)
{
        _cleanup_buf_ struct sr_buf list = {0};
        uint64_t beyond = FIRST_NEW;

        if (read_lines(root, "/etc/subuid", &list, read_range) < 0 ||
            read_lines(root, "/etc/subgid", &list, read_range) < 0)
                return NULL;
        for (size_t i = 0; i < list.len / sizeof(struct taken); i++) {
                const struct taken *taken = (const struct taken *)list.data + i;

                if (taken->end > beyond)
                        beyond = taken->end;
        }
        if (read_lines(root, "/etc/passwd", &list, read_account) < 0)
                return NULL;
        add_taken(&list, root_id_base, NEW_RANGE);

        struct taken *taken = (struct taken *)list.data;
        size_t count = list.len / sizeof(*taken);

        qsort(taken, count, sizeof(*taken), by_first);
        uint64_t first = find_free(taken, count, beyond);

        // The last id of all cannot be had.
        if (first + NEW_RANGE > UINT32_MAX)
                first = find_free(taken, count, FIRST_NEW);
        if (first + NEW_RANGE > UINT32_MAX)
                return NULL;
        uint64_t last = first + NEW_RANGE - 1;

        return sr_asprintf("usermod --add-subuids %" PRIu64 "-%" PRIu64 " --add-subgids %" PRIu64 "-%" PRIu64
                           " %s",
                           first, last, first, last, name);
}

char *sr_subid_find_program(const char *name)
{
        static const char *const directories[] = {"/usr/bin", "/bin", "/usr/local/bin"};

        for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++) {
                char *path = sr_asprintf("%s/%s", directories[i], name);

                if (access(path, X_OK) == 0)
                        return path;
                free(path);
        }
        return NULL;
}

int sr_subid_start(const char *program, char *const *arguments, struct sr_subid_helper *ret)
{
        char *environment[] = {NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, all;
        int pipes[2];

        if (pipe2(pipes, O_CLOEXEC) < 0)
                return -errno;
        _cleanup_close_ int ours = pipes[0], theirs = pipes[1];

        sigemptyset(&none);
        sigfillset(&all);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        int r = -posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        if (r == 0)
                r = -posix_spawn_file_actions_adddup2(&actions, theirs, 1);
        if (r == 0)
                r = -posix_spawn_file_actions_adddup2(&actions, theirs, 2);
        if (r == 0)
                r = -posix_spawn(&ret->pid, program, &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        if (r < 0)
                *ret = SR_SUBID_HELPER_NONE;
        else
                ret->output = sr_fd_steal(ours);
        return r;
}

// Reads to the end of its output. Kills a program that takes too long.
static int drain(const struct sr_subid_helper *helper, char text[OUTPUT_MAX])
{
        uint64_t deadline = sr_clock_monotonic_ns() + HELPER_TIMEOUT_MS * 1000000ull;
        size_t length = 0;

        text[0] = '\0';
        for (;;) {
                struct pollfd wait = {.fd = helper->output, .events = POLLIN};
                uint64_t now = sr_clock_monotonic_ns();
                char rest[512];
                int n = now < deadline ? poll(&wait, 1, (int)((deadline - now) / 1000000) + 1) : 0;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        (void)kill(helper->pid, SIGKILL);
                        return n < 0 ? -errno : -ETIMEDOUT;
                }
                bool full = length == OUTPUT_MAX - 1;
                ssize_t got = read(helper->output, full ? rest : text + length,
                                   full ? sizeof(rest) : OUTPUT_MAX - 1 - length);

                if (got == 0 || (got < 0 && errno != EINTR))
                        return 0;
                if (got > 0 && !full)
                        length += (size_t)got;
                text[length] = '\0';
        }
}

int sr_subid_finish(struct sr_subid_helper *helper, char **ret_said)
{
        char text[OUTPUT_MAX] = "";
        int status = 0, r;
        pid_t pid;

        if (helper->pid <= 0)
                return 0;
        r = drain(helper, text);
        do
                pid = waitpid(helper->pid, &status, 0);
        while (pid < 0 && errno == EINTR);
        helper->output = sr_fd_close(helper->output);
        helper->pid = 0;
        if (r == 0 && (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0))
                r = -EPERM;
        if (r < 0) {
                text[strcspn(text, "\n")] = '\0';
                *ret_said = sr_strdup(text);
        }
        return r;
}
