// SPDX-License-Identifier: Apache-2.0
/* Draw a job's start as text. */
#ifndef BOOTSEER_CLI_START_GANTT_H
#define BOOTSEER_CLI_START_GANTT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/duration.h"

/* Draw the nodes in the service's reply, one line each, `columns` wide. */
void start_gantt(const json_t *start, int columns, FILE *out);

/* Print a text from strangers; what could move the cursor becomes '?'. At most `max` characters,
 * padded with spaces to `min`. */
void start_print_text(const char *s, int min, int max, FILE *out);

/* Format a member with seconds as "5 min 3 s". */
void start_duration(const json_t *o, const char *key,
		    char out[DURATION_TEXT_MAX]);

#endif
