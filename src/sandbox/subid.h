// Ids of the host that an ordinary user may give away: /etc/subuid and /etc/subgid, and the set-id programs
// that map them.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sr_subid_range {
        uint32_t first;
        uint32_t count;
};

// Looks in text, the content of such a file (man 5 subuid: "user:first:count" a line, the user by name or by
// number), for the largest range of this user. name may be NULL. false when there is none.
bool sr_subid_find(const char *text, const char *name, uid_t uid, struct sr_subid_range *ret);

// The command that gives this user 65536 ids nobody has, for root to run: beyond what /etc/subuid and
// /etc/subgid below the directory `root` ("" for the host itself) give to anybody, or in the first gap where
// nothing is left beyond; clear of the users of /etc/passwd and of the ids that sandboxes of root use from
// root_id_base on. NULL when there is no such range, or a file cannot be read. The caller frees it.
char *sr_subid_add_command(const char *root, const char *name, uint32_t root_id_base);

// The path of a program that maps ids (newuidmap, newgidmap), looked for in fixed directories, never in PATH;
// NULL when it is not installed. The caller frees it.
char *sr_subid_find_program(const char *name);

// A program that was started and not yet waited for.
struct sr_subid_helper {
        pid_t pid; // 0: none
        int output;
};
#define SR_SUBID_HELPER_NONE ((struct sr_subid_helper){.output = -1})

// Starts `program` with arguments (NULL-terminated, the name included), an empty environment and no
// descriptor of ours. Safe while other threads exist. 0 or a negative errno.
int sr_subid_start(const char *program, char *const *arguments, struct sr_subid_helper *ret);
// Waits for its end, at most a few seconds. 0, or a negative errno and in *ret_said, which the caller frees,
// the first line of what it said ("" when nothing). Does nothing and returns 0 when none was started.
int sr_subid_finish(struct sr_subid_helper *helper, char **ret_said);
