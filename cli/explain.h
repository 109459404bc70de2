// SPDX-License-Identifier: Apache-2.0
/* Sentences on the figures of an image's starts (docs/formats/control.md, "image.explain"). */
#ifndef BOOTSEER_CLI_EXPLAIN_H
#define BOOTSEER_CLI_EXPLAIN_H

#include <jansson.h>
#include <stdio.h>

/* A sentence about `starts` (a list, newest first) with advice; static. */
const char *explain_verdict(const json_t *starts);

/* Print a start, in lines for people. */
void explain_print(const json_t *start, FILE *out);

/* Find the image of `ref` in a node.status reply, by one of its names (with or without "docker://"
 * and ":latest") or by at least 12 digits of a digest.  Borrowed; NULL: none. */
const json_t *explain_find(const json_t *status, const char *ref);

/* The entry in the same reply that says why the image is not started lazily here: reason and cure,
 * in bootseerd's words.  Borrowed; NULL: bootseerd does not know the image. */
const json_t *explain_ordinary(const json_t *status, const char *ref);

#endif
