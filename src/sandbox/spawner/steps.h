// Carrying out the steps of a plan; async-signal-safe. Each returns 0 or a negative errno.
#pragma once

#include "sandbox/spawner/init.h"

int sr_step_run_init(const struct sr_launch *launch, const struct sr_step *step);
int sr_step_run_snippet(const struct sr_launch *launch, const struct sr_step *step);
