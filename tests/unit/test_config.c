// Configuration: where values come from, what they may be, what a refusal says.

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "config/config.h"
#include "config_world.h"

// The user's file, in ~/.config.
static char *put_user_file(struct fixture *f, const char *text)
{
        char *path = sr_asprintf("%s/.config/sandbox-runner/config.json", f->home);

        put_file(path, text);
        return path;
}

static struct sr_config *load(struct fixture *f)
{
        struct sr_config *config = NULL;
        _cleanup_error_ struct sr_error *error = NULL;
        int r = sr_config_load(&f->input, &config, &error);

        if (r < 0)
                print_error("%s\n", sr_error_message(error));
        assert_int_equal(r, 0);
        assert_null(error);
        return config;
}

// Loading fails, and the message holds each of the words (NULL-terminated).
static void expect_refusal(struct fixture *f, const char *const *words)
{
        struct sr_config *config = NULL;
        _cleanup_error_ struct sr_error *error = NULL;

        assert_true(sr_config_load(&f->input, &config, &error) < 0);
        assert_null(config);
        assert_int_equal(sr_error_get_kind(error), SR_ERROR_BAD_REQUEST);
        for (; *words != NULL; words++) {
                if (strstr(sr_error_message(error), *words) == NULL)
                        print_error("no \"%s\" in: %s\n", *words, sr_error_message(error));
                assert_non_null(strstr(sr_error_message(error), *words));
        }
}
#define expect_words(f, ...) expect_refusal(f, (const char *const[]){__VA_ARGS__, NULL})

static void assert_path(const char *found, const char *base, const char *rest)
{
        _cleanup_free_ char *wanted = sr_asprintf("%s%s", base, rest);

        assert_non_null(found);
        assert_string_equal(found, wanted);
}

static void test_defaults(void **state)
{
        struct fixture *f = *state;
        _cleanup_config_ struct sr_config *c = load(f);
        cpu_set_t set;

        assert_int_equal(c->default_timeout_s, 10);
        assert_int_equal(c->max_timeout_s, 30);
        assert_int_equal(c->max_code_bytes, 51200);
        assert_int_equal(c->run.timeout_us, 10000000);
        assert_int_equal(c->run.memory_bytes, 256 << 20);
        assert_int_equal(c->run.cpu_millis, 500);
        assert_int_equal(c->run.pids, 64);
        assert_int_equal(c->run.scratch_bytes, 64 << 20);
        assert_int_equal(c->run.tmp_bytes, 64 << 20);
        assert_int_equal(c->run.file_bytes, 1 << 30);
        assert_int_equal(c->max_memory_bytes, 4ll << 30);
        assert_int_equal(c->max_cpu_millis, 4000);
        assert_int_equal(c->max_pids, 1024);
        assert_false(c->strict_limits);
        assert_int_equal(c->run.open_files, 512);
        assert_int_equal(c->compile.timeout_us, 30000000);
        assert_int_equal(c->compile.memory_bytes, 512 << 20);
        assert_int_equal(c->compile.cpu_millis, 1000);
        assert_int_equal(c->compile.pids, 64);
        assert_int_equal(c->compile.scratch_bytes, 64 << 20);
        assert_int_equal(c->compile.tmp_bytes, 64 << 20);
        assert_int_equal(c->compile.file_bytes, 1 << 30);
        assert_int_equal(c->compile.open_files, 512);
        assert_int_equal(c->output_keep_bytes, 102400);
        assert_int_equal(c->output_kill_bytes, 16ll << 30);
        assert_int_equal(c->inodes, 16384);
        assert_int_equal(c->max_queue, 64);
        assert_int_equal(c->root_id_base, 2069692416);
        assert_true(c->history_enabled);
        assert_string_equal(c->log_level, "warning");
        assert_null(c->lower_store);

        assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
        assert_int_equal(c->slots, CPU_COUNT(&set));
        assert_path(c->store, f->home, "/.local/share/sandbox-runner/images");
        assert_path(c->database, f->home, "/.local/state/sandbox-runner/sandbox_history.db");
        assert_string_equal(c->recipes, "/usr/share/sandbox-runner/rootfs");
        assert_int_equal(sr_strv_length(c->catalogues), 3);
        assert_string_equal(c->catalogues[0], "/usr/share/sandbox-runner/images");
        assert_path(c->catalogues[1], f->system, "/languages");
        assert_path(c->catalogues[2], f->home, "/.config/sandbox-runner/languages");
}

static void assert_control_directories(struct fixture *f, const char *runtime_directory)
{
        _cleanup_config_ struct sr_config *c = load(f);
        _cleanup_free_ char *login = sr_asprintf("/run/user/%u/sandbox-runner", (unsigned)geteuid());
        _cleanup_free_ char *shared = sr_asprintf("/tmp/sandbox-runner-%u", (unsigned)geteuid());
        char *const *at = c->control_directories;

        if (runtime_directory != NULL)
                assert_string_equal(*at++, runtime_directory);
        if (geteuid() == 0)
                assert_string_equal(*at++, "/run/sandbox-runner");
        if (runtime_directory == NULL || strcmp(runtime_directory, login) != 0)
                assert_string_equal(*at++, login);
        assert_string_equal(*at++, shared);
        assert_null(*at);
}

static void test_control_directories(void **state)
{
        struct fixture *f = *state;

        assert_control_directories(f, NULL);
        add_variable(f, "XDG_RUNTIME_DIR=/somewhere");
        assert_control_directories(f, "/somewhere/sandbox-runner");
}

static void test_no_control_directory_twice(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *variable = sr_asprintf("XDG_RUNTIME_DIR=/run/user/%u", (unsigned)geteuid());
        _cleanup_free_ char *expected = sr_asprintf("/run/user/%u/sandbox-runner", (unsigned)geteuid());

        add_variable(f, variable);
        assert_control_directories(f, expected);
}

static void test_a_relative_runtime_directory_is_none(void **state)
{
        add_variable(*state, "XDG_RUNTIME_DIR=run");
        assert_control_directories(*state, NULL);
}

// Slots follow the processors this process may use, not those of the machine.
static void test_slots_follow_affinity(void **state)
{
        cpu_set_t before, one;

        assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
        CPU_ZERO(&one);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
                if (CPU_ISSET(cpu, &before)) {
                        CPU_SET(cpu, &one);
                        break;
                }
        }
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
        _cleanup_config_ struct sr_config *c = load(*state);

        assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
        assert_int_equal(c->slots, 1);
}

static void test_xdg_directories(void **state)
{
        struct fixture *f = *state;

        add_variable(f, "XDG_DATA_HOME=/data");
        add_variable(f, "XDG_STATE_HOME=relative/is/ignored");
        add_variable(f, "XDG_CONFIG_HOME=");
        _cleanup_config_ struct sr_config *c = load(f);

        assert_string_equal(c->store, "/data/sandbox-runner/images");
        assert_path(c->database, f->home, "/.local/state/sandbox-runner/sandbox_history.db");
        assert_path(c->catalogues[2], f->home, "/.config/sandbox-runner/languages");
}

static void test_checkout_and_prefix(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *program = sr_asprintf("%s/tree/build", f->root);
        _cleanup_free_ char *images = sr_asprintf("%s/tree/images/x.json", f->root);

        f->input.program_directory = program;
        put_file(images, "{}");
        _cleanup_config_ struct sr_config *c = load(f);

        assert_path(c->catalogues[0], f->root, "/tree/images");
        // No rootfs/ beside it: as installed.
        assert_path(c->recipes, f->root, "/tree/share/sandbox-runner/rootfs");
}

// Each source is stronger than the one before.
static void test_order_of_sources(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *system = sr_asprintf("%s/config.json", f->system);

        put_file(system,
                 "{\"run\": {\"pids\": 11, \"tmp\": \"1M\", \"memory\": \"11M\", \"open_files\": 100}}");
        free(put_user_file(f, "{\"run.pids\": 12, \"run\": {\"tmp\": 2097152, \"memory\": \"12M\"}}"));
        add_variable(f, "SANDBOX_RUNNER_RUN_PIDS=13");
        add_variable(f, "SANDBOX_RUNNER_RUN_TMP=3MiB");
        f->flags[0] = (char[]){"run.pids=14"};

        _cleanup_config_ struct sr_config *c = load(f);

        assert_int_equal(c->run.open_files, 100);
        assert_int_equal(c->run.memory_bytes, 12 << 20);
        assert_int_equal(c->run.tmp_bytes, 3 << 20);
        assert_int_equal(c->run.pids, 14);
}

static void test_named_file(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/other.json", f->root);
        _cleanup_free_ char *variable = sr_asprintf("SANDBOX_RUNNER_CONFIG=%s", path);

        put_file(path, "{\"run\": {\"pids\": 21}, \"images\": {\"store\": \"beside\"},"
                       " \"history\": {\"database\": \"~/h.db\", \"enabled\": false},"
                       " \"languages\": {\"directories\": [\"/a:b\", \"c\"]}}");
        free(put_user_file(f, "{\"run.pids\": 22, \"run.tmp\": \"9M\"}"));
        add_variable(f, variable);
        _cleanup_config_ struct sr_config *c = load(f);

        assert_int_equal(c->run.pids, 21);
        assert_int_equal(c->run.tmp_bytes, 64 << 20);
        assert_path(c->store, f->root, "/beside");
        assert_path(c->database, f->home, "/h.db");
        assert_false(c->history_enabled);
        assert_int_equal(sr_strv_length(c->catalogues), 2);
        assert_string_equal(c->catalogues[0], "/a:b");
        assert_path(c->catalogues[1], f->root, "/c");

        // A flag's file is stronger; a named file must exist.
        f->input.config_file = "/nowhere/config.json";
        expect_words(f, "/nowhere/config.json", "No such file");
}

static void test_units(void **state)
{
        struct fixture *f = *state;

        f->flags[0] = (char[]){"run.memory= 1.5G "};
        f->flags[1] = (char[]){"compile.timeout=1500ms"};
        f->flags[2] = (char[]){"run.cpus=1.25"};
        f->flags[3] = (char[]){"run.timeout=20s"};
        f->flags[4] = (char[]){"run.max_timeout=1min"};
        f->flags[5] = (char[]){"output.keep=4096"};
        f->flags[6] = (char[]){"log.level=DEBUG"};
        _cleanup_config_ struct sr_config *c = load(f);

        assert_int_equal(c->run.memory_bytes, UINT64_C(1536) << 20);
        assert_int_equal(c->compile.timeout_us, 1500000);
        assert_int_equal(c->run.cpu_millis, 1250);
        assert_int_equal(c->default_timeout_s, 20);
        assert_int_equal(c->run.timeout_us, 20000000);
        assert_int_equal(c->max_timeout_s, 60);
        assert_int_equal(c->output_keep_bytes, 4096);
        assert_string_equal(c->log_level, "debug");
}

static void test_relative_paths(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *here = getcwd(NULL, 0);

        add_variable(f, "SANDBOX_RUNNER_IMAGES_STORE=store");
        add_variable(f, "SANDBOX_RUNNER_HISTORY_DATABASE=~");
        add_variable(f, "SANDBOX_RUNNER_LANGUAGES_DIRECTORIES=/one::two:~/three");
        f->flags[0] = (char[]){"images.lower_store=/lower"};
        _cleanup_config_ struct sr_config *c = load(f);

        assert_path(c->store, here, "/store");
        assert_string_equal(c->database, f->home);
        assert_string_equal(c->lower_store, "/lower");
        assert_int_equal(sr_strv_length(c->catalogues), 3);
        assert_string_equal(c->catalogues[0], "/one");
        assert_path(c->catalogues[1], here, "/two");
        assert_path(c->catalogues[2], f->home, "/three");
}

static void test_refused_values(void **state)
{
        struct fixture *f = *state;
        static const struct {
                const char *flag, *word;
        } cases[] = {
                {"run.pids=0", "1 to 4194304"},
                {"run.pids=4194305", "1 to 4194304"},
                {"run.pids=-1", "not a whole number"},
                {"run.pids=99999999999999999999", "out of range"},
                {"run.pids=1.5", "not a whole number"},
                {"run.pids=", "not a whole number"},
                {"run.pids=1 2", "not a whole number"},
                {"run.memory=64MB", "not a size"},
                {"run.memory=1K", "8M to 64T"},
                {"run.memory=99999999999999999999T", "out of range"},
                {"run.memory=100000000000000000000000", "not a size"},
                {"run.memory=0x1000", "not a size"},
                {"run.timeout=1.5", "whole number of seconds"},
                {"run.timeout=0", "1s to 86400s"},
                {"run.timeout=1500ms", "whole number of seconds"},
                {"compile.timeout=50ms", "100ms to 86400s"},
                {"run.cpus=0.0005", "processors"},
                {"run.cpus=0.001", "0.01 to 1024"},
                {"run.cpus=nan", "processors"},
                {"run.cpus=1.", "processors"},
                {"history.enabled=perhaps", "true or false"},
                {"log.level=loud", "error, warning, info, debug"},
                {"log.level=", "error, warning, info, debug"},
                {"log.level=error, warning", "error, warning, info, debug"},
                {"images.store=", "empty path"},
                {"sandbox.root_id_base=65535", "65536 to 4294901758"},
                {"sandbox.root_id_base=4294901759", "65536 to 4294901758"},
                {"run.max_timeout", "NAME=VALUE"},
                {"run.nope=1", "--set: there is no setting"},
                {"run.pids=none", "--set run.pids: "},
                {"run.timeout=31", "run.max_timeout"},
                {"output.keep=64M", NULL},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *flag = sr_strdup(cases[i].flag);
                _cleanup_free_ char *name = sr_memdup0(flag, strcspn(flag, "="));

                f->flags[0] = flag;
                if (cases[i].word != NULL) {
                        print_message("%s\n", flag);
                        expect_words(f, name, cases[i].word);
                } else {
                        sr_config_free(load(f));
                }
        }
}

static void test_limits_of_ids(void **state)
{
        struct fixture *f = *state;

        f->flags[0] = (char[]){"sandbox.root_id_base=4294901758"};
        _cleanup_config_ struct sr_config *c = load(f);

        assert_true((uint64_t)c->root_id_base + 65536 <= UINT32_MAX - 1);
}

// A lower ceiling takes the default along; one that contradicts a value somebody gave is refused.
static void test_timeout_and_ceiling(void **state)
{
        struct fixture *f = *state;

        f->flags[0] = (char[]){"run.max_timeout=5"};
        _cleanup_config_ struct sr_config *c = load(f);

        assert_int_equal(c->default_timeout_s, 5);
        assert_int_equal(c->run.timeout_us, 5000000);
        f->flags[1] = (char[]){"run.timeout=6"};
        expect_words(f, "run.timeout (6s, from --set)", "run.max_timeout (5s, from --set)");
}

static void test_limits_and_ceilings(void **state)
{
        struct fixture *f = *state;
        static const struct {
                const char *ceiling, *over, *words[3];
        } cases[] = {
                {"run.max_memory=128M", "run.memory=129M", {"run.memory (129M", "run.max_memory (128M"}},
                {"run.max_cpus=0.25", "run.cpus=0.251", {"run.cpus (0.251", "run.max_cpus (0.25"}},
                {"run.max_pids=10", "run.pids=11", {"run.pids (11", "run.max_pids (10"}},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *ceiling = sr_strdup(cases[i].ceiling), *over = sr_strdup(cases[i].over);

                f->flags[0] = ceiling;
                f->flags[1] = over;
                expect_words(f, cases[i].words[0], cases[i].words[1], "lower the first or raise the second");
                f->flags[1] = NULL;

                _cleanup_config_ struct sr_config *c = load(f);

                assert_int_equal(c->run.memory_bytes, i == 0 ? 128 << 20 : 256 << 20);
                assert_int_equal(c->run.cpu_millis, i == 1 ? 250 : 500);
                assert_int_equal(c->run.pids, i == 2 ? 10 : 64);
                // The compile stage has a budget of its own.
                assert_int_equal(c->compile.memory_bytes, 512 << 20);
                assert_int_equal(c->compile.cpu_millis, 1000);
                assert_int_equal(c->compile.pids, 64);
        }
}

// What others write in the words of a tunable.
static void test_values_for_others(void **state)
{
        _cleanup_error_ struct sr_error *error = NULL;
        uint64_t number = 7, least, most;

        (void)state;
        assert_int_equal(sr_config_parse("run.memory", " 256m ", &number, NULL), 0);
        assert_int_equal(number, 256 << 20);
        assert_int_equal(sr_config_parse("run.memory", "1", &number, NULL), 0); // below its range
        assert_int_equal(number, 1);
        assert_int_equal(sr_config_parse("run.cpus", "0.5", &number, NULL), 0);
        assert_int_equal(number, 500);
        assert_int_equal(sr_config_parse("compile.timeout", "90", &number, NULL), 0);
        assert_int_equal(number, 90000000);
        assert_int_equal(sr_config_parse("run.pids", "-1", &number, &error), -EINVAL);
        assert_non_null(strstr(sr_error_message(error), "\"-1\" is not a whole number"));
        assert_int_equal(number, 90000000);
        sr_config_range("run.memory", &least, &most);
        assert_int_equal(least, 8 << 20);
        assert_int_equal(most, INT64_C(64) << 40);

        _cleanup_free_ char *size = sr_config_text("run.memory", 3 << 20),
                            *cpus = sr_config_text("run.cpus", 1250);

        assert_string_equal(size, "3M");
        assert_string_equal(cpus, "1.25");
}

static void test_environment_refusal_names_variable(void **state)
{
        struct fixture *f = *state;

        add_variable(f, "SANDBOX_RUNNER_RUN_MEMORY=lots");
        expect_words(f, "SANDBOX_RUNNER_RUN_MEMORY", "run.memory", "\"lots\"", "64MiB");
}

// Variables of other parts, empty ones and longer names that begin alike are left alone.
static void test_other_variables(void **state)
{
        struct fixture *f = *state;

        add_variable(f, "SANDBOX_RUNNER_URL=http://localhost");
        add_variable(f, "SANDBOX_RUNNER_TOKEN=secret");
        add_variable(f, "SANDBOX_RUNNER_RUN_PIDS=");
        add_variable(f, "SANDBOX_RUNNER_RUN_PIDS_EXTRA=x");
        add_variable(f, "SANDBOX_RUNNER_CONFIG=");
        _cleanup_config_ struct sr_config *c = load(f);

        assert_int_equal(c->run.pids, 64);
}

static void test_unknown_names(void **state)
{
        struct fixture *f = *state;
        static const struct {
                const char *name, *nearest;
        } cases[] = {
                {"run.timout", "run.timeout"},
                {"memory", "run.memory"},
                {"Run.Memory", "run.memory"},
                {"compile.time_out", "compile.timeout"},
                {"server.slot", "server.slots"},
                {"languages.directory", "languages.directories"},
                {"history.databse", "history.database"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *flag = sr_asprintf("%s=1", cases[i].name);
                _cleanup_free_ char *said = sr_asprintf("did you mean \"%s\"", cases[i].nearest);

                f->flags[0] = flag;
                expect_words(f, cases[i].name, said);
        }
        f->flags[0] = (char[]){"zzzzzzzz=1"};
        expect_words(f, "zzzzzzzz", "sandbox-runner config");
}

static void test_file_refusals(void **state)
{
        struct fixture *f = *state;
        static const struct {
                const char *text, *word;
        } cases[] = {
                {"{\"run\": 5}", "\"run\" must hold a JSON object"},
                {"{\"run\": {\"timout\": 10}}", "run.timeout"},
                {"{\"rnu\": {\"timeout\": 10}}", "run.timeout"},
                {"{\"run\": {\"timeout\": true}}", "run.timeout: the value must be a number or a string"},
                {"{\"run\": {\"timeout\": null}}", "must be a number"},
                {"{\"run\": {\"timeout\": -3}}", "\"-3\""},
                {"{\"run\": {\"timeout\": 1e300}}", "run.timeout"},
                {"{\"run\": {\"timeout\": {\"a\": 1}}}", "must be a number"},
                {"{\"images\": {\"store\": 7}}", "must be a string"},
                {"{\"images\": {\"store\": \"/a\\u0000b\"}}", "NUL"},
                {"{\"languages\": {\"directories\": [1]}}", "each element"},
                {"{\"history\": {\"enabled\": 1}}", "true or false"},
                {"{\"run.pids\": 1, \"run\": {\"pids\": 2}}", "given twice"},
                {"[]", "JSON object"},
                {"", "config.json"},
                {"{", "config.json"},
                {"{\"run\": {\"pids\": [[[[1]]]]}}", "config.json"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *path = put_user_file(f, cases[i].text);

                print_message("%s\n", cases[i].text);
                expect_words(f, path, cases[i].word);
        }
}

static void test_unreadable_file(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *path = sr_asprintf("%s/.config/sandbox-runner/config.json", f->home);
        _cleanup_free_ char *below = sr_asprintf("%s/x", path);

        put_file(below, "");
        expect_words(f, path, "Is a directory");

        // A file where a directory would be: there is no configuration file.
        _cleanup_free_ char *system = sr_asprintf("%s/s", f->root);

        put_file(system, "");
        f->input.system_directory = system;
        f->environment[f->variables++] = sr_asprintf("XDG_CONFIG_HOME=%s", system);
        sr_config_free(load(f));
}

static void test_oversized_file(void **state)
{
        struct fixture *f = *state;
        size_t size = 1024 * 1024 + 2;
        _cleanup_free_ char *text = sr_calloc(size, 1);

        memset(text, ' ', size - 1);
        _cleanup_free_ char *path = put_user_file(f, text);

        expect_words(f, path, "1 MiB");
}

// Without HOME the password database is asked; this user is in it or the message says what to set.
static void test_no_home(void **state)
{
        struct fixture *f = *state;
        struct sr_config *config = NULL;
        _cleanup_error_ struct sr_error *error = NULL;

        free(f->environment[0]);
        f->environment[0] = sr_strdup("HOME=relative");
        if (sr_config_load(&f->input, &config, &error) == 0) {
                assert_int_equal(config->store[0], '/');
                assert_null(strstr(config->store, "relative"));
        } else {
                assert_non_null(strstr(sr_error_message(error), "set HOME, XDG_DATA_HOME or"));
        }
        sr_config_free(config);
}

// cmocka's assertions do not belong in a child: this one reports and ends it.
#define CHECK(condition)                                                                                     \
        do {                                                                                                 \
                if (!(condition)) {                                                                          \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
                        _exit(1);                                                                            \
                }                                                                                            \
        } while (0)

// Makes this process a user that has no entry in the password database: as root simply, else by a name of its
// own for itself.
static bool become_stranger(void)
{
        static const char map[] = "3456789 %u 1";
        unsigned self = getuid();

        if (self == 0)
                return setreuid(3456789, 0) == 0;
        if (unshare(CLONE_NEWUSER) < 0)
                return false;

        _cleanup_close_ int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);

        return fd >= 0 && dprintf(fd, map, self) > 0 && getuid() == 3456789;
}

static void check_refusal(struct fixture *f, const char *const *words)
{
        struct sr_config *config = NULL;
        _cleanup_error_ struct sr_error *error = NULL;

        CHECK(sr_config_load(&f->input, &config, &error) < 0);
        for (; *words != NULL; words++) {
                fprintf(stderr, "%s\n", sr_error_message(error));
                CHECK(strstr(sr_error_message(error), *words) != NULL);
        }
}
#define check_words(f, ...) check_refusal(f, (const char *const[]){__VA_ARGS__, NULL})

static void without_home(struct fixture *f)
{
        struct sr_config *c = NULL;

        f->environment[0] = (char[]){"UNRELATED=1"};
        check_words(f, "images.store", "user 3456789",
                    "set HOME, XDG_DATA_HOME or SANDBOX_RUNNER_IMAGES_STORE");
        f->environment[1] = (char[]){"XDG_DATA_HOME=/data"};
        check_words(f, "history.database", "XDG_STATE_HOME or SANDBOX_RUNNER_HISTORY_DATABASE");
        f->flags[0] = (char[]){"history.enabled=no"};
        CHECK(sr_config_load(&f->input, &c, NULL) == 0);
        CHECK(c->database == NULL);
        CHECK(strcmp(c->store, "/data/sandbox-runner/images") == 0);
        CHECK(sr_strv_length(c->catalogues) == 2);
        sr_config_free(c);
        f->flags[1] = (char[]){"images.store=~/x"};
        check_words(f, "images.store", "set HOME");
}

static void test_no_home_at_all(void **state)
{
        int status = -1;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
                if (!become_stranger())
                        _exit(77);
                without_home(*state);
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
                print_message(
                        "needs root or user namespaces, to become a user without an entry in the password "
                        "database\n");
                skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_describe_text(void **state)
{
        struct fixture *f = *state;
        _cleanup_buf_ struct sr_buf out = {0};

        add_variable(f, "SANDBOX_RUNNER_RUN_MEMORY=128MiB");
        _cleanup_config_ struct sr_config *c = load(f);

        sr_config_describe(c, false, &out);
        assert_int_equal(strncmp(out.data, "NAME ", 5), 0);
        assert_non_null(strstr(out.data, "environment SANDBOX_RUNNER_RUN_MEMORY"));

        const char *memory = strstr(out.data, "\nrun.memory ");
        const char *cpus = strstr(out.data, "\nrun.cpus ");
        // Aligned: the value stands at the same place of each line.
        const char *value = strstr(memory, "128M ");

        assert_int_equal(value - memory, strstr(cpus, "0.5 ") - cpus);
        assert_int_equal(strstr(out.data, "VALUE") - out.data, value - memory - 1);
}

static const cJSON *row(const cJSON *list, const char *name)
{
        const cJSON *entry;

        cJSON_ArrayForEach(entry, list)
        {
                if (strcmp(cJSON_GetObjectItem(entry, "name")->valuestring, name) == 0)
                        return entry;
        }
        fail_msg("no row %s", name);
        return NULL;
}

// What the listing says can be written into a file as it is.
static void test_describe_json(void **state)
{
        struct fixture *f = *state;
        _cleanup_buf_ struct sr_buf out = {0}, file = {0}, again = {0};
        _cleanup_json_ cJSON *list = NULL;
        const cJSON *entry;

        add_variable(f, "SANDBOX_RUNNER_RUN_MEMORY=128MiB");
        f->flags[0] = (char[]){"compile.timeout=1500ms"};
        f->flags[1] = (char[]){"run.cpus=0.25"};
        struct sr_config *c = load(f);

        sr_config_describe(c, true, &out);
        sr_config_free(c);
        assert_int_equal(sr_json_parse(out.data, out.len, 8, &list, NULL), 0);
        assert_int_equal(cJSON_GetArraySize(list), 35);

        entry = row(list, "run.memory");
        assert_int_equal(cJSON_GetObjectItem(entry, "value")->valuedouble, 128 << 20);
        assert_int_equal(cJSON_GetObjectItem(entry, "default")->valuedouble, 256 << 20);
        assert_string_equal(cJSON_GetObjectItem(entry, "unit")->valuestring, "bytes");
        assert_string_equal(cJSON_GetObjectItem(entry, "source")->valuestring,
                            "environment SANDBOX_RUNNER_RUN_MEMORY");
        assert_string_equal(cJSON_GetObjectItem(entry, "variable")->valuestring, "SANDBOX_RUNNER_RUN_MEMORY");
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(row(list, "images.lower_store"), "value")));
        assert_true(cJSON_IsArray(cJSON_GetObjectItem(row(list, "languages.directories"), "value")));
        assert_string_equal(cJSON_GetObjectItem(row(list, "run.cpus"), "source")->valuestring, "flag");

        struct sr_json_writer w = {.out = &file, .first = true};

        sr_json_open_object(&w, NULL);
        cJSON_ArrayForEach(entry, list)
        {
                _cleanup_free_ char *value = cJSON_PrintUnformatted(cJSON_GetObjectItem(entry, "value"));

                if (strcmp(value, "null") != 0)
                        sr_json_raw(&w, cJSON_GetObjectItem(entry, "name")->valuestring, value);
        }
        sr_json_close_object(&w);
        free(put_user_file(f, file.data));
        f->flags[0] = NULL;
        free(f->environment[--f->variables]);
        f->environment[f->variables] = NULL;
        c = load(f);
        assert_int_equal(c->run.memory_bytes, 128 << 20);
        assert_int_equal(c->compile.timeout_us, 1500000);
        assert_int_equal(c->run.cpu_millis, 250);
        assert_int_equal(c->root_id_base, 2069692416);
        sr_config_describe(c, false, &again);
        sr_config_free(c);
        // All from the file but the lower store, which is none.
        const char *left = strstr(again.data, "  default  ");

        assert_non_null(left);
        assert_null(strstr(left + 1, "  default  "));
}

static void test_program_directory(void **state)
{
        (void)state;
        _cleanup_free_ char *directory = sr_config_program_directory();
        _cleanup_free_ char *link = sr_calloc(4096, 1);

        assert_true(readlink("/proc/self/exe", link, 4095) > 0);
        assert_non_null(directory);
        assert_int_equal(strncmp(link, directory, strlen(directory)), 0);
        assert_int_equal(strrchr(link, '/') - link, strlen(directory));
}

static void test_find_helper(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *bin = sr_asprintf("%s/bin", f->root);
        _cleanup_free_ char *beside = sr_asprintf("%s/bin/helper", f->root);
        _cleanup_free_ char *libexec = sr_asprintf("%s/libexec/sandbox-runner/helper", f->root);
        _cleanup_free_ char *found = NULL;
        _cleanup_error_ struct sr_error *error = NULL;

        assert_int_equal(sr_config_find_helper(bin, "helper", &found, &error), -ENOENT);
        assert_null(found);
        assert_non_null(strstr(sr_error_message(error), beside));
        assert_non_null(strstr(sr_error_message(error), libexec));

        put_file(libexec, "");
        assert_int_equal(sr_config_find_helper(bin, "helper", &found, NULL), 0);
        assert_string_equal(found, libexec);
        free(sr_steal(found));

        put_file(beside, "");
        assert_int_equal(sr_config_find_helper(bin, "helper", &found, NULL), 0);
        assert_string_equal(found, beside);
        free(sr_steal(found));

        // Not a program: looked past.
        assert_int_equal(chmod(beside, 0644), 0);
        assert_int_equal(sr_config_find_helper(bin, "helper", &found, NULL), 0);
        assert_string_equal(found, libexec);
        assert_int_equal(sr_config_find_helper(NULL, "helper", &found, NULL), -ENOENT);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                CASE(test_defaults),
                CASE(test_control_directories),
                CASE(test_no_control_directory_twice),
                CASE(test_a_relative_runtime_directory_is_none),
                CASE(test_slots_follow_affinity),
                CASE(test_xdg_directories),
                CASE(test_checkout_and_prefix),
                CASE(test_order_of_sources),
                CASE(test_named_file),
                CASE(test_units),
                CASE(test_relative_paths),
                CASE(test_refused_values),
                CASE(test_limits_of_ids),
                CASE(test_timeout_and_ceiling),
                CASE(test_limits_and_ceilings),
                CASE(test_values_for_others),
                CASE(test_environment_refusal_names_variable),
                CASE(test_other_variables),
                CASE(test_unknown_names),
                CASE(test_file_refusals),
                CASE(test_unreadable_file),
                CASE(test_oversized_file),
                CASE(test_no_home),
                CASE(test_no_home_at_all),
                CASE(test_describe_text),
                CASE(test_describe_json),
                CASE(test_program_directory),
                CASE(test_find_helper),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
