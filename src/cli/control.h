// What `ps` and `stop` share.
#pragma once

#include "cli/cli.h"
#include "control/control.h"
#include "run/run.h"

// Everything that runs and waits. Loads the configuration; what could not be looked at is said on stderr. 0,
// or after a sentence the verb's failure status.
int sr_control_view_all(struct sr_cli *cli, struct sr_control_view **ret);
// "4121.7"; the caller frees it.
char *sr_control_id(const struct sr_control_server *server, uint64_t number);

// The socket of a command that is most often over before anybody could ask for it: it is opened, with the
// thread behind it, when the command has taken a tenth of a second.
struct sr_late_control {
        struct sr_control_options options;
        struct sr_run_late late; // for the request
        bool tried;
        struct sr_control *control;
};
// late stays where it is until sr_late_control_end. config and runner are borrowed.
void sr_late_control_begin(struct sr_late_control *late, const struct sr_config *config,
                           struct sr_runner *runner);
// For who waits for something else on the thread that runs: opens it when it is time. Milliseconds until it
// is, -1 when that is over.
int sr_late_control_check(struct sr_late_control *late);
void sr_late_control_end(struct sr_late_control *late);
