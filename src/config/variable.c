// Which environment variables are ours.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "config/internal.h"

#define PREFIX "SANDBOX_RUNNER_"

// Those that set no tunable: the first names the configuration file, the others are the remote backend's.
static const char *const others[] = {PREFIX "CONFIG", PREFIX "URL", PREFIX "TOKEN"};
#define OTHERS (sizeof(others) / sizeof(others[0]))

bool sr_config_knows_variable(const char *name, char **ret_nearest)
{
        _cleanup_free_ char *nearest = NULL;
        const char *part = name + strlen(PREFIX);
        // One that is wrong in more than a third of it is no slip.
        size_t best = strlen(part) / 3 + 1;

        for (size_t i = 0; i < config_tunable_count + OTHERS; i++) {
                const struct config_tunable *tunable = i < config_tunable_count ? &config_tunables[i] : NULL;
                _cleanup_free_ char *known = tunable != NULL ? config_variable(tunable)
                                                             : sr_strdup(others[i - config_tunable_count]);
                size_t far = config_distance(part, known + strlen(PREFIX));

                if (strcmp(name, known) == 0)
                        return true;
                // "…_MEMORY" means "…_RUN_MEMORY".
                if (tunable != NULL) {
                        size_t member = config_distance(part, strchr(tunable->name, '.') + 1);

                        if (member < far)
                                far = member;
                }
                if (far < best) {
                        best = far;
                        free(nearest);
                        nearest = sr_steal(known);
                }
        }
        *ret_nearest = sr_steal(nearest);
        return false;
}
