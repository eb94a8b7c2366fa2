// The one table of tunables, and how a row is found.

#include "config/internal.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"

#define AT(member) offsetof(struct sr_config, member)
#define KIB        UINT64_C(1024)
#define MIB        (1024 * KIB)
#define GIB        (1024 * MIB)
#define TIB        (1024 * GIB)
#define SECOND     UINT64_C(1000000)

// PID_MAX_LIMIT of include/linux/threads.h on 64-bit machines.
#define PIDS_MAX 4194304
// The built-in ceiling of RLIMIT_NOFILE: the default of fs.nr_open, Documentation/admin-guide/sysctl/fs.rst.
#define OPEN_FILES_MAX 1048576
// Below it hardly a program starts: the C library, an interpreter and their tables need as much.
#define MEMORY_MIN (8 * MIB)
// cpu.max takes a quota of at least 1 ms (kernel/sched/core.c, min_cfs_quota_period); of its default period
// of 100 ms that is a hundredth of a processor.
#define CPU_MILLIS_MIN 10
#define CPU_MILLIS_MAX 1024000
// Ids are 0 to 2^32 - 2; those below 65536 belong to the host's own users.
#define ROOT_IDS         65536
#define ROOT_ID_BASE_MIN 65536
#define ROOT_ID_BASE_MAX (UINT32_MAX - 1 - ROOT_IDS)
// No run takes more than a day.
#define TIMEOUT_MAX_S 86400

const struct config_tunable config_tunables[] = {
        {.name = "run.timeout",
         .kind = CONFIG_SECONDS,
         .offset = AT(default_timeout_s),
         .fallback = "10",
         .minimum = 1,
         .maximum = TIMEOUT_MAX_S,
         .description = "Time limit of a run that asks for none"},
        {.name = "run.max_timeout",
         .kind = CONFIG_SECONDS,
         .offset = AT(max_timeout_s),
         .fallback = "30",
         .minimum = 1,
         .maximum = TIMEOUT_MAX_S,
         .description = "Longest time limit that a run may ask for"},
        {.name = "run.max_code",
         .kind = CONFIG_SIZE,
         .offset = AT(max_code_bytes),
         .fallback = "50K",
         .minimum = 1,
         .maximum = 64 * MIB,
         .description = "Longest source text accepted"},
        {.name = "run.memory",
         .kind = CONFIG_SIZE,
         .offset = AT(run.memory_bytes),
         .fallback = "256M",
         .minimum = MEMORY_MIN,
         .maximum = 64 * TIB,
         .description = "Memory of the run stage with what is in its /tmp and /scratch; needing more ends it "
                        "(without a "
                        "cgroup it is looked at every few milliseconds)"},
        {.name = "run.cpus",
         .kind = CONFIG_CPUS,
         .offset = AT(run.cpu_millis),
         .fallback = "0.5",
         .minimum = CPU_MILLIS_MIN,
         .maximum = CPU_MILLIS_MAX,
         .description = "Processors' worth of time of the run stage (without a cgroup: only how many it may "
                        "use, rounded "
                        "up)"},
        {.name = "run.pids",
         .kind = CONFIG_COUNT,
         .offset = AT(run.pids),
         .fallback = "64",
         .minimum = 1,
         .maximum = PIDS_MAX,
         .description = "Processes and threads of the run stage"},
        {.name = "run.max_memory",
         .kind = CONFIG_SIZE,
         .offset = AT(max_memory_bytes),
         .fallback = "4G",
         .minimum = MEMORY_MIN,
         .maximum = 64 * TIB,
         .description = "Most memory that a run or its language may ask for"},
        {.name = "run.max_cpus",
         .kind = CONFIG_CPUS,
         .offset = AT(max_cpu_millis),
         .fallback = "4",
         .minimum = CPU_MILLIS_MIN,
         .maximum = CPU_MILLIS_MAX,
         .description = "Most processors that a run or its language may ask for"},
        {.name = "run.max_pids",
         .kind = CONFIG_COUNT,
         .offset = AT(max_pids),
         .fallback = "1024",
         .minimum = 1,
         .maximum = PIDS_MAX,
         .description = "Most processes and threads that a run or its language may ask for"},
        {.name = "run.scratch",
         .kind = CONFIG_SIZE,
         .offset = AT(run.scratch_bytes),
         .fallback = "64M",
         .minimum = 64 * KIB,
         .maximum = 64 * TIB,
         .description = "Size of /scratch, shared by the stages of a run"},
        {.name = "run.tmp",
         .kind = CONFIG_SIZE,
         .offset = AT(run.tmp_bytes),
         .fallback = "64M",
         .minimum = 64 * KIB,
         .maximum = 64 * TIB,
         .description = "Size of /tmp in the run stage"},
        {.name = "run.file_size",
         .kind = CONFIG_SIZE,
         .offset = AT(run.file_bytes),
         .fallback = "1G",
         .minimum = 4 * KIB,
         .maximum = 64 * TIB,
         .description = "Largest file that the run stage may write; more than /tmp holds, so that a full one "
                        "says so"},
        {.name = "run.open_files",
         .kind = CONFIG_COUNT,
         .offset = AT(run.open_files),
         .fallback = "512",
         .minimum = 16,
         .maximum = OPEN_FILES_MAX,
         .description = "Files that a process of the run stage may have open"},
        {.name = "run.inodes",
         .kind = CONFIG_COUNT,
         .offset = AT(inodes),
         .fallback = "16384",
         .minimum = 16,
         .maximum = 16777216,
         .description = "Files and directories in each of /scratch and /tmp"},
        {.name = "compile.timeout",
         .kind = CONFIG_DURATION,
         .offset = AT(compile.timeout_us),
         .fallback = "30s",
         .minimum = SECOND / 10,
         .maximum = TIMEOUT_MAX_S * SECOND,
         .description = "Time limit of the compile stage"},
        {.name = "compile.memory",
         .kind = CONFIG_SIZE,
         .offset = AT(compile.memory_bytes),
         .fallback = "512M",
         .minimum = MEMORY_MIN,
         .maximum = 64 * TIB,
         .description = "Memory of the compile stage, as run.memory"},
        {.name = "compile.cpus",
         .kind = CONFIG_CPUS,
         .offset = AT(compile.cpu_millis),
         .fallback = "1",
         .minimum = CPU_MILLIS_MIN,
         .maximum = CPU_MILLIS_MAX,
         .description = "Processors' worth of time of the compile stage, as run.cpus"},
        {.name = "compile.pids",
         .kind = CONFIG_COUNT,
         .offset = AT(compile.pids),
         .fallback = "64",
         .minimum = 1,
         .maximum = PIDS_MAX,
         .description = "Processes and threads of the compile stage"},
        {.name = "compile.tmp",
         .kind = CONFIG_SIZE,
         .offset = AT(compile.tmp_bytes),
         .fallback = "64M",
         .minimum = 64 * KIB,
         .maximum = 64 * TIB,
         .description = "Size of /tmp in the compile stage"},
        {.name = "compile.file_size",
         .kind = CONFIG_SIZE,
         .offset = AT(compile.file_bytes),
         .fallback = "1G",
         .minimum = 4 * KIB,
         .maximum = 64 * TIB,
         .description = "Largest file that the compile stage may write"},
        {.name = "compile.open_files",
         .kind = CONFIG_COUNT,
         .offset = AT(compile.open_files),
         .fallback = "512",
         .minimum = 16,
         .maximum = OPEN_FILES_MAX,
         .description = "Files that a process of the compile stage may have open"},
        {.name = "output.keep",
         .kind = CONFIG_SIZE,
         .offset = AT(output_keep_bytes),
         .fallback = "100K",
         .minimum = 1,
         .maximum = 64 * MIB,
         .description = "What is kept of each of stdout and stderr"},
        {.name = "output.kill",
         .kind = CONFIG_SIZE,
         .offset = AT(output_kill_bytes),
         .fallback = "16G",
         .minimum = 1,
         .maximum = 64 * TIB,
         .description = "A run that writes more than this to both together is ended"},
        {.name = "server.slots",
         .kind = CONFIG_COUNT,
         .offset = AT(slots),
         .minimum = 1,
         .maximum = 1024,
         .description = "Runs at once; by default as many as there are processors"},
        {.name = "server.max_queue",
         .kind = CONFIG_COUNT,
         .offset = AT(max_queue),
         .fallback = "64",
         .minimum = 0,
         .maximum = 65536,
         .description = "Runs that may wait for a slot; further ones are refused"},
        {.name = "control.directories",
         .kind = CONFIG_PATHS,
         .offset = AT(control_directories),
         .description = "Directories of the sockets that `ps` and `stop` ask, separated by colons; a server "
                        "uses the first that will do, none when it is empty"},
        {.name = "images.store",
         .kind = CONFIG_PATH,
         .offset = AT(store),
         .description = "Directory of the images"},
        {.name = "images.lower_store",
         .kind = CONFIG_PATH,
         .offset = AT(lower_store),
         .fallback = "",
         .may_be_empty = true,
         .description = "Read-only directory of images under it; empty for none"},
        {.name = "images.recipes",
         .kind = CONFIG_PATH,
         .offset = AT(recipes),
         .description = "Directory of the recipes that build images"},
        {.name = "languages.directories",
         .kind = CONFIG_PATHS,
         .offset = AT(catalogues),
         .description = "Directories of language files, separated by colons; later ones override"},
        {.name = "history.database",
         .kind = CONFIG_PATH,
         .offset = AT(database),
         .description = "SQLite file that runs are recorded in"},
        {.name = "history.enabled",
         .kind = CONFIG_BOOL,
         .offset = AT(history_enabled),
         .fallback = "true",
         .description = "Whether runs are recorded"},
        {.name = "sandbox.root_id_base",
         .kind = CONFIG_COUNT,
         .offset = AT(root_id_base),
         .fallback = "2069692416",
         .minimum = ROOT_ID_BASE_MIN,
         .maximum = ROOT_ID_BASE_MAX,
         .description = "First of the 65536 host ids that sandboxes started by root use"},
        {.name = "sandbox.strict_limits",
         .kind = CONFIG_BOOL,
         .offset = AT(strict_limits),
         .fallback = "false",
         .description = "Whether runs are refused where memory, processors or processes have no cgroup"},
        {.name = "log.level",
         .kind = CONFIG_CHOICE,
         .offset = AT(log_level),
         .fallback = "warning",
         .choices = "error, warning, info, debug",
         .description = "Least serious message written to stderr"},
};

const size_t config_tunable_count = sizeof(config_tunables) / sizeof(config_tunables[0]);

const struct config_tunable *config_find(const char *name)
{
        for (size_t i = 0; i < config_tunable_count; i++)
                if (strcmp(config_tunables[i].name, name) == 0)
                        return &config_tunables[i];
        return NULL;
}

size_t config_index(const struct config_tunable *tunable)
{
        return (size_t)(tunable - config_tunables);
}

char *config_variable(const struct config_tunable *tunable)
{
        char *variable = sr_asprintf("SANDBOX_RUNNER_%s", tunable->name);

        for (char *at = variable; *at != '\0'; at++)
                *at = *at == '.' ? '_' : (char)toupper((unsigned char)*at);
        return variable;
}

// Levenshtein distance, letter case ignored. Longer names than any of the table are cut: they are far anyway.
#define DISTANCE_LENGTH 40
size_t config_distance(const char *left, const char *right)
{
        size_t rows = strnlen(left, DISTANCE_LENGTH), columns = strnlen(right, DISTANCE_LENGTH);
        size_t row[DISTANCE_LENGTH + 1];

        for (size_t c = 0; c <= columns; c++)
                row[c] = c;
        for (size_t r = 1; r <= rows; r++) {
                size_t diagonal = row[0];

                row[0] = r;
                for (size_t c = 1; c <= columns; c++) {
                        bool same =
                                tolower((unsigned char)left[r - 1]) == tolower((unsigned char)right[c - 1]);
                        size_t best = diagonal + (same ? 0 : 1);

                        diagonal = row[c];
                        if (row[c] + 1 < best)
                                best = row[c] + 1;
                        if (row[c - 1] + 1 < best)
                                best = row[c - 1] + 1;
                        row[c] = best;
                }
        }
        return row[columns];
}

const char *config_nearest(const char *name)
{
        const char *nearest = NULL;
        size_t best = strlen(name) / 3 + 1;

        for (size_t i = 0; i < config_tunable_count; i++) {
                const char *candidate = config_tunables[i].name;
                size_t far = config_distance(name, candidate);

                // "memory" means "run.memory".
                if (strchr(name, '.') == NULL) {
                        size_t member = config_distance(name, strchr(candidate, '.') + 1);

                        if (member < far)
                                far = member;
                }
                if (far < best) {
                        best = far;
                        nearest = candidate;
                }
        }
        return nearest;
}
