// `image build`: an image from a recipe.

#include <stdlib.h>

#include "base/alloc.h"
#include "cli/image/image_cli.h"
#include "image/recipe.h"

static const struct sr_option options[] = {
        {SR_IMAGE_OPTION_ID(SR_IMAGE_OPTION_IF_MISSING), "if-missing", NULL,
         "do nothing when the store has an image of this recipe"},
        {SR_IMAGE_OPTION_ID(SR_IMAGE_OPTION_KEEP), "keep", NULL,
         "keep the directory that the recipe worked in, and say where it is"},
        {0},
};

static void show_line(void *context, const char *line)
{
        (void)context;
        sr_image_cli_say("%s", line);
}

static int build(struct sr_image_cli *cli)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_images_ struct sr_image_list list = {0};
        _cleanup_free_ char *kept = NULL;
        const struct sr_image_build_options build_options = {
                .confine = cli->confine,
                .progress = &cli->progress,
                .output = show_line,
                .if_missing = cli->values[SR_IMAGE_OPTION_IF_MISSING] != NULL,
                .keep = cli->values[SR_IMAGE_OPTION_KEEP] != NULL,
        };
        int r = sr_image_recipe_build(cli->config->store, cli->config->recipes, cli->words[0], &build_options,
                                      &list, &kept, &error);

        if (kept != NULL)
                sr_image_cli_say("what the recipe left is kept in %s", kept);
        if (r < 0)
                return sr_image_cli_fail("%s", sr_error_message(error));
        return sr_image_cli_print_list(&list);
}

const struct sr_image_verb sr_image_verb_build = {
        .name = "build",
        .usage = "build RECIPE [--if-missing] [--keep]",
        .summary = "build an image from a recipe",
        .description = "Runs a recipe (a directory with a script named build, in the directory "
                       "images.recipes), which makes\n"
                       "a root file system, most often from distribution packages, and brings it in as an "
                       "image under the\n"
                       "references that the recipe names. Prints one line an image: reference, digest and "
                       "size. A name that\n"
                       "is no recipe is answered with the list of those there are.",
        .options = options,
        .least = 1,
        .most = 1,
        .main = build,
};
