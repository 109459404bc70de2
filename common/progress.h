// SPDX-License-Identifier: Apache-2.0
/*
 * Shows how far a long job is: on a terminal a bar, elsewhere a line every ten seconds.  A job of
 * less than two seconds shows nothing.
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

/* progress_new() that is told whether `out` is a terminal: for tests and odd terminals. */
struct progress *progress_new_as(FILE *out, bool terminal) MUST_CHECK;

/*
 * Report that the job is at `what` and `done` of `total` bytes (0: unknown) are done.  Cheap, so
 * call it whenever something moves.  `now_ns` is CLOCK_MONOTONIC. One thread at a time.
 */
void progress_step(struct progress *p, const char *what, uint64_t done,
		   uint64_t total, int64_t now_ns);

/* Print a line that stays, about an event during the job. */
void progress_say(struct progress *p, const char *line);

/* Erase the bar, so that a result can be printed. */
void progress_free(struct progress *p);
DEFINE_AUTO(progress)

/* Format a count of bytes as "12.3 GiB". */
#define PROGRESS_BYTES_MAX 32
void progress_format_bytes(uint64_t bytes, char out[PROGRESS_BYTES_MAX]);

/* Format a count with an English noun of at most 20 bytes: "1 block", "2 blocks", "3 misses". */
#define PROGRESS_COUNT_MAX 48
void progress_format_count(uint64_t n, const char *noun,
			   char out[PROGRESS_COUNT_MAX]);

#endif
