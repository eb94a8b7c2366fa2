// Landlock: rules that a process puts on itself and its descendants (man 7 landlock;
// Documentation/userspace-api/landlock.rst). The numbers are the kernel's, written out because the headers of
// the oldest supported distribution lack the newer ones. Each function is the bare call: -1 and errno on
// failure. They are async-signal-safe.
#pragma once

#include <stdint.h>

#define SR_LANDLOCK_EXECUTE     (1ull << 0)
#define SR_LANDLOCK_WRITE_FILE  (1ull << 1)
#define SR_LANDLOCK_READ_FILE   (1ull << 2)
#define SR_LANDLOCK_READ_DIR    (1ull << 3)
#define SR_LANDLOCK_REMOVE_DIR  (1ull << 4)
#define SR_LANDLOCK_REMOVE_FILE (1ull << 5)
#define SR_LANDLOCK_MAKE_CHAR   (1ull << 6)
#define SR_LANDLOCK_MAKE_DIR    (1ull << 7)
#define SR_LANDLOCK_MAKE_REG    (1ull << 8)
#define SR_LANDLOCK_MAKE_SOCK   (1ull << 9)
#define SR_LANDLOCK_MAKE_FIFO   (1ull << 10)
#define SR_LANDLOCK_MAKE_BLOCK  (1ull << 11)
#define SR_LANDLOCK_MAKE_SYM    (1ull << 12)
#define SR_LANDLOCK_REFER       (1ull << 13) // version 2: linking and renaming from directory to directory
#define SR_LANDLOCK_TRUNCATE    (1ull << 14) // version 3

#define SR_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ull << 0) // version 6
#define SR_LANDLOCK_SCOPE_SIGNAL               (1ull << 1) // version 6

// The version of the interface. ENOSYS: the kernel does not have it; EOPNOTSUPP: it was switched off at boot.
int sr_sys_landlock_version(void);
// A rule set that governs these rights and scopes, which the version must know; a descriptor, close-on-exec.
int sr_sys_landlock_create(uint64_t rights, uint64_t scopes);
// Lets the rights be used on the file `fd` or, when it is a directory, beneath it.
int sr_sys_landlock_allow(int ruleset, int fd, uint64_t rights);
// From now on, for this thread and what it starts. Needs no_new_privs.
int sr_sys_landlock_restrict(int ruleset);
