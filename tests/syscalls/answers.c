// What our filters answer, found by evaluating them in user space, in the words and for the arguments of
// probe.c:
//
//   filter-answers [watched] [x32|i386]
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/filter/layout.h"
#include "syscalls/evaluate.h"

#define NUMBERS 512
#define X32     0x40000000

static uint32_t answer_of(const struct sr_filter_code *code, struct seccomp_data data)
{
        static const uint64_t sets[][6] = {
                {0},
                {1, 1, 0, 0, 0, 0},
                {0, 0x5401, 0, 0, 0, 0},
                {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        };
        uint32_t first = 0;

        for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
                memcpy(data.args, sets[i], sizeof(data.args));

                uint32_t answer = evaluate(code->instructions, code->length, &data).answer;

                if (answer == SECCOMP_RET_ALLOW)
                        return answer;
                if (i == 0)
                        first = answer;
        }
        return first;
}

int main(int argc, char **argv)
{
        static struct sr_filter_code code;
        struct seccomp_data data = {.arch = EVALUATE_ARCH};
        size_t profile = 0;
        int bit = 0;

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "watched") == 0)
                        profile = 1;
                else if (strcmp(argv[i], "x32") == 0)
                        bit = X32;
                else if (strcmp(argv[i], "i386") == 0)
                        data.arch = AUDIT_ARCH_I386;
                else
                        return fputs("usage: filter-answers [watched] [x32|i386]\n", stderr), 2;
        }
        if (sr_filter_lay_out(&sr_filter_profiles[profile], &code) < 0)
                return fputs("filter-answers: the filter cannot be laid out\n", stderr), 1;
        for (int number = 0; number < NUMBERS; number++) {
                data.nr = number | bit;

                uint32_t answer = answer_of(&code, data);

                if (answer == SECCOMP_RET_ALLOW)
                        printf("%d through\n", number);
                else
                        printf("%d %u\n", number, answer & SECCOMP_RET_DATA);
        }
        return 0;
}
