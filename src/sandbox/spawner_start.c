// Starting the spawner.
//
// Theory of operation. The child is cloned straight into its namespaces, so the spawner itself is pid 1
// there: when it dies, for whatever reason, the kernel kills all below it. The id maps are written from
// outside, by the server (idmap.h). Root's spawner then is not the host's root any more: it runs as the first
// id of its range and has power over nothing else. Where a range turns out not to work for an ordinary user,
// a second child is made that has one id. The store directories are opened by the child between clone and
// exec: only there are they both reachable with the server's rights and mounts of the new namespace.
#include "sandbox/spawner_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
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

// In the child: tells the server, which waits for READY, which step failed.
static _Noreturn void fail_start(int control, enum sr_step_kind step)
{
        struct sr_wire_ready ready = {
                .head = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_READY},
                .failure = {.step = step, .errnum = errno},
        };

        (void)sr_message_send(control, &ready, sizeof(ready), NULL, 0);
        _exit(1);
}

// Runs in the child, possibly while the parent has other threads: system calls only.
static _Noreturn void child_main(const struct child *child)
{
        char *arguments[] = {(char *)(uintptr_t) "sandbox-runner-spawner",
                             (char *)(uintptr_t)(child->has_range ? "range" : "single"), NULL};
        char *environment[] = {NULL};
        char byte;

        // Without our copy of its end, a parent that dies is the end of the pipe.
        close(child->go_ours);
        if (read(child->go, &byte, 1) != 1)
                _exit(1);
        if (setsid() < 0)
                fail_start(child->control, SR_STEP_SESSION);

        // Everything inherited is out of the way of the fixed numbers first.
        int program = fcntl(child->program, F_DUPFD_CLOEXEC, SR_START_FIRST_FREE),
            control = fcntl(child->control, F_DUPFD_CLOEXEC, SR_START_FIRST_FREE);

        if (program < 0 || control < 0 || dup2(control, SR_START_CONTROL_FD) < 0)
                fail_start(child->control, SR_STEP_DESCRIPTORS);
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
                        fail_start(control, SR_STEP_DESCRIPTORS);
        }
        // Groups first: without the user's own id there is no power left to drop them.
        if (child->has_range && (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
                                 syscall(SYS_setresuid, 0, 0, 0) < 0))
                fail_start(control, SR_STEP_START_USER);
        if (sr_sys_close_range(SR_START_FIRST_FREE, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
                fail_start(control, SR_STEP_DESCRIPTORS);
        sr_sys_execveat(program, "", arguments, environment, AT_EMPTY_PATH);
        fail_start(control, SR_STEP_START_EXEC);
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
                // It exits by itself when the socket closes; the signal is for one that is stuck. It is not
                // reaped, so the pid is its own. Waiting for pid 1 of the namespace is waiting for all of it.
                (void)kill(process->pid, SIGKILL);
                while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                process->pid = 0;
        }
        process->pidfd = sr_fd_close(process->pidfd);
        sr_idmap_clear(&process->ids);
        process->cgroup = sr_cgroup_remove(process->cgroup);
}

// Makes the cgroup subtree, with the waiting child in it where it must be, and tells the spawner of it.
static int send_start(struct sr_spawner_process *process, const struct sr_idmap *ids)
{
        struct sr_wire_start start = {.head = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_START}};
        int descriptors[SR_WIRE_HIERARCHIES_MAX];

        process->cgroup = sr_cgroup_make(process->pid, ids->uid, ids->gid);
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

// One attempt with these ids.
static int start(const char *program, char *const *tree_roots, const struct sr_idmap *ids,
                 struct sr_spawner_process *ret, struct sr_error **error)
{
        _cleanup_close_ int program_fd = -1, theirs = -1, go_read = -1, go_write = -1;
        _cleanup_free_ char *why = NULL;
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
        int r = open_program(program, &program_fd, error);

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
                .has_range = ids->range,
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
                r = sr_idmap_write(ids, process.pid, &why);
                if (r < 0 && why != NULL) {
                        r = sr_error_set(error, SR_ERROR_HOST, -r, "%s", why);
                } else if (r < 0) {
                        r = step_error(SR_STEP_START_IDS, -r, error);
                } else {
                        r = send_start(&process, ids);
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

int sr_spawner_process_start(const char *program, char *const *tree_roots, uint32_t root_id_base,
                             struct sr_spawner_process *ret, struct sr_error **error)
{
        _cleanup_error_ struct sr_error *range_error = NULL;
        struct sr_idmap ids = {0};
        int r = sr_idmap_choose(root_id_base, &ids, error);

        if (r < 0)
                return r;
        // Root has nothing to fall back to: the one id would be root's.
        bool may_fall_back = ids.range && !ids.foreign;

        r = start(program, tree_roots, &ids, ret, may_fall_back ? &range_error : error);
        if (r < 0 && may_fall_back) {
                sr_idmap_give_up_range(&ids, sr_error_message(range_error));
                r = start(program, tree_roots, &ids, ret, error);
        }
        if (r < 0)
                sr_idmap_clear(&ids);
        else
                ret->ids = ids;
        return r;
}
