// The timing loop of the benchmark: starts programs, or sends requests to a resident server, and prints what
// each took. It does as little as it can around the measured part, so that small differences show.
//
//   measure spawn  COUNT AT_ONCE [option…] -- ARGUMENT… [--then ARGUMENT…]
//       From before the spawn to after the reaping; with --then both programs, one after the other.
//       --root TREE      first move into this root file system, once, with a tmpfs on /scratch and /tmp,
//       /proc
//                        and /dev: what then starts is a bare program in a chroot
//       --file FROM TO   write the content of FROM to TO (a path inside the root), with a line of its own
//                        before each run, so that no result can be one that was kept
//       --filter         descriptor 9 of the program is a seccomp filter (for bubblewrap)
//   measure server COUNT AT_ONCE --language NAME --code FILE [--vary] -- ARGUMENT…
//       Starts the server, warms it up, sends run_code requests; from the write to the answer's line.
//
// Prints, a line each: "run <µs> <µs of the sandboxes> <µs of the run>", at last "all <µs>". The second and
// third are the server's own figures, 0 without one: from the launch of each stage's sandbox to the end of
// its program, and the whole run. A run that fails ends it.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AT_ONCE_MAX   64
#define WARM_UP       6
#define FILTER_TARGET 9

static char **arguments, **then_arguments;
static const char *file_from, *file_to, *root, *language, *code_path;
static bool use_filter, vary;
static long count, at_once;
static double *spent, *sandboxes, *inside;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
        va_list list;
        va_start(list, format);
        fputs("measure: ", stderr);
        vfprintf(stderr, format, list);
        va_end(list);
        fputc('\n', stderr);
        exit(1);
}

static double now_us(void)
{
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static char *read_all(const char *path, size_t *ret_length)
{
        FILE *file = fopen(path, "re");
        if (!file)
                fail("%s: %m", path);
        char *text = NULL;
        size_t size = 0, length = 0, got;
        do {
                if (size - length < 4096)
                        text = realloc(text, size = size * 2 + 8192);
                if (!text)
                        fail("out of memory");
                got = fread(text + length, 1, size - length - 1, file);
                length += got;
        } while (got > 0);
        fclose(file);
        text[length] = '\0';
        *ret_length = length;
        return text;
}

static void write_all(const char *path, const char *text, size_t length)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, text, length) != (ssize_t)length)
                fail("%s: %m", path);
        close(fd);
}

// The line that makes a source unlike the one before. A comment in C++ and in Python.
static int own_line(char *buffer, size_t size, const char *path, long number)
{
        const char *sign = strstr(path, ".py") ? "#" : "//";
        return snprintf(buffer, size, "%s %d %ld\n", sign, getpid(), number);
}

static void write_own_copy(long number)
{
        static char *text;
        static size_t length;
        if (!text) {
                text = read_all(file_from, &length);
                text = realloc(text, length + 100);
                if (!text)
                        fail("out of memory");
                return;
        }
        int added = own_line(text + length, 100, file_to, number);
        write_all(file_to, text, length + (size_t)added);
}

// A bare program: the root file system, and nothing that costs anything per run.

static void write_map(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, text, strlen(text)) < 0)
                fail("%s: %m", path);
        close(fd);
}

static void mount_in_root(const char *source, const char *name, const char *type, unsigned long flags)
{
        char *path;
        if (asprintf(&path, "%s/%s", root, name) < 0)
                fail("out of memory");
        if (mount(source, path, type, flags, NULL) < 0)
                fail("mount %s: %m", path);
        free(path);
}

static void enter_root(void)
{
        uid_t uid = geteuid();
        gid_t gid = getegid();
        if (unshare(CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0)) < 0)
                fail("unshare: %m");
        if (uid) {
                char map[64];
                write_map("/proc/self/setgroups", "deny");
                snprintf(map, sizeof map, "%u %u 1", uid, uid);
                write_map("/proc/self/uid_map", map);
                snprintf(map, sizeof map, "%u %u 1", gid, gid);
                write_map("/proc/self/gid_map", map);
        }
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                fail("mount: %m");
        mount_in_root("tmpfs", "scratch", "tmpfs", 0);
        mount_in_root("tmpfs", "tmp", "tmpfs", 0);
        mount_in_root("/proc", "proc", NULL, MS_BIND | MS_REC);
        mount_in_root("/dev", "dev", NULL, MS_BIND | MS_REC);
        if (chroot(root) < 0 || chdir("/scratch") < 0)
                fail("chroot %s: %m", root);
}

// A filter of ordinary size for bubblewrap, which brings none: everything but a few calls. -1: none asked
// for.
static int make_filter(void)
{
        static const char *const refused[] = {
                "acct",
                "add_key",
                "bpf",
                "clock_adjtime",
                "clock_settime",
                "delete_module",
                "fanotify_init",
                "finit_module",
                "fsconfig",
                "fsmount",
                "fsopen",
                "init_module",
                "io_uring_enter",
                "io_uring_register",
                "io_uring_setup",
                "ioperm",
                "iopl",
                "kcmp",
                "kexec_load",
                "keyctl",
                "mount",
                "move_mount",
                "open_by_handle_at",
                "open_tree",
                "perf_event_open",
                "pidfd_getfd",
                "pivot_root",
                "process_vm_readv",
                "process_vm_writev",
                "ptrace",
                "quotactl",
                "reboot",
                "request_key",
                "setns",
                "sethostname",
                "swapoff",
                "swapon",
                "syslog",
                "umount2",
                "unshare",
                "userfaultfd",
                "vhangup",
        };
        if (!use_filter)
                return -1;
        scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
        if (!filter)
                fail("seccomp_init failed");
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
                int number = seccomp_syscall_resolve_name(refused[i]);
                if (number != __NR_SCMP_ERROR &&
                    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0) < 0)
                        fail("no rule for %s", refused[i]);
        }
        int fd = memfd_create("filter", MFD_CLOEXEC);
        if (fd < 0 || seccomp_export_bpf(filter, fd) < 0)
                fail("the filter cannot be exported");
        seccomp_release(filter);
        return fd;
}

static pid_t spawn(char **words, int filter)
{
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        int own = -1;
        if (filter >= 0) {
                // Opened anew: bubblewrap reads it to its end, and runs at once must not share a position.
                char path[64];
                snprintf(path, sizeof path, "/proc/self/fd/%d", filter);
                own = open(path, O_RDONLY | O_CLOEXEC);
                if (own < 0)
                        fail("%s: %m", path);
                posix_spawn_file_actions_adddup2(&actions, own, FILTER_TARGET);
        }
        pid_t pid;
        int error = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
        posix_spawn_file_actions_destroy(&actions);
        if (own >= 0)
                close(own);
        if (error)
                fail("%s: %s", words[0], strerror(error));
        return pid;
}

static void check_status(int status)
{
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail("a run ended with status %#x", (unsigned)status);
}

static pid_t wait_for(pid_t pid)
{
        int status;
        while ((pid = waitpid(pid, &status, 0)) < 0)
                if (errno != EINTR)
                        fail("waitpid: %m");
        check_status(status);
        return pid;
}

static void spawn_in_turn(int filter)
{
        for (long i = -2; i < count; i++) {
                if (file_from)
                        write_own_copy(i);
                double start = now_us();
                wait_for(spawn(arguments, filter));
                if (then_arguments)
                        wait_for(spawn(then_arguments, filter));
                if (i >= 0)
                        spent[i] = now_us() - start;
        }
}

static void spawn_at_once(int filter)
{
        pid_t running[AT_ONCE_MAX] = {0};
        double start[AT_ONCE_MAX];
        long begun = 0, ended = 0, slot;
        if (file_from)
                write_own_copy(0);
        while (ended < count) {
                for (slot = 0; slot < at_once && begun < count; slot++) {
                        if (running[slot])
                                continue;
                        start[slot] = now_us();
                        running[slot] = spawn(arguments, filter);
                        begun++;
                }
                pid_t pid = wait_for(-1);
                for (slot = 0; running[slot] != pid; slot++)
                        ;
                running[slot] = 0;
                spent[ended++] = now_us() - start[slot];
        }
}

static double measure_spawn(void)
{
        if (file_from)
                write_own_copy(0); // reads it, before the root changes
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int filter = make_filter();
        int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 20);
        if (null < 0 || out < 0)
                fail("/dev/null: %m");
        if (root)
                enter_root();
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        double start = now_us();
        if (at_once == 1)
                spawn_in_turn(filter);
        else
                spawn_at_once(filter);
        double all = now_us() - start;
        fflush(stdout);
        dup2(out, STDOUT_FILENO);
        return all;
}

// A client of the resident server: as many requests in flight as asked for, one line each way.

struct client {
        int to, from;
        pid_t pid;
        char *line; // unread input
        size_t length, size;
};

static struct client start_server(void)
{
        int to[2], from[2];
        if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
                fail("pipe: %m");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
        struct client client = {.to = to[1], .from = from[0]};
        int error = posix_spawnp(&client.pid, arguments[0], &actions, NULL, arguments, environ);
        if (error)
                fail("%s: %s", arguments[0], strerror(error));
        posix_spawn_file_actions_destroy(&actions);
        close(to[0]);
        close(from[1]);
        return client;
}

static void send_line(struct client *client, const char *text, size_t length)
{
        while (length > 0) {
                ssize_t wrote = write(client->to, text, length);
                if (wrote < 0)
                        fail("the server reads no more: %m");
                text += wrote;
                length -= (size_t)wrote;
        }
}

// The next line, without its end; valid until the next call.
static char *receive_line(struct client *client)
{
        static size_t taken;
        memmove(client->line, client->line + taken, client->length - taken);
        client->length -= taken;
        taken = 0;
        for (size_t seen = 0;;) {
                char *end = client->length > seen ? memchr(client->line + seen, '\n', client->length - seen)
                                                  : NULL;
                if (end) {
                        *end = '\0';
                        taken = (size_t)(end - client->line) + 1;
                        return client->line;
                }
                seen = client->length;
                if (client->size - client->length < 65536)
                        client->line = realloc(client->line, client->size = client->size * 2 + 131072);
                if (!client->line)
                        fail("out of memory");
                ssize_t got =
                        read(client->from, client->line + client->length, client->size - client->length);
                if (got <= 0)
                        fail("the server ended before its answer");
                client->length += (size_t)got;
        }
}

static size_t quote(char *out, const char *text, size_t length)
{
        char *start = out;
        for (size_t i = 0; i < length; i++) {
                if (text[i] == '\n') {
                        *out++ = '\\';
                        *out++ = 'n';
                        continue;
                }
                if (text[i] == '"' || text[i] == '\\')
                        *out++ = '\\';
                *out++ = text[i];
        }
        return (size_t)(out - start);
}

static void send_run(struct client *client, const char *code, size_t length, long id)
{
        char *message = malloc(length * 2 + 512);
        char own[100];
        if (!message)
                fail("out of memory");
        int used = sprintf(message,
                           "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"tools/call\",\"params\":{\"name\":"
                           "\"run_code\",\"arguments\":{\"language\":\"%s\",\"code\":\"",
                           id, language);
        size_t end = (size_t)used + quote(message + used, code, length);
        if (vary)
                end += quote(message + end, own, (size_t)own_line(own, sizeof own, code_path, id));
        end += (size_t)sprintf(message + end, "\"}}}\n");
        send_line(client, message, end);
        free(message);
}

// The number after a member's name, the first at or after text.
static const char *member(const char *text, const char *name)
{
        const char *found = strstr(text, name);
        return found ? found + strlen(name) : NULL;
}

static double sum_of(const char *line, const char *name)
{
        double sum = 0;
        for (const char *at = line; (at = member(at, name)) != NULL;)
                sum += strtod(at, NULL);
        return sum;
}

// Takes one answer; its id.
static long receive_run(struct client *client, double *ret_sandboxes_us, double *ret_inside_us)
{
        const char *line = receive_line(client);
        const char *id = member(line, "\"id\":");
        const char *status = member(line, "\"status\":");
        if (!id || !status || strncmp(status + strspn(status, " "), "\"success\"", 9) != 0)
                fail("a run failed: %.600s", line);
        *ret_sandboxes_us = (sum_of(line, "\"launch_ms\":") + sum_of(line, "\"wall_ms\":")) * 1000;
        *ret_inside_us = sum_of(line, "\"duration_ms\":") * 1000;
        return strtol(id, NULL, 10);
}

static double send_all(struct client *client, const char *code, size_t length)
{
        double *start = calloc((size_t)count, sizeof *start);
        if (!start)
                fail("out of memory");
        long sent = 0;
        double begun = now_us();
        for (long ended = 0; ended < count; ended++) {
                while (sent < count && sent - ended < at_once) {
                        start[sent] = now_us();
                        send_run(client, code, length, sent++);
                }
                double sandboxes_us, inside_us;
                long id = receive_run(client, &sandboxes_us, &inside_us);
                if (id < 0 || id >= sent)
                        fail("an answer to nothing");
                spent[ended] = now_us() - start[id];
                sandboxes[ended] = sandboxes_us;
                inside[ended] = inside_us;
        }
        free(start);
        return now_us() - begun;
}

static double measure_server(void)
{
        static const char hello[] =
                "{\"jsonrpc\":\"2.0\",\"id\":-1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
                "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n"
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        size_t length;
        char *code = read_all(code_path, &length);
        struct client client = start_server();
        send_line(&client, hello, strlen(hello));
        receive_line(&client);
        long wanted = count;
        count = wanted < WARM_UP ? wanted : WARM_UP;
        send_all(&client, code, length);
        count = wanted;
        double all = send_all(&client, code, length);
        close(client.to);
        wait_for(client.pid);
        free(code);
        return all;
}

static void read_command_line(int argc, char **argv)
{
        int i = 4;
        if (argc < 6)
                fail("usage: see the top of measure.c");
        count = strtol(argv[2], NULL, 10);
        at_once = strtol(argv[3], NULL, 10);
        for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
                const char *name = argv[i];
                if (strcmp(name, "--filter") == 0) {
                        use_filter = true;
                } else if (strcmp(name, "--vary") == 0) {
                        vary = true;
                } else if (i + 1 < argc && strcmp(name, "--root") == 0) {
                        root = argv[++i];
                } else if (i + 1 < argc && strcmp(name, "--language") == 0) {
                        language = argv[++i];
                } else if (i + 1 < argc && strcmp(name, "--code") == 0) {
                        code_path = argv[++i];
                } else if (i + 2 < argc && strcmp(name, "--file") == 0) {
                        file_from = argv[++i];
                        file_to = argv[++i];
                } else {
                        fail("what is %s?", name);
                }
        }
        arguments = argv + i + 1;
        for (i++; i < argc; i++) {
                if (strcmp(argv[i], "--then") != 0)
                        continue;
                argv[i] = NULL;
                then_arguments = argv + i + 1;
        }
        if (count < 1 || at_once < 1 || at_once > AT_ONCE_MAX || !arguments[0])
                fail("a count, a number at once (at most %d) and a program are needed", AT_ONCE_MAX);
}

int main(int argc, char **argv)
{
        read_command_line(argc, argv);
        bool server = strcmp(argv[1], "server") == 0;
        if (server && (!language || !code_path))
                fail("server needs --language and --code");
        spent = calloc((size_t)count, sizeof *spent);
        sandboxes = calloc((size_t)count, sizeof *sandboxes);
        inside = calloc((size_t)count, sizeof *inside);
        if (!spent || !sandboxes || !inside)
                fail("out of memory");
        double all = server ? measure_server() : measure_spawn();
        for (long i = 0; i < count; i++)
                printf("run %.1f %.1f %.1f\n", spent[i], sandboxes[i], inside[i]);
        printf("all %.1f\n", all);
        return fflush(stdout) == 0 ? 0 : 1;
}
