// SPDX-License-Identifier: Apache-2.0
/*
 * Simulated job starts with known truth: clocks that are wrong by up to 10 s, drift and jump;
 * events that are lost, duplicated and late; retries. Durations must be right within 50 ms, all
 * stragglers and no others must be found, and nine in ten causes.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "profiler/start_blame.h"

TestSuite(start_truth, .timeout = 300);

#define NODES 200
#define STAGES 5
#define SEEDS 20
#define MS INT64_C(1000000)
#define S (1000 * MS)
#define EPOCH (1795449940 * S) /* the service's clock at the true time 0 */
#define TOLERANCE (50 * MS)
#define LATER (NODES * STAGES * 6) /* most events of a start */

static const char *const names[STAGES] = { "image", "env", "ckpt.open",
					   "ckpt.read", "model" };
static const int64_t typical[STAGES] = { 30 * S, 60 * S, 2 * S, 100 * S,
					 20 * S };

static uint64_t state;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int64_t between(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(draw() % (uint64_t)(hi - lo + 1));
}

static bool one_in(int64_t n)
{
	return between(1, n) == 1;
}

struct clock {
	int64_t wall_ns, mono_ns; /* what the clocks show at the true time 0 */
	int64_t ppm;
	int64_t step_at, step_ns; /* jump of the wall clock */
};

struct truth {
	int64_t duration, begin, end; /* true time */
	bool is_known, is_straggler;
	unsigned int attempts;
	enum start_cause cause;
};

static struct clock clocks[NODES];
static struct truth truth[STAGES][NODES];
static struct start_event events[LATER];
static uint64_t facts[STAGES][NODES][STAGE_FACTS];
static struct start_past past[NODES];
static size_t n_causes, n_right, n_invented;
static size_t n_events;

static int64_t by_clock(const struct clock *c, int64_t t)
{
	return t + t / 1000000 * c->ppm;
}

static const char *node_name(int i)
{
	static char all[NODES][8];

	snprintf(all[i], sizeof(all[i]), "n%d", i);
	return all[i];
}

static void put(int stage, int node, enum stage_ev ev, int64_t t)
{
	const struct clock *c = &clocks[node];
	int64_t wall = c->wall_ns + by_clock(c, t);

	if (t >= c->step_at)
		wall += c->step_ns;
	events[n_events++] = (struct start_event){
		.stage = names[stage],
		.node = node_name(node),
		.ev = ev,
		.rank = STAGE_NONE,
		.status = STAGE_NONE,
		.boot = 1 + (uint64_t)node,
		.ts_ns = wall,
		.mono_ns = c->mono_ns + by_clock(c, t),
		.facts = ev == STAGE_END ? facts[stage][node] : NULL,
	};
	if (one_in(20)) { /* duplicate the event */
		events[n_events] = events[n_events - 1];
		n_events++;
	}
}

static uint64_t about(double v)
{
	return (uint64_t)(v * (double)between(90, 110) / 100);
}

/* Set the facts of a stage that took `usual`, and `excess` more because of the cause. */
static void count(int stage, int node, int64_t usual, int64_t excess)
{
	uint64_t *v = facts[stage][node];
	double bytes = 1e7 * (double)usual / 1e9, ms = (double)excess / 1e6;
	bool is_timed = one_in(2);

	memset(v, 0, sizeof(facts[0][0]));
	v[STAGE_FACT_CACHE_BYTES] = about(bytes);
	v[STAGE_FACT_PEER_BYTES] = about(4 * bytes);
	v[STAGE_FACT_ORIGIN_BYTES] = about(bytes / 4);
	v[STAGE_FACT_MISSES] = (uint64_t)between(0, 9);
	v[STAGE_FACT_RETRIES] = (uint64_t)between(0, 2);
	v[STAGE_FACT_DISK_MS] = about((double)usual / 1e6 / 50);
	switch (truth[stage][node].cause) {
	case START_CAUSE_RETRIES:
		v[STAGE_FACT_RETRIES] = (uint64_t)between(10, 40);
		v[STAGE_FACT_RETRY_MS] = is_timed ? about(ms) : 0;
		break;
	case START_CAUSE_MISSES:
		v[STAGE_FACT_MISSES] = (uint64_t)between(200, 4000);
		v[STAGE_FACT_MISS_MS] = is_timed ? about(ms) : 0;
		break;
	case START_CAUSE_THROTTLED:
		v[STAGE_FACT_THROTTLED_MS] = about(ms);
		break;
	case START_CAUSE_DISK:
		v[STAGE_FACT_DISK_MS] += about(ms);
		break;
	case START_CAUSE_COLD:
		v[STAGE_FACT_CACHE_BYTES] = 0;
		v[STAGE_FACT_ORIGIN_BYTES] += about(4.25 * 1e7 * ms / 1e3);
		break;
	case START_CAUSE_ORIGIN:
		v[STAGE_FACT_ORIGIN_BYTES] = about(4.25 * bytes);
		v[STAGE_FACT_PEER_BYTES] = 0;
		break;
	case START_CAUSE_NODE:
	case START_CAUSE_UNKNOWN:
		memset(v, 0, excess ? sizeof(facts[0][0]) : 0);
		break;
	/* attempts have no facts; peers gave the same bytes in more time */
	default:
		break;
	}
}

static enum start_cause one_cause(int node)
{
	enum start_cause c = (enum start_cause)between(START_CAUSE_UNKNOWN,
						       START_CAUSES - 1);

	if (past[node].slow)
		return c == START_CAUSE_UNKNOWN ? START_CAUSE_NODE : c;
	return c == START_CAUSE_NODE ? START_CAUSE_UNKNOWN : c;
}

/* Add failed attempts before the successful one. */
static int64_t fail(int stage, int node, int64_t t, int64_t each,
		    unsigned int n)
{
	struct truth *w = &truth[stage][node];

	while (n--) {
		w->attempts++;
		put(stage, node, STAGE_BEGIN, t);
		put(stage, node, STAGE_END, t + each);
		w->duration += each;
		t += each + 100 * MS;
	}
	return t;
}

/* Simulate a stage of a node from the true time `t` on; returns its end. */
static int64_t one_stage(int stage, int node, int64_t t)
{
	struct truth *w = &truth[stage][node];
	int64_t d = typical[stage] +
		    between(-typical[stage] / 20, typical[stage] / 20);
	int64_t excess = 0;

	*w = (struct truth){ .begin = t, .is_known = true, .attempts = 1 };
	w->is_straggler = one_in(40);
	if (w->is_straggler) {
		excess = d * between(50, 300) / 100 + 2 * S;
		w->cause = one_cause(node);
	}
	count(stage, node, d, excess);
	if (w->is_straggler && w->cause == START_CAUSE_AGAIN)
		t = fail(stage, node, t, excess / 2, 2);
	else
		d += excess;
	if (!w->is_straggler && one_in(30))
		t = fail(stage, node, t, d / 50, 1);
	if (!one_in(50))
		put(stage, node, STAGE_BEGIN, t);
	else
		w->is_known = false;
	if (!w->is_known || !one_in(50))
		put(stage, node, STAGE_END, t + d);
	else
		w->is_known = false;
	w->duration += d;
	w->end = t + d;
	return w->end;
}

static void make_start(void)
{
	int64_t t = 0;

	n_events = 0;
	for (int i = 0; i < NODES; i++)
		past[i] = (struct start_past){ 10, one_in(5) ? 6 : 0 };
	for (int i = 0; i < NODES; i++)
		clocks[i] = (struct clock){
			.wall_ns = EPOCH + between(-10 * S, 10 * S),
			.mono_ns = between(S, 1000000 * S),
			.ppm = between(-50, 50),
			.step_at = between(0, 400 * S),
			.step_ns = one_in(5) ? between(-5 * S, 5 * S) : 0,
		};
	/* each stage waits for the slowest node */
	for (int k = 0; k < STAGES; k++) {
		int64_t last = t;

		for (int i = 0; i < NODES; i++) {
			int64_t end = one_stage(k, i, t + between(0, 20 * MS));

			if (end > last)
				last = end;
		}
		t = last + 10 * MS;
	}
	/* shuffle, as if events came late */
	for (size_t i = n_events - 1; i > 0; i--) {
		size_t j = (size_t)between(0, (int64_t)i);
		struct start_event e = events[i];

		events[i] = events[j];
		events[j] = e;
	}
}

/* Each node exchanges clocks half way through the start. */
static void put_clocks(struct start_set *set)
{
	for (int i = 0; i < NODES; i++) {
		const struct clock *c = &clocks[i];
		int64_t t = 100 * S, error = between(-5 * MS, 5 * MS);
		const struct start_clock x = {
			.boot = 1 + (uint64_t)i,
			.mono_offset_ns =
				EPOCH + t - c->mono_ns - by_clock(c, t) + error,
			.wall_offset_ns =
				EPOCH + t - c->wall_ns - by_clock(c, t) + error,
			.rtt_ns = 10 * MS,
		};

		cr_assert_eq(start_set_clock(set, node_name(i), &x, NULL), 0);
	}
}

static int stage_of(const char *name)
{
	int k = 0;

	while (strcmp(names[k], name) != 0)
		k++;
	return k;
}

static void check_cell(const struct start_report *r, const struct start_cell *c)
{
	int node = atoi(r->nodes[c->node].name + 1);
	int k = stage_of(r->stages[c->stage].name);
	const struct truth *w = &truth[k][node];

	if (!w->is_known)
		return;
	cr_expect_leq(llabs(c->duration_ns - w->duration), TOLERANCE);
	cr_expect_leq(llabs(c->begin_ns - EPOCH - w->begin), TOLERANCE);
	cr_expect_leq(llabs(c->end_ns - EPOCH - w->end), TOLERANCE);
	cr_expect_eq(c->attempts, w->attempts);
	cr_expect_eq(c->open, 0);
	cr_expect_eq(c->is_straggler, w->is_straggler, "%s %s took %g s",
		     names[k], r->nodes[c->node].name,
		     (double)c->duration_ns / 1e9);
}

static void check_causes(const struct start_report *r)
{
	AUTO_FREE struct start_past *of = calloc(NODES, sizeof(*of));
	AUTO_FREE struct start_blame *blames = NULL;
	size_t n;

	for (size_t i = 0; i < r->n_nodes; i++)
		of[i] = past[atoi(r->nodes[i].name + 1)];
	cr_assert_eq(start_blame_find(r, of, &blames, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		const struct start_cell *c = &r->cells[blames[i].cell];
		const struct truth *w =
			&truth[stage_of(r->stages[c->stage].name)]
			      [atoi(r->nodes[c->node].name + 1)];

		if (!w->is_known)
			continue;
		n_causes++;
		n_right += blames[i].cause == w->cause;
		n_invented += blames[i].cause != w->cause &&
			      w->cause == START_CAUSE_UNKNOWN;
	}
}

static size_t n_known(void)
{
	size_t n = 0;

	for (int k = 0; k < STAGES; k++)
		for (int i = 0; i < NODES; i++)
			n += truth[k][i].is_known;
	return n;
}

static void check_start(void)
{
	AUTO(start_set) set = NULL;
	struct start_report r;
	size_t n = 0;

	cr_assert_eq(start_set_new(&set, NULL), 0);
	for (size_t i = 0; i < n_events; i++)
		cr_assert_eq(start_set_add(set, &events[i], NULL), 0);
	put_clocks(set);
	cr_assert_eq(start_report_make(set, &r, NULL), 0);
	for (size_t i = 0; i < r.n_cells; i++) {
		int node = atoi(r.nodes[r.cells[i].node].name + 1);
		int k = stage_of(r.stages[r.cells[i].stage].name);

		n += truth[k][node].is_known;
		check_cell(&r, &r.cells[i]);
	}
	/* All known cells were found. */
	cr_expect_eq(n, n_known());
	check_causes(&r);
	start_report_fini(&r);
}

Test(start_truth, is_found_in_spite_of_clocks_and_losses)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		state = seed * UINT64_C(0x9e3779b97f4a7c15);
		make_start();
		check_start();
	}
	cr_expect_gt(n_causes, 300);
	cr_expect_geq(10 * n_right, 9 * n_causes, "%zu of %zu causes", n_right,
		      n_causes);
	cr_expect_eq(n_invented, 0);
}
