#include "image/placed.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"

struct sr_image_placed_entry {
        ino_t directory;
        char *name; // NULL: free
};

// FNV-1a, over a seed of this process: names come from strangers, who could otherwise make them collide.
static uint64_t hash(ino_t directory, const char *name)
{
        static uint64_t seed;

        if (seed == 0 &&
            (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed) || seed == 0))
                seed = 0xcbf29ce484222325u;

        uint64_t value = seed ^ (uint64_t)directory;

        for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++)
                value = (value ^ *at) * 0x100000001b3u;
        // The low bits choose the place and must depend on all of it.
        value ^= value >> 32;
        value *= 0x9e3779b97f4a7c15u;
        return value ^ (value >> 29);
}

// The place of an entry, or the free one where it would go. There is always a free one.
static struct sr_image_placed_entry *find(const struct sr_image_placed *set, ino_t directory,
                                          const char *name)
{
        size_t at = (size_t)hash(directory, name) & (set->room - 1);

        while (set->entries[at].name != NULL &&
               (set->entries[at].directory != directory || strcmp(set->entries[at].name, name) != 0))
                at = (at + 1) & (set->room - 1);
        return &set->entries[at];
}

static void grow(struct sr_image_placed *set)
{
        struct sr_image_placed old = *set;

        set->room = old.room > 0 ? old.room * 2 : 256;
        set->entries = sr_new_array(struct sr_image_placed_entry, set->room);
        for (size_t i = 0; i < old.room; i++)
                if (old.entries[i].name != NULL)
                        *find(set, old.entries[i].directory, old.entries[i].name) = old.entries[i];
        free(old.entries);
}

void sr_image_placed_add(struct sr_image_placed *set, ino_t directory, const char *name)
{
        if (set->count >= set->room / 2)
                grow(set);

        struct sr_image_placed_entry *entry = find(set, directory, name);

        if (entry->name != NULL)
                return;
        *entry = (struct sr_image_placed_entry){.directory = directory, .name = sr_strdup(name)};
        set->count++;
}

bool sr_image_placed_has(const struct sr_image_placed *set, ino_t directory, const char *name)
{
        return set->room > 0 && find(set, directory, name)->name != NULL;
}

void sr_image_placed_clear(struct sr_image_placed *set)
{
        for (size_t i = 0; i < set->room; i++)
                free(set->entries[i].name);
        free(set->entries);
        *set = (struct sr_image_placed){0};
}
