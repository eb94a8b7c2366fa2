// Memory that is there or the program ends.
//
// Small allocations do not fail on a kernel that overcommits; where one does, the process ends with one
// sentence on stderr, and everything it started ends with it (the spawner sees its socket close). Sizes that
// a stranger controls are bounded by the caller before they come here.
#pragma once

#include <stdarg.h>
#include <stddef.h>

void *sr_calloc(size_t count, size_t size);
void *sr_realloc(void *memory, size_t count, size_t size);
char *sr_strdup(const char *text);
// Copies length bytes and adds a NUL.
char *sr_memdup0(const void *bytes, size_t length);
__attribute__((format(printf, 1, 2))) char *sr_asprintf(const char *format, ...);
__attribute__((format(printf, 1, 0))) char *sr_vasprintf(const char *format, va_list arguments);
#define sr_new(type) ((type *)sr_calloc(1, sizeof(type)))
#define sr_new_array(type, count) ((type *)sr_calloc((count), sizeof(type)))

// A NULL-terminated array of strings. sr_strv_append takes ownership of text.
void sr_strv_append(char ***array, char *text);
size_t sr_strv_length(char *const *array);
char **sr_strv_copy(char *const *array);
char **sr_strv_free(char **array);

void sr_freep(void *pointer);
void sr_strv_freep(char ***array);
#define _cleanup_free_ __attribute__((cleanup(sr_freep)))
#define _cleanup_strv_ __attribute__((cleanup(sr_strv_freep)))

// Takes the value out of a variable with a cleanup attribute.
#define sr_steal(pointer)                                                                                    \
        ({                                                                                                   \
                __typeof__(pointer) sr_stolen_ = (pointer);                                                  \
                (pointer) = NULL;                                                                            \
                sr_stolen_;                                                                                  \
        })
