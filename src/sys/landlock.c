#include "sys/landlock.h"

#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

// struct landlock_ruleset_attr as of version 6; an older kernel takes it as long as what it does not know is
// 0.
struct ruleset_attributes {
        uint64_t handled_access_fs;
        uint64_t handled_access_net;
        uint64_t scoped;
};

int sr_sys_landlock_version(void)
{
        return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

int sr_sys_landlock_create(uint64_t rights, uint64_t scopes)
{
        const struct ruleset_attributes attributes = {.handled_access_fs = rights, .scoped = scopes};

        return (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0);
}

int sr_sys_landlock_allow(int ruleset, int fd, uint64_t rights)
{
        const struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};

        return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

int sr_sys_landlock_restrict(int ruleset)
{
        return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
