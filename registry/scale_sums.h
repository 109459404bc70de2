// SPDX-License-Identifier: Apache-2.0
/*
 * Starts by the size of their jobs (figures 3 to 6 of the paper): what half of them took,
 * how often a job was started, how much slower its slowest node was.  Pure.
 */
#ifndef BOOTSEER_REGISTRY_SCALE_SUMS_H
#define BOOTSEER_REGISTRY_SCALE_SUMS_H

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "profiler/stage_event.h"

#define SCALE_RANGES 16u /* 1, 2 to 3, 4 to 7, ...; the last has no end */
#define SCALE_STAGES_MAX \
	64u /* told: those that most starts have, see scale_sums_json() */
#define SCALE_NAMES_MAX 4096u /* of stages; further ones are left out */
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

/* In any order, but what is past the bounds is left out.  -ENOMEM; -ECANCELED: there are
 * as many rows as are kept. */
int scale_sums_add(struct scale_sums *s, const struct scale_row *r) MUST_CHECK;

/* A stage with its nodes and times as a line of a start's text.  -ENOMEM. */
int scale_stage_format(const struct scale_row *r, struct buf *ret) MUST_CHECK;
/* The line at `*text`, which moves behind it; job and GPUs of `ret` stay, its stage is in
 * `stage`.  False at the end, or where there is no such line. */
bool scale_stage_parse(const char **text, char stage[STAGE_NAME_MAX + 1],
		       struct scale_row *ret);

/* docs/formats/registry-api.md; NULL: memory is short.  A node can make up starts of its own, and
 * stages within those of others, but none of several nodes: these decide which stages are
 * told, and whether sizes are GPUs. */
json_t *scale_sums_json(struct scale_sums *s);

#endif
