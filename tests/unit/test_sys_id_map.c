// Reading the map files of a user namespace: which ids are there, and what they are outside.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "sys/id_map.h"

// The map `text` as a file; the answer for the ids.
static int find(const char *text, uint64_t id, uint64_t count, uint32_t *ret_outside)
{
        char path[] = "/tmp/sr-test-map-XXXXXX";
        _cleanup_close_ int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(sr_fd_write_all(fd, text, strlen(text)), 0);
        int r = sr_sys_id_map_find(path, id, count, ret_outside);
        unlink(path);
        return r;
}

static void ids_must_lie_in_one_extent(void **state)
{
        // As the kernel writes it, with padding; the second and third extents touch.
        static const char map[] = "         0       1000          1\n"
                                  "         1     100000      65535\n"
                                  "     65536     200000       1000\n";
        uint32_t outside = 7;

        (void)state;
        assert_int_equal(find(map, 0, 1, &outside), 0);
        assert_int_equal(outside, 1000);
        assert_int_equal(find(map, 1, 65535, &outside), 0);
        assert_int_equal(outside, 100000);
        assert_int_equal(find(map, 2000, 100, &outside), 0);
        assert_int_equal(outside, 101999);
        assert_int_equal(find(map, 66535, 1, &outside), 0);
        assert_int_equal(outside, 200999);
        outside = 7;
        assert_int_equal(find(map, 66536, 1, &outside), -ENOENT);
        assert_int_equal(find(map, 0, 2, &outside), -ENOENT);
        assert_int_equal(find(map, 65000, 1000, &outside), -ENOENT);
        assert_int_equal(find(map, 1, UINT64_MAX, &outside), -ENOENT);
        assert_int_equal(outside, 7);
}

static void the_whole_of_the_ids_is_mapped_on_the_host(void **state)
{
        static const char map[] = "         0          0 4294967295\n";
        uint32_t outside;

        (void)state;
        assert_int_equal(find(map, 2069692416, 65536, &outside), 0);
        assert_int_equal(outside, 2069692416);
        assert_int_equal(find(map, UINT32_MAX, 1, &outside), -ENOENT);
}

static void an_empty_map_and_no_map_are_told_apart(void **state)
{
        uint32_t outside;

        (void)state;
        assert_int_equal(find("", 0, 1, &outside), -ENOENT);
        assert_int_equal(find("nonsense\n0 1\n", 0, 1, &outside), -ENOENT);
        assert_int_equal(sr_sys_id_map_find("/no/such/file", 0, 1, &outside), -ENODATA);
        assert_int_equal(sr_sys_id_map_find("/proc/self/uid_map", geteuid(), 1, &outside), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(ids_must_lie_in_one_extent),
                cmocka_unit_test(the_whole_of_the_ids_is_mapped_on_the_host),
                cmocka_unit_test(an_empty_map_and_no_map_are_told_apart),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
