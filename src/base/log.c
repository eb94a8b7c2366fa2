#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

static enum sr_log_level maximum = SR_LOG_WARNING;

void sr_log_set_level(enum sr_log_level level)
{
        maximum = level;
}

void sr_log(enum sr_log_level level, const char *format, ...)
{
        static const char *const names[] = {"error", "warning", "info", "debug"};

        if (level > maximum)
                return;

        _cleanup_free_ char *text = NULL, *line = NULL;
        va_list arguments;

        va_start(arguments, format);
        text = sr_vasprintf(format, arguments);
        va_end(arguments);
        // One write, so that lines of several threads do not mix. A log that cannot be written is lost.
        int length = asprintf(&line, "sandbox-runner: %s: %s\n", names[level], text);

        if (length > 0)
                (void)sr_fd_write_all(STDERR_FILENO, line, (size_t)length);
}
