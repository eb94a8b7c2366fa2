// The directories of the sockets: which can be trusted, what is in them, and what is dead there.
//
// A socket is reached through the descriptor of its directory (/proc/self/fd/N/name), so that it is in the
// very directory that was checked, and so that its path may be longer than the 107 bytes of an address
// (unix(7)).

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "control/internal.h"

#define SUFFIX ".sock"
// More than this many sockets is not looked through.
#define NAMES_MAX 4096
#define BACKLOG   16
// Waits for the lock of a directory, a millisecond each.
#define LOCK_TRIES 100

// Whether somebody else could put a directory of his own there, or ours would be in a place of his.
static int check_parent(int parent, const char *path, struct sr_error **error)
{
        struct stat found;

        if (fstat(parent, &found) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "%s: %s", path, strerror(errno));
        if (found.st_uid == 0 || found.st_uid == geteuid() || (found.st_mode & S_ISVTX) != 0)
                return 0;
        return sr_error_set(error, SR_ERROR_HOST, EPERM,
                            "%s will not do: the directory it is in belongs to user %u", path,
                            (unsigned)found.st_uid);
}

static int check_directory(int fd, const char *path, struct sr_error **error)
{
        struct stat found;

        if (fstat(fd, &found) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "%s: %s", path, strerror(errno));
        if (found.st_uid != geteuid())
                return sr_error_set(error, SR_ERROR_HOST, EPERM,
                                    "%s will not do: it belongs to user %u, not to user %u", path,
                                    (unsigned)found.st_uid, (unsigned)geteuid());
        if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
                return sr_error_set(error, SR_ERROR_HOST, EPERM,
                                    "%s will not do: others may enter it (its mode is %04o, not 0700)", path,
                                    found.st_mode & 07777);
        return 0;
}

int control_directory_open(const char *path, bool make, int *ret, struct sr_error **error)
{
        _cleanup_free_ char *copy = sr_strdup(path), *above = NULL;
        _cleanup_close_ int parent = -1, fd = -1;
        size_t length = strlen(copy);

        while (length > 1 && copy[length - 1] == '/')
                copy[--length] = '\0';

        const char *slash = strrchr(copy, '/');

        if (slash == NULL || slash[1] == '\0')
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "%s will not do: it has no name",
                                    path);
        above = slash > copy ? sr_memdup0(copy, (size_t)(slash - copy)) : sr_strdup("/");
        parent = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (parent < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "%s: %s", above, strerror(errno));

        int r = check_parent(parent, path, error);

        if (r < 0)
                return r;
        if (make && mkdirat(parent, slash + 1, S_IRWXU) < 0 && errno != EEXIST)
                return sr_error_set(error, SR_ERROR_HOST, errno, "cannot make %s: %s", path, strerror(errno));
        // As a mere place at first: what belongs to somebody else cannot be opened, but should be named.
        fd = openat(parent, slash + 1, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
                return sr_error_set(error, SR_ERROR_HOST, ENOTDIR,
                                    "%s will not do: it is a symbolic link or no directory", path);
        if (fd < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "%s: %s", path, strerror(errno));
        r = check_directory(fd, path, error);
        if (r < 0)
                return r;
        r = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "%s: %s", path, strerror(errno));
        *ret = r;
        return 0;
}

int64_t control_name_pid(const char *name)
{
        size_t digits = strspn(name, "0123456789");

        if (digits == 0 || digits > 10 || name[0] == '0' || strcmp(name + digits, SUFFIX) != 0)
                return 0;
        return strtoll(name, NULL, 10);
}

int control_directory_list(int directory, char ***ret, struct sr_error **error)
{
        _cleanup_close_ int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_ char **names = sr_new_array(char *, 1);
        DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
        struct dirent *entry;

        if (entries == NULL)
                return sr_error_set(error, SR_ERROR_HOST, errno, "cannot read a directory: %s",
                                    strerror(errno));
        fd = -1; // closedir does it
        for (size_t count = 0; count < NAMES_MAX && (entry = readdir(entries)) != NULL;)
                if (control_name_pid(entry->d_name) > 0) {
                        sr_strv_append(&names, sr_strdup(entry->d_name));
                        count++;
                }
        closedir(entries);
        *ret = sr_steal(names);
        return 0;
}

bool control_directory_lock(int directory)
{
        const struct timespec step = {.tv_nsec = 1000 * 1000};

        for (int i = 0; i < LOCK_TRIES; i++) {
                if (flock(directory, LOCK_EX | LOCK_NB) == 0)
                        return true;
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return false;
                nanosleep(&step, NULL);
        }
        return false;
}

void control_directory_unlock(int directory)
{
        (void)flock(directory, LOCK_UN);
}

static struct sockaddr_un address_of(int directory, const char *name)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        // Names are digits and a suffix, so it fits.
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", directory, name);
        return address;
}

int control_connect(int directory, const char *name)
{
        struct sockaddr_un address = address_of(directory, name);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return -errno;
        return sr_fd_steal(fd);
}

// With the lock held nobody is between making a socket and listening on it.
static void remove_dead_locked(int directory, const char *name)
{
        int fd = control_connect(directory, name);

        if (fd == -ECONNREFUSED)
                (void)unlinkat(directory, name, 0);
        sr_fd_close(fd);
}

bool control_remove_dead(int directory, const char *name)
{
        if (!control_directory_lock(directory))
                return false;
        remove_dead_locked(directory, name);
        control_directory_unlock(directory);
        return true;
}

int control_listen(int directory, const char *name, int *ret, struct sr_error **error)
{
        struct sockaddr_un address = address_of(directory, name);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        bool locked;
        int r = 0;

        if (fd < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "cannot make a socket: %s", strerror(errno));
        // A lock that somebody keeps must not keep us from listening.
        locked = control_directory_lock(directory);
        remove_dead_locked(directory, name); // of a process that had our pid
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0)
                r = -errno;
        if (locked)
                control_directory_unlock(directory);
        if (r < 0)
                return sr_error_set(error, SR_ERROR_HOST, -r, "cannot listen on %s there: %s", name,
                                    strerror(-r));
        *ret = sr_fd_steal(fd);
        return 0;
}
