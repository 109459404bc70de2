// SPDX-License-Identifier: Apache-2.0
/* Analyses checkpoint loads and saves: nodes, rounds, sums. */
#include "profiler/start_ckpt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/start_priv.h"

#define NS_PER_MS INT64_C(1000000)
#define SUM_MAX (UINT64_C(1) << 62)

static const char *const stages[START_CKPT_KINDS] = {
	[START_CKPT_LOADS] = START_CKPT_LOAD,
	[START_CKPT_SAVES] = START_CKPT_SAVE,
};

/* --------------------------------------------------------------------- sums --- */

/* Add with an upper bound: nodes may report any number, but the database must be able to store the
 * sum. */
static void add_bounded_number(uint64_t *sum, uint64_t v)
{
	*sum = v < SUM_MAX - *sum ? *sum + v : SUM_MAX;
}

static void add_run(struct start_ckpt_sum *s, const struct start_report *r,
		    const struct start_run *run, enum start_ckpt_kind kind)
{
	static const struct start_facts none = { .v = { 0 } };
	const uint64_t *v = run->facts ? r->facts[run->facts - 1].v : none.v;

	s->runs++;
	s->open += run->is_open;
	if (kind == START_CKPT_SAVES) {
		add_bounded_number(&s->bytes, v[STAGE_FACT_SAVED_BYTES]);
	} else {
		add_bounded_number(&s->bytes, v[STAGE_FACT_ORIGIN_BYTES]);
		add_bounded_number(&s->bytes, v[STAGE_FACT_PEER_BYTES]);
		add_bounded_number(&s->bytes, v[STAGE_FACT_CACHE_BYTES]);
	}
	if (run->duration_ns > 0)
		add_bounded_number(&s->run_ms,
				   (uint64_t)(run->duration_ns / NS_PER_MS));
	add_bounded_number(&s->wait_ms, v[STAGE_FACT_WAIT_MS]);
	add_bounded_number(&s->queue_ms, v[STAGE_FACT_QUEUE_MS]);
	add_bounded_number(&s->storage_ms, v[STAGE_FACT_STORAGE_MS]);
	add_bounded_number(&s->network_ms, v[STAGE_FACT_NETWORK_MS]);
}

static void add_sum(struct start_ckpt_sum *to, const struct start_ckpt_sum *s)
{
	to->runs += s->runs;
	to->open += s->open;
	add_bounded_number(&to->bytes, s->bytes);
	add_bounded_number(&to->run_ms, s->run_ms);
	add_bounded_number(&to->wait_ms, s->wait_ms);
	add_bounded_number(&to->queue_ms, s->queue_ms);
	add_bounded_number(&to->storage_ms, s->storage_ms);
	add_bounded_number(&to->network_ms, s->network_ms);
}

uint64_t start_ckpt_rate(uint64_t bytes, int64_t ns)
{
	double rate = ns > 0 ? (double)bytes / ((double)ns / 1e9) : 0;

	return rate < (double)SUM_MAX ? (uint64_t)rate : SUM_MAX;
}

/* -------------------------------------------------------------------- nodes --- */

static int compare_nodes_slow_first(const void *x, const void *y, void *arg)
{
	const struct start_node *names = arg;
	const struct start_ckpt_node *a = x, *b = y;

	if (a->duration_ns != b->duration_ns)
		return a->duration_ns > b->duration_ns ? -1 : 1;
	return strcmp(names[a->node].name, names[b->node].name);
}

/* Make the nodes of a part from the stage's cells, which are contiguous. */
static int make_nodes(const struct start_report *r,
		      const struct start_cell *cells, size_t n,
		      enum start_ckpt_kind kind, struct start_ckpt_part *p)
{
	p->nodes = calloc(n + 1, sizeof(*p->nodes));
	if (!p->nodes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct start_cell *c = &cells[i];
		struct start_ckpt_node *to = &p->nodes[p->n_nodes++];

		*to = (struct start_ckpt_node){
			.node = c->node,
			.duration_ns = c->duration_ns,
			.is_straggler = c->is_straggler,
		};
		for (uint32_t k = 0; k < c->runs; k++)
			add_run(&to->sum, r, &r->runs[r->by_cell[c->first + k]],
				kind);
		add_sum(&p->sum, &to->sum);
	}
	qsort_r(p->nodes, p->n_nodes, sizeof(*p->nodes),
		compare_nodes_slow_first, r->nodes);
	return 0;
}

/* ------------------------------------------------------------------- rounds --- */

/* The time from the begin to the end of a run. */
struct ckpt_span {
	int64_t begin_ns, end_ns;
};

static int compare_spans_by_begin(const void *x, const void *y, void *arg)
{
	const struct ckpt_span *a = x, *b = y;

	(void)arg;
	return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* Compute how long each node took in a round; `runs` are sorted by node and rank. */
static void time_nodes(const struct start_report *r, const uint32_t *runs,
		       size_t n, int64_t *room, struct start_ckpt_round *ret)
{
	struct start_spread spread;
	int64_t of_rank = 0, of_node = 0;
	size_t n_timed = 0;

	for (size_t i = 0; i < n; i++) {
		const struct start_run *run = &r->runs[runs[i]];
		const struct start_run *next =
			i + 1 < n ? &r->runs[runs[i + 1]] : NULL;

		of_rank += run->duration_ns;
		if (next && next->node == run->node && next->rank == run->rank)
			continue;
		if (of_rank > of_node)
			of_node = of_rank;
		of_rank = 0;
		if (next && next->node == run->node)
			continue;
		if (!ret->nodes++ || of_node > ret->max_ns) {
			ret->max_ns = of_node;
			ret->slowest = run->node;
		}
		/* Skip a node without an ended run: its time is unknown. */
		if (of_node > 0)
			room[n_timed++] = of_node;
		of_node = 0;
	}
	start_spread_of(room, n_timed, &spread);
	ret->median_ns = spread.median_ns;
	ret->max_median = spread.max_median;
}

static void make_round(const struct start_report *r, const uint32_t *runs,
		       size_t n, int64_t *room, enum start_ckpt_kind kind,
		       struct start_ckpt_round *to)
{
	for (size_t i = 0; i < n; i++)
		add_run(&to->sum, r, &r->runs[runs[i]], kind);
	time_nodes(r, runs, n, room, to);
}

/* Find the begins and ends of rounds from the spans of all runs; sorts the spans. */
static void find_rounds(struct ckpt_span *v, size_t n,
			struct start_ckpt_part *p)
{
	struct start_ckpt_round *to = NULL;

	start_sort(v, n, sizeof(*v), compare_spans_by_begin, NULL);
	for (size_t i = 0; i < n; i++) {
		if (!to || v[i].begin_ns - to->end_ns > START_CKPT_PAUSE_NS) {
			to = &p->rounds[p->n_rounds++];
			*to = (struct start_ckpt_round){
				.begin_ns = v[i].begin_ns,
				.end_ns = v[i].end_ns,
			};
		} else if (v[i].end_ns > to->end_ns) {
			to->end_ns = v[i].end_ns;
		}
	}
}

/* The last round that began at or before `begin_ns`. */
static uint32_t find_round_at(const struct start_ckpt_part *p, int64_t begin_ns)
{
	size_t lo = 0, hi = p->n_rounds;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->rounds[mid].begin_ns <= begin_ns)
			lo = mid;
		else
			hi = mid;
	}
	return (uint32_t)lo;
}

/*
 * Copy `runs` to `to`, grouped by round; within a round the order (node and rank) is kept. `at`
 * gets the index where each round begins. A counting sort, since there are many runs.
 */
static void group_by_round(const struct start_report *r,
			   const struct start_ckpt_part *p,
			   const uint32_t *runs, size_t n, uint32_t *of,
			   size_t *at, uint32_t *to)
{
	for (size_t i = 0; i < n; i++) {
		of[i] = find_round_at(p, r->runs[runs[i]].begin_ns);
		at[of[i] + 1]++;
	}
	for (size_t i = 1; i <= p->n_rounds; i++)
		at[i] += at[i - 1];
	for (size_t i = 0; i < n; i++)
		to[at[of[i]]++] = runs[i];
	/* at[i] now is where round i + 1 begins: shift by one. */
	for (size_t i = p->n_rounds; i > 0; i--)
		at[i] = at[i - 1];
	at[0] = 0;
}

/* Make the rounds of a stage; `runs` are all its runs, by node and rank. */
static int make_rounds(const struct start_report *r, const uint32_t *runs,
		       size_t n, enum start_ckpt_kind kind,
		       struct start_ckpt_part *p)
{
	AUTO_FREE struct ckpt_span *spans = calloc(n + 1, sizeof(*spans));
	AUTO_FREE int64_t *room = calloc(n + 1, sizeof(*room));
	AUTO_FREE uint32_t *of = calloc(n + 1, sizeof(*of));
	AUTO_FREE uint32_t *by_round = calloc(n + 1, sizeof(*by_round));
	AUTO_FREE size_t *at = calloc(n + 2, sizeof(*at));
	struct start_ckpt_round *few;

	p->rounds = calloc(n + 1, sizeof(*p->rounds));
	if (!spans || !room || !of || !by_round || !at || !p->rounds)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		spans[i] = (struct ckpt_span){ r->runs[runs[i]].begin_ns,
					       r->runs[runs[i]].end_ns };
	find_rounds(spans, n, p);
	/* Shrink the array, which has room for one round per run: there are few rounds, and they
	 * may be kept for long. */
	few = realloc(p->rounds, p->n_rounds * sizeof(*p->rounds));
	p->rounds = few ? few : p->rounds;
	group_by_round(r, p, runs, n, of, at, by_round);
	for (size_t i = 0; i < p->n_rounds; i++) {
		struct start_ckpt_round *to = &p->rounds[i];

		make_round(r, by_round + at[i], at[i + 1] - at[i], room, kind,
			   to);
		p->job_ns += to->end_ns - to->begin_ns;
		p->end_ns = to->end_ns;
	}
	p->begin_ns = p->rounds[0].begin_ns;
	return 0;
}

/* --------------------------------------------------------------------- make --- */

static int make_part(const struct start_report *r, uint32_t stage,
		     enum start_ckpt_kind kind, struct start_ckpt_part *p)
{
	size_t first = 0, n, n_runs = 0;
	int rc;

	while (first < r->n_cells && r->cells[first].stage != stage)
		first++;
	for (n = 0; first + n < r->n_cells; n++) {
		if (r->cells[first + n].stage != stage)
			break;
		n_runs += r->cells[first + n].runs;
	}
	if (!n_runs)
		return 0;
	p->spread = r->stages[stage].spread;
	p->stragglers = r->stages[stage].stragglers;
	rc = make_nodes(r, &r->cells[first], n, kind, p);
	return rc == 0 ? make_rounds(r, &r->by_cell[r->cells[first].first],
				     n_runs, kind, p)
		       : rc;
}

int start_ckpt_make(const struct start_report *r, struct start_ckpt *ret,
		    struct error *err)
{
	int rc = 0;

	*ret = (struct start_ckpt){ .part = { { .n_nodes = 0 } } };
	for (int kind = 0; kind < START_CKPT_KINDS; kind++) {
		ret->part[kind].stage = stages[kind];
		for (uint32_t i = 0; rc == 0 && i < r->n_stages; i++)
			if (strcmp(r->stages[i].name, stages[kind]) == 0)
				rc = make_part(r, i, kind, &ret->part[kind]);
	}
	if (rc < 0) {
		start_ckpt_fini(ret);
		return error_nomem(err);
	}
	return 0;
}

void start_ckpt_fini(struct start_ckpt *c)
{
	for (int kind = 0; kind < START_CKPT_KINDS; kind++) {
		free(c->part[kind].nodes);
		free(c->part[kind].rounds);
	}
	*c = (struct start_ckpt){ .part = { { .n_nodes = 0 } } };
}
