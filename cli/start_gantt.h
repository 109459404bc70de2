// SPDX-License-Identifier: Apache-2.0
/* A start of a job as text. */
#ifndef BOOTSEER_CLI_START_GANTT_H
#define BOOTSEER_CLI_START_GANTT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/duration.h"

/* Draw the nodes of the service's answer, one line each, `columns` wide. */
void start_gantt(const json_t *start, int columns, FILE *out);

/* A stranger's text; what could move the cursor is a question mark.  Prints at most
 * `max` characters, and at least `min` with spaces. */
void start_print_text(const char *s, int min, int max, FILE *out);

/* "5 min 3 s" of a member that has seconds. */
void start_duration(const json_t *o, const char *key,
		    char out[DURATION_TEXT_MAX]);

#endif
