// One language file: which members there are, what they may hold, and how they become a struct sr_language.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"
#include "language/internal.h"

// Limits are an object in an object in the file's object; some room so that what nests deeper is named.
#define FILE_DEPTH      8
#define IDENTIFIER_MAX  64
#define FILE_NAME_MAX   255 // NAME_MAX, limits.h
#define DESCRIPTION_MAX 1000
#define FAULT_MAX       20 // reported of one file

enum member_kind {
        MEMBER_TEXT, // char *
        MEMBER_LIST, // char **
        MEMBER_ARGV, // char **, at least one element
        MEMBER_MAP,  // char **, "NAME=value"
        MEMBER_LIMITS,
};

static bool is_description(const char *text)
{
        for (const char *at = text; *at != '\0'; at++)
                if ((unsigned char)*at < 0x20 || *at == 0x7f)
                        return false;
        return *text != '\0' && strlen(text) <= DESCRIPTION_MAX;
}

// Whether it can be a reference at all; the grammar is that of the image module.
static bool is_reference(const char *text)
{
        for (const char *at = text; *at != '\0'; at++)
                if ((unsigned char)*at <= 0x20 || (unsigned char)*at >= 0x7f)
                        return false;
        return *text != '\0';
}

static bool is_file_name(const char *text)
{
        if (*text == '\0' || strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
                return false;
        for (const char *at = text; *at != '\0'; at++)
                if ((unsigned char)*at < 0x20 || *at == 0x7f || *at == '/')
                        return false;
        return strlen(text) <= FILE_NAME_MAX;
}

static bool is_extension(const char *text)
{
        return text[0] == '.' && text[1] != '\0' && strchr(text, ' ') == NULL && is_file_name(text) &&
               text[strlen(text) - 1] != '.';
}

bool language_is_identifier(const char *text)
{
        if (!islower((unsigned char)text[0]) && !isdigit((unsigned char)text[0]))
                return false;
        for (const char *at = text; *at != '\0'; at++)
                if (!islower((unsigned char)*at) && !isdigit((unsigned char)*at) &&
                    strchr("+#._-", *at) == NULL)
                        return false;
        return strlen(text) <= IDENTIFIER_MAX;
}

static const struct member {
        const char *name;
        enum member_kind kind;
        bool required;
        size_t offset;
        bool (*check)(const char *text); // of the text, or of each element of the list
        const char *what;                // that check wants
} members[] = {
#define AT(member) offsetof(struct sr_language, member)
        {"description", MEMBER_TEXT, true, AT(description), is_description,
         "one line of text, at most 1000 bytes long"},
        {"image", MEMBER_TEXT, true, AT(image), is_reference,
         "an image reference such as \"python:3.12-slim\""},
        {"fallback_images", MEMBER_LIST, false, AT(fallback_images), is_reference,
         "an image reference such as \"python:3.12-slim\""},
        {"recipe", MEMBER_TEXT, false, AT(recipe), is_file_name, "the plain name of a recipe"},
        {"aliases", MEMBER_LIST, false, AT(aliases), language_is_identifier,
         "lower-case letters, digits and + # . _ -, the first a letter or digit, at most 64"},
        {"extensions", MEMBER_LIST, true, AT(extensions), is_extension,
         "an extension with its dot, such as \".py\""},
        {"source", MEMBER_TEXT, true, AT(source), is_file_name, "a plain file name, such as \"snippet.py\""},
        {"compile", MEMBER_ARGV, false, AT(compile), NULL, NULL},
        {"run", MEMBER_ARGV, true, AT(run), NULL, NULL},
        {"environment", MEMBER_MAP, false, AT(environment), NULL, NULL},
        {"limits", MEMBER_LIMITS, false, 0, NULL, NULL},
#undef AT
};
#define MEMBER_COUNT (sizeof(members) / sizeof(members[0]))

struct parser {
        struct sr_language_catalogue *catalogue;
        const char *path;
        struct sr_language *language;
        size_t faults;
};

// A file that is no language file at all has thousands of them: only the first are noted.
__attribute__((format(printf, 2, 3))) static void fault(struct parser *p, const char *format, ...)
{
        _cleanup_free_ char *reason = NULL;
        va_list arguments;

        if (++p->faults > FAULT_MAX)
                return;
        va_start(arguments, format);
        reason = sr_vasprintf(format, arguments);
        va_end(arguments);
        language_problem(p->catalogue, p->path, "%s", reason);
}

// Text for a message, cut where it would fill the screen.
static char *shown(const char *text)
{
        size_t length = strlen(text);

        if (length <= 100)
                return sr_strdup(text);
        return sr_asprintf("%.*s...", (int)sr_utf8_complete_prefix(text, 97), text);
}

// The string held by item, or NULL after noting the fault. label names the member.
static char *take_text(struct parser *p, const char *label, const cJSON *item)
{
        size_t length = 0;
        _cleanup_free_ char *text = sr_json_string_value(item, &length);

        if (text == NULL)
                fault(p, "%s must be a string", label);
        else if (strlen(text) != length)
                fault(p, "%s must not hold a NUL character", label);
        else
                return sr_steal(text);
        return NULL;
}

static char *take_checked(struct parser *p, const struct member *member, const char *label, const cJSON *item)
{
        _cleanup_free_ char *text = take_text(p, label, item);

        if (text != NULL && member->check != NULL && !member->check(text)) {
                _cleanup_free_ char *cut = shown(text);

                fault(p, "%s is \"%s\": it must be %s", label, cut, member->what);
                return NULL;
        }
        return sr_steal(text);
}

static bool contains(char *const *list, const char *text)
{
        for (; list != NULL && *list != NULL; list++)
                if (strcmp(*list, text) == 0)
                        return true;
        return false;
}

static void take_list(struct parser *p, const struct member *member, const cJSON *item, char ***to)
{
        const cJSON *element;
        int i = 0;

        if (!cJSON_IsArray(item)) {
                fault(p, "\"%s\" must be an array of strings", member->name);
                return;
        }
        *to = sr_new_array(char *, 1);
        cJSON_ArrayForEach(element, item)
        {
                _cleanup_free_ char *label = sr_asprintf("element %d of \"%s\"", ++i, member->name);
                _cleanup_free_ char *text = take_checked(p, member, label, element);

                if (text == NULL)
                        continue;
                if (member->kind == MEMBER_LIST && contains(*to, text))
                        fault(p, "%s is there already: \"%s\"", label, text);
                sr_strv_append(to, sr_steal(text));
        }
        if (member->kind == MEMBER_ARGV && (i == 0 || (*to)[0] == NULL || (*to)[0][0] == '\0'))
                fault(p, "\"%s\" must begin with the program to start", member->name);
}

static bool is_variable(const char *name)
{
        if (!isalpha((unsigned char)name[0]) && name[0] != '_')
                return false;
        for (; *name != '\0'; name++)
                if (!isalnum((unsigned char)*name) && *name != '_')
                        return false;
        return true;
}

static void take_map(struct parser *p, const struct member *member, const cJSON *item, char ***to)
{
        const cJSON *entry;

        if (!cJSON_IsObject(item)) {
                fault(p, "\"%s\" must be an object of strings", member->name);
                return;
        }
        *to = sr_new_array(char *, 1);
        cJSON_ArrayForEach(entry, item)
        {
                _cleanup_free_ char *name = shown(entry->string);
                _cleanup_free_ char *label = sr_asprintf("\"%s\" of \"%s\"", name, member->name);
                _cleanup_free_ char *text = take_text(p, label, entry);

                if (!is_variable(entry->string))
                        fault(p, "%s is no name of a variable: letters, digits and _, the first no digit",
                              label);
                else if (cJSON_GetObjectItemCaseSensitive(item, entry->string) != entry)
                        fault(p, "%s is given twice", label);
                else if (text != NULL)
                        sr_strv_append(to, sr_asprintf("%s=%s", entry->string, text));
        }
}

const struct sr_language_limit sr_language_limits[] = {
#define AT(member) offsetof(struct sr_config_stage, member)
        {"timeout", AT(timeout_us), true, true, false},    {"memory", AT(memory_bytes), true, true, true},
        {"cpus", AT(cpu_millis), false, true, true},       {"pids", AT(pids), false, true, true},
        {"scratch", AT(scratch_bytes), true, false, true}, {"tmp", AT(tmp_bytes), true, true, true},
        {"file_size", AT(file_bytes), true, true, true},   {"open_files", AT(open_files), false, true, true},
#undef AT
};

const size_t sr_language_limit_count = sizeof(sr_language_limits) / sizeof(sr_language_limits[0]);

uint64_t sr_language_limit_get(const struct sr_language_limit *limit, const struct sr_config_stage *stage)
{
        const void *from = (const char *)stage + limit->offset;

        return limit->wide ? *(const uint64_t *)from : *(const uint32_t *)from;
}

static const struct sr_language_limit *find_limit(const char *name, bool compile)
{
        for (size_t i = 0; i < sr_language_limit_count; i++)
                if ((compile ? sr_language_limits[i].compile : sr_language_limits[i].run) &&
                    strcmp(sr_language_limits[i].name, name) == 0)
                        return &sr_language_limits[i];
        return NULL;
}

static void unknown_limit(struct parser *p, const char *label, bool compile)
{
        _cleanup_buf_ struct sr_buf known = {0};

        for (size_t i = 0; i < sr_language_limit_count; i++)
                if (compile ? sr_language_limits[i].compile : sr_language_limits[i].run)
                        sr_buf_printf(&known, "%s%s", known.len > 0 ? ", " : "", sr_language_limits[i].name);
        fault(p, "there is no limit %s: there are %s", label, known.data);
}

// tunable is that of the limit.
static void take_limit(struct parser *p, const struct sr_language_limit *limit, const char *label,
                       const char *tunable, const cJSON *item, struct sr_config_stage *to)
{
        _cleanup_error_ struct sr_error *error = NULL;
        _cleanup_free_ char *text = NULL;
        uint64_t number = 0, minimum, maximum;

        if (cJSON_IsNumber(item))
                text = sr_asprintf("%.15g", item->valuedouble);
        else if (cJSON_IsString(item))
                text = take_text(p, label, item);
        else
                fault(p, "%s must be a number or a string", label);
        if (text == NULL)
                return;
        if (sr_config_parse(tunable, text, &number, &error) < 0) {
                fault(p, "%s: %s", label, sr_error_message(error));
                return;
        }
        sr_config_range(tunable, &minimum, &maximum);
        if (number < minimum || number > maximum) {
                _cleanup_free_ char *cut = shown(text), *low = sr_config_text(tunable, minimum),
                                    *high = sr_config_text(tunable, maximum);

                fault(p, "%s is %s: it must be from %s to %s", label, cut, low, high);
        } else if (limit->wide) {
                *(uint64_t *)((char *)to + limit->offset) = number;
        } else {
                *(uint32_t *)((char *)to + limit->offset) = (uint32_t)number;
        }
}

static void take_stage(struct parser *p, const cJSON *stage)
{
        bool compile = strcmp(stage->string, "compile") == 0;
        struct sr_config_stage *to = compile ? &p->language->compile_limits : &p->language->run_limits;
        const cJSON *item;

        cJSON_ArrayForEach(item, stage)
        {
                _cleanup_free_ char *name = shown(item->string);
                _cleanup_free_ char *label =
                        sr_asprintf("\"%s\" of \"%s\" of \"limits\"", name, stage->string);
                const struct sr_language_limit *limit = find_limit(item->string, compile);

                if (limit == NULL) {
                        unknown_limit(p, label, compile);
                } else if (cJSON_GetObjectItemCaseSensitive(stage, item->string) != item) {
                        fault(p, "%s is given twice", label);
                } else {
                        _cleanup_free_ char *tunable = sr_asprintf("%s.%s", stage->string, limit->name);

                        take_limit(p, limit, label, tunable, item, to);
                }
        }
}

static void take_limits(struct parser *p, const cJSON *item)
{
        const cJSON *stage;

        if (!cJSON_IsObject(item)) {
                fault(p, "\"limits\" must be an object of the stages \"compile\" and \"run\"");
                return;
        }
        cJSON_ArrayForEach(stage, item)
        {
                if (strcmp(stage->string, "compile") != 0 && strcmp(stage->string, "run") != 0) {
                        _cleanup_free_ char *name = shown(stage->string);

                        fault(p, "\"limits\" has no stage \"%s\": there are compile and run", name);
                } else if (cJSON_GetObjectItemCaseSensitive(item, stage->string) != stage) {
                        fault(p, "\"%s\" of \"limits\" is given twice", stage->string);
                } else if (!cJSON_IsObject(stage)) {
                        fault(p, "\"%s\" of \"limits\" must be an object", stage->string);
                } else {
                        take_stage(p, stage);
                }
        }
}

static void take_member(struct parser *p, const struct member *member, const cJSON *item)
{
        void *to = (char *)p->language + member->offset;

        switch (member->kind) {
        case MEMBER_TEXT: {
                _cleanup_free_ char *label = sr_asprintf("\"%s\"", member->name);

                *(char **)to = take_checked(p, member, label, item);
                break;
        }
        case MEMBER_LIST:
        case MEMBER_ARGV:
                take_list(p, member, item, to);
                break;
        case MEMBER_MAP:
                take_map(p, member, item, to);
                break;
        case MEMBER_LIMITS:
                take_limits(p, item);
                break;
        }
}

static const struct member *find_member(const char *name)
{
        for (size_t i = 0; i < MEMBER_COUNT; i++)
                if (strcmp(members[i].name, name) == 0)
                        return &members[i];
        return NULL;
}

static void unknown_member(struct parser *p, const char *name)
{
        _cleanup_free_ char *cut = shown(name);
        _cleanup_buf_ struct sr_buf known = {0};

        for (size_t i = 0; i < MEMBER_COUNT; i++)
                sr_buf_printf(&known, "%s%s", i > 0 ? ", " : "", members[i].name);
        fault(p, "unknown member \"%s\": there are %s", cut, known.data);
}

static void take_document(struct parser *p, const cJSON *document)
{
        const cJSON *item;

        if (!cJSON_IsObject(document)) {
                fault(p, "the file must hold a JSON object");
                return;
        }
        cJSON_ArrayForEach(item, document)
        {
                const struct member *member = find_member(item->string);

                if (member == NULL)
                        unknown_member(p, item->string);
                else if (cJSON_GetObjectItemCaseSensitive(document, item->string) != item)
                        fault(p, "\"%s\" is given twice", member->name);
                else
                        take_member(p, member, item);
        }
        for (size_t i = 0; i < MEMBER_COUNT; i++)
                if (members[i].required &&
                    cJSON_GetObjectItemCaseSensitive(document, members[i].name) == NULL)
                        fault(p, "\"%s\" is missing", members[i].name);
        if (contains(p->language->aliases, p->language->name))
                fault(p, "\"aliases\" holds the language's own name");

        const cJSON *limits_of = sr_json_member(document, "limits");

        if (sr_json_member(document, "compile") == NULL && sr_json_member(limits_of, "compile") != NULL)
                fault(p, "\"limits\" has a stage \"compile\", but the language has none");
}

struct sr_language *language_parse(struct sr_language_catalogue *catalogue, const char *path,
                                   const char *name, const char *text, size_t length)
{
        struct sr_language *language = sr_new(struct sr_language);
        struct parser p = {.catalogue = catalogue, .path = path, .language = language};
        _cleanup_json_ cJSON *document = NULL;
        _cleanup_error_ struct sr_error *error = NULL;

        language->name = sr_strdup(name);
        language->path = sr_strdup(path);
        if (sr_json_parse(text, length, FILE_DEPTH, &document, &error) < 0)
                fault(&p, "%s", sr_error_message(error));
        else
                take_document(&p, document);
        return p.faults == 0 ? language : language_free(language);
}

struct sr_language *language_free(struct sr_language *language)
{
        if (language == NULL)
                return NULL;
        free(language->name);
        free(language->path);
        for (size_t i = 0; i < MEMBER_COUNT; i++) {
                void *member = (char *)language + members[i].offset;

                if (members[i].kind == MEMBER_TEXT)
                        sr_freep(member);
                else if (members[i].kind != MEMBER_LIMITS)
                        sr_strv_freep(member);
        }
        free(language);
        return NULL;
}
