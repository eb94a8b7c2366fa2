#include "sandbox/filter/layout.h"

#include <errno.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS    1024 // above every call's
#define FAR        250 // a conditional jump reaches 255 instructions; a return or a jump may be put in between
#define NAME_SIZE  64
#define VALUES_MAX 64

// Code is written from its end backwards: where a jump goes is then known when it is written. A place is the
// count of instructions from there to the end, itself included.
struct writer {
        struct sock_filter backwards[SR_FILTER_LENGTH_MAX];
        unsigned count;
        int failure; // the first, as a negative errno
};

// What is decided about a range of values, of call numbers or of arguments: a return, or a place to go on at.
struct target {
        uint32_t answer;
        unsigned place; // 0: return answer
};

struct range {
        uint32_t first; // up to the next range's
        struct target target;
};

struct number {
        bool named;
        uint32_t answer;
        const struct sr_filter_rule *rule;
};

// Calls that libseccomp may be too old to know. From 424 on a number is the same on every architecture
// (scripts/syscall.tbl of the kernel).
static const struct {
        const char *name;
        int number;
} newer[] = {
        {"memfd_secret", 447},      {"process_mrelease", 448},
        {"futex_waitv", 449},       {"set_mempolicy_home_node", 450},
        {"cachestat", 451},         {"fchmodat2", 452},
        {"map_shadow_stack", 453},  {"futex_wake", 454},
        {"futex_wait", 455},        {"futex_requeue", 456},
        {"statmount", 457},         {"listmount", 458},
        {"lsm_get_self_attr", 459}, {"lsm_set_self_attr", 460},
        {"lsm_list_modules", 461},  {"mseal", 462},
        {"setxattrat", 463},        {"getxattrat", 464},
        {"listxattrat", 465},       {"removexattrat", 466},
        {"open_tree_attr", 467},    {"file_getattr", 468},
        {"file_setattr", 469},
#ifdef __x86_64__
        {"uretprobe", 335},         {"uprobe", 336},
#endif
};

int sr_filter_number(const char *name)
{
        int number = seccomp_syscall_resolve_name(name);

        for (size_t i = 0; i < sizeof(newer) / sizeof(*newer) && number == __NR_SCMP_ERROR; i++)
                if (strcmp(newer[i].name, name) == 0)
                        number = newer[i].number;
        return number;
}

int sr_filter_each_name(const char *names, int (*visit)(const char *name, void *context), void *context)
{
        static char name[NAME_SIZE];
        int r = 0;

        while (*names != '\0' && r == 0) {
                size_t length = strcspn(names, " ");

                if (length >= sizeof(name))
                        return -ENAMETOOLONG;
                memcpy(name, names, length);
                name[length] = '\0';
                if (length > 0)
                        r = visit(name, context);
                names += length + (names[length] == ' ');
        }
        return r;
}

static void fail(struct writer *writer, int failure)
{
        if (writer->failure == 0)
                writer->failure = failure;
}

static unsigned put(struct writer *writer, uint16_t code, unsigned yes, unsigned no, uint32_t k)
{
        if (writer->count == SR_FILTER_LENGTH_MAX || yes > UINT8_MAX || no > UINT8_MAX) {
                fail(writer, -ENOSPC);
                return writer->count;
        }
        writer->backwards[writer->count++] =
                (struct sock_filter){.code = code, .jt = (uint8_t)yes, .jf = (uint8_t)no, .k = k};
        return writer->count;
}

static unsigned distance(const struct writer *writer, unsigned place)
{
        return writer->count - place;
}

// A place within reach that does what target says.
static unsigned near(struct writer *writer, struct target target)
{
        if (target.place != 0) {
                if (distance(writer, target.place) <= FAR)
                        return target.place;
                return put(writer, BPF_JMP | BPF_JA, 0, 0, distance(writer, target.place));
        }
        for (unsigned place = writer->count; place > 0 && distance(writer, place) <= FAR; place--) {
                const struct sock_filter *at = &writer->backwards[place - 1];

                if (at->code == (BPF_RET | BPF_K) && at->k == target.answer)
                        return place;
        }
        return put(writer, BPF_RET | BPF_K, 0, 0, target.answer);
}

static struct target put_test(struct writer *writer, uint16_t test, uint32_t k, struct target yes,
                              struct target no)
{
        unsigned yes_place = near(writer, yes);
        unsigned no_place = near(writer, no);
        unsigned place = put(writer, BPF_JMP | BPF_K | test, distance(writer, yes_place),
                             distance(writer, no_place), k);

        return (struct target){.place = place};
}

static struct target put_load(struct writer *writer, uint32_t offset, struct target next)
{
        unsigned place = near(writer, next);

        // A load goes on with what follows it.
        if (place != writer->count)
                put(writer, BPF_JMP | BPF_JA, 0, 0, distance(writer, place));
        return (struct target){.place = put(writer, BPF_LD | BPF_W | BPF_ABS, 0, 0, offset)};
}

static bool same(struct target a, struct target b)
{
        return a.place == b.place && (a.place != 0 || a.answer == b.answer);
}

// The tree over ranges, whose value is loaded already. Its depth is the logarithm of count.
static struct target put_tree(struct writer *writer, const struct range *ranges, size_t count)
{
        if (count == 1)
                return ranges[0].target;
        // One value among others of one kind.
        if (count == 3 && same(ranges[0].target, ranges[2].target) && ranges[2].first - ranges[1].first == 1)
                return put_test(writer, BPF_JEQ, ranges[1].first, ranges[1].target, ranges[0].target);

        size_t half = count / 2;
        struct target high = put_tree(writer, ranges + half, count - half);
        struct target low = put_tree(writer, ranges, half);

        return put_test(writer, BPF_JGE, ranges[half].first, high, low);
}

static uint32_t low_word(unsigned argument)
{
        uint32_t offset = (uint32_t)(offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t));

        return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? offset : offset + 4;
}

static uint32_t high_word(unsigned argument)
{
        return low_word(argument) ^ 4;
}

static int compare_values(const void *a, const void *b)
{
        const uint32_t *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

static void add_range(struct range *ranges, size_t *count, uint32_t first, struct target target)
{
        if (*count > 0 && ranges[*count - 1].first == first)
                --*count; // it was empty
        if (*count == 0 || !same(ranges[*count - 1].target, target))
                ranges[(*count)++] = (struct range){.first = first, .target = target};
}

static struct target put_one_of(struct writer *writer, const struct sr_filter_condition *condition,
                                struct target yes, struct target no)
{
        struct range ranges[2 * VALUES_MAX + 1];
        uint32_t values[VALUES_MAX];
        size_t count = 0;

        if (condition->count > VALUES_MAX) {
                fail(writer, -E2BIG);
                return no;
        }
        memcpy(values, condition->values, condition->count * sizeof(*values));
        qsort(values, condition->count, sizeof(*values), compare_values);
        add_range(ranges, &count, 0, no);
        for (size_t i = 0; i < condition->count; i++) {
                add_range(ranges, &count, values[i], yes);
                if (values[i] != UINT32_MAX)
                        add_range(ranges, &count, values[i] + 1, no);
        }
        return put_load(writer, low_word(condition->argument), put_tree(writer, ranges, count));
}

static struct target put_condition(struct writer *writer, const struct sr_filter_condition *condition,
                                   struct target yes, struct target no)
{
        struct target next;

        switch (condition->test) {
        case SR_FILTER_ONE_OF:
                return put_one_of(writer, condition, yes, no);
        case SR_FILTER_ANY_BIT:
                next = put_test(writer, BPF_JSET, condition->mask, yes, no);
                return put_load(writer, low_word(condition->argument), next);
        case SR_FILTER_NULL:
                next = put_test(writer, BPF_JEQ, 0, yes, no);
                next = put_load(writer, high_word(condition->argument), next);
                next = put_test(writer, BPF_JEQ, 0, next, no);
                return put_load(writer, low_word(condition->argument), next);
        case SR_FILTER_ALWAYS:
                break;
        }
        return yes;
}

// From clause number `index` on.
static struct target put_clauses(struct writer *writer, const struct sr_filter_rule *rule, unsigned index)
{
        const struct sr_filter_clause *clause = &rule->clauses[index];
        struct target answer = {.answer = clause->answer};

        if (clause->conditions[0].test == SR_FILTER_ALWAYS)
                return answer;
        if (index + 1 == SR_FILTER_CLAUSES_MAX) {
                fail(writer, -E2BIG);
                return answer;
        }

        struct target next = put_clauses(writer, rule, index + 1);

        answer = put_condition(writer, &clause->conditions[1], answer, next);
        return put_condition(writer, &clause->conditions[0], answer, next);
}

struct filling {
        struct number *numbers;
        struct number value;
        bool overrule;
};

static int fill(const char *name, void *context)
{
        const struct filling *filling = context;
        int number = sr_filter_number(name);

        if (number < 0)
                return 0;
        if (number >= NUMBERS)
                return -ERANGE;
        if (filling->numbers[number].named && !filling->overrule)
                return -EEXIST;
        filling->numbers[number] = filling->value;
        return 0;
}

static int fill_numbers(const struct sr_filter_profile *profile, struct number *numbers)
{
        struct filling filling = {.numbers = numbers, .value = {.named = true}};
        int r = 0;

        for (size_t i = 0; i < profile->family_count && r == 0; i++) {
                filling.value.answer = profile->families[i].answer;
                r = sr_filter_each_name(profile->families[i].names, fill, &filling);
        }
        for (size_t i = 0; i < profile->rule_count && r == 0; i++) {
                filling.value.rule = &profile->rules[i];
                r = sr_filter_each_name(profile->rules[i].names, fill, &filling);
        }
        filling.overrule = true;
        for (size_t i = 0; i < profile->overrule_count && r == 0; i++) {
                filling.value.rule = &profile->overrules[i];
                r = sr_filter_each_name(profile->overrules[i].names, fill, &filling);
        }
        if (profile->absent != NULL && r == 0) {
                filling.value = (struct number){.named = true, .answer = SR_FILTER_ABSENT};
                r = sr_filter_each_name(profile->absent, fill, &filling);
        }
        return r;
}

static struct target target_of(struct writer *writer, const struct sr_filter_profile *profile,
                               const struct number *number, struct target *rules)
{
        if (number->rule == NULL)
                return (struct target){.answer = number->named ? number->answer : profile->fallback};

        const struct sr_filter_rule *overrules = profile->overrules;
        bool overruled = overrules != NULL && number->rule >= overrules &&
                         number->rule < overrules + profile->overrule_count;
        struct target *rule = &rules[overruled ? profile->rule_count + (size_t)(number->rule - overrules)
                                               : (size_t)(number->rule - profile->rules)];

        if (rule->place == 0)
                *rule = put_clauses(writer, number->rule, 0);
        return *rule;
}

int sr_filter_lay_out(const struct sr_filter_profile *profile, struct sr_filter_code *ret)
{
        static struct writer writer;
        static struct number numbers[NUMBERS];
        static struct range ranges[NUMBERS + 1];
        struct target *rules = calloc(profile->rule_count + profile->overrule_count + 1, sizeof(*rules));
        struct target fallback = {.answer = profile->fallback};
        size_t count = 0;

        if (rules == NULL)
                return -ENOMEM;
        writer = (struct writer){.count = 0};
        memset(numbers, 0, sizeof(numbers));

        int r = fill_numbers(profile, numbers);

        for (uint32_t i = 0; i < NUMBERS && r == 0; i++)
                add_range(ranges, &count, i, target_of(&writer, profile, &numbers[i], rules));
        free(rules);
        if (r < 0)
                return r;
        // Calls of x32 have numbers from 0x40000000 on.
        add_range(ranges, &count, NUMBERS, fallback);

        struct target next = put_tree(&writer, ranges, count);

        next = put_load(&writer, offsetof(struct seccomp_data, nr), next);
        // Calls of another architecture have other numbers.
        next = put_test(&writer, BPF_JEQ, seccomp_arch_native(), next,
                        (struct target){.answer = SR_FILTER_ABSENT});
        put_load(&writer, offsetof(struct seccomp_data, arch), next);
        if (writer.failure < 0)
                return writer.failure;
        for (unsigned i = 0; i < writer.count; i++)
                ret->instructions[i] = writer.backwards[writer.count - 1 - i];
        ret->length = writer.count;
        return 0;
}
