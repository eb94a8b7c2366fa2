// Image references: "[domain[:port]/]path[:tag][@digest]", by the grammar of the distribution project
// (distribution/reference).
//
// Identity is the canonical form: "python", "python:latest" and "docker.io/library/python:latest" are one
// image. What is shown and stored is the familiar form, "python:latest". Reading references needs no library.
#pragma once

#include "base/error.h"

struct sr_image_reference {
        char *domain; // "docker.io", "localhost:5000", "[::1]:5000"
        char *path;   // "library/python"
        char *tag;    // "latest" when neither tag nor digest was given; NULL with a digest alone
        char *digest; // "sha256:…" or NULL
};

// Parses and completes text. -EINVAL with a sentence that says what is wrong with it; the digest must be
// SHA-256, the one that the store keeps.
int sr_image_reference_parse(const char *text, struct sr_image_reference **ret, struct sr_error **error);
struct sr_image_reference *sr_image_reference_free(struct sr_image_reference *reference);
void sr_image_reference_freep(struct sr_image_reference **reference);
#define _cleanup_reference_ __attribute__((cleanup(sr_image_reference_freep)))

// The short form that parses to the same reference: "python:3.12-slim", "ghcr.io/a/b:1". The caller frees it.
char *sr_image_reference_familiar(const struct sr_image_reference *reference);
// The same without tag and digest: "python".
char *sr_image_reference_familiar_name(const struct sr_image_reference *reference);
// The full form: "docker.io/library/python:3.12-slim". The caller frees it.
char *sr_image_reference_canonical(const struct sr_image_reference *reference);

// Parses text and gives its familiar form; refuses what is too long to be a file name of the store.
int sr_image_reference_normalise(const char *text, char **ret, struct sr_error **error);
