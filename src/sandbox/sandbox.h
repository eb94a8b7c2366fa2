// The server's side of the sandbox: start the spawner, open a sandbox for a run, run stages in it.
//
// Theory of operation: see protocol.h. The server has no privilege; the spawner is exec'd into its own user,
// mount and pid namespaces and makes each sandbox. A spawner that has died is replaced at the next
// sr_sandbox_open(); the runs it had answer -EPIPE. Calls are thread-safe between different sandboxes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/limits.h"

struct sr_spawner;
struct sr_sandbox;

struct sr_spawner_options {
        const char *program; // path of sandbox-runner-spawner
        char *const
                *tree_roots;   // directories of root file systems, NULL-terminated, at most 4; need not exist
        uint32_t root_id_base; // started by root: first of the 65536 host ids to use
};

// Starts the spawner. options is copied. Host problems (user namespaces off…) are SR_ERROR_HOST with advice.
int sr_spawner_start(const struct sr_spawner_options *options, struct sr_spawner **ret,
                     struct sr_error **error);
// Ends the spawner and everything below it; returns when all of it is dead. Every sandbox must be closed
// before.
struct sr_spawner *sr_spawner_stop(struct sr_spawner *spawner);
// What enforces the limits of the sandboxes it makes now. *ret_why, which the caller frees, is a sentence
// that says why not every limit has a cgroup and what to do about it; NULL when each has one.
void sr_spawner_limits(struct sr_spawner *spawner, struct sr_limits *ret, char **ret_why);

enum sr_spawner_ids {
        SR_SPAWNER_IDS_SINGLE, // programs have the one id the spawner has
        SR_SPAWNER_IDS_RANGE,  // each has an id of its own, which owns nothing on the host
};
// The ids on the host of the sandboxes it makes now. *ret_why, which the caller frees, is a sentence that
// says why they have no ids of their own; NULL when they have.
void sr_spawner_ids(struct sr_spawner *spawner, enum sr_spawner_ids *ret, char **ret_why);

enum sr_sandbox_root { SR_SANDBOX_ROOT_TREE, SR_SANDBOX_ROOT_HOST };
enum sr_sandbox_scratch { SR_SANDBOX_SCRATCH_NONE, SR_SANDBOX_SCRATCH_READ, SR_SANDBOX_SCRATCH_WRITE };

struct sr_sandbox_spec {
        enum sr_sandbox_root root; // a tree of an image, or the host's own system directories, read-only
        unsigned store;            // index into tree_roots
        const char *chain_id;      // 64 hex digits
        char *const *arguments;    // the program and its arguments; a name without / is looked up in PATH
        char *const *environment;  // all of it: nothing else is passed
        enum sr_sandbox_scratch scratch;
        bool in_scratch;     // working directory /scratch, else /tmp
        uint64_t timeout_ns; // wall clock
        uint64_t tmp_bytes;
        uint32_t tmp_inodes;
        uint64_t file_bytes;
        uint32_t open_files;
        uint64_t memory_bytes; // of all its processes and its /tmp and /scratch together; 0: no limit
        uint32_t cpu_millis;   // thousandths of a processor; 0: no limit
        uint32_t processes;    // and threads
        int program_fd;   // -1, or an executable of ours to run, open for reading: a sealed copy of it is
                          // run, so that nothing can reach the file; arguments[0] is then only its name
        int directory_fd; // -1, or a directory the program gets as descriptor 3
};

// Descriptors of the snippet; all borrowed. stdin_fd -1: /dev/null.
struct sr_sandbox_streams {
        int stdin_fd;
        int stdout_fd;
        int stderr_fd;
};

enum sr_sandbox_end {
        SR_SANDBOX_EXITED,
        SR_SANDBOX_TIMEOUT,
        SR_SANDBOX_KILLED, // by sr_sandbox_kill()
        SR_SANDBOX_MEMORY, // for want of memory: all of it was killed
        SR_SANDBOX_DIED,   // by somebody else on the host: no verdict is left
};

struct sr_sandbox_outcome {
        enum sr_sandbox_end end;
        int wait_status; // with SR_SANDBOX_EXITED, as wait(2) gives it
        uint64_t launch_ns;
        uint64_t wall_ns;
        unsigned hits;           // enum sr_limit_hit: limits it ran into, whether or not one ended it
        bool has_usage;          // false: the next two are not known
        uint64_t cpu_us;         // of all its processes
        uint64_t peak_bytes;     // of all of them and its tmpfs together
        struct sr_limits limits; // what enforced its limits
};

// Makes the directory one that a job (a stage with directory_fd) may write: jobs run with the spawner's own
// id, which no program with an id of its own shares.
int sr_spawner_give_directory(struct sr_spawner *spawner, int directory_fd, struct sr_error **error);

// Begins a sandbox; a spawner that died, or that does not see the store as it is now, is replaced first.
// Errors are those of sr_spawner_start().
int sr_sandbox_open(struct sr_spawner *spawner, struct sr_sandbox **ret, struct sr_error **error);
// Ends what runs in it and frees its /scratch. Accepts NULL, returns NULL.
struct sr_sandbox *sr_sandbox_close(struct sr_sandbox *sandbox);
void sr_sandbox_closep(struct sr_sandbox **sandbox);
#define _cleanup_sandbox_ __attribute__((cleanup(sr_sandbox_closep)))

// What enforces the limits of this sandbox.
struct sr_limits sr_sandbox_limits(const struct sr_sandbox *sandbox);

// Makes the sandbox's /scratch: a tmpfs of at most bytes and inodes. Once, before the first stage that has
// it.
int sr_sandbox_make_scratch(struct sr_sandbox *sandbox, uint64_t bytes, uint32_t inodes,
                            struct sr_error **error);
// Writes a new file into /scratch, which the snippet will own. name has no slash. Before a stage runs.
int sr_sandbox_write_file(struct sr_sandbox *sandbox, const char *name, const char *bytes, size_t length,
                          struct sr_error **error);

// Begins a stage. The outcome arrives on sr_sandbox_poll_fd().
int sr_sandbox_start(struct sr_sandbox *sandbox, const struct sr_sandbox_spec *spec,
                     const struct sr_sandbox_streams *streams, struct sr_error **error);
// Readable when sr_sandbox_finish() will not block.
int sr_sandbox_poll_fd(const struct sr_sandbox *sandbox);
// Waits for the outcome: nothing of the stage is alive any more then. -EPIPE when the spawner died. A stage
// that could not be set up is an error that names the step (SR_ERROR_HOST; SR_ERROR_IMAGE when the image
// lacks the program, with -ENOENT or -EACCES).
int sr_sandbox_finish(struct sr_sandbox *sandbox, struct sr_sandbox_outcome *ret, struct sr_error **error);
// Asks for the end of the running stage; its outcome is SR_SANDBOX_KILLED. Harmless at any time.
void sr_sandbox_kill(struct sr_sandbox *sandbox);
