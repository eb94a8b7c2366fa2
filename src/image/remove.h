// Taking images out of a store, and what no image needs any more.
//
// A run holds the store's lock shared from before it looks for its image until it is done; removal waits for
// the exclusive one, so that nothing that is used goes away. It has that only for as long as it takes to move
// what is to go aside, and deletes it afterwards: a run that comes meanwhile does not wait for the deleting.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct sr_image_freed {
        size_t trees, blobs;
        uint64_t bytes;
        bool postponed; // the store stayed in use: nothing was freed yet
};

// Removes a reference, and then what no other one needs. -ENOENT when there is no such image, with a message.
// A reference file that is damaged can be removed too.
int sr_image_remove(const char *store_directory, const char *reference, struct sr_image_freed *ret,
                    struct sr_error **error);
// Removes what no reference needs. Removes nothing when a reference file cannot be read.
int sr_image_collect(const char *store_directory, struct sr_image_freed *ret, struct sr_error **error);
