// The checks of `doctor` about what is written on this host: the image store and the history.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/doctor.h"
#include "history/history.h"

struct place {
        bool exists; // the path itself
        char *part;  // the nearest part of it that exists, or that cannot be looked behind
        int problem; // 0 when the path can be written or made, else a positive errno
};

static void look_at(const char *path, struct place *ret)
{
        *ret = (struct place){.exists = access(path, F_OK) == 0, .part = sr_strdup(path)};
        while (access(ret->part, F_OK) < 0 && errno == ENOENT) {
                char *slash = strrchr(ret->part, '/');

                if (slash == NULL) {
                        ret->problem = ENOENT;
                        return;
                }
                slash[slash == ret->part ? 1 : 0] = '\0';
        }
        if (access(ret->part, W_OK) < 0)
                ret->problem = errno;
}

static char *directory_of(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash == NULL ? sr_strdup(".") : sr_memdup0(path, slash == path ? 1 : (size_t)(slash - path));
}

// Whether a directory is this program's, so that all in it may be given to the user.
static bool is_ours(const char *directory)
{
        const char *slash = strrchr(directory, '/');

        return strcmp(slash != NULL ? slash + 1 : directory, "sandbox-runner") == 0;
}

// Adds the command after which `target`, a directory or file whose problem place says, can be written. None
// that gives a user a directory of somebody else's which others may use too.
static void fix_place(const struct doctor *d, struct doctor_finding *f, const struct place *place,
                      const char *target, bool whole)
{
        _cleanup_free_ char *word = doctor_quote(target), *part = doctor_quote(place->part);
        const char *sudo = doctor_sudo(d);
        unsigned uid = (unsigned)d->facts.uid, gid = (unsigned)d->facts.gid;
        struct stat status;

        if (place->problem == EROFS)
                doctor_fix(f, "%smount -o remount,rw \"$(findmnt -n -o TARGET -T %s)\"", sudo, part);
        else if (place->problem != EACCES || stat(place->part, &status) < 0)
                return;
        else if (status.st_uid == d->facts.uid)
                doctor_fix(f, "chmod u+rwX %s", part);
        else if (!place->exists && whole)
                doctor_fix(f, "%smkdir -p %s && %schown %u:%u %s", sudo, word, sudo, uid, gid, word);
        else if (whole)
                doctor_fix(f, "%schown -R %u:%u %s", sudo, uid, gid, word);
        else if (S_ISREG(status.st_mode))
                doctor_fix(f, "%schown %u:%u %s", sudo, uid, gid, part);
}

void doctor_check_store(const struct doctor *d, struct doctor_finding *f)
{
        static const char *const another =
                "export SANDBOX_RUNNER_IMAGES_STORE=\"$HOME/sandbox-runner-images\"   # images.store, "
                "--store";
        const char *path = d->config->store;
        struct place place;

        look_at(path, &place);
        if (d->store == NULL) {
                doctor_found(f, DOCTOR_ERROR, "%s", d->store_problem);
                doctor_fix(f, "%s", another);
        } else if (place.problem != 0) {
                doctor_found(f, DOCTOR_WARNING, "%s cannot be written: %s; images cannot be brought in", path,
                             strerror(place.problem));
                fix_place(d, f, &place, path, true);
                doctor_fix(f, "%s", another);
        } else {
                doctor_found(f, DOCTOR_OK, "%s%s%s%s", path,
                             place.exists ? "" : ", to be made with the first image",
                             d->config->lower_store != NULL ? "; under it " : "",
                             d->config->lower_store != NULL ? d->config->lower_store : "");
        }
        free(place.part);
}

// The database, or its directory, in which SQLite makes files beside it.
static void look_at_history(const char *path, const char *directory, struct place *ret)
{
        look_at(path, ret);
        if (ret->exists && ret->problem == 0) {
                free(ret->part);
                look_at(directory, ret);
                ret->exists = true;
        }
}

void doctor_check_history(const struct doctor *d, struct doctor_finding *f)
{
        static const char *const another =
                "export SANDBOX_RUNNER_HISTORY_DATABASE=\"$HOME/sandbox_history.db\"   "
                "# history.database, --db";
        const char *path = d->config->database;
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_history_ struct sr_history *history = NULL;
        _cleanup_free_ char *notice = NULL;
        struct sr_history_record *records = NULL;
        struct place place;
        size_t count = 0;

        if (!d->config->history_enabled) {
                doctor_found(f, DOCTOR_OK, "switched off (history.enabled)");
                return;
        }

        _cleanup_free_ char *directory = directory_of(path);

        bool ours = is_ours(directory);

        look_at_history(path, directory, &place);
        if (sr_history_open(path, true, &history, &notice, &error) < 0 ||
            sr_history_list(history, 1, &records, &count, &error) < 0) {
                _cleanup_free_ char *word = doctor_quote(path);

                doctor_found(f, DOCTOR_WARNING, "%s; runs go on without it", sr_error_message(error));
                if (place.problem != 0)
                        fix_place(d, f, &place, ours ? directory : path, ours);
                else if (place.exists)
                        doctor_fix(f, "mv %s %s.damaged", word, word);
                doctor_fix(f, "%s", another);
        } else if (place.problem != 0) {
                doctor_found(f, DOCTOR_WARNING, "%s cannot be written: %s; runs go on without being recorded",
                             path, strerror(place.problem));
                fix_place(d, f, &place, ours ? directory : path, ours);
                doctor_fix(f, "%s", another);
        } else {
                doctor_found(f, DOCTOR_OK, "%s%s", path,
                             place.exists ? "" : ", to be made with the first run");
        }
        sr_history_records_free(records, count);
        free(place.part);
}
