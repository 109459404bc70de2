// SPDX-License-Identifier: Apache-2.0
/*
 * Each cause has a rule that computes how much of the straggler's time it explains. Where a time
 * was counted, that is the time beyond the median node's. Where only requests or bytes were
 * counted, it is the time they would take at the other nodes' rate. The cause that explains most is
 * named, if that is enough.
 */
#include "profiler/start_blame.h"

#include <errno.h>
#include <inttypes.h>

#include "common/compare.h"
#include "common/duration.h"

#define NS_PER_MS INT64_C(1000000)
#define ENOUGH 4       /* a cause explains at least 1 / ENOUGH of the excess */
#define RATE_SLOW 0.67 /* a rate below this share of the median is slow */
#define COUNT_SHARE 0.75
/* Slow bytes are often the effect of another cause, so they have less weight. */
#define RATE_WEIGHT 0.6
#define PAST_SLOW_MIN 3u
#define PAST_SHARE 3u /* slow in at least 1 / PAST_SHARE of its starts */

/* The cells of one stage, and the facts counted in each. */
struct blame_stage {
	const struct start_report *r;
	const struct start_cell *cells;
	size_t n;
	struct start_facts *facts; /* by cell */
	/* time of all attempts except the last, by cell */
	int64_t *failed_ns;
	uint64_t median[STAGE_FACTS], median_fetched;
	double median_rate; /* bytes fetched in a nanosecond of work */
	uint64_t *room;
};

const char *start_cause_name(enum start_cause c)
{
	static const char *const names[START_CAUSES] = {
		[START_CAUSE_UNKNOWN] = "unknown",
		[START_CAUSE_AGAIN] = "attempts",
		[START_CAUSE_RETRIES] = "retries",
		[START_CAUSE_THROTTLED] = "throttled",
		[START_CAUSE_DISK] = "slow_disk",
		[START_CAUSE_COLD] = "cold_cache",
		[START_CAUSE_MISSES] = "misses",
		[START_CAUSE_PEERS] = "slow_peers",
		[START_CAUSE_ORIGIN] = "slow_origin",
		[START_CAUSE_NODE] = "slow_node",
	};

	return names[c];
}

/* ----------------------------------------------------------------- gathering --- */

static uint64_t median_of(uint64_t *v, size_t n)
{
	size_t i = 1;

	while (i < n && v[i] == v[0])
		i++;
	/* Shortcut: all values are equal, since most facts are 0 everywhere. */
	if (i >= n)
		return n ? v[0] : 0;
	qsort(v, n, sizeof(*v), compare_u64);
	return v[n / 2];
}

/* Sum up the facts of a node's runs of the stage. As for the cell's duration, its failed attempts
 * are those of its longest rank. */
static void gather_node(struct blame_stage *b, size_t i)
{
	const uint32_t *own = &b->r->by_cell[b->cells[i].first];
	int64_t of_rank = 0, last = 0, longest = -1, rank = STAGE_NONE;
	uint32_t attempt = 0;

	for (uint32_t k = 0; k < b->cells[i].runs; k++) {
		const struct start_run *run = &b->r->runs[own[k]];

		if (k == 0 || run->rank != rank)
			of_rank = last = 0;
		/* Repetitions belong to the same attempt: add up their time. */
		last = k && run->rank == rank && run->attempt == attempt
			       ? last + run->duration_ns
			       : run->duration_ns;
		rank = run->rank;
		attempt = run->attempt;
		of_rank += run->duration_ns;
		if (of_rank > longest) {
			longest = of_rank;
			b->failed_ns[i] = of_rank - last;
		}
		for (size_t f = 0; run->facts && f < STAGE_FACTS; f++)
			b->facts[i].v[f] += b->r->facts[run->facts - 1].v[f];
	}
}

static uint64_t fetched_bytes(const struct start_facts *f)
{
	return f->v[STAGE_FACT_PEER_BYTES] + f->v[STAGE_FACT_ORIGIN_BYTES];
}

/* Nanoseconds counted in excess of the median node's. */
static int64_t excess_of_fact_ns(const struct blame_stage *b, size_t i,
				 enum stage_fact fact)
{
	uint64_t own = b->facts[i].v[fact], median = b->median[fact];
	int64_t all = b->cells[i].duration_ns;

	if (own <= median)
		return 0;
	if (own - median > (uint64_t)(all / NS_PER_MS))
		return all;
	return (int64_t)(own - median) * NS_PER_MS;
}

/* The time spent fetching: the duration less the known waits. */
static double fetch_ns(const struct blame_stage *b, size_t i)
{
	static const enum stage_fact waits[] = { STAGE_FACT_MISS_MS,
						 STAGE_FACT_RETRY_MS,
						 STAGE_FACT_THROTTLED_MS,
						 STAGE_FACT_DISK_MS };
	double ns = (double)b->cells[i].duration_ns - (double)b->failed_ns[i];

	for (size_t k = 0; k < ARRAY_SIZE(waits); k++)
		ns -= (double)excess_of_fact_ns(b, i, waits[k]);
	return ns > NS_PER_MS ? ns : NS_PER_MS;
}

static void gather_stage(struct blame_stage *b)
{
	for (size_t i = 0; i < b->n; i++)
		gather_node(b, i);
	for (size_t f = 0; f < STAGE_FACTS; f++) {
		for (size_t i = 0; i < b->n; i++)
			b->room[i] = b->facts[i].v[f];
		b->median[f] = median_of(b->room, b->n);
	}
	for (size_t i = 0; i < b->n; i++)
		b->room[i] = fetched_bytes(&b->facts[i]);
	b->median_fetched = median_of(b->room, b->n);
	/* Bytes a second, so that whole numbers are precise enough. */
	for (size_t i = 0; i < b->n; i++)
		b->room[i] = (uint64_t)((double)fetched_bytes(&b->facts[i]) /
					fetch_ns(b, i) * 1e9);
	b->median_rate = (double)median_of(b->room, b->n) / 1e9;
}

/* --------------------------------------------------------------------- rules --- */

/* Compute the time that a cause explains; sets `own` and `median` of `say` for the text. */
typedef int64_t blame_rule(const struct blame_stage *b, size_t i,
			   struct start_blame *say);

static int64_t explain_by_wait(const struct blame_stage *b, size_t i,
			       enum stage_fact fact, struct start_blame *say)
{
	say->own = b->facts[i].v[fact];
	say->median = b->median[fact];
	return excess_of_fact_ns(b, i, fact);
}

/* Explain a wait by a count. A counted time takes precedence, because a number of requests does not
 * show how long each took. */
static int64_t explain_by_count(const struct blame_stage *b, size_t i,
				enum stage_fact ms, enum stage_fact count,
				struct start_blame *say)
{
	uint64_t own = b->facts[i].v[count], median = b->median[count];
	int64_t by_time = explain_by_wait(b, i, ms, say);

	if (b->facts[i].v[ms])
		return by_time;
	say->own = own;
	say->median = median;
	if (own <= 2 * median + 1)
		return 0;
	return (int64_t)((double)say->excess_ns * COUNT_SHARE *
			 (1 - (double)(median + 1) / (double)(own + 1)));
}

static int64_t rule_failed_attempts(const struct blame_stage *b, size_t i,
				    struct start_blame *say)
{
	say->own = b->cells[i].attempts;
	say->median = 1;
	return b->failed_ns[i];
}

static int64_t rule_retries(const struct blame_stage *b, size_t i,
			    struct start_blame *say)
{
	return explain_by_count(b, i, STAGE_FACT_RETRY_MS, STAGE_FACT_RETRIES,
				say);
}

static int64_t rule_throttled(const struct blame_stage *b, size_t i,
			      struct start_blame *say)
{
	return explain_by_wait(b, i, STAGE_FACT_THROTTLED_MS, say);
}

static int64_t rule_disk(const struct blame_stage *b, size_t i,
			 struct start_blame *say)
{
	return explain_by_wait(b, i, STAGE_FACT_DISK_MS, say);
}

static int64_t rule_misses(const struct blame_stage *b, size_t i,
			   struct start_blame *say)
{
	return explain_by_count(b, i, STAGE_FACT_MISS_MS, STAGE_FACT_MISSES,
				say);
}

static int64_t explain_by_more_fetched_bytes(const struct blame_stage *b,
					     size_t i, struct start_blame *say)
{
	uint64_t own = fetched_bytes(&b->facts[i]), median = b->median_fetched;
	double ns = fetch_ns(b, i);

	say->own = own;
	say->median = median;
	if (own <= median + median / 4)
		return 0;
	return (int64_t)(ns * ((double)(own - median) / (double)own));
}

/* The time beyond what the node's bytes take at the median rate. */
static int64_t excess_by_rate_ns(const struct blame_stage *b, size_t i,
				 struct start_blame *say)
{
	double bytes = (double)fetched_bytes(&b->facts[i]), ns = fetch_ns(b, i);

	say->own = (uint64_t)(bytes / ns * 1e9);
	say->median = (uint64_t)(b->median_rate * 1e9);
	if (bytes <= 0 || b->median_rate <= 0 ||
	    bytes / ns > RATE_SLOW * b->median_rate)
		return 0;
	return (int64_t)(ns - bytes / b->median_rate);
}

static bool is_by_peers(const struct blame_stage *b, size_t i)
{
	const uint64_t *v = b->facts[i].v;

	return v[STAGE_FACT_PEER_BYTES] > v[STAGE_FACT_ORIGIN_BYTES];
}

static int64_t rule_peers(const struct blame_stage *b, size_t i,
			  struct start_blame *say)
{
	return is_by_peers(b, i) ? excess_by_rate_ns(b, i, say) : 0;
}

static int64_t rule_origin(const struct blame_stage *b, size_t i,
			   struct start_blame *say)
{
	return is_by_peers(b, i) ? 0 : excess_by_rate_ns(b, i, say);
}

static blame_rule *const rules[START_CAUSES] = {
	[START_CAUSE_AGAIN] = rule_failed_attempts,
	[START_CAUSE_RETRIES] = rule_retries,
	[START_CAUSE_THROTTLED] = rule_throttled,
	[START_CAUSE_DISK] = rule_disk,
	[START_CAUSE_COLD] = explain_by_more_fetched_bytes,
	[START_CAUSE_MISSES] = rule_misses,
	[START_CAUSE_PEERS] = rule_peers,
	[START_CAUSE_ORIGIN] = rule_origin,
};

static double weight_of_cause(const struct start_blame *say)
{
	bool is_rate = say->cause == START_CAUSE_PEERS ||
		       say->cause == START_CAUSE_ORIGIN;

	return (double)say->explained_ns * (is_rate ? RATE_WEIGHT : 1);
}

static void blame_cell(const struct blame_stage *b, size_t i,
		       struct start_blame *ret)
{
	const struct start_stage *s = &b->r->stages[b->cells[i].stage];
	struct start_blame best = {
		.cell = (uint32_t)(b->cells + i - b->r->cells),
		.within = b->cells[i].stage,
		.excess_ns = b->cells[i].duration_ns - s->spread.median_ns,
	};

	*ret = best;
	for (size_t c = 0; c < START_CAUSES; c++) {
		struct start_blame say = best;

		if (!rules[c])
			continue;
		say.cause = (enum start_cause)c;
		say.explained_ns = rules[c](b, i, &say);
		if (say.explained_ns > say.excess_ns)
			say.explained_ns = say.excess_ns;
		if (weight_of_cause(&say) > weight_of_cause(ret) &&
		    say.explained_ns >= say.excess_ns / ENOUGH)
			*ret = say;
	}
}

/* -------------------------------------------------------------------- all --- */

static int compare_blames_by_time(const void *x, const void *y, void *arg)
{
	const struct start_report *r = arg;
	const struct start_blame *a = x, *b = y;
	int64_t k = r->cells[a->cell].duration_ns,
		m = r->cells[b->cell].duration_ns;

	if (k != m)
		return k < m ? -1 : 1;
	return (a->cell > b->cell) - (a->cell < b->cell);
}

static int compare_blames_by_cell(const void *x, const void *y)
{
	const struct start_blame *a = x, *b = y;

	return (a->cell > b->cell) - (a->cell < b->cell);
}

static bool lies_within(const struct start_cell *in,
			const struct start_cell *out)
{
	return in->node == out->node && in->stage != out->stage &&
	       in->begin_ns >= out->begin_ns && in->end_ns <= out->end_ns;
}

/*
 * Take over causes from inner stages, the shortest blame first: a cause found in an inner stage
 * explains the outer one too. A slow stage without a known cause names the slow stage within it.
 */
static void take_inner_cause(const struct start_report *r,
			     struct start_blame *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i; k++) {
			if (!lies_within(&r->cells[v[k].cell],
					 &r->cells[v[i].cell]) ||
			    v[k].excess_ns < v[i].excess_ns / 2 ||
			    v[k].explained_ns < v[i].explained_ns ||
			    (v[k].explained_ns == v[i].explained_ns &&
			     v[i].cause != START_CAUSE_UNKNOWN))
				continue;
			v[i].cause = v[k].cause;
			v[i].within = v[k].within;
			v[i].explained_ns = v[k].explained_ns;
			v[i].own = v[k].own;
			v[i].median = v[k].median;
		}
	}
}

static void add_past_of_nodes(const struct start_report *r,
			      const struct start_past *past,
			      struct start_blame *v, size_t n)
{
	for (size_t i = 0; past && i < n; i++) {
		const struct start_past *p = &past[r->cells[v[i].cell].node];

		v[i].past = *p;
		if (v[i].cause == START_CAUSE_UNKNOWN &&
		    p->slow >= PAST_SLOW_MIN &&
		    p->slow >= p->starts / PAST_SHARE)
			v[i].cause = START_CAUSE_NODE;
	}
}

static int blame_stages(const struct start_report *r, struct start_blame *v,
			size_t *ret_n)
{
	AUTO_FREE struct start_facts *facts =
		calloc(r->n_cells + 1, sizeof(*facts));
	AUTO_FREE int64_t *failed = calloc(r->n_cells + 1, sizeof(*failed));
	AUTO_FREE uint64_t *room = calloc(r->n_cells + 1, sizeof(*room));
	size_t from = 0;

	if (!facts || !failed || !room)
		return -ENOMEM;
	for (size_t i = 1; i <= r->n_cells; i++) {
		struct blame_stage b = { .r = r,
					 .cells = r->cells + from,
					 .n = i - from,
					 .facts = facts + from,
					 .failed_ns = failed + from,
					 .room = room };

		if (i < r->n_cells && r->cells[i].stage == r->cells[from].stage)
			continue;
		if (r->stages[b.cells->stage].stragglers)
			gather_stage(&b);
		for (size_t k = 0; k < b.n; k++)
			if (b.cells[k].is_straggler)
				blame_cell(&b, k, &v[(*ret_n)++]);
		from = i;
	}
	return 0;
}

/* Order by node, so that nesting can be examined node by node. */
static int compare_blames_by_node(const void *x, const void *y, void *arg)
{
	const struct start_report *r = arg;
	const struct start_blame *a = x, *b = y;
	uint32_t k = r->cells[a->cell].node, m = r->cells[b->cell].node;

	return k != m ? (k < m ? -1 : 1) : compare_blames_by_time(x, y, arg);
}

int start_blame_find(const struct start_report *r,
		     const struct start_past *past, struct start_blame **ret,
		     size_t *ret_n, struct error *err)
{
	AUTO_FREE struct start_blame *v = calloc(r->n_cells + 1, sizeof(*v));
	struct start_report *plain = (struct start_report *)(uintptr_t)r;
	size_t n = 0, from = 0;

	if (!v || blame_stages(r, v, &n) < 0)
		return error_nomem(err);
	if (n)
		qsort_r(v, n, sizeof(*v), compare_blames_by_node, plain);
	for (size_t i = 1; i <= n; i++) {
		if (i < n &&
		    r->cells[v[i].cell].node == r->cells[v[from].cell].node)
			continue;
		take_inner_cause(r, v + from, i - from);
		from = i;
	}
	add_past_of_nodes(r, past, v, n);
	if (n)
		qsort(v, n, sizeof(*v), compare_blames_by_cell);
	*ret = steal_ptr(&v);
	*ret_n = n;
	return 0;
}

/* --------------------------------------------------------------------- text --- */

static double as_mb(uint64_t bytes)
{
	return (double)bytes / 1e6;
}

/* Bound the value: sums of reported times may exceed the range of a duration. */
static void format_ms(uint64_t ms, char out[DURATION_TEXT_MAX])
{
	const uint64_t most = INT64_MAX / NS_PER_MS;

	duration_format((int64_t)(ms < most ? ms : most) * NS_PER_MS, out);
}

static int format_wait_cause(const struct start_blame *b, const char *what,
			     struct buf *ret)
{
	char own[DURATION_TEXT_MAX], median[DURATION_TEXT_MAX];

	format_ms(b->own, own);
	format_ms(b->median, median);
	return buf_printf(ret, "waited %s for %s, the median node %s", own,
			  what, median);
}

static int format_cause(const struct start_blame *b, struct buf *ret)
{
	char explained[DURATION_TEXT_MAX];

	duration_format(b->explained_ns, explained);
	switch (b->cause) {
	case START_CAUSE_AGAIN:
		return buf_printf(ret,
				  "%" PRIu64 " attempts: those that failed "
				  "took %s",
				  b->own, explained);
	case START_CAUSE_RETRIES:
		return buf_printf(ret, "requests were made again (about %s)",
				  explained);
	case START_CAUSE_THROTTLED:
		return format_wait_cause(b, "a limit or a busy origin", ret);
	case START_CAUSE_DISK:
		return format_wait_cause(b, "its disk", ret);
	case START_CAUSE_COLD:
		return buf_printf(ret,
				  "fetched %.1f MB, the median node %.1f MB: "
				  "less was in its cache",
				  as_mb(b->own), as_mb(b->median));
	case START_CAUSE_MISSES:
		return buf_printf(ret,
				  "the prefetch was too late for its reads "
				  "(about %s)",
				  explained);
	case START_CAUSE_PEERS:
	case START_CAUSE_ORIGIN:
		return buf_printf(
			ret, "%s gave %.1f MB/s, the median node had %.1f MB/s",
			b->cause == START_CAUSE_PEERS ? "peers" : "the origin",
			as_mb(b->own), as_mb(b->median));
	case START_CAUSE_NODE:
		return buf_printf(ret,
				  "the node was slow in %" PRIu32 " of its "
				  "last %" PRIu32 " starts",
				  b->past.slow, b->past.starts);
	case START_CAUSE_UNKNOWN:
	case START_CAUSES:
		break;
	}
	return buf_puts(ret, "nothing that its events count explains it");
}

int start_blame_text(const struct start_report *r, const struct start_blame *b,
		     struct buf *ret)
{
	int rc = 0;

	if (b->within != r->cells[b->cell].stage)
		rc = buf_printf(ret, "in %s: ", r->stages[b->within].name);
	return rc == 0 ? format_cause(b, ret) : rc;
}
