#include "image/recipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/script.h"
#include "image/text.h"
#include "image/walk.h"

static bool is_recipe(int directory_fd, const char *name)
{
        _cleanup_free_ char *path = sr_asprintf("%s/build", name);

        return name[0] != '.' && faccessat(directory_fd, path, X_OK, AT_EACCESS) == 0;
}

int sr_image_recipe_list(const char *recipes_directory, char ***ret)
{
        _cleanup_close_ int fd = open(recipes_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_ char **names = NULL, **recipes = NULL;
        int r = fd < 0 ? -errno : sr_image_read_names(fd, &names);

        if (r < 0)
                return r;
        for (size_t i = 0; names != NULL && names[i] != NULL; i++)
                if (is_recipe(fd, names[i]))
                        sr_strv_append(&recipes, sr_strdup(names[i]));
        *ret = sr_steal(recipes);
        return 0;
}

// Refuses a name that is none of the directory's recipes, and says what these are.
static int check_recipe(const char *recipes_directory, const char *name, struct sr_error **error)
{
        _cleanup_strv_ char **recipes = NULL;
        _cleanup_buf_ struct sr_buf list = {0};
        _cleanup_free_ char *shown = sr_image_printable(name);
        int r = sr_image_recipe_list(recipes_directory, &recipes);

        if (r < 0)
                return sr_error_set(
                        error, SR_ERROR_BAD_REQUEST, -r,
                        "the recipes' directory %s cannot be read: %s; name another with the tunable "
                        "images.recipes",
                        recipes_directory, strerror(-r));
        for (size_t i = 0; recipes != NULL && recipes[i] != NULL; i++) {
                if (strcmp(recipes[i], name) == 0)
                        return 0;
                sr_buf_printf(&list, "%s%s", i > 0 ? ", " : "", recipes[i]);
        }
        return sr_error_set(error, SR_ERROR_BAD_REQUEST, ENOENT, "there is no recipe %s in %s; there %s%s",
                            shown, recipes_directory, list.len > 0 ? "are: " : "is none",
                            list.len > 0 ? list.data : "");
}

// The images that the recipe made at since_us or later. Trouble with the store counts as none: building says
// it.
static void find_built(const char *store_directory, const char *name, int64_t since_us,
                       struct sr_image_list *ret)
{
        _cleanup_free_ char *label = sr_asprintf(SR_IMAGE_RECIPE_LABEL "=%s", name);
        _cleanup_store_ struct sr_image_store *store = NULL;
        struct sr_image_list all = {0};

        if (sr_image_store_open(store_directory, NULL, &store, NULL) < 0 ||
            sr_image_store_list(store, &all.images, &all.count, NULL) < 0)
                return;

        size_t kept = 0;

        for (size_t i = 0; i < all.count; i++) {
                bool made = false;

                for (size_t j = 0; all.images[i]->labels != NULL && all.images[i]->labels[j] != NULL; j++)
                        made = made || strcmp(all.images[i]->labels[j], label) == 0;
                if (made && all.images[i]->created_us >= since_us)
                        all.images[kept++] = all.images[i];
                else
                        sr_image_free(all.images[i]);
        }
        all.count = kept;
        if (kept > 0)
                *ret = all;
        else
                sr_image_list_clear(&all);
}

// Moves the recipe's output directory to where nothing removes it.
static char *keep_output(struct sr_image_writer *writer, const struct sr_image_work *work, const char *name)
{
        const int fd = sr_image_writer_fd(writer);
        const char *number = strrchr(sr_image_work_name(work), '-') + 1;
        _cleanup_free_ char *path = sr_asprintf("kept/%s-%s", name, number);

        if ((mkdirat(fd, "kept", 0755) < 0 && errno != EEXIST) ||
            renameat(sr_image_work_fd(work), "output", fd, path) < 0)
                return NULL;
        return sr_asprintf("%s/%s", sr_image_writer_path(writer), path);
}

// Runs the script and brings in what it leaves.
static int build(struct sr_image_writer *writer, const struct sr_image_work *work, const char *script,
                 const char *name, const struct sr_image_build_options *options, struct sr_image_list *ret,
                 struct sr_error **error)
{
        const struct sr_image_import_options import = {.confine = options->confine,
                                                       .progress = options->progress};
        _cleanup_free_ char *output =
                sr_asprintf("%s/tmp/%s/output", sr_image_writer_path(writer), sr_image_work_name(work));
        _cleanup_close_ int fd = -1;

        if (mkdirat(sr_image_work_fd(work), "output", 0755) < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno, "%s cannot be made: %s", output,
                                    strerror(errno));

        int r = sr_image_script_run(script, output, options->output, options->output_context, error);

        if (r < 0)
                return sr_error_prefix(error, r, "the recipe %s", name);
        fd = openat(sr_image_work_fd(work), "output", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return sr_error_set(error, SR_ERROR_IMAGE, errno,
                                    "the recipe %s took its output directory away: %s", name,
                                    strerror(errno));
        r = sr_image_import_rootfs(writer, work, fd, name, &import, ret, error);
        return r < 0 ? sr_error_prefix(error, r, "what the recipe %s left is not usable", name) : 0;
}

int sr_image_recipe_build(const char *store_directory, const char *recipes_directory, const char *name,
                          const struct sr_image_build_options *options, struct sr_image_list *ret,
                          char **ret_kept, struct sr_error **error)
{
        _cleanup_writer_ struct sr_image_writer *writer = NULL;
        _cleanup_work_ struct sr_image_work *lock = NULL, *work = NULL;
        _cleanup_free_ char *lock_name = sr_asprintf("build-%s", name);
        _cleanup_free_ char *script = sr_asprintf("%s/%s/build", recipes_directory, name);
        struct sr_image_list built = {0};
        const int64_t start_us = sr_clock_realtime_us();
        bool waited = false;
        int r = check_recipe(recipes_directory, name, error);

        if (r < 0)
                return r;
        if (options->if_missing)
                find_built(store_directory, name, 0, &built);
        if (built.count == 0) {
                r = sr_image_writer_open(store_directory, LOCK_SH, &writer, error);
                if (r == 0)
                        r = sr_image_work_open(writer, lock_name, options->progress, &lock, &waited, error);
                if (r == 0 && waited)
                        find_built(store_directory, name, start_us, &built);
        }
        if (r == 0 && built.count == 0)
                r = sr_image_work_open_unique(writer, "output", &work, error);
        if (r < 0)
                return r;
        if (built.count == 0) {
                r = build(writer, work, script, name, options, &built, error);
                if (options->keep && ret_kept != NULL)
                        *ret_kept = keep_output(writer, work, name);
        }
        if (r == 0)
                *ret = built;
        return r;
}
