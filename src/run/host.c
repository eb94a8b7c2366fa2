// What the spawner says of this host, in the words that users see.

#include <stdlib.h>

#include "run/runner.h"
#include "sandbox/idmap.h"
#include "sandbox/subid.h"

void sr_runner_host(struct sr_runner *runner, struct sr_run_host *ret)
{
        struct sr_limits limits;
        enum sr_spawner_ids ids;

        *ret = (struct sr_run_host){0};
        sr_spawner_limits(runner->spawner, &limits, &ret->limits_why);
        sr_spawner_ids(runner->spawner, &ids, &ret->ids_why);
        ret->memory = sr_enforcer_name(limits.by[SR_CONTROLLER_MEMORY]);
        ret->cpu = sr_enforcer_name(limits.by[SR_CONTROLLER_CPU]);
        ret->pids = sr_enforcer_name(limits.by[SR_CONTROLLER_PIDS]);
        ret->own_ids = ids == SR_SPAWNER_IDS_RANGE;
}

void sr_run_host_clear(struct sr_run_host *host)
{
        free(host->limits_why);
        free(host->ids_why);
        *host = (struct sr_run_host){0};
}

uint32_t sr_run_ids_needed(void)
{
        return SR_IDMAP_IDS;
}

char *sr_run_ids_command(const char *root, const char *name, uint32_t root_id_base)
{
        return sr_subid_add_command(root, name, root_id_base);
}
