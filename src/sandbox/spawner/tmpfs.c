#include "sandbox/spawner/tmpfs.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/statfs.h>

#include "base/fd.h"
#include "sys/syscalls.h"

static int set_number(int context, const char *key, uint64_t number)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        return sr_sys_fsconfig(context, FSCONFIG_SET_STRING, key, text);
}

int sr_tmpfs_make(uint64_t bytes, uint32_t inodes, int *ret)
{
        _cleanup_close_ int context = sr_sys_fsopen("tmpfs", FSOPEN_CLOEXEC);

        if (context < 0 || set_number(context, "size", bytes) < 0 ||
            set_number(context, "nr_inodes", inodes) < 0 ||
            sr_sys_fsconfig(context, FSCONFIG_SET_STRING, "mode", "1777") < 0 ||
            sr_sys_fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
                return -errno;
        *ret = sr_sys_fsmount(context, FSMOUNT_CLOEXEC,
                              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        return *ret < 0 ? -errno : 0;
}

struct sr_tmpfs_usage sr_tmpfs_usage(int fd)
{
        struct statfs found;

        if (fd < 0 || fstatfs(fd, &found) < 0)
                return (struct sr_tmpfs_usage){0};
        return (struct sr_tmpfs_usage){
                .bytes = (uint64_t)(found.f_blocks - found.f_bfree) * (uint64_t)found.f_bsize,
                .full = found.f_bfree == 0 || found.f_ffree == 0,
        };
}
