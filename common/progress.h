// SPDX-License-Identifier: Apache-2.0
/*
 * How far a long job is: a bar on a terminal, a plain line now and then
 * elsewhere.  Nothing is shown for what lasts less than two seconds.
 */
#ifndef BOOTSEER_COMMON_PROGRESS_H
#define BOOTSEER_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/cleanup.h"

struct progress;

/* Show on `out` (borrowed), a bar when it is a terminal.  NULL when memory is
 * short; the functions below accept that. */
struct progress *progress_new(FILE *out) MUST_CHECK;

/* For tests and odd terminals: say what `out` is. */
struct progress *progress_new_as(FILE *out, bool terminal) MUST_CHECK;

/*
 * Now at `what`, `done` of `total` bytes; total 0 is not known.  Cheap: call it
 * as often as something moves.  `now_ns` is CLOCK_MONOTONIC.  One thread at a
 * time.
 */
void progress_step(struct progress *p, const char *what, uint64_t done,
		   uint64_t total, int64_t now_ns);

/* A line that stays, of what happens meanwhile. */
void progress_say(struct progress *p, const char *line);

/* Take the bar away, so that a result can be printed. */
void progress_free(struct progress *p);
DEFINE_AUTO(progress)

/* "12.3 GiB" of a count of bytes, in `out`. */
#define PROGRESS_BYTES_MAX 32
void progress_format_bytes(uint64_t bytes, char out[PROGRESS_BYTES_MAX]);

/* "1 block", "2 blocks", "3 misses" of a number and an English noun of at most
 * 20 bytes, in `out`. */
#define PROGRESS_COUNT_MAX 48
void progress_format_count(uint64_t n, const char *noun,
			   char out[PROGRESS_COUNT_MAX]);

#endif
