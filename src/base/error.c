#include "base/error.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"

struct sr_error {
        enum sr_error_kind kind;
        int errnum;
        char *message;
};

int sr_error_set(struct sr_error **error, enum sr_error_kind kind, int errnum, const char *format, ...)
{
        if (errnum <= 0)
                errnum = EIO;
        if (error == NULL)
                return -errnum;

        struct sr_error *made = sr_new(struct sr_error);
        va_list arguments;

        va_start(arguments, format);
        *made = (struct sr_error){.kind = kind, .errnum = errnum, .message = sr_vasprintf(format, arguments)};
        va_end(arguments);
        sr_error_free(*error);
        *error = made;
        return -errnum;
}

int sr_error_prefix(struct sr_error **error, int r, const char *format, ...)
{
        if (error == NULL || *error == NULL)
                return r;

        _cleanup_free_ char *before = NULL;
        char *inner = (*error)->message;
        va_list arguments;

        va_start(arguments, format);
        before = sr_vasprintf(format, arguments);
        va_end(arguments);
        (*error)->message = sr_asprintf("%s: %s", before, inner);
        free(inner);
        return r;
}

const char *sr_error_message(const struct sr_error *error)
{
        return error != NULL ? error->message : "";
}

enum sr_error_kind sr_error_get_kind(const struct sr_error *error)
{
        return error != NULL ? error->kind : SR_ERROR_INTERNAL;
}

int sr_error_get_errno(const struct sr_error *error)
{
        return error != NULL ? error->errnum : 0;
}

struct sr_error *sr_error_free(struct sr_error *error)
{
        if (error != NULL) {
                free(error->message);
                free(error);
        }
        return NULL;
}

void sr_error_freep(struct sr_error **error)
{
        *error = sr_error_free(*error);
}
