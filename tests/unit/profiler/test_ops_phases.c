// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/ops/ops_priv.h"
#include "profiler/ops/saves.h"

TestSuite(ops_phases, .timeout = 120);

/* A simulated cluster whose saves, loads and failures are known, sampled every 30 s: each node is
 * sampled at its own time, and a grid point shows the rate between the node's last two samples. */

#define NODES 60
#define STEP 30
#define BEGIN INT64_C(1760000000)
#define SAVES_MAX 523
#define NODE_BYTES 20.55e9
#define LOAD_S 1980.0
#define LOAD_RATE 150e9
#define BACKGROUND 5e6 /* bytes a second that each node writes to logs */

struct cluster {
	uint64_t random;
	size_t n, n_saves, n_loads;
	double write[158400], read[158400], gpu[158400];
	double phase[NODES];
	double save_at[SAVES_MAX], save_s[SAVES_MAX], load_at[64];
};

/* Random numbers by xorshift, the same in each run. */
static double next_random(struct cluster *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return (double)(c->random >> 11) / 9007199254740992.0;
}

static double next_normal(struct cluster *c)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += next_random(c);
	return sum;
}

static double overlap(double a, double b, double from, double to)
{
	return fmax(0, fmin(b, to) - fmax(a, from));
}

/* The rate at grid point `i` of a node that transfers `bytes` from `at` on. */
static double rate_shown(const struct cluster *c, size_t node, size_t i,
			 double at, double length, double bytes)
{
	double grid = (double)i * STEP, phase = c->phase[node];
	double last = floor((grid - phase) / STEP) * STEP + phase;

	return bytes * overlap(last - STEP, last, at, at + length) / length /
	       STEP;
}

static void add_flow(struct cluster *c, double *to, double at, double length,
		     double node_bytes)
{
	size_t from = at > STEP ? (size_t)(at / STEP) - 1 : 0;

	for (size_t i = from;
	     i < c->n && (double)i * STEP < at + length + 3 * STEP; i++)
		for (size_t k = 0; k < NODES; k++)
			to[i] += rate_shown(c, k, i, at, length, node_bytes);
}

static void set_gpus(struct cluster *c, double at, double length, double value)
{
	for (size_t i = (size_t)(at / STEP);
	     i < c->n && (double)i * STEP < at + length; i++)
		c->gpu[i] = value;
}

static struct cluster *new_cluster(void)
{
	struct cluster *c = calloc(1, sizeof(*c));

	cr_assert(c);
	c->random = 20251025;
	c->n = sizeof(c->write) / sizeof(*c->write);
	for (size_t k = 0; k < NODES; k++)
		c->phase[k] = next_random(c) * STEP;
	for (size_t i = 0; i < c->n; i++) {
		c->write[i] = NODES * BACKGROUND * exp(0.5 * next_normal(c));
		c->read[i] = 40e6 * exp(next_normal(c));
		c->gpu[i] = 98.5 + next_random(c);
	}
	return c;
}

static double start_session(struct cluster *c, double at)
{
	c->load_at[c->n_loads++] = at;
	add_flow(c, c->read, at, LOAD_S, LOAD_RATE * LOAD_S / NODES);
	set_gpus(c, at, LOAD_S + 60, 3);
	return at + LOAD_S + 60;
}

/* Add `n` saves of one configuration, with a failure after every `each`-th. */
static double run_saves(struct cluster *c, double at, size_t n, double interval,
			double sd, double save_s, size_t each)
{
	for (size_t i = 0; i < n; i++) {
		at += interval + sd * next_normal(c);
		c->save_at[c->n_saves] = at;
		c->save_s[c->n_saves++] = save_s;
		add_flow(c, c->write, at, save_s, NODE_BYTES);
		if (i % each == each - 1)
			at = start_session(c, at + next_random(c) * interval);
	}
	return at;
}

/* The paper's 55 days: 466 saves at 4K, then 32K, then 100K; 23 failures. */
static struct cluster *run_paper(void)
{
	struct cluster *c = new_cluster();
	double at = start_session(c, 600);

	at = run_saves(c, at, 466, 8010, 324, 18, 22);
	at = run_saves(c, at, 28, 11940, 200, 31.7, 13);
	at = run_saves(c, at, 29, 4890, 100, 30, 50);
	cr_assert_lt(at, (double)c->n * STEP);
	cr_assert_eq(c->n_saves, SAVES_MAX);
	return c;
}

static struct ops_series series_of(const struct cluster *c, double *v)
{
	return (struct ops_series){
		.begin_s = BEGIN, .step_s = STEP, .n = c->n, .v = v
	};
}

static struct ops_phases find_phases(struct cluster *c, bool has_gpu)
{
	struct ops_series write = series_of(c, c->write),
			  read = series_of(c, c->read),
			  gpu = series_of(c, has_gpu ? c->gpu : NULL);
	struct ops_phases p;
	struct error err = ERROR_INIT;

	cr_assert_eq(ops_find_phases(&write, &read, &gpu, NULL, &p, &err), 0,
		     "%s", err.msg);
	return p;
}

static void expect_saves(const struct cluster *c, const struct ops_phases *p)
{
	cr_assert_eq(p->n_saves, c->n_saves, "%zu of %zu", p->n_saves,
		     c->n_saves);
	for (size_t i = 0; i < c->n_saves; i++) {
		double at = c->save_at[i] + (double)BEGIN;

		cr_expect_float_eq(p->saves[i].begin_s, at, 1.5 * STEP);
		cr_expect_float_eq(p->saves[i].bytes / NODES, NODE_BYTES,
				   0.25 * NODE_BYTES);
	}
}

Test(ops_phases, every_save_of_55_days_is_found_and_no_other)
{
	struct cluster *c = run_paper();
	struct ops_phases p = find_phases(c, true);

	cr_expect(p.write.is_found);
	cr_expect(p.read.is_found);
	cr_expect(p.gpu.is_found);
	cr_expect_float_eq(p.gpu.threshold, 50, 10);
	expect_saves(c, &p);
	cr_assert_eq(p.n_loads, c->n_loads, "%zu", p.n_loads);
	for (size_t i = 0; i < p.n_loads; i++) {
		cr_expect_float_eq(p.loads[i].begin_s - (double)BEGIN,
				   c->load_at[i], 2 * STEP);
		cr_expect_float_eq(p.loads[i].end_s - p.loads[i].begin_s,
				   LOAD_S, 2 * STEP);
	}
	cr_expect_float_eq(p.length_s[OPS_LOAD], (double)c->n_loads * LOAD_S,
			   2.0 * STEP * (double)c->n_loads);
	cr_expect_eq(p.length_s[OPS_UNKNOWN], 0);
	ops_phases_fini(&p);
	free(c);
}

Test(ops_phases, configurations_have_their_intervals_within_half_a_sample)
{
	static const double intervals[] = { 8010, 11940, 4890 };
	static const size_t saves[] = { 466, 28, 29 };
	struct cluster *c = run_paper();
	struct ops_phases p = find_phases(c, true);

	cr_assert_eq(p.n_settings, 3, "%zu", p.n_settings);
	for (size_t i = 0; i < 3; i++) {
		double error = 4 * p.settings[i].sd_s * 1.25 /
			       sqrt((double)p.settings[i].n);

		cr_expect_float_eq((double)p.settings[i].saves,
				   (double)saves[i], 1);
		cr_expect_float_eq(p.settings[i].interval_s, intervals[i],
				   STEP / 2.0 + error, "%f",
				   p.settings[i].interval_s);
	}
	cr_expect_float_eq(p.settings[0].sd_s, 324, 40, "%f",
			   p.settings[0].sd_s);
	ops_phases_fini(&p);
	free(c);
}

Test(ops_phases, without_gpus_a_load_is_told_by_reads_alone)
{
	struct cluster *c = run_paper();
	struct ops_phases p = find_phases(c, false);

	cr_expect_eq(p.n_saves, c->n_saves);
	cr_expect_eq(p.n_loads, c->n_loads, "%zu of %zu above %g: %g",
		     p.n_loads, c->n_loads, p.read.threshold,
		     p.loads[0].begin_s - (double)BEGIN);
	cr_expect_not(p.gpu.is_found);
	ops_phases_fini(&p);
	free(c);
}

Test(ops_phases, no_save_is_found_where_there_is_none)
{
	struct cluster *c = new_cluster();
	struct ops_phases p;

	for (size_t i = 0; i < 100; i++)
		c->write[1000 + i] = NAN;
	p = find_phases(c, true);
	cr_expect_not(p.write.is_found);
	cr_expect_not(p.gpu.is_found);
	cr_expect_eq(p.n_saves + p.n_loads + p.n_settings, 0);
	ops_phases_fini(&p);
	for (size_t i = 0; i < c->n; i++)
		c->write[i] = 0;
	p = find_phases(c, true);
	cr_expect_eq(p.n_saves, 0);
	ops_phases_fini(&p);
	free(c);
}

Test(ops_phases, samples_that_are_missing_are_of_no_phase_and_cut_no_save)
{
	struct cluster *c = new_cluster();
	struct ops_phases p;

	add_flow(c, c->write, 30000, 100, NODE_BYTES);
	add_flow(c, c->write, 60000, 100, NODE_BYTES);
	c->write[1002] = c->gpu[1002] = NAN;
	for (size_t i = 5000; i < 5100; i++)
		c->write[i] = c->read[i] = c->gpu[i] = NAN;
	p = find_phases(c, true);
	cr_assert_eq(p.n_saves, 2, "%zu %d %g %g %g", p.n_saves,
		     p.write.is_found, p.write.threshold, p.write.low,
		     p.write.high);
	cr_expect_eq(p.length_s[OPS_UNKNOWN], 101 * STEP);
	cr_expect_eq(ops_last_save(&p, (double)BEGIN + 29000), NULL);
	cr_expect_eq(ops_last_save(&p, (double)BEGIN + 50000), &p.saves[0]);
	cr_expect_eq(ops_last_save(&p, (double)BEGIN + 90000), &p.saves[1]);
	ops_phases_fini(&p);
	free(c);
}

/* Slow saves do not stand out from much other writing; the rate can be given. */
Test(ops_phases, rates_that_are_given_are_taken)
{
	struct cluster *c = new_cluster();
	const struct ops_rates given = { .save = UINT64_C(1800000000) };
	struct ops_series write = series_of(c, c->write),
			  none = series_of(c, NULL);
	struct ops_phases p;

	for (size_t i = 0; i < c->n; i++)
		c->write[i] = fmin(c->write[i], 1e9);
	add_flow(c, c->write, 30000, 600, NODE_BYTES);
	p = find_phases(c, true);
	cr_expect_eq(p.n_saves, 0);
	ops_phases_fini(&p);
	cr_assert_eq(ops_find_phases(&write, &none, &none, &given, &p, NULL),
		     0);
	cr_expect_eq(p.n_saves, 1);
	cr_expect_eq(p.n_loads, 0);
	ops_phases_fini(&p);
	free(c);
}

static struct ops_set *read_jobs(const char *rows)
{
	struct buf b = BUF_INIT;
	struct ops_set *s = NULL;

	cr_assert_eq(buf_printf(&b,
				"JobID|User|State|ExitCode|Start|End|NodeList|"
				"AllocTRES|JobName\n%s",
				rows),
		     0);
	cr_assert_eq(ops_read_sacct(&b, BEGIN, &s, NULL), 0);
	return s;
}

Test(ops_phases, failure_loses_what_came_after_the_last_save_of_its_job)
{
	const struct ops_rule rule = { .nodes_min = 1, .trained_s = 3600 };
	struct cluster *c = new_cluster();
	struct ops_series write = series_of(c, c->write);
	AUTO(ops_set)
	s = read_jobs("1|u|FAILED|1|1760010000|1760050000|a|gres/gpu=8|x\n"
		      "2|u|FAILED|1|1760050000|1760059000|a|gres/gpu=8|x\n"
		      "3|u|CANCELLED|1|1760060000|1760070000|a|gres/gpu=8|x\n"
		      "4|u|FAILED|1|1760070000|1760070100|a|gres/gpu=8|x\n"
		      "5|u|FAILED|1|1759000000|1759100000|a|gres/gpu=8|x\n"
		      "6|u|FAILED|1|1759000000|1760020000|a|gres/gpu=8|x\n");
	struct ops_losses l;
	struct ops_phases p;

	add_flow(c, c->write, 30000, 100, NODE_BYTES);
	p = find_phases(c, true);
	cr_assert_eq(p.n_saves, 1, "%zu %g %g", p.n_saves, p.write.threshold,
		     p.n_saves ? p.saves[0].begin_s - (double)BEGIN : 0);
	cr_assert_eq(ops_find_losses(s, &rule, &p, &write, &l, NULL), 0);
	cr_assert_eq(l.n, 2);
	cr_expect_eq(l.n_unknown, 2);
	cr_expect(l.v[0].has_save);
	cr_expect_float_eq(l.v[0].lost_s, 50000 - 30100, 1.5 * STEP);
	cr_expect_not(l.v[1].has_save);
	cr_expect_eq(l.v[1].lost_s, 9000);
	cr_expect_float_eq(l.gpu_s, 8 * l.sum_s, 1);
	ops_losses_fini(&l);
	ops_phases_fini(&p);
	free(c);
}

/* ----------------------------------------------------------------- durations --- */

/* Measure the growth from ten samples of a counter that grows by `bytes` from `at` on, for
 * `length`. */
static struct ops_growth grow(double at, double length, double bytes,
			      double noise, bool is_reset)
{
	struct ops_sample v[40];

	for (size_t i = 0; i < 40; i++) {
		double t = (double)i * STEP;

		v[i].at_s = t;
		v[i].v = 5e12 + noise * t +
			 bytes * overlap(0, t, at, at + length) / length;
		if (is_reset && i >= 2)
			v[i].v -= 5e12 + noise * STEP;
	}
	return ops_find_growth(v, 40);
}

/* Saves are shorter than a sample; the mean of many measurements is still right. */
Test(ops_phases, mean_duration_is_right_whatever_the_sampling)
{
	static const double lengths[] = { 5, 18, 30, 31.7, 100, 400 };
	struct cluster *c = new_cluster();

	for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		double v[4000], ends[4000];
		struct ops_mean m;

		for (size_t i = 0; i < 4000; i++) {
			double at = 300 + 30 * next_random(c);
			struct ops_growth g =
				grow(at, lengths[k], 20e9, 1e6, i % 3 == 0);

			v[i] = g.length_s;
			ends[i] = g.end_s - at - lengths[k];
		}
		m = ops_mean_of(v, 4000);
		cr_expect_float_eq(m.mean, lengths[k], 1.5, "%f of %f", m.mean,
				   lengths[k]);
		cr_expect_lt(m.error, 1.0);
		m = ops_mean_of(ends, 4000);
		cr_expect_float_eq(m.mean, 0, fmax(1.5, 0.06 * lengths[k]),
				   "%f of %f", m.mean, lengths[k]);
	}
	free(c);
}

Test(ops_phases, counter_that_begins_again_loses_nothing_that_was_counted)
{
	struct ops_sample v[] = {
		{ 0, 100 }, { 30, 150 }, { 60, 20 }, { 90, 30 }
	};

	cr_expect_float_eq(ops_find_growth(v, 4).bytes, 80, 1e-9);
	cr_expect_eq(ops_find_growth(v, 1).bytes, 0);
	cr_expect_eq(ops_find_growth(v, 1).length_s, 0);
	cr_expect(isinf(ops_mean_of((double[]){ 1 }, 1).error));
}

Test(ops_phases, series_of_other_times_are_refused)
{
	double v[4] = { 1, 2, 3, 4 };
	struct ops_series a = { .begin_s = 1, .step_s = 30, .n = 4, .v = v },
			  b = { .begin_s = 2, .step_s = 30, .n = 4, .v = v },
			  none = { .begin_s = 1, .step_s = 30, .n = 4 };
	struct ops_phases p;
	struct error err = ERROR_INIT;

	cr_expect_eq(ops_find_phases(&a, &b, &none, NULL, &p, &err), -EINVAL);
	cr_expect_eq(ops_find_phases(&none, &a, &none, NULL, &p, &err),
		     -EINVAL);
}

Test(ops_phases, copies_of_a_counter_count_once_and_mounts_of_a_node_together)
{
	struct ops_flow v[] = {
		{ "b", "1", 9, { 20e9, 18, 100, 130 } },
		{ "a", "1", 10, { 20e9, 20, 110, 110 } },
		{ "a", "2", 10, { 1e9, 90, 70, 190 } },
		{ "a", "1", 4, { 7e9, 300, 1, 2 } },
		{ "c", "1", 10, { 1e9, 500, 50, 550 } },
	};
	struct ops_burst b = { .n = 1 };

	cr_assert_eq(ops_sum_flows(v, 5, &b, NULL), 0);
	cr_expect_eq(b.nodes, 3);
	cr_expect_float_eq(b.bytes, 42e9, 1);
	cr_expect_float_eq(b.node_bytes.max, 21e9, 1);
	cr_expect_float_eq(b.node_bytes.min, 1e9, 1);
	cr_expect_float_eq(b.takes_s, 19, 1e-9);
	cr_expect_float_eq(b.begin_s, 105, 1e-9);
	cr_expect_float_eq(b.end_s, 120, 1e-9);
	cr_assert_eq(ops_sum_flows(v, 0, &b, NULL), 0);
	cr_expect_eq(b.nodes, 0);
	cr_expect(isnan(b.takes_s));
}

/* Small writes between zeros, and bursts: only the bursts stand out. */
Test(ops_phases, little_writes_beside_none_are_no_bursts)
{
	double v[20000];
	struct ops_series s = {
		.begin_s = 1, .step_s = 30, .n = 20000, .v = v
	};
	struct ops_level l;

	for (size_t i = 0; i < 20000; i++)
		v[i] = i % 50 == 0 ? 1e7 : i % 800 == 9 ? 3e10 : 0;
	l = ops_find_level(&s, true);
	cr_expect(l.is_found);
	cr_expect_gt(l.threshold, 2e7);
	cr_expect_lt(l.threshold, 1e10);
}

/* The distance across a restart does not count, even if it equals the interval. */
Test(ops_phases, distance_of_saves_across_a_load_is_no_interval)
{
	struct ops_phases p = { .n_saves = 9, .n_loads = 5 };
	struct ops_burst saves[9], loads[5];

	/* Saves every hour, with a load between any two of the first six. */
	for (size_t i = 0; i < 9; i++)
		saves[i] = (struct ops_burst){ .middle_s = 3600 * (double)i,
					       .begin_s = 3600 * (double)i,
					       .end_s = 3600 * (double)i + 18,
					       .setting = SIZE_MAX };
	for (size_t i = 0; i < 5; i++)
		loads[i] =
			(struct ops_burst){ .begin_s = 3600 * (double)i + 600 };
	p.saves = saves;
	p.loads = loads;
	p.gpu.is_found = true;
	cr_assert_eq(ops_find_settings(&p, NULL), 0);
	cr_assert_eq(p.n_settings, 1);
	cr_expect_eq(p.settings[0].n, 3);
	cr_expect_float_eq(p.settings[0].from_s, 5 * 3600, 1);
	free(p.settings);
}

/* Table 13 and 4.2.5 of the paper: 1.5 of 1.621 s are spent waiting for 128 slots, and 32 of the
 * 59 ms of a load's request. */
Test(ops_phases, requests_of_the_paper_wait_for_slots)
{
	const struct ops_rpc load = { .requests = 1000,
				      .queue_s = 32,
				      .response_s = 27,
				      .bytes = 1000,
				      .node_s = 1 };
	const struct ops_rpc save = { .requests = 1000,
				      .queue_s = 1495,
				      .response_s = 126,
				      .bytes = 1000 * 1048576.0,
				      .node_s = 60 };
	const struct ops_rpc none = { .requests = 0 };
	struct ops_request r;

	cr_assert(ops_find_request(&save, &r));
	cr_expect_float_eq(r.wait_s, 1.495, 1e-9);
	cr_expect_float_eq(r.serve_s, 0.126, 1e-9);
	cr_expect_float_eq(100 * r.wait_share, 92, 0.5);
	cr_expect_float_eq(r.in_flight, 2.1, 1e-9);
	cr_expect_float_eq(ops_slots_rate(&r, 128), 128 * 1048576 / 0.126, 1);
	cr_expect_not(ops_find_request(&none, &r));
	cr_assert(ops_find_request(&load, &r));
	cr_expect_float_eq(1000 * (r.wait_s + r.serve_s), 59, 1e-9);
	cr_expect_float_eq(100 * r.wait_share, 54, 0.5);
}

/* The server's clock jumps an hour forward, and 20 minutes back (without samples in that time).
 * Distances across the jumps are no intervals, and saves before and after belong to one
 * configuration. */
Test(ops_phases, leap_of_the_clock_changes_no_interval)
{
	struct ops_phases p = { .n_saves = 12 };
	struct ops_burst saves[12];

	for (size_t i = 0; i < ARRAY_SIZE(saves); i++) {
		double at = 3600 * (double)i + (i >= 4 ? 3600 : 0) -
			    (i >= 8 ? 1200 : 0);

		saves[i] = (struct ops_burst){ .middle_s = at,
					       .begin_s = at,
					       .end_s = at + 18,
					       .setting = SIZE_MAX };
	}
	p.saves = saves;
	cr_assert_eq(ops_find_settings(&p, NULL), 0);
	for (size_t i = 0; i < p.n_settings; i++)
		cr_expect_float_eq(p.settings[i].interval_s, 3600, 1, "%f",
				   p.settings[i].interval_s);
	cr_expect_eq(p.n_settings, 1, "%zu", p.n_settings);
	free(p.settings);
}
