#include "cli/doctor_facts.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "run/run.h"
#include "sys/id_map.h"

// What is read is short, but for the tables of mounts and of subordinate ids of a large host.
#define FILE_LIMIT (16 << 20)
// What sandboxes started by root use, from sandbox.root_id_base on.
#define ROOT_IDS 65536u

static char *below(const char *root, const char *path)
{
        return sr_asprintf("%s%s", root, path);
}

// The whole file; NULL when it cannot be read.
static char *read_text(const char *root, const char *path)
{
        _cleanup_free_ char *full = below(root, path);
        _cleanup_buf_ struct sr_buf text = {0};

        return sr_fd_read_file(AT_FDCWD, full, FILE_LIMIT, &text) < 0 ? NULL : sr_buf_steal(&text, NULL);
}

static bool exists(const char *root, const char *path)
{
        _cleanup_free_ char *full = below(root, path);

        return access(full, F_OK) == 0;
}

// A number in a file of its own; -1 when there is none.
static int64_t read_number(const char *root, const char *path)
{
        _cleanup_free_ char *text = read_text(root, path);
        int64_t number;

        return text != NULL && sscanf(text, "%" SCNd64, &number) == 1 ? number : -1;
}

// The next line of *at, which it ends with a NUL; NULL after the last.
static char *next_line(char **at)
{
        char *line = *at;

        if (line == NULL || *line == '\0')
                return NULL;
        *at = line + strcspn(line, "\n");
        if (**at != '\0')
                *(*at)++ = '\0';
        return line;
}

static bool starts_with(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool ends_with(const char *text, const char *suffix)
{
        size_t length = strlen(text), wanted = strlen(suffix);

        return length >= wanted && strcmp(text + length - wanted, suffix) == 0;
}

static void read_status(const char *root, struct doctor_facts *facts)
{
        _cleanup_free_ char *text = read_text(root, "/proc/self/status");
        unsigned real, effective, number;
        uint64_t bounds;

        for (char *at = text, *line; (line = next_line(&at)) != NULL;)
                if (sscanf(line, "Uid: %u %u", &real, &effective) == 2)
                        facts->uid = effective;
                else if (sscanf(line, "Gid: %u %u", &real, &effective) == 2)
                        facts->gid = effective;
                else if (sscanf(line, "CapBnd: %" SCNx64, &bounds) == 1)
                        facts->root_is_weak = !(bounds & (UINT64_C(1) << CAP_SYS_ADMIN));
                else if (sscanf(line, "NoNewPrivs: %u", &number) == 1)
                        facts->no_new_privs = number != 0;
                else if (sscanf(line, "Seccomp: %u", &number) == 1)
                        facts->filtered = number == 2; // SECCOMP_MODE_FILTER
}

static void read_user(const char *root, struct doctor_facts *facts)
{
        _cleanup_free_ char *text = NULL;

        facts->primary_gid = facts->gid;
        if (*root == '\0') {
                const struct passwd *entry = getpwuid(facts->uid);

                if (entry != NULL) {
                        facts->user = sr_strdup(entry->pw_name);
                        facts->primary_gid = entry->pw_gid;
                }
                return;
        }
        text = read_text(root, "/etc/passwd");
        for (char *at = text, *line; (line = next_line(&at)) != NULL && facts->user == NULL;) {
                char name[64];
                unsigned uid, gid;

                if (sscanf(line, "%63[^:]:%*[^:]:%u:%u:", name, &uid, &gid) == 3 && uid == facts->uid) {
                        facts->user = sr_strdup(name);
                        facts->primary_gid = gid;
                }
        }
}

static void read_os(const char *root, struct doctor_facts *facts)
{
        _cleanup_free_ char *text = read_text(root, "/etc/os-release");

        for (char *at = text, *line; (line = next_line(&at)) != NULL;) {
                char **to = starts_with(line, "ID=")           ? &facts->os_id
                            : starts_with(line, "VERSION_ID=") ? &facts->os_version
                                                               : NULL;

                if (to == NULL || *to != NULL)
                        continue;
                line = strchr(line, '=') + 1;
                line += strspn(line, "\"'");
                line[strcspn(line, "\"'")] = '\0';
                *to = sr_strdup(line);
        }
}

// The pid namespace that the kernel begins with (PROC_PID_INIT_INO of include/linux/proc_ns.h).
#define FIRST_PID_NAMESPACE "pid:[4026531836]"

// Container engines leave a mark of their own; /run/systemd/container is the mark of those that follow
// https://systemd.io/CONTAINER_INTERFACE. A machine whose file system was a container's image has the mark
// too.
static enum doctor_container read_container(const char *root)
{
        _cleanup_free_ char *path = below(root, "/proc/self/ns/pid");
        char name[64] = "";

        if (readlink(path, name, sizeof(name) - 1) > 0 && strcmp(name, FIRST_PID_NAMESPACE) == 0)
                return DOCTOR_CONTAINER_NONE;
        if (exists(root, "/var/run/secrets/kubernetes.io"))
                return DOCTOR_CONTAINER_KUBERNETES;
        if (exists(root, "/run/.containerenv"))
                return DOCTOR_CONTAINER_PODMAN;
        if (exists(root, "/.dockerenv"))
                return DOCTOR_CONTAINER_DOCKER;
        return exists(root, "/run/systemd/container") ? DOCTOR_CONTAINER_OTHER : DOCTOR_CONTAINER_NONE;
}

static const char *const namespace_names[DOCTOR_NS_COUNT] = {
        [DOCTOR_NS_USER] = "user",     [DOCTOR_NS_MOUNT] = "mnt", [DOCTOR_NS_PID] = "pid",
        [DOCTOR_NS_NET] = "net",       [DOCTOR_NS_IPC] = "ipc",   [DOCTOR_NS_UTS] = "uts",
        [DOCTOR_NS_CGROUP] = "cgroup",
};

const char *doctor_namespace_name(enum doctor_namespace kind)
{
        return namespace_names[kind];
}

static void read_kernel(const char *root, struct doctor_facts *facts)
{
        facts->kernel_release = read_text(root, "/proc/sys/kernel/osrelease");
        if (facts->kernel_release != NULL) {
                facts->kernel_release[strcspn(facts->kernel_release, "\n")] = '\0';
                (void)sscanf(facts->kernel_release, "%u.%u", &facts->kernel_major, &facts->kernel_minor);
        }
        facts->has_user_namespaces = exists(root, "/proc/self/ns/user");
        for (size_t i = 0; i < DOCTOR_NS_COUNT; i++) {
                _cleanup_free_ char *path =
                        sr_asprintf("/proc/sys/user/max_%s_namespaces", namespace_names[i]);

                facts->max_namespaces[i] = read_number(root, path);
        }
        facts->unprivileged_userns_clone = read_number(root, "/proc/sys/kernel/unprivileged_userns_clone");
        facts->apparmor_restriction =
                read_number(root, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
        facts->has_apparmor_profile = exists(root, "/etc/apparmor.d/sandbox-runner");
}

static bool has_word(const char *list, const char *separators, const char *word)
{
        for (size_t length; *list != '\0'; list += length, list += strspn(list, separators)) {
                length = strcspn(list, separators);
                if (length == strlen(word) && strncmp(list, word, length) == 0)
                        return true;
        }
        return false;
}

// Those of a list that limit what we limit.
static char *our_controllers(const char *list, const char *separators)
{
        static const char *const ours[] = {"memory", "cpu", "pids"};
        struct sr_buf found = {0};

        for (size_t i = 0; list != NULL && i < sizeof(ours) / sizeof(ours[0]); i++)
                if (has_word(list, separators, ours[i]))
                        sr_buf_printf(&found, "%s%s", found.len > 0 ? ", " : "", ours[i]);
        return sr_buf_steal(&found, NULL);
}

static void note_cgroup_mount(const char *root, const char *type, const char *mount_point, bool read_only,
                              const char *super_options, struct doctor_facts *facts)
{
        _cleanup_free_ char *processes = sr_asprintf("%s/cgroup.procs", mount_point);

        // Something else may be mounted over it.
        if (!exists(root, processes))
                return;
        if (strcmp(type, "cgroup2") == 0 && !facts->cgroup2) {
                _cleanup_free_ char *file = sr_asprintf("%s/cgroup.controllers", mount_point);
                _cleanup_free_ char *list = read_text(root, file);

                facts->cgroup2 = true;
                facts->cgroup_controllers = our_controllers(list, " \n");
                facts->cgroup_read_only |= read_only;
        } else if (strcmp(type, "cgroup") == 0) {
                _cleanup_free_ char *ours = our_controllers(super_options, ",");

                if (*ours == '\0')
                        return;
                facts->cgroup1 = true;
                facts->cgroup_read_only |= read_only;
        }
}

// Fields of a line: id, parent, device, root, mount point, options, optional fields, "-", type, source,
// options of the super block (man 5 proc). The names that matter here hold nothing that is escaped.
static void read_mounts(const char *root, struct doctor_facts *facts)
{
        _cleanup_free_ char *text = read_text(root, "/proc/self/mountinfo");
        bool has_root = text == NULL;

        for (char *at = text, *line; (line = next_line(&at)) != NULL;) {
                char *dash = strstr(line, " - ");
                _cleanup_free_ char *mount_point = NULL, *options = NULL, *type = NULL, *super = NULL;

                if (dash == NULL || sscanf(line, "%*s %*s %*s %*s %ms %ms", &mount_point, &options) != 2 ||
                    sscanf(dash, " - %ms %*s %ms", &type, &super) != 2)
                        continue;

                bool read_only = has_word(options, ",", "ro");

                if (strcmp(mount_point, "/") == 0)
                        has_root = true;
                if (strcmp(mount_point, "/proc") == 0)
                        facts->proc_read_only = read_only;
                // The kernel does not mind what is mounted on a directory that exists for that.
                if (starts_with(mount_point, "/proc/") && strcmp(type, "binfmt_misc") != 0 &&
                    strcmp(type, "autofs") != 0 && strcmp(type, "nfsd") != 0)
                        sr_strv_append(&facts->covered, sr_strdup(mount_point));
                if (starts_with(type, "cgroup"))
                        note_cgroup_mount(root, type, mount_point, read_only, super, facts);
        }
        if (facts->cgroup_controllers == NULL)
                facts->cgroup_controllers = sr_strdup("");
        // The root of a chroot is a mount point of nobody's.
        facts->in_chroot = !has_root;
}

// Which service of systemd's this is, by the path of its cgroup: the last part that ends so. What is below
// user@UID.service belongs to the user's own systemd.
static void read_unit(const char *root, struct doctor_facts *facts)
{
        _cleanup_free_ char *text = read_text(root, "/proc/self/cgroup"), *unit = NULL;
        bool is_user = false;

        for (char *at = text, *line; (line = next_line(&at)) != NULL;) {
                // The line of cgroup2, and that of systemd's own hierarchy on hosts of version 1.
                if (!starts_with(line, "0::") && strstr(line, ":name=systemd:") == NULL)
                        continue;
                for (char *save = NULL, *part = strtok_r(line + strcspn(line, "/"), "/", &save); part != NULL;
                     part = strtok_r(NULL, "/", &save)) {
                        if (starts_with(part, "user@")) {
                                is_user = true;
                        } else if (ends_with(part, ".service")) {
                                free(unit);
                                unit = sr_strdup(part);
                        }
                }
        }
        *(is_user ? &facts->user_unit : &facts->unit) = sr_steal(unit);
}

static void read_systemd(const char *root, struct doctor_facts *facts)
{
        _cleanup_free_ char *manager = sr_asprintf("/run/user/%u/systemd", (unsigned)facts->uid);
        _cleanup_free_ char *bus = sr_asprintf("/run/user/%u/bus", (unsigned)facts->uid);

        facts->grub = exists(root, "/etc/default/grub");
        facts->systemd = exists(root, "/run/systemd/system");
        facts->user_manager = exists(root, manager);
        facts->user_bus = exists(root, bus);
#if __has_include(<systemd/sd-bus.h>)
        facts->sd_bus = true;
#endif
        // As the library is looked for when a cgroup is wanted.
        if (*root == '\0') {
                void *library = dlopen("libsystemd.so.0", RTLD_LAZY | RTLD_LOCAL);

                facts->libsystemd = library != NULL;
                if (library != NULL)
                        dlclose(library);
        } else {
                facts->libsystemd = exists(root, "/usr/lib/libsystemd.so.0");
        }
}

// The largest range of the user in such a file (man 5 subuid: user:first:count, by name or by number).
static uint64_t largest_range(const char *root, const char *path, const struct doctor_facts *facts)
{
        _cleanup_free_ char *text = read_text(root, path), *number = sr_asprintf("%u", (unsigned)facts->uid);
        uint64_t largest = 0, count;

        for (char *at = text, *line; (line = next_line(&at)) != NULL;) {
                char *colon = strchr(line, ':');

                if (colon == NULL)
                        continue;
                *colon = '\0';
                if ((strcmp(line, number) == 0 || (facts->user != NULL && strcmp(line, facts->user) == 0)) &&
                    sscanf(colon + 1, "%*u:%" SCNu64, &count) == 1 && count > largest)
                        largest = count;
        }
        return largest;
}

// Looked for where the sandbox looks: never in PATH.
static bool find_mapper(const char *root, const char *name, struct doctor_facts *facts)
{
        static const char *const directories[] = {"/usr/bin", "/bin", "/usr/local/bin"};

        for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
                _cleanup_free_ char *path = sr_asprintf("%s%s/%s", root, directories[i], name);
                struct stat found;
                struct statvfs where;

                if (access(path, X_OK) < 0 || stat(path, &found) < 0)
                        continue;
                if (getxattr(path, "security.capability", NULL, 0) > 0)
                        facts->mappers_as_root = false;
                else if (!(found.st_mode & S_ISUID))
                        facts->mappers_plain = true;
                if (statvfs(path, &where) == 0 && (where.f_flag & ST_NOSUID))
                        facts->mappers_nosuid = true;
                return true;
        }
        return false;
}

static void read_ids(const char *root, uint32_t base, struct doctor_facts *facts)
{
        _cleanup_free_ char *uid_map = below(root, "/proc/self/uid_map");
        _cleanup_free_ char *gid_map = below(root, "/proc/self/gid_map");
        uint32_t outside;

        facts->mappers_as_root = true;
        facts->has_newuidmap = find_mapper(root, "newuidmap", facts);
        facts->has_newgidmap = find_mapper(root, "newgidmap", facts);
        facts->subuid_count = largest_range(root, "/etc/subuid", facts);
        facts->subgid_count = largest_range(root, "/etc/subgid", facts);
        if (facts->user != NULL)
                facts->ids_command = sr_run_ids_command(root, facts->user, base);
        facts->root_ids_mapped = sr_sys_id_map_find(uid_map, base, ROOT_IDS, &outside) == 0 &&
                                 sr_sys_id_map_find(gid_map, base, ROOT_IDS, &outside) == 0;
        facts->root_outside = sr_sys_id_map_find(uid_map, 0, 1, &outside) == 0 ? outside : 0;
}

void doctor_facts_read(const char *root, uint32_t root_id_base, struct doctor_facts *ret)
{
        *ret = (struct doctor_facts){0};
        read_status(root, ret);
        read_user(root, ret);
        ret->container = read_container(root);
        read_os(root, ret);
        read_kernel(root, ret);
        read_mounts(root, ret);
        read_unit(root, ret);
        read_systemd(root, ret);
        read_ids(root, root_id_base, ret);
}

void doctor_facts_clear(struct doctor_facts *facts)
{
        free(facts->user);
        free(facts->unit);
        free(facts->user_unit);
        free(facts->os_id);
        free(facts->os_version);
        free(facts->programs);
        free(facts->kernel_release);
        free(facts->ids_command);
        free(facts->cgroup_controllers);
        sr_strv_free(facts->covered);
        *facts = (struct doctor_facts){0};
}
