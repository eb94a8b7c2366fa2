#include "sandbox/spawner/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fd.h"
#include "sys/landlock.h"

// What changes a file, what a program may do in a directory of its own, and all that the rules govern. For a
// program reading and executing are left to the mounts, which show nothing that may not be read. A job's
// directory is a descriptor from outside the sandbox's mounts, and ".." leads on from it into the host's.
#define CHANGE_FILE (SR_LANDLOCK_WRITE_FILE | SR_LANDLOCK_TRUNCATE)
#define CHANGE_DIRECTORY                                                                                     \
        (CHANGE_FILE | SR_LANDLOCK_REMOVE_DIR | SR_LANDLOCK_REMOVE_FILE | SR_LANDLOCK_MAKE_DIR |             \
         SR_LANDLOCK_MAKE_REG | SR_LANDLOCK_MAKE_SOCK | SR_LANDLOCK_MAKE_FIFO | SR_LANDLOCK_MAKE_SYM |       \
         SR_LANDLOCK_REFER)
#define GOVERNED (CHANGE_DIRECTORY | SR_LANDLOCK_MAKE_CHAR | SR_LANDLOCK_MAKE_BLOCK)
#define READ     (SR_LANDLOCK_EXECUTE | SR_LANDLOCK_READ_FILE | SR_LANDLOCK_READ_DIR)

static const struct {
        const char *path;
        uint64_t rights;
} writable[] = {
        {"/tmp", CHANGE_DIRECTORY},
        {"/dev/shm", CHANGE_DIRECTORY},
        {"/dev/null", CHANGE_FILE},
        {"/dev/full", CHANGE_FILE},
        {"/dev/random", CHANGE_FILE},
        {"/dev/urandom", CHANGE_FILE},
        // Thread names and the like; what must not be written there is covered.
        {"/proc", CHANGE_FILE},
};

static int allow_path(int ruleset, const char *path, uint64_t rights)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);

        return fd < 0 || sr_sys_landlock_allow(ruleset, fd, rights) < 0 ? -errno : 0;
}

int sr_wall_raise(bool scratch, bool watched, int directory_fd)
{
        uint64_t known = directory_fd > 0 ? GOVERNED | READ : GOVERNED, scopes = 0;
        int version = sr_sys_landlock_version(), r = 0;

        if (version < 0)
                return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
        if (version < 2)
                return 0;
        if (version < 3)
                known &= ~SR_LANDLOCK_TRUNCATE;
        if (version >= 6)
                scopes = SR_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | SR_LANDLOCK_SCOPE_SIGNAL;

        _cleanup_close_ int ruleset = sr_sys_landlock_create(known, scopes);

        if (ruleset < 0)
                return -errno;
        for (size_t i = 0; i < sizeof(writable) / sizeof(*writable) && r == 0; i++)
                r = allow_path(ruleset, writable[i].path, writable[i].rights & known);
        // Mapped shared and writable it is memory that lives on where no process shows it.
        if (r == 0 && !watched)
                r = allow_path(ruleset, "/dev/zero", CHANGE_FILE & known);
        if (r == 0 && scratch)
                r = allow_path(ruleset, "/scratch", CHANGE_DIRECTORY & known);
        if (r == 0 && directory_fd > 0)
                r = allow_path(ruleset, "/", READ);
        if (r == 0 && directory_fd > 0 &&
            sr_sys_landlock_allow(ruleset, directory_fd, (CHANGE_DIRECTORY | READ) & known) < 0)
                r = -errno;
        if (r == 0 && sr_sys_landlock_restrict(ruleset) < 0)
                r = -errno;
        return r;
}
