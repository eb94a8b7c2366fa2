// Every tunable of the program: one table with name, unit, default, bounds and meaning. Values come from
// built-in defaults, then the configuration file, then SANDBOX_RUNNER_* variables, then flags; each keeps
// where it came from. Read once at the top and handed down; nothing below reads the environment.
//
// The file is JSON: an object whose members are the dotted names below, nested ({"run": {"timeout": 10}}) or
// flat ({"run.timeout": 10}). It is $XDG_CONFIG_HOME/sandbox-runner/config.json (else ~/.config/…), after it
// nothing else; /etc/sandbox-runner/config.json is read first where it exists. SANDBOX_RUNNER_CONFIG names
// another file. The variable of a tunable is SANDBOX_RUNNER_ and its name in capitals, dots as underscores;
// one set to nothing counts as not set. Variables of other names are ignored (`doctor` warns of them),
// unknown names in a file or flag are errors.
//
// Values: sizes in bytes or with K, M, G, T ("64M", "64MiB", powers of 1024); times in seconds or with s, ms,
// min; processors with up to three decimals; paths absolute, with "~/", or relative to the file's directory
// (in a file) or the current one; lists of paths with colons, in a file an array too.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct sr_config_stage {
        uint64_t timeout_us;
        uint64_t memory_bytes;
        uint32_t cpu_millis; // thousandths of a processor
        uint32_t pids;
        uint64_t scratch_bytes;
        uint64_t tmp_bytes;
        uint64_t file_bytes; // RLIMIT_FSIZE
        uint32_t open_files; // RLIMIT_NOFILE
};

struct sr_config {
        // run.*: run.timeout and run.max_timeout are what a client may ask for, in whole seconds.
        uint32_t default_timeout_s;
        uint32_t max_timeout_s;
        uint64_t max_code_bytes;
        uint64_t max_memory_bytes; // what a request or a language file may give the run stage at most;
        uint32_t max_cpu_millis;   // the defaults in `run` are not above it either
        uint32_t max_pids;
        struct sr_config_stage run;     // run.memory, …; timeout_us is that of default_timeout_s
        struct sr_config_stage compile; // compile.timeout, …; scratch_bytes is that of run
        uint64_t output_keep_bytes;     // kept of each stream
        uint64_t output_kill_bytes;     // a run that writes more than this to its streams together is ended
        uint32_t inodes;                // of each of /scratch and /tmp

        // server.*
        uint32_t slots;     // runs at once; default: processors
        uint32_t max_queue; // runs that may wait

        // paths, absolute
        char **control_directories; // control.directories: of sockets, see control/control.h; may be empty.
                                    // $XDG_RUNTIME_DIR/sandbox-runner and what stands for it without one
        char *store;                // images.store: $XDG_DATA_HOME/sandbox-runner/images
        char *lower_store;          // images.lower_store: a read-only store under it, or NULL
        char **catalogues; // languages.directories: directories of language files, later ones override
        char *recipes;     // images.recipes: directory of rootfs recipes
        char *database;    // history.database: $XDG_STATE_HOME/sandbox-runner/sandbox_history.db. NULL only
                           // without history, where no home directory is known
        bool history_enabled;  // history.enabled
        uint32_t root_id_base; // sandbox.root_id_base: first of the 65536 host ids used when started by root
        bool strict_limits;    // sandbox.strict_limits: no run where a limit has no cgroup
        char *log_level;       // log.level: error, warning, info, debug

        struct sr_config_source *sources; // private: where each value came from
};

// Where settings may come from besides the defaults. flags is a NULL-terminated list of "name=value".
// With no HOME and no XDG variable the home of the password database is used.
struct sr_config_input {
        char *const *environment; // environ
        char *const *flags;
        const char *program_directory; // directory of the running program, to find images/ and rootfs/ of a
                                       // checkout or share/sandbox-runner of an installation; NULL: unknown
        const char *config_file;       // as SANDBOX_RUNNER_CONFIG, but stronger; NULL: not given
        const char *system_directory;  // NULL: /etc/sandbox-runner; its config.json and languages/
        // NULL: the first mistake in a file or variable is an error. Else each is a sentence added to this
        // list, the caller's, and what it is about stays as it was; error must then not be NULL.
        char ***problems;
};

// Reads everything. A bad value is an error that names the source (file, variable or flag), the tunable, the
// value and what is allowed.
int sr_config_load(const struct sr_config_input *input, struct sr_config **ret, struct sr_error **error);
struct sr_config *sr_config_free(struct sr_config *config);
void sr_config_freep(struct sr_config **config);
#define _cleanup_config_ __attribute__((cleanup(sr_config_freep)))

// Appends the listing of `sandbox-runner config`: name, value, source and meaning of every tunable; as text
// columns or as a JSON array of {name, value, default, unit, source, description, variable}. In JSON numbers
// are in the unit that "unit" names ("bytes", "seconds", "processors" or null); source is "default",
// "file PATH", "environment VARIABLE" or "flag".
void sr_config_describe(const struct sr_config *config, bool json, struct sr_buf *out);

// For limits that others write (a command line, a language file) in the words of a tunable; name is that of
// one that holds a number. Reads text as that tunable takes it, into the unit of its member, whatever its
// range: -EINVAL with a message that says what is wanted.
int sr_config_parse(const char *name, const char *text, uint64_t *ret, struct sr_error **error);
// The least and the most that the tunable may be, in the unit of its member.
void sr_config_range(const char *name, uint64_t *ret_minimum, uint64_t *ret_maximum);
// A number in that unit as it is written ("256M", "0.5", "30s"); the caller frees it.
char *sr_config_text(const char *name, uint64_t number);
// The value of any tunable as text, as its description has it; the caller frees it.
char *sr_config_text_of(const struct sr_config *config, const char *name);

// Whether a variable of this name, which begins with SANDBOX_RUNNER_, means anything to this program. Where
// it does not, *ret_nearest is the name most like it of one that does, freed by the caller; NULL when none
// is.
bool sr_config_knows_variable(const char *name, char **ret_nearest);

// The directory of the running program (from /proc/self/exe), freed by the caller; NULL when unknown.
char *sr_config_program_directory(void);
// The path of a companion program ("sandbox-runner-spawner"): beside the program, else in
// ../libexec/sandbox-runner. An error names both places.
int sr_config_find_helper(const char *program_directory, const char *name, char **ret,
                          struct sr_error **error);
