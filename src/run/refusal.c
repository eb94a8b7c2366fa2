// The result of a request that never reached the runner: refused by its caller, or impossible to start.
#include <string.h>

#include "base/alloc.h"
#include "language/language.h"
#include "run/run.h"

struct sr_run_result *sr_run_result_new_refused(const char *language, enum sr_run_reason reason,
                                                const char *message)
{
        struct sr_run_result *result = sr_new(struct sr_run_result);

        *result = (struct sr_run_result){
                .status = SR_RUN_ERROR,
                .reason = reason,
                .out = sr_strdup(""),
                .err = sr_strdup(message),
                .err_length = strlen(message),
                .problem = sr_strdup(message),
                .language = language != NULL ? sr_language_normalise(language) : sr_strdup(""),
        };
        return result;
}
