#include "sandbox/cgroup_layout.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"

// The controllers we know, by the kernel's names. On v2 processor time is counted without one.
static const struct {
        const char *name;
        uint32_t bits, bits_version_1;
} controllers[] = {
        {"memory", SR_WIRE_CONTROLLER(SR_CONTROLLER_MEMORY), SR_WIRE_CONTROLLER(SR_CONTROLLER_MEMORY)},
        {"cpu", SR_WIRE_CONTROLLER(SR_CONTROLLER_CPU), SR_WIRE_CONTROLLER(SR_CONTROLLER_CPU)},
        {"pids", SR_WIRE_CONTROLLER(SR_CONTROLLER_PIDS), SR_WIRE_CONTROLLER(SR_CONTROLLER_PIDS)},
        {"cpuacct", 0, SR_WIRE_CPU_USAGE},
};

// The bits of a list of names parted by any of `separators`.
static uint32_t read_controllers(const char *list, const char *separators, bool version_1)
{
        uint32_t bits = 0;

        while (*list != '\0') {
                size_t length = strcspn(list, separators);

                for (size_t i = 0; i < sizeof(controllers) / sizeof(*controllers); i++)
                        if (strlen(controllers[i].name) == length &&
                            strncmp(list, controllers[i].name, length) == 0)
                                bits |= version_1 ? controllers[i].bits_version_1 : controllers[i].bits;
                list += length;
                list += strspn(list, separators);
        }
        return bits;
}

// Undoes the octal escapes of mountinfo, in place.
static void unescape(char *text)
{
        char *to = text;

        for (const char *from = text; *from != '\0'; from++) {
                if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
                    from[3] >= '0' && from[3] <= '7') {
                        *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
                        from += 3;
                } else {
                        *to++ = *from;
                }
        }
        *to = '\0';
}

struct mount_line {
        char *root, *mount_point;
        const char *type, *options; // of the super block
};

// Takes a line of mountinfo apart, which it changes. Fields: id, parent, device, root, mount point, options,
// optional fields, "-", type, source, options of the super block.
static bool read_mount(char *line, struct mount_line *ret)
{
        char *save = NULL, *field = strtok_r(line, " ", &save);

        *ret = (struct mount_line){0};
        for (int i = 0; field != NULL && strcmp(field, "-") != 0; i++, field = strtok_r(NULL, " ", &save)) {
                if (i == 3)
                        ret->root = field;
                else if (i == 4)
                        ret->mount_point = field;
        }
        ret->type = strtok_r(NULL, " ", &save);
        (void)strtok_r(NULL, " ", &save);
        ret->options = strtok_r(NULL, " ", &save);
        if (field == NULL || ret->mount_point == NULL || ret->type == NULL || ret->options == NULL)
                return false;
        unescape(ret->root);
        unescape(ret->mount_point);
        return true;
}

// This process's path in the hierarchy: with the controller list `bits` on v1, the line that begins with 0::
// on v2. The caller frees it; NULL when there is none.
static char *own_path(const char *self_cgroup, unsigned version, uint32_t bits)
{
        _cleanup_free_ char *text = sr_strdup(self_cgroup);
        char *save = NULL;

        for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
                char *list = strchr(line, ':'), *path = list != NULL ? strchr(list + 1, ':') : NULL;

                if (path == NULL)
                        continue;
                *path++ = '\0';
                list++;
                if (version == 2 ? *list == '\0' : read_controllers(list, ",", true) == bits)
                        return sr_strdup(path);
        }
        return NULL;
}

char *sr_cgroup_layout_directory(const char *mount_point, const char *mount_root, const char *path)
{
        size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);

        // A path that leaves the cgroup namespace begins with "/..".
        if (strncmp(path, mount_root, length) != 0 || (path[length] != '/' && path[length] != '\0') ||
            strstr(path, "/..") != NULL)
                return NULL;
        path += length;
        return sr_asprintf("%s%s", mount_point, strcmp(path, "/") == 0 ? "" : path);
}

bool sr_cgroup_layout_is_unit(const char *path)
{
        static const char *const suffixes[] = {".service", ".scope", ".slice"};
        size_t length = strlen(path);

        for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++)
                if (length >= strlen(suffixes[i]) &&
                    strcmp(path + length - strlen(suffixes[i]), suffixes[i]) == 0)
                        return true;
        return false;
}

static void add_place(struct sr_cgroup_layout *layout, const struct mount_line *mount, unsigned version,
                      uint32_t bits, const char *self_cgroup)
{
        for (unsigned i = 0; i < layout->count; i++)
                if (layout->places[i].version == version && layout->places[i].controllers == bits)
                        return; // the same hierarchy, mounted twice
        if (layout->count == SR_WIRE_HIERARCHIES_MAX)
                return;

        _cleanup_free_ char *path = own_path(self_cgroup, version, bits);
        char *own = path != NULL ? sr_cgroup_layout_directory(mount->mount_point, mount->root, path) : NULL;

        layout->places[layout->count++] = (struct sr_cgroup_place){
                .version = version,
                .controllers = bits,
                .mount_point = sr_strdup(mount->mount_point),
                .own = own != NULL ? own : sr_strdup(mount->mount_point),
        };
}

void sr_cgroup_layout_parse(const char *mountinfo, const char *self_cgroup, const char *cgroup2_controllers,
                            struct sr_cgroup_layout *ret)
{
        _cleanup_free_ char *text = sr_strdup(mountinfo);
        char *save = NULL;

        *ret = (struct sr_cgroup_layout){0};
        for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
                struct mount_line mount;
                uint32_t bits;

                if (!read_mount(line, &mount))
                        continue;
                if (strcmp(mount.type, "cgroup2") == 0) {
                        _cleanup_free_ char *file = sr_asprintf("%s/cgroup.controllers", mount.mount_point);
                        _cleanup_buf_ struct sr_buf found = {0};

                        ret->has_version_2 = true;
                        if (cgroup2_controllers == NULL)
                                (void)sr_fd_read_file(AT_FDCWD, file, 4096, &found);
                        bits = read_controllers(cgroup2_controllers != NULL ? cgroup2_controllers
                                                : found.data != NULL        ? found.data
                                                                            : "",
                                                " \n", false);
                        if (bits != 0)
                                add_place(ret, &mount, 2, bits, self_cgroup);
                } else if (strcmp(mount.type, "cgroup") == 0) {
                        bits = read_controllers(mount.options, ",", true);
                        if (bits != 0)
                                add_place(ret, &mount, 1, bits, self_cgroup);
                }
        }
}

void sr_cgroup_layout_read(struct sr_cgroup_layout *ret)
{
        _cleanup_buf_ struct sr_buf mounts = {0}, self = {0};

        (void)sr_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, &mounts);
        (void)sr_fd_read_file(AT_FDCWD, "/proc/self/cgroup", 1 << 20, &self);
        sr_cgroup_layout_parse(mounts.data != NULL ? mounts.data : "", self.data != NULL ? self.data : "",
                               NULL, ret);
}

void sr_cgroup_layout_clear(struct sr_cgroup_layout *layout)
{
        for (unsigned i = 0; i < layout->count; i++) {
                free(layout->places[i].mount_point);
                free(layout->places[i].own);
        }
        *layout = (struct sr_cgroup_layout){0};
}
