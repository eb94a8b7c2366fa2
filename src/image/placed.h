// A set of directory entries, known by the inode of their directory and their name. (By name and not by path,
// because several paths may lead to one directory.)
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct sr_image_placed {
        struct sr_image_placed_entry *entries;
        size_t count, room; // room is a power of two, or 0
};

void sr_image_placed_add(struct sr_image_placed *set, ino_t directory, const char *name);
bool sr_image_placed_has(const struct sr_image_placed *set, ino_t directory, const char *name);
void sr_image_placed_clear(struct sr_image_placed *set);
