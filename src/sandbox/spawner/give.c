#include "sandbox/spawner/give.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"

int sr_give_directory(const char *path, uint32_t id)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 || fchown(fd, id, id) < 0)
                return -errno;
        DIR *directory = fdopendir(fd);
        if (directory == NULL)
                return -errno;
        fd = -1;

        int r = 0;

        for (;;) {
                errno = 0;
                const struct dirent *entry = readdir(directory);

                if (entry == NULL) {
                        r = -errno;
                        break;
                }
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (fchownat(dirfd(directory), entry->d_name, id, id, AT_SYMLINK_NOFOLLOW) < 0) {
                        r = -errno;
                        break;
                }
        }
        closedir(directory);
        return r;
}

void sr_give_pipe(int fd, uint32_t id)
{
        struct statfs found;

        if (fstatfs(fd, &found) == 0 && found.f_type == PIPEFS_MAGIC)
                (void)!fchown(fd, id, id);
}
