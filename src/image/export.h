// Writing an image out of a store as an OCI image layout, for other tools and other hosts.
#pragma once

#include "base/error.h"
#include "image/store.h"

// Makes the directory path, which must be absent or empty, an OCI image layout of image (from
// sr_image_store_find). On failure path is left as far as it got.
int sr_image_export(const struct sr_image *image, const char *path, struct sr_error **error);
