// The catalogue: directories read in order, names and extensions given to one language each, and looked up.

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "language/internal.h"

#define FILE_LIMIT      (64 * 1024)
#define DIRECTORY_LIMIT 1000 // files read of one directory
#define SUFFIX          ".json"

void language_problem(struct sr_language_catalogue *catalogue, const char *path, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        catalogue->problems = sr_realloc(catalogue->problems, catalogue->problem_count + 1,
                                         sizeof(struct sr_language_problem));
        catalogue->problems[catalogue->problem_count++] = (struct sr_language_problem){
                .path = sr_strdup(path), .reason = sr_vasprintf(format, arguments)};
        va_end(arguments);
}

static struct sr_language *find(const struct sr_language_catalogue *catalogue, const char *name)
{
        for (size_t i = 0; i < catalogue->count; i++)
                if (strcmp(catalogue->languages[i]->name, name) == 0)
                        return catalogue->languages[i];
        return NULL;
}

static bool contains(char *const *list, const char *text)
{
        for (; list != NULL && *list != NULL; list++)
                if (strcmp(*list, text) == 0)
                        return true;
        return false;
}

// The language that has text as its name or alias.
static struct sr_language *find_claimant(const struct sr_language_catalogue *catalogue, const char *text)
{
        for (size_t i = 0; i < catalogue->count; i++)
                if (strcmp(catalogue->languages[i]->name, text) == 0 ||
                    contains(catalogue->languages[i]->aliases, text))
                        return catalogue->languages[i];
        return NULL;
}

static struct sr_language *find_extension(const struct sr_language_catalogue *catalogue, const char *text)
{
        for (size_t i = 0; i < catalogue->count; i++)
                if (contains(catalogue->languages[i]->extensions, text))
                        return catalogue->languages[i];
        return NULL;
}

// Whether all that language claims is free, or belongs to the one of its name that it replaces.
static bool check_claims(struct sr_language_catalogue *catalogue, const struct sr_language *language,
                         const struct sr_language *replaced)
{
        const struct sr_language *other = find_claimant(catalogue, language->name);
        size_t before = catalogue->problem_count;

        if (other != NULL && other != replaced)
                language_problem(catalogue, language->path, "the name \"%s\" is an alias in %s",
                                 language->name, other->path);
        for (char **alias = language->aliases; alias != NULL && *alias != NULL; alias++) {
                other = find_claimant(catalogue, *alias);
                if (other != NULL && other != replaced)
                        language_problem(catalogue, language->path, "the alias \"%s\" is taken by %s", *alias,
                                         other->path);
        }
        for (char **extension = language->extensions; extension != NULL && *extension != NULL; extension++) {
                other = find_extension(catalogue, *extension);
                if (other != NULL && other != replaced)
                        language_problem(catalogue, language->path, "the extension \"%s\" is taken by %s",
                                         *extension, other->path);
        }
        return catalogue->problem_count == before;
}

// Takes ownership of language.
static void add(struct sr_language_catalogue *catalogue, struct sr_language *language)
{
        struct sr_language *replaced = find(catalogue, language->name);
        size_t at = 0;

        if (!check_claims(catalogue, language, replaced)) {
                language_free(language);
                return;
        }
        while (at < catalogue->count && strcmp(catalogue->languages[at]->name, language->name) < 0)
                at++;
        if (replaced != NULL) {
                language_free(replaced);
        } else {
                catalogue->languages =
                        sr_realloc(catalogue->languages, catalogue->count + 1, sizeof(struct sr_language *));
                memmove(catalogue->languages + at + 1, catalogue->languages + at,
                        (catalogue->count - at) * sizeof(struct sr_language *));
                catalogue->count++;
        }
        catalogue->languages[at] = language;
}

// The text of a file. Not a regular file: refused before anything is read, so that a FIFO holds nobody up.
static int read_text(int dirfd, const char *name, struct sr_buf *text)
{
        _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat found;

        if (fd < 0 || fstat(fd, &found) < 0)
                return -errno;
        if (!S_ISREG(found.st_mode))
                return S_ISDIR(found.st_mode) ? -EISDIR : -EINVAL;
        return sr_fd_read_all(fd, FILE_LIMIT, text);
}

// Whoever finds a fault in a file of theirs must not think that nothing of that name is in use.
static void say_what_stays(struct sr_language_catalogue *catalogue, const char *name)
{
        const struct sr_language *stays = find(catalogue, name);
        char **reason = &catalogue->problems[catalogue->problem_count - 1].reason;
        _cleanup_free_ char *before = NULL;

        if (stays == NULL)
                return;
        before = *reason;
        *reason = sr_asprintf("%s (%s stays in use)", before, stays->path);
}

static void load_file(struct sr_language_catalogue *catalogue, int dirfd, const char *directory,
                      const char *file)
{
        _cleanup_free_ char *path = sr_asprintf("%s/%s", directory, file);
        _cleanup_free_ char *name = sr_memdup0(file, strlen(file) - strlen(SUFFIX));
        _cleanup_buf_ struct sr_buf text = {0};
        size_t before = catalogue->problem_count;

        if (!language_is_identifier(name)) {
                language_problem(
                        catalogue, path,
                        "the file must be named <language>.json, the language in lower-case letters, digits "
                        "and + # . _ -, the first a letter or digit, at most 64");
                return;
        }

        int r = read_text(dirfd, file, &text);

        if (r == -EFBIG)
                language_problem(catalogue, path, "the file is larger than 64 KiB");
        else if (r == -EINVAL)
                language_problem(catalogue, path, "not a regular file");
        else if (r < 0)
                language_problem(catalogue, path, "cannot be read: %s", strerror(-r));

        struct sr_language *language =
                r == 0 ? language_parse(catalogue, path, name, text.data != NULL ? text.data : "", text.len)
                       : NULL;

        if (language != NULL)
                add(catalogue, language);
        if (catalogue->problem_count > before)
                say_what_stays(catalogue, name);
}

static int compare_names(const void *left, const void *right)
{
        return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool is_language_file(const char *name)
{
        size_t length = strlen(name);

        return name[0] != '.' && length > strlen(SUFFIX) &&
               strcmp(name + length - strlen(SUFFIX), SUFFIX) == 0;
}

// The names of the language files, sorted. Takes stream as it is.
static int list_files(DIR *stream, char ***ret, size_t *ret_count)
{
        _cleanup_strv_ char **names = sr_new_array(char *, DIRECTORY_LIMIT + 1);
        size_t count = 0;
        struct dirent *entry;

        while (errno = 0, (entry = readdir(stream)) != NULL) {
                if (!is_language_file(entry->d_name))
                        continue;
                if (count == DIRECTORY_LIMIT)
                        return -E2BIG;
                names[count++] = sr_strdup(entry->d_name);
        }
        if (errno != 0)
                return -errno;
        qsort(names, count, sizeof(char *), compare_names);
        *ret = sr_steal(names);
        *ret_count = count;
        return 0;
}

static int load_directory(struct sr_language_catalogue *catalogue, const char *directory,
                          struct sr_error **error)
{
        _cleanup_strv_ char **names = NULL;
        size_t count = 0;
        DIR *stream = opendir(directory);
        int r = stream != NULL ? list_files(stream, &names, &count) : -errno;

        // Below a file there is no directory either.
        if (stream == NULL && (r == -ENOENT || r == -ENOTDIR))
                return 0;
        if (r == -E2BIG) {
                language_problem(catalogue, directory, "more than %d language files; none was read",
                                 DIRECTORY_LIMIT);
                r = 0;
        } else if (r < 0) {
                r = sr_error_set(
                        error, SR_ERROR_HOST, -r,
                        "cannot read the directory of languages %s: %s; allow reading it or take it out of "
                        "languages.directories",
                        directory, strerror(-r));
        }
        for (size_t i = 0; i < count; i++)
                load_file(catalogue, dirfd(stream), directory, names[i]);
        if (stream != NULL)
                closedir(stream);
        return r;
}

int sr_language_load(char *const *directories, struct sr_language_catalogue **ret, struct sr_error **error)
{
        _cleanup_language_ struct sr_language_catalogue *catalogue = sr_new(struct sr_language_catalogue);

        for (; directories != NULL && *directories != NULL; directories++) {
                int r = load_directory(catalogue, *directories, error);

                if (r < 0)
                        return r;
        }
        *ret = sr_steal(catalogue);
        return 0;
}

struct sr_language_catalogue *sr_language_free(struct sr_language_catalogue *catalogue)
{
        if (catalogue == NULL)
                return NULL;
        for (size_t i = 0; i < catalogue->count; i++)
                language_free(catalogue->languages[i]);
        for (size_t i = 0; i < catalogue->problem_count; i++) {
                free(catalogue->problems[i].path);
                free(catalogue->problems[i].reason);
        }
        free(catalogue->languages);
        free(catalogue->problems);
        free(catalogue);
        return NULL;
}

void sr_language_freep(struct sr_language_catalogue **catalogue)
{
        *catalogue = sr_language_free(*catalogue);
}

char *sr_language_normalise(const char *name)
{
        char *normal;
        size_t length;

        while (isspace((unsigned char)*name))
                name++;
        length = strlen(name);
        while (length > 0 && isspace((unsigned char)name[length - 1]))
                length--;
        normal = sr_memdup0(name, length);
        for (char *at = normal; *at != '\0'; at++)
                *at = (char)tolower((unsigned char)*at);
        return normal;
}

const struct sr_language *sr_language_find(const struct sr_language_catalogue *catalogue, const char *name)
{
        _cleanup_free_ char *normal = sr_language_normalise(name);

        return find_claimant(catalogue, normal);
}

const struct sr_language *sr_language_find_by_path(const struct sr_language_catalogue *catalogue,
                                                   const char *path)
{
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;

        // A dot in front does not begin an extension: ".py" is a hidden file.
        for (const char *dot = name + strspn(name, "."); (dot = strchr(dot, '.')) != NULL; dot++) {
                const struct sr_language *found = find_extension(catalogue, dot);

                if (found == NULL) {
                        _cleanup_free_ char *lower = sr_language_normalise(dot);

                        found = find_extension(catalogue, lower);
                }
                if (found != NULL)
                        return found;
        }
        return NULL;
}

static bool is_file_of(const char *path, const char *language)
{
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;
        size_t length = strlen(language);

        return strncmp(name, language, length) == 0 && strcmp(name + length, SUFFIX) == 0;
}

char *sr_language_faults(const struct sr_language_catalogue *catalogue, const char *name)
{
        _cleanup_free_ char *normal = sr_language_normalise(name);
        _cleanup_buf_ struct sr_buf text = {0};
        const char *last = NULL;

        for (size_t i = 0; i < catalogue->problem_count; i++) {
                const struct sr_language_problem *problem = &catalogue->problems[i];

                if (!is_file_of(problem->path, normal))
                        continue;
                if (text.len > 0)
                        sr_buf_append_text(&text, "; ");
                if (last == NULL || strcmp(last, problem->path) != 0)
                        sr_buf_printf(&text, "%s is not used: ", problem->path);
                sr_buf_append_text(&text, problem->reason);
                last = problem->path;
        }
        return text.len > 0 ? sr_buf_steal(&text, NULL) : NULL;
}

size_t sr_language_count(const struct sr_language_catalogue *catalogue)
{
        return catalogue->count;
}

const struct sr_language *sr_language_at(const struct sr_language_catalogue *catalogue, size_t index)
{
        return catalogue->languages[index];
}

size_t sr_language_problem_count(const struct sr_language_catalogue *catalogue)
{
        return catalogue->problem_count;
}

const struct sr_language_problem *sr_language_problem_at(const struct sr_language_catalogue *catalogue,
                                                         size_t index)
{
        return &catalogue->problems[index];
}
