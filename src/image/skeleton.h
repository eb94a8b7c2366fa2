// What every root file system gets, whatever image it comes from: mount points, and the few files of /etc
// without which programs think they are nowhere and nobody.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

// Lays it into the root file system open as root_fd. Entries of passwd and group that the image has stay as
// they are; ours are added. hosts, resolv.conf and hostname are replaced, as every container engine does.
int sr_image_skeleton_apply(int root_fd, struct sr_error **error);

// Adds a line of passwd(5) or group(5) to text, unless one with the same name and id is there. With first set
// it goes before the first line that has the same name or the same id, so that look-ups find it; otherwise it
// is left out when there is such a line.
void sr_image_skeleton_merge(struct sr_buf *text, const char *line, bool first);
