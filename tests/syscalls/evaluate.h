// Runs a seccomp filter's classic BPF in user space, with the few instructions such a filter may have
// (kernel/seccomp.c, seccomp_check_filter) that our filters use.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define EVALUATE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define EVALUATE_ARCH AUDIT_ARCH_AARCH64
#else
#error "add this architecture's AUDIT_ARCH_ name"
#endif

struct evaluation {
        uint32_t answer;
        unsigned steps;
        bool looked_at_arguments;
};

// Aborts on an instruction that does not belong and on a jump past the end.
static inline struct evaluation evaluate(const struct sock_filter *code, unsigned length,
                                         const struct seccomp_data *data)
{
        struct evaluation result = {0};
        uint32_t value = 0;
        bool met;

        for (unsigned at = 0; at < length; at++) {
                const struct sock_filter *one = &code[at];

                result.steps++;
                switch (one->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        if (one->k > sizeof(*data) - sizeof(value) || one->k % sizeof(value) != 0)
                                abort();
                        memcpy(&value, (const char *)data + one->k, sizeof(value));
                        if (one->k > offsetof(struct seccomp_data, arch))
                                result.looked_at_arguments = true;
                        continue;
                case BPF_RET | BPF_K:
                        result.answer = one->k;
                        return result;
                case BPF_JMP | BPF_JA:
                        at += one->k;
                        continue;
                case BPF_JMP | BPF_JEQ | BPF_K:
                        met = value == one->k;
                        break;
                case BPF_JMP | BPF_JGE | BPF_K:
                        met = value >= one->k;
                        break;
                case BPF_JMP | BPF_JSET | BPF_K:
                        met = (value & one->k) != 0;
                        break;
                default:
                        abort();
                }
                at += met ? one->jt : one->jf;
        }
        abort();
}
