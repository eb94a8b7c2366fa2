#include "sandbox/spawner/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/message.h"
#include "sandbox/spawner/give.h"
#include "sandbox/spawner/init.h"
#include "sandbox/spawner/sockets.h"
#include "sandbox/spawner/start.h"
#include "sandbox/spawner/tmpfs.h"
#include "sandbox/spawner/verdict.h"
#include "sys/syscalls.h"

// How often a leaf is looked at where the kernel's own limit leaves something out.
#define LEAF_INTERVAL_NS 20000000u

// The program's id in the spawner's user namespace: one of its own for each slot where a range is mapped, so
// that programs share no owner with each other, the image or us.
static uint32_t program_id(const struct sr_spawner_state *state, const struct sr_spawner_run *run)
{
        return state->has_range ? SR_PLAN_ID + run->slot : 0;
}

static void scratch_path(const struct sr_spawner_run *run, char path[32])
{
        snprintf(path, 32, SR_START_SCRATCH "/%u", run->slot);
}

// It is ours while the server fills it, and the program's from its first stage on.
static int mount_scratch(struct sr_spawner_run *run, const struct sr_wire_scratch *request,
                         int *ret_directory)
{
        char path[32], options[128];

        if (run->scratch || request->bytes == 0 || request->inodes == 0)
                return -EINVAL;
        scratch_path(run, path);
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return -errno;
        snprintf(options, sizeof(options), "size=%llu,nr_inodes=%u,mode=755",
                 (unsigned long long)request->bytes, request->inodes);
        if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
                return -errno;
        run->scratch = true;
        run->scratch_given = false;
        int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (directory < 0)
                return -errno;
        *ret_directory = directory;
        return 0;
}

void sr_run_make_scratch(struct sr_spawner_run *run, const struct sr_wire_scratch *request)
{
        struct sr_wire_scratch answer = {
                .head = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_SCRATCH},
        };
        _cleanup_close_ int directory = -1;
        int r = mount_scratch(run, request, &directory);

        if (r < 0)
                answer.failure = (struct sr_wire_failure){.step = SR_STEP_SCRATCH, .errnum = -r};
        // A server that is gone shows as the end of the socket.
        (void)sr_message_send(run->socket, &answer, sizeof(answer), &directory, directory >= 0 ? 1 : 0);
}

// Everything of the request that is not a plain number within bounds. The strings are counted by their NULs.
static bool stage_is_sound(const struct sr_wire_stage *stage, size_t size, size_t descriptors)
{
        size_t wanted = 2, strings = 0;

        if (size < sizeof(*stage) || stage->strings_length != size - sizeof(*stage))
                return false;
        for (uint32_t bit = 1; bit <= SR_WIRE_HAS_DIRECTORY; bit <<= 1)
                wanted += (stage->descriptors & bit) != 0;
        if (descriptors != wanted || stage->descriptors >= SR_WIRE_HAS_DIRECTORY << 1)
                return false;
        if (stage->argument_count < 1 || stage->argument_count > SR_WIRE_ARGUMENTS_MAX ||
            stage->environment_count > SR_WIRE_ARGUMENTS_MAX || stage->strings_length > SR_WIRE_STRINGS_MAX)
                return false;
        for (uint32_t i = 0; i < stage->strings_length; i++)
                strings += stage->strings[i] == '\0';
        if (strings != stage->argument_count + stage->environment_count || stage->strings_length == 0 ||
            stage->strings[stage->strings_length - 1] != '\0')
                return false;
        if (stage->root > SR_WIRE_ROOT_HOST || stage->store >= SR_START_STORES_MAX ||
            stage->scratch > SR_WIRE_SCRATCH_WRITE || stage->timeout_ns == 0 ||
            stage->timeout_ns > SR_WIRE_TIMEOUT_MAX_NS)
                return false;
        if (stage->tmp_bytes == 0 || stage->tmp_inodes == 0)
                return false;
        for (size_t i = 0; stage->root == SR_WIRE_ROOT_TREE && i < sizeof(stage->chain_id); i++)
                if (memchr("0123456789abcdef", stage->chain_id[i], 16) == NULL)
                        return false;
        return true;
}

// Processors for the program: as many as it was given time for, spread over the machine by slot.
static void choose_processors(const struct sr_spawner_state *state, unsigned slot, unsigned millis,
                              cpu_set_t *ret)
{
        unsigned available = (unsigned)CPU_COUNT(&state->allowed), seen = 0;
        unsigned wanted = millis > 0 && millis / 1000 < available ? (millis + 999) / 1000 : available;
        unsigned first = available > 0 ? slot * wanted % available : 0;

        CPU_ZERO(ret);
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
                if (!CPU_ISSET(cpu, &state->allowed))
                        continue;
                if ((seen + available - first) % available < wanted)
                        CPU_SET(cpu, ret);
                seen++;
        }
}

// A detached, read-only copy of the root file system's mount.
static int open_root(const struct sr_wire_stage *stage, int *ret)
{
        struct mount_attr sealed = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
        char path[sizeof(SR_START_STORES) + sizeof(stage->chain_id) + 32] = SR_START_HOST;
        unsigned recursive = stage->root == SR_WIRE_ROOT_HOST ? AT_RECURSIVE : 0;

        if (stage->root == SR_WIRE_ROOT_TREE)
                snprintf(path, sizeof(path), SR_START_STORES "/%u/%.64s/rootfs", stage->store,
                         stage->chain_id);

        // No part of the path may be a link: a store that was tampered with must not lead elsewhere.
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
        _cleanup_close_ int directory = sr_sys_openat2(AT_FDCWD, path, &how);
        if (directory < 0)
                return -errno;
        _cleanup_close_ int tree = sr_sys_open_tree(
                directory, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | recursive);
        if (tree < 0)
                return -errno;
        // The host's directories were made read-only, with all below them, at start.
        if (!recursive && sr_sys_mount_setattr(tree, "", AT_EMPTY_PATH, &sealed) < 0)
                return -errno;
        *ret = sr_fd_steal(tree);
        return 0;
}

static int open_scratch(const struct sr_spawner_run *run, const struct sr_wire_stage *stage, int *ret)
{
        struct mount_attr sealed = {.attr_set = MOUNT_ATTR_RDONLY};
        char path[32];

        if (stage->scratch == SR_WIRE_SCRATCH_NONE)
                return 0;
        if (!run->scratch)
                return -EINVAL;
        scratch_path(run, path);
        _cleanup_close_ int tree = sr_sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (tree < 0)
                return -errno;
        if (stage->scratch == SR_WIRE_SCRATCH_READ &&
            sr_sys_mount_setattr(tree, "", AT_EMPTY_PATH, &sealed) < 0)
                return -errno;
        *ret = sr_fd_steal(tree);
        return 0;
}

// Splits the strings of the request into the two vectors, which point into it.
static void split_strings(const struct sr_wire_stage *stage, char **arguments, char **environment,
                          const char **ret_search_path)
{
        char *at = (char *)(uintptr_t)stage->strings;

        for (uint32_t i = 0; i < stage->argument_count; i++, at += strlen(at) + 1)
                arguments[i] = at;
        arguments[stage->argument_count] = NULL;
        for (uint32_t i = 0; i < stage->environment_count; i++, at += strlen(at) + 1) {
                environment[i] = at;
                if (strncmp(at, "PATH=", 5) == 0)
                        *ret_search_path = at + 5;
        }
        environment[stage->environment_count] = NULL;
}

static int clone_init(const struct sr_launch *launch, int cgroup, struct sr_spawner_run *run)
{
        int pidfd = -1;
        struct clone_args clone = {
                .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                         CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
                .pidfd = (uint64_t)(uintptr_t)&pidfd,
                .exit_signal = SIGCHLD,
        };

        if (cgroup >= 0) {
                clone.flags |= CLONE_INTO_CGROUP;
                clone.cgroup = (uint64_t)cgroup;
        }
        pid_t pid = sr_sys_clone3(&clone);

        if (pid < 0)
                return -errno;
        if (pid == 0)
                sr_init_main(launch);
        run->init = pid;
        run->pidfd = pidfd;
        return 0;
}

// The descriptors of the request in their order; stdin is the null device when none came.
static void take_descriptors(const struct sr_wire_stage *stage, const int *descriptors, int null_fd,
                             struct sr_launch *launch)
{
        launch->stdin_fd = stage->descriptors & SR_WIRE_HAS_STDIN ? *descriptors++ : null_fd;
        launch->stdout_fd = *descriptors++;
        launch->stderr_fd = *descriptors++;
        launch->program_fd = stage->descriptors & SR_WIRE_HAS_PROGRAM ? *descriptors++ : -1;
        launch->directory_fd = stage->descriptors & SR_WIRE_HAS_DIRECTORY ? *descriptors++ : -1;
}

// The clone, with init's way into the v1 cgroups open meanwhile.
static struct sr_wire_failure start_init(const struct sr_spawner_state *state, struct sr_launch *launch,
                                         struct sr_spawner_run *run)
{
        int r = sr_leaf_open_tasks(&state->leaves, &run->own.leaf, launch->tasks, &launch->task_count);

        if (r < 0)
                return (struct sr_wire_failure){SR_STEP_LEAF, -r};
        r = clone_init(launch, sr_leaf_cgroup2(&state->leaves, &run->own.leaf), run);
        for (unsigned i = 0; i < launch->task_count; i++)
                close(launch->tasks[i]);
        if (r < 0)
                return (struct sr_wire_failure){SR_STEP_CLONE, -r};
        return (struct sr_wire_failure){0};
}

// The stage is over and nothing of it lives.
static void free_own(const struct sr_spawner_state *state, struct sr_spawner_run *run)
{
        sr_watchdog_end(&run->watchdog);
        if (run->own.leaf.oom_event >= 0)
                (void)epoll_ctl(state->epoll, EPOLL_CTL_DEL, run->own.leaf.oom_event, NULL);
        sr_own_give_back(&state->leaves, &run->own);
}

// What is to be the program's own: /scratch with what the server put there, once, and its pipes.
static int give(struct sr_spawner_run *run, const struct sr_launch *launch, uint32_t id)
{
        char path[32];

        if (id == 0)
                return 0;
        sr_give_pipe(launch->stdin_fd, id);
        sr_give_pipe(launch->stdout_fd, id);
        sr_give_pipe(launch->stderr_fd, id);
        if (!run->scratch || run->scratch_given)
                return 0;
        run->scratch_given = true;
        scratch_path(run, path);
        return sr_give_directory(path, id);
}

static struct sr_wire_failure launch_stage(const struct sr_spawner_state *state, struct sr_spawner_run *run,
                                           const struct sr_wire_stage *stage, const int *descriptors)
{
        static struct sr_launch launch; // large, and there is one thread
        static char *arguments[SR_WIRE_ARGUMENTS_MAX + 1], *environment[SR_WIRE_ARGUMENTS_MAX + 1];
        _cleanup_close_ int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int root = -1, scratch = -1;
        int report[2];
        // A job of ours owns the trees it writes; a program owns nothing but its /scratch and /tmp.
        bool is_job = stage->descriptors & SR_WIRE_HAS_DIRECTORY;
        const struct sr_own_limits limits = {
                .leaf = {stage->memory_bytes, stage->cpu_millis, stage->processes},
                .tmp_bytes = stage->tmp_bytes,
                .tmp_inodes = stage->tmp_inodes,
        };
        struct sr_plan_input input = {
                .stage = stage,
                .parent_id = is_job ? 0 : program_id(state, run),
                .watched = run->watched,
                .sockets_apart = run->look_ns != UINT64_MAX,
                .pids_by_cgroup = sr_leaf_enforcer(&state->leaves, SR_CONTROLLER_PIDS) != SR_ENFORCER_NONE,
        };

        int r = open_root(stage, &root);
        if (r < 0)
                return (struct sr_wire_failure){SR_STEP_TREE, -r};
        r = open_scratch(run, stage, &scratch);
        if (r < 0)
                return (struct sr_wire_failure){SR_STEP_SCRATCH, -r};
        struct sr_wire_failure failure = sr_own_take(&state->leaves, run->slot, &limits, &run->own);
        if (failure.step != SR_STEP_NONE)
                return failure;
        if (null_fd < 0 || pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0)
                return (struct sr_wire_failure){SR_STEP_DESCRIPTORS, errno};

        launch = (struct sr_launch){
                .arguments = arguments,
                .environment = environment,
                .report_fd = report[1],
                .root_fd = root,
                .scratch_fd = scratch,
                .tmp_fd = run->own.tmp,
                .shm_fd = run->own.shm,
                .no_capabilities = state->no_capabilities,
        };
        sr_plan_build(&input, &launch.plan);
        split_strings(stage, arguments, environment, &launch.search_path);
        take_descriptors(stage, descriptors, null_fd, &launch);
        choose_processors(state, run->slot, stage->cpu_millis, &launch.processors);
        r = give(run, &launch, input.parent_id);
        failure = r < 0 ? (struct sr_wire_failure){SR_STEP_SCRATCH, -r} : start_init(state, &launch, run);
        close(report[1]);
        if (failure.step != SR_STEP_NONE) {
                close(report[0]);
                return failure;
        }
        run->report = report[0];
        return failure;
}

static void send_outcome(struct sr_spawner_run *run, struct sr_wire_outcome *outcome)
{
        outcome->head = (struct sr_wire_head){.version = SR_WIRE_VERSION, .kind = SR_WIRE_OUTCOME};
        // A server that is gone shows as the end of the socket.
        (void)sr_message_send(run->socket, outcome, sizeof(*outcome), NULL, 0);
}

// Whether the kernel does not hold the limit of memory all by itself.
static bool needs_looking(const struct sr_spawner_state *state, const struct sr_spawner_run *run,
                          uint64_t memory_bytes)
{
        return run->watched || (memory_bytes > 0 && sr_leaf_enforcer(&state->leaves, SR_CONTROLLER_MEMORY) ==
                                                            SR_ENFORCER_CGROUP1);
}

void sr_run_launch(const struct sr_spawner_state *state, struct sr_spawner_run *run,
                   const struct sr_wire_stage *request, size_t size, const int *descriptors, size_t count)
{
        struct sr_wire_failure failure = {.step = SR_STEP_REQUEST, .errnum = EINVAL};

        if (run->init == 0 && stage_is_sound(request, size, count)) {
                run->requested_ns = sr_clock_monotonic_ns();
                run->deadline_ns = run->requested_ns + request->timeout_ns;
                run->end = SR_WIRE_END_EXITED;
                run->watched = request->memory_bytes > 0 &&
                               sr_leaf_enforcer(&state->leaves, SR_CONTROLLER_MEMORY) == SR_ENFORCER_NONE;
                run->look_ns = needs_looking(state, run, request->memory_bytes) ? 0 : UINT64_MAX;
                failure = launch_stage(state, run, request, descriptors);
                if (failure.step != SR_STEP_NONE)
                        free_own(state, run);
        }
        if (failure.step != SR_STEP_NONE) {
                struct sr_wire_outcome outcome = {.end = SR_WIRE_END_FAILED, .failure = failure};

                send_outcome(run, &outcome);
        }
}

struct sr_tmpfs_usage sr_run_scratch_usage(const struct sr_spawner_run *run)
{
        char path[32];

        if (!run->scratch)
                return (struct sr_tmpfs_usage){0};
        scratch_path(run, path);
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return sr_tmpfs_usage(fd);
}

// Looks at processes and tmpfs; true when they are over the limit.
static bool watch(struct sr_spawner_run *run)
{
        uint64_t tmpfs = sr_tmpfs_usage(run->own.tmp).bytes + sr_tmpfs_usage(run->own.shm).bytes +
                         sr_run_scratch_usage(run).bytes;
        uint64_t limit = run->own.limits.leaf.memory_bytes, sockets = sr_sockets_bytes(run->init);

        bool over = sr_watchdog_look(&run->watchdog, run->init, tmpfs, limit > sockets ? limit - sockets : 0);

        run->look_ns = run->watchdog.next_ns;
        return over;
}

void sr_run_look(const struct sr_spawner_state *state, struct sr_spawner_run *run)
{
        bool over;

        if (run->watched) {
                over = watch(run);
        } else {
                over = sr_leaf_is_over(&state->leaves, &run->own.leaf, run->own.limits.leaf.memory_bytes);
                run->look_ns = sr_clock_monotonic_ns() + LEAF_INTERVAL_NS;
        }
        if (over)
                sr_run_kill(run, SR_WIRE_END_MEMORY);
}

void sr_run_out_of_memory(const struct sr_spawner_state *state, struct sr_spawner_run *run)
{
        uint64_t count;

        // A word about the leaf of an earlier stage is stale.
        if (run->own.leaf.oom_event >= 0 &&
            read(run->own.leaf.oom_event, &count, sizeof(count)) == sizeof(count) &&
            sr_leaf_ran_out(&state->leaves, &run->own.leaf))
                sr_run_kill(run, SR_WIRE_END_MEMORY);
}

void sr_run_kill(struct sr_spawner_run *run, enum sr_wire_end reason)
{
        if (run->init == 0)
                return;
        if (run->end == SR_WIRE_END_EXITED) {
                run->end = reason;
                // Who is over the limit was just looked at, and takes more with every moment.
                if (run->watched && reason != SR_WIRE_END_MEMORY)
                        sr_watchdog_note_cpu(&run->watchdog, run->init);
        }
        // init is pid 1 of the sandbox: the kernel kills all of it. A child that is not reaped keeps its pid,
        // so nobody else can be meant; one that is dead already takes the signal for nothing.
        (void)kill(run->init, SIGKILL);
}

// Closing alone does not end an epoll's interest while an init that was cloned meanwhile still has a copy
// (man 7 epoll, Q6): the events would come in for whoever has the slot next.
static int forget(const struct sr_spawner_state *state, int fd)
{
        (void)epoll_ctl(state->epoll, EPOLL_CTL_DEL, fd, NULL);
        return sr_fd_close(fd);
}

static void free_scratch(struct sr_spawner_run *run)
{
        char path[32];

        if (!run->scratch)
                return;
        scratch_path(run, path);
        // Lazily: the server may still hold a descriptor; its memory goes with the last one.
        (void)umount2(path, MNT_DETACH);
        run->scratch = false;
}

void sr_run_finish(const struct sr_spawner_state *state, struct sr_spawner_run *run)
{
        struct sr_wire_outcome outcome;

        if (!sr_verdict_reach(state, run, &outcome))
                return;
        run->init = 0;
        run->pidfd = forget(state, run->pidfd);
        run->report = sr_fd_close(run->report);
        if (run->socket >= 0)
                send_outcome(run, &outcome);
        else
                free_scratch(run);
        free_own(state, run);
}

void sr_run_release(const struct sr_spawner_state *state, struct sr_spawner_run *run)
{
        run->socket = forget(state, run->socket);
        if (run->init != 0)
                sr_run_kill(run, SR_WIRE_END_KILLED);
        else
                free_scratch(run);
}

bool sr_run_is_free(const struct sr_spawner_run *run)
{
        return run->socket < 0 && run->init == 0;
}
