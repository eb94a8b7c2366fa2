// A transient scope from systemd: a cgroup that a process is put into and that is delegated to us.
#pragma once

#include <sys/types.h>

// Asks the user's systemd, as root the system's, for a scope with `pid` in it and waits until it is there.
// *ret, which the caller frees, is its path below the top of the cgroup tree. 0; -EOPNOTSUPP where systemd or
// its library is not there; another negative errno. *ret_why is a sentence then, freed by the caller.
// https://systemd.io/CONTROL_GROUP_INTERFACE
int sr_scope_start(pid_t pid, char **ret, char **ret_why);
