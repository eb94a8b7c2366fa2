// What `run` says on a terminal of a run's end.
#pragma once

#include "config/config.h"
#include "language/language.h"
#include "run/run.h"

// Says on stderr what a person should know about the end of an accepted run and cannot see from its output:
// why it was ended, which limits it ran into, and what to turn for more. Whoever ended a run by hand knows
// why: nothing is said of that.
void sr_run_explain(const struct sr_run_result *result, const struct sr_config *config,
                    const struct sr_language *language);
