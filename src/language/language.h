// The language catalogue: one JSON file a language, named <language>.json. Adding a language is adding a
// file. A file with a fault is reported with its name and reason and does not take the others down.
//
// {
//   "description": "Python 3.12",
//   "image": "python:3.12-slim",
//   "fallback_images": ["sandbox-runner/python:3"],     optional
//   "recipe": "python",                                 optional: what `image build` takes
//   "aliases": ["py", "python3"],                       optional
//   "extensions": [".py"],
//   "source": "snippet.py",                             file name in /scratch
//   "compile": ["g++", "-std=c++17", …],                optional; its presence makes the language compiled
//   "run": ["python", "/scratch/snippet.py"],           argument vector, no shell
//   "environment": {"PYTHONUNBUFFERED": "1"},           optional
//   "limits": {                                         optional, as is all in it
//     "compile": {"memory": "1G", "timeout": 60},
//     "run": {"memory": "512M", "cpus": 1, "pids": 256}
//   }
// }
//
// What "limits" does not name is as the configuration has it. Its members are named, written and bounded as
// the tunables run.* and compile.* are: memory, cpus, pids, tmp, file_size and open_files of either stage,
// timeout of "compile" (which only a compiled language has), scratch of "run" (both stages share it). A
// request may ask for other memory, cpus and pids of the run stage than the language. What a language gives
// the run stage above run.max_memory, run.max_cpus or run.max_pids is no fault of the file: the run is
// refused, so that lowering a ceiling does not make a language disappear. Its compile stage has no such
// ceiling, as compile.* has none.
//
// Identifiers and aliases are [a-z0-9][a-z0-9+#._-]*, at most 64 characters. An identifier, alias or
// extension belongs to one language: of two files that claim it, the one read later has the fault
// (directories in their order, files in that of their names). Where a file with a fault would have replaced
// another, that one stays. A file may be 64 KiB long; names that begin with a dot are not looked at.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "config/config.h"

struct sr_language {
        char *name; // normalised identifier: lower case
        char *description;
        char *image;            // reference
        char **fallback_images; // NULL-terminated, may be NULL
        char *recipe;           // may be NULL
        char **aliases;         // may be NULL
        char **extensions;      // each with its dot
        char *source;           // plain file name
        char **compile;         // NULL: interpreted
        char **run;
        char **environment; // "NAME=value"
        // 0: as the configuration has it
        struct sr_config_stage compile_limits, run_limits;
        char *path; // of its file
};

// A limit that a file may give: a member of an object of "limits", and a tunable of the stage of that name.
struct sr_language_limit {
        const char *name;
        size_t offset; // in struct sr_config_stage
        bool wide;     // uint64_t, else uint32_t
        bool compile, run;
};

extern const struct sr_language_limit sr_language_limits[];
extern const size_t sr_language_limit_count;
uint64_t sr_language_limit_get(const struct sr_language_limit *limit, const struct sr_config_stage *stage);

struct sr_language_problem {
        char *path;
        char *reason;
};

struct sr_language_catalogue;

// Reads every *.json of the directories (NULL-terminated; a missing directory is no error). A later
// directory's file replaces an earlier one of the same name. Fails only when memory or a directory cannot be
// read; faulty files become problems, one for each fault.
int sr_language_load(char *const *directories, struct sr_language_catalogue **ret, struct sr_error **error);
struct sr_language_catalogue *sr_language_free(struct sr_language_catalogue *catalogue);
void sr_language_freep(struct sr_language_catalogue **catalogue);
#define _cleanup_language_ __attribute__((cleanup(sr_language_freep)))

// By identifier or alias; case and surrounding white space do not matter. NULL when there is none.
const struct sr_language *sr_language_find(const struct sr_language_catalogue *catalogue, const char *name);
// By the extension of a file name ("a/b.py"): the longest that is claimed, as it is written or else in lower
// case. NULL when none is.
const struct sr_language *sr_language_find_by_path(const struct sr_language_catalogue *catalogue,
                                                   const char *path);
// Sorted by name, at indexes 0 to count - 1.
size_t sr_language_count(const struct sr_language_catalogue *catalogue);
const struct sr_language *sr_language_at(const struct sr_language_catalogue *catalogue, size_t index);
size_t sr_language_problem_count(const struct sr_language_catalogue *catalogue);
const struct sr_language_problem *sr_language_problem_at(const struct sr_language_catalogue *catalogue,
                                                         size_t index);
// Of files that are named like that language and are not used, what is wrong with each:
// "PATH is not used: REASON; REASON". NULL when there are none; freed by the caller.
char *sr_language_faults(const struct sr_language_catalogue *catalogue, const char *name);
// Lower case without surrounding white space; freed by the caller.
char *sr_language_normalise(const char *name);
