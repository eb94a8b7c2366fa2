// The filters of system calls: what the tables say, that the instructions say the same, and that nothing that
// matters slips through.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/filter/layout.h"
#include "syscalls/evaluate.h"

#define REVIEWED 469 // the highest call that the tables know
#define X32      0x40000000

#define ALLOW  SECCOMP_RET_ALLOW
#define ERR(e) (SECCOMP_RET_ERRNO | (e))

static struct sr_filter_code program, watched, init;

static int set_up(void **state)
{
        struct sr_filter_code *const codes[SR_FILTER_PROFILES] = {&program, &watched, &init};

        (void)state;
        for (size_t i = 0; i < SR_FILTER_PROFILES; i++)
                assert_int_equal(sr_filter_lay_out(&sr_filter_profiles[i], codes[i]), 0);
        return 0;
}

static struct evaluation ask(const struct sr_filter_code *code, int number, const uint64_t arguments[6])
{
        struct seccomp_data data = {.nr = number, .arch = EVALUATE_ARCH};

        memcpy(data.args, arguments, sizeof(data.args));
        return evaluate(code->instructions, code->length, &data);
}

// Values that rules look for, beside them, and with bits that the kernel does not read.
static uint64_t some_value(void)
{
        static const uint64_t values[] = {
                0,      1,      2,          3,          6,       8,       9,          10,         17,
                58,     132,    255,        1024,       1025,    1026,    1030,       0x5401,     0x5412,
                0x541c, 0x8912, 0x10000000, 0x20000000, 0x20000, 0x20008, 0x7fffffff, 0xffffffff, UINT64_MAX};
        uint64_t value = values[(size_t)random() % (sizeof(values) / sizeof(*values))];

        switch (random() % 6) {
        case 0:
                return value | 1ull << (32 + random() % 32);
        case 1:
                return value + 1;
        case 2:
                return (uint64_t)random();
        default:
                return value;
        }
}

static void some_arguments(uint64_t arguments[6])
{
        for (size_t i = 0; i < 6; i++)
                arguments[i] = some_value();
}

struct search {
        int number;
        bool found;
};

static int is_number(const char *name, void *context)
{
        struct search *search = context;

        search->found |= sr_filter_number(name) == search->number;
        return 0;
}

static bool names_number(const char *names, int number)
{
        struct search search = {.number = number};

        if (names != NULL)
                assert_int_equal(sr_filter_each_name(names, is_number, &search), 0);
        return search.found;
}

static bool holds(const struct sr_filter_condition *condition, const uint64_t arguments[6])
{
        uint64_t value = arguments[condition->argument];

        switch (condition->test) {
        case SR_FILTER_ALWAYS:
                return true;
        case SR_FILTER_ANY_BIT:
                return ((uint32_t)value & condition->mask) != 0;
        case SR_FILTER_NULL:
                return value == 0;
        case SR_FILTER_ONE_OF:
                for (size_t i = 0; i < condition->count; i++)
                        if (condition->values[i] == (uint32_t)value)
                                return true;
                return false;
        }
        return false;
}

static uint32_t by_the_rule(const struct sr_filter_rule *rule, const uint64_t arguments[6])
{
        const struct sr_filter_clause *clause = rule->clauses;

        while (!holds(&clause->conditions[0], arguments) || !holds(&clause->conditions[1], arguments))
                clause++;
        return clause->answer;
}

// What the tables say, read as a person does.
static uint32_t by_the_tables(const struct sr_filter_profile *profile, int number,
                              const uint64_t arguments[6])
{
        if (names_number(profile->absent, number))
                return SR_FILTER_ABSENT;
        for (size_t i = 0; i < profile->overrule_count; i++)
                if (names_number(profile->overrules[i].names, number))
                        return by_the_rule(&profile->overrules[i], arguments);
        for (size_t i = 0; i < profile->family_count; i++)
                if (names_number(profile->families[i].names, number))
                        return profile->families[i].answer;
        for (size_t i = 0; i < profile->rule_count; i++)
                if (names_number(profile->rules[i].names, number))
                        return by_the_rule(&profile->rules[i], arguments);
        return profile->fallback;
}

static void the_instructions_say_what_the_tables_say(void **state)
{
        const struct sr_filter_code *const codes[SR_FILTER_PROFILES] = {&program, &watched, &init};

        (void)state;
        srandom(1);
        for (size_t i = 0; i < SR_FILTER_PROFILES; i++) {
                for (int number = -1; number < 600; number++) {
                        const struct sr_filter_profile *profile = &sr_filter_profiles[i];
                        bool ruled = false;

                        for (size_t j = 0; j < profile->rule_count; j++)
                                ruled |= names_number(profile->rules[j].names, number);
                        for (size_t j = 0; j < profile->overrule_count; j++)
                                ruled |= names_number(profile->overrules[j].names, number);
                        for (int repeat = 0; repeat < (ruled ? 3000 : 2); repeat++) {
                                uint64_t arguments[6];

                                some_arguments(arguments);

                                uint32_t expected = by_the_tables(profile, number, arguments);
                                uint32_t answer = ask(codes[i], number, arguments).answer;

                                if (answer != expected)
                                        fail_msg("%s, call %d (%#llx, %#llx, %#llx): %#x, not %#x",
                                                 profile->symbol, number, (unsigned long long)arguments[0],
                                                 (unsigned long long)arguments[1],
                                                 (unsigned long long)arguments[2], answer, expected);
                        }
                }
        }
}

static void every_call_with_a_name_is_in_a_table(void **state)
{
        const struct sr_filter_profile *profile = &sr_filter_profiles[0];

        (void)state;
        for (int number = 0; number <= REVIEWED; number++) {
                char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
                unsigned found = 0;

                if (name == NULL)
                        continue;
                for (size_t i = 0; i < profile->family_count; i++)
                        found += names_number(profile->families[i].names, number);
                for (size_t i = 0; i < profile->rule_count; i++)
                        found += names_number(profile->rules[i].names, number);
                if (found != 1)
                        fail_msg("call %d, %s, is in %u of the tables of src/sandbox/filter", number, name,
                                 found);
                free(name);
        }
}

static int is_known(const char *name, void *context)
{
        (void)context;
        if (sr_filter_number(name) == __NR_SCMP_ERROR)
                fail_msg("the tables name %s, which is no system call of any architecture", name);
        return 0;
}

static void every_name_in_a_table_is_a_call(void **state)
{
        const struct sr_filter_profile *profile = &sr_filter_profiles[0];

        (void)state;
        for (size_t i = 0; i < profile->family_count; i++) {
                assert_int_equal(sr_filter_each_name(profile->families[i].names, is_known, NULL), 0);
                assert_true(strlen(profile->families[i].reason) > 0);
        }
        for (size_t i = 0; i < profile->rule_count; i++) {
                assert_int_equal(sr_filter_each_name(profile->rules[i].names, is_known, NULL), 0);
                assert_true(strlen(profile->rules[i].reason) > 0);
        }
}

static int is_refused_whatever_the_arguments(const char *name, void *context)
{
        int number = sr_filter_number(name);

        if (number < 0)
                return 0;
        for (int repeat = 0; repeat < 20; repeat++) {
                uint64_t arguments[6];

                some_arguments(arguments);
                if (ask(context, number, arguments).answer == ALLOW)
                        fail_msg("%s is allowed", name);
        }
        return 0;
}

static void dangerous_calls_are_refused(void **state)
{
        static const char names[] =
                "mount umount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree "
                "open_tree_attr move_mount mount_setattr unshare setns clone3 bpf io_uring_setup "
                "io_uring_enter io_uring_register keyctl add_key request_key userfaultfd perf_event_open "
                "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp "
                "open_by_handle_at name_to_handle_at kexec_load kexec_file_load init_module finit_module "
                "delete_module quotactl quotactl_fd swapon swapoff reboot iopl ioperm acct syslog "
                "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup "
                "modify_ldt fanotify_init fanotify_mark lookup_dcookie migrate_pages move_pages mbind "
                "set_mempolicy memfd_secret io_setup io_submit uselib nfsservctl create_module";

        (void)state;
        sr_filter_each_name(names, is_refused_whatever_the_arguments, &program);
        sr_filter_each_name(names, is_refused_whatever_the_arguments, &watched);
}

static void arguments_decide(void **state)
{
        static const struct {
                int number;
                uint32_t answer;
                uint64_t arguments[3];
        } cases[] = {
                {SYS_clone, ALLOW, {SIGCHLD}},
                {SYS_clone, ALLOW, {CLONE_VM | CLONE_VFORK | SIGCHLD}},
                {SYS_clone, ALLOW, {0x3d0f00 /* pthread_create */}},
                {SYS_clone, ERR(EPERM), {CLONE_NEWUSER | SIGCHLD}},
                {SYS_clone, ERR(EPERM), {CLONE_NEWNS}},
                {SYS_clone, ERR(EPERM), {CLONE_NEWCGROUP}},
                {SYS_clone, ERR(EPERM), {CLONE_NEWUTS}},
                {SYS_clone, ERR(EPERM), {CLONE_NEWIPC}},
                {SYS_clone, ERR(EPERM), {CLONE_NEWPID}},
                {SYS_clone, ERR(EPERM), {CLONE_NEWNET | 1ull << 40}},
                {SYS_clone3, ERR(ENOSYS), {0}},
                {SYS_ioctl, ALLOW, {0, TCGETS}},
                {SYS_ioctl, ALLOW, {0, FIONREAD | 1ull << 32}},
                {SYS_ioctl, ERR(EPERM), {0, TIOCSTI}},
                {SYS_ioctl, ERR(EPERM), {0, TIOCSTI | 1ull << 32}},
                {SYS_ioctl, ERR(EPERM), {0, TIOCLINUX | 1ull << 63}},
                {SYS_ioctl, ERR(ENOTTY), {0, TIOCSCTTY}},
                {SYS_ioctl, ERR(ENOTTY), {0, 0}},
                {SYS_fcntl, ALLOW, {0, F_DUPFD_CLOEXEC}},
                {SYS_fcntl, ALLOW, {0, F_OFD_SETLKW}},
                {SYS_fcntl, ERR(EPERM), {0, F_SETLEASE}},
                {SYS_fcntl, ERR(EPERM), {0, F_NOTIFY | 1ull << 33}},
                {SYS_fcntl, ERR(EINVAL), {0, 9999}},
                {SYS_personality, ALLOW, {0xffffffff}},
                {SYS_personality, ALLOW, {UINT64_MAX}},
                {SYS_personality, ERR(EPERM), {0x0040000 /* ADDR_NO_RANDOMIZE */}},
                {SYS_personality, ERR(EPERM), {0x0400000 /* READ_IMPLIES_EXEC */}},
                {SYS_socket, ALLOW, {AF_UNIX, SOCK_STREAM, 0}},
                {SYS_socket, ALLOW, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 6}},
                {SYS_socket, ALLOW, {AF_INET6, SOCK_DGRAM, 17}},
                {SYS_socket, ERR(EPROTONOSUPPORT), {AF_INET, SOCK_STREAM, 132 /* SCTP */}},
                {SYS_socket, ERR(EPROTONOSUPPORT), {AF_INET, SOCK_STREAM, 262 /* MPTCP */}},
                {SYS_socket, ERR(EPROTONOSUPPORT), {AF_INET6, SOCK_STREAM, 256 /* SMC */}},
                {SYS_socket, ERR(EAFNOSUPPORT), {AF_NETLINK, SOCK_RAW, 0}},
                {SYS_socket, ERR(EAFNOSUPPORT), {AF_NETLINK | 1ull << 32, SOCK_RAW, 0}},
                {SYS_socket, ERR(EAFNOSUPPORT), {AF_PACKET, SOCK_RAW, 0}},
                {SYS_socket, ERR(EAFNOSUPPORT), {AF_VSOCK, SOCK_STREAM, 0}},
                {SYS_socket, ERR(EAFNOSUPPORT), {AF_ALG, SOCK_SEQPACKET, 0}},
                {SYS_socket, ERR(EAFNOSUPPORT), {AF_UNSPEC, SOCK_STREAM, 0}},
                {SYS_socketpair, ALLOW, {AF_UNIX, SOCK_STREAM, 0}},
                {SYS_socketpair, ERR(EAFNOSUPPORT), {AF_INET, SOCK_STREAM, 0}},
                {SYS_prlimit64, ALLOW, {0, RLIMIT_CPU, 0x1000}},
                {SYS_prlimit64, ALLOW, {7, RLIMIT_CPU, 0x1000}},
                {SYS_prlimit64, ALLOW, {1, RLIMIT_CPU, 0}},
                {SYS_prlimit64, ERR(EPERM), {1, RLIMIT_CPU, 0x1000}},
                {SYS_prlimit64, ERR(EPERM), {1, RLIMIT_CPU, 0x100000000}},
                {SYS_prlimit64, ERR(EPERM), {1 | 1ull << 32, RLIMIT_CPU, 1}},
                {SYS_setpriority, ALLOW, {PRIO_PROCESS, 0, 5}},
                {SYS_setpriority, ALLOW, {PRIO_PROCESS, 7, 5}},
                {SYS_setpriority, ERR(EPERM), {PRIO_PROCESS, 1, 5}},
                {SYS_setpriority, ERR(EPERM), {PRIO_PROCESS, 1 | 1ull << 32, 5}},
                {SYS_setpriority, ERR(EPERM), {PRIO_USER, 0, 5}},
                {SYS_setpriority, ERR(EPERM), {PRIO_PGRP, 0, 5}},
                {SYS_sched_setaffinity, ALLOW, {0}},
                {SYS_sched_setaffinity, ALLOW, {12}},
                {SYS_sched_setaffinity, ERR(EPERM), {1}},
                {SYS_sched_setscheduler, ALLOW, {12}},
                {SYS_sched_setscheduler, ERR(EPERM), {1}},
                {SYS_sched_setparam, ERR(EPERM), {1}},
                {SYS_sched_setattr, ERR(EPERM), {1}},
                {SYS_ioprio_set, ERR(EPERM), {0}},
                {SYS_sync, ERR(0), {0}},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                uint64_t arguments[6] = {cases[i].arguments[0], cases[i].arguments[1], cases[i].arguments[2]};
                uint32_t answer = ask(&program, cases[i].number, arguments).answer;

                if (answer != cases[i].answer)
                        fail_msg("case %zu, call %d: %#x, not %#x", i, cases[i].number, answer,
                                 cases[i].answer);
                assert_int_equal(ask(&watched, cases[i].number, arguments).answer, cases[i].answer);
        }
}

static void other_architectures_answer_enosys(void **state)
{
        (void)state;
        for (int number = 0; number < 600; number++) {
                struct seccomp_data data = {.nr = number, .arch = AUDIT_ARCH_I386};
                const uint64_t none[6] = {0};

                assert_int_equal(evaluate(program.instructions, program.length, &data).answer, ERR(ENOSYS));
                assert_int_equal(evaluate(init.instructions, init.length, &data).answer, ERR(ENOSYS));
                assert_int_equal(ask(&program, number | X32, none).answer, ERR(ENOSYS));
                assert_int_equal(ask(&watched, number | X32, none).answer, ERR(ENOSYS));
        }
}

static void watched_lacks_what_no_process_owns(void **state)
{
        const uint64_t none[6] = {0};
        unsigned differing = 0;

        (void)state;
        for (int number = 0; number < 600; number++)
                differing += ask(&program, number, none).answer != ask(&watched, number, none).answer;
        assert_int_equal(differing, 4); // memfd_secret is absent in both
        assert_int_equal(ask(&watched, SYS_memfd_create, none).answer, ERR(ENOSYS));
        assert_int_equal(ask(&watched, sr_filter_number("memfd_secret"), none).answer, ERR(ENOSYS));
        assert_int_equal(ask(&watched, SYS_shmget, none).answer, ERR(ENOSYS));
        assert_int_equal(ask(&watched, SYS_msgget, none).answer, ERR(ENOSYS));
        assert_int_equal(ask(&watched, SYS_semget, none).answer, ERR(ENOSYS));
        assert_int_equal(ask(&program, SYS_memfd_create, none).answer, ALLOW);

        const uint64_t nowhere[6] = {0, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, (uint64_t)-1, 0},
                       private[6] = {0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0},
                       file[6] = {0, 4096, 3, MAP_SHARED, 3, 0}, buffer[6] = {3, SOL_SOCKET, SO_SNDBUF, 0, 4},
                       option[6] = {3, SOL_SOCKET, SO_REUSEADDR, 0, 4};

        assert_int_equal(ask(&watched, SYS_mmap, nowhere).answer, ERR(ENOMEM));
        assert_int_equal(ask(&program, SYS_mmap, nowhere).answer, ALLOW);
        assert_int_equal(ask(&watched, SYS_mmap, private).answer, ALLOW);
        assert_int_equal(ask(&watched, SYS_mmap, file).answer, ALLOW);
        assert_int_equal(ask(&watched, SYS_setsockopt, buffer).answer, ERR(0));
        assert_int_equal(ask(&program, SYS_setsockopt, buffer).answer, ALLOW);
        assert_int_equal(ask(&watched, SYS_setsockopt, option).answer, ALLOW);
}

static void init_may_wait_and_report(void **state)
{
        const uint64_t none[6] = {0};
        unsigned allowed = 0;

        (void)state;
        for (int number = 0; number < 600; number++) {
                uint32_t answer = ask(&init, number, none).answer;

                allowed += answer == ALLOW;
                assert_true(answer == ALLOW || answer == ERR(EPERM));
        }
        assert_int_equal(allowed, 6);
        assert_int_equal(ask(&init, SYS_wait4, none).answer, ALLOW);
        assert_int_equal(ask(&init, SYS_execve, none).answer, ERR(EPERM));
}

// The kernel then passes them without the filter; the others are few comparisons away.
static void what_is_always_allowed_needs_no_arguments(void **state)
{
        const struct sr_filter_profile *profile = &sr_filter_profiles[0];

        (void)state;
        for (int number = 0; number < 600; number++) {
                uint64_t arguments[6];
                bool ruled = false;

                for (size_t i = 0; i < profile->rule_count; i++)
                        ruled |= names_number(profile->rules[i].names, number);
                some_arguments(arguments);

                struct evaluation evaluation = ask(&program, number, arguments);

                assert_int_equal(evaluation.looked_at_arguments, ruled);
                assert_in_range(evaluation.steps, 1, ruled ? 24 : 12);
        }
}

static void a_call_named_twice_is_an_error(void **state)
{
        static const struct sr_filter_family families[] = {
                {SR_FILTER_ALLOWED, "once", "read write"},
                {SR_FILTER_REFUSED, "twice", "openat read"},
        };
        const struct sr_filter_profile profile = {
                .symbol = "twice",
                .fallback = SR_FILTER_ABSENT,
                .families = families,
                .family_count = 2,
        };
        static struct sr_filter_code code;

        (void)state;
        assert_int_equal(sr_filter_lay_out(&profile, &code), -EEXIST);
}

// Scattered calls and values make code longer than a conditional jump reaches.
static void long_code_jumps_far(void **state)
{
        static uint32_t values[3][60];
        static const struct sr_filter_family families[] = {
                {SR_FILTER_ALLOWED, "scattered",
                 "read open stat lstat lseek mprotect brk rt_sigprocmask pread64 "
                 "readv access select mremap mincore shmget dup pause "
                 "getitimer setitimer sendfile connect sendto sendmsg bind "
                 "getsockname socketpair getsockopt fork execve wait4 uname"},
        };
        static struct sr_filter_rule rules[3] = {
                {.names = "ioctl",
                 .clauses = {{SR_FILTER_ALLOWED, {{SR_FILTER_ONE_OF, 1, 0, values[0], 60}}},
                             {.answer = SR_FILTER_REFUSED}}},
                {.names = "fcntl",
                 .clauses = {{SR_FILTER_ALLOWED, {{SR_FILTER_ONE_OF, 1, 0, values[1], 60}}},
                             {.answer = SR_FILTER_REFUSED}}},
                {.names = "prctl",
                 .clauses = {{SR_FILTER_ALLOWED, {{SR_FILTER_ONE_OF, 0, 0, values[2], 60}}},
                             {.answer = SR_FILTER_REFUSED}}},
        };
        const struct sr_filter_profile profile = {
                .symbol = "long",
                .fallback = SR_FILTER_ABSENT,
                .families = families,
                .family_count = 1,
                .rules = rules,
                .rule_count = 3,
        };
        static struct sr_filter_code code;

        (void)state;
        for (uint32_t i = 0; i < 60; i++) {
                values[0][i] = 59 * 7 - 7 * i; // unsorted
                values[1][i] = 11 * i + 5;
                values[2][i] = UINT32_MAX - 3 * i;
        }
        assert_int_equal(sr_filter_lay_out(&profile, &code), 0);
        assert_in_range(code.length, 300, SR_FILTER_LENGTH_MAX);
        for (int number = 0; number < 600; number++) {
                for (uint64_t value = 0; value < 700; value++) {
                        const uint64_t arguments[6] = {UINT32_MAX - value, value};

                        assert_int_equal(ask(&code, number, arguments).answer,
                                         by_the_tables(&profile, number, arguments));
                        if (number != SYS_ioctl && number != SYS_fcntl && number != SYS_prctl)
                                break;
                }
        }
}

// The kernel takes the code and answers as the evaluation says.
static void the_kernel_takes_it(void **state)
{
        const struct sock_fprog filter = {.len = (unsigned short)program.length,
                                          .filter = program.instructions};
        int status;
        pid_t child = fork();

        (void)state;
        assert_true(child >= 0);
        if (child == 0) {
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
                        _exit(1);
                if (getppid() < 0 || syscall(SYS_unshare, 0) != -1 || errno != EPERM)
                        _exit(2);
                if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS || syscall(SYS_sync) != 0)
                        _exit(3);
                if (socket(AF_NETLINK, SOCK_RAW, 0) != -1 || errno != EAFNOSUPPORT)
                        _exit(4);
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_instructions_say_what_the_tables_say),
                cmocka_unit_test(every_call_with_a_name_is_in_a_table),
                cmocka_unit_test(every_name_in_a_table_is_a_call),
                cmocka_unit_test(dangerous_calls_are_refused),
                cmocka_unit_test(arguments_decide),
                cmocka_unit_test(other_architectures_answer_enosys),
                cmocka_unit_test(watched_lacks_what_no_process_owns),
                cmocka_unit_test(init_may_wait_and_report),
                cmocka_unit_test(what_is_always_allowed_needs_no_arguments),
                cmocka_unit_test(a_call_named_twice_is_an_error),
                cmocka_unit_test(long_code_jumps_far),
                cmocka_unit_test(the_kernel_takes_it),
        };

        return cmocka_run_group_tests(tests, set_up, NULL);
}
