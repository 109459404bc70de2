// SPDX-License-Identifier: Apache-2.0
/* A start of a job as text. */
#ifndef BOOTSEER_CLI_START_GANTT_H
#define BOOTSEER_CLI_START_GANTT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Draw the nodes of the service's answer, one line each, `columns` wide. */
void start_gantt(const json_t *start, int columns, FILE *out);

/* A stranger's text; what could move the cursor is a question mark.  Prints at most
 * `max` characters, and at least `min` with spaces. */
void start_print_text(const char *s, int min, int max, FILE *out);

#endif
