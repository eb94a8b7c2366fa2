// Starting the spawner.
//
// Theory of operation. The child is cloned straight into its namespaces, so the spawner itself is pid 1
// there: when it dies, for whatever reason, the kernel kills all below it. The id maps are written from
// outside, by the server: one id for an ordinary user, a range of 65536 ids nobody else uses for root. Root's
// spawner then is not the host's root any more: it runs as the first id of the range and has power over
// nothing else. The store directories are opened by the child between clone and exec: only there are they
// both reachable with the server's rights and mounts of the new namespace.
#include "sandbox/spawner_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "sandbox/message.h"
#include "sandbox/protocol.h"
#include "sandbox/spawner/start.h"
#include "sandbox/step.h"
#include "sys/syscalls.h"

#define ID_RANGE 65536u
// A spawner that has not said READY by then will not (milliseconds).
#define READY_TIMEOUT_MS 10000

struct child {
        int program; // O_PATH descriptor of the executable
        int control; // its end of the control socket
        int go;      // a byte arrives when the maps are written
        int go_ours; // the parent's end of that pipe
        char *const *tree_roots;
        bool has_range;
};

// Runs in the child, possibly while the parent has other threads: system calls only.
static _Noreturn void child_main(const struct child *child)
{
        char *arguments[] = {(char *)(uintptr_t) "sandbox-runner-spawner",
                             (char *)(uintptr_t)(child->has_range ? "range" : "single"), NULL};
        char *environment[] = {NULL};
        char byte;

        // Without our copy of its end, a parent that dies is the end of the pipe.
        close(child->go_ours);
        if (setsid() < 0)
                _exit(1);
        if (read(child->go, &byte, 1) != 1)
                _exit(1);

        // Everything inherited is out of the way of the fixed numbers first.
        int program = fcntl(child->program, F_DUPFD_CLOEXEC, SR_START_FIRST_FREE),
            control = fcntl(child->control, F_DUPFD_CLOEXEC, SR_START_FIRST_FREE);

        if (program < 0 || control < 0 || dup2(control, SR_START_CONTROL_FD) < 0)
                _exit(1);
        for (int i = 0; i < SR_START_STORES_MAX; i++) {
                int wanted = SR_START_STORE_FD + i;
                int fd = child->tree_roots[i] != NULL
                                 ? open(child->tree_roots[i], O_PATH | O_DIRECTORY | O_CLOEXEC)
                                 : -1;

                if (fd == wanted)
                        fcntl(fd, F_SETFD, 0);
                else if (fd < 0)
                        close(wanted);
                else if (dup2(fd, wanted) < 0)
                        _exit(1);
        }
        if (child->has_range && (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
                                 syscall(SYS_setresuid, 0, 0, 0) < 0))
                _exit(1);
        if (sr_sys_close_range(SR_START_FIRST_FREE, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
                _exit(1);
        sr_sys_execveat(program, "", arguments, environment, AT_EMPTY_PATH);
        _exit(1);
}

static int write_map(pid_t pid, const char *file, const char *text)
{
        _cleanup_free_ char *path = sr_asprintf("/proc/%d/%s", (int)pid, file);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return sr_fd_write_all(fd, text, strlen(text));
}

static int write_maps(pid_t pid, bool has_range, uint32_t base)
{
        _cleanup_free_ char *uids = NULL, *gids = NULL;
        int r = 0;

        if (has_range) {
                uids = sr_asprintf("0 %u %u\n", base, ID_RANGE);
                gids = sr_strdup(uids);
        } else {
                uids = sr_asprintf("0 %u 1\n", geteuid());
                gids = sr_asprintf("0 %u 1\n", getegid());
                r = write_map(pid, "setgroups", "deny");
        }
        if (r == 0)
                r = write_map(pid, "uid_map", uids);
        if (r == 0)
                r = write_map(pid, "gid_map", gids);
        return r;
}

// Whether host id `id` and `count - 1` after it can be mapped, and what our own id is outside (man 7
// user_namespaces, the file uid_map).
static int look_up_ids(uint64_t id, uint64_t count, bool *ret_has_range, uint64_t *ret_outside)
{
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_fd_read_file(AT_FDCWD, "/proc/self/uid_map", 64 * 1024, &text);

        *ret_has_range = false;
        *ret_outside = 0;
        for (const char *line = text.data; r == 0 && line != NULL && *line != '\0';) {
                unsigned long long inside, outside, length;

                if (sscanf(line, "%llu %llu %llu", &inside, &outside, &length) == 3) {
                        if (id >= inside && id - inside < length && count <= length - (id - inside))
                                *ret_has_range = true;
                        if (inside == 0)
                                *ret_outside = outside;
                }
                line = strchr(line, '\n');
                line = line != NULL ? line + 1 : NULL;
        }
        return r;
}

// An ordinary user has one id to give. Root has a range, so that no program is ever root; where root is the
// root of a container without that range, one id will do, since it is somebody ordinary outside.
static int choose_ids(uint32_t root_id_base, bool *ret_has_range, struct sr_error **error)
{
        uint64_t outside;

        *ret_has_range = false;
        if (geteuid() != 0)
                return 0;
        int r = look_up_ids(root_id_base, ID_RANGE, ret_has_range, &outside);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_HOST, -r,
                                    "reading /proc/self/uid_map: %s; is /proc mounted?", strerror(-r));
        if (!*ret_has_range && outside == 0)
                return sr_error_set(
                        error, SR_ERROR_HOST, EPERM,
                        "the ids %u to %u are not mapped here, and programs are never run as root: map "
                        "them, name others with sandbox.root_id_base, or start this as an ordinary user",
                        root_id_base, root_id_base + ID_RANGE - 1);
        return 0;
}

static int step_error(unsigned step, int errnum, struct sr_error **error)
{
        const char *advice = sr_step_advice(step, errnum);

        return sr_error_set(error, SR_ERROR_HOST, errnum, "the sandbox could not be prepared: %s: %s%s%s",
                            sr_step_name(step), strerror(errnum), *advice != '\0' ? "; " : "", advice);
}

static int await_ready(int control, struct sr_error **error)
{
        struct pollfd wait = {.fd = control, .events = POLLIN};
        struct sr_wire_ready ready;
        int descriptors[SR_MESSAGE_DESCRIPTORS_MAX];
        size_t count = 0;
        int n;

        do
                n = poll(&wait, 1, READY_TIMEOUT_MS);
        while (n < 0 && errno == EINTR);
        if (n == 0)
                return sr_error_set(error, SR_ERROR_INTERNAL, ETIMEDOUT,
                                    "the spawner did not get ready within %d seconds",
                                    READY_TIMEOUT_MS / 1000);

        ssize_t length = sr_message_receive(control, &ready, sizeof(ready), descriptors, &count);

        if (length != sizeof(ready) || ready.head.version != SR_WIRE_VERSION ||
            ready.head.kind != SR_WIRE_READY)
                return sr_error_set(error, SR_ERROR_INTERNAL, EPIPE,
                                    "the spawner ended before it was ready; install sandbox-runner and "
                                    "sandbox-runner-spawner of the same version");
        if (ready.failure.step != SR_STEP_NONE)
                return step_error(ready.failure.step, ready.failure.errnum, error);
        return 0;
}

void sr_spawner_process_stop(struct sr_spawner_process *process)
{
        process->control = sr_fd_close(process->control);
        if (process->pid > 0) {
                // It exits by itself when the socket closes; the signal is for one that is stuck. Waiting for
                // pid 1 of the namespace is waiting for all of it.
                (void)sr_sys_pidfd_send_signal(process->pidfd, SIGKILL);
                while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                process->pid = 0;
        }
        process->pidfd = sr_fd_close(process->pidfd);
        process->cgroup = sr_cgroup_remove(process->cgroup);
}

// Makes the cgroup subtree, with the waiting child in it where it must be, and tells the spawner of it.
static int send_start(struct sr_spawner_process *process, uint32_t root_id_base)
{
        struct sr_wire_start start = {.head = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_START}};
        int descriptors[SR_WIRE_HIERARCHIES_MAX];
        bool is_other = process->has_range && geteuid() == 0;

        process->cgroup = sr_cgroup_make(process->pid, is_other ? root_id_base : geteuid(),
                                         is_other ? root_id_base : getegid());
        start.count = sr_cgroup_hierarchies(process->cgroup, start.hierarchies, descriptors);
        return sr_message_send(process->control, &start, sizeof(start), descriptors, start.count);
}

static int open_program(const char *program, int *ret, struct sr_error **error)
{
        *ret = open(program, O_PATH | O_CLOEXEC);
        if (*ret < 0)
                return sr_error_set(error, SR_ERROR_INTERNAL, errno,
                                    "%s cannot be opened: %s; is the installation whole?", program,
                                    strerror(errno));
        return 0;
}

int sr_spawner_process_start(const char *program, char *const *tree_roots, uint32_t root_id_base,
                             struct sr_spawner_process *ret, struct sr_error **error)
{
        _cleanup_close_ int program_fd = -1, theirs = -1, go_read = -1, go_write = -1;
        char *roots[SR_START_STORES_MAX] = {NULL};
        struct sr_spawner_process process = {
                .pidfd = -1,
                .control = -1,
        };
        struct clone_args clone = {
                .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
                .pidfd = (uint64_t)(uintptr_t)&process.pidfd,
                .exit_signal = SIGCHLD,
        };
        int sockets[2], pipes[2];
        int r = choose_ids(root_id_base, &process.has_range, error);

        if (r == 0)
                r = open_program(program, &program_fd, error);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return sr_error_set(error, SR_ERROR_INTERNAL, errno, "making a socket pair: %s",
                                    strerror(errno));
        process.control = sockets[0];
        theirs = sockets[1];
        if (pipe2(pipes, O_CLOEXEC) < 0) {
                r = sr_error_set(error, SR_ERROR_INTERNAL, errno, "making a pipe: %s", strerror(errno));
                sr_spawner_process_stop(&process);
                return r;
        }
        go_read = pipes[0];
        go_write = pipes[1];
        for (size_t i = 0; i < SR_START_STORES_MAX && tree_roots[i] != NULL; i++)
                roots[i] = tree_roots[i];

        struct child child = {
                .program = program_fd,
                .control = theirs,
                .go = go_read,
                .go_ours = go_write,
                .tree_roots = roots,
                .has_range = process.has_range,
        };

        // The map files in /proc belong to root while a process is not dumpable; the child inherits that.
        int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        process.pid = sr_sys_clone3(&clone);
        if (process.pid == 0)
                child_main(&child);
        int clone_errno = errno;
        if (dumpable == 0)
                (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        if (process.pid < 0) {
                r = step_error(SR_STEP_START_NAMESPACES, clone_errno, error);
        } else {
                r = write_maps(process.pid, child.has_range, root_id_base);
                if (r < 0) {
                        r = step_error(SR_STEP_START_IDS, -r, error);
                } else {
                        r = send_start(&process, root_id_base);
                        if (r < 0)
                                r = step_error(SR_STEP_START_CGROUP, -r, error);
                }
                if (r == 0 && write(go_write, "", 1) != 1)
                        r = step_error(SR_STEP_START_IDS, errno, error);
                theirs = sr_fd_close(theirs); // so that a child that dies shows as the end of the socket
                if (r == 0)
                        r = await_ready(process.control, error);
        }
        if (r < 0) {
                sr_spawner_process_stop(&process);
                return r;
        }
        *ret = process;
        return 0;
}
