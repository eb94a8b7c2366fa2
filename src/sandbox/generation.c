#include "sandbox/generation.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sandbox/message.h"
#include "sandbox/protocol.h"
#include "sandbox/spawner_start.h"

#define ROOTS_MAX 4

struct root_identity {
        dev_t device;
        ino_t inode; // 0: not there
};

struct sr_generation {
        struct sr_spawner_process process;
        struct root_identity roots[ROOTS_MAX];
        unsigned users;
        bool retired; // no longer the current one
};

struct sr_spawner {
        pthread_mutex_t lock;          // guards current and what is in each generation
        struct sr_generation *current; // NULL when none could be started
        char *program;
        char **tree_roots;
        uint32_t root_id_base;
};

static void identify_roots(char *const *tree_roots, struct root_identity ret[ROOTS_MAX])
{
        memset(ret, 0, ROOTS_MAX * sizeof(*ret));
        for (size_t i = 0; i < ROOTS_MAX && tree_roots[i] != NULL; i++) {
                struct stat found;

                if (stat(tree_roots[i], &found) == 0)
                        ret[i] = (struct root_identity){.device = found.st_dev, .inode = found.st_ino};
        }
}

static bool sees_the_roots(const struct sr_generation *generation, char *const *tree_roots)
{
        struct root_identity now[ROOTS_MAX];

        identify_roots(tree_roots, now);
        for (size_t i = 0; i < ROOTS_MAX; i++)
                if (now[i].device != generation->roots[i].device ||
                    now[i].inode != generation->roots[i].inode)
                        return false;
        return true;
}

static struct sr_generation *stop(struct sr_generation *generation)
{
        if (generation != NULL) {
                sr_spawner_process_stop(&generation->process);
                free(generation);
        }
        return NULL;
}

// Begins a generation; the lock is held.
static int begin(struct sr_spawner *spawner, struct sr_error **error)
{
        struct sr_generation *generation = sr_new(struct sr_generation);

        identify_roots(spawner->tree_roots, generation->roots);
        int r = sr_spawner_process_start(spawner->program, spawner->tree_roots, spawner->root_id_base,
                                         &generation->process, error);
        if (r < 0) {
                free(generation);
                return r;
        }
        spawner->current = generation;
        return 0;
}

// Ends the current generation's time; gives it back when nobody uses it, to be stopped. The lock is held.
static struct sr_generation *retire(struct sr_spawner *spawner)
{
        struct sr_generation *generation = sr_steal(spawner->current);

        if (generation == NULL)
                return NULL;
        generation->retired = true;
        return generation->users == 0 ? generation : NULL;
}

static int pass_socket(const struct sr_generation *generation, int socket)
{
        const struct sr_wire_head open = {.version = SR_WIRE_VERSION, .kind = SR_WIRE_OPEN};

        return sr_message_send(generation->process.control, &open, sizeof(open), &socket, 1);
}

int sr_generation_acquire(struct sr_spawner *spawner, int socket, struct sr_generation **ret,
                          struct sr_error **error)
{
        struct sr_generation *unused[2] = {NULL};
        int r = 0;

        pthread_mutex_lock(&spawner->lock);
        if (spawner->current != NULL && !sees_the_roots(spawner->current, spawner->tree_roots))
                unused[0] = retire(spawner);
        if (spawner->current == NULL)
                r = begin(spawner, error);
        if (r == 0) {
                r = pass_socket(spawner->current, socket);
                if (r == -EPIPE) {
                        unused[1] = retire(spawner);
                        r = begin(spawner, error);
                        if (r == 0)
                                r = pass_socket(spawner->current, socket);
                        else
                                r = -EPIPE;
                }
                if (r < 0 && (error == NULL || *error == NULL))
                        sr_error_set(error, SR_ERROR_INTERNAL, -r, "talking to the spawner: %s",
                                     strerror(-r));
        }
        if (r == 0) {
                spawner->current->users++;
                *ret = spawner->current;
        }
        pthread_mutex_unlock(&spawner->lock);
        stop(unused[0]);
        stop(unused[1]);
        return r;
}

void sr_generation_release(struct sr_spawner *spawner, struct sr_generation *generation)
{
        if (generation == NULL)
                return;
        pthread_mutex_lock(&spawner->lock);
        bool unused = --generation->users == 0 && generation->retired;
        pthread_mutex_unlock(&spawner->lock);
        if (unused)
                stop(generation);
}

const struct sr_idmap *sr_generation_ids(const struct sr_generation *generation)
{
        return &generation->process.ids;
}

struct sr_limits sr_generation_limits(const struct sr_generation *generation)
{
        return sr_cgroup_limits(generation->process.cgroup);
}

void sr_spawner_limits(struct sr_spawner *spawner, struct sr_limits *ret, char **ret_why)
{
        pthread_mutex_lock(&spawner->lock);
        const struct sr_cgroup *cgroup = spawner->current != NULL ? spawner->current->process.cgroup : NULL;
        const char *why =
                cgroup != NULL ? sr_cgroup_why(cgroup) : "the spawner ended and could not be replaced";

        *ret = cgroup != NULL ? sr_cgroup_limits(cgroup) : (struct sr_limits){0};
        *ret_why = why != NULL ? sr_strdup(why) : NULL;
        pthread_mutex_unlock(&spawner->lock);
}

void sr_spawner_ids(struct sr_spawner *spawner, enum sr_spawner_ids *ret, char **ret_why)
{
        const char *why = "the spawner ended and could not be started again";

        *ret = SR_SPAWNER_IDS_SINGLE;
        pthread_mutex_lock(&spawner->lock);
        if (spawner->current != NULL) {
                const struct sr_idmap *ids = &spawner->current->process.ids;

                *ret = ids->range ? SR_SPAWNER_IDS_RANGE : SR_SPAWNER_IDS_SINGLE;
                why = ids->why;
        }
        *ret_why = why != NULL ? sr_strdup(why) : NULL;
        pthread_mutex_unlock(&spawner->lock);
}

int sr_spawner_start(const struct sr_spawner_options *options, struct sr_spawner **ret,
                     struct sr_error **error)
{
        struct sr_spawner *spawner = sr_new(struct sr_spawner);

        *spawner = (struct sr_spawner){
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .program = sr_strdup(options->program),
                .tree_roots = sr_strv_copy(options->tree_roots),
                .root_id_base = options->root_id_base,
        };
        int r = begin(spawner, error);
        if (r < 0) {
                sr_spawner_stop(spawner);
                return r;
        }
        *ret = spawner;
        return 0;
}

struct sr_spawner *sr_spawner_stop(struct sr_spawner *spawner)
{
        if (spawner != NULL) {
                stop(spawner->current);
                free(spawner->program);
                sr_strv_free(spawner->tree_roots);
                pthread_mutex_destroy(&spawner->lock);
                free(spawner);
        }
        return NULL;
}

int sr_spawner_give_directory(struct sr_spawner *spawner, int directory_fd, struct sr_error **error)
{
        bool foreign = false;
        uid_t uid = 0;
        gid_t gid = 0;

        pthread_mutex_lock(&spawner->lock);
        if (spawner->current != NULL) {
                const struct sr_idmap *ids = &spawner->current->process.ids;

                foreign = ids->foreign;
                uid = ids->uid;
                gid = ids->gid;
        }
        pthread_mutex_unlock(&spawner->lock);
        if (foreign && fchownat(directory_fd, "", uid, gid, AT_EMPTY_PATH) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno,
                                    "giving the directory to the confined job: %s", strerror(errno));
        return 0;
}
