// The language catalogue: what a file may hold, how files and directories combine, how languages are found.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "language/language.h"

#define PYTHON                                                                                               \
        "{\"description\": \"Python 3.12\", \"image\": \"python:3.12-slim\", \"fallback_images\": "          \
        "[\"a/b:1\"],"                                                                                       \
        " \"recipe\": \"python\", \"aliases\": [\"py\", \"python3\"], \"extensions\": [\".py\"],"            \
        " \"source\": \"snippet.py\", \"run\": [\"python\", \"/scratch/snippet.py\"],"                       \
        " \"environment\": {\"PYTHONUNBUFFERED\": \"1\", \"EMPTY\": \"\"}}"
// The least a file needs; the caller adds members.
#define LEAST(more)                                                                                          \
        "{\"description\": \"D\", \"image\": \"i\", \"extensions\": [], \"source\": \"s\", \"run\": "        \
        "[\"r\"]" more "}"

struct fixture {
        char *root;
        char *directories[4];
        struct sr_language_catalogue *catalogue;
};

static int setup(void **state)
{
        struct fixture *f = sr_new(struct fixture);
        char template[] = "/tmp/sr-language-XXXXXX";

        f->root = sr_strdup(mkdtemp(template));
        f->directories[0] = sr_asprintf("%s/one", f->root);
        f->directories[1] = sr_asprintf("%s/two", f->root);
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *command = sr_asprintf("chmod -R u+rwX '%s' && rm -rf '%s'", f->root, f->root);

        sr_language_free(f->catalogue);
        assert_int_equal(system(command), 0);
        for (size_t i = 0; i < 4; i++)
                free(f->directories[i]);
        free(f->root);
        free(f);
        return 0;
}

static void put_bytes(struct fixture *f, const char *name, const char *text, size_t length)
{
        _cleanup_free_ char *path = sr_asprintf("%s/%s", f->root, name);
        _cleanup_free_ char *directory = sr_memdup0(path, (size_t)(strrchr(path, '/') - path));

        assert_int_equal(sr_fd_make_directories(directory, 0755), 0);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(sr_fd_write_all(fd, text, length), 0);
}

static void put(struct fixture *f, const char *name, const char *text)
{
        put_bytes(f, name, text, strlen(text));
}

static const struct sr_language_catalogue *load(struct fixture *f)
{
        struct sr_error *error = NULL;

        f->catalogue = sr_language_free(f->catalogue);
        assert_int_equal(sr_language_load(f->directories, &f->catalogue, &error), 0);
        return f->catalogue;
}

// Exactly one problem, about the file of that name, with those words in its reason.
static void expect_problem(struct fixture *f, const char *name, const char *words)
{
        const struct sr_language_catalogue *c = load(f);
        _cleanup_free_ char *path = sr_asprintf("%s/%s", f->root, name);

        for (size_t i = 0; i < sr_language_problem_count(c); i++)
                print_message("%s: %s\n", sr_language_problem_at(c, i)->path,
                              sr_language_problem_at(c, i)->reason);
        assert_int_equal(sr_language_problem_count(c), 1);
        assert_string_equal(sr_language_problem_at(c, 0)->path, path);
        assert_non_null(strstr(sr_language_problem_at(c, 0)->reason, words));
}

static void assert_list(char *const *list, ...)
{
        va_list arguments;
        const char *wanted;

        assert_non_null(list);
        va_start(arguments, list);
        while ((wanted = va_arg(arguments, const char *)) != NULL) {
                assert_non_null(*list);
                assert_string_equal(*list++, wanted);
        }
        va_end(arguments);
        assert_null(*list);
}

static void test_reads_every_member(void **state)
{
        struct fixture *f = *state;

        put(f, "one/python.json", PYTHON);
        put(f, "one/cpp.json", LEAST(", \"compile\": [\"g++\", \"\", \"-O2\"]"));

        const struct sr_language_catalogue *c = load(f);

        assert_int_equal(sr_language_problem_count(c), 0);
        assert_int_equal(sr_language_count(c), 2);

        const struct sr_language *cpp = sr_language_at(c, 0), *python = sr_language_at(c, 1);

        assert_string_equal(python->name, "python");
        assert_string_equal(python->description, "Python 3.12");
        assert_string_equal(python->image, "python:3.12-slim");
        assert_list(python->fallback_images, "a/b:1", NULL);
        assert_string_equal(python->recipe, "python");
        assert_list(python->aliases, "py", "python3", NULL);
        assert_list(python->extensions, ".py", NULL);
        assert_string_equal(python->source, "snippet.py");
        assert_null(python->compile);
        assert_list(python->run, "python", "/scratch/snippet.py", NULL);
        assert_list(python->environment, "PYTHONUNBUFFERED=1", "EMPTY=", NULL);
        assert_non_null(strstr(python->path, "/one/python.json"));

        assert_string_equal(cpp->name, "cpp");
        assert_list(cpp->compile, "g++", "", "-O2", NULL);
        assert_list(cpp->extensions, NULL);
        assert_null(cpp->fallback_images);
        assert_null(cpp->recipe);
        assert_null(cpp->aliases);
        assert_null(cpp->environment);
}

static void test_reads_limits(void **state)
{
        struct fixture *f = *state;

        put(f, "one/go.json",
            LEAST(", \"compile\": [\"go\"], \"limits\": {\"compile\": {\"memory\": \"1g\", \"timeout\": 90.5,"
                  " \"cpus\": \"2\"}, \"run\": {\"memory\": 536870912, \"cpus\": 0.25, \"pids\": 256, "
                  "\"scratch\":"
                  " \"128M\", \"tmp\": \"1M\", \"file_size\": \"2M\", \"open_files\": 99}}"));
        put(f, "one/plain.json", LEAST(", \"limits\": {}"));

        const struct sr_language_catalogue *c = load(f);

        assert_int_equal(sr_language_problem_count(c), 0);

        const struct sr_language *go = sr_language_find(c, "go"), *plain = sr_language_find(c, "plain");

        assert_int_equal(go->compile_limits.memory_bytes, 1 << 30);
        assert_int_equal(go->compile_limits.timeout_us, 90500000);
        assert_int_equal(go->compile_limits.cpu_millis, 2000);
        assert_int_equal(go->compile_limits.pids, 0);
        assert_int_equal(go->run_limits.memory_bytes, 512 << 20);
        assert_int_equal(go->run_limits.cpu_millis, 250);
        assert_int_equal(go->run_limits.pids, 256);
        assert_int_equal(go->run_limits.scratch_bytes, 128 << 20);
        assert_int_equal(go->run_limits.tmp_bytes, 1 << 20);
        assert_int_equal(go->run_limits.file_bytes, 2 << 20);
        assert_int_equal(go->run_limits.open_files, 99);
        assert_int_equal(go->run_limits.timeout_us, 0);
        assert_int_equal(plain->run_limits.memory_bytes, 0);
}

static void test_find(void **state)
{
        struct fixture *f = *state;

        put(f, "one/python.json", PYTHON);
        put(f, "one/c++.json", LEAST(", \"aliases\": [\"c#\"]"));

        const struct sr_language_catalogue *c = load(f);
        const struct sr_language *python = sr_language_find(c, "python");

        assert_non_null(python);
        assert_string_equal(python->name, "python");
        assert_ptr_equal(sr_language_find(c, " \t\nPyThOn \r\n"), python);
        assert_ptr_equal(sr_language_find(c, "PY"), python);
        assert_string_equal(sr_language_find(c, "C#")->name, "c++");
        assert_null(sr_language_find(c, "pyth"));
        assert_null(sr_language_find(c, ""));
        assert_null(sr_language_find(c, "py thon"));

        _cleanup_free_ char *normal = sr_language_normalise("  C++ ");

        assert_string_equal(normal, "c++");
}

static void test_find_by_path(void **state)
{
        struct fixture *f = *state;

        put(f, "one/python.json", PYTHON);
        put(f, "one/c.json",
            "{\"description\": \"D\", \"image\": \"i\", \"extensions\": [\".c\"],"
            " \"source\": \"s\", \"run\": [\"r\"]}");
        put(f, "one/cpp.json",
            "{\"description\": \"D\", \"image\": \"i\", \"extensions\": [\".C\", \".x.py\"],"
            " \"source\": \"s\", \"run\": [\"r\"]}");

        const struct sr_language_catalogue *c = load(f);
        static const struct {
                const char *path, *name;
        } cases[] = {
                {"a.py", "python"},   {"/x.c/a.py", "python"}, {"a.b.py", "python"}, {"A.PY", "python"},
                {"a.c", "c"},         {"a.C", "cpp"},          {"a.x.py", "cpp"},    {".hidden.py", "python"},
                {"..py", NULL},       {".py", NULL},           {"dir/.py", NULL},    {"py", NULL},
                {"a.pyc", NULL},      {"a.py/", NULL},         {"a.", NULL},         {"", NULL},
                {"x.py/plain", NULL},
        };

        assert_int_equal(sr_language_problem_count(c), 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct sr_language *found = sr_language_find_by_path(c, cases[i].path);

                print_message("%s\n", cases[i].path);
                if (cases[i].name == NULL)
                        assert_null(found);
                else
                        assert_string_equal(found->name, cases[i].name);
        }
}

// Each fault is named, and the language beside it is there all the same.
static void test_faults(void **state)
{
        struct fixture *f = *state;
        static const struct {
                const char *text, *words;
        } cases[] = {
                {LEAST(", \"iamge\": 1"), "unknown member \"iamge\": there are description, image"},
                {LEAST(", \"description\": \"again\""), "\"description\" is given twice"},
                {LEAST(", \"aliases\": \"x\""), "\"aliases\" must be an array"},
                {LEAST(", \"aliases\": [\"Upper\"]"), "element 1 of \"aliases\" is \"Upper\""},
                {LEAST(", \"aliases\": [\"a\", \"-b\"]"), "element 2 of \"aliases\" is \"-b\""},
                {LEAST(", \"aliases\": [\"\"]"), "element 1 of \"aliases\" is \"\""},
                {LEAST(", \"aliases\": [\"a\", \"a\"]"), "is there already"},
                {LEAST(", \"aliases\": [\"x\", \"broken\"]"), "the language's own name"},
                {LEAST(", \"aliases\": [3]"), "element 1 of \"aliases\" must be a string"},
                {LEAST(", \"fallback_images\": [\"a b\"]"), "image reference"},
                {LEAST(", \"fallback_images\": [\"\"]"), "image reference"},
                {LEAST(", \"recipe\": \"../x\""), "plain name"},
                {LEAST(", \"recipe\": \"..\""), "plain name"},
                {LEAST(", \"recipe\": null"), "\"recipe\" must be a string"},
                {LEAST(", \"compile\": []"), "\"compile\" must begin with the program"},
                {LEAST(", \"compile\": [\"\", \"x\"]"), "\"compile\" must begin with the program"},
                {LEAST(", \"compile\": [\"g++\", 7]"), "element 2 of \"compile\" must be a string"},
                {LEAST(", \"compile\": [\"g++\", \"a\\u0000b\"]"), "NUL"},
                {LEAST(", \"environment\": []"), "\"environment\" must be an object"},
                {LEAST(", \"environment\": {\"A=B\": \"x\"}"), "no name of a variable"},
                {LEAST(", \"environment\": {\"\": \"x\"}"), "no name of a variable"},
                {LEAST(", \"environment\": {\"A\": 1}"), "\"A\" of \"environment\" must be a string"},
                {LEAST(", \"environment\": {\"A\": \"1\", \"A\": \"2\"}"), "given twice"},
                {LEAST(", \"limits\": []"), "\"limits\" must be an object of the stages"},
                {LEAST(", \"limits\": {\"link\": {}}"), "no stage \"link\": there are compile and run"},
                {LEAST(", \"limits\": {\"run\": 5}"), "\"run\" of \"limits\" must be an object"},
                {LEAST(", \"limits\": {\"run\": {}, \"run\": {}}"), "\"run\" of \"limits\" is given twice"},
                {LEAST(", \"limits\": {\"compile\": {}}"), "but the language has none"},
                {LEAST(", \"limits\": {\"run\": {\"timeout\": 5}}"),
                 "no limit \"timeout\" of \"run\" of \"limits\": there are memory, cpus, pids, scratch, tmp"},
                {LEAST(", \"compile\": [\"c\"], \"limits\": {\"compile\": {\"scratch\": 5}}"),
                 "no limit \"scratch\" of \"compile\" of \"limits\": there are timeout, memory"},
                {LEAST(", \"limits\": {\"run\": {\"pids\": 5, \"pids\": 6}}"),
                 "\"pids\" of \"run\" of \"limits\" is given twice"},
                {LEAST(", \"limits\": {\"run\": {\"pids\": null}}"), "must be a number or a string"},
                {LEAST(", \"limits\": {\"run\": {\"pids\": \"5\\u0000\"}}"), "NUL"},
                {LEAST(", \"limits\": {\"run\": {\"pids\": 0}}"), "is 0: it must be from 1 to 4194304"},
                {LEAST(", \"limits\": {\"run\": {\"pids\": 1.5}}"), "\"1.5\" is not a whole number"},
                {LEAST(", \"limits\": {\"run\": {\"pids\": 1e300}}"), "is not a whole number"},
                {LEAST(", \"limits\": {\"run\": {\"memory\": \"1M\"}}"), "is 1M: it must be from 8M to 64T"},
                {LEAST(", \"limits\": {\"run\": {\"memory\": \"64MB\"}}"), "\"64MB\" is not a size"},
                {LEAST(", \"limits\": {\"run\": {\"cpus\": -1}}"), "\"-1\" is not a number of processors"},
                {"{\"image\": \"i\", \"extensions\": [], \"source\": \"s\", \"run\": [\"r\"]}",
                 "\"description\" is missing"},
                {"{\"description\": \"D\", \"extensions\": [], \"source\": \"s\", \"run\": [\"r\"]}",
                 "\"image\" is missing"},
                {"{\"description\": \"D\", \"image\": \"i\", \"source\": \"s\", \"run\": [\"r\"]}",
                 "\"extensions\" is missing"},
                {"{\"description\": \"D\", \"image\": \"i\", \"extensions\": [], \"run\": [\"r\"]}",
                 "\"source\" is missing"},
                {"{\"description\": \"D\", \"image\": \"i\", \"extensions\": [], \"source\": \"s\"}",
                 "\"run\" is missing"},
                {"{\"description\": \"D\", \"image\": \"\", \"extensions\": [], \"source\": \"s\", \"run\": "
                 "[\"r\"]}",
                 "\"image\" is \"\""},
                {"{\"description\": \"a\\nb\", \"image\": \"i\", \"extensions\": [], \"source\": \"s\","
                 " \"run\": [\"r\"]}",
                 "\"description\""},
                {"{\"description\": \"D\", \"image\": \"i\", \"extensions\": [\"py\"], \"source\": \"s\","
                 " \"run\": [\"r\"]}",
                 "an extension with its dot"},
                {"{\"description\": \"D\", \"image\": \"i\", \"extensions\": [\".\"], \"source\": \"s\","
                 " \"run\": [\"r\"]}",
                 "an extension with its dot"},
                {"{\"description\": \"D\", \"image\": \"i\", \"extensions\": [], \"source\": \"a/b\","
                 " \"run\": [\"r\"]}",
                 "plain file name"},
                {"{\"description\": \"D\", \"image\": \"i\", \"extensions\": [], \"source\": \".\","
                 " \"run\": [\"r\"]}",
                 "plain file name"},
                {"[]", "must hold a JSON object"},
                {"", ""},
                {"{", ""},
                {"{\"description\": \"\xff\"}", ""},
                {"[[[[[[[[[]]]]]]]]]", "too deep"},
        };

        put(f, "one/python.json", PYTHON);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                put(f, "one/broken.json", cases[i].text);
                expect_problem(f, "one/broken.json", cases[i].words);
                assert_int_equal(sr_language_count(f->catalogue), 1);
                assert_non_null(sr_language_find(f->catalogue, "python"));
        }
}

static void test_all_faults_of_a_file(void **state)
{
        struct fixture *f = *state;
        _cleanup_buf_ struct sr_buf many = {0};

        put(f, "one/broken.json",
            "{\"image\": 1, \"source\": \"/\", \"extensions\": [\"x\", \"y\"], \"run\": []}");
        // description missing, image, source, two extensions, run.
        assert_int_equal(sr_language_problem_count(load(f)), 6);
        assert_int_equal(sr_language_count(f->catalogue), 0);

        // Not without end.
        sr_buf_append_text(&many, "{");
        for (int i = 0; i < 1000; i++)
                sr_buf_printf(&many, "%s\"m%d\": %d", i > 0 ? "," : "", i, i);
        sr_buf_append_text(&many, "}");
        put(f, "one/broken.json", many.data);
        assert_int_equal(sr_language_problem_count(load(f)), 20);
}

static void test_file_names(void **state)
{
        struct fixture *f = *state;

        put(f, "one/.hidden.json", "x");
        put(f, "one/notes.txt", "x");
        put(f, "one/.json", "x");
        put(f, "one/python.json~", "x");
        put(f, "one/Python.json", PYTHON);
        expect_problem(f, "one/Python.json", "<language>.json");
        assert_int_equal(sr_language_count(f->catalogue), 0);
}

static void test_file_kinds_and_sizes(void **state)
{
        struct fixture *f = *state;
        size_t size = 64 * 1024;
        _cleanup_free_ char *text = sr_calloc(size + 1, 1);
        _cleanup_free_ char *fifo = sr_asprintf("%s/one/fifo.json", f->root);
        _cleanup_free_ char *directory = sr_asprintf("%s/one/dir.json", f->root);
        _cleanup_free_ char *dangling = sr_asprintf("%s/one/link.json", f->root);

        // 64 KiB to the byte is read, one more is not.
        memset(text, ' ', size + 1);
        memcpy(text, LEAST(""), strlen(LEAST("")));
        put_bytes(f, "one/large.json", text, size);
        assert_int_equal(sr_language_problem_count(load(f)), 0);
        assert_int_equal(sr_language_count(f->catalogue), 1);
        put_bytes(f, "one/large.json", text, size + 1);
        expect_problem(f, "one/large.json", "64 KiB");
        put(f, "one/large.json", LEAST(""));

        assert_int_equal(mkfifo(fifo, 0644), 0);
        expect_problem(f, "one/fifo.json", "not a regular file");
        assert_int_equal(unlink(fifo), 0);
        assert_int_equal(mkdir(directory, 0755), 0);
        expect_problem(f, "one/dir.json", "Is a directory");
        assert_int_equal(rmdir(directory), 0);
        assert_int_equal(symlink("nowhere", dangling), 0);
        expect_problem(f, "one/link.json", "No such file");
        assert_int_equal(unlink(dangling), 0);
        // A link to a file is as good as the file.
        assert_int_equal(symlink("large.json", dangling), 0);
        assert_int_equal(sr_language_problem_count(load(f)), 0);
        assert_int_equal(sr_language_count(f->catalogue), 2);
}

static void test_later_directory_replaces(void **state)
{
        struct fixture *f = *state;

        put(f, "one/python.json", PYTHON);
        put(f, "one/zz.json", LEAST(""));
        put(f, "two/python.json", LEAST(", \"aliases\": [\"snake\"]"));
        // What the replaced file claimed is free again.
        put(f, "two/py.json", LEAST(""));

        const struct sr_language_catalogue *c = load(f);

        // py.json comes before python.json of its directory, so the alias was still taken.
        assert_int_equal(sr_language_problem_count(c), 1);
        assert_non_null(strstr(sr_language_problem_at(c, 0)->reason, "the name \"py\" is an alias in"));
        assert_int_equal(sr_language_count(c), 2);
        assert_string_equal(sr_language_find(c, "snake")->name, "python");
        assert_string_equal(sr_language_find(c, "python")->description, "D");
        assert_null(sr_language_find(c, "py"));
        assert_null(sr_language_find_by_path(c, "a.py"));
}

static void test_faulty_replacement_leaves_the_first(void **state)
{
        struct fixture *f = *state;

        put(f, "one/python.json", PYTHON);
        put(f, "two/python.json", "{");
        expect_problem(f, "two/python.json", "/one/python.json stays in use)");
        assert_string_equal(sr_language_find(f->catalogue, "py")->description, "Python 3.12");
}

static void test_claims(void **state)
{
        struct fixture *f = *state;
        static const struct {
                const char *name, *text, *words;
        } cases[] = {
                {"one/ruby.json", LEAST(", \"aliases\": [\"py\"]"), "the alias \"py\" is taken by"},
                {"one/ruby.json", LEAST(", \"aliases\": [\"python\"]"), "the alias \"python\" is taken by"},
                {"one/python3.json", LEAST(""), "the name \"python3\" is an alias in"},
                {"two/aaa.json", LEAST(", \"aliases\": [\"python\"]"), "the alias \"python\" is taken by"},
                {"two/aaa.json",
                 "{\"description\": \"D\", \"image\": \"i\", \"extensions\": [\".rb\", \".py\"], \"source\": "
                 "\"s\","
                 " \"run\": [\"r\"]}",
                 "the extension \".py\" is taken by"},
        };

        put(f, "one/python.json", PYTHON);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_free_ char *path = sr_asprintf("%s/%s", f->root, cases[i].name);

                put(f, cases[i].name, cases[i].text);
                expect_problem(f, cases[i].name, cases[i].words);
                assert_non_null(strstr(sr_language_problem_at(f->catalogue, 0)->reason, "/one/python.json"));
                assert_int_equal(sr_language_count(f->catalogue), 1);
                assert_null(sr_language_find_by_path(f->catalogue, "a.rb"));
                assert_int_equal(unlink(path), 0);
        }
}

static void test_directories(void **state)
{
        struct fixture *f = *state;
        struct sr_error *error = NULL;
        static char *none[] = {NULL};

        // None there, and none given.
        assert_int_equal(sr_language_count(load(f)), 0);
        assert_int_equal(sr_language_problem_count(f->catalogue), 0);
        assert_int_equal(sr_language_free(f->catalogue), NULL);
        assert_int_equal(sr_language_load(none, &f->catalogue, &error), 0);
        assert_int_equal(sr_language_count(f->catalogue), 0);
        assert_null(sr_language_find(f->catalogue, "python"));
}

static void test_unreadable_directory(void **state)
{
        struct fixture *f = *state;
        _cleanup_error_ struct sr_error *error = NULL;
        struct sr_language_catalogue *c = NULL;
        uid_t before = geteuid();

        put(f, "one/python.json", PYTHON);
        assert_int_equal(chmod(f->directories[0], 0), 0);
        assert_int_equal(chmod(f->root, 0711), 0);
        if (before == 0)
                assert_int_equal(seteuid(65534), 0);
        int r = sr_language_load(f->directories, &c, &error);

        if (before == 0)
                assert_int_equal(seteuid(0), 0);
        assert_int_equal(r, -EACCES);
        assert_null(c);
        assert_non_null(strstr(sr_error_message(error), f->directories[0]));
        assert_non_null(strstr(sr_error_message(error), "languages.directories"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                CASE(test_reads_every_member),
                CASE(test_reads_limits),
                CASE(test_find),
                CASE(test_find_by_path),
                CASE(test_faults),
                CASE(test_all_faults_of_a_file),
                CASE(test_file_names),
                CASE(test_file_kinds_and_sizes),
                CASE(test_later_directory_replaces),
                CASE(test_faulty_replacement_leaves_the_first),
                CASE(test_claims),
                CASE(test_directories),
                CASE(test_unreadable_directory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
