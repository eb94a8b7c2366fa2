#include "mcp/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"

struct job {
        void (*work)(void *context);
        void *context;
        struct job *next;
};

struct sr_mcp_worker {
        pthread_mutex_t lock; // guards what follows
        pthread_cond_t changed;
        struct job *first, **end;
        size_t waiting, room;
        bool started, stopping;
        pthread_t thread;
};

struct sr_mcp_worker *sr_mcp_worker_new(size_t room)
{
        struct sr_mcp_worker *worker = sr_new(struct sr_mcp_worker);

        pthread_mutex_init(&worker->lock, NULL);
        pthread_cond_init(&worker->changed, NULL);
        worker->end = &worker->first;
        worker->room = room;
        return worker;
}

static void *work(void *argument)
{
        struct sr_mcp_worker *worker = argument;

        pthread_mutex_lock(&worker->lock);
        for (;;) {
                struct job *job = worker->first;

                if (job == NULL && worker->stopping)
                        break;
                if (job == NULL) {
                        pthread_cond_wait(&worker->changed, &worker->lock);
                        continue;
                }
                worker->first = job->next;
                if (worker->first == NULL)
                        worker->end = &worker->first;
                worker->waiting--;
                pthread_mutex_unlock(&worker->lock);
                job->work(job->context);
                free(job);
                pthread_mutex_lock(&worker->lock);
        }
        pthread_mutex_unlock(&worker->lock);
        return NULL;
}

// Signals are for the program's own threads.
static int start_locked(struct sr_mcp_worker *worker)
{
        sigset_t all, before;
        int r;

        if (worker->started)
                return 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = -pthread_create(&worker->thread, NULL, work, worker);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        worker->started = r == 0;
        return r;
}

int sr_mcp_worker_submit(struct sr_mcp_worker *worker, void (*function)(void *context), void *context)
{
        int r;

        pthread_mutex_lock(&worker->lock);
        r = worker->waiting < worker->room ? start_locked(worker) : -EBUSY;
        if (r == 0) {
                struct job *job = sr_new(struct job);

                *job = (struct job){.work = function, .context = context};
                *worker->end = job;
                worker->end = &job->next;
                worker->waiting++;
                pthread_cond_signal(&worker->changed);
        }
        pthread_mutex_unlock(&worker->lock);
        return r;
}

struct sr_mcp_worker *sr_mcp_worker_free(struct sr_mcp_worker *worker)
{
        if (worker == NULL)
                return NULL;
        pthread_mutex_lock(&worker->lock);
        worker->stopping = true;
        pthread_cond_signal(&worker->changed);
        pthread_mutex_unlock(&worker->lock);
        if (worker->started)
                pthread_join(worker->thread, NULL);
        pthread_cond_destroy(&worker->changed);
        pthread_mutex_destroy(&worker->lock);
        free(worker);
        return NULL;
}
