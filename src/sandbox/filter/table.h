// What a filter of system calls decides, as data: families of calls, rules that look at arguments, and the
// profiles made of them.
//
// Theory of operation. A profile answers each call with a value of seccomp(2), SECCOMP_RET_*. A call that a
// family names has the family's answer; one that has a rule has the answer of the rule's first clause that
// holds; every other call, one of another architecture included, has the profile's fallback. Which calls
// there are is calls.c's, which arguments rules.c's; layout.c makes instructions of them.
//
// The kernel takes 32 bits of every argument looked at here, so 32 bits are compared, except for pointers.
#pragma once

#include <errno.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#define SR_FILTER_ALLOWED      SECCOMP_RET_ALLOW
#define SR_FILTER_ERRNO(error) (SECCOMP_RET_ERRNO | (uint32_t)(error))
// A call that exists and that a program may not make.
#define SR_FILTER_REFUSED SR_FILTER_ERRNO(EPERM)
// A call whose users know an older way: they take it when the kernel does not have the call.
#define SR_FILTER_ABSENT SR_FILTER_ERRNO(ENOSYS)
// Success, and nothing is done.
#define SR_FILTER_NOTHING SR_FILTER_ERRNO(0)

struct sr_filter_family {
        uint32_t answer;
        const char *reason;
        const char *names; // separated by spaces; those this architecture does not have are passed over
};

enum sr_filter_test {
        SR_FILTER_ALWAYS,  // of a condition that is not there
        SR_FILTER_ONE_OF,  // the argument is one of values
        SR_FILTER_ANY_BIT, // it has a bit of mask
        SR_FILTER_NULL,    // it is a null pointer (64 bits)
};

struct sr_filter_condition {
        enum sr_filter_test test;
        unsigned argument; // from 0
        uint32_t mask;
        const uint32_t *values;
        size_t count;
};

// Holds when both conditions do.
struct sr_filter_clause {
        uint32_t answer;
        struct sr_filter_condition conditions[2];
};

#define SR_FILTER_CLAUSES_MAX 4
struct sr_filter_rule {
        const char *names; // as of a family
        const char *reason;
        struct sr_filter_clause clauses[SR_FILTER_CLAUSES_MAX]; // up to and with the first without conditions
};

struct sr_filter_profile {
        const char *symbol; // of the array in the generated header
        uint32_t fallback;
        const struct sr_filter_family *families;
        size_t family_count;
        const struct sr_filter_rule *rules;
        size_t rule_count;
        const struct sr_filter_rule *overrules; // rules in place of what families and rules say, or NULL
        size_t overrule_count;
        const char *absent; // names that answer ENOSYS whatever the tables say, or NULL
};

extern const struct sr_filter_family sr_filter_families[];
extern const size_t sr_filter_family_count;
#define SR_FILTER_RULES 12
extern const struct sr_filter_rule sr_filter_rules[SR_FILTER_RULES];

#define SR_FILTER_RULES_WATCHED 2
extern const struct sr_filter_rule sr_filter_rules_watched[SR_FILTER_RULES_WATCHED];

#define SR_FILTER_PROFILES 3
extern const struct sr_filter_profile sr_filter_profiles[SR_FILTER_PROFILES];
