// Shared by the files of src/language only.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "language/language.h"

struct sr_language_catalogue {
        struct sr_language **languages; // sorted by name
        size_t count;
        struct sr_language_problem *problems;
        size_t problem_count;
};

// Adds a problem about path.
__attribute__((format(printf, 3, 4))) void language_problem(struct sr_language_catalogue *catalogue,
                                                            const char *path, const char *format, ...);
// Reads the text of one file. Every fault becomes a problem; with any, NULL is returned.
struct sr_language *language_parse(struct sr_language_catalogue *catalogue, const char *path,
                                   const char *name, const char *text, size_t length);
bool language_is_identifier(const char *text);
struct sr_language *language_free(struct sr_language *language);
