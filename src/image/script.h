// Running a recipe's script and following what it prints.
#pragma once

#include "base/error.h"

// Runs path with one argument, standard input empty, both outputs handed to output line by line, and waits
// for it. A failure of the script is an error that names its exit code or signal and its last lines. The
// script is told to end (SIGTERM) when this process ends.
int sr_image_script_run(const char *path, const char *argument,
                        void (*output)(void *context, const char *line), void *context,
                        struct sr_error **error);
