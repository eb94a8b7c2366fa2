#include "sys/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "sys/syscalls.h"

int sr_sys_open_beneath(int dirfd, const char *path)
{
        const struct open_how how = {
                .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
        };
        _cleanup_close_ int fd = sr_sys_openat2(dirfd, path, &how);
        struct stat found;

        if (fd < 0 || fstat(fd, &found) < 0)
                return -errno;
        return S_ISREG(found.st_mode) ? sr_fd_steal(fd) : -EINVAL;
}
