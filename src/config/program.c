// Where the program is, and its companions.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/config.h"

char *sr_config_program_directory(void)
{
        for (size_t size = 256; size <= 1024 * 1024; size *= 2) {
                _cleanup_free_ char *path = sr_calloc(size, 1);
                ssize_t length = readlink("/proc/self/exe", path, size);

                if (length < 0)
                        return NULL;
                if ((size_t)length >= size)
                        continue;
                path[length] = '\0';

                // A program replaced while it runs reads "… (deleted)"; only the name is touched by that.
                char *slash = strrchr(path, '/');

                if (path[0] != '/' || slash == NULL)
                        return NULL;
                slash[slash == path ? 1 : 0] = '\0';
                return sr_steal(path);
        }
        return NULL;
}

static bool is_program(const char *path)
{
        struct stat found;

        return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

int sr_config_find_helper(const char *program_directory, const char *name, char **ret,
                          struct sr_error **error)
{
        if (program_directory == NULL || program_directory[0] != '/')
                return sr_error_set(
                        error, SR_ERROR_HOST, ENOENT,
                        "cannot tell where this program is (is /proc mounted?), so %s cannot be found", name);

        size_t parent = (size_t)(strrchr(program_directory, '/') - program_directory);
        _cleanup_free_ char *beside = sr_asprintf("%s/%s", program_directory, name);
        _cleanup_free_ char *libexec =
                sr_asprintf("%.*s/libexec/sandbox-runner/%s", (int)parent, program_directory, name);

        if (is_program(beside))
                *ret = sr_steal(beside);
        else if (is_program(libexec))
                *ret = sr_steal(libexec);
        else
                return sr_error_set(
                        error, SR_ERROR_HOST, ENOENT,
                        "the companion program %s is missing: it is neither %s nor %s; install or build "
                        "sandbox-runner again",
                        name, beside, libexec);
        return 0;
}
