// Running a recipe's script and following what it prints.
#pragma once

#include "base/error.h"

// Runs path with one argument, standard input empty, both outputs handed to output line by line, and waits
// for it. A failure of the script is an error that names its exit code or signal and its last lines.
//
// The script is the head of a process group. What it leaves running there is killed when it ends, and all of
// it when this process dies, by whatever it is killed (it has two seconds to end by itself). SIGHUP, SIGINT,
// SIGQUIT and SIGTERM, unless they are ignored, do not end this process while the script runs: it is told to
// end, made to after five seconds or at a second signal, and the error is -EINTR. They are caught by the
// signal mask of the calling thread, so that no other thread may take them. What a script starts in a session
// or group of its own is beyond this.
int sr_image_script_run(const char *path, const char *argument,
                        void (*output)(void *context, const char *line), void *context,
                        struct sr_error **error);
