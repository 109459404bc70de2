// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the nodes that a start waits for, and what failed in it. A node (or one of its ranks: a
 * track) that is in a stage which others have ended holds them up; so does a node that has not
 * begun a stage, or the training, which the others are in.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/duration.h"
#include "profiler/start_priv.h"

/* Events within this time may be simultaneous, since nodes' clocks differ. A stop signal is usually
 * the effect of another failure, so within this time it is not taken for the first. */
#define SECONDARY_NS INT64_C(2000000000)
#define STATUS_SIGNAL 128
#define STATUS_TERM (STATUS_SIGNAL + 15)

#define WITHIN_MAX 64 /* inner runs that are examined for a run */

/* How far tracks are in a stage. */
struct stage_progress {
	uint32_t tracks, ended, runs, top_runs;
	uint32_t nodes; /* nodes that began the stage */
};

struct wait_search {
	struct start_report *r;
	struct stage_progress *stages;
	/* by stage: node of the last counted run, plus 1 */
	uint32_t *last_node;
	size_t *counted,
		/* by stage: end of the last track that was counted, or marked */
		*marked;
	uint32_t n_ready; /* nodes that sent the mark that training begins */
};

static size_t find_track_end(const struct start_report *r, size_t from)
{
	size_t to = from + 1;

	while (to < r->n_runs && r->runs[to].node == r->runs[from].node &&
	       r->runs[to].rank == r->runs[from].rank)
		to++;
	return to;
}

static void count_track(struct wait_search *p, size_t from, size_t to)
{
	for (size_t i = to; i > from; i--) {
		const struct start_run *run = &p->r->runs[i - 1];
		struct stage_progress *s = &p->stages[run->stage];

		s->runs++;
		s->top_runs += run->is_top;
		if (p->last_node[run->stage] != run->node + 1)
			s->nodes++;
		p->last_node[run->stage] = run->node + 1;
		if (p->counted[run->stage] == to)
			continue;
		/* Only the last attempt shows whether the track has ended the stage. */
		p->counted[run->stage] = to;
		s->tracks++;
		s->ended += !run->is_open;
	}
}

static bool is_majority(uint32_t part, uint32_t whole)
{
	return 2 * part > whole;
}

/*
 * Find the run that a track is in: the last begun of those that go on. If an end was lost, a stage
 * stays open although it has ended: most others ended it, and the track's later runs lie within no
 * other.
 */
static struct start_run *mark_track(struct wait_search *p, size_t from,
				    size_t to)
{
	struct start_run *in = NULL;
	bool has_later = false;

	for (size_t i = to; i > from; i--) {
		struct start_run *run = &p->r->runs[i - 1];
		const struct stage_progress *s = &p->stages[run->stage];
		bool is_last = p->marked[run->stage] != to;

		p->marked[run->stage] = to;
		run->goes_on = run->is_open && !run->is_late && is_last &&
			       !(has_later && is_majority(s->ended, s->tracks));
		if (run->goes_on && !in)
			in = run;
		has_later |= is_majority(s->top_runs, s->runs);
	}
	return in;
}

/* Set the last event of a track. */
static void set_last_event(const struct start_report *r, size_t from, size_t to,
			   struct start_wait *w)
{
	w->last_ns = INT64_MIN;
	for (size_t i = from; i < to; i++) {
		const struct start_run *run = &r->runs[i];
		int64_t at = run->is_open ? run->begin_ns : run->end_ns;

		if (at < w->last_ns)
			continue;
		w->last_ns = at;
		w->said_stage = run->stage;
		w->said = run->is_open ? STAGE_BEGIN : STAGE_END;
		w->said_status = run->status;
	}
}

static void add_wait_in(struct wait_search *p, const struct start_run *in,
			size_t from, size_t to)
{
	const struct stage_progress *s = &p->stages[in->stage];
	struct start_wait *w = &p->r->waits[p->r->n_waits++];

	*w = (struct start_wait){ .node = in->node,
				  .stage = in->stage,
				  .rank = in->rank,
				  .since_ns = in->begin_ns,
				  .is_in = true,
				  .done = s->ended,
				  .of = s->tracks };
	set_last_event(p->r, from, to, w);
}

/* Find the first stage, in the order of begins, that most nodes have begun and this one has not. */
static const struct start_stage *
find_missing(const struct wait_search *p, uint32_t node, size_t from, size_t to)
{
	const struct start_report *r = p->r;
	const struct start_stage *first = NULL;

	for (size_t i = 0; i < r->n_stages; i++) {
		const struct start_stage *s = &r->stages[i];
		bool has = false;

		if (!s->is_top ||
		    !is_majority(p->stages[i].nodes, r->n_nodes) ||
		    (first && first->begin_ns <= s->begin_ns))
			continue;
		for (size_t k = from; k < to && !has; k++)
			has = r->runs[k].node == node && r->runs[k].stage == i;
		if (!has)
			first = s;
	}
	return first;
}

/* The stage that stands for the mark that training begins; NULL: no node sent it. */
static const struct start_stage *
find_training_mark_stage(const struct start_report *r)
{
	for (size_t i = 0; i < r->n_stages; i++)
		if (strcmp(r->stages[i].name, START_READY_MARK) == 0)
			return &r->stages[i];
	return NULL;
}

/* Add a wait for a node that is in no stage; it may have died between two stages. `from`, `to`: its
 * runs. */
static void add_wait_before(struct wait_search *p, size_t from, size_t to)
{
	uint32_t node = p->r->runs[from].node;
	const struct start_stage *s = find_missing(p, node, from, to);
	const bool is_mark = !s;
	struct start_wait *w;

	if (!s)
		s = find_training_mark_stage(p->r);
	if (!s)
		return;
	w = &p->r->waits[p->r->n_waits++];
	*w = (struct start_wait){
		.node = node,
		.stage = (uint32_t)(s - p->r->stages),
		.rank = STAGE_NONE,
		.done = is_mark ? p->n_ready
				: p->stages[s - p->r->stages].nodes,
		.of = (uint32_t)p->r->n_nodes,
	};
	set_last_event(p->r, from, to, w);
	w->since_ns = w->last_ns;
}

/* May the start wait for the node? In a start that trains, only for a node without the mark if most
 * others sent it: often one node sends it for all. */
static bool is_waited_for(const struct wait_search *p, uint32_t node)
{
	const struct start_report *r = p->r;

	return !r->is_ready || (is_majority(p->n_ready, (uint32_t)r->n_nodes) &&
				!r->nodes[node].has_mark);
}

static void note_open_run(struct start_report *r, const struct start_run *run)
{
	struct start_node *n = &r->nodes[run->node];

	if (run->goes_on && !run->is_wait &&
	    (!n->open_ns || run->begin_ns < n->open_ns))
		n->open_ns = run->begin_ns;
}

static void find_node_waits(struct wait_search *p, size_t from, size_t to)
{
	struct start_report *r = p->r;
	bool is_wanted = is_waited_for(p, r->runs[from].node);
	bool is_busy = false;

	for (size_t i = from, end; i < to; i = end) {
		const struct start_run *in;

		end = find_track_end(r, i);
		in = mark_track(p, i, end);
		is_busy |= in != NULL;
		if (in && !in->is_wait && is_wanted)
			add_wait_in(p, in, i, end);
	}
	for (size_t i = from; i < to; i++)
		note_open_run(r, &r->runs[i]);
	if (!is_busy && is_wanted)
		add_wait_before(p, from, to);
}

static int compare_waits(const void *x, const void *y)
{
	const struct start_wait *a = x, *b = y;
	uint64_t k = (uint64_t)a->done * b->of, m = (uint64_t)b->done * a->of;

	if (k != m)
		return k > m ? -1 : 1;
	if (a->since_ns != b->since_ns)
		return a->since_ns < b->since_ns ? -1 : 1;
	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	return (a->rank > b->rank) - (a->rank < b->rank);
}

static size_t find_last_run_of_node(const struct start_report *r, size_t from)
{
	size_t to = from + 1;

	while (to < r->n_runs && r->runs[to].node == r->runs[from].node)
		to++;
	return to;
}

bool start_wait_is_first(const struct start_report *r,
			 const struct start_wait *w)
{
	return w->stage == r->waits[0].stage && w->is_in == r->waits[0].is_in;
}

static size_t count_first_waits(const struct start_report *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_waits; i++)
		n += start_wait_is_first(r, &r->waits[i]);
	return n;
}

static void mark_waiting_nodes(struct start_report *r)
{
	if (!r->n_waits || !r->waits[0].done)
		return;
	for (size_t i = 0; i < r->n_waits; i++)
		if (start_wait_is_first(r, &r->waits[i]))
			r->nodes[r->waits[i].node].is_waited = true;
}

int start_find_waits(struct start_report *r)
{
	AUTO_FREE struct stage_progress *stages =
		calloc(r->n_stages + 1, sizeof(*stages));
	AUTO_FREE uint32_t *last_node =
		calloc(r->n_stages + 1, sizeof(*last_node));
	AUTO_FREE size_t *counted = calloc(r->n_stages + 1, sizeof(*counted));
	AUTO_FREE size_t *marks = calloc(r->n_stages + 1, sizeof(*marks));
	struct wait_search p = { r, stages, last_node, counted, marks, 0 };

	r->waits = calloc(r->n_runs + 1, sizeof(*r->waits));
	if (!stages || !last_node || !counted || !marks || !r->waits)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_nodes; i++)
		p.n_ready += r->nodes[i].has_mark;
	for (size_t i = 0, to; i < r->n_runs; i = to) {
		to = find_track_end(r, i);
		count_track(&p, i, to);
	}
	for (size_t i = 0, to; i < r->n_runs; i = to) {
		to = find_last_run_of_node(r, i);
		find_node_waits(&p, i, to);
	}
	if (r->n_waits)
		qsort(r->waits, r->n_waits, sizeof(*r->waits), compare_waits);
	mark_waiting_nodes(r);
	return 0;
}

/* ----------------------------------------------------------------- failures --- */

/* Did a stage within run `i` fail with the same status? Then the outer stage only passes it on. */
static bool is_failed_within(const struct start_report *r, size_t i, size_t to)
{
	const struct start_run *out = &r->runs[i];

	for (size_t k = i + 1;
	     k < to && k < i + WITHIN_MAX && r->runs[k].begin_ns <= out->end_ns;
	     k++)
		if (r->runs[k].status == out->status &&
		    r->runs[k].end_ns <= out->end_ns)
			return true;
	return false;
}

static int64_t failure_key(const struct start_run *run)
{
	return run->end_ns + (run->status == STATUS_TERM ? SECONDARY_NS : 0);
}

/* Order failures; those whose retry succeeded come last, because they are not the cause of
 * anything. */
static int compare_failures(const void *x, const void *y, void *arg)
{
	const struct start_run *runs = arg;
	const struct start_failure *a = x, *b = y;
	int64_t k = failure_key(&runs[a->run]), m = failure_key(&runs[b->run]);

	if (a->is_again != b->is_again)
		return a->is_again ? 1 : -1;
	if (k != m)
		return k < m ? -1 : 1;
	return (a->run > b->run) - (a->run < b->run);
}

/* Add the failures of a track. `good`: by stage, end of the last track in which an attempt
 * succeeded. */
static void find_track_failures(struct start_report *r, size_t from, size_t to,
				size_t *good)
{
	for (size_t i = to; i > from; i--) {
		const struct start_run *run = &r->runs[i - 1];
		bool is_again = good[run->stage] == to;

		if (!run->is_open && run->status <= 0)
			good[run->stage] = to;
		if (run->status <= 0 || is_failed_within(r, i - 1, to))
			continue;
		r->stages[run->stage].failed++;
		r->failures[r->n_failures++] =
			(struct start_failure){ .run = (uint32_t)(i - 1),
						.is_again = is_again };
	}
}

int start_find_failures(struct start_report *r)
{
	AUTO_FREE size_t *good = calloc(r->n_stages + 1, sizeof(*good));
	size_t n = 0;

	for (size_t i = 0; i < r->n_runs; i++)
		n += r->runs[i].status > 0;
	r->failures = calloc(n + 1, sizeof(*r->failures));
	if (!r->failures || !good)
		return -ENOMEM;
	for (size_t i = 0, to; n && i < r->n_runs; i = to) {
		to = find_track_end(r, i);
		find_track_failures(r, i, to, good);
	}
	if (r->n_failures)
		qsort_r(r->failures, r->n_failures, sizeof(*r->failures),
			compare_failures, r->runs);
	return 0;
}

/* -------------------------------------------------------------------- until now --- */

int64_t start_run_length(const struct start_report *r,
			 const struct start_run *run, int64_t now_ns)
{
	if (!run->goes_on || r->is_ready || now_ns < run->begin_ns)
		return run->duration_ns;
	return now_ns - run->begin_ns;
}

int64_t start_node_busy(const struct start_report *r,
			const struct start_node *n, int64_t now_ns)
{
	if (!n->open_ns || r->is_ready || now_ns < n->open_ns)
		return n->busy_ns;
	return n->busy_before_ns + now_ns - n->open_ns;
}

/* --------------------------------------------------------------------- text --- */

static int put_track(const struct start_report *r, uint32_t node, int64_t rank,
		     struct buf *ret)
{
	int rc = buf_puts(ret, r->nodes[node].name);

	return rc == 0 && rank >= 0 ? buf_printf(ret, ", rank %" PRId64, rank)
				    : rc;
}

int start_said_text(const struct start_report *r, const struct start_wait *w,
		    struct buf *ret)
{
	int rc = buf_printf(ret, "%s %s", r->stages[w->said_stage].name,
			    w->said == STAGE_BEGIN ? "begin" : "end");

	return rc == 0 && w->said == STAGE_END && w->said_status > 0
		       ? buf_printf(ret, ", status %" PRId64, w->said_status)
		       : rc;
}

/* Say that no node is in a stage or late, but the mark that training begins has not come. */
static int say_mark_missing(const struct start_report *r, int64_t now_ns,
			    struct buf *ret)
{
	const struct start_node *last = r->nodes;
	char ago[DURATION_TEXT_MAX];

	if (r->is_ready || !r->n_nodes)
		return 0;
	for (size_t i = 1; i < r->n_nodes; i++)
		if (r->nodes[i].last_ns > last->last_ns)
			last = &r->nodes[i];
	duration_format(now_ns > last->last_ns ? now_ns - last->last_ns : 0,
			ago);
	return buf_printf(ret,
			  "the mark '%s': no node is in a stage, and none has "
			  "said it; last heard %s ago, of %s",
			  START_READY_MARK, ago, last->name);
}

int start_wait_text(const struct start_report *r, int64_t now_ns,
		    struct buf *ret)
{
	const struct start_wait *w = r->waits;
	char since[DURATION_TEXT_MAX], ago[DURATION_TEXT_MAX];
	size_t n = count_first_waits(r);
	int rc = 0;

	if (!r->n_waits)
		return say_mark_missing(r, now_ns, ret);
	duration_format(now_ns > w->since_ns ? now_ns - w->since_ns : 0, since);
	duration_format(now_ns > w->last_ns ? now_ns - w->last_ns : 0, ago);
	if (n > 1)
		rc = buf_printf(ret, "%zu, first ", n);
	if (rc == 0)
		rc = put_track(r, w->node, w->rank, ret);
	if (rc == 0)
		rc = w->is_in ? buf_printf(ret, ": in %s for %s",
					   r->stages[w->stage].name, since)
			      : buf_printf(ret, ": not in %s yet, idle for %s",
					   r->stages[w->stage].name, since);
	if (rc == 0)
		rc = buf_printf(ret,
				", which %" PRIu32 " of %" PRIu32 " have %s; "
				"last heard %s ago: ",
				w->done, w->of, w->is_in ? "ended" : "begun",
				ago);
	return rc == 0 ? start_said_text(r, w, ret) : rc;
}

static int put_status(int64_t status, struct buf *ret)
{
	int signal = status > STATUS_SIGNAL ? (int)(status - STATUS_SIGNAL) : 0;
	int rc = buf_printf(ret, "status %" PRId64, status);

	if (rc == 0 && signal == 9)
		rc = buf_puts(ret, " (killed, often for memory)");
	else if (rc == 0 && signal > 0 && signal < 65)
		rc = buf_printf(ret, " (signal %d)", signal);
	return rc;
}

/* Count the failures that no later attempt repaired; they come first. */
static size_t count_unrepaired_failures(const struct start_report *r)
{
	size_t n = 0;

	while (n < r->n_failures && !r->failures[n].is_again)
		n++;
	return n;
}

static int put_failure(const struct start_report *r,
		       const struct start_run *run, int64_t after_ns,
		       struct buf *ret)
{
	char after[DURATION_TEXT_MAX];
	int rc = put_track(r, run->node, run->rank, ret);

	duration_format(after_ns, after);
	if (rc == 0)
		rc = buf_printf(ret, ": %s ended with ",
				r->stages[run->stage].name);
	if (rc == 0)
		rc = put_status(run->status, ret);
	return rc == 0 ? buf_printf(ret, " after %s", after) : rc;
}

int start_mended_text(const struct start_report *r, struct buf *ret)
{
	size_t from = count_unrepaired_failures(r), n = r->n_failures - from;
	const struct start_run *run, *worst = NULL;
	int rc;

	for (size_t i = from; i < r->n_failures; i++) {
		run = &r->runs[r->failures[i].run];
		if (!worst || run->duration_ns > worst->duration_ns)
			worst = run;
	}
	if (!worst)
		return 0;
	rc = put_failure(r, worst, worst->duration_ns, ret);
	if (rc == 0 && n > 1)
		rc = buf_printf(ret, ", and %zu other%s", n - 1,
				n > 2 ? "s" : "");
	return rc == 0 ? buf_puts(ret, "; done again it went well") : rc;
}

int start_failure_text(const struct start_report *r, struct buf *ret)
{
	size_t n = count_unrepaired_failures(r);
	const struct start_run *run;
	int rc;

	if (!n)
		return 0;
	run = &r->runs[r->failures[0].run];
	rc = put_failure(r, run, run->end_ns - r->begin_ns, ret);
	return rc == 0 && n > 1 ? buf_printf(ret, ", before %zu other%s", n - 1,
					     n > 2 ? "s" : "")
				: rc;
}
