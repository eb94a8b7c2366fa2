// File descriptors: closing, whole reads and writes. Every descriptor of ours is close-on-exec.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

// Closes fd when it is not negative, keeps errno, returns -1.
int sr_fd_close(int fd);
void sr_fd_closep(int *fd);
#define _cleanup_close_ __attribute__((cleanup(sr_fd_closep)))
// Takes the descriptor out of a variable with a cleanup attribute.
#define sr_fd_steal(fd)                                                                                      \
        ({                                                                                                   \
                int sr_stolen_ = (fd);                                                                       \
                (fd) = -1;                                                                                   \
                sr_stolen_;                                                                                  \
        })

// Writes all of it, going on after EINTR and waiting after EAGAIN. 0 or a negative errno.
int sr_fd_write_all(int fd, const void *bytes, size_t length);
// Reads to the end of file, at most limit bytes (-EFBIG when there is more). 0 or a negative errno.
int sr_fd_read_all(int fd, size_t limit, struct sr_buf *buf);
// Opens and reads a whole file of at most limit bytes, relative to dirfd (AT_FDCWD allowed).
int sr_fd_read_file(int dirfd, const char *path, size_t limit, struct sr_buf *buf);
// Opens /dev/null on those of 0, 1 and 2 that are closed, so that no later descriptor lands there.
int sr_fd_ensure_standard(void);
// mkdir -p; every new part gets this mode, whatever the umask. 0 or a negative errno.
int sr_fd_make_directories(const char *path, mode_t mode);
