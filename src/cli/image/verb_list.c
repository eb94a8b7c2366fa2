// `image list` and `image inspect`: what there is.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/image/image_cli.h"
#include "cli/text.h"
#include "image/json.h"
#include "image/text.h"

static const struct sr_option options[] = {
        {SR_IMAGE_OPTION_ID(SR_IMAGE_OPTION_JSON), "json", NULL, "print JSON"},
        {0},
};

static void write_json(const struct sr_image *image, struct sr_json_writer *w)
{
        _cleanup_free_ char *created = sr_clock_format_iso(image->created_us);

        sr_json_open_object(w, NULL);
        sr_json_string(w, "reference", image->reference);
        sr_json_string(w, "digest", image->digest);
        sr_json_string(w, "chain_id", image->chain_id);
        sr_json_string(w, "tree", image->tree);
        sr_json_integer(w, "size", image->size);
        sr_json_string(w, "created", created);
        sr_json_bool(w, "read_only", image->store != 0);
        sr_image_json_write_array(w, "environment", image->environment);
        sr_image_json_write_object(w, "labels", image->labels);
        sr_json_close_object(w);
}

// "2026-11-29 21:25" of an ISO time.
static char *short_time(int64_t unix_us)
{
        char *text = sr_clock_format_iso(unix_us);

        if (strlen(text) > 16) {
                text[10] = ' ';
                text[16] = '\0';
        }
        return text;
}

static void print_table(struct sr_image *const *images, size_t count, struct sr_buf *out)
{
        _cleanup_table_ struct sr_text_table table = {.columns = 5};
        static const char *const heads[] = {"REFERENCE", "DIGEST", "SIZE", "CREATED (UTC)", "STORE"};

        for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
                sr_text_table_add(&table, heads[i]);
        for (size_t i = 0; i < count; i++) {
                _cleanup_free_ char *size = sr_image_size_text((uint64_t)images[i]->size);
                _cleanup_free_ char *created = short_time(images[i]->created_us);

                sr_text_table_add(&table, images[i]->reference);
                sr_text_table_addf(&table, "%.12s", sr_digest_hex(images[i]->digest));
                sr_text_table_add(&table, size);
                sr_text_table_add(&table, created);
                sr_text_table_add(&table, images[i]->store == 0 ? "own" : "shared, read-only");
        }
        sr_text_table_print(&table, out);
}

static int list(struct sr_image_cli *cli)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_images_ struct sr_image_list found = {0};
        _cleanup_buf_ struct sr_buf out = {0};
        struct sr_json_writer w = {.out = &out, .indent = 2, .first = true};

        if (sr_image_store_open(cli->config->store, cli->config->lower_store, &store, &error) < 0 ||
            sr_image_store_list(store, &found.images, &found.count, &error) < 0)
                return sr_image_cli_fail("%s", sr_error_message(error));
        if (cli->values[SR_IMAGE_OPTION_JSON] != NULL) {
                sr_json_open_array(&w, NULL);
                for (size_t i = 0; i < found.count; i++)
                        write_json(found.images[i], &w);
                sr_json_close_array(&w);
                sr_buf_append_char(&out, '\n');
        } else if (found.count > 0) {
                print_table(found.images, found.count, &out);
        } else {
                sr_image_cli_say(
                        "there are no images in %s; `sandbox-runner image build` and `image import` bring "
                        "some in",
                        cli->config->store);
        }
        return sr_image_cli_print(&out);
}

static void print_settings(const char *title, char *const *settings, struct sr_buf *out)
{
        for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
                sr_buf_printf(out, "%-13s", i == 0 ? title : "");
                sr_text_append_line(out, settings[i], strlen(settings[i]));
                sr_buf_append_char(out, '\n');
        }
}

static void print_text(const struct sr_image *image, struct sr_buf *out)
{
        _cleanup_free_ char *size = sr_image_size_text((uint64_t)image->size);
        _cleanup_free_ char *created = sr_clock_format_iso(image->created_us);

        sr_buf_printf(out, "reference    %s\n", image->reference);
        sr_buf_printf(out, "digest       %s\n", image->digest);
        sr_buf_printf(out, "chain id     sha256:%s\n", image->chain_id);
        sr_buf_printf(out, "tree         %s\n", image->tree);
        sr_buf_printf(out, "size         %s (%lld bytes)\n", size, (long long)image->size);
        sr_buf_printf(out, "created      %s\n", created);
        print_settings("environment", image->environment, out);
        print_settings("labels", image->labels, out);
}

static int inspect(struct sr_image_cli *cli)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_store_ struct sr_image_store *store = NULL;
        _cleanup_image_ struct sr_image *image = NULL;
        _cleanup_buf_ struct sr_buf out = {0};
        struct sr_json_writer w = {.out = &out, .indent = 2, .first = true};

        if (sr_image_store_open(cli->config->store, cli->config->lower_store, &store, &error) < 0 ||
            sr_image_store_find(store, cli->words[0], &image, &error) < 0)
                return sr_image_cli_fail("%s", sr_error_message(error));
        if (cli->values[SR_IMAGE_OPTION_JSON] != NULL) {
                write_json(image, &w);
                sr_buf_append_char(&out, '\n');
        } else {
                print_text(image, &out);
        }
        return sr_image_cli_print(&out);
}

const struct sr_image_verb sr_image_verb_list = {
        .name = "list",
        .usage = "list [--json]",
        .summary = "list the images",
        .description =
                "Lists the images of the store, and of the read-only store under it where there is one.",
        .options = options,
        .least = 0,
        .most = 0,
        .main = list,
};

const struct sr_image_verb sr_image_verb_inspect = {
        .name = "inspect",
        .usage = "inspect REF [--json]",
        .summary = "show what is known of an image",
        .description = "Shows an image's digest, root file system, environment and labels.",
        .options = options,
        .least = 1,
        .most = 1,
        .main = inspect,
};
