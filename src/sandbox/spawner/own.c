#include "sandbox/spawner/own.h"

#include "base/fd.h"
#include "sandbox/spawner/tmpfs.h"
#include "sandbox/step.h"

static void discard(const struct sr_leaf_host *host, struct sr_own *own)
{
        own->tmp = sr_fd_close(own->tmp);
        own->shm = sr_fd_close(own->shm);
        sr_leaf_remove(host, &own->leaf);
        own->made = false;
}

static struct sr_wire_failure make(const struct sr_leaf_host *host, unsigned slot,
                                   const struct sr_own_limits *limits, struct sr_own *own)
{
        struct sr_wire_failure failure = {0};
        int r = sr_leaf_make(host, slot, &limits->leaf, &own->leaf);

        own->limits = *limits;
        own->wanted = false;
        if (r < 0)
                return (struct sr_wire_failure){SR_STEP_LEAF, -r};
        r = sr_tmpfs_make(limits->tmp_bytes, limits->tmp_inodes, &own->tmp);
        if (r == 0)
                r = sr_tmpfs_make(limits->tmp_bytes, limits->tmp_inodes, &own->shm);
        own->made = r == 0;
        if (r < 0) {
                discard(host, own);
                failure = (struct sr_wire_failure){SR_STEP_TEMPORARY, -r};
        }
        return failure;
}

static bool are_same(const struct sr_own_limits *a, const struct sr_own_limits *b)
{
        return a->leaf.memory_bytes == b->leaf.memory_bytes && a->leaf.cpu_millis == b->leaf.cpu_millis &&
               a->leaf.processes == b->leaf.processes && a->tmp_bytes == b->tmp_bytes &&
               a->tmp_inodes == b->tmp_inodes;
}

struct sr_wire_failure sr_own_take(const struct sr_leaf_host *host, unsigned slot,
                                   const struct sr_own_limits *limits, struct sr_own *own)
{
        if (own->made && are_same(&own->limits, limits))
                return (struct sr_wire_failure){0};
        discard(host, own);
        return make(host, slot, limits, own);
}

void sr_own_give_back(const struct sr_leaf_host *host, struct sr_own *own)
{
        discard(host, own);
        own->wanted = true;
}

void sr_own_prepare(const struct sr_leaf_host *host, unsigned slot, struct sr_own *own)
{
        if (own->wanted) {
                const struct sr_own_limits limits = own->limits;

                (void)make(host, slot, &limits, own);
        }
}
