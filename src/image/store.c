// Reading of image stores. Nothing here writes, and only sr_image_store_hold() locks; see import.h, remove.h
// and work.h for the rest.
//
// A store is one directory, or two: the second one below is read-only to us and is asked when the first does
// not have the image. What a reference file says stands with the tree of the same store.
//
// A handle holds paths only and opens them anew for every question: a store that comes into being, or is
// replaced, under a long-lived server is seen, and a handle may be used by many threads.
#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/ref.h"
#include "image/reference.h"

#define LEVELS 2

struct sr_image_store {
        char *directories[LEVELS]; // absolute; NULL: there is none
        char **tree_roots;
};

// Opens one level. -ENOENT without a message when there is none: a directory that does not exist, or into
// which nothing was put, is an empty store.
static int open_level(const struct sr_image_store *store, int level, int *ret_fd, struct sr_error **error)
{
        const char *directory = store->directories[level];

        if (directory == NULL)
                return -ENOENT;

        _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
                return -ENOENT;
        if (fd < 0)
                return sr_error_set(error, SR_ERROR_IMAGE, errno,
                                    "the image store %s cannot be opened: %s; choose another with --store",
                                    directory, strerror(errno));

        int r = sr_image_store_check_format(fd, directory, error);

        if (r < 0)
                return r;
        *ret_fd = sr_fd_steal(fd);
        return 0;
}

// directory as an absolute path, as trees are given out under it.
static int make_absolute(const char *directory, char **ret, struct sr_error **error)
{
        if (directory[0] == '/') {
                *ret = sr_strdup(directory);
                return 0;
        }

        _cleanup_free_ char *here = getcwd(NULL, 0);

        if (here == NULL)
                return sr_error_set(
                        error, SR_ERROR_HOST, errno,
                        "the current directory is not known (%s), so that the image store must be an "
                        "absolute path",
                        strerror(errno));
        *ret = sr_asprintf("%s/%s", here, directory);
        return 0;
}

int sr_image_store_open(const char *directory, const char *lower, struct sr_image_store **ret,
                        struct sr_error **error)
{
        _cleanup_store_ struct sr_image_store *store = sr_new(struct sr_image_store);
        const char *given[LEVELS] = {directory, lower};

        for (int i = 0; i < LEVELS; i++) {
                _cleanup_close_ int fd = -1;

                if (given[i] == NULL)
                        continue;

                int r = make_absolute(given[i], &store->directories[i], error);

                if (r < 0)
                        return r;
                r = open_level(store, i, &fd, error);
                if (r < 0 && r != -ENOENT)
                        return r;
                sr_strv_append(&store->tree_roots, sr_asprintf("%s/trees", store->directories[i]));
        }
        *ret = sr_steal(store);
        return 0;
}

struct sr_image_store *sr_image_store_close(struct sr_image_store *store)
{
        if (store != NULL) {
                for (int i = 0; i < LEVELS; i++)
                        free(store->directories[i]);
                sr_strv_free(store->tree_roots);
                free(store);
        }
        return NULL;
}

void sr_image_store_closep(struct sr_image_store **store)
{
        *store = sr_image_store_close(*store);
}

char *const *sr_image_store_tree_roots(const struct sr_image_store *store)
{
        return store->tree_roots;
}

// Reads the reference file of one level and checks that its tree is there.
static int read_level(struct sr_image_store *store, int level, const char *reference, struct sr_image **ret,
                      struct sr_error **error)
{
        _cleanup_image_ struct sr_image *image = NULL;
        _cleanup_close_ int fd = -1;
        const char *directory = store->directories[level];
        int r = open_level(store, level, &fd, error);

        if (r == 0)
                r = sr_image_ref_read(fd, directory, reference, &image, error);

        if (r < 0)
                return r;
        if (faccessat(fd, image->tree + strlen(directory) + 1, F_OK, 0) < 0)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, ESTALE,
                        "the image %s is incomplete: its root file system %s is not there (%s); bring "
                        "it in again",
                        reference, image->tree, strerror(errno));
        image->store = (unsigned)level;
        *ret = sr_steal(image);
        return 0;
}

// The names in refs/ of one level that are references, appended to *names.
static int list_level(struct sr_image_store *store, int level, char ***names, struct sr_error **error)
{
        _cleanup_close_ int level_fd = -1;
        int r = open_level(store, level, &level_fd, error);

        if (r < 0)
                return r;

        int fd = openat(level_fd, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;

        if (directory == NULL) {
                int errnum = errno;

                sr_fd_close(fd);
                if (errnum == ENOENT)
                        return 0;
                return sr_error_set(error, SR_ERROR_IMAGE, errnum, "%s/refs cannot be read: %s",
                                    store->directories[level], strerror(errnum));
        }
        for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
                char *reference = sr_image_ref_from_name(entry->d_name);

                if (reference != NULL)
                        sr_strv_append(names, reference);
        }
        closedir(directory);
        return 0;
}

static int compare_texts(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

// All references of both levels, sorted, each once.
static int list_references(struct sr_image_store *store, char ***ret, struct sr_error **error)
{
        _cleanup_strv_ char **names = NULL;
        size_t kept = 0;

        for (int i = 0; i < LEVELS; i++) {
                int r = list_level(store, i, &names, error);

                if (r < 0 && r != -ENOENT)
                        return r;
        }

        size_t count = sr_strv_length(names);

        if (count > 0)
                qsort(names, count, sizeof(*names), compare_texts);
        for (size_t i = 0; i < count; i++) {
                if (kept > 0 && strcmp(names[kept - 1], names[i]) == 0) {
                        free(names[i]);
                        names[i] = NULL;
                } else {
                        names[kept++] = names[i];
                }
        }
        if (names != NULL)
                names[kept] = NULL;
        *ret = sr_steal(names);
        return 0;
}

// -ENOENT without a message when no level has it.
static int find_exact(struct sr_image_store *store, const char *familiar, struct sr_image **ret,
                      struct sr_error **error)
{
        for (int i = 0; i < LEVELS; i++) {
                int r = read_level(store, i, familiar, ret, error);

                if (r != -ENOENT)
                        return r;
        }
        return -ENOENT;
}

// An image of wanted's name whose manifest has wanted's digest, under whatever tag it was brought in.
static int find_by_digest(struct sr_image_store *store, const struct sr_image_reference *wanted,
                          struct sr_image **ret, struct sr_error **error)
{
        _cleanup_free_ char *name = sr_image_reference_familiar_name(wanted);
        _cleanup_strv_ char **references = NULL;
        size_t length = strlen(name);
        int r = list_references(store, &references, error);

        for (size_t i = 0; r == 0 && references != NULL && references[i] != NULL; i++) {
                _cleanup_image_ struct sr_image *image = NULL;

                if (strncmp(references[i], name, length) != 0 ||
                    (references[i][length] != ':' && references[i][length] != '@'))
                        continue;
                r = find_exact(store, references[i], &image, error);
                if (r == 0 && strcmp(image->digest, wanted->digest) == 0) {
                        *ret = sr_steal(image);
                        return 0;
                }
                if (r == -ENOENT) // removed meanwhile
                        r = 0;
        }
        return r < 0 ? r : -ENOENT;
}

int sr_image_store_find(struct sr_image_store *store, const char *reference, struct sr_image **ret,
                        struct sr_error **error)
{
        _cleanup_reference_ struct sr_image_reference *wanted = NULL;
        _cleanup_free_ char *familiar = NULL;
        int r = sr_image_reference_parse(reference, &wanted, error);

        if (r < 0)
                return r;
        familiar = sr_image_reference_familiar(wanted);
        r = find_exact(store, familiar, ret, error);
        if (r == -ENOENT && wanted->digest != NULL)
                r = find_by_digest(store, wanted, ret, error);
        if (r == -ENOENT)
                return sr_error_set(
                        error, SR_ERROR_IMAGE, ENOENT,
                        "there is no image %s in the store %s%s%s (`sandbox-runner image list` shows "
                        "what there is)",
                        familiar, store->directories[0], store->directories[1] != NULL ? " nor in " : "",
                        store->directories[1] != NULL ? store->directories[1] : "");
        return r;
}

int sr_image_store_hold(struct sr_image_store *store, struct sr_image *image, struct sr_error **error)
{
        _cleanup_close_ int fd = -1, lock = -1;
        const char *directory = store->directories[image->store];
        int r = open_level(store, (int)image->store, &fd, error);

        if (r < 0 && r != -ENOENT)
                return r;
        if (r == 0) {
                lock = openat(fd, "lock", O_RDONLY | O_CLOEXEC);
                // Without a lock file nobody ever removed anything there.
                if (lock < 0 && errno != ENOENT)
                        return sr_error_set(error, SR_ERROR_IMAGE, errno, "%s/lock cannot be opened: %s",
                                            directory, strerror(errno));
        }
        if (lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) < 0) {
                if (errno == EWOULDBLOCK || errno == EINTR)
                        return -EAGAIN;
                return sr_error_set(error, SR_ERROR_IMAGE, errno, "locking the image store %s: %s", directory,
                                    strerror(errno));
        }
        if (faccessat(AT_FDCWD, image->tree, F_OK, 0) < 0)
                return sr_error_set(error, SR_ERROR_IMAGE, ESTALE,
                                    "the image %s was removed just now; bring it in again", image->reference);
        image->held = lock >= 0;
        image->lock_fd = sr_fd_steal(lock);
        return 0;
}

int sr_image_store_list(struct sr_image_store *store, struct sr_image ***ret, size_t *ret_count,
                        struct sr_error **error)
{
        _cleanup_strv_ char **references = NULL;
        int r = list_references(store, &references, error);

        if (r < 0)
                return r;

        size_t length = sr_strv_length(references), count = 0;
        struct sr_image **images = sr_new_array(struct sr_image *, length + 1);

        for (size_t i = 0; i < length && r == 0; i++) {
                r = find_exact(store, references[i], &images[count], error);
                if (r == 0)
                        count++;
                else if (r == -ENOENT) // removed meanwhile
                        r = 0;
        }
        if (r < 0) {
                for (size_t i = 0; i < count; i++)
                        sr_image_free(images[i]);
                free(images);
                return r;
        }
        *ret = images;
        *ret_count = count;
        return 0;
}

struct sr_image *sr_image_free(struct sr_image *image)
{
        if (image != NULL) {
                if (image->held)
                        sr_fd_close(image->lock_fd);
                free(image->reference);
                free(image->digest);
                free(image->chain_id);
                free(image->tree);
                sr_strv_free(image->environment);
                sr_strv_free(image->labels);
                free(image);
        }
        return NULL;
}

void sr_image_freep(struct sr_image **image)
{
        *image = sr_image_free(*image);
}
