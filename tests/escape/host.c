#include "host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"

// So that what leaks out of it is recognised.
static const char secret[] = "the host's secret\n";

static int complain(const char *what)
{
        fprintf(stderr, "escape-driver: %s: %s\n", what, strerror(errno));
        return -1;
}

static void add(struct host *host, char *text)
{
        sr_strv_append(&host->environment, text);
}

static int make_file(const struct host *host, const char *name, const char *text, mode_t mode)
{
        _cleanup_free_ char *path = sr_asprintf("%s/%s", host->directory, name);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

        if (fd < 0 || sr_fd_write_all(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0)
                return complain(path);
        return 0;
}

static int make_directory(struct host *host)
{
        strcpy(host->directory, "/var/tmp/escape-XXXXXX");
        if (mkdtemp(host->directory) == NULL) {
                *host->directory = '\0';
                return complain("making a directory in /var/tmp");
        }
        // Everybody may enter it and read what is in it: nothing but the sandbox is in the way.
        _cleanup_free_ char *job = sr_asprintf("%s/job", host->directory);
        if (chmod(host->directory, 0755) < 0 || mkdir(job, 0755) < 0)
                return complain(job);
        if (make_file(host, "secret", secret, 0666) < 0 ||
            make_file(host, "program", "#!/bin/sh\necho the host ran this\n", 0755) < 0)
                return -1;
        add(host, sr_asprintf("ESCAPE_DIRECTORY=%s", host->directory));
        return 0;
}

static int listen_on(const char *what, int family, const void *address, socklen_t length)
{
        int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || bind(fd, address, length) < 0 || listen(fd, 16) < 0) {
                sr_fd_close(fd);
                return complain(what);
        }
        return fd;
}

static int make_listeners(struct host *host)
{
        struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_un abstract = {.sun_family = AF_UNIX}, path = {.sun_family = AF_UNIX};
        socklen_t length = sizeof(port);

        host->port_listener = listen_on("listening on 127.0.0.1", AF_INET, &port, sizeof(port));
        if (host->port_listener < 0)
                return -1;
        if (getsockname(host->port_listener, (struct sockaddr *)&port, &length) < 0)
                return complain("reading the port");
        add(host, sr_asprintf("ESCAPE_PORT=%u", ntohs(port.sin_port)));

        int n = snprintf(abstract.sun_path + 1, sizeof(abstract.sun_path) - 1, "escape-%d", getpid());
        add(host, sr_asprintf("ESCAPE_SOCKET=%s", abstract.sun_path + 1));
        host->abstract_listener =
                listen_on("listening on an abstract socket", AF_UNIX, &abstract,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
        snprintf(path.sun_path, sizeof(path.sun_path), "%s/socket", host->directory);
        host->path_listener = listen_on(path.sun_path, AF_UNIX, &path, sizeof(path));
        return host->abstract_listener < 0 || host->path_listener < 0 ? -1 : 0;
}

static int make_segment(struct host *host)
{
        key_t key = 0x65730000 | (getpid() & 0xffff);

        host->segment = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666);
        if (host->segment < 0)
                return complain("making a shared memory segment");
        add(host, sr_asprintf("ESCAPE_KEY=%d", (int)key));
        return 0;
}

int host_make(struct host *host)
{
        *host = (struct host){
                .port_listener = -1, .abstract_listener = -1, .path_listener = -1, .segment = -1};
        add(host, sr_strdup("ESCAPE_SANDBOXED=1"));
        add(host, sr_strdup("PATH=/usr/local/bin:/usr/bin:/bin"));
        add(host, sr_asprintf("ESCAPE_PID=%d", getpid()));
        return make_directory(host) < 0 || make_listeners(host) < 0 || make_segment(host) < 0 ? -1 : 0;
}

void host_free(struct host *host)
{
        static const char *const files[] = {"secret", "program", "socket"};

        sr_fd_close(host->port_listener);
        sr_fd_close(host->abstract_listener);
        sr_fd_close(host->path_listener);
        if (host->segment >= 0)
                shmctl(host->segment, IPC_RMID, NULL);
        if (*host->directory != '\0') {
                _cleanup_free_ char *job = sr_asprintf("%s/job", host->directory);

                for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
                        _cleanup_free_ char *path = sr_asprintf("%s/%s", host->directory, files[i]);

                        unlink(path);
                }
                // What an attempt left there is damage, and stays for a look.
                rmdir(job);
                rmdir(host->directory);
        }
        host->environment = sr_strv_free(host->environment);
}

static bool was_reached(int listener)
{
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        sr_fd_close(fd);
        return fd >= 0;
}

const char *host_damage(const struct host *host)
{
        _cleanup_buf_ struct sr_buf text = {0};
        _cleanup_free_ char *path = sr_asprintf("%s/secret", host->directory);
        struct shmid_ds segment;

        if (was_reached(host->port_listener))
                return "the host's loopback was reached";
        if (was_reached(host->abstract_listener) || was_reached(host->path_listener))
                return "a socket of the host was reached";
        if (sr_fd_read_file(AT_FDCWD, path, 4096, &text) < 0 || text.len != strlen(secret) ||
            memcmp(text.data, secret, text.len) != 0) {
                make_file(host, "secret", secret, 0666); // for the next attempt
                return "a file of the host was changed";
        }
        if (shmctl(host->segment, IPC_STAT, &segment) < 0 || segment.shm_nattch != 0)
                return "shared memory of the host was reached";
        return NULL;
}
