// SPDX-License-Identifier: Apache-2.0
/* Recognises the line of a job's log that shows that training has begun. */
#ifndef BOOTSEER_PROFILER_FOLLOW_TRAIN_LINE_H
#define BOOTSEER_PROFILER_FOLLOW_TRAIN_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/error.h"

struct train_line;

/* Compile `pattern`, a regular expression (PCRE2). -EINVAL: it is not valid. */
int train_line_new(const char *pattern, struct train_line **ret,
		   struct error *err) MUST_CHECK;
void train_line_free(struct train_line *t); /* NULL is allowed */

/* Does the line match? Time and memory are bounded; a line that takes longer is no match. */
bool train_line_is(const struct train_line *t, const char *line, size_t len);

#endif
