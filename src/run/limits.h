// Which limits a run gets: the request's, else the language's, else the configuration's. Pure functions.
#pragma once

#include "base/error.h"
#include "config/config.h"
#include "language/language.h"
#include "run/run.h"
#include "sandbox/limits.h"

// The limits of both stages; timeout_us of the run stage is the request's. -ERANGE with the refusal's
// sentence when the request, or the language where the request says nothing, wants more or less than may be.
int sr_run_limits(const struct sr_config *config, const struct sr_language *language,
                  const struct sr_run_request *request, struct sr_config_stage *ret_compile,
                  struct sr_config_stage *ret_run, struct sr_error **error);

// -ENOTSUP with the refusal's sentence unless a cgroup holds each limit. why is the spawner's sentence about
// that, or NULL.
int sr_run_limits_strict(const struct sr_limits *limits, const char *why, struct sr_error **error);
