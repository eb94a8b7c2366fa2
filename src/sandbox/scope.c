#include "sandbox/scope.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

#if __has_include(<systemd/sd-bus.h>)
#include <systemd/sd-bus.h>

// How long systemd may take to make the scope.
#define WAIT_US 5000000u

// The functions used, found when they are first needed: the library is no part of a run that has a cgroup
// already, and a host without systemd has none.
#define FUNCTIONS(X)                                                                                         \
        X(sd_bus_new)                                                                                        \
        X(sd_bus_set_address)                                                                                \
        X(sd_bus_set_bus_client)                                                                             \
        X(sd_bus_set_method_call_timeout)                                                                    \
        X(sd_bus_start)                                                                                      \
        X(sd_bus_flush_close_unref)                                                                          \
        X(sd_bus_match_signal)                                                                               \
        X(sd_bus_message_new_method_call)                                                                    \
        X(sd_bus_message_append)                                                                             \
        X(sd_bus_message_open_container)                                                                     \
        X(sd_bus_message_close_container)                                                                    \
        X(sd_bus_message_read)                                                                               \
        X(sd_bus_message_unref)                                                                              \
        X(sd_bus_call)                                                                                       \
        X(sd_bus_process)                                                                                    \
        X(sd_bus_wait)                                                                                       \
        X(sd_bus_slot_unref)                                                                                 \
        X(sd_bus_error_free)

struct library {
        void *handle;
#define X(name) __typeof__(&name) name;
        FUNCTIONS(X)
#undef X
};

#define DESTINATION "org.freedesktop.systemd1"
#define OBJECT      "/org/freedesktop/systemd1"
#define INTERFACE   "org.freedesktop.systemd1.Manager"

static int library_open(struct library *ret)
{
        *ret = (struct library){.handle = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL)};
        if (ret->handle == NULL)
                return -EOPNOTSUPP;
#define X(name)                                                                                              \
        ret->name = (__typeof__(&name))(uintptr_t)dlsym(ret->handle, #name);                                 \
        if (ret->name == NULL)                                                                               \
                return -EOPNOTSUPP;
        FUNCTIONS(X)
#undef X
        return 0;
}

// The bus of the systemd that is to make the scope. The variables of a login may be missing where systemd's
// socket is there all the same (su, cron).
static char *bus_address(void)
{
        const char *given = getenv("DBUS_SESSION_BUS_ADDRESS");
        uid_t uid = geteuid();

        if (uid == 0)
                return sr_strdup("unix:path=/run/dbus/system_bus_socket");
        _cleanup_free_ char *path = sr_asprintf("/run/user/%u/bus", uid);

        // The user's own manager is on its own bus, whatever other bus a desktop may have.
        if (access(path, W_OK) == 0 || given == NULL || *given == '\0')
                return sr_asprintf("unix:path=%s", path);
        return sr_strdup(given);
}

static int bus_open(const struct library *library, sd_bus **ret)
{
        _cleanup_free_ char *address = bus_address();
        sd_bus *bus = NULL;
        int r = library->sd_bus_new(&bus);

        if (r >= 0)
                r = library->sd_bus_set_address(bus, address);
        if (r >= 0)
                r = library->sd_bus_set_bus_client(bus, 1);
        if (r >= 0)
                r = library->sd_bus_set_method_call_timeout(bus, WAIT_US);
        if (r >= 0)
                r = library->sd_bus_start(bus);
        if (r < 0) {
                library->sd_bus_flush_close_unref(bus);
                return r;
        }
        *ret = bus;
        return 0;
}

struct job {
        const struct library *library;
        char *path; // NULL until it is known
        // The first few that ended before that.
        struct {
                char *path, *result;
        } ended[16];
        size_t ended_count;
};

// JobRemoved(u id, o job, s unit, s result). It may come before the answer that tells which job is ours.
static int job_removed(sd_bus_message *message, void *context, sd_bus_error *error)
{
        struct job *job = context;
        const char *path = NULL, *unit = NULL, *result = NULL;
        uint32_t id;

        (void)error;
        if (job->library->sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) >= 0 &&
            job->ended_count < sizeof(job->ended) / sizeof(*job->ended) &&
            (job->path == NULL || strcmp(path, job->path) == 0)) {
                job->ended[job->ended_count].path = sr_strdup(path);
                job->ended[job->ended_count++].result = sr_strdup(result);
        }
        return 0;
}

// The result of the job that began the scope ("done", "failed"…), or NULL when none came in time.
static const char *await_job(const struct library *library, sd_bus *bus, const struct job *job)
{
        uint64_t end_us = sr_clock_monotonic_ns() / 1000 + WAIT_US;

        for (;;) {
                for (size_t i = 0; i < job->ended_count; i++)
                        if (strcmp(job->ended[i].path, job->path) == 0)
                                return job->ended[i].result;

                uint64_t now_us = sr_clock_monotonic_ns() / 1000;
                int r = library->sd_bus_process(bus, NULL);

                if (r < 0 || now_us >= end_us)
                        return NULL;
                if (r == 0 && library->sd_bus_wait(bus, end_us - now_us) < 0)
                        return NULL;
        }
}

// StartTransientUnit(s name, s mode, a(sv) properties, a(sa(sv)) auxiliary) → o job.
static int start_unit(const struct library *library, sd_bus *bus, const char *name, pid_t pid,
                      sd_bus_error *error, struct job *job)
{
        sd_bus_message *call = NULL, *answer = NULL;
        const char *path = NULL;
        int r = library->sd_bus_message_new_method_call(bus, &call, DESTINATION, OBJECT, INTERFACE,
                                                        "StartTransientUnit");

        if (r >= 0)
                r = library->sd_bus_message_append(call, "ss", name, "fail");
        if (r >= 0)
                r = library->sd_bus_message_open_container(call, 'a', "(sv)");
        if (r >= 0)
                r = library->sd_bus_message_append(
                        call, "(sv)(sv)(sv)(sv)(sv)(sv)(sv)(sv)", "Description", "s",
                        "Sandboxes of sandbox-runner", "PIDs", "au", 1, (uint32_t)pid, "Delegate", "b", 1,
                        "MemoryAccounting", "b", 1, "CPUAccounting", "b", 1, "TasksAccounting", "b", 1,
                        "TasksMax", "t", UINT64_MAX, "CollectMode", "s", "inactive-or-failed");
        if (r >= 0)
                r = library->sd_bus_message_close_container(call);
        if (r >= 0)
                r = library->sd_bus_message_append(call, "a(sa(sv))", 0);
        if (r >= 0)
                r = library->sd_bus_call(bus, call, WAIT_US, error, &answer);
        if (r >= 0)
                r = library->sd_bus_message_read(answer, "o", &path);
        if (r >= 0)
                job->path = sr_strdup(path);
        library->sd_bus_message_unref(call);
        library->sd_bus_message_unref(answer);
        return r < 0 ? r : 0;
}

// Where the process is on v2, as the kernel says it.
static int read_cgroup(pid_t pid, char **ret)
{
        _cleanup_free_ char *file = sr_asprintf("/proc/%d/cgroup", (int)pid);
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_fd_read_file(-1, file, 64 * 1024, &text);
        const char *line = r == 0 && text.data != NULL ? strstr(text.data, "0::") : NULL;

        if (line == NULL || (line != text.data && line[-1] != '\n'))
                return r < 0 ? r : -ENOENT;
        line += strlen("0::");
        *ret = sr_asprintf("%.*s", (int)strcspn(line, "\n"), line);
        return 0;
}

static int start(const struct library *library, sd_bus *bus, pid_t pid, char **ret, char **ret_why)
{
        uint32_t number = 0;
        struct job job = {.library = library};
        sd_bus_error error = SD_BUS_ERROR_NULL;
        sd_bus_slot *slot = NULL;

        (void)!getrandom(&number, sizeof(number), 0);
        _cleanup_free_ char *name = sr_asprintf("sandbox-runner-%d-%08x.scope", (int)getpid(), number);
        int r = library->sd_bus_match_signal(bus, &slot, DESTINATION, OBJECT, INTERFACE, "JobRemoved",
                                             job_removed, &job);
        if (r >= 0)
                r = start_unit(library, bus, name, pid, &error, &job);
        if (r < 0) {
                *ret_why = sr_asprintf("systemd did not give a scope: %s",
                                       error.message != NULL ? error.message : strerror(-r));
        } else {
                const char *result = await_job(library, bus, &job);

                if (result == NULL || strcmp(result, "done") != 0) {
                        *ret_why = sr_asprintf("systemd did not start the scope %s: %s", name,
                                               result != NULL ? result : "no answer in time");
                        r = -EIO;
                } else {
                        r = read_cgroup(pid, ret);
                        if (r == 0 && strstr(*ret, name) == NULL)
                                r = -EIO;
                        if (r < 0)
                                *ret_why = sr_asprintf("systemd started the scope %s, but the process is not "
                                                       "in it",
                                                       name);
                }
        }
        library->sd_bus_slot_unref(slot);
        library->sd_bus_error_free(&error);
        for (size_t i = 0; i < job.ended_count; i++) {
                free(job.ended[i].path);
                free(job.ended[i].result);
        }
        free(job.path);
        return r;
}

int sr_scope_start(pid_t pid, char **ret, char **ret_why)
{
        struct library library;
        sd_bus *bus = NULL;

        // sd_booted(3).
        if (access("/run/systemd/system", F_OK) < 0) {
                *ret_why = NULL;
                return -EOPNOTSUPP;
        }
        int r = library_open(&library);
        if (r < 0) {
                *ret_why =
                        sr_strdup("the library libsystemd.so.0, which asks systemd for a cgroup, is missing: "
                                  "install the package libsystemd0");
                return r;
        }
        r = bus_open(&library, &bus);
        if (r < 0) {
                *ret_why = geteuid() == 0
                                   ? sr_asprintf("the system bus does not answer: %s", strerror(-r))
                                   : sr_asprintf("the user's bus does not answer (%s): log in, or let this "
                                                 "user's systemd run always with: loginctl enable-linger",
                                                 strerror(-r));
                return r;
        }
        r = start(&library, bus, pid, ret, ret_why);
        library.sd_bus_flush_close_unref(bus);
        return r;
}
#else
int sr_scope_start(pid_t pid, char **ret, char **ret_why)
{
        (void)pid;
        (void)ret;
        *ret_why =
                sr_strdup("this program was built without sd-bus (package libsystemd-dev), so systemd cannot "
                          "be asked for a cgroup");
        return -EOPNOTSUPP;
}
#endif
