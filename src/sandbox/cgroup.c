#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "sandbox/cgroup_layout.h"
#include "sandbox/scope.h"

#define NAME_PREFIX "sandbox-runner-"
// Where the spawner lives within a v2 subtree, and where our own process and its neighbours go within the
// delegated cgroup of a service: a cgroup that hands controllers on may hold no process itself.
#define SPAWNER_NAME "spawner"
#define SERVER_NAME  "server"
// One that is removed while it is being made is made again, this often.
#define ATTEMPTS 3

// What this process must own of a v2 subtree for another user's process to work in it
// (Documentation/admin-guide/cgroup-v2.rst, "Delegation").
static const char *const delegated_files[] = {"cgroup.procs", "cgroup.subtree_control", "cgroup.threads"};

struct subtree {
        unsigned version;
        uint32_t controllers;
        int base;   // the directory it lies in; -1: it is systemd's to remove
        char *name; // its name in base
        int lock;   // the locked descriptor of the subtree
        int directory;
};

struct sr_cgroup {
        struct subtree subtrees[SR_WIRE_HIERARCHIES_MAX];
        unsigned count;
        char *why;
};

static int open_directory(int dirfd, const char *path, int *ret)
{
        *ret = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret < 0 ? -errno : 0;
}

static int write_text(int directory, const char *file, const char *text)
{
        _cleanup_close_ int fd = openat(directory, file, O_WRONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int move_process(int directory, pid_t pid)
{
        char text[24];

        snprintf(text, sizeof(text), "%d", (int)pid);
        return write_text(directory, "cgroup.procs", text);
}

// Removes the cgroups below `directory` and what is below those: leaves, and the spawner's own.
static void remove_children(int directory)
{
        int copy = -1;

        if (open_directory(directory, ".", &copy) < 0)
                return;
        DIR *entries = fdopendir(copy);
        if (entries == NULL) {
                close(copy);
                return;
        }
        for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
                if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                        (void)unlinkat(directory, entry->d_name, AT_REMOVEDIR);
        closedir(entries);
}

// Whether make_locked() names so.
static bool is_subtree_name(const char *name)
{
        unsigned pid, number;
        int length = 0;

        return sscanf(name, NAME_PREFIX "%u-%8x%n", &pid, &number, &length) == 2 && name[length] == '\0';
}

// Removes the subtrees of dead servers: those whose lock is free. What still has a process in it the kernel
// does not remove.
static void sweep(int base)
{
        int copy = -1;

        if (open_directory(base, ".", &copy) < 0)
                return;
        DIR *entries = fdopendir(copy);
        if (entries == NULL) {
                close(copy);
                return;
        }
        for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
                _cleanup_close_ int found = -1;

                if (!is_subtree_name(entry->d_name) || open_directory(base, entry->d_name, &found) < 0 ||
                    flock(found, LOCK_EX | LOCK_NB) < 0)
                        continue;
                remove_children(found);
                (void)unlinkat(base, entry->d_name, AT_REMOVEDIR);
        }
        closedir(entries);
}

// Makes a directory in base and locks it; -EAGAIN when somebody who sweeps was quicker. Only its owner can
// open it, so nobody else can hold its lock.
static int make_locked(int base, char **ret_name, int *ret_lock)
{
        uint32_t number = 0;

        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                return -EIO;
        _cleanup_free_ char *name = sr_asprintf(NAME_PREFIX "%d-%08" PRIx32, (int)getpid(), number);
        _cleanup_close_ int lock = -1, again = -1;
        struct stat locked, found;

        if (mkdirat(base, name, 0700) < 0)
                return -errno;
        int r = open_directory(base, name, &lock);
        if (r < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0 || open_directory(base, name, &again) < 0 ||
            fstat(lock, &locked) < 0 || fstat(again, &found) < 0 || locked.st_ino != found.st_ino) {
                (void)unlinkat(base, name, AT_REMOVEDIR);
                return -EAGAIN;
        }
        *ret_name = sr_steal(name);
        *ret_lock = sr_fd_steal(lock);
        return 0;
}

static void subtree_remove(struct subtree *subtree)
{
        if (subtree->directory >= 0)
                remove_children(subtree->directory);
        if (subtree->base >= 0 && subtree->name != NULL)
                (void)unlinkat(subtree->base, subtree->name, AT_REMOVEDIR);
        sr_fd_close(subtree->directory);
        sr_fd_close(subtree->lock);
        sr_fd_close(subtree->base);
        free(subtree->name);
}

// Gives the subtree to the spawner's user, where that is not ours.
static int give(int directory, unsigned version, uid_t uid, gid_t gid)
{
        if (uid == geteuid())
                return 0;
        if (fchownat(directory, "", uid, gid, AT_EMPTY_PATH) < 0)
                return -errno;
        for (size_t i = 0; version == 2 && i < sizeof(delegated_files) / sizeof(*delegated_files); i++)
                if (fchownat(directory, delegated_files[i], uid, gid, 0) < 0)
                        return -errno;
        return 0;
}

// Makes the subtree's directory in base, which becomes its own.
static int subtree_make(int base, unsigned version, uint32_t controllers, struct subtree *ret)
{
        struct subtree subtree = {
                .version = version, .controllers = controllers, .lock = -1, .directory = -1};
        int r = -EAGAIN;

        sweep(base);
        for (int i = 0; i < ATTEMPTS && r == -EAGAIN; i++)
                r = make_locked(base, &subtree.name, &subtree.lock);
        // A descriptor without the lock, to hand on.
        if (r == 0)
                r = open_directory(base, subtree.name, &subtree.directory);
        if (r < 0) {
                subtree.base = -1;
                subtree_remove(&subtree);
                return r;
        }
        subtree.base = base;
        *ret = subtree;
        return 0;
}

static uint32_t read_controllers(int directory, const char *file)
{
        _cleanup_buf_ struct sr_buf text = {0};
        uint32_t bits = 0;
        char *save = NULL;

        if (sr_fd_read_file(directory, file, 4096, &text) < 0 || text.data == NULL)
                return 0;
        for (char *word = strtok_r(text.data, " \n", &save); word != NULL;
             word = strtok_r(NULL, " \n", &save))
                for (unsigned i = 0; i < SR_CONTROLLER_COUNT; i++)
                        if (strcmp(word, sr_controller_name((enum sr_controller)i)) == 0)
                                bits |= SR_WIRE_CONTROLLER(i);
        return bits;
}

// Hands on as many of `wanted` as there are; returns those that are handed on.
static uint32_t enable_controllers(int directory, uint32_t wanted)
{
        uint32_t enabled = read_controllers(directory, "cgroup.subtree_control");
        uint32_t missing = wanted & ~enabled & read_controllers(directory, "cgroup.controllers");

        // One by one: a controller that cannot be had does not take the others along.
        for (unsigned i = 0; i < SR_CONTROLLER_COUNT; i++) {
                char text[16];

                if (!(missing & SR_WIRE_CONTROLLER(i)))
                        continue;
                snprintf(text, sizeof(text), "+%s", sr_controller_name((enum sr_controller)i));
                (void)write_text(directory, "cgroup.subtree_control", text);
        }
        return read_controllers(directory, "cgroup.subtree_control") & wanted;
}

// Puts the spawner into a cgroup of its own within the subtree and hands the controllers on to its
// neighbours.
static int settle_version_2(struct subtree *subtree, pid_t spawner, uid_t uid, gid_t gid)
{
        _cleanup_close_ int own = -1;
        int r = 0;

        if (mkdirat(subtree->directory, SPAWNER_NAME, 0755) < 0 && errno != EEXIST)
                return -errno;
        r = open_directory(subtree->directory, SPAWNER_NAME, &own);
        if (r == 0)
                r = move_process(own, spawner);
        if (r < 0)
                return r;
        subtree->controllers = enable_controllers(subtree->directory, subtree->controllers);
        return subtree->controllers == 0 ? -ENODEV : give(subtree->directory, 2, uid, gid);
}

// Whether systemd has delegated the cgroup (systemd.resource-control(5), Delegate=): only root sees the
// trusted mark.
static bool is_delegated(int directory)
{
        char value[4];

        return (fgetxattr(directory, "trusted.delegate", value, sizeof(value)) == 1 ||
                fgetxattr(directory, "user.delegate", value, sizeof(value)) == 1) &&
               value[0] == '1';
}

static bool is_among(const char *processes, pid_t pid)
{
        _cleanup_free_ char *line = sr_asprintf("\n%d\n", (int)pid);
        _cleanup_free_ char *lines = sr_asprintf("\n%s", processes);

        return strstr(lines, line) != NULL;
}

// Moves the processes of the list into the cgroup.
static int move_all(int directory, char *processes)
{
        char *save = NULL;
        int r = 0;

        for (char *line = strtok_r(processes, "\n", &save); line != NULL && r == 0;
             line = strtok_r(NULL, "\n", &save)) {
                r = write_text(directory, "cgroup.procs", line);
                if (r == -ESRCH)
                        r = 0; // ended meanwhile
        }
        return r;
}

// Moves what is in the delegated cgroup of our service, ourselves included, one level down. Where we are not
// (a server beside us has just done it, or it is no cgroup of ours), nothing is moved.
static int make_room(int directory)
{
        _cleanup_close_ int below = -1;
        int r = 0;

        // Again for what was forked meanwhile.
        for (int i = 0; i < ATTEMPTS && r == 0; i++) {
                _cleanup_buf_ struct sr_buf processes = {0};

                r = sr_fd_read_file(directory, "cgroup.procs", 1 << 20, &processes);
                if (r < 0 || processes.len == 0 || (i == 0 && !is_among(processes.data, getpid())))
                        return r;
                if (i == 0 && mkdirat(directory, SERVER_NAME, 0755) < 0 && errno != EEXIST)
                        return -errno;
                if (i == 0)
                        r = open_directory(directory, SERVER_NAME, &below);
                if (r == 0)
                        r = move_all(below, processes.data);
        }
        return r;
}

// The delegated cgroup that we run in or right below. -ENOENT when there is none.
static int open_delegated(const struct sr_cgroup_place *place, int *ret)
{
        _cleanup_close_ int own = -1, parent = -1;
        int r = open_directory(AT_FDCWD, place->own, &own);

        if (r < 0)
                return r;
        if (is_delegated(own)) {
                *ret = sr_fd_steal(own);
                return make_room(*ret);
        }
        // Where systemd, or a server before us, put the service's processes one level down.
        r = strcmp(place->own, place->mount_point) == 0 || sr_cgroup_layout_is_unit(place->own)
                    ? -ENOENT
                    : open_directory(own, "..", &parent);
        if (r == 0 && !is_delegated(parent))
                r = -ENOENT;
        if (r == 0)
                *ret = sr_fd_steal(parent);
        return r;
}

// Makes a subtree in the directory base, which it takes over, once controllers are handed on there.
static int subtree_in(int base, uint32_t controllers, pid_t spawner, uid_t uid, gid_t gid,
                      struct subtree *ret)
{
        uint32_t enabled = enable_controllers(base, controllers);
        int r = enabled == 0 ? -EBUSY : subtree_make(base, 2, enabled, ret);

        if (r < 0) {
                close(base);
                return r;
        }
        r = settle_version_2(ret, spawner, uid, gid);
        if (r < 0) {
                // The spawner may be in it: it is swept when it has ended.
                subtree_remove(ret);
        }
        return r;
}

static int subtree_by_scope(const struct sr_cgroup_place *place, pid_t spawner, uid_t uid, gid_t gid,
                            struct subtree *ret, char **ret_why)
{
        _cleanup_free_ char *path = NULL;
        int r = sr_scope_start(spawner, &path, ret_why);

        if (r < 0)
                return r;
        _cleanup_free_ char *full = sr_asprintf("%s%s", place->mount_point, path);
        struct subtree subtree = {
                .version = 2,
                .controllers = place->controllers,
                .base = -1,
                .lock = -1,
                .directory = -1,
        };

        r = open_directory(AT_FDCWD, full, &subtree.directory);
        if (r == 0)
                r = settle_version_2(&subtree, spawner, uid, gid);
        if (r < 0) {
                *ret_why = sr_asprintf("the scope that systemd gave, %s, cannot be used: %s", full,
                                       strerror(-r));
                subtree_remove(&subtree);
                return r;
        }
        *ret = subtree;
        return 0;
}

// At the top of what is visible: the root of the hierarchy, or a container's own cgroup, which must first be
// empty of processes.
static int subtree_at_top(const struct sr_cgroup_place *place, pid_t spawner, uid_t uid, gid_t gid,
                          struct subtree *ret)
{
        _cleanup_close_ int top = -1;
        int r = open_directory(AT_FDCWD, place->mount_point, &top);

        // cgroup.type is there for every cgroup but the root (cgroup-v2.rst). Nobody else's process is moved.
        if (r == 0 && faccessat(top, "cgroup.type", F_OK, 0) == 0 &&
            (place->controllers & ~read_controllers(top, "cgroup.subtree_control")) != 0)
                r = -EBUSY;
        return r < 0 ? r : subtree_in(sr_fd_steal(top), place->controllers, spawner, uid, gid, ret);
}

static void add_version_2(struct sr_cgroup *cgroup, const struct sr_cgroup_place *place, pid_t spawner,
                          uid_t uid, gid_t gid)
{
        struct subtree *subtree = &cgroup->subtrees[cgroup->count];
        int delegated = -1;
        int r = open_delegated(place, &delegated);

        if (r == 0)
                r = subtree_in(sr_fd_steal(delegated), place->controllers, spawner, uid, gid, subtree);
        else
                sr_fd_close(delegated);
        if (r < 0)
                r = subtree_by_scope(place, spawner, uid, gid, subtree, &cgroup->why);
        // Where systemd runs the top is its own.
        if (r == -EOPNOTSUPP && cgroup->why == NULL && geteuid() == 0) {
                r = subtree_at_top(place, spawner, uid, gid, subtree);
                if (r < 0 && cgroup->why == NULL)
                        cgroup->why = sr_asprintf("no cgroup could be made in %s: %s", place->mount_point,
                                                  r == -EBUSY ? "it holds other processes and hands no "
                                                                "controllers on"
                                                              : strerror(-r));
        }
        if (r == 0) {
                free(sr_steal(cgroup->why));
                cgroup->count++;
        }
}

static void add_version_1(struct sr_cgroup *cgroup, const struct sr_cgroup_place *place, uid_t uid, gid_t gid)
{
        struct subtree *subtree = &cgroup->subtrees[cgroup->count];
        _cleanup_close_ int base = -1;
        int r = open_directory(AT_FDCWD, place->own, &base);

        if (r == 0)
                r = subtree_make(base, 1, place->controllers, subtree);
        if (r == 0) {
                (void)sr_fd_steal(base);
                r = give(subtree->directory, 1, uid, gid);
                if (r < 0)
                        subtree_remove(subtree);
        }
        if (r == 0)
                cgroup->count++;
        else if (cgroup->why == NULL)
                cgroup->why = sr_asprintf("no cgroup could be made in %s: %s%s", place->own, strerror(-r),
                                          r == -EACCES || r == -EPERM
                                                  ? " (cgroup version 1 is root's alone: run it as root, or "
                                                    "start the host with cgroup version 2)"
                                                  : "");
}

// Every limit has a cgroup, or there is a sentence about one that has none.
static void explain(struct sr_cgroup *cgroup, const struct sr_cgroup_layout *layout)
{
        struct sr_limits limits = sr_cgroup_limits(cgroup);
        const char *missing = NULL;

        for (unsigned i = 0; i < SR_CONTROLLER_COUNT && missing == NULL; i++)
                if (limits.by[i] < SR_ENFORCER_CGROUP1)
                        missing = sr_controller_name((enum sr_controller)i);
        if (missing == NULL) {
                free(sr_steal(cgroup->why));
        } else if (cgroup->why == NULL) {
                if (layout->count == 0)
                        cgroup->why = sr_strdup(layout->has_version_2
                                                        ? "the cgroup2 mount of this host has no controllers"
                                                        : "no cgroup hierarchy is mounted here");
                else
                        cgroup->why = sr_asprintf("the %s controller is not there, or not handed down to us",
                                                  missing);
        }
}

struct sr_cgroup *sr_cgroup_make(pid_t spawner, uid_t uid, gid_t gid)
{
        struct sr_cgroup *cgroup = sr_new(struct sr_cgroup);
        struct sr_cgroup_layout layout;

        *cgroup = (struct sr_cgroup){0};
        sr_cgroup_layout_read(&layout);
        for (unsigned i = 0; i < layout.count; i++) {
                if (layout.places[i].version == 2)
                        add_version_2(cgroup, &layout.places[i], spawner, uid, gid);
                else
                        add_version_1(cgroup, &layout.places[i], uid, gid);
        }
        explain(cgroup, &layout);
        sr_cgroup_layout_clear(&layout);
        return cgroup;
}

struct sr_cgroup *sr_cgroup_remove(struct sr_cgroup *cgroup)
{
        if (cgroup != NULL) {
                for (unsigned i = 0; i < cgroup->count; i++)
                        subtree_remove(&cgroup->subtrees[i]);
                free(cgroup->why);
                free(cgroup);
        }
        return NULL;
}

struct sr_limits sr_cgroup_limits(const struct sr_cgroup *cgroup)
{
        struct sr_limits limits = {
                .by[SR_CONTROLLER_MEMORY] = SR_ENFORCER_WATCHDOG,
                .by[SR_CONTROLLER_PIDS] = SR_ENFORCER_WATCHDOG,
        };

        for (unsigned i = 0; i < cgroup->count; i++)
                for (unsigned j = 0; j < SR_CONTROLLER_COUNT; j++)
                        if (cgroup->subtrees[i].controllers & SR_WIRE_CONTROLLER(j))
                                limits.by[j] = cgroup->subtrees[i].version == 2 ? SR_ENFORCER_CGROUP2
                                                                                : SR_ENFORCER_CGROUP1;
        return limits;
}

const char *sr_cgroup_why(const struct sr_cgroup *cgroup)
{
        return cgroup->why;
}

unsigned sr_cgroup_hierarchies(const struct sr_cgroup *cgroup,
                               struct sr_wire_hierarchy ret[SR_WIRE_HIERARCHIES_MAX],
                               int ret_descriptors[SR_WIRE_HIERARCHIES_MAX])
{
        for (unsigned i = 0; i < cgroup->count; i++) {
                ret[i] = (struct sr_wire_hierarchy){
                        .version = cgroup->subtrees[i].version,
                        .controllers = cgroup->subtrees[i].controllers,
                };
                ret_descriptors[i] = cgroup->subtrees[i].directory;
        }
        return cgroup->count;
}
