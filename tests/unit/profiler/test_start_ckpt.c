// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "profiler/start_ckpt.h"
#include "tests/unit/profiler/start_fixture.h"

TestSuite(start_ckpt, .timeout = 120);

#define LOADS (c.part[START_CKPT_LOADS])
#define SAVES (c.part[START_CKPT_SAVES])

static struct start_report r;
static struct start_ckpt c;

static void close_set(void)
{
	start_ckpt_fini(&c);
	start_report_fini(&r);
	start_set_free(set);
}

static void save_of(double from, double to, const char *node, int64_t rank,
		    uint64_t bytes)
{
	const uint64_t facts[STAGE_FACTS] = { [STAGE_FACT_SAVED_BYTES] = bytes,
					      [STAGE_FACT_WAIT_MS] = 500,
					      [STAGE_FACT_QUEUE_MS] = 1,
					      [STAGE_FACT_STORAGE_MS] = 20,
					      [STAGE_FACT_NETWORK_MS] = 300 };

	at_with(from, node, rank, START_CKPT_SAVE, STAGE_BEGIN, NULL);
	at_with(to, node, rank, START_CKPT_SAVE, STAGE_END, facts);
}

static void load_of(double from, double to, const char *node, uint64_t bytes)
{
	const uint64_t facts[STAGE_FACTS] = { [STAGE_FACT_ORIGIN_BYTES] =
						      bytes };

	at_with(from, node, STAGE_NONE, START_CKPT_LOAD, STAGE_BEGIN, NULL);
	at_with(to, node, STAGE_NONE, START_CKPT_LOAD, STAGE_END, facts);
}

static void make(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(start_report_make(set, &r, &err), 0, "%s", err.msg);
	cr_assert_eq(start_ckpt_make(&r, &c, &err), 0, "%s", err.msg);
}

static const char *name(uint32_t node)
{
	return r.nodes[node].name;
}

#define IS_S(ns, s) cr_expect_lt(fabs((double)(ns) / 1e9 - (s)), 1e-6)

Test(start_ckpt, sums_loads_and_saves_by_themselves, .init = open_set,
     .fini = close_set)
{
	load_of(0, 4, "a", 1000);
	load_of(1, 3, "b", 500);
	save_of(100, 110, "a", STAGE_NONE, 7000);
	save_of(100, 105, "b", STAGE_NONE, 3000);
	make();
	cr_expect_str_eq(LOADS.stage, "ckpt.load");
	cr_expect_eq(LOADS.sum.runs, 2);
	cr_expect_eq(LOADS.sum.bytes, 1500);
	cr_expect_eq(LOADS.sum.run_ms, 6000);
	IS_S(LOADS.job_ns, 4);
	cr_expect_eq(SAVES.sum.bytes, 10000);
	cr_expect_eq(SAVES.sum.run_ms, 15000);
	cr_expect_eq(SAVES.sum.wait_ms, 1000);
	cr_expect_eq(SAVES.sum.queue_ms, 2);
	cr_expect_eq(SAVES.sum.storage_ms, 40);
	cr_expect_eq(SAVES.sum.network_ms, 600);
	IS_S(SAVES.spread.median_ns, 7.5);
	cr_expect_lt(fabs(SAVES.spread.max_median - 10 / 7.5), 1e-6);
	cr_expect_eq(start_ckpt_rate(SAVES.sum.bytes, SAVES.job_ns), 1000);
}

Test(start_ckpt, has_the_slowest_nodes_first, .init = open_set,
     .fini = close_set)
{
	save_of(0, 5, "a", STAGE_NONE, 10);
	save_of(0, 5.1, "b", STAGE_NONE, 10);
	save_of(0, 60, "c", STAGE_NONE, 30);
	save_of(0, 5.2, "d", STAGE_NONE, 10);
	make();
	cr_assert_eq(SAVES.n_nodes, 4);
	cr_expect_str_eq(name(SAVES.nodes[0].node), "c");
	cr_expect_str_eq(name(SAVES.nodes[1].node), "d");
	cr_expect_str_eq(name(SAVES.nodes[3].node), "a");
	cr_expect(SAVES.nodes[0].is_straggler);
	cr_expect_not(SAVES.nodes[1].is_straggler);
	cr_expect_eq(SAVES.stragglers, 1);
	cr_expect_eq(SAVES.nodes[0].sum.bytes, 30);
	IS_S(SAVES.nodes[0].duration_ns, 60);
}

Test(start_ckpt, makes_a_round_of_what_nodes_save_together, .init = open_set,
     .fini = close_set)
{
	/* Node b begins after a, within the pause, in the same round; the next save is another
	 * round. */
	save_of(0, 5, "a", STAGE_NONE, 10);
	save_of(9, 13, "b", STAGE_NONE, 10);
	save_of(600, 606, "a", STAGE_NONE, 20);
	save_of(601, 604, "b", STAGE_NONE, 20);
	make();
	cr_assert_eq(SAVES.n_rounds, 2);
	IS_S(SAVES.rounds[0].end_ns - SAVES.rounds[0].begin_ns, 13);
	IS_S(SAVES.rounds[1].begin_ns - SAVES.rounds[0].begin_ns, 600);
	IS_S(SAVES.rounds[1].max_ns, 6);
	IS_S(SAVES.rounds[1].median_ns, 4.5);
	cr_expect_eq(SAVES.rounds[1].nodes, 2);
	cr_expect_eq(SAVES.rounds[1].sum.bytes, 40);
	cr_expect_str_eq(name(SAVES.rounds[1].slowest), "a");
	IS_S(SAVES.job_ns, 19);
	IS_S(SAVES.end_ns - SAVES.begin_ns, 606);
	/* Sums of a node's saves: a 5 + 6, b 4 + 3. */
	IS_S(SAVES.nodes[0].duration_ns, 11);
	cr_expect_eq(SAVES.nodes[0].sum.runs, 2);
}

Test(start_ckpt, takes_the_slowest_of_a_nodes_ranks, .init = open_set,
     .fini = close_set)
{
	save_of(0, 5, "a", 0, 10);
	save_of(0, 8, "a", 1, 10);
	save_of(6, 7, "a", 0, 10);
	make();
	cr_assert_eq(SAVES.n_nodes, 1);
	cr_assert_eq(SAVES.n_rounds, 1);
	IS_S(SAVES.nodes[0].duration_ns, 8);
	IS_S(SAVES.rounds[0].max_ns, 8);
	cr_expect_eq(SAVES.rounds[0].nodes, 1);
	cr_expect_eq(SAVES.nodes[0].sum.bytes, 30);
	cr_expect_eq(SAVES.nodes[0].sum.run_ms, 14000);
}

Test(start_ckpt, counts_what_has_no_end_and_knows_no_time_of_it,
     .init = open_set, .fini = close_set)
{
	save_of(0, 4, "a", STAGE_NONE, 10);
	at_with(1, "b", STAGE_NONE, START_CKPT_SAVE, STAGE_BEGIN, NULL);
	make();
	cr_expect_eq(SAVES.sum.runs, 2);
	cr_expect_eq(SAVES.sum.open, 1);
	cr_assert_eq(SAVES.n_rounds, 1);
	cr_expect_eq(SAVES.rounds[0].nodes, 2);
	cr_expect_eq(SAVES.rounds[0].sum.open, 1);
	IS_S(SAVES.rounds[0].median_ns, 4);
	cr_expect_eq(SAVES.spread.n, 1);
}

Test(start_ckpt, is_empty_where_nobody_loaded_or_saved, .init = open_set,
     .fini = close_set)
{
	make();
	cr_expect_eq(LOADS.n_nodes, 0);
	cr_expect_eq(LOADS.n_rounds, 0);
	cr_expect_eq(SAVES.sum.runs, 0);
	cr_expect_eq(start_ckpt_rate(5, 0), 0);
}

Test(start_ckpt, sums_of_made_up_numbers_stay_numbers, .init = open_set,
     .fini = close_set)
{
	for (int i = 0; i < 5000; i++)
		save_of(i, i + 0.5, "a", STAGE_NONE, STAGE_FACT_MAX);
	make();
	cr_expect_eq(SAVES.sum.bytes, UINT64_C(1) << 62);
	cr_expect_eq(SAVES.rounds[0].sum.bytes, UINT64_C(1) << 62);
	cr_expect_eq(start_ckpt_rate(SAVES.sum.bytes, 1), UINT64_C(1) << 62);
}
