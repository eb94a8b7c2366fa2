// The plan is a pure function: what it must contain, and in which order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "sandbox/plan.h"

static struct sr_wire_stage largest = {
        .descriptors = SR_WIRE_HAS_STDIN | SR_WIRE_HAS_PROGRAM | SR_WIRE_HAS_DIRECTORY,
        .scratch = SR_WIRE_SCRATCH_WRITE,
        .in_scratch = 1,
        .tmp_bytes = UINT64_MAX,
        .tmp_inodes = UINT32_MAX,
        .open_files = UINT32_MAX,
        .file_bytes = UINT64_MAX,
        .processes = UINT32_MAX,
        .cpu_millis = UINT32_MAX,
};

static int position(const struct sr_step *steps, unsigned count, enum sr_step_kind kind)
{
        for (unsigned i = 0; i < count; i++)
                if (steps[i].kind == kind)
                        return (int)i;
        return -1;
}

static void the_largest_plan_fits(void **state)
{
        struct sr_plan plan;

        (void)state;
        sr_plan_build(&(struct sr_plan_input){.stage = &largest, .parent_id = UINT32_MAX}, &plan);
        assert_in_range(plan.init_count, 10, SR_PLAN_STEPS_MAX);
        assert_in_range(plan.snippet_count, 10, SR_PLAN_STEPS_MAX);
        assert_in_range(plan.text_used, 1, SR_PLAN_TEXT_MAX);
}

static void nothing_is_mounted_after_the_pivot(void **state)
{
        struct sr_plan plan;
        int pivot;

        (void)state;
        sr_plan_build(&(struct sr_plan_input){.stage = &largest}, &plan);
        pivot = position(plan.init, plan.init_count, SR_STEP_PIVOT);
        assert_int_equal(plan.init[0].kind, SR_STEP_ATTACH_ROOT);
        assert_true(pivot > 0);
        for (unsigned i = (unsigned)pivot + 1; i < plan.init_count; i++)
                assert_true(plan.init[i].kind == SR_STEP_HOST_NAME || plan.init[i].kind == SR_STEP_LOOPBACK);
        // A part of /proc can be covered only once /proc is there.
        assert_true(position(plan.init, plan.init_count, SR_STEP_PROC) <
                    position(plan.init, plan.init_count, SR_STEP_MASK));
        // What lies under a cover can be kept only before it is on.
        assert_true(position(plan.init, plan.init_count, SR_STEP_PROC) <
                    position(plan.init, plan.init_count, SR_STEP_SETTINGS));
        assert_true(position(plan.init, plan.init_count, SR_STEP_SETTINGS) <
                    position(plan.init, plan.init_count, SR_STEP_READ_ONLY));
}

static void privileges_go_before_the_filter_and_the_filter_before_exec(void **state)
{
        static const enum sr_step_kind order[] = {
                SR_STEP_SESSION,
                SR_STEP_IDS,
                SR_STEP_USER_NAMESPACE,
                SR_STEP_KEYRING,
                SR_STEP_NO_NAMESPACES,
                SR_STEP_CAPABILITIES,
                SR_STEP_NO_NEW_PRIVILEGES,
                SR_STEP_LANDLOCK,
                SR_STEP_CLOSE,
                SR_STEP_FILTER,
                SR_STEP_EXEC,
        };
        struct sr_plan plan;
        int last = -1;

        (void)state;
        sr_plan_build(&(struct sr_plan_input){.stage = &largest}, &plan);
        for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
                int at = position(plan.snippet, plan.snippet_count, order[i]);

                assert_true(at > last);
                last = at;
        }
        assert_int_equal(plan.snippet[plan.snippet_count - 1].kind, SR_STEP_EXEC);
        assert_int_equal(plan.snippet[plan.snippet_count - 2].kind, SR_STEP_FILTER);
}

static void the_second_wall_is_open_for_what_the_stage_has(void **state)
{
        struct sr_wire_stage stage = largest;
        struct sr_plan plan;

        (void)state;
        for (unsigned scratch = SR_WIRE_SCRATCH_NONE; scratch <= SR_WIRE_SCRATCH_WRITE; scratch++) {
                for (unsigned directory = 0; directory < 2; directory++) {
                        stage.scratch = scratch;
                        stage.descriptors = directory ? SR_WIRE_HAS_DIRECTORY : 0;
                        sr_plan_build(&(struct sr_plan_input){.stage = &stage}, &plan);

                        int at = position(plan.snippet, plan.snippet_count, SR_STEP_LANDLOCK);

                        assert_true(at >= 0);
                        assert_int_equal(plan.snippet[at].number, scratch == SR_WIRE_SCRATCH_WRITE);
                        assert_int_equal(plan.snippet[at].fd, directory ? SR_PLAN_FD_DIRECTORY : 0);
                }
        }
}

static void a_stage_without_scratch_does_not_mount_it(void **state)
{
        struct sr_wire_stage stage = largest;
        struct sr_plan plan;

        (void)state;
        stage.scratch = SR_WIRE_SCRATCH_NONE;
        stage.in_scratch = 0;
        stage.descriptors = 0;
        sr_plan_build(&(struct sr_plan_input){.stage = &stage}, &plan);
        assert_int_equal(position(plan.init, plan.init_count, SR_STEP_ATTACH_SCRATCH), -1);
        assert_string_equal(plan.snippet[position(plan.snippet, plan.snippet_count, SR_STEP_DIRECTORY)].path,
                            "/tmp");
        assert_int_equal(plan.snippet[plan.snippet_count - 1].fd, 0);
}

static void limits_of_the_request_reach_the_program(void **state)
{
        static const struct {
                unsigned resource;
                uint64_t value;
        } wanted[] = {{RLIMIT_NOFILE, 77}, {RLIMIT_FSIZE, 88}, {RLIMIT_NPROC, 99}, {RLIMIT_CORE, 1}};
        struct sr_wire_stage stage = largest;
        struct sr_plan plan;

        (void)state;
        stage.open_files = 77;
        stage.file_bytes = 88;
        stage.processes = 99;
        sr_plan_build(&(struct sr_plan_input){.stage = &stage, .parent_id = 1003}, &plan);
        for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
                int found = 0;

                for (unsigned s = 0; s < plan.snippet_count; s++)
                        found += plan.snippet[s].kind == SR_STEP_RLIMIT &&
                                 plan.snippet[s].number == wanted[i].resource &&
                                 plan.snippet[s].value == wanted[i].value;
                assert_int_equal(found, 1);
        }
        assert_string_equal(
                plan.snippet[position(plan.snippet, plan.snippet_count, SR_STEP_USER_NAMESPACE)].options,
                "1000 1003 1\n");
}

static void every_step_has_a_name(void **state)
{
        (void)state;
        for (unsigned kind = 0; kind < SR_STEP_COUNT; kind++)
                assert_string_not_equal(sr_step_name(kind), "an unknown step");
        assert_string_equal(sr_step_name(SR_STEP_COUNT), "an unknown step");
        assert_string_equal(sr_step_name(~0u), "an unknown step");
        assert_non_null(strstr(sr_step_advice(SR_STEP_START_NAMESPACES, 1), "doctor"));
        // Filters of containers answer ENOSYS: an old kernel is not the only cause.
        assert_non_null(strstr(sr_step_advice(SR_STEP_START_NAMESPACES, ENOSYS), "filter"));
        assert_non_null(strstr(sr_step_advice(SR_STEP_PIVOT, ENOSYS), "filter"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_largest_plan_fits),
                cmocka_unit_test(nothing_is_mounted_after_the_pivot),
                cmocka_unit_test(privileges_go_before_the_filter_and_the_filter_before_exec),
                cmocka_unit_test(the_second_wall_is_open_for_what_the_stage_has),
                cmocka_unit_test(a_stage_without_scratch_does_not_mount_it),
                cmocka_unit_test(limits_of_the_request_reach_the_program),
                cmocka_unit_test(every_step_has_a_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
