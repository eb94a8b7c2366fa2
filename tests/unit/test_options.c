// The command line's reader and what it prints for people.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cli/facts.h"
#include "cli/options.h"
#include "cli/text.h"

static const struct sr_option own[] = {
        {'l', "language", "LANG", "its language"},
        {'q', "quiet", NULL, "say nothing"},
        {256, "json", NULL, "print JSON"},
        {0},
};

static const struct sr_option shared[] = {
        {'h', "help", NULL, "show help"},
        {256, "set", "NAME=VALUE", "set it"},
        {0},
};

static const struct sr_option *const tables[] = {own, shared, NULL};

// The items as one text: "language=py quiet word:x end" or "error: …".
static char *read_all(char *const *arguments)
{
        struct sr_option_scan scan = {.next = arguments, .tables = tables};
        struct sr_buf out = {0};

        for (;;) {
                _cleanup_error_ struct sr_error *error = NULL;
                int item = sr_option_next(&scan, &error);

                if (item == SR_OPTION_END) {
                        sr_buf_append_text(&out, "end");
                        break;
                }
                if (item < 0) {
                        assert_int_equal(item, -EINVAL);
                        sr_buf_printf(&out, "error: %s", sr_error_message(error));
                        break;
                }
                if (item == SR_OPTION_WORD)
                        sr_buf_printf(&out, "%s:%s ", scan.after_dashes ? "rest" : "word", scan.value);
                else if (scan.value != NULL)
                        sr_buf_printf(&out, "%s=%s ", scan.option->name, scan.value);
                else
                        sr_buf_printf(&out, "%s ", scan.option->name);
        }
        return sr_buf_steal(&out, NULL);
}

#define assert_reads(expected, ...)                                                                          \
        do {                                                                                                 \
                static const char *const arguments_[] = {__VA_ARGS__ __VA_OPT__(, ) NULL};                   \
                _cleanup_strv_ char **copy_ = NULL;                                                          \
                static char *const none_[] = {NULL};                                                         \
                for (size_t i_ = 0; arguments_[i_] != NULL; i_++)                                            \
                        sr_strv_append(&copy_, sr_strdup(arguments_[i_]));                                   \
                _cleanup_free_ char *seen_ = read_all(copy_ != NULL ? copy_ : none_);                        \
                assert_string_equal(seen_, expected);                                                        \
        } while (0)

static void test_every_way_to_write_an_option(void **state)
{
        (void)state;
        assert_reads("end");
        assert_reads("language=py end", "-l", "py");
        assert_reads("language=py end", "-lpy");
        assert_reads("language=py end", "--language", "py");
        assert_reads("language=py end", "--language=py");
        assert_reads("language= end", "--language=");
        assert_reads("language= end", "-l", "");
        assert_reads("language=--json end", "-l", "--json");
        assert_reads("set=a=b end", "--set=a=b");
        assert_reads("quiet help language=x end", "-qhlx");
        assert_reads("quiet language=x json end", "-ql", "x", "--json");
}

static void test_words_may_stand_anywhere(void **state)
{
        (void)state;
        assert_reads("word:a json word:b end", "a", "--json", "b");
        assert_reads("word:- word: end", "-", "");
        assert_reads("word:a rest:--json rest:-- rest:-q end", "a", "--", "--json", "--", "-q");
        assert_reads("end", "--");
}

static void test_mistakes_name_the_argument(void **state)
{
        (void)state;
        assert_reads("error: there is no option --nope", "--nope=1");
        assert_reads("error: there is no option --jso", "--jso");
        assert_reads("error: there is no option -x", "-x");
        assert_reads("quiet error: there is no option -x", "-qx");
        assert_reads("error: option --language needs a value, LANG", "-l");
        assert_reads("error: option --set needs a value, NAME=VALUE", "--set");
        assert_reads("error: option --json takes no value", "--json=1");
        assert_reads("error: there is no option --", "--==");
}

static void test_integers_are_strict(void **state)
{
        static const char *const refused[] = {"", "-", "+5", "5s", " 5", "5 ", "0x5", "1e3", "5.0", "ten"};
        static const char *const outside[] = {"0", "31", "-1", "9223372036854775808",
                                              "99999999999999999999999"};
        int64_t value = 77;

        (void)state;
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL;

                assert_int_equal(sr_option_integer("--n", refused[i], 1, 30, &value, &error), -EINVAL);
                assert_non_null(strstr(sr_error_message(error), "--n"));
        }
        for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL;

                assert_int_equal(sr_option_integer("--n", outside[i], 1, 30, &value, &error), -ERANGE);
                assert_non_null(strstr(sr_error_message(error), "from 1 to 30"));
        }
        assert_int_equal(value, 77);
        assert_int_equal(sr_option_integer("--n", "30", 1, 30, &value, NULL), 0);
        assert_int_equal(value, 30);
        assert_int_equal(sr_option_integer("--n", "-0007", INT64_MIN, INT64_MAX, &value, NULL), 0);
        assert_int_equal(value, -7);
}

static void test_limits_are_those_of_the_tunables(void **state)
{
        static const struct {
                const char *tunable, *text;
                uint64_t value; // 0: refused
                const char *words;
        } cases[] = {
                {"run.memory", "256m", 256 << 20, NULL},
                {"run.memory", "1g", 1 << 30, NULL},
                {"run.memory", "1", 1, NULL}, // the runner refuses it
                {"run.memory", "0", 0, "--x must be at least 8 MiB, not 0"},
                {"run.memory", "", 0, "--x: \"\" is not a size"},
                {"run.cpus", "0.5", 500, NULL},
                {"run.cpus", "0.00", 0, "--x must be at least 0.01, not 0.00"},
                {"run.cpus", "-1", 0, "--x: \"-1\" is not a number of processors"},
                {"run.pids", "64", 64, NULL},
                {"run.pids", "1k", 0, "--x: \"1k\" is not a whole number"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_error_ struct sr_error *error = NULL;
                uint64_t value = 77;
                int r = sr_option_limit("--x", cases[i].tunable, cases[i].text, &value, &error);

                print_message("%s %s\n", cases[i].tunable, cases[i].text);
                assert_int_equal(r < 0, cases[i].value == 0);
                assert_int_equal(value, r < 0 ? 77 : cases[i].value);
                if (r < 0)
                        assert_non_null(strstr(sr_error_message(error), cases[i].words));
        }
}

static void test_facts_are_for_people(void **state)
{
        _cleanup_table_ struct sr_text_table table = {.columns = 2};
        _cleanup_buf_ struct sr_buf out = {0};

        (void)state;
        sr_facts_add(&table, "{\"reason\":\"memory_limit\",\"signal\":9,\"limits_hit\":[\"memory\",\"tmp\"],"
                             "\"limits\":{\"memory\":\"cgroup2\",\"cpu\":\"none\"},\"image\":null,"
                             "\"stdout_bytes\":1,\"cpu_ms\":12.345,\"peak_memory_bytes\":268435456,"
                             "\"later\":[{\"a\":1}],\"other\":\"\\u001b[2J\"}");
        sr_text_table_print(&table, &out);
        assert_string_equal(out.data, "ended by           memory_limit\n"
                                      "signal             9 (Killed)\n"
                                      "limits hit         memory, tmp\n"
                                      "limits held by     memory cgroup2, cpu none\n"
                                      "image              -\n"
                                      "written to stdout  1 byte\n"
                                      "processor time     12.35 ms\n"
                                      "peak memory        256 MiB\n"
                                      "later              {\"a\":1}\n"
                                      "other              \\x1b[2J\n");
}

static void test_help_has_every_option(void **state)
{
        _cleanup_buf_ struct sr_buf out = {0};

        (void)state;
        sr_option_describe(own, &out);
        assert_string_equal(out.data, "  -l, --language LANG        its language\n"
                                      "  -q, --quiet                say nothing\n"
                                      "      --json                 print JSON\n");
}

static void test_what_strangers_wrote_cannot_drive_the_terminal(void **state)
{
        static const char text[] = "a\x1b[2J\r\n\tb\0\x7f\xc2\x9b"
                                   "c\xff\xc3\xa9";
        _cleanup_buf_ struct sr_buf line = {0}, block = {0};

        (void)state;
        sr_text_append_line(&line, text, sizeof(text) - 1);
        assert_string_equal(line.data, "a\\x1b[2J\\r\\n\\tb\\x00\\x7f\\xc2\\x9bc\\xff\xc3\xa9");
        sr_text_append_block(&block, text, sizeof(text) - 1);
        assert_string_equal(block.data, "a\\x1b[2J\\r\n\tb\\x00\\x7f\\xc2\\x9bc\\xff\xc3\xa9");
}

static void test_columns_line_up(void **state)
{
        _cleanup_table_ struct sr_text_table table = {.columns = 3};
        _cleanup_buf_ struct sr_buf out = {0};

        (void)state;
        sr_text_table_add(&table, "ID");
        sr_text_table_add(&table, "NAME");
        sr_text_table_add(&table, "CODE");
        sr_text_table_addf(&table, "%d", 1234);
        sr_text_table_add(&table, NULL);
        sr_text_table_add(&table, "print(1)\nx");
        sr_text_table_add(&table, "5");
        sr_text_table_add(&table, "caf\xc3\xa9");
        sr_text_table_add(&table, "");
        sr_text_table_print(&table, &out);
        assert_string_equal(out.data, "ID    NAME  CODE\n"
                                      "1234  -     print(1)\\nx\n"
                                      "5     caf\xc3\xa9  -\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_way_to_write_an_option),
                cmocka_unit_test(test_words_may_stand_anywhere),
                cmocka_unit_test(test_mistakes_name_the_argument),
                cmocka_unit_test(test_integers_are_strict),
                cmocka_unit_test(test_limits_are_those_of_the_tunables),
                cmocka_unit_test(test_facts_are_for_people),
                cmocka_unit_test(test_help_has_every_option),
                cmocka_unit_test(test_what_strangers_wrote_cannot_drive_the_terminal),
                cmocka_unit_test(test_columns_line_up),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
