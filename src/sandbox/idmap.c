#include "sandbox/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "sandbox/subid.h"
#include "sys/id_map.h"

// Ids that root takes, as many as a distribution gives a user.
#define ROOT_IDS 65536u
// /etc/subuid of a machine with many users.
#define SUBID_FILE_MAX (4 << 20)

static int root_error(int r, struct sr_error **error)
{
        return sr_error_set(error, SR_ERROR_HOST, -r, "reading /proc/self/uid_map: %s; is /proc mounted?",
                            strerror(-r));
}

// Root has a range, so that no program is ever root; where root is the root of a container without that
// range, one id will do, since it is somebody ordinary outside.
static int choose_for_root(uint32_t base, struct sr_idmap *ret, struct sr_error **error)
{
        uint32_t outside = 0, ignored;
        int r = sr_sys_id_map_find("/proc/self/uid_map", base, ROOT_IDS, &ignored);

        if (r == 0)
                r = sr_sys_id_map_find("/proc/self/gid_map", base, ROOT_IDS, &ignored);
        if (r == 0) {
                *ret = (struct sr_idmap){
                        .range = true,
                        .foreign = true,
                        .uid = base,
                        .gid = base,
                        .first_uid = base + 1,
                        .first_gid = base + 1,
                        .count = ROOT_IDS - 1,
                };
                return 0;
        }
        if (r != -ENOENT)
                return root_error(r, error);
        r = sr_sys_id_map_find("/proc/self/uid_map", 0, 1, &outside);
        if (r < 0)
                return root_error(r, error);
        if (outside == 0)
                return sr_error_set(
                        error, SR_ERROR_HOST, EPERM,
                        "the ids %u to %u are not mapped here, and programs are never run as root: map "
                        "them, name others with sandbox.root_id_base, or start this as an ordinary user",
                        base, base + ROOT_IDS - 1);
        ret->why = sr_asprintf("this container has no ids %u to %u", base, base + ROOT_IDS - 1);
        return 0;
}

static char *user_name(uid_t uid)
{
        struct passwd entry, *found = NULL;
        char space[4096];

        return getpwuid_r(uid, &entry, space, sizeof(space), &found) == 0 && found != NULL
                       ? sr_strdup(found->pw_name)
                       : NULL;
}

// Containers of the same user take ids from the start of the range for their users and the last for nobody.
// Ours are from its middle, so that a program shares its id with none of them.
static uint32_t middle(const struct sr_subid_range *range)
{
        return range->first + (range->count - SR_IDMAP_IDS) / 2;
}

static bool find_range(const char *path, const char *name, uint32_t root_id_base, uint32_t *ret_first,
                       char **ret_why)
{
        _cleanup_buf_ struct sr_buf text = {0};
        struct sr_subid_range range = {0};
        int r = sr_fd_read_file(AT_FDCWD, path, SUBID_FILE_MAX, &text);

        if (r < 0 && r != -ENOENT) {
                *ret_why = sr_asprintf("reading %s: %s", path, strerror(-r));
                return false;
        }
        if (text.data == NULL || !sr_subid_find(text.data, name, geteuid(), &range) ||
            range.count < SR_IDMAP_IDS) {
                _cleanup_free_ char *command = sr_subid_add_command("", name, root_id_base);

                *ret_why =
                        sr_asprintf("%s gives this user no range of at least %u ids%s%s", path, SR_IDMAP_IDS,
                                    command != NULL ? "; as root: " : "", command != NULL ? command : "");
                return false;
        }
        *ret_first = middle(&range);
        return true;
}

static void choose_for_user(uint32_t root_id_base, struct sr_idmap *ret)
{
        _cleanup_free_ char *newuidmap = sr_subid_find_program("newuidmap");
        _cleanup_free_ char *newgidmap = sr_subid_find_program("newgidmap");

        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
                ret->why = sr_strdup("this was started with no_new_privs, under which newuidmap can do "
                                     "nothing; start it without (systemd: NoNewPrivileges=no)");
                return;
        }
        if (newuidmap == NULL || newgidmap == NULL) {
                ret->why = sr_asprintf("%s is not installed (Debian and Ubuntu: apt-get install uidmap)",
                                       newuidmap == NULL ? "newuidmap" : "newgidmap");
                return;
        }
        _cleanup_free_ char *name = user_name(geteuid());

        if (name == NULL) {
                ret->why = sr_asprintf("the uid %u has no name in /etc/passwd, and newuidmap maps ids for "
                                       "users with a name alone; start this as one of those",
                                       (unsigned)geteuid());
                return;
        }
        if (find_range("/etc/subuid", name, root_id_base, &ret->first_uid, &ret->why) &&
            find_range("/etc/subgid", name, root_id_base, &ret->first_gid, &ret->why)) {
                ret->range = true;
                ret->count = SR_IDMAP_IDS;
        }
}

int sr_idmap_choose(uint32_t root_id_base, struct sr_idmap *ret, struct sr_error **error)
{
        struct sr_idmap map = {.uid = geteuid(), .gid = getegid()};
        int r = 0;

        if (geteuid() == 0)
                r = choose_for_root(root_id_base, &map, error);
        else
                choose_for_user(root_id_base, &map);
        if (r == 0)
                *ret = map;
        return r;
}

void sr_idmap_give_up_range(struct sr_idmap *map, const char *why)
{
        char *copy = sr_strdup(why);

        free(map->why);
        map->range = false;
        map->why = copy;
}

static int write_file(pid_t pid, const char *file, const char *text)
{
        _cleanup_free_ char *path = sr_asprintf("/proc/%d/%s", (int)pid, file);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return sr_fd_write_all(fd, text, strlen(text));
}

static int write_directly(const struct sr_idmap *map, pid_t pid)
{
        _cleanup_free_ char *uids =
                map->range ? sr_asprintf("0 %u 1\n1 %u %u\n", map->uid, map->first_uid, map->count)
                           : sr_asprintf("0 %u 1\n", map->uid);
        _cleanup_free_ char *gids =
                map->range ? sr_asprintf("0 %u 1\n1 %u %u\n", map->gid, map->first_gid, map->count)
                           : sr_asprintf("0 %u 1\n", map->gid);
        // Who may map one id alone may not drop groups with it (man 7 user_namespaces).
        int r = map->range ? 0 : write_file(pid, "setgroups", "deny");

        if (r == 0)
                r = write_file(pid, "uid_map", uids);
        if (r == 0)
                r = write_file(pid, "gid_map", gids);
        return r;
}

static int start_helper(const char *name, pid_t pid, uint32_t own, uint32_t first, uint32_t count,
                        struct sr_subid_helper *ret)
{
        _cleanup_free_ char *path = sr_subid_find_program(name);
        _cleanup_strv_ char **arguments = NULL;

        if (path == NULL)
                return -ENOENT;
        sr_strv_append(&arguments, sr_strdup(name));
        sr_strv_append(&arguments, sr_asprintf("%d", (int)pid));
        sr_strv_append(&arguments, sr_strdup("0"));
        sr_strv_append(&arguments, sr_asprintf("%u", own));
        sr_strv_append(&arguments, sr_strdup("1"));
        sr_strv_append(&arguments, sr_strdup("1"));
        sr_strv_append(&arguments, sr_asprintf("%u", first));
        sr_strv_append(&arguments, sr_asprintf("%u", count));
        return sr_subid_start(path, arguments, ret);
}

// Both at once: each is an exec of a program that looks the user up.
static int write_by_helpers(const struct sr_idmap *map, pid_t pid, char **ret_why)
{
        struct sr_subid_helper helpers[2] = {SR_SUBID_HELPER_NONE, SR_SUBID_HELPER_NONE};
        static const char *const names[2] = {"newuidmap", "newgidmap"};
        int r = start_helper(names[0], pid, map->uid, map->first_uid, map->count, &helpers[0]);

        if (r == 0)
                r = start_helper(names[1], pid, map->gid, map->first_gid, map->count, &helpers[1]);
        for (size_t i = 0; i < 2; i++) {
                _cleanup_free_ char *said = NULL;
                int ended = sr_subid_finish(&helpers[i], &said);

                if (ended < 0 && r == 0) {
                        r = ended;
                        *ret_why = *said != '\0' ? sr_steal(said)
                                                 : sr_asprintf("%s: %s", names[i], strerror(-ended));
                }
        }
        return r;
}

int sr_idmap_write(const struct sr_idmap *map, pid_t pid, char **ret_why)
{
        *ret_why = NULL;
        return map->range && !map->foreign ? write_by_helpers(map, pid, ret_why) : write_directly(map, pid);
}

void sr_idmap_clear(struct sr_idmap *map)
{
        sr_freep(&map->why);
        *map = (struct sr_idmap){0};
}
