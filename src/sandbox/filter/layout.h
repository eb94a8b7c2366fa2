// Lays a profile out as instructions of classic BPF.
//
// Theory of operation. The numbers of all calls fall into ranges that have one answer; a binary tree of
// comparisons finds the range of a call in seven or eight of them, and ends at a return or, where arguments
// decide, at the rule's own comparisons. The kernel runs the program once for each number when it is
// installed and lets calls whose answer is always "allowed" pass without it from then on; it can do so as
// long as nothing but loads of number and architecture, comparisons and jumps lies on their way
// (kernel/seccomp.c, seccomp_is_const_allow).
//
// libseccomp's own layout is not used: it is twice as long, which is half of what installing costs, and it
// joins rules for one call so that some combinations of arguments have the fallback as their answer.
#pragma once

#include <linux/filter.h>

#include "sandbox/filter/table.h"

// Longer than any profile needs; the kernel's own limit is BPF_MAXINSNS, 4096.
#define SR_FILTER_LENGTH_MAX 1024

struct sr_filter_code {
        struct sock_filter instructions[SR_FILTER_LENGTH_MAX];
        unsigned length;
};

// The number of a call on this architecture. Negative: it has none.
int sr_filter_number(const char *name);

// Calls visit for each name of a list. Stops at and returns its first result other than 0.
int sr_filter_each_name(const char *names, int (*visit)(const char *name, void *context), void *context);

// Lays profile out. -EEXIST: a call is named twice; -ENOSPC: the code is too long; -E2BIG: a rule
// has too many values, or no clause without conditions; -ERANGE: a call's number is above those expected.
int sr_filter_lay_out(const struct sr_filter_profile *profile, struct sr_filter_code *ret);
