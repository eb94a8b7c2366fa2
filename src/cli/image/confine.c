#include "cli/image/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>

#include "base/fd.h"
#include "run/helper.h"

// A layer that takes longer than this to unpack is refused (microseconds).
#define UNPACK_TIMEOUT_US (30ull * 60 * 1000000)

static int run(void *context, char *const *argv, int input_fd, int directory_fd, struct sr_buf *ret_output,
               struct sr_error **error)
{
        struct sr_image_confinement *confinement = context;
        _cleanup_close_ int program_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        const struct sr_helper_job job = {
                .program_fd = program_fd,
                .arguments = argv,
                .input_fd = input_fd,
                .directory_fd = directory_fd,
                .timeout_us = UNPACK_TIMEOUT_US,
                // The image module bounds the layer as a whole.
                .file_bytes = UINT64_MAX,
        };

        if (program_fd < 0)
                return sr_error_set(error, SR_ERROR_HOST, errno,
                                    "opening /proc/self/exe: %s; is /proc mounted?", strerror(errno));
        if (confinement->host == NULL) {
                int r = sr_helper_host_new(confinement->config, &confinement->host, error);

                if (r < 0)
                        return sr_error_prefix(error, r, "unpacking a layer in a sandbox");
        }
        return sr_helper_run(confinement->host, &job, ret_output, error);
}

void sr_image_confinement_prepare(struct sr_image_confinement *confinement, const struct sr_config *config)
{
        *confinement = (struct sr_image_confinement){
                .confine = {.run = run, .context = confinement},
                .config = config,
        };
}

void sr_image_confinement_end(struct sr_image_confinement *confinement)
{
        confinement->host = sr_helper_host_free(confinement->host);
}
