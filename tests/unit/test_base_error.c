#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void says_what_it_was_given(void **state)
{
        _cleanup_error_ struct sr_error *error = NULL;

        (void)state;
        assert_int_equal(sr_error_set(&error, SR_ERROR_IMAGE, ENOENT, "no image %s", "x"), -ENOENT);
        assert_string_equal(sr_error_message(error), "no image x");
        assert_int_equal(sr_error_get_kind(error), SR_ERROR_IMAGE);
        assert_int_equal(sr_error_get_errno(error), ENOENT);
}

static void each_level_adds_in_front(void **state)
{
        _cleanup_error_ struct sr_error *error = NULL;

        (void)state;

        int r = sr_error_set(&error, SR_ERROR_HOST, EACCES, "open: denied");

        r = sr_error_prefix(&error, r, "reading %s", "a%b");
        r = sr_error_prefix(&error, r, "starting");
        assert_int_equal(r, -EACCES);
        assert_string_equal(sr_error_message(error), "starting: reading a%b: open: denied");
        assert_int_equal(sr_error_get_kind(error), SR_ERROR_HOST);
}

static void a_caller_that_does_not_ask_gets_the_number_alone(void **state)
{
        struct sr_error *none = NULL;

        (void)state;
        assert_int_equal(sr_error_set(NULL, SR_ERROR_LIMIT, E2BIG, "too big"), -E2BIG);
        assert_int_equal(sr_error_prefix(NULL, -E2BIG, "reading"), -E2BIG);
        assert_int_equal(sr_error_prefix(&none, -E2BIG, "reading"), -E2BIG);
        assert_null(none);
}

static void a_failure_is_never_success(void **state)
{
        _cleanup_error_ struct sr_error *error = NULL;

        (void)state;
        assert_int_equal(sr_error_set(&error, SR_ERROR_INTERNAL, 0, "x"), -EIO);
        assert_int_equal(sr_error_get_errno(error), EIO);
        assert_int_equal(sr_error_set(NULL, SR_ERROR_INTERNAL, -5, "x"), -EIO);
}

static void a_new_error_may_quote_the_one_it_replaces(void **state)
{
        _cleanup_error_ struct sr_error *error = NULL;

        (void)state;
        sr_error_set(&error, SR_ERROR_HOST, EPERM, "first");
        sr_error_set(&error, SR_ERROR_IMAGE, EBUSY, "then (%s)", sr_error_message(error));
        assert_string_equal(sr_error_message(error), "then (first)");
        assert_int_equal(sr_error_get_errno(error), EBUSY);
}

static void null_is_no_error(void **state)
{
        (void)state;
        assert_string_equal(sr_error_message(NULL), "");
        assert_int_equal(sr_error_get_kind(NULL), SR_ERROR_INTERNAL);
        assert_int_equal(sr_error_get_errno(NULL), 0);
        assert_null(sr_error_free(NULL));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(says_what_it_was_given),
                cmocka_unit_test(each_level_adds_in_front),
                cmocka_unit_test(a_caller_that_does_not_ask_gets_the_number_alone),
                cmocka_unit_test(a_failure_is_never_success),
                cmocka_unit_test(a_new_error_may_quote_the_one_it_replaces),
                cmocka_unit_test(null_is_no_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
