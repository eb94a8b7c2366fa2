// Parsing of image references. Hub short names resolve as container engines do: a first part that has neither
// dot nor colon, no capital, and is not "localhost", is not a domain but belongs to the path on Docker Hub,
// and a path of one part is below "library/" there.
#include "image/reference.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/digest.h"
#include "image/limits.h"
#include "image/text.h"

#define HUB     "docker.io"
#define LIBRARY "library/"

// distribution/reference: RepositoryNameTotalLengthMax, and the tag's regular expression.
#define MAX_PATH_LENGTH 255
#define MAX_TAG_LENGTH  128
// Longer input is refused before it is looked at; the longest legal one has 255 + 128 + 71 bytes and a
// domain.
#define MAX_TEXT_LENGTH 1024

static bool is_lower_alnum(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
        return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

static size_t span_lower_alnum(const char *text, size_t length)
{
        size_t n = 0;

        while (n < length && is_lower_alnum(text[n]))
                n++;
        return n;
}

// separator: '.', '_', "__" or any number of '-'. 0 when there is none.
static size_t span_separator(const char *text, size_t length)
{
        size_t n = 0;

        if (length == 0)
                return 0;
        if (text[0] == '.')
                return 1;
        if (text[0] == '_')
                return length > 1 && text[1] == '_' ? 2 : 1;
        while (n < length && text[n] == '-')
                n++;
        return n;
}

// path-component: alpha-numeric (separator alpha-numeric)*
static bool is_path_component(const char *text, size_t length)
{
        size_t at = span_lower_alnum(text, length);

        if (at == 0)
                return false;
        while (at < length) {
                size_t separator = span_separator(text + at, length - at);
                size_t word = span_lower_alnum(text + at + separator, length - at - separator);

                if (separator == 0 || word == 0)
                        return false;
                at += separator + word;
        }
        return true;
}

static bool is_path(const char *text)
{
        for (;;) {
                size_t length = strcspn(text, "/");

                if (!is_path_component(text, length))
                        return false;
                if (text[length] == '\0')
                        return true;
                text += length + 1;
        }
}

// domain-component: letters, digits and hyphens, none of these at an end
static bool is_domain_component(const char *text, size_t length)
{
        if (length == 0 || !is_alnum(text[0]) || !is_alnum(text[length - 1]))
                return false;
        for (size_t i = 0; i < length; i++)
                if (!is_alnum(text[i]) && text[i] != '-')
                        return false;
        return true;
}

static bool is_port(const char *text)
{
        return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool is_domain(const char *text)
{
        if (text[0] == '[') {
                size_t length = strspn(text + 1, "0123456789abcdefABCDEF:");
                const char *end = text + 1 + length;

                return length > 0 && *end == ']' && (end[1] == '\0' || (end[1] == ':' && is_port(end + 2)));
        }
        for (;;) {
                size_t length = strcspn(text, ".:");

                if (!is_domain_component(text, length))
                        return false;
                if (text[length] == '\0')
                        return true;
                if (text[length] == ':')
                        return is_port(text + length + 1);
                text += length + 1;
        }
}

static bool is_tag(const char *text)
{
        size_t length = strlen(text);

        if (length == 0 || length > MAX_TAG_LENGTH || (!is_alnum(text[0]) && text[0] != '_'))
                return false;
        for (size_t i = 1; i < length; i++)
                if (!is_alnum(text[i]) && strchr("_.-", text[i]) == NULL)
                        return false;
        return true;
}

// Whether the first part of a name (length bytes) names a registry.
static bool names_domain(const char *name, size_t length)
{
        if (length == strlen("localhost") && memcmp(name, "localhost", length) == 0)
                return true;
        for (size_t i = 0; i < length; i++)
                if (name[i] == '.' || name[i] == ':' || isupper((unsigned char)name[i]))
                        return true;
        return false;
}

// Splits name, which has neither tag nor digest, into domain and path.
static void split_domain(struct sr_image_reference *reference, const char *name)
{
        const char *slash = strchr(name, '/');

        if (slash != NULL && names_domain(name, (size_t)(slash - name))) {
                reference->domain = sr_memdup0(name, (size_t)(slash - name));
                reference->path = sr_strdup(slash + 1);
        } else {
                reference->domain = sr_strdup(HUB);
                reference->path = sr_strdup(name);
        }
        if (strcmp(reference->domain, "index.docker.io") == 0) {
                free(reference->domain);
                reference->domain = sr_strdup(HUB);
        }
        if (strcmp(reference->domain, HUB) == 0 && strchr(reference->path, '/') == NULL) {
                char *whole = sr_asprintf(LIBRARY "%s", reference->path);

                free(reference->path);
                reference->path = whole;
        }
}

// Says what is wrong with the path, which is_path() does not accept.
static const char *path_fault(const char *path)
{
        for (const char *at = path; *at != '\0'; at++)
                if (isupper((unsigned char)*at))
                        return "the name must be in lower case";
        return "a name is made of lower-case letters and digits, with single '.', '_', '-' or '/' between "
               "them";
}

static int refuse(const char *text, const char *why, struct sr_error **error)
{
        _cleanup_free_ char *shown = sr_image_printable(text);

        return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL, "\"%s\" is not an image reference: %s",
                            shown, why);
}

// Checks all parts; text is what the caller gave.
static int check(const struct sr_image_reference *reference, const char *text, struct sr_error **error)
{
        if (reference->digest != NULL && !sr_digest_valid(reference->digest))
                return refuse(text, "what follows '@' must be \"sha256:\" and 64 lower-case hex digits",
                              error);
        if (reference->tag != NULL && !is_tag(reference->tag))
                return refuse(text,
                              "a tag is at most 128 letters, digits, '_', '.' and '-', and begins with none "
                              "of the last two",
                              error);
        if (!is_domain(reference->domain))
                return refuse(text, "its first part is neither a host name nor a part of a name", error);
        if (!is_path(reference->path))
                return refuse(text, path_fault(reference->path), error);
        if (strlen(reference->path) > MAX_PATH_LENGTH)
                return refuse(text, "its name is longer than 255 characters", error);
        return 0;
}

int sr_image_reference_parse(const char *text, struct sr_image_reference **ret, struct sr_error **error)
{
        _cleanup_reference_ struct sr_image_reference *reference = sr_new(struct sr_image_reference);
        _cleanup_free_ char *name = NULL;

        if (*text == '\0')
                return refuse(text, "it is empty (an example is \"python:3.12-slim\")", error);
        if (strnlen(text, MAX_TEXT_LENGTH + 1) > MAX_TEXT_LENGTH)
                return sr_error_set(error, SR_ERROR_BAD_REQUEST, EINVAL,
                                    "an image reference has at most %d characters", MAX_TEXT_LENGTH);
        if (sr_digest_hex_valid(text, strlen(text)))
                return refuse(text, "64 hex digits alone would be taken for an image's id", error);
        name = sr_strdup(text);

        char *at = strchr(name, '@');

        if (at != NULL) {
                *at = '\0';
                reference->digest = sr_strdup(at + 1);
        }

        char *slash = strrchr(name, '/');
        char *colon = strrchr(slash != NULL ? slash : name, ':');

        if (colon != NULL) {
                *colon = '\0';
                reference->tag = sr_strdup(colon + 1);
        } else if (reference->digest == NULL) {
                reference->tag = sr_strdup("latest");
        }
        split_domain(reference, name);

        int r = check(reference, text, error);

        if (r < 0)
                return r;
        *ret = sr_steal(reference);
        return 0;
}

struct sr_image_reference *sr_image_reference_free(struct sr_image_reference *reference)
{
        if (reference != NULL) {
                free(reference->domain);
                free(reference->path);
                free(reference->tag);
                free(reference->digest);
                free(reference);
        }
        return NULL;
}

void sr_image_reference_freep(struct sr_image_reference **reference)
{
        *reference = sr_image_reference_free(*reference);
}

char *sr_image_reference_familiar_name(const struct sr_image_reference *reference)
{
        const char *path = reference->path;
        size_t library = strlen(LIBRARY);

        if (strcmp(reference->domain, HUB) != 0)
                return sr_asprintf("%s/%s", reference->domain, path);
        if (strncmp(path, LIBRARY, library) == 0 && strchr(path + library, '/') == NULL)
                return sr_strdup(path + library);
        // A Hub path whose first part looks like a domain would be read back as one.
        if (names_domain(path, strcspn(path, "/")))
                return sr_asprintf(HUB "/%s", path);
        return sr_strdup(path);
}

static char *with_suffix(const char *name, const struct sr_image_reference *reference)
{
        return sr_asprintf("%s%s%s%s%s", name, reference->tag != NULL ? ":" : "",
                           reference->tag != NULL ? reference->tag : "", reference->digest != NULL ? "@" : "",
                           reference->digest != NULL ? reference->digest : "");
}

char *sr_image_reference_familiar(const struct sr_image_reference *reference)
{
        _cleanup_free_ char *name = sr_image_reference_familiar_name(reference);

        return with_suffix(name, reference);
}

char *sr_image_reference_canonical(const struct sr_image_reference *reference)
{
        _cleanup_free_ char *name = sr_asprintf("%s/%s", reference->domain, reference->path);

        return with_suffix(name, reference);
}

int sr_image_reference_normalise(const char *text, char **ret, struct sr_error **error)
{
        _cleanup_reference_ struct sr_image_reference *reference = NULL;
        _cleanup_free_ char *familiar = NULL;
        int r = sr_image_reference_parse(text, &reference, error);

        if (r < 0)
                return r;
        familiar = sr_image_reference_familiar(reference);
        if (strlen(familiar) > SR_IMAGE_MAX_REFERENCE_LENGTH)
                return sr_error_set(
                        error, SR_ERROR_BAD_REQUEST, ENAMETOOLONG,
                        "the image reference \"%s\" has %zu characters; the store takes at most %d", familiar,
                        strlen(familiar), SR_IMAGE_MAX_REFERENCE_LENGTH);
        *ret = sr_steal(familiar);
        return 0;
}
