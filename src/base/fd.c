#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

int sr_fd_close(int fd)
{
        if (fd >= 0) {
                int saved = errno;

                close(fd);
                errno = saved;
        }
        return -1;
}

void sr_fd_closep(int *fd)
{
        *fd = sr_fd_close(*fd);
}

int sr_fd_write_all(int fd, const void *bytes, size_t length)
{
        const char *from = bytes;

        while (length > 0) {
                ssize_t n = write(fd, from, length);

                if (n >= 0) {
                        from += n;
                        length -= (size_t)n;
                } else if (errno == EAGAIN) {
                        struct pollfd wait = {.fd = fd, .events = POLLOUT};

                        (void)poll(&wait, 1, -1);
                } else if (errno != EINTR) {
                        return -errno;
                }
        }
        return 0;
}

int sr_fd_read_all(int fd, size_t limit, struct sr_buf *buf)
{
        size_t total = 0;

        for (;;) {
                char *to = sr_buf_reserve(buf, 65536);
                ssize_t n = read(fd, to, 65536);

                if (n == 0)
                        return 0;
                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                total += (size_t)n;
                if (total > limit)
                        return -EFBIG;
                buf->len += (size_t)n;
                buf->data[buf->len] = '\0';
        }
}

int sr_fd_read_file(int dirfd, const char *path, size_t limit, struct sr_buf *buf)
{
        _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return sr_fd_read_all(fd, limit, buf);
}

int sr_fd_ensure_standard(void)
{
        for (;;) {
                int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

                if (fd < 0)
                        return -errno;
                if (fd > 2) {
                        close(fd);
                        return 0;
                }
                // 0 to 2 are meant to be inherited.
                if (fcntl(fd, F_SETFD, 0) < 0)
                        return -errno;
        }
}

int sr_fd_make_directories(const char *path, mode_t mode)
{
        _cleanup_free_ char *copy = sr_strdup(path);

        for (char *at = copy + 1; *copy != '\0'; at++) {
                bool end = *at == '\0';

                if (*at != '/' && !end)
                        continue;
                *at = '\0';

                int r = mkdir(copy, mode) < 0 ? -errno : 0;

                if (r == 0 && chmod(copy, mode) < 0)
                        return -errno;
                // Where it exists, the answer is EROFS or EACCES as often as EEXIST.
                if (r < 0 && access(copy, F_OK) < 0)
                        return r;
                if (end)
                        break;
                *at = '/';
        }

        struct stat found;

        if (stat(path, &found) < 0)
                return -errno;
        return S_ISDIR(found.st_mode) ? 0 : -ENOTDIR;
}
