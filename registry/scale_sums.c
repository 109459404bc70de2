// SPDX-License-Identifier: Apache-2.0
#include "registry/scale_sums.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/compare.h"
#include "common/hash.h"

struct kept_scale {
	uint32_t stage; /* index of the stage; 0: the whole start */
	/* Set at the end: the row's place among the stages that are shown; SCALE_STAGES_MAX + 1:
	 * the stage is not shown. */
	uint32_t place;
	uint32_t range;
	int64_t nodes, gpus, job_ms, median_ms, max_ms;
};

struct scale_stage {
	char *name;
	uint32_t index;
	/* starts of several nodes with this stage; all starts with it */
	uint64_t large, all;
	/* place among the stages that are shown, as in a row */
	uint32_t place;
	UT_hash_handle hh;
};

/* A job: its number of starts, and the size of its largest start. */
struct scale_job {
	char *name;
	int64_t starts, nodes, gpus;
	UT_hash_handle hh;
};

struct scale_sums {
	struct kept_scale *rows;
	size_t n, cap;
	/* last_stage: stage of the row added before */
	struct scale_stage *stages, *last_stage;
	struct scale_job *jobs;
	/* Starts of several nodes, starts of one node; and how many of each report their GPUs. */
	size_t large, small, large_gpus, small_gpus;
	/* Set at the end: whether sizes are numbers of GPUs; where the rows of each stage and
	 * range begin; the stages that are shown; and room for as many numbers as there are rows
	 * or jobs. */
	bool by_gpus;
	size_t begin[(SCALE_STAGES_MAX + 1) * SCALE_RANGES + 1];
	const struct scale_stage *told[SCALE_STAGES_MAX + 1];
	uint32_t n_told;
	double *room;
};

int scale_sums_new(struct scale_sums **ret, struct error *err)
{
	struct scale_sums *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	*ret = s;
	return 0;
}

void scale_sums_free(struct scale_sums *s)
{
	struct scale_stage *stage, *next_stage;
	struct scale_job *j, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->stages, stage, next_stage)
	{
		HASH_DEL(s->stages, stage);
		free(stage->name);
		free(stage);
	}
	HASH_ITER(hh, s->jobs, j, next)
	{
		HASH_DEL(s->jobs, j);
		free(j->name);
		free(j);
	}
	free(s->rows);
	free(s->room);
	free(s);
}

/* Find or add a stage. Returns 0 with `*ret` NULL if there are too many. */
static int find_or_add_stage(struct scale_sums *s, const char *name,
			     struct scale_stage **ret)
{
	struct scale_stage *last = s->last_stage, *g;

	/* Try the stage after the last one first: most starts have the same stages in the same
	 * order. */
	g = last ? last->hh.next : s->stages;
	if (!g || strcmp(g->name, name) != 0)
		HASH_FIND_STR(s->stages, name, g);
	*ret = s->last_stage = g;
	if (g || HASH_COUNT(s->stages) >= SCALE_NAMES_MAX)
		return 0;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->index = HASH_COUNT(s->stages) + 1;
	g->name = strdup(name);
	if (g->name)
		HASH_ADD_KEYPTR(hh, s->stages, g->name, strlen(g->name), g);
	if (!g->name || !hash_has_added(g)) {
		free(g->name);
		free(g);
		return -ENOMEM;
	}
	*ret = s->last_stage = g;
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

static void count_start(struct scale_sums *s, const struct scale_row *r)
{
	if (r->nodes > 1) {
		s->large++;
		s->large_gpus += r->gpus > 0;
	} else {
		s->small++;
		s->small_gpus += r->gpus > 0;
	}
}

int scale_sums_add(struct scale_sums *s, const struct scale_row *r)
{
	struct kept_scale k = { .nodes = r->nodes,
				.gpus = r->gpus,
				.job_ms = r->job_ms,
				.median_ms = r->median_ms,
				.max_ms = r->max_ms };
	struct scale_stage *stage = NULL;
	int rc = s->n == SCALE_ROWS_MAX ? -ECANCELED : 0;

	if (rc == 0 && !r->stage[0]) {
		s->last_stage = NULL;
		count_start(s, r);
		rc = add_job(s, r);
	} else if (rc == 0) {
		rc = find_or_add_stage(s, r->stage, &stage);
		if (rc == 0 && !stage)
			return 0;
	}
	if (rc < 0)
		return rc;
	if (stage) {
		stage->large += r->nodes > 1;
		stage->all++;
		k.stage = stage->index;
	}
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

static unsigned int range_index_of(int64_t n)
{
	unsigned int k = 0;

	while (n > 1 && k < SCALE_RANGES - 1) {
		n /= 2;
		k++;
	}
	return k;
}

/* The spread of `n` numbers, which are sorted in place; null if there are none. */
static json_t *spread_json(double *v, size_t n)
{
	if (!n)
		return json_null();
	qsort(v, n, sizeof(*v), compare_doubles);
	return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f}", "n", (json_int_t)n, "min",
			 v[0], "p25", v[(n - 1) / 4], "median", v[(n - 1) / 2],
			 "p75", v[(n - 1) * 3 / 4], "max", v[n - 1]);
}

enum scale_value {
	SCALE_JOB_S,
	SCALE_NODE_S,
	SCALE_MAX_MEDIAN,
};

static double value_of_scale(const struct kept_scale *k, enum scale_value what)
{
	if (what == SCALE_JOB_S)
		return (double)k->job_ms / 1e3;
	if (what == SCALE_NODE_S)
		return (double)k->median_ms / 1e3;
	return k->median_ms > 0 ? (double)k->max_ms / (double)k->median_ms : 0;
}

static int64_t size_of_job(const struct scale_sums *s, int64_t nodes,
			   int64_t gpus)
{
	return s->by_gpus ? gpus : nodes;
}

static int compare_scales_by_place(const void *x, const void *y)
{
	const struct kept_scale *a = x, *b = y;

	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	return (a->range > b->range) - (a->range < b->range);
}

static int compare_stages_by_starts(struct scale_stage *a,
				    struct scale_stage *b)
{
	if (a->large != b->large)
		return a->large < b->large ? 1 : -1;
	if (a->all != b->all)
		return a->all < b->all ? 1 : -1;
	return (a->index > b->index) - (a->index < b->index);
}

static int compare_stages_by_index(struct scale_stage *a, struct scale_stage *b)
{
	return (a->index > b->index) - (a->index < b->index);
}

/* Choose the stages that most starts have, in the order in which they were added. */
static void choose_stages(struct scale_sums *s, uint32_t *places)
{
	struct scale_stage *g;
	uint32_t n = 0;

	HASH_SORT(s->stages, compare_stages_by_starts);
	for (g = s->stages; g; g = g->hh.next)
		g->place = n++ < SCALE_STAGES_MAX ? 0 : SCALE_STAGES_MAX + 1;
	HASH_SORT(s->stages, compare_stages_by_index);
	s->n_told = 0;
	for (g = s->stages; g; g = g->hh.next) {
		if (g->place == 0) {
			g->place = ++s->n_told;
			s->told[g->place] = g;
		}
		places[g->index] = g->place;
	}
}

/* Is the row shown? If sizes are GPUs, a start that does not report its GPUs has no size. */
static bool has_place(const struct scale_sums *s, const struct kept_scale *k)
{
	return k->place <= SCALE_STAGES_MAX && (!s->by_gpus || k->gpus > 0);
}

static int sort_rows(struct scale_sums *s)
{
	size_t n_places = ARRAY_SIZE(s->begin) - 1, place = 0, n = 0;
	AUTO_FREE uint32_t *places =
		calloc(HASH_COUNT(s->stages) + 1, sizeof(*places));

	if (!places)
		return -ENOMEM;
	choose_stages(s, places);
	s->by_gpus = s->large ? s->large_gpus > s->large / 2
			      : s->small_gpus > s->small / 2;
	for (size_t i = 0; i < s->n; i++) {
		struct kept_scale *k = &s->rows[i];

		k->range = range_index_of(size_of_job(s, k->nodes, k->gpus));
		k->place = places[k->stage];
		if (has_place(s, k))
			n++;
		else
			k->place = SCALE_STAGES_MAX + 1;
	}
	if (s->n)
		qsort(s->rows, s->n, sizeof(*s->rows), compare_scales_by_place);
	for (size_t i = 0; i < n; i++)
		while (place <=
		       s->rows[i].place * SCALE_RANGES + s->rows[i].range)
			s->begin[place++] = i;
	while (place <= n_places)
		s->begin[place++] = n;
	return 0;
}

/* The spread of a value over the rows of a stage and range; `range` SCALE_RANGES: all ranges. */
static json_t *rows_json(struct scale_sums *s, uint32_t stage,
			 unsigned int range, enum scale_value what)
{
	bool is_all = range == SCALE_RANGES;
	size_t place = stage * SCALE_RANGES + (is_all ? 0 : range), n = 0;
	size_t end = s->begin[place + (is_all ? SCALE_RANGES : 1)];

	for (size_t i = s->begin[place]; i < end; i++) {
		const struct kept_scale *k = &s->rows[i];
		double v = value_of_scale(k, what);

		/* The ratio of slowest to median node means nothing for one node or a time of 0. */
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
		if ((!s->by_gpus || j->gpus > 0) &&
		    range_index_of(size_of_job(s, j->nodes, j->gpus)) == range)
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
	return json_pack("{s:s,s:o,s:o,s:o}", "stage", s->told[stage]->name,
			 "job_s",
			 rows_json(s, stage, SCALE_RANGES, SCALE_JOB_S),
			 "node_s",
			 rows_json(s, stage, SCALE_RANGES, SCALE_NODE_S),
			 "max_median", ranges);
}

json_t *scale_sums_json(struct scale_sums *s)
{
	size_t n_jobs = HASH_COUNT(s->jobs), starts = s->large + s->small;
	json_t *ranges, *stages;

	free(s->room);
	s->room = calloc((s->n > n_jobs ? s->n : n_jobs) + 1, sizeof(double));
	if (!s->room || sort_rows(s) < 0)
		return NULL;
	ranges = json_array();
	stages = json_array();
	for (unsigned int k = 0; k < SCALE_RANGES; k++)
		(void)json_array_append_new(ranges, range_json(s, k));
	for (uint32_t i = 1; i <= s->n_told; i++)
		(void)json_array_append_new(stages, stage_json(s, i));
	return json_pack("{s:s,s:I,s:I,s:I,s:o,s:o}", "unit",
			 s->by_gpus ? "gpus" : "nodes", "starts",
			 (json_int_t)starts, "starts_of_no_size",
			 (json_int_t)(s->by_gpus ? starts - s->large_gpus -
							   s->small_gpus
						 : 0),
			 "jobs", (json_int_t)n_jobs, "ranges", ranges, "stages",
			 stages);
}
