// `image rm` and `image gc`: taking images away, and what no image needs.

#include <errno.h>

#include "base/alloc.h"
#include "cli/image/image_cli.h"
#include "image/remove.h"
#include "image/text.h"

static const struct sr_option no_options[] = {{0}};

static void say_freed(const struct sr_image_freed *freed)
{
        _cleanup_free_ char *size = sr_image_size_text(freed->bytes);

        if (freed->postponed)
                sr_image_cli_say("the store is in use by a run or an import, so no space was freed yet; "
                                 "`sandbox-runner image gc` does that later");
        else
                sr_image_cli_say("freed %s (%zu root file systems, %zu blobs)", size, freed->trees,
                                 freed->blobs);
}

// Whether the read-only store has the image that ours does not.
static bool is_shared(struct sr_image_cli *cli, const char *reference)
{
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_image_ struct sr_image *image = NULL;

        return cli->config->lower_store != NULL &&
               sr_image_store_open(cli->config->lower_store, NULL, &store, NULL) == 0 &&
               sr_image_store_find(store, reference, &image, NULL) == 0;
}

static int rm(struct sr_image_cli *cli)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_image_freed freed;
        int r = sr_image_remove(cli->config->store, cli->words[0], &freed, &error);

        if (r == -ENOENT && is_shared(cli, cli->words[0]))
                return sr_image_cli_fail("%s is in the read-only store %s and cannot be removed from here",
                                         cli->words[0], cli->config->lower_store);
        if (r < 0)
                return sr_image_cli_fail("%s", sr_error_message(error));
        say_freed(&freed);
        return SR_IMAGE_EXIT_OK;
}

static int gc(struct sr_image_cli *cli)
{
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_image_freed freed;

        if (sr_image_collect(cli->config->store, &freed, &error) < 0)
                return sr_image_cli_fail("%s", sr_error_message(error));
        say_freed(&freed);
        return freed.postponed ? SR_IMAGE_EXIT_FAILURE : SR_IMAGE_EXIT_OK;
}

const struct sr_image_verb sr_image_verb_rm = {
        .name = "rm",
        .usage = "rm REF",
        .summary = "remove an image",
        .description = "Removes the reference, and then the root file systems and blobs that no other image "
                       "needs. What a\n"
                       "run uses stays: while the store is in use, space is freed later, by `image gc` or "
                       "the next `image rm`.",
        .options = no_options,
        .least = 1,
        .most = 1,
        .main = rm,
};

const struct sr_image_verb sr_image_verb_gc = {
        .name = "gc",
        .usage = "gc",
        .summary = "free the space of what no image needs",
        .description =
                "Removes root file systems and blobs that no image needs, such as those of images that were\n"
                "built or imported anew under the same name.",
        .options = no_options,
        .least = 0,
        .most = 0,
        .main = gc,
};
