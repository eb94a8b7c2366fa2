// `image import` and `image export`: images as OCI image layouts.

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "cli/image/image_cli.h"
#include "image/export.h"

static const struct sr_option import_options[] = {
        {SR_IMAGE_OPTION_ID(SR_IMAGE_OPTION_NAME), "name", "REF",
         "what to call the image; else as the layout does"},
        {0},
};

static const struct sr_option no_options[] = {{0}};

static int import(struct sr_image_cli *cli)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_images_ struct sr_image_list list = {0};
        const char *path = cli->words[0];
        const struct sr_image_import_options options = {.name = cli->values[SR_IMAGE_OPTION_NAME],
                                                        .confine = cli->confine,
                                                        .progress = &cli->progress};
        bool standard = strcmp(path, "-") == 0;
        _cleanup_close_ int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                          : open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);

        if (fd < 0)
                return sr_image_cli_fail("%s cannot be opened: %s", standard ? "standard input" : path,
                                         strerror(errno));
        if (sr_image_import(cli->config->store, fd, &options, &list, &error) < 0)
                return sr_image_cli_fail("cannot import %s: %s", standard ? "standard input" : path,
                                         sr_error_message(error));
        return sr_image_cli_print_list(&list);
}

static int export(struct sr_image_cli *cli)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_image_ struct sr_image *image = NULL;
        int r = sr_image_store_open(cli->config->store, cli->config->lower_store, &store, &error);

        if (r == 0)
                r = sr_image_store_find(store, cli->words[0], &image, &error);
        if (r == 0)
                r = sr_image_export(image, cli->words[1], &error);
        return r < 0 ? sr_image_cli_fail("cannot export %s: %s", cli->words[0], sr_error_message(error))
                     : SR_IMAGE_EXIT_OK;
}

const struct sr_image_verb sr_image_verb_import = {
        .name = "import",
        .usage = "import PATH|- [--name REF]",
        .summary = "bring in an image from an OCI image layout",
        .description = "PATH is an OCI image layout: a directory, or a tar archive of one (plain, gzip or "
                       "zstd); - reads the\n"
                       "archive from standard input. Every digest is verified. Without --name every image "
                       "that the layout\n"
                       "names is brought in; with it the only one, or the one that the layout calls so. Of "
                       "an image for\n"
                       "several platforms, this machine's is taken. Prints one line an image: reference, "
                       "digest and size.",
        .options = import_options,
        .least = 1,
        .most = 1,
        .main = import,
};

const struct sr_image_verb sr_image_verb_export = {
        .name = "export",
        .usage = "export REF DIRECTORY",
        .summary = "write an image out as an OCI image layout",
        .description = "DIRECTORY must be empty or absent; it becomes an OCI image layout that holds the "
                       "image, for\n"
                       "other tools and for `image import` on another host.",
        .options = no_options,
        .least = 2,
        .most = 2,
        .main = export,
};
