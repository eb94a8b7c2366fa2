#include "run/cancel.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

struct sr_run_cancel *sr_run_cancel_new(void)
{
        struct sr_run_cancel *cancel = sr_new(struct sr_run_cancel);

        cancel->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return cancel;
}

void sr_run_cancel_fire(struct sr_run_cancel *cancel)
{
        const uint64_t one = 1;
        int saved = errno;

        (void)!write(cancel->event, &one, sizeof(one));
        errno = saved;
}

int sr_run_cancel_fd(const struct sr_run_cancel *cancel)
{
        return cancel->event;
}

struct sr_run_cancel *sr_run_cancel_free(struct sr_run_cancel *cancel)
{
        if (cancel != NULL) {
                sr_fd_close(cancel->event);
                free(cancel);
        }
        return NULL;
}
