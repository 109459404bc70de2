// SPDX-License-Identifier: Apache-2.0
/* Internal functions that recorder.c and recorder_trace.c share. */
#ifndef BOOTSEER_RECORDER_RECORDER_PRIV_H
#define BOOTSEER_RECORDER_RECORDER_PRIV_H

#include "recorder/recorder.h"

/* Pages that one read was the first to touch. */
struct record_range {
	uint64_t page;
	uint32_t n; /* pages */
	uint32_t at_ms;
};

/* A copy of the record at one moment. */
struct record {
	struct record_range *ranges;
	size_t n_ranges;
	uint32_t *missed; /* blocks of the map */
	size_t n_missed;
	uint32_t now_ms; /* since recorder_new() */
	bool truncated;
};

/* A copy, while it goes on. */
int recorder_snapshot(struct recorder *r, struct record *ret,
		      struct error *err) MUST_CHECK;
void record_fini(struct record *c);

/* The entries of a prediction that hold for an image with these files, into `ret`, whose
 * `entries` are the caller's, with the paths of `t`; nothing else of it is set.  A twin is
 * a donor of whose files the image has nearly all. */
int prediction_choose(const struct trace *t, struct file_map *files,
		      struct trace *ret, bool *ret_has_twin,
		      struct error *err) MUST_CHECK;

#endif
