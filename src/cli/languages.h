// What `languages` and `doctor` both ask of a language.
#pragma once

#include "base/error.h"
#include "image/store.h"
#include "language/language.h"

// The first of the language's images that is in the store, owned by language; NULL when none is.
int sr_languages_ready(struct sr_image_store *store, const struct sr_language *language, const char **ret,
                       struct sr_error **error);
