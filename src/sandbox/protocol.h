// What server and spawner say to each other: fixed structs over SOCK_SEQPACKET, descriptors by SCM_RIGHTS.
//
// Theory of operation. One control socket joins the two. To begin a run the server makes a socket pair and
// passes one end over the control socket (OPEN); everything about that run goes over that pair, so no answer
// has to be sorted out, and closing the server's end ends the run and frees what it held, whatever happened.
// When the control socket closes the spawner exits, and being pid 1 of its namespace takes everything along.
//
//   server → spawner                       spawner → server
//   (control) START + cgroup directories   (control) READY, once, after start-up
//   (control) OPEN + run socket
//   SCRATCH                                SCRATCH + directory descriptor
//   STAGE + stdin?, stdout, stderr, …      OUTCOME, when everything of the stage is dead
//   KILL                                   (no answer of its own)
//
// The spawner holds power, so it takes nothing on trust: sizes and counts are checked, strings are counted
// NULs, the tree is named by 64 hex digits below directories it was given at start.
#pragma once

#include <stdint.h>

#include "sandbox/limits.h"

#define SR_WIRE_VERSION 1
// Argument vector and environment together, NULs included. A SOCK_SEQPACKET message must fit the default send
// buffer (net.core.wmem_default, 208 KiB).
#define SR_WIRE_STRINGS_MAX   (128 * 1024)
#define SR_WIRE_ARGUMENTS_MAX 1024
// Above what server.slots allows, so that a run that ends and one that begins may overlap.
#define SR_WIRE_RUNS_MAX 1100
// Longest deadline a request may set: a day.
#define SR_WIRE_TIMEOUT_MAX_NS (24ull * 3600 * 1000000000)

enum sr_wire_kind {
        SR_WIRE_START = 1,
        SR_WIRE_READY,
        SR_WIRE_OPEN,
        SR_WIRE_SCRATCH,
        SR_WIRE_STAGE,
        SR_WIRE_KILL,
        SR_WIRE_OUTCOME,
};

struct sr_wire_head {
        uint32_t version;
        uint32_t kind;
};

// Where a step failed: the name of the step is sr_step_name(step).
struct sr_wire_failure {
        uint32_t step; // enum sr_step_kind, 0: none failed
        int32_t errnum;
};

// A cgroup hierarchy in which the spawner may make leaves, by its directory descriptor.
#define SR_WIRE_HIERARCHIES_MAX        4
#define SR_WIRE_CONTROLLER(controller) (1u << (controller)) // enum sr_controller
// Processor time is counted here but not limited (v1's cpuacct).
#define SR_WIRE_CPU_USAGE (1u << SR_CONTROLLER_COUNT)

struct sr_wire_hierarchy {
        uint32_t version;     // 1 or 2
        uint32_t controllers; // the SR_WIRE_CONTROLLER bits it limits, SR_WIRE_CPU_USAGE
};

// The first message; `count` descriptors come with it.
struct sr_wire_start {
        struct sr_wire_head head;
        uint32_t count;
        struct sr_wire_hierarchy hierarchies[SR_WIRE_HIERARCHIES_MAX];
};

struct sr_wire_ready {
        struct sr_wire_head head;
        struct sr_wire_failure failure;
};

struct sr_wire_scratch {
        struct sr_wire_head head;
        struct sr_wire_failure failure; // answer
        uint64_t bytes;                 // request: size limit
        uint32_t inodes;                // request: number of files and directories
};

enum sr_wire_root { SR_WIRE_ROOT_TREE, SR_WIRE_ROOT_HOST };
enum sr_wire_scratch_mode { SR_WIRE_SCRATCH_NONE, SR_WIRE_SCRATCH_READ, SR_WIRE_SCRATCH_WRITE };

// Which descriptors come with a STAGE, in this order. stdout and stderr always come.
#define SR_WIRE_HAS_STDIN     1u
#define SR_WIRE_HAS_PROGRAM   2u // executable to run in place of argument 0's path
#define SR_WIRE_HAS_DIRECTORY 4u // given to the program as descriptor 3

struct sr_wire_stage {
        struct sr_wire_head head;
        uint32_t descriptors; // SR_WIRE_HAS_*
        uint32_t root;        // enum sr_wire_root
        uint32_t store;       // which of the directories given at start
        char chain_id[64];    // lower-case hex, no NUL
        uint32_t scratch;     // enum sr_wire_scratch_mode
        uint32_t in_scratch;  // working directory: 1 /scratch, 0 /tmp
        uint64_t timeout_ns;  // from the start of the launch to the kill
        uint64_t tmp_bytes;
        uint32_t tmp_inodes;
        uint32_t open_files;   // RLIMIT_NOFILE
        uint64_t file_bytes;   // RLIMIT_FSIZE
        uint32_t processes;    // and threads
        uint64_t memory_bytes; // 0: no limit
        uint32_t cpu_millis;   // thousandths of a processor; 0: no limit
        uint32_t argument_count;
        uint32_t environment_count;
        uint32_t strings_length;
        char strings[]; // argument_count + environment_count strings, each with its NUL
};

enum sr_wire_end {
        SR_WIRE_END_EXITED,  // wait_status holds
        SR_WIRE_END_TIMEOUT, // ended by the deadline
        SR_WIRE_END_KILLED,  // ended by KILL
        SR_WIRE_END_DIED,    // init was killed by somebody and left no verdict
        SR_WIRE_END_MEMORY,  // all of it was killed for want of memory
        SR_WIRE_END_FAILED,  // never ran: failure says which step
};

struct sr_wire_outcome {
        struct sr_wire_head head;
        uint32_t end; // enum sr_wire_end
        int32_t wait_status;
        struct sr_wire_failure failure;
        uint64_t launch_ns; // from the request's arrival to just before the program's exec
        uint64_t wall_ns;   // from just before exec to the end
        uint32_t hits;      // enum sr_limit_hit
        uint32_t has_usage; // the next two are known
        uint64_t cpu_us;    // user and system, of all its processes
        uint64_t peak_bytes;
};
