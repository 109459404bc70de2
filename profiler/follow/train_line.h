// SPDX-License-Identifier: Apache-2.0
/* The line of a job's log that shows that training has begun. */
#ifndef BOOTSEER_PROFILER_FOLLOW_TRAIN_LINE_H
#define BOOTSEER_PROFILER_FOLLOW_TRAIN_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/error.h"

struct train_line;

/* `pattern` is a regular expression (PCRE2).  -EINVAL: it is none. */
int train_line_new(const char *pattern, struct train_line **ret,
		   struct error *err) MUST_CHECK;
void train_line_free(struct train_line *t); /* NULL is allowed */

/* Bounded in time and memory, whatever the line is; what takes longer is no match. */
bool train_line_is(const struct train_line *t, const char *line, size_t len);

#endif
