// SPDX-License-Identifier: Apache-2.0
/*
 * Pairs begins and ends to runs. A node has a track for each rank and one for itself. In a track,
 * an end belongs to the last open begin of its stage, and a further begin starts another attempt.
 */
#include <errno.h>
#include <string.h>

#include "profiler/start_priv.h"

static int compare_two_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_events(const void *x, const void *y, void *arg)
{
	const struct set_event *a = x, *b = y;
	int c = compare_two_numbers(a->node, b->node);

	(void)arg;

	if (c == 0)
		c = compare_two_numbers(a->rank, b->rank);
	if (c == 0)
		c = compare_two_numbers(a->at_ns, b->at_ns);
	if (c == 0)
		c = compare_two_numbers(a->stage, b->stage);
	if (c == 0)
		c = compare_two_numbers(a->ev, b->ev);
	if (c == 0)
		c = compare_two_numbers(a->mono_ns, b->mono_ns);
	/* The order must not depend on the order of arrival. */
	return c ? c : compare_two_numbers(a->ts_ns, b->ts_ns);
}

/* Are the two events copies of the same event? */
static bool are_copies(const struct set_event *a, const struct set_event *b)
{
	return compare_events(a, b, NULL) == 0;
}

/* State of one track: the index of a run, plus 1, for each stage. */
struct track {
	struct start_report *r;
	const struct set_event **begins;  /* begin event of each run */
	uint32_t *open, *last, *attempts; /* by stage; 0: none */
	size_t first;                     /* first run of the track */
};

static bool is_wait(const char *stage)
{
	const char *last = strrchr(stage, '.');

	if (last)
		stage = last + 1;
	return strcmp(stage, "wait") == 0 || strcmp(stage, "barrier") == 0;
}

/* Does the event begin a repetition, not another attempt? So if the last run succeeded, or is a
 * wait for other nodes that ended. */
static bool is_repetition(const struct track *t, const struct start_set *s,
			  const struct set_event *e)
{
	uint32_t last = t->last[e->stage];

	return last && (t->r->runs[last - 1].status == 0 ||
			(is_wait(s->stages.v[e->stage]->s) &&
			 !t->r->runs[last - 1].is_open));
}

static void begin_run(struct track *t, const struct start_set *s,
		      const struct set_event *e)
{
	struct start_report *r = t->r;
	struct start_stage *stage = &r->stages[e->stage];
	bool is_again = false;

	if (!is_repetition(t, s, e))
		is_again = t->attempts[e->stage]++ > 0;
	r->runs[r->n_runs] = (struct start_run){
		.stage = e->stage,
		.node = e->node,
		.rank = e->rank,
		.begin_ns = e->at_ns,
		.end_ns = e->at_ns,
		.status = STAGE_NONE,
		.attempt = t->attempts[e->stage],
		.is_open = true,
		.is_wait = is_wait(s->stages.v[e->stage]->s),
	};
	stage->runs++;
	stage->retries += is_again;
	t->begins[r->n_runs] = e;
	t->last[e->stage] = t->open[e->stage] = (uint32_t)++r->n_runs;
}

static void end_run(struct track *t, const struct set_event *e)
{
	uint32_t at = t->open[e->stage];
	bool is_after = e->at_ns > t->r->end_ns;
	const struct set_event *b;
	struct start_run *run;

	if (!at) {
		/* A run that begins after the end of the start is not part of it. */
		t->r->stages[e->stage].lost_begins += !is_after;
		return;
	}
	if (is_after) {
		t->r->runs[at - 1].is_late = true;
		return;
	}
	run = &t->r->runs[at - 1];
	b = t->begins[at - 1];
	run->is_open = false;
	run->end_ns = e->at_ns;
	run->status = e->status;
	run->facts = e->facts ? e->facts : b->facts;
	run->duration_ns =
		b->mono_ns >= 0 && e->mono_ns >= 0 && b->boot == e->boot
			? e->mono_ns - b->mono_ns
			: e->at_ns - b->at_ns;
	t->open[e->stage] = 0;
}

/* Go on to another track; runs that are open in the last one stay open. */
static void begin_next_track(struct track *t)
{
	for (size_t i = t->first; i < t->r->n_runs; i++) {
		t->open[t->r->runs[i].stage] = 0;
		t->last[t->r->runs[i].stage] = 0;
		t->attempts[t->r->runs[i].stage] = 0;
	}
	t->first = t->r->n_runs;
}

static void pair_events_to_runs(struct start_set *s, struct track *t)
{
	const struct set_event *last = NULL;

	for (size_t i = 0; i < s->n_events; i++) {
		const struct set_event *e = &s->events[i];

		if (last && are_copies(last, e))
			continue;
		if (last && (last->node != e->node || last->rank != e->rank))
			begin_next_track(t);
		last = e;
		/* A run that begins after the end of the start is not part of it. */
		if (e->ev == STAGE_BEGIN && e->at_ns <= t->r->end_ns)
			begin_run(t, s, e);
		else if (e->ev == STAGE_END)
			end_run(t, e);
	}
	begin_next_track(t);
}

/* Find the start's begin and end: from the first event to the last mark that training begins, or to
 * the last event. */
static void find_begin_and_end_of_start(const struct start_set *s,
					struct start_report *r)
{
	for (size_t i = 0; i < s->n_events; i++) {
		const struct set_event *e = &s->events[i];
		bool mark =
			e->ev == STAGE_MARK &&
			strcmp(s->stages.v[e->stage]->s, START_READY_MARK) == 0;

		if (i == 0 || e->at_ns < r->begin_ns)
			r->begin_ns = e->at_ns;
		if (i == 0 || mark > r->is_ready ||
		    (mark == r->is_ready && e->at_ns > r->end_ns))
			r->end_ns = e->at_ns;
		r->is_ready |= mark;
		r->nodes[e->node].has_mark |= mark;
		if (e->at_ns > r->nodes[e->node].last_ns)
			r->nodes[e->node].last_ns = e->at_ns;
		if (e->ev == STAGE_MARK && e->at_ns > r->over_ns &&
		    strcmp(s->stages.v[e->stage]->s, START_OVER_MARK) == 0)
			r->over_ns = e->at_ns;
	}
}

/* Sort events within each node; start_set_align() has grouped them by node. */
static void sort_events(struct start_set *s)
{
	size_t from = 0;

	for (size_t i = 1; i <= s->n_events; i++) {
		if (i < s->n_events &&
		    s->events[i].node == s->events[from].node)
			continue;
		start_sort(s->events + from, i - from, sizeof(*s->events),
			   compare_events, NULL);
		from = i;
	}
}

int start_pair(struct start_set *s, struct start_report *r)
{
	AUTO_FREE const struct set_event **begins =
		calloc(s->n_events + 1, sizeof(*begins));
	AUTO_FREE uint32_t *open = calloc(s->stages.n + 1, sizeof(*open));
	AUTO_FREE uint32_t *attempts =
		calloc(s->stages.n + 1, sizeof(*attempts));
	AUTO_FREE uint32_t *last = calloc(s->stages.n + 1, sizeof(*last));
	struct track t = { r, begins, open, last, attempts, 0 };

	if (!begins || !open || !last || !attempts)
		return -ENOMEM;
	find_begin_and_end_of_start(s, r);
	sort_events(s);
	pair_events_to_runs(s, &t);
	return 0;
}

/* ------------------------------------------------------------------ nesting --- */

/* Order by node, rank and begin; of runs with the same begin, the longer comes first. */
static int compare_runs_for_nesting(const void *x, const void *y, void *arg)
{
	const struct start_run *runs = arg;
	const struct start_run *a = &runs[*(const uint32_t *)x],
			       *b = &runs[*(const uint32_t *)y];
	int c = compare_two_numbers(a->node, b->node);

	if (c == 0)
		c = compare_two_numbers(a->rank, b->rank);
	if (c == 0)
		c = compare_two_numbers(a->begin_ns, b->begin_ns);
	return c ? c : compare_two_numbers(b->end_ns, a->end_ns);
}

/* Runs in the order of compare_runs_for_nesting(), and for each the latest end in its track up to
 * it. */
struct nesting {
	struct start_report *r;
	uint32_t *order;
	int64_t *ends;
};

/* The latest end of runs in the node's own track (n runs from index `from`) that began at or before
 * `begin_ns`. */
static int64_t node_end(const struct nesting *k, size_t from, size_t n,
			int64_t begin_ns)
{
	size_t lo = from, hi = from + n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (k->r->runs[k->order[mid]].begin_ns <= begin_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > from ? k->ends[lo - 1] : INT64_MIN;
}

/* Mark the runs that lie within no other. A rank's run may lie within a run of the same rank, or of
 * its node. */
static void nest_runs(struct nesting *k)
{
	size_t own = 0, n_own = 0;

	for (size_t i = 0; i < k->r->n_runs; i++) {
		struct start_run *run = &k->r->runs[k->order[i]];
		const struct start_run *last =
			i ? &k->r->runs[k->order[i - 1]] : NULL;
		/* Treat an open stage as ending just after its begin. Many logs have whole seconds,
		 * and the stage before may have ended in the same second. */
		const int64_t until = run->end_ns + run->is_open;
		int64_t end = INT64_MIN;

		if (!last || last->node != run->node) {
			own = i;
			n_own = 0;
		} else if (last->rank == run->rank) {
			end = k->ends[i - 1];
		}
		run->is_top = until > end;
		if (run->rank == STAGE_NONE)
			n_own++;
		else if (node_end(k, own, n_own, run->begin_ns) >= until)
			run->is_top = false;
		k->ends[i] =
			run->is_open || run->end_ns < end ? end : run->end_ns;
	}
}

int start_nest(struct start_report *r)
{
	AUTO_FREE uint32_t *order = calloc(r->n_runs + 1, sizeof(*order));
	AUTO_FREE int64_t *ends = calloc(r->n_runs + 1, sizeof(*ends));
	struct nesting k = { r, order, ends };

	if (!order || !ends)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_runs; i++)
		order[i] = (uint32_t)i;
	start_sort(order, r->n_runs, sizeof(*order), compare_runs_for_nesting,
		   r->runs);
	nest_runs(&k);
	return 0;
}
