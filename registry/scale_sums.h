// SPDX-License-Identifier: Apache-2.0
/*
 * Statistics of starts by the size of their jobs (figures 3 to 6 of the paper): how long they took,
 * how often a job was started, how much slower than the median its slowest node was. Pure.
 */
#ifndef BOOTSEER_REGISTRY_SCALE_SUMS_H
#define BOOTSEER_REGISTRY_SCALE_SUMS_H

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "profiler/stage_event.h"

#define SCALE_RANGES 16u /* 1, 2 to 3, 4 to 7, ...; the last has no end */
/* stages in the result: those of most starts, see scale_sums_json() */
#define SCALE_STAGES_MAX 64u
/* names of stages; stages beyond that are left out */
#define SCALE_NAMES_MAX 4096u
#define SCALE_ROWS_MAX 100000u

/* A stage of a start, or (stage "") the start as a whole. */
struct scale_row {
	const char *job, *stage;
	int64_t nodes, gpus; /* gpus 0: not known */
	int64_t job_ms, median_ms, max_ms;
};

struct scale_sums;
int scale_sums_new(struct scale_sums **ret, struct error *err) MUST_CHECK;
void scale_sums_free(struct scale_sums *s); /* NULL is allowed */
DEFINE_AUTO(scale_sums)

/* Add a row; the order matters only in that rows beyond the limits are left out. -ENOMEM;
 * -ECANCELED: there are already SCALE_ROWS_MAX rows. */
int scale_sums_add(struct scale_sums *s, const struct scale_row *r) MUST_CHECK;

/* Append a stage with its nodes and times as a line of a start's text. -ENOMEM. */
int scale_stage_format(const struct scale_row *r, struct buf *ret) MUST_CHECK;
/* Read the line at `*text`, and move `*text` behind it. `stage` gets its stage; job and GPUs of
 * `ret` stay as they are. False at the end, or if the line is malformed. */
bool scale_stage_parse(const char **text, char stage[STAGE_NAME_MAX + 1],
		       struct scale_row *ret);

/* The result as JSON, see docs/formats/registry-api.md; NULL: memory is short. A hostile node
 * can invent starts of its own, and stages in starts of others, but no starts of several nodes.
 * Therefore only starts of several nodes decide which stages are shown and whether sizes are
 * GPUs. */
json_t *scale_sums_json(struct scale_sums *s);

#endif
