// The results of requests of which nothing ran.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "language/language.h"
#include "run/run.h"
#include "run/runner.h"

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

void sr_run_refuse(struct sr_run_result *result, enum sr_run_reason reason, const struct sr_error *error)
{
        const char *message = sr_error_message(error);

        result->status = SR_RUN_ERROR;
        result->reason = reason;
        result->accepted = false;
        result->duration_ms = 0;
        free(result->err);
        result->err = sr_strdup(message);
        result->err_length = strlen(message);
        free(result->problem);
        result->problem = sr_strdup(message);
        sr_freep(&result->image);
        sr_freep(&result->image_digest);
}
