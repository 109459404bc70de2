// SPDX-License-Identifier: Apache-2.0
/* Computes durations of stages and nodes, their spread, and the stragglers. */
#include "profiler/start_report.h"

#include <errno.h>
#include <string.h>

#include "common/compare.h"
#include "profiler/start_priv.h"

/*
 * A straggler takes longer than the median by at least a quarter, a second, and six times the
 * median deviation (four standard deviations of normal noise). Where all nodes differ widely, none
 * is a straggler.
 */
#define BOUND_SHARE 4
#define BOUND_LEAST_NS INT64_C(1000000000)
#define BOUND_DEVIATIONS 6
#define BOUND_NODES_FEW 64
/* bound that keeps the product from overflowing */
#define BOUND_MOST_NS (INT64_C(1) << 57)
#define BOUND_NODES_MIN 3 /* with fewer nodes a median means nothing */

/* ------------------------------------------------------------------- spread --- */

/* The quantile `q` of sorted `v`, interpolated between the two nearest values. */
static int64_t quantile_of(const int64_t *v, size_t n, double q)
{
	double at = q * (double)(n - 1);
	size_t i = (size_t)at;

	if (i + 1 >= n)
		return v[n - 1];
	return v[i] + (int64_t)((double)(v[i + 1] - v[i]) * (at - (double)i));
}

/* How many deviations make a straggler: one more for each doubling of nodes, because among more
 * nodes one is far off by chance. */
static int64_t deviations_for(size_t n)
{
	int64_t k = BOUND_DEVIATIONS;

	for (; n > BOUND_NODES_FEW; n /= 2)
		k++;
	return k;
}

void start_spread_of(int64_t *v, size_t n, struct start_spread *ret)
{
	int64_t more, least;

	*ret = (struct start_spread){ .n = n, .bound_ns = INT64_MAX };
	if (!n)
		return;
	qsort(v, n, sizeof(*v), compare_i64);
	ret->min_ns = v[0];
	ret->p25_ns = quantile_of(v, n, 0.25);
	ret->median_ns = quantile_of(v, n, 0.5);
	ret->p75_ns = quantile_of(v, n, 0.75);
	ret->p90_ns = quantile_of(v, n, 0.9);
	ret->p95_ns = quantile_of(v, n, 0.95);
	ret->p99_ns = quantile_of(v, n, 0.99);
	ret->max_ns = v[n - 1];
	if (ret->median_ns > 0)
		ret->max_median = (double)ret->max_ns / (double)ret->median_ns;
	if (n < BOUND_NODES_MIN)
		return;
	for (size_t i = 0; i < n; i++)
		v[i] = llabs(v[i] - ret->median_ns);
	qsort(v, n, sizeof(*v), compare_i64);
	more = quantile_of(v, n, 0.5);
	if (more > BOUND_MOST_NS)
		more = BOUND_MOST_NS;
	more *= deviations_for(n);
	least = ret->median_ns / BOUND_SHARE;
	if (least < BOUND_LEAST_NS)
		least = BOUND_LEAST_NS;
	ret->bound_ns = ret->median_ns + (more > least ? more : least);
}

/* -------------------------------------------------------------------- cells --- */

/* Sort runs by stage; they are already sorted by node, rank and begin. */
static int sort_runs_by_stage(struct start_report *r)
{
	AUTO_FREE uint32_t *at = calloc(r->n_stages + 1, sizeof(*at));
	uint32_t *order = calloc(r->n_runs + 1, sizeof(*order));

	r->by_cell = order;
	if (!at || !order)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_runs; i++)
		at[r->runs[i].stage + 1]++;
	for (size_t i = 1; i < r->n_stages; i++)
		at[i] += at[i - 1];
	for (size_t i = 0; i < r->n_runs; i++)
		order[at[r->runs[i].stage]++] = (uint32_t)i;
	return 0;
}

static void add_to_cell(struct start_cell *c, const struct start_run *run)
{
	if (c->runs == 0 || run->begin_ns < c->begin_ns)
		c->begin_ns = run->begin_ns;
	if (c->runs == 0 || run->end_ns > c->end_ns)
		c->end_ns = run->end_ns;
	if (run->attempt > c->attempts)
		c->attempts = run->attempt;
	c->runs++;
	c->open += run->is_open;
}

static void make_cells(struct start_report *r)
{
	const struct start_run *last = NULL;
	struct start_cell *c = NULL;
	int64_t of_rank = 0;

	for (size_t i = 0; i < r->n_runs; i++) {
		const struct start_run *run = &r->runs[r->by_cell[i]];

		if (!last || last->stage != run->stage ||
		    last->node != run->node) {
			c = &r->cells[r->n_cells++];
			*c = (struct start_cell){ .stage = run->stage,
						  .node = run->node,
						  .first = (uint32_t)i };
			of_rank = 0;
		} else if (last->rank != run->rank) {
			of_rank = 0;
		}
		of_rank += run->duration_ns;
		if (of_rank > c->duration_ns)
			c->duration_ns = of_rank;
		add_to_cell(c, run);
		last = run;
	}
}

static bool has_duration(const struct start_cell *c)
{
	return c->runs > c->open;
}

/* Sum up the `n` cells of a stage. */
static void sum_stage(struct start_report *r, struct start_cell *c, size_t n,
		      int64_t *room)
{
	struct start_stage *s = &r->stages[c->stage];
	size_t k = 0;

	s->begin_ns = c->begin_ns;
	s->end_ns = c->end_ns;
	for (size_t i = 0; i < n; i++) {
		if (c[i].begin_ns < s->begin_ns)
			s->begin_ns = c[i].begin_ns;
		if (c[i].end_ns > s->end_ns)
			s->end_ns = c[i].end_ns;
		s->open += c[i].open;
		if (has_duration(&c[i]))
			room[k++] = c[i].duration_ns;
	}
	s->job_ns = s->end_ns - s->begin_ns;
	start_spread_of(room, k, &s->spread);
	for (size_t i = 0; i < n; i++) {
		c[i].is_straggler = has_duration(&c[i]) &&
				    c[i].duration_ns > s->spread.bound_ns;
		s->stragglers += c[i].is_straggler;
	}
}

static int sum_stages(struct start_report *r)
{
	AUTO_FREE int64_t *room = calloc(r->n_runs + 1, sizeof(*room));
	size_t from = 0;

	r->cells = calloc(r->n_runs + 1, sizeof(*r->cells));
	if (!room || !r->cells || sort_runs_by_stage(r) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_runs; i++)
		r->stages[r->runs[i].stage].tops += r->runs[i].is_top;
	for (size_t i = 0; i < r->n_stages; i++)
		r->stages[i].is_top =
			r->stages[i].tops &&
			2 * r->stages[i].tops >= r->stages[i].runs;
	make_cells(r);
	for (size_t i = 1; i <= r->n_cells; i++) {
		if (i < r->n_cells && r->cells[i].stage == r->cells[from].stage)
			continue;
		sum_stage(r, r->cells + from, i - from, room);
		from = i;
	}
	return 0;
}

/* -------------------------------------------------------------------- nodes --- */

static int compare_runs_by_node(const void *x, const void *y, void *arg)
{
	const struct start_run *runs = arg;
	const struct start_run *a = &runs[*(const uint32_t *)x],
			       *b = &runs[*(const uint32_t *)y];

	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* Stages in which a node waits for its GPUs (paper, 3.2), and last the image stage. */
static const char *const placing[] = { "queue", "schedule", "allocate",
				       "image" };
#define PLACING_QUEUES 3u

/* Is it one of the first `n` of `placing`, or a part of one (name.part)? */
static bool is_placing(struct stage_text stage, size_t n)
{
	const char *dot = memchr(stage.s, '.', stage.n);
	size_t len = dot ? (size_t)(dot - stage.s) : stage.n;

	for (size_t i = 0; i < n; i++)
		if (strlen(placing[i]) == len &&
		    memcmp(placing[i], stage.s, len) == 0)
			return true;
	return false;
}

static bool is_queue(const char *stage)
{
	return is_placing(stage_text(stage), PLACING_QUEUES);
}

bool start_stage_is_placing(struct stage_text stage)
{
	return is_placing(stage, ARRAY_SIZE(placing));
}

enum start_class start_class_of(bool is_placed, bool was_placed)
{
	return was_placed && !is_placed ? START_HOT_UPDATE : START_FULL;
}

const char *start_class_name(enum start_class c)
{
	return c == START_HOT_UPDATE ? "hot_update" : "full";
}

/* Sum up the time in which some rank of the node was in a stage, without waits for others. */
static void sum_node(struct start_report *r, const uint32_t *order, size_t n)
{
	struct start_node *node = &r->nodes[r->runs[order[0]].node];
	int64_t until = INT64_MIN;

	node->begin_ns = r->runs[order[0]].begin_ns;
	for (size_t i = 0; i < n; i++) {
		const struct start_run *run = &r->runs[order[i]];
		int64_t from = run->begin_ns, end = from + run->duration_ns;
		int64_t before, more;

		if (run->end_ns > node->end_ns)
			node->end_ns = run->end_ns;
		if (!run->is_top || run->is_wait || end <= until)
			continue;
		if (from < until)
			from = until;
		more = end - from;
		before = node->open_ns - from;
		node->busy_ns += more;
		if (before > 0)
			node->busy_before_ns += before < more ? before : more;
		if (is_queue(r->stages[run->stage].name))
			node->queued_ns += more;
		until = end;
	}
}

static int sum_nodes(struct start_report *r)
{
	AUTO_FREE uint32_t *order = calloc(r->n_runs + 1, sizeof(*order));
	AUTO_FREE int64_t *busy = calloc(r->n_nodes + 1, sizeof(*busy));
	size_t from = 0, k = 0;

	if (!order || !busy)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_runs; i++)
		order[i] = (uint32_t)i;
	start_sort(order, r->n_runs, sizeof(*order), compare_runs_by_node,
		   r->runs);
	for (size_t i = 1; i <= r->n_runs; i++) {
		if (i < r->n_runs &&
		    r->runs[order[i]].node == r->runs[order[from]].node)
			continue;
		sum_node(r, order + from, i - from);
		from = i;
	}
	for (size_t i = 0; i < r->n_nodes; i++)
		if (r->nodes[i].busy_ns > 0)
			busy[k++] = r->nodes[i].busy_ns;
	start_spread_of(busy, k, &r->spread);
	for (size_t i = 0; i < r->n_nodes; i++)
		r->nodes[i].is_straggler =
			r->nodes[i].busy_ns > r->spread.bound_ns;
	return 0;
}

/* --------------------------------------------------------------------- lost --- */

/* Set the range of runs of each node, and its GPUs; runs are sorted by node. */
static void index_nodes(struct start_report *r)
{
	for (size_t i = 0; i < r->n_runs; i++) {
		const struct start_run *run = &r->runs[i];
		struct start_node *n = &r->nodes[run->node];
		uint64_t gpus =
			run->facts ? r->facts[run->facts - 1].v[STAGE_FACT_GPUS]
				   : 0;

		if (!n->n_runs++)
			n->first_run = (uint32_t)i;
		if (gpus > n->gpus && gpus <= START_GPUS_MAX)
			n->gpus = gpus;
	}
}

/* Set when each node got its GPUs: at the end of its queueing, or at its first event. */
static void set_gpu_held_times(struct start_report *r)
{
	for (size_t i = 0; i < r->n_runs; i++) {
		const struct start_run *run = &r->runs[i];
		struct start_node *n = &r->nodes[run->node];

		if (is_queue(r->stages[run->stage].name)) {
			int64_t end = run->goes_on ? INT64_MAX : run->end_ns;

			n->held_ns = end > n->held_ns ? end : n->held_ns;
		}
	}
	for (size_t i = 0; i < r->n_nodes; i++)
		if (!r->nodes[i].held_ns)
			r->nodes[i].held_ns = r->nodes[i].begin_ns;
}

void start_lost_until(const struct start_report *r, int64_t end_ns,
		      struct start_lost *ret)
{
	*ret = (struct start_lost){ .node_s = 0 };
	for (size_t i = 0; i < r->n_nodes; i++) {
		const struct start_node *n = &r->nodes[i];
		int64_t own_ns = n->busy_ns;
		double all, busy;

		if (!n->n_runs || n->held_ns >= end_ns)
			continue;
		if (end_ns > r->end_ns)
			own_ns = start_node_busy(r, n, end_ns);
		all = (double)(end_ns - n->held_ns) / 1e9;
		busy = (double)(own_ns - n->queued_ns) / 1e9;
		ret->node_s += all;
		ret->wait_s += all > busy ? all - busy : 0;
		ret->gpu_s += all * (double)n->gpus;
	}
	if (r->is_ready && r->over_ns > r->end_ns)
		ret->job_share = (double)(r->end_ns - r->begin_ns) /
				 (double)(r->over_ns - r->begin_ns);
}

/* ------------------------------------------------------------------- report --- */

static int make_names(const struct start_set *s, struct start_report *r)
{
	r->n_stages = s->stages.n;
	r->n_nodes = s->nodes.n;
	r->stages = calloc(r->n_stages + 1, sizeof(*r->stages));
	r->nodes = calloc(r->n_nodes + 1, sizeof(*r->nodes));
	r->runs = calloc(s->n_events + 1, sizeof(*r->runs));
	if (!r->stages || !r->nodes || !r->runs)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_stages; i++)
		r->stages[i].name = s->stages.v[i]->s;
	for (size_t i = 0; i < r->n_nodes; i++)
		r->nodes[i].name = s->nodes.v[i]->s;
	return 0;
}

static int make_runs(struct start_set *s, struct start_report *ret)
{
	int rc;

	*ret = (struct start_report){ .facts = s->facts };
	rc = make_names(s, ret);
	if (rc == 0)
		rc = start_set_align(s);
	return rc == 0 ? start_pair(s, ret) : rc;
}

int start_report_make(struct start_set *s, struct start_report *ret,
		      struct error *err)
{
	int rc = make_runs(s, ret);

	if (rc == 0)
		rc = start_nest(ret);
	if (rc == 0)
		rc = sum_stages(ret);
	if (rc == 0)
		rc = start_find_waits(ret);
	if (rc == 0)
		rc = start_find_failures(ret);
	if (rc == 0)
		rc = sum_nodes(ret);
	if (rc == 0)
		rc = start_find_path(ret);
	if (rc == 0) {
		index_nodes(ret);
		set_gpu_held_times(ret);
		start_lost_until(ret, ret->end_ns, &ret->lost);
	}
	if (rc < 0) {
		start_report_fini(ret);
		return error_nomem(err);
	}
	return 0;
}

int start_report_make_stages(struct start_set *s, struct start_report *ret,
			     struct error *err)
{
	int rc = make_runs(s, ret);

	if (rc == 0)
		rc = sum_stages(ret);
	if (rc < 0) {
		start_report_fini(ret);
		return error_nomem(err);
	}
	return 0;
}

void start_report_fini(struct start_report *r)
{
	free(r->runs);
	free(r->stages);
	free(r->nodes);
	free(r->cells);
	free(r->by_cell);
	free(r->path);
	free(r->waits);
	free(r->failures);
	*r = (struct start_report){ .begin_ns = 0 };
}
