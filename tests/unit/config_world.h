// A private home and system directory for each test of the configuration.
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "config/config.h"

struct fixture {
        char *root;
        char *home, *system;
        char *user_file, *system_file; // where their config.json would be; neither is there
        char *environment[8];          // HOME first
        size_t variables;
        char *flags[8];
        struct sr_config_input input;
};

__attribute__((unused)) static void put_file(const char *path, const char *text)
{
        _cleanup_free_ char *directory = sr_memdup0(path, (size_t)(strrchr(path, '/') - path));

        assert_int_equal(sr_fd_make_directories(directory, 0755), 0);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

        assert_true(fd >= 0);
        assert_int_equal(sr_fd_write_all(fd, text, strlen(text)), 0);
}

static int setup(void **state)
{
        struct fixture *f = sr_new(struct fixture);
        char template[] = "/tmp/sr-config-XXXXXX";

        f->root = sr_strdup(mkdtemp(template));
        f->home = sr_asprintf("%s/home", f->root);
        f->system = sr_asprintf("%s/etc", f->root);
        f->user_file = sr_asprintf("%s/.config/sandbox-runner/config.json", f->home);
        f->system_file = sr_asprintf("%s/config.json", f->system);
        f->environment[f->variables++] = sr_asprintf("HOME=%s", f->home);
        f->input = (struct sr_config_input){
                .environment = f->environment, .flags = f->flags, .system_directory = f->system};
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *command = sr_asprintf("rm -rf '%s'", f->root);

        assert_int_equal(system(command), 0);
        for (size_t i = 0; i < f->variables; i++)
                free(f->environment[i]);
        free(f->root);
        free(f->home);
        free(f->system);
        free(f->user_file);
        free(f->system_file);
        free(f);
        return 0;
}

__attribute__((unused)) static void add_variable(struct fixture *f, const char *text)
{
        f->environment[f->variables++] = sr_strdup(text);
}
