// SPDX-License-Identifier: Apache-2.0
#include "registry/scale_sums.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/hash.h"

struct kept_scale {
	uint32_t stage; /* 0 is "" */
	uint32_t range; /* of the end */
	int64_t nodes, gpus, job_ms, median_ms, max_ms;
};

/* A job's starts, and its largest. */
struct scale_job {
	char *name;
	int64_t starts, nodes, gpus;
	UT_hash_handle hh;
};

struct scale_sums {
	struct kept_scale *rows;
	size_t n, cap;
	char *stages[SCALE_STAGES_MAX + 1];
	uint32_t n_stages;
	uint32_t last_stage; /* of the row before */
	struct scale_job *jobs;
	bool has_gpus; /* all starts say how many they have */
	/* Of the end: rows by stage and range, where each begins, and as much room as there
	 * are rows or jobs. */
	size_t begin[(SCALE_STAGES_MAX + 1) * SCALE_RANGES + 1];
	double *room;
};

int scale_sums_new(struct scale_sums **ret, struct error *err)
{
	struct scale_sums *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	s->has_gpus = true;
	*ret = s;
	return 0;
}

void scale_sums_free(struct scale_sums *s)
{
	struct scale_job *j, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->jobs, j, next)
	{
		HASH_DEL(s->jobs, j);
		free(j->name);
		free(j);
	}
	for (uint32_t i = 0; i < s->n_stages; i++)
		free(s->stages[i + 1]);
	free(s->rows);
	free(s->room);
	free(s);
}

/* SCALE_STAGES_MAX + 1: there are too many. */
static int stage_of(struct scale_sums *s, const char *name, uint32_t *ret)
{
	uint32_t i = 0;

	/* Starts mostly have the same stages in the same order. */
	if (name[0] && s->last_stage < s->n_stages &&
	    strcmp(s->stages[s->last_stage + 1], name) == 0)
		i = s->last_stage + 1;
	else if (name[0])
		for (i = 1; i <= s->n_stages; i++)
			if (strcmp(s->stages[i], name) == 0)
				break;
	*ret = s->last_stage = i;
	if (i <= s->n_stages || i > SCALE_STAGES_MAX)
		return 0;
	s->stages[i] = strdup(name);
	if (!s->stages[i])
		return -ENOMEM;
	s->n_stages = i;
	return 0;
}

static int add_job(struct scale_sums *s, const struct scale_row *r)
{
	struct scale_job *j;

	HASH_FIND_STR(s->jobs, r->job, j);
	if (!j) {
		j = calloc(1, sizeof(*j));
		if (!j)
			return -ENOMEM;
		j->name = strdup(r->job);
		if (j->name)
			HASH_ADD_KEYPTR(hh, s->jobs, j->name, strlen(j->name),
					j);
		if (!j->name || !hash_has_added(j)) {
			free(j->name);
			free(j);
			return -ENOMEM;
		}
	}
	j->starts++;
	if (r->nodes > j->nodes)
		j->nodes = r->nodes;
	if (r->gpus > j->gpus)
		j->gpus = r->gpus;
	return 0;
}

int scale_sums_add(struct scale_sums *s, const struct scale_row *r)
{
	struct kept_scale k = { .nodes = r->nodes,
				.gpus = r->gpus,
				.job_ms = r->job_ms,
				.median_ms = r->median_ms,
				.max_ms = r->max_ms };
	int rc = s->n == SCALE_ROWS_MAX ? -ECANCELED
					: stage_of(s, r->stage, &k.stage);

	if (rc == 0 && k.stage == 0) {
		s->has_gpus = s->has_gpus && r->gpus > 0;
		rc = add_job(s, r);
	}
	if (rc < 0 || k.stage > SCALE_STAGES_MAX)
		return rc;
	rc = array_grow(&s->rows, s->n, &s->cap, 1024);
	if (rc == 0)
		s->rows[s->n++] = k;
	return rc;
}

/* ------------------------------------------------------------------- stages --- */

int scale_stage_format(const struct scale_row *r, struct buf *ret)
{
	return buf_printf(ret,
			  "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
			  "\n",
			  r->stage, r->nodes, r->job_ms, r->median_ms,
			  r->max_ms);
}

bool scale_stage_parse(const char **text, char stage[STAGE_NAME_MAX + 1],
		       struct scale_row *ret)
{
	int64_t *const numbers[] = { &ret->nodes, &ret->job_ms, &ret->median_ms,
				     &ret->max_ms };
	const char *at = strchr(*text, ' ');
	size_t n = at ? (size_t)(at - *text) : 0;
	char *end;

	if (!n || n > STAGE_NAME_MAX)
		return false;
	memcpy(stage, *text, n);
	stage[n] = '\0';
	ret->stage = stage;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (*at != ' ')
			return false;
		*numbers[i] = strtoll(at + 1, &end, 10);
		at = end;
	}
	if (*at != '\n')
		return false;
	*text = at + 1;
	return true;
}

/* ----------------------------------------------------------------- results --- */

static unsigned int range_of(int64_t n)
{
	unsigned int k = 0;

	while (n > 1 && k < SCALE_RANGES - 1) {
		n /= 2;
		k++;
	}
	return k;
}

static int scales_by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* Of `n` numbers in the room. */
static json_t *spread_json(double *v, size_t n)
{
	if (!n)
		return json_null();
	qsort(v, n, sizeof(*v), scales_by_value);
	return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f}", "n", (json_int_t)n, "min",
			 v[0], "p25", v[(n - 1) / 4], "median", v[(n - 1) / 2],
			 "p75", v[(n - 1) * 3 / 4], "max", v[n - 1]);
}

enum scale_value {
	SCALE_JOB_S,
	SCALE_NODE_S,
	SCALE_MAX_MEDIAN,
};

static double value_of(const struct kept_scale *k, enum scale_value what)
{
	if (what == SCALE_JOB_S)
		return (double)k->job_ms / 1e3;
	if (what == SCALE_NODE_S)
		return (double)k->median_ms / 1e3;
	return k->median_ms > 0 ? (double)k->max_ms / (double)k->median_ms : 0;
}

static int64_t size_of(const struct scale_sums *s, int64_t nodes, int64_t gpus)
{
	return s->has_gpus ? gpus : nodes;
}

static int scales_by_place(const void *x, const void *y)
{
	const struct kept_scale *a = x, *b = y;

	if (a->stage != b->stage)
		return a->stage < b->stage ? -1 : 1;
	return (a->range > b->range) - (a->range < b->range);
}

static void sort_rows(struct scale_sums *s)
{
	size_t n_places = ARRAY_SIZE(s->begin) - 1, place = 0;

	for (size_t i = 0; i < s->n; i++)
		s->rows[i].range =
			range_of(size_of(s, s->rows[i].nodes, s->rows[i].gpus));
	if (s->n)
		qsort(s->rows, s->n, sizeof(*s->rows), scales_by_place);
	for (size_t i = 0; i < s->n; i++)
		while (place <=
		       s->rows[i].stage * SCALE_RANGES + s->rows[i].range)
			s->begin[place++] = i;
	while (place <= n_places)
		s->begin[place++] = s->n;
}

/* `range` SCALE_RANGES is all. */
static json_t *rows_json(struct scale_sums *s, uint32_t stage,
			 unsigned int range, enum scale_value what)
{
	bool is_all = range == SCALE_RANGES;
	size_t place = stage * SCALE_RANGES + (is_all ? 0 : range), n = 0;
	size_t end = s->begin[place + (is_all ? SCALE_RANGES : 1)];

	for (size_t i = s->begin[place]; i < end; i++) {
		const struct kept_scale *k = &s->rows[i];
		double v = value_of(k, what);

		/* Of one node, or of no time, there is no ratio. */
		if (what != SCALE_MAX_MEDIAN || (k->nodes > 1 && v > 0))
			s->room[n++] = v;
	}
	return spread_json(s->room, n);
}

static json_t *jobs_json(struct scale_sums *s, unsigned int range)
{
	const struct scale_job *j;
	size_t n = 0;

	for (j = s->jobs; j; j = j->hh.next)
		if (range_of(size_of(s, j->nodes, j->gpus)) == range)
			s->room[n++] = (double)j->starts;
	return spread_json(s->room, n);
}

static json_t *range_json(struct scale_sums *s, unsigned int range)
{
	int64_t from = INT64_C(1) << range;

	return json_pack("{s:I,s:I,s:o,s:o,s:o,s:o}", "from", (json_int_t)from,
			 "to",
			 (json_int_t)(range == SCALE_RANGES - 1 ? 0
								: 2 * from - 1),
			 "job_s", rows_json(s, 0, range, SCALE_JOB_S), "node_s",
			 rows_json(s, 0, range, SCALE_NODE_S), "max_median",
			 rows_json(s, 0, range, SCALE_MAX_MEDIAN),
			 "starts_of_job", jobs_json(s, range));
}

static json_t *stage_json(struct scale_sums *s, uint32_t stage)
{
	json_t *ranges = json_array();

	for (unsigned int k = 0; k < SCALE_RANGES; k++)
		(void)json_array_append_new(ranges,
					    rows_json(s, stage, k,
						      SCALE_MAX_MEDIAN));
	return json_pack("{s:s,s:o,s:o,s:o}", "stage", s->stages[stage],
			 "job_s",
			 rows_json(s, stage, SCALE_RANGES, SCALE_JOB_S),
			 "node_s",
			 rows_json(s, stage, SCALE_RANGES, SCALE_NODE_S),
			 "max_median", ranges);
}

json_t *scale_sums_json(struct scale_sums *s)
{
	size_t n_jobs = HASH_COUNT(s->jobs), starts = 0;
	json_t *ranges, *stages;

	free(s->room);
	s->room = calloc((s->n > n_jobs ? s->n : n_jobs) + 1, sizeof(double));
	if (!s->room)
		return NULL;
	sort_rows(s);
	ranges = json_array();
	stages = json_array();
	for (size_t i = 0; i < s->n; i++)
		starts += s->rows[i].stage == 0;
	for (unsigned int k = 0; k < SCALE_RANGES; k++)
		(void)json_array_append_new(ranges, range_json(s, k));
	for (uint32_t i = 1; i <= s->n_stages; i++)
		(void)json_array_append_new(stages, stage_json(s, i));
	return json_pack("{s:s,s:I,s:I,s:o,s:o}", "unit",
			 s->has_gpus && starts ? "gpus" : "nodes", "starts",
			 (json_int_t)starts, "jobs", (json_int_t)n_jobs,
			 "ranges", ranges, "stages", stages);
}
