// SPDX-License-Identifier: Apache-2.0
/*
 * Job starts whose truth is known: clocks that are wrong by up to 10 s, drift and
 * step, events that are lost, come twice and late, retries.  Durations are to be
 * within 50 ms, and stragglers those that there are.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "profiler/start_report.h"

TestSuite(start_truth, .timeout = 300);

#define NODES 200
#define STAGES 5
#define SEEDS 20
#define MS INT64_C(1000000)
#define S (1000 * MS)
#define EPOCH (1795449940 * S) /* the service's clock at the true time 0 */
#define TOLERANCE (50 * MS)
#define LATER (NODES * STAGES * 6) /* events of a start at most */

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
	int64_t wall_ns, mono_ns; /* that it shows at the true time 0 */
	int64_t ppm;
	int64_t step_at, step_ns; /* of the wall clock */
};

struct truth {
	int64_t duration, begin, end; /* true time */
	bool is_known, is_straggler;
	unsigned int attempts;
};

static struct clock clocks[NODES];
static struct truth truth[STAGES][NODES];
static struct start_event events[LATER];
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
	};
	if (one_in(20)) { /* it comes twice */
		events[n_events] = events[n_events - 1];
		n_events++;
	}
}

/* A stage of a node from the true time `t` on; returns its end. */
static int64_t one_stage(int stage, int node, int64_t t)
{
	struct truth *w = &truth[stage][node];
	int64_t d = typical[stage] +
		    between(-typical[stage] / 20, typical[stage] / 20);

	*w = (struct truth){ .begin = t, .is_known = true, .attempts = 1 };
	w->is_straggler = one_in(40);
	if (w->is_straggler)
		d = d * between(150, 400) / 100 + 2 * S;
	if (!w->is_straggler && one_in(30)) { /* a first attempt that fails */
		w->attempts++;
		put(stage, node, STAGE_BEGIN, t);
		put(stage, node, STAGE_END, t + d / 50);
		w->duration += d / 50;
		t += d / 50 + 100 * MS;
	}
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
		clocks[i] = (struct clock){
			.wall_ns = EPOCH + between(-10 * S, 10 * S),
			.mono_ns = between(S, 1000000 * S),
			.ppm = between(-50, 50),
			.step_at = between(0, 400 * S),
			.step_ns = one_in(5) ? between(-5 * S, 5 * S) : 0,
		};
	for (int k = 0; k < STAGES; k++) { /* each waits for the slowest */
		int64_t last = t;

		for (int i = 0; i < NODES; i++) {
			int64_t end = one_stage(k, i, t + between(0, 20 * MS));

			if (end > last)
				last = end;
		}
		t = last + 10 * MS;
	}
	for (size_t i = n_events - 1; i > 0; i--) { /* and late */
		size_t j = (size_t)between(0, (int64_t)i);
		struct start_event e = events[i];

		events[i] = events[j];
		events[j] = e;
	}
}

/* The exchange with the service is half way through the start. */
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

static void check_cell(const struct start_report *r, const struct start_cell *c)
{
	int node = atoi(r->nodes[c->node].name + 1), k = 0;
	const struct truth *w;

	while (strcmp(names[k], r->stages[c->stage].name) != 0)
		k++;
	w = &truth[k][node];
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
		int node = atoi(r.nodes[r.cells[i].node].name + 1), k = 0;

		while (strcmp(names[k], r.stages[r.cells[i].stage].name) != 0)
			k++;
		n += truth[k][node].is_known;
		check_cell(&r, &r.cells[i]);
	}
	/* None of those that are known is missing. */
	cr_expect_eq(n, n_known());
	start_report_fini(&r);
}

Test(start_truth, is_found_in_spite_of_clocks_and_losses)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		state = seed * UINT64_C(0x9e3779b97f4a7c15);
		make_start();
		check_start();
	}
}
