// sr-filter-generate: lays the filters of system calls out when the program is built, because that takes
// longer than a sandbox does and depends on nothing but the architecture. Writes a C header with the finished
// instructions, which the spawner includes. usage: sr-filter-generate > sandbox_filters.h
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/filter/layout.h"

static int print_profile(const struct sr_filter_profile *profile)
{
        static struct sr_filter_code code;
        int r = sr_filter_lay_out(profile, &code);

        if (r < 0)
                return r;
        printf("\nstatic const struct sock_filter %s[] = {\n", profile->symbol);
        for (unsigned i = 0; i < code.length; i++)
                printf("        {0x%04x, %u, %u, 0x%08x},\n", code.instructions[i].code,
                       code.instructions[i].jt, code.instructions[i].jf, code.instructions[i].k);
        printf("};\n");
        return 0;
}

int main(void)
{
        printf("// Written by the build from src/sandbox/filter.\n#pragma once\n\n#include "
               "<linux/filter.h>\n");
        for (size_t i = 0; i < SR_FILTER_PROFILES; i++) {
                int r = print_profile(&sr_filter_profiles[i]);

                if (r < 0) {
                        fprintf(stderr, "sr-filter-generate: %s: %s\n", sr_filter_profiles[i].symbol,
                                r == -EEXIST ? "a call is named twice in its tables" : strerror(-r));
                        return EXIT_FAILURE;
                }
        }
        if (fflush(stdout) != 0) {
                fprintf(stderr, "sr-filter-generate: cannot write: %s\n", strerror(errno));
                return EXIT_FAILURE;
        }
        return EXIT_SUCCESS;
}
