// Both ends of unpacking in a helper process: what the parent asks and believes, and what the helper answers.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/json.h"
#include "image/unpack.h"

#define ROOT_FD 3 // where the helper finds its root directory

static int read_summary(const struct sr_buf *output, const struct sr_image_layer_limits *limits,
                        struct sr_image_layer_summary *ret, struct sr_error **error)
{
        struct sr_image_layer_summary summary = {.entries = 0};
        _cleanup_json_ cJSON *document = NULL;
        _cleanup_free_ char *diff_id = NULL;
        int64_t entries, bytes;
        int r = sr_image_json_parse(output->data != NULL ? output->data : "", output->len, &document, error);

        if (r < 0)
                return sr_error_prefix(error, r, "the unpacking helper gave no answer");
        diff_id = sr_image_json_text(document, "diff_id");
        if (!sr_digest_valid(diff_id) || !sr_image_json_size(document, "entries", &entries) ||
            !sr_image_json_size(document, "bytes", &bytes) || (uint64_t)entries > limits->entries ||
            (uint64_t)bytes > limits->bytes)
                return sr_error_set(error, SR_ERROR_INTERNAL, EBADMSG,
                                    "the unpacking helper gave a wrong answer");
        memcpy(summary.diff_id, sr_digest_hex(diff_id), SR_DIGEST_HEX_LENGTH);
        summary.entries = (uint64_t)entries;
        summary.bytes = (uint64_t)bytes;
        *ret = summary;
        return 0;
}

int sr_image_unpack_layer_confined(const struct sr_image_confine *confine, int input_fd, int root_fd,
                                   const struct sr_image_layer_limits *limits,
                                   struct sr_image_layer_summary *ret, struct sr_error **error)
{
        if (confine == NULL)
                return sr_image_unpack_layer(input_fd, root_fd, limits, ret, error);

        _cleanup_free_ char *bytes = sr_asprintf("%" PRIu64, limits->bytes);
        _cleanup_free_ char *entries = sr_asprintf("%" PRIu64, limits->entries);
        char program[] = "sandbox-runner-image", verb[] = SR_IMAGE_UNPACK_VERB;
        char *const argv[] = {program, verb, bytes, entries, NULL};
        _cleanup_buf_ struct sr_buf output = {0};
        int r = confine->run(confine->context, argv, input_fd, root_fd, &output, error);

        return r < 0 ? r : read_summary(&output, limits, ret, error);
}

static bool read_number(const char *text, uint64_t *ret)
{
        if (text == NULL || *text < '0' || *text > '9')
                return false;

        char *end;

        errno = 0;
        *ret = strtoull(text, &end, 10);
        return errno == 0 && *end == '\0';
}

int sr_image_unpack_helper(char *const *argv, struct sr_buf *ret_output, struct sr_error **error)
{
        struct sr_image_layer_limits limits;
        struct sr_image_layer_summary summary;
        size_t count = sr_strv_length(argv);

        if (count != 4 || !read_number(argv[2], &limits.bytes) || !read_number(argv[3], &limits.entries))
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "%s takes the most bytes and the most entries of the layer; it is run by "
                                    "sandbox-runner itself",
                                    SR_IMAGE_UNPACK_VERB);

        int r = sr_image_unpack_layer(STDIN_FILENO, ROOT_FD, &limits, &summary, error);

        if (r < 0)
                return r;

        struct sr_json_writer w = {.out = ret_output, .first = true};
        _cleanup_free_ char *diff_id = sr_asprintf(SR_DIGEST_PREFIX "%s", summary.diff_id);

        sr_json_open_object(&w, NULL);
        sr_json_string(&w, "diff_id", diff_id);
        sr_json_integer(&w, "entries", (int64_t)summary.entries);
        sr_json_integer(&w, "bytes", (int64_t)summary.bytes);
        sr_json_close_object(&w);
        sr_buf_append_char(ret_output, '\n');
        return 0;
}
