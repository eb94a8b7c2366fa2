// Attempts to get out of a sandbox, one function each.
//
// Theory of operation. `escape NAME` makes one attempt inside a sandbox and says what it met. An attempt
// passes (HELD) only when it met the wall it names: a call that fails for another reason has been let through
// to the code that found the reason, so EINVAL where EPERM is due counts as a breach. Arguments are
// nevertheless chosen so that nothing happens to the host when a wall is missing.
//
// Some need a partner. The first half (`escape NAME first`) prepares something and the second tries to reach
// it, from another sandbox or a later one; whoever starts them (driver.c, or a test with another engine) goes
// by the kind that --list prints. What they need to know of the host is in the environment, see main.c.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

enum verdict { HELD, OPEN, UNDECIDED }; // these are the exit codes

enum kind {
        ALONE,  // in a sandbox of its own, /scratch writable
        SEALED, // the same, /scratch read-only, as a compiled program runs
        PAIR,   // the first half stays alive in one sandbox while the second runs in another
        SEQUEL, // the first half has run to its end in an earlier sandbox
        PLANT, // the first half leaves /scratch/planted; then the host writes there and a later stage runs it
        JOB,   // started as our own helpers are: by descriptor, with a directory of the host as descriptor 3
};

struct trial {
        enum verdict verdict;
        char said[256];
};

struct attempt {
        const char *name;
        enum kind kind;
        const char *what; // one line for a reader
        void (*run)(struct trial *trial);
        // Of the kinds with two halves: prepares. Without a verdict by then it is ready.
        void (*first)(struct trial *trial);
};

struct subject {
        const char *name; // groups the table in the manual
        const struct attempt *attempts;
        size_t count;
};

#define SUBJECT(variable, title, list)                                                                       \
        const struct subject variable = {title, list, sizeof(list) / sizeof(*(list))}

extern const struct subject namespaces_subject, mounts_subject, init_subject, signals_subject, limits_subject,
        ids_subject, proc_subject, devices_subject, files_subject, image_subject, scratch_subject,
        sockets_subject, ipc_subject, surface_subject, machine_subject, entry_subject;

// The last argument of expect(): each error number that is the wall.
#define ERRORS(...) ((const int[]){__VA_ARGS__, 0})
// For calls that the filter or a missing privilege may refuse alike.
#define WALL ERRORS(EPERM, ENOSYS, EACCES)

// Judges one step of an attempt by what a call returned and left in errno. The worst step decides, and
// `label` (NULL: none) says which it was. true: the wall held.
bool expect(struct trial *trial, const char *label, long result, const int *errors);
// Judges a step that is more than one call.
__attribute__((format(printf, 3, 4))) void decide(struct trial *trial, enum verdict verdict,
                                                  const char *format, ...);

// A value of the environment, or NULL after deciding that nothing can be decided.
const char *know(struct trial *trial, const char *name);

// Runs function in a child and waits: its exit status, or minus the number of the signal that ended it.
int in_child(int (*function)(void *), void *argument);
// Up to size - 1 bytes of a file, NUL-terminated; -1 and errno.
long read_text(const char *path, char *text, size_t size);
// Copies this program. 0, or -1 and errno.
int copy_self(const char *to);
