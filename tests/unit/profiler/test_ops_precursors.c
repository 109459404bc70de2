// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/ops/precursors.h"

TestSuite(ops_precursors, .timeout = 120);

/* Simulated metrics of 60 nodes over 55 days. Each drifts slowly, has a level of its own at each
 * node, and jumps at times, as real ones do; the planted faults are known. */

#define NODES 60
#define STEP 120
#define BEFORE 7200
#define DAYS 55
#define BEGIN INT64_C(1755216000)
#define END (BEGIN + DAYS * 86400)
#define FAILURES 10
#define SIGNALS 6

static void expect_near(double v, double wanted, double by)
{
	cr_assert(fabs(v - wanted) <= by, "%f is not near %f", v, wanted);
}

struct truth {
	uint64_t random;
	struct ops_failure f[FAILURES];
	/* For each failure, the metric that changes before it, and from when on; -1: none. */
	int signal[FAILURES];
	double onset_s[FAILURES];
	double size; /* size of the change, in deviations */
};

static double next_random(struct truth *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return (double)(t->random >> 11) / 9007199254740992.0;
}

static double next_normal(struct truth *t)
{
	double sum = -2;

	for (int i = 0; i < 4; i++)
		sum += next_random(t);
	return sum * 1.732;
}

/* The constant level of a metric at a node. */
static double level_of(uint32_t node, size_t signal)
{
	return 0.5 * (double)((node * 7 + signal * 3) % 5) - 1;
}

static void plant_failures(struct truth *t, uint64_t seed, double size)
{
	*t = (struct truth){ .random = seed, .size = size };
	for (size_t i = 0; i < FAILURES; i++) {
		t->f[i] = (struct ops_failure){
			.node = (uint32_t)(i * 11 % NODES),
			.at_s = BEGIN + (double)(i + 1) * 4.7 * 86400 +
				next_random(t) * 3600,
			.xid = 79,
		};
		/* Every third failure has no precursor. */
		t->signal[i] = i % 3 == 2 ? -1 : (int)(i % SIGNALS);
		t->onset_s[i] = t->f[i].at_s - 600 - next_random(t) * 5000;
	}
}

static double planted_deviation(const struct truth *t, uint32_t node,
				size_t signal, double at_s)
{
	for (size_t i = 0; i < FAILURES; i++) {
		if (t->f[i].node != node)
			continue;
		if (t->signal[i] == (int)signal && at_s >= t->onset_s[i] &&
		    at_s < t->f[i].at_s + 60)
			return t->size * (signal % 2 ? -1 : 1);
		/* The job ends with the failure, which changes all metrics of the node. */
		if (at_s >= t->f[i].at_s && at_s < t->f[i].at_s + 3600)
			return -40;
	}
	return 0;
}

struct slow_node {
	uint32_t node;
	size_t signal;
	double from_s, to_s, size;
};

static void fill_panel(struct truth *t, const struct ops_windows *w,
		       size_t signal, const struct slow_node *slow,
		       size_t n_slow, struct ops_panel *p)
{
	*p = (struct ops_panel){ .windows = w };
	for (uint32_t node = 0; node < NODES; node++)
		for (size_t k = 0; k < w->n_all; k++) {
			float *row;
			double wander = next_normal(t);

			cr_assert_eq(ops_panel_row(p, node, k, &row, NULL), 0);
			for (size_t i = 0; i < w->n; i++) {
				double at_s = (double)w->v[k].begin_s +
					      (double)i * STEP;
				double v = 1000;

				wander = 0.9 * wander + 0.44 * next_normal(t);
				v += 30 *
				     (wander + level_of(node, signal) +
				      planted_deviation(t, node, signal, at_s));
				if (next_random(t) < 0.002)
					v += 600 * next_random(t);
				for (size_t s = 0; s < n_slow; s++)
					if (slow[s].node == node &&
					    slow[s].signal == signal &&
					    at_s >= slow[s].from_s &&
					    at_s < slow[s].to_s)
						v *= 1 - slow[s].size;
				row[i] = next_random(t) < 0.01 ? NAN : (float)v;
			}
		}
}

static struct ops_study *study_all(struct truth *t, struct ops_windows *w,
				   const struct slow_node *slow, size_t n_slow)
{
	struct ops_study *s;
	struct ops_panel *p = calloc(1, sizeof(*p));

	cr_assert_eq(ops_choose_windows(BEGIN, END, STEP, BEFORE, t->f,
					FAILURES, w, NULL),
		     0);
	cr_assert_eq(ops_study_new(w, t->f, FAILURES, SIGNALS, 1, &s, NULL), 0);
	for (size_t i = 0; i < SIGNALS; i++) {
		fill_panel(t, w, i, slow, n_slow, p);
		cr_assert_eq(ops_study_add(s, i, -1, p, NULL), 0);
		ops_panel_fini(p);
	}
	free(p);
	return s;
}

Test(ops_precursors, planted_ones_are_found_with_their_lead_and_no_others)
{
	struct truth t;
	struct ops_windows w;
	struct ops_study *s;
	const struct ops_precursors *p;
	size_t n = 0;

	plant_failures(&t, 88172645463325252, 20);
	s = study_all(&t, &w, NULL, 0);
	p = ops_study_end(s);
	cr_assert_eq(p->compared, FAILURES);
	for (size_t i = 0; i < FAILURES; i++) {
		double lead_s = t.f[i].at_s - t.onset_s[i];
		size_t before = 0;

		for (size_t k = 0; k < p->n_departures; k++) {
			const struct ops_departure *d = &p->departures[k];

			if (d->failure != i)
				continue;
			if (d->warning_s <= 0) {
				cr_assert_leq(d->lead_s, 2 * STEP);
				continue;
			}
			before++;
			cr_assert_eq((int)d->signal, t.signal[i]);
			expect_near(d->lead_s, lead_s, STEP);
			expect_near(d->lead_s - d->warning_s,
				    (OPS_STAY - 1) * STEP, 1e-6);
			cr_assert_eq(d->score > 0, t.signal[i] % 2 == 0);
		}
		cr_assert_eq(before, t.signal[i] >= 0, "%zu of %zu", before, i);
		n += before;
	}
	cr_assert_eq(p->preceded, n);
	cr_assert_eq(p->n_slow, 0);
	cr_assert_leq((double)p->alarms, p->days);
	cr_assert_lt(p->by_chance, 0.1);
	ops_study_free(s);
	ops_windows_fini(&w);
}

Test(ops_precursors, clean_data_give_one_false_alarm_a_day_at_most)
{
	double days = 0, alarms = 0;

	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct truth t;
		struct ops_windows w;
		struct ops_study *s;
		const struct ops_precursors *p;

		plant_failures(&t, seed * 7919, 0);
		s = study_all(&t, &w, NULL, 0);
		p = ops_study_end(s);
		cr_assert_eq(p->preceded, 0);
		for (size_t i = 0; i < SIGNALS; i++)
			cr_assert_lt(p->signals[i].threshold, 20);
		days += p->days;
		alarms += (double)p->alarms;
		ops_study_free(s);
		ops_windows_fini(&w);
	}
	cr_assert_gt(days, 5);
	cr_assert_leq(alarms, days);
}

Test(ops_precursors, slow_nodes_are_found_all_and_alone)
{
	const struct slow_node slow[] = {
		{ 7, 1, BEGIN + 10 * 86400, BEGIN + 30 * 86400, 0.35 },
		{ 21, 1, BEGIN, END, 0.45 },
		{ 40, 4, BEGIN + 40 * 86400, END, 0.4 },
	};
	struct truth t;
	struct ops_windows w;
	struct ops_study *s;
	const struct ops_precursors *p;

	plant_failures(&t, 424242, 20);
	s = study_all(&t, &w, slow, ARRAY_SIZE(slow));
	p = ops_study_end(s);
	cr_assert_eq(p->n_slow, ARRAY_SIZE(slow));
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		cr_assert_eq(p->slow[i].node, slow[i].node);
		cr_assert_eq(p->slow[i].signal, slow[i].signal);
		expect_near(p->slow[i].share, -slow[i].size, 0.05);
		expect_near(p->slow[i].from_s, slow[i].from_s, 3 * 86400);
		expect_near(p->slow[i].to_s, slow[i].to_s, 3 * 86400);
	}
	/* A permanently slow node causes no false alarms. */
	cr_assert_leq((double)p->alarms, p->days);
	ops_study_free(s);
	ops_windows_fini(&w);
}

/* Fill a panel with the same value for all nodes and times. */
static void fill_with(const struct ops_windows *w, float value,
		      struct ops_panel *p)
{
	*p = (struct ops_panel){ .windows = w };
	for (uint32_t node = 0; node < NODES; node++)
		for (size_t k = 0; k < w->n_all; k++) {
			float *row;

			cr_assert_eq(ops_panel_row(p, node, k, &row, NULL), 0);
			for (size_t i = 0; i < w->n; i++)
				row[i] = value;
		}
}

Test(ops_precursors, idle_nodes_and_restless_metrics_give_no_alarms)
{
	struct truth t;
	struct ops_windows w;
	struct ops_study *s;
	struct ops_panel *p = calloc(1, sizeof(*p));
	const struct ops_precursors *found;
	float *row;

	plant_failures(&t, 1, 0);
	cr_assert_eq(ops_choose_windows(BEGIN, END, STEP, BEFORE, t.f, FAILURES,
					&w, NULL),
		     0);
	cr_assert_eq(ops_study_new(&w, t.f, FAILURES, 3, 1, &s, NULL), 0);
	/* Two spare nodes are idle, with low values of all metrics. */
	fill_with(&w, 98, p);
	for (size_t k = 0; k < w.n_all; k++)
		for (size_t i = 0; i < w.n; i++)
			for (uint32_t node = 58; node < 60; node++)
				p->rows[node][k * w.n + i] = 0;
	cr_assert_eq(ops_study_set_busy(s, p, NULL), 0);
	cr_assert_eq(ops_study_add(s, 0, -1, p, NULL), 0);
	/* Nodes without GPUs are not compared either. */
	cr_assert_eq(ops_panel_row(p, 60, 0, &row, NULL), 0);
	cr_assert_eq(ops_study_add(s, 0, -1, p, NULL), 0);
	ops_panel_fini(p);
	/* Each node counts errors at times when no other node does. */
	fill_with(&w, 0, p);
	for (size_t k = 0; k < w.n_all; k++)
		for (size_t i = 20; i < 40; i++)
			p->rows[k % NODES][k * w.n + i] = 3;
	cr_assert_eq(ops_study_add(s, 1, 0, p, NULL), 0);
	ops_panel_fini(p);
	/* Errors that occur only once do count. */
	fill_with(&w, 0, p);
	for (size_t i = w.n_before - 15; i < w.n_before; i++)
		p->rows[t.f[4].node][(w.n_rest + 4) * w.n + i] = 3;
	cr_assert_eq(ops_study_add(s, 2, 0, p, NULL), 0);
	ops_panel_fini(p);
	found = ops_study_end(s);
	cr_assert_eq(found->n_slow, 0);
	cr_assert_eq(found->signals[0].nodes, 58);
	cr_assert(isinf(found->signals[1].threshold));
	cr_assert_eq(found->alarms, 0);
	cr_assert_eq(found->n_departures, 1);
	cr_assert_eq(found->departures[0].failure, 4);
	expect_near(found->departures[0].lead_s, 1800, STEP);
	ops_study_free(s);
	ops_windows_fini(&w);
	free(p);
}

Test(ops_precursors, windows_keep_clear_of_failures)
{
	struct truth t;
	struct ops_windows w;
	struct error err = ERROR_INIT;

	plant_failures(&t, 3, 0);
	cr_assert_eq(ops_choose_windows(BEGIN, END, STEP, BEFORE, t.f, FAILURES,
					&w, NULL),
		     0);
	cr_assert_eq(w.n_rest, OPS_REST_MAX);
	cr_assert_eq(w.n_all, OPS_REST_MAX + FAILURES);
	for (size_t i = 0; i < w.n_rest; i++) {
		cr_assert_geq(w.v[i].begin_s, BEGIN);
		cr_assert_leq(w.v[i].begin_s + (int64_t)w.n * STEP, END);
		cr_assert(i == 0 || w.v[i].begin_s > w.v[i - 1].begin_s);
		for (size_t k = 0; k < FAILURES; k++)
			cr_assert(t.f[k].at_s <=
					  (double)w.v[i].begin_s - BEFORE ||
				  t.f[k].at_s >=
					  (double)w.v[i].begin_s + 2 * BEFORE);
	}
	for (size_t i = 0; i < FAILURES; i++) {
		double before = t.f[i].at_s -
				(double)w.v[w.n_rest + i].begin_s -
				(double)(w.n_before - 1) * STEP;

		cr_assert(before > 0 && before <= STEP);
	}
	ops_windows_fini(&w);
	cr_assert_eq(ops_choose_windows(BEGIN, BEGIN + 8 * BEFORE, STEP, BEFORE,
					NULL, 0, &w, &err),
		     -ENODATA);
	cr_assert(strstr(err.msg, "ask for more days"));
}

/* Without GPU utilisation it is unknown which nodes are idle, so none is compared. */
Test(ops_precursors, nodes_are_not_compared_while_no_gpu_is_heard_of)
{
	struct ops_window window = { .failure = SIZE_MAX };
	const struct ops_windows now = {
		.v = &window, .n_all = 1, .n_rest = 1, .n = OPS_STAY
	};
	const struct ops_signal_result r = { .threshold = 6 };
	AUTO_FREE struct ops_panel *gpu = calloc(1, sizeof(*gpu));
	AUTO_FREE struct ops_panel *p = calloc(1, sizeof(*p));
	struct error err = ERROR_INIT;
	float scores[20], *row;

	cr_assert(gpu && p);
	gpu->windows = p->windows = &now;
	for (uint32_t node = 0; node < 20; node++) {
		cr_assert_eq(ops_panel_row(p, node, 0, &row, &err), 0, "%s",
			     err.msg);
		for (size_t i = 0; i < OPS_STAY; i++)
			row[i] = node == 7 ? 100 : (float)(node % 3);
	}
	cr_assert_eq(ops_score_now(&r, gpu, p, scores, &err), 0, "%s", err.msg);
	for (uint32_t node = 0; node < 20; node++)
		cr_expect(isnan(scores[node]), "%u", node);
	ops_panel_fini(p);
	ops_panel_fini(gpu);
}

Test(ops_precursors, kernels_logs_tell_of_xids_and_programs_do_not)
{
	static const struct {
		const char *line;
		int rc;
		double at_s;
		uint32_t xid;
	} cases[] = {
		{ "2025-10-01T09:00:30+0900 gpu071 kernel: NVRM: Xid (PCI:0000:4b:00): "
		  "145, pid='<unknown>', name=<unknown>, RLW_SRC_TRACK",
		  1, 1759276830, 145 },
		{ "2025-10-01T00:00:30.123456+00:00 gpu071 kernel: [ 12.5] NVRM: Xid "
		  "(PCI:0000:4b:00): 79, GPU has fallen off the bus.",
		  1, 1759276830, 79 },
		{ "2025-10-01T00:00:30Z gpu071 kernel: NVRM: loading", 0, 0,
		  0 },
		{ "2025-10-01T00:00:30Z gpu071 kernel: audit: comm=\"NVRM: Xid (PCI:0): "
		  "79,\"",
		  0, 0, 0 },
		{ "2025-10-01T00:00:30Z gpu071 sh: kernel: NVRM: Xid (PCI:0): 79, x",
		  0, 0, 0 },
		{ "Oct 01 00:00:30 gpu071 kernel: NVRM: Xid (PCI:0): 79, x",
		  -EINVAL, 0, 0 },
		{ "2025-10-01T00:00:30 gpu071 kernel: NVRM: Xid (PCI:0): 79, x",
		  -EINVAL, 0, 0 },
		{ "2025-10-01T00:00:30Z gpu071 kernel: NVRM: Xid (PCI:0): 79x",
		  -EINVAL, 0, 0 },
		{ "2025-10-01T00:00:30Z gpu071 kernel: NVRM: Xid (PCI:0): 4294967375, x",
		  -EINVAL, 0, 0 },
		{ "2025-10-01T00:00:30Z gpu071 kernel: NVRM: Xid (", -EINVAL, 0,
		  0 },
		{ " kernel: NVRM: Xid (PCI:0): 79, x", -EINVAL, 0, 0 },
		{ " kernel: [", 0, 0, 0 },
		{ "1759276830 gpu071 79", 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ops_kernel_error e = { .xid = 0 };

		cr_expect_eq(ops_read_kernel_line(cases[i].line, &e, NULL),
			     cases[i].rc, "%s", cases[i].line);
		if (cases[i].rc == 1)
			cr_expect(e.at_s == cases[i].at_s &&
					  e.xid == cases[i].xid &&
					  strcmp(e.node, "gpu071") == 0,
				  "%s: %s", cases[i].line, e.node);
	}
}
