#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run/run.h"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNAL_COUNT (sizeof(signals) / sizeof(signals[0]))

// A handler can reach nothing but what is global.
static volatile sig_atomic_t caught;
static struct sr_run_cancel *to_cancel;
static int wake_fd = -1;

static void on_signal(int number)
{
        int saved = errno;
        uint64_t one = 1;

        if (caught != 0)
                _exit(128 + number);
        caught = number;
        if (to_cancel != NULL)
                sr_run_cancel_fire(to_cancel);
        (void)!write(wake_fd, &one, sizeof(one));
        errno = saved;
}

int sr_interrupt_catch(struct sr_run_cancel *cancel)
{
        // No SA_RESTART: a read that waits for the terminal has to come back.
        struct sigaction action = {.sa_handler = on_signal};

        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (wake_fd < 0)
                return -errno;
        to_cancel = cancel;
        sigemptyset(&action.sa_mask);
        for (size_t i = 0; i < SIGNAL_COUNT; i++)
                sigaddset(&action.sa_mask, signals[i]);
        for (size_t i = 0; i < SIGNAL_COUNT; i++) {
                struct sigaction before;

                if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
                        (void)sigaction(signals[i], &action, NULL);
        }
        return wake_fd;
}

void sr_interrupt_release(void)
{
        for (size_t i = 0; i < SIGNAL_COUNT; i++) {
                struct sigaction now;

                if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == on_signal)
                        signal(signals[i], SIG_DFL);
        }
        to_cancel = NULL;
}

int sr_interrupt_signal(void)
{
        return caught;
}
