#include "sys/id_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"

// 340 extents, the most a map has, are shorter.
#define MAP_BYTES_MAX (64 * 1024)

int sr_sys_id_map_find(const char *path, uint64_t id, uint64_t count, uint32_t *ret_outside)
{
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_fd_read_file(AT_FDCWD, path, MAP_BYTES_MAX, &text);

        if (r < 0)
                return r == -ENOENT ? -ENODATA : r;
        for (const char *line = text.data; line != NULL && *line != '\0';) {
                uint64_t inside, outside, length;

                if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &length) == 3 &&
                    id >= inside && id - inside < length && count <= length - (id - inside)) {
                        *ret_outside = (uint32_t)(outside + (id - inside));
                        return 0;
                }
                line = strchr(line, '\n');
                line = line != NULL ? line + 1 : NULL;
        }
        return -ENOENT;
}
