// Runs a command under a filter that answers given system calls with an errno: how a program behaves where
// the kernel lacks a call or something forbids it. The filter is inherited by everything the command starts.
//
//     fail-syscall NAME[:[INDEX.]VALUE]=ERRNO… -- COMMAND…
//
// With VALUE the call fails only where its first argument, or that with this index, is it. As root
// no_new_privs is not set, so that set-id programs keep their power. Exit status 125 when the filter cannot
// be made.
#include <errno.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_NO_FILTER 125

static _Noreturn void fail(const char *what, const char *why)
{
        fprintf(stderr, "fail-syscall: %s: %s\n", what, why);
        exit(EXIT_NO_FILTER);
}

static int errno_of(const char *name)
{
        for (int number = 1; number < 256; number++) {
                const char *known = strerrorname_np(number);

                if (known != NULL && strcmp(known, name) == 0)
                        return number;
        }
        fail(name, "no such errno");
}

static void add_rule(scmp_filter_ctx context, char *rule)
{
        char *error = strchr(rule, '='), *value = strchr(rule, ':');
        unsigned index = 0;
        int r;

        if (error == NULL)
                fail(rule, "not NAME[:[INDEX.]VALUE]=ERRNO");
        *error++ = '\0';
        if (value != NULL) {
                *value++ = '\0';
                if (value[0] >= '0' && value[0] <= '5' && value[1] == '.') {
                        index = (unsigned)(value[0] - '0');
                        value += 2;
                }
        }

        uint32_t action = SCMP_ACT_ERRNO((uint32_t)errno_of(error));
        int number = seccomp_syscall_resolve_name(rule);

        if (number < 0)
                fail(rule, "no such system call");
        if (value == NULL)
                r = seccomp_rule_add(context, action, number, 0);
        else
                r = seccomp_rule_add(context, action, number, 1,
                                     SCMP_CMP(index, SCMP_CMP_EQ, strtoull(value, NULL, 0)));
        if (r < 0)
                fail(rule, strerror(-r));
}

int main(int argc, char **argv)
{
        scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
        int i, r = 0;

        if (context == NULL)
                fail("seccomp", "out of memory");
        for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
                add_rule(context, argv[i]);
        if (i + 1 >= argc)
                fail("usage", "fail-syscall NAME[:[INDEX.]VALUE]=ERRNO... -- COMMAND...");
        if (geteuid() == 0)
                r = seccomp_attr_set(context, SCMP_FLTATR_CTL_NNP, 0);
        if (r == 0)
                r = seccomp_load(context);
        if (r < 0)
                fail("seccomp", strerror(-r));
        execvp(argv[i + 1], argv + i + 1);
        fail(argv[i + 1], strerror(errno));
}
