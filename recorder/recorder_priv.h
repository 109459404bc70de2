// SPDX-License-Identifier: Apache-2.0
/* Internal functions that recorder.c and recorder_trace.c share. */
#ifndef BOOTSEER_RECORDER_RECORDER_PRIV_H
#define BOOTSEER_RECORDER_RECORDER_PRIV_H

#include "recorder/recorder.h"

/* Contiguous pages that one read was the first to touch. */
struct record_range {
	uint64_t page;
	uint32_t n; /* pages */
	uint32_t at_ms;
};

/* A copy of what was recorded so far. */
struct record {
	struct record_range *ranges;
	size_t n_ranges;
	uint32_t *missed; /* blocks of the map */
	size_t n_missed;
	uint32_t now_ms; /* time of the copy, since recorder_new() */
	bool truncated;
};

/* Copy the record; recording continues. */
int recorder_snapshot(struct recorder *r, struct record *ret,
		      struct error *err) MUST_CHECK;
void record_fini(struct record *c);

/* Choose the entries of a prediction that apply to an image with these files. Sets only
 * `ret->entries`, which the caller owns, with paths borrowed from `t`. A twin is a donor of
 * whose files the image has nearly all. */
int prediction_choose(const struct trace *t, struct file_map *files,
		      struct trace *ret, bool *ret_has_twin,
		      struct error *err) MUST_CHECK;

#endif
