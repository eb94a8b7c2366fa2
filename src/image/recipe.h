// Building images by recipes: scripts that leave a root file system and a description of it.
//
// A recipe is a directory with an executable `build`. It is run as `build OUTPUT_DIR` and leaves there
// rootfs.tar, a plain tar archive, and image.json (see sr_image_description_parse). What it prints is shown
// to whoever waits.
#pragma once

#include <stdbool.h>

#include "image/import.h"

struct sr_image_build_options {
        const struct sr_image_confine *confine;
        const struct sr_image_progress *progress;
        // What the recipe prints, whole lines without their newline; may be NULL.
        void (*output)(void *context, const char *line);
        void *output_context;
        bool if_missing; // do nothing when the store has images of this recipe
        bool keep;       // leave the recipe's output directory in the store, under kept/
};

// The names of the recipes in a directory, sorted; NULL when there are none. -ENOENT when there is no such
// directory, without a message.
int sr_image_recipe_list(const char *recipes_directory, char ***ret);

// Builds a recipe and brings its image in under all its references. When another process is building the same
// recipe, its result is taken. *ret_kept (freed by the caller) is where the output directory was left, or
// NULL; it is set after a failure of the recipe too.
int sr_image_recipe_build(const char *store_directory, const char *recipes_directory, const char *name,
                          const struct sr_image_build_options *options, struct sr_image_list *ret,
                          char **ret_kept, struct sr_error **error);
