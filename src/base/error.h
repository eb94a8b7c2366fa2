// Errors that explain themselves.
//
// A function that can fail returns 0 or a negative errno and takes `struct sr_error **error` last. It fills
// *error (when error is not NULL) on failure only; each level above adds what it was doing with
// sr_error_prefix(). The finished message says what happened, to what, and what to do.
// A program that fails inside a sandbox is never an error: that is an outcome.
#pragma once

#include <stdarg.h>

enum sr_error_kind {
        SR_ERROR_BAD_REQUEST, // what the caller asked for is not possible
        SR_ERROR_HOST,        // this machine or kernel lacks something
        SR_ERROR_IMAGE,       // an image is missing, damaged or refused
        SR_ERROR_LIMIT,       // a bound of ours was reached (queue full, too large)
        SR_ERROR_INTERNAL,    // a fault of ours
};

struct sr_error;

// Makes *error say `format…`. errnum is a positive errno (EIO is used for 0). Returns -errnum, so that a
// failing function can end with `return sr_error_set(…)`. error may be NULL; *error must be NULL on entry.
__attribute__((format(printf, 4, 5))) int sr_error_set(struct sr_error **error, enum sr_error_kind kind,
                                                       int errnum, const char *format, ...);

// Puts `format…: ` in front of the message of *error, when there is one. Returns r unchanged.
__attribute__((format(printf, 3, 4))) int sr_error_prefix(struct sr_error **error, int r, const char *format, ...);

// The message without a final newline; "" for NULL. Owned by the error.
const char *sr_error_message(const struct sr_error *error);
// SR_ERROR_INTERNAL for NULL.
enum sr_error_kind sr_error_get_kind(const struct sr_error *error);
// The positive errno; 0 for NULL.
int sr_error_get_errno(const struct sr_error *error);

// Accepts NULL; returns NULL.
struct sr_error *sr_error_free(struct sr_error *error);
void sr_error_freep(struct sr_error **error);
#define _cleanup_error_ __attribute__((cleanup(sr_error_freep)))
