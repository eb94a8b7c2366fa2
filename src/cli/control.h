// What `ps` and `stop` share.
#pragma once

#include "cli/cli.h"
#include "control/control.h"

// Everything that runs and waits. Loads the configuration; what could not be looked at is said on stderr. 0,
// or after a sentence the verb's failure status.
int sr_control_view_all(struct sr_cli *cli, struct sr_control_view **ret);
// "4121.7"; the caller frees it.
char *sr_control_id(const struct sr_control_server *server, uint64_t number);
