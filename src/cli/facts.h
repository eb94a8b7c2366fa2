// What the history knows of a run besides its columns, for people.
#pragma once

#include "cli/text.h"

// Adds a row of two cells for each member of facts (the text of a JSON object, as src/run records it): what
// it is called, and the value with its unit. Members of other names are shown as they are.
void sr_facts_add(struct sr_text_table *table, const char *facts);
