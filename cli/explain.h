// SPDX-License-Identifier: Apache-2.0
/* Sentences on the figures of an image's starts (docs/formats/control.md, "image.explain"). */
#ifndef BOOTSEER_CLI_EXPLAIN_H
#define BOOTSEER_CLI_EXPLAIN_H

#include <jansson.h>
#include <stdio.h>

/* A sentence on `starts` (a list, newest first), and what to do; static. */
const char *explain_verdict(const json_t *starts);

/* Print a start, in lines for people. */
void explain_print(const json_t *start, FILE *out);

/* The image of a node.status reply that `ref` means: one of its names (with or
 * without "docker://" and ":latest"), or the beginning of a digest, of 12
 * digits at least.  Borrowed; NULL: none. */
const json_t *explain_find(const json_t *status, const char *ref);

/* Why the image of that name starts the ordinary way on the node, from the same
 * reply: reason and cure, bootseerd's; borrowed.  NULL: nothing is known of it. */
const json_t *explain_ordinary(const json_t *status, const char *ref);

#endif
