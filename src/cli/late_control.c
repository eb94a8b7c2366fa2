// A control socket only for commands that last.

#include "base/clock.h"
#include "cli/control.h"

// Opening it takes a fraction of a millisecond: much for the shortest runs, nothing for these.
#define DELAY_MS  100
#define NS_PER_MS UINT64_C(1000000)

static void open_socket(void *context)
{
        struct sr_late_control *late = context;

        if (late->tried)
                return;
        late->tried = true;
        // One that cannot be found runs all the same; `ps` says what is wrong with the directory.
        (void)sr_control_start(&late->options, &late->control, NULL);
}

void sr_late_control_begin(struct sr_late_control *late, const struct sr_config *config,
                           struct sr_runner *runner)
{
        *late = (struct sr_late_control){
                .options = {.directories = config->control_directories, .kind = "run", .runner = runner},
                .late = {.at_ns = sr_clock_monotonic_ns() + DELAY_MS * NS_PER_MS,
                         .call = open_socket,
                         .context = late},
        };
}

int sr_late_control_check(struct sr_late_control *late)
{
        uint64_t now = sr_clock_monotonic_ns();

        if (late->tried)
                return -1;
        if (now < late->late.at_ns)
                return (int)((late->late.at_ns - now) / NS_PER_MS) + 1;
        open_socket(late);
        return -1;
}

void sr_late_control_end(struct sr_late_control *late)
{
        late->tried = true;
        late->control = sr_control_stop(late->control);
}
