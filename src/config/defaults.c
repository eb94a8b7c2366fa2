// The built-in defaults, those that depend on host and environment included.

#include <errno.h>
#include <pwd.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/internal.h"

#define SYSTEM_DIRECTORY "/etc/sandbox-runner"

const char *config_lookup(const struct config_loader *loader, const char *name)
{
        size_t length = strlen(name);

        for (char *const *entry = loader->input->environment; entry != NULL && *entry != NULL; entry++)
                if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
                        return *entry + length + 1;
        return NULL;
}

const char *config_system_directory(const struct config_loader *loader)
{
        const char *given = loader->input->system_directory;

        return given != NULL ? given : SYSTEM_DIRECTORY;
}

static char *password_home(void)
{
        struct passwd entry, *found = NULL;
        size_t size = 1024;

        for (;;) {
                _cleanup_free_ char *space = sr_calloc(size, 1);
                int r = getpwuid_r(getuid(), &entry, space, size, &found);

                if (r == ERANGE && size < 1024 * 1024) {
                        size *= 4;
                        continue;
                }
                if (r != 0 || found == NULL || found->pw_dir == NULL || found->pw_dir[0] != '/')
                        return NULL;
                return sr_strdup(found->pw_dir);
        }
}

const char *config_home(struct config_loader *loader)
{
        if (!loader->home_sought) {
                const char *set = config_lookup(loader, "HOME");

                loader->home_sought = true;
                loader->home = set != NULL && set[0] == '/' ? sr_strdup(set) : password_home();
        }
        return loader->home;
}

const char *config_cwd(struct config_loader *loader)
{
        if (!loader->cwd_sought) {
                loader->cwd_sought = true;
                loader->cwd = getcwd(NULL, 0);
        }
        return loader->cwd;
}

// A path below one of the XDG base directories. "All paths set in these environment variables must be
// absolute. If an implementation encounters a relative path […] it should consider the path invalid and
// ignore it." (XDG Base Directory Specification 0.8). NULL when no home directory is known either.
char *config_xdg_path(struct config_loader *loader, const char *variable, const char *below_home,
                      const char *rest)
{
        const char *base = config_lookup(loader, variable);

        if (base != NULL && base[0] == '/')
                return sr_asprintf("%s/sandbox-runner/%s", base, rest);
        if (config_home(loader) == NULL)
                return NULL;
        return sr_asprintf("%s/%s/sandbox-runner/%s",
                           strcmp(config_home(loader), "/") == 0 ? "" : config_home(loader), below_home,
                           rest);
}

// Data that comes with the program: <name> in the checkout whose build directory holds it, else where it is
// installed.
static char *data_path(const struct config_loader *loader, const char *name)
{
        const char *program = loader->input->program_directory;
        const char *slash = program != NULL ? strrchr(program, '/') : NULL;
        _cleanup_free_ char *parent =
                slash != NULL ? sr_memdup0(program, (size_t)(slash - program)) : sr_strdup("/usr");
        _cleanup_free_ char *checkout = sr_asprintf("%s/%s", parent, name);
        struct stat found;

        if (slash != NULL && stat(checkout, &found) == 0 && S_ISDIR(found.st_mode))
                return sr_steal(checkout);
        return sr_asprintf("%s/share/sandbox-runner/%s", parent, name);
}

// Processors that this process may run on, whatever the machine has.
static unsigned processors(void)
{
        // The kernel refuses a mask smaller than its own; NR_CPUS is at most 8192 today.
        for (int size = 1024; size <= 1024 * 64; size *= 2) {
                cpu_set_t *set = CPU_ALLOC(size);

                if (set == NULL)
                        break;

                int r = sched_getaffinity(0, CPU_ALLOC_SIZE(size), set);
                int count = r == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(size), set) : 0;

                CPU_FREE(set);
                if (count > 0)
                        return (unsigned)count;
                if (errno != EINVAL)
                        break;
        }
        return 1;
}

static char **default_catalogues(struct config_loader *loader)
{
        char **list = NULL;
        char *own = config_xdg_path(loader, "XDG_CONFIG_HOME", ".config", "languages");

        sr_strv_append(&list, data_path(loader, "images"));
        sr_strv_append(&list, sr_asprintf("%s/languages", config_system_directory(loader)));
        if (own != NULL)
                sr_strv_append(&list, own);
        return list;
}

static void append_new(char ***list, char *path)
{
        for (char *const *at = *list; at != NULL && *at != NULL; at++)
                if (strcmp(*at, path) == 0) {
                        free(path);
                        return;
                }
        sr_strv_append(list, path);
}

// Clients start servers with a bare environment, so a server may lack XDG_RUNTIME_DIR where the person who
// looks for it has one, and the other way round: each place that may have been chosen is in the list.
// Whether one will do is for its user to see.
static char **default_control_directories(struct config_loader *loader)
{
        const char *runtime = config_lookup(loader, "XDG_RUNTIME_DIR");
        unsigned user = (unsigned)geteuid();
        char **list = NULL;

        if (runtime != NULL && runtime[0] == '/')
                append_new(&list, sr_asprintf("%s/sandbox-runner", runtime));
        if (user == 0)
                append_new(&list, sr_strdup("/run/sandbox-runner"));
        append_new(&list, sr_asprintf("/run/user/%u/sandbox-runner", user)); // as pam_systemd(8) has it
        append_new(&list, sr_asprintf("/tmp/sandbox-runner-%u", user));
        return list;
}

// What the table leaves open, as text; NULL when it cannot be known.
static char *computed_default(struct config_loader *loader, const struct config_tunable *tunable)
{
        switch (tunable->offset) {
        case offsetof(struct sr_config, slots): {
                unsigned count = processors();

                return sr_asprintf("%u", count < tunable->maximum ? count : (unsigned)tunable->maximum);
        }
        case offsetof(struct sr_config, store):
                return config_xdg_path(loader, "XDG_DATA_HOME", ".local/share", "images");
        case offsetof(struct sr_config, database):
                return config_xdg_path(loader, "XDG_STATE_HOME", ".local/state", "sandbox_history.db");
        case offsetof(struct sr_config, recipes):
                return data_path(loader, "rootfs");
        default:
                return NULL;
        }
}

int config_set_defaults(struct config_loader *loader, struct sr_error **error)
{
        for (size_t i = 0; i < config_tunable_count; i++) {
                const struct config_tunable *tunable = &config_tunables[i];
                _cleanup_free_ char *computed = NULL;
                const char *text = tunable->fallback;
                int r = 0;

                config_note_source(loader, tunable, "default");
                if (tunable->kind == CONFIG_PATHS) {
                        // As a list: a directory of ours may have a colon in its name.
                        _cleanup_strv_ char **list = tunable->offset == offsetof(struct sr_config, catalogues)
                                                             ? default_catalogues(loader)
                                                             : default_control_directories(loader);

                        r = config_set_list(loader->config, tunable, list, NULL, NULL, error);
                } else {
                        if (text == NULL)
                                text = computed = computed_default(loader, tunable);
                        if (text == NULL)
                                continue;
                        r = config_set(loader->config, tunable, text, NULL, NULL, error);
                }
                if (r < 0)
                        return sr_error_prefix(error, r, "default of %s", tunable->name);
                loader->config->sources[i].fallback = config_format(loader->config, tunable);
        }
        return 0;
}
