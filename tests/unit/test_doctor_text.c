// `doctor`: how its report is wrapped for a screen, and words for the shell.

#include "doctor_host.h"

static void expect_wrapped(const char *text, size_t indent, size_t width, bool command, const char *wanted)
{
        _cleanup_buf_ struct sr_buf out = {0};

        doctor_wrap(&out, text, indent, width, command);
        if (strcmp(out.data != NULL ? out.data : "", wanted) != 0)
                fail_msg("\"%s\", not \"%s\"", out.data, wanted);
}

static void words_are_wrapped_with_a_hanging_indent(void **state)
{
        (void)state;
        expect_wrapped("one two three four five six seven", 2, 0, false, "one two three four five six seven");
        expect_wrapped("one two three four five six seven", 2, 26, false,
                       "one two three four five\n  six seven");
        // The last column is used, and one more is too many.
        expect_wrapped("one two three four five six", 2, 29, false, "one two three four five six");
        expect_wrapped("one two three four five six", 2, 28, false, "one two three four five\n  six");
        // Characters count, not bytes.
        expect_wrapped("ööö äää üüüüü öööö äääö üüü", 2, 29, false, "ööö äää üüüüü öööö äääö üüü");
        // Narrower than the least there is room for; a word is never cut.
        expect_wrapped("a/very/long/path/which/is/one/word and more", 4, 10, false,
                       "a/very/long/path/which/is/one/word\n    and more");
        expect_wrapped("", 4, 80, false, "");
        // What strangers wrote does not drive the terminal.
        expect_wrapped("a\x1b[2J b", 0, 80, false, "a\\x1b[2J b");
}

static void a_wrapped_command_is_still_one(void **state)
{
        (void)state;
        expect_wrapped("sudo tee -a /etc/file && sudo sysctl --system", 2, 30, true,
                       "sudo tee -a /etc/file && \\\n  sudo sysctl --system");
        // Room is kept for the backslash, but for none after the last word.
        expect_wrapped("aaaaaaaaaa bbbbbbbbbb ccc", 0, 25, true, "aaaaaaaaaa bbbbbbbbbb ccc");
        expect_wrapped("aaaaaaaaaa bbbbbbbbbb cc d", 0, 25, true, "aaaaaaaaaa bbbbbbbbbb \\\ncc d");
        // Quotes and comments are not broken.
        expect_wrapped("printf '%s\\n' 'include <tunables/global> and more' | tee x", 0, 30, true,
                       "printf '%s\\n' \\\n'include <tunables/global> and more' \\\n| tee x");
        expect_wrapped("mount \"$(findmnt -n -o TARGET -T /usr/bin)\"", 0, 30, true,
                       "mount \\\n\"$(findmnt -n -o TARGET -T /usr/bin)\"");
        expect_wrapped("systemctl restart user@1000.service   # ends all of its sessions", 0, 40, true,
                       "systemctl restart user@1000.service \\\n# ends all of its sessions");
        expect_wrapped("on the container's host: echo a | sudo tee", 0, 28, true,
                       "on the container's host: \\\necho a | sudo tee");
}

static void words_for_the_shell(void **state)
{
        static const struct {
                const char *text, *word;
        } cases[] = {
                {"build/sandbox-runner", "build/sandbox-runner"},
                {"/opt/a b/sandbox-runner", "'/opt/a b/sandbox-runner'"},
                {"it's", "'it'\\''s'"},
                {"$(x)", "'$(x)'"},
                {"~x", "'~x'"},
                {"", "''"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *word = doctor_quote(cases[i].text);

                assert_string_equal(word, cases[i].word);
        }
}

static void a_command_is_told_from_words(void **state)
{
        struct doctor_finding finding = {0};

        (void)state;
        doctor_fix(&finding, "first");
        doctor_advise(&finding, "second");
        doctor_fix(&finding, "third");
        doctor_advise(&finding, "fourth");
        assert_string_equal(finding.fix, "first\nsecond\nthird\nfourth");
        assert_int_equal(finding.words, 2 | 8);
        doctor_finding_clear(&finding);
        assert_int_equal(finding.words, 0);
}

static void each_thing_found_has_a_line(void **state)
{
        static const struct doctor_check checks[] = {{.title = "a"}, {.title = "bbb"}};
        static const char *const names[] = {
                [DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_ERROR] = "error"};
        struct doctor_finding findings[2] = {{0}};
        _cleanup_buf_ struct sr_buf out = {0};

        (void)state;
        doctor_found(&findings[0], DOCTOR_OK, "fine");
        doctor_found(&findings[1], DOCTOR_WARNING, "one\ntwo is longer than there is room for here");
        doctor_fix(&findings[1], "command of several words which goes on");
        doctor_advise(&findings[1], "words which are many and which go on as well");
        doctor_write_text(checks, findings, 2, names, 44, &out);
        assert_string_equal(out.data, "ok       a    fine\n"
                                      "warning  bbb  one\n"
                                      "              two is longer than there is\n"
                                      "              room for here\n"
                                      "              → command of several words \\\n"
                                      "                which goes on\n"
                                      "              or words which are many and\n"
                                      "                 which go on as well\n");
        for (size_t i = 0; i < 2; i++)
                doctor_finding_clear(&findings[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(words_are_wrapped_with_a_hanging_indent),
                cmocka_unit_test(a_wrapped_command_is_still_one),
                cmocka_unit_test(words_for_the_shell),
                cmocka_unit_test(a_command_is_told_from_words),
                cmocka_unit_test(each_thing_found_has_a_line),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
