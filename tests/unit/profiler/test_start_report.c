// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "profiler/start_blame.h"
#include "tests/unit/profiler/start_fixture.h"

TestSuite(start_report, .timeout = 120);
TestSuite(start_blame, .timeout = 120);

static struct start_report r;

static void close_set(void)
{
	start_report_fini(&r);
	start_set_free(set);
}

static void at(double s, const char *node, int64_t rank, const char *stage,
	       enum stage_ev ev)
{
	at_with(s, node, rank, stage, ev, NULL);
}

static void run(double from, double to, const char *node, int64_t rank,
		const char *stage)
{
	at(from, node, rank, stage, STAGE_BEGIN);
	at(to, node, rank, stage, STAGE_END);
}

static void report(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(start_report_make(set, &r, &err), 0, "%s", err.msg);
}

static struct start_stage *stage(const char *name)
{
	for (size_t i = 0; i < r.n_stages; i++)
		if (strcmp(r.stages[i].name, name) == 0)
			return &r.stages[i];
	cr_assert(false, "no stage %s", name);
	return NULL;
}

static struct start_node *node(const char *name)
{
	for (size_t i = 0; i < r.n_nodes; i++)
		if (strcmp(r.nodes[i].name, name) == 0)
			return &r.nodes[i];
	cr_assert(false, "no node %s", name);
	return NULL;
}

#define REPORT_TEST(name) \
	Test(start_report, name, .init = open_set, .fini = close_set)

/* ---------------------------------------------------------- waits and failures --- */

static void ends_with(double s, const char *n, int64_t rank, const char *name,
		      int64_t status)
{
	const struct start_event e = { .stage = name,
				       .node = n,
				       .rank = rank,
				       .ev = STAGE_END,
				       .mono_ns = (int64_t)(s * 1e9) + 50 * S,
				       .ts_ns = (int64_t)(s * 1e9) + 1000 * S,
				       .status = status,
				       .boot = 1 };

	cr_assert_eq(start_set_add(set, &e, NULL), 0);
}

static void expect_wait(double now_s, const char *text)
{
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(start_wait_text(&r, r.begin_ns + (int64_t)(now_s * 1e9),
				     &b),
		     0);
	cr_expect_str_eq(b.data ? b.data : "", text);
}

static void expect_failure(const char *text)
{
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(start_failure_text(&r, &b), 0);
	cr_expect_str_eq(b.data ? b.data : "", text);
}

static void expect_mended(const char *text)
{
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(start_mended_text(&r, &b), 0);
	cr_expect_str_eq(b.data ? b.data : "", text);
}

REPORT_TEST(names_the_node_that_hangs_and_not_one_that_was_late)
{
	for (int i = 0; i < 500; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%d", i);
		run(0, i == 7 ? 14.8 : 10, name, -1, "env");
		at(15, name, 0, "model.load", STAGE_BEGIN);
		if (i != 499)
			at(60, name, 0, "model.load", STAGE_END);
		if (i != 499)
			at(61, name, 0, "dist.init", STAGE_BEGIN);
	}
	report();
	cr_assert_eq(r.n_waits, 500);
	cr_expect_str_eq(r.nodes[r.waits[0].node].name, "n499");
	cr_expect_eq(r.waits[0].last_ns, r.begin_ns + 15 * S);
	expect_wait(375, "n499, rank 0: in model.load for 6 min, which 499 of "
			 "500 have ended; last heard 6 min ago: model.load "
			 "begin");
	/* An open run has a length, and its node is the slowest. */
	for (size_t i = 0; i < r.n_runs; i++)
		if (r.runs[i].goes_on && r.runs[i].node == r.waits[0].node)
			cr_expect_eq(start_run_length(&r, &r.runs[i],
						      r.begin_ns + 375 * S),
				     360 * S);
	cr_expect_eq(start_node_busy(&r, node("n499"), r.begin_ns + 375 * S),
		     370 * S);
	cr_expect_eq(start_node_busy(&r, node("n499"), r.begin_ns + 15 * S),
		     10 * S);
}

REPORT_TEST(names_a_node_that_has_not_begun_what_the_others_are_in)
{
	for (int i = 0; i < 4; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%d", i);
		run(0, 10 + i, name, -1, "env");
		if (i != 2)
			at(15, name, -1, "rdma.wait", STAGE_BEGIN);
	}
	report();
	cr_assert_eq(r.n_waits, 1);
	expect_wait(42,
		    "n2: not in rdma.wait yet, idle for 30.0 s, which 3 of 4 "
		    "have begun; last heard 30.0 s ago: env end");
}

REPORT_TEST(waits_for_all_where_nobody_is_ahead)
{
	for (int i = 0; i < 3; i++)
		at(i, "a", i, "model", STAGE_BEGIN);
	report();
	expect_wait(12, "3, first a, rank 0: in model for 12.0 s, which 0 of 3 "
			"have ended; last heard 12.0 s ago: model begin");
}

REPORT_TEST(does_not_take_a_lost_end_for_a_node_that_hangs)
{
	for (int i = 0; i < 5; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%d", i);
		at(0, name, -1, "env", STAGE_BEGIN);
		if (i != 1)
			at(10, name, -1, "env", STAGE_END);
		run(12, 20, name, -1, "model");
	}
	at(25, "n4", -1, "warmup", STAGE_BEGIN);
	report();
	cr_assert_eq(r.n_waits, 1);
	cr_expect_str_eq(r.nodes[r.waits[0].node].name, "n4");
	cr_expect_eq(start_node_busy(&r, node("n1"), r.begin_ns + 99 * S),
		     8 * S);
}

REPORT_TEST(says_that_nobody_marks_the_training)
{
	run(0, 10, "a", -1, "env");
	run(0, 12, "b", -1, "env");
	report();
	expect_wait(72, "the mark 'train': no node is in a stage, and none has "
			"said it; last heard 1 min ago, of b");
}

REPORT_TEST(waits_for_a_node_without_the_mark_that_most_others_have)
{
	for (int i = 0; i < 4; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%d", i);
		at(0, name, -1, "model", STAGE_BEGIN);
		if (i == 3)
			continue;
		at(9, name, -1, "model", STAGE_END);
		at(10, name, -1, START_READY_MARK, STAGE_MARK);
	}
	report();
	cr_expect(r.is_ready);
	cr_assert_eq(r.n_waits, 1);
	cr_expect_str_eq(r.nodes[r.waits[0].node].name, "n3");
}

/* The node died between two stages. */
REPORT_TEST(names_a_node_that_is_in_no_stage_while_most_others_train)
{
	for (int i = 0; i < 4; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%d", i);
		run(0, 5, name, -1, "env");
		if (i == 3)
			continue;
		run(6, 9, name, -1, "model");
		at(10, name, -1, START_READY_MARK, STAGE_MARK);
	}
	report();
	cr_expect(r.is_ready);
	cr_assert_eq(r.n_waits, 1);
	expect_wait(15,
		    "n3: not in model yet, idle for 10.0 s, which 3 of 4 have "
		    "begun; last heard 10.0 s ago: env end");
}

REPORT_TEST(names_a_node_that_is_through_and_does_not_train)
{
	for (int i = 0; i < 4; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%d", i);
		run(0, 5, name, -1, "env");
		if (i != 2)
			at(10, name, -1, START_READY_MARK, STAGE_MARK);
	}
	report();
	cr_assert_eq(r.n_waits, 1);
	expect_wait(15,
		    "n2: not in train yet, idle for 10.0 s, which 3 of 4 have "
		    "begun; last heard 10.0 s ago: env end");
}

REPORT_TEST(does_not_wait_for_nodes_of_which_one_speaks_for_all)
{
	for (int i = 0; i < 4; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%d", i);
		at(0, name, -1, "model", STAGE_BEGIN);
		at(i ? 12 : 9, name, -1, "model", STAGE_END);
	}
	at(10, "n0", -1, START_READY_MARK, STAGE_MARK);
	report();
	cr_expect_eq(r.n_waits, 0);
	expect_wait(99, "");
}

REPORT_TEST(names_who_failed_first_before_what_followed)
{
	for (int i = 0; i < 4; i++)
		at(0, "a", i, "model", STAGE_BEGIN);
	for (int i = 0; i < 4; i++)
		at(1, "a", i, "model.load", STAGE_BEGIN);
	/* A rank fails, and torchrun stops the others; clocks may differ. */
	ends_with(9.5, "a", 0, "model.load", 143);
	ends_with(10, "a", 2, "model.load", 1);
	ends_with(10, "a", 2, "model", 1);
	ends_with(11, "a", 1, "model.load", 143);
	report();
	cr_assert_eq(r.n_failures, 3);
	cr_expect_eq(stage("model")->failed, 0);
	cr_expect_eq(stage("model.load")->failed, 3);
	expect_failure(
		"a, rank 2: model.load ended with status 1 after 10.0 s, "
		"before 2 others");
}

REPORT_TEST(tells_a_failure_that_was_mended_from_one_that_was_not)
{
	at(0, "a", -1, "env", STAGE_BEGIN);
	ends_with(3, "a", -1, "env", 1);
	at(4, "a", -1, "env", STAGE_BEGIN);
	ends_with(6, "a", -1, "env", 0);
	report();
	cr_assert_eq(r.n_failures, 1);
	cr_expect(r.failures[0].is_again);
	expect_failure("");
	expect_mended(
		"a: env ended with status 1 after 3.0 s; done again it went well");
	start_report_fini(&r);
	at(7, "b", -1, "model", STAGE_BEGIN);
	ends_with(9, "b", -1, "model", 137);
	report();
	expect_failure("b: model ended with status 137 (killed, often for "
		       "memory) after 9.0 s");
	expect_mended(
		"a: env ended with status 1 after 3.0 s; done again it went well");
}

REPORT_TEST(names_the_failure_that_took_longest_of_those_that_were_mended)
{
	at(0, "a", -1, "env", STAGE_BEGIN);
	ends_with(1, "a", -1, "env", 1);
	at(2, "a", -1, "env", STAGE_BEGIN);
	ends_with(7, "a", -1, "env", 2);
	at(8, "a", -1, "env", STAGE_BEGIN);
	ends_with(9, "a", -1, "env", 0);
	report();
	expect_mended(
		"a: env ended with status 2 after 5.0 s, and 1 other; done again it "
		"went well");
}

REPORT_TEST(takes_a_second_barrier_for_no_retry)
{
	run(0, 1, "a", 0, "barrier");
	run(2, 3, "a", 0, "barrier");
	run(4, 5, "a", 0, "env");
	run(6, 7, "a", 0, "env");
	at(8, "a", 0, "sync", STAGE_BEGIN);
	ends_with(9, "a", 0, "sync", 0);
	run(10, 11, "a", 0, "sync");
	at(12, "a", 0, "pip", STAGE_BEGIN);
	ends_with(13, "a", 0, "pip", 1);
	run(14, 15, "a", 0, "pip");
	report();
	cr_expect_eq(stage("barrier")->retries, 0);
	cr_expect_eq(stage("sync")->retries, 0);
	/* Without a status, it is unknown whether the first run succeeded. */
	cr_expect_eq(stage("env")->retries, 1);
	cr_expect_eq(stage("pip")->retries, 1);
}

REPORT_TEST(calls_no_node_of_five_hundred_a_straggler_by_chance)
{
	uint64_t random = 88172645463325252u;

	for (int i = 0; i < 500; i++) {
		double sum = 0;
		char name[8];

		/* The sum of twelve uniform numbers is nearly normal; skew it like real times. */
		for (int k = 0; k < 12; k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			sum += (double)(random % 1000) / 1000;
		}
		(void)snprintf(name, sizeof(name), "n%d", i);
		sum = (sum - 6) * 0.3;
		run(0, 10 * (1 + sum + sum * sum / 2), name, -1, "env");
	}
	run(0, 60, "slow", -1, "env");
	report();
	cr_expect_eq(stage("env")->stragglers, 1);
}

REPORT_TEST(loses_no_time_of_gpus_in_the_queue)
{
	const uint64_t gpus[STAGE_FACTS] = { [STAGE_FACT_GPUS] = 8 };

	run(0, 3590, "a", -1, "queue");
	run(3590, 3600, "a", -1, "schedule");
	at_with(3600, "a", -1, "image", STAGE_BEGIN, gpus);
	at(3650, "a", -1, "image", STAGE_END);
	at(3663, "a", 0, START_READY_MARK, STAGE_MARK);
	report();
	cr_expect_float_eq(r.lost.gpu_s, 63 * 8, 1e-6);
	cr_expect_float_eq(r.lost.node_s, 63, 1e-6);
	cr_expect_float_eq(r.lost.wait_s, 13, 1e-6);
}

REPORT_TEST(of_nothing_is_empty)
{
	report();
	cr_expect_eq(r.n_runs + r.n_stages + r.n_nodes + r.n_path, 0);
}

REPORT_TEST(pairs_stages_and_has_both_levels)
{
	run(0, 10, "a", -1, "image");
	run(1, 21, "b", -1, "image");
	run(21, 25, "a", -1, "env");
	run(21, 25, "b", -1, "env");
	at(30, "a", 0, START_READY_MARK, STAGE_MARK);
	run(40, 50, "a", -1, "later");
	report();
	cr_expect(r.is_ready);
	cr_expect_eq(r.end_ns - r.begin_ns, 30 * S);
	cr_expect_eq(stage("image")->job_ns, 21 * S);
	cr_expect_eq(stage("image")->spread.max_ns, 20 * S);
	cr_expect_eq(stage("image")->spread.median_ns, 15 * S);
	cr_expect_eq(stage("later")->runs, 0);
	/* Node a waited eleven seconds for b, which do not count as busy. */
	cr_expect_eq(node("a")->busy_ns, 14 * S);
	cr_expect_eq(node("b")->busy_ns, 24 * S);
}

REPORT_TEST(counts_nested_stages_once)
{
	run(0, 10, "a", -1, "env");
	run(1, 4, "a", -1, "env.restore");
	run(4, 9, "a", 3, "env.check");
	run(10, 12, "a", -1, "sync.wait");
	run(12, 13, "a", 0, "model");
	run(12, 14, "a", 1, "model");
	report();
	cr_expect(stage("env")->is_top);
	cr_expect_not(stage("env.restore")->is_top);
	cr_expect_not(stage("env.check")->is_top);
	cr_expect_eq(node("a")->busy_ns, 12 * S);
	/* The slowest rank counts for the node. */
	cr_expect_eq(stage("model")->spread.max_ns, 2 * S);
	cr_expect_eq(stage("model")->spread.n, 1);
}

/* In a log with whole seconds, a stage begins in the second in which the one before ends. */
REPORT_TEST(takes_no_open_stage_for_an_inner_one_of_what_ended_as_it_began)
{
	run(0, 10, "a", -1, "env");
	at(10, "a", 3, "model", STAGE_BEGIN);
	run(0, 10, "b", 3, "env");
	at(10, "b", 3, "model", STAGE_BEGIN);
	at(4, "b", 3, "env.pip", STAGE_BEGIN);
	report();
	cr_expect(stage("model")->is_top);
	cr_expect_eq(stage("model")->tops, 2);
	cr_expect_not(stage("env.pip")->is_top);
}

/* The begin of one node's outer stage was lost: the other nodes still show that it is the outer
 * one. */
REPORT_TEST(takes_no_stage_for_an_outer_one_since_a_node_lost_what_is_around_it)
{
	for (const char *n = "abc"; *n; n++) {
		const char name[] = { *n, '\0' };

		if (*n != 'c')
			run(0, 10, name, -1, "env");
		run(1, 9, name, -1, "env.pip");
	}
	report();
	cr_expect(stage("env")->is_top);
	cr_expect_not(stage("env.pip")->is_top);
}

REPORT_TEST(adds_attempts_and_leaves_open_what_has_no_end)
{
	run(0, 10, "a", -1, "env");
	run(12, 17, "a", -1, "env");
	at(20, "a", -1, "model", STAGE_BEGIN);
	run(22, 24, "a", -1, "model");
	at(30, "a", -1, "lost", STAGE_END);
	report();
	cr_expect_eq(stage("env")->spread.max_ns, 15 * S);
	cr_expect_eq(stage("env")->retries, 1);
	cr_expect_eq(stage("env")->open, 0);
	cr_expect_eq(stage("model")->open, 1);
	cr_expect_eq(stage("model")->retries, 1);
	cr_expect_eq(stage("model")->spread.max_ns, 2 * S);
	cr_expect_eq(stage("lost")->lost_begins, 1);
	/* An open stage does not hide later ones. */
	cr_expect_eq(node("a")->busy_ns, 17 * S);
}

REPORT_TEST(takes_an_event_once)
{
	for (int i = 0; i < 2; i++) {
		run(5, 9, "a", -1, "env");
		run(0, 5, "a", -1, "image");
	}
	report();
	cr_expect_eq(r.n_runs, 2);
	cr_expect_eq(stage("env")->retries, 0);
}

REPORT_TEST(measures_by_the_monotonic_clock)
{
	struct start_event e = { .stage = "env",
				 .node = "a",
				 .ev = STAGE_BEGIN,
				 .rank = STAGE_NONE,
				 .status = STAGE_NONE,
				 .mono_ns = 10 * S,
				 .ts_ns = 1000 * S,
				 .boot = 1 };

	cr_assert_eq(start_set_add(set, &e, NULL), 0);
	e.ev = STAGE_END;
	e.mono_ns = 14 * S;
	e.ts_ns = 900 * S; /* the wall clock was set back */
	cr_assert_eq(start_set_add(set, &e, NULL), 0);
	report();
	cr_expect_eq(stage("env")->spread.max_ns, 4 * S);
}

REPORT_TEST(lays_nodes_side_by_side_with_their_exchanges)
{
	const struct start_clock near = { .boot = 1,
					  .mono_offset_ns = 950 * S,
					  .wall_offset_ns = 0,
					  .rtt_ns = 1000 };
	const struct start_clock far = { .boot = 1,
					 .mono_offset_ns = 0,
					 .wall_offset_ns = 9 * S,
					 .rtt_ns = 9 * S };

	run(0, 10, "a", -1, "image");
	run(0, 11, "b", -1, "image");
	cr_assert_eq(start_set_clock(set, "a", &far, NULL), 0);
	cr_assert_eq(start_set_clock(set, "a", &near, NULL), 0);
	report();
	cr_expect_eq(r.begin_ns, 1000 * S);
	cr_expect_eq(stage("image")->job_ns, 11 * S);
}

REPORT_TEST(names_stragglers)
{
	char name[8];

	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		run(0, i == 7 ? 92 : 60 + i % 3, name, -1, "env");
		run(92, 92.2 + (i == 3 ? 0.7 : 0), name, -1, "quick");
	}
	report();
	cr_expect_eq(stage("env")->stragglers, 1);
	cr_expect(node("n7")->is_straggler);
	cr_expect(fabs(stage("env")->spread.max_median - 92.0 / 61) < 0.01);
	/* Half a second more makes no straggler. */
	cr_expect_eq(stage("quick")->stragglers, 0);
}

REPORT_TEST(of_two_nodes_names_no_straggler)
{
	run(0, 10, "a", -1, "env");
	run(0, 90, "b", -1, "env");
	report();
	cr_expect_eq(stage("env")->stragglers, 0);
}

REPORT_TEST(follows_the_critical_path_over_nodes)
{
	static const struct {
		const char *node, *stage;
		double gap;
	} want[] = { { "s", "queue", 0 },
		     { "b", "image", 1 },
		     { "a", "env", 0 },
		     { "a", "model", 0 } };

	run(0, 5, "s", -1, "queue");
	run(6, 10, "a", -1, "image");
	run(6, 20, "b", -1, "image");
	run(20, 40, "a", -1, "env");
	run(20, 25, "b", -1, "env");
	run(40.01, 50, "a", -1, "model");
	run(40.01, 49, "b", -1, "model");
	report();
	cr_assert_eq(r.n_path, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct start_run *run = &r.runs[r.path[i].run];

		cr_expect_str_eq(r.nodes[run->node].name, want[i].node);
		cr_expect_str_eq(r.stages[run->stage].name, want[i].stage);
		cr_expect_leq(llabs(r.path[i].gap_ns -
				    (int64_t)(want[i].gap * 1e9)),
			      S / 50);
	}
}

REPORT_TEST(stays_on_a_node_that_did_not_wait)
{
	run(0, 10, "a", -1, "env");
	run(0, 10.05, "b", -1, "env");
	run(10.06, 20, "a", -1, "model");
	report();
	cr_assert_eq(r.n_path, 2);
	cr_expect_str_eq(r.nodes[r.runs[r.path[0].run].node].name, "a");
}

REPORT_TEST(names_nobody_where_all_differ)
{
	char name[8];

	for (int i = 1; i <= 10; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		run(0, 10 * i, name, -1, "env");
	}
	report();
	cr_expect_eq(stage("env")->stragglers, 0);
}

REPORT_TEST(is_not_moved_by_a_step_of_the_wall_clock)
{
	const struct start_event e = { .stage = "env",
				       .node = "a",
				       .ev = STAGE_END,
				       .rank = STAGE_NONE,
				       .status = STAGE_NONE,
				       .mono_ns = 90 * S,
				       .ts_ns = 500 * S,
				       .boot = 1 };

	run(0, 10, "a", -1, "image");
	at(10, "a", -1, "env", STAGE_BEGIN);
	cr_assert_eq(start_set_add(set, &e, NULL), 0);
	report();
	cr_expect_eq(r.begin_ns, 1000 * S);
	cr_expect_eq(r.end_ns, 1040 * S);
}

/* A node with a token can send any stages. */
Test(start_report, hears_others_though_one_node_makes_stages_up,
     .init = open_set, .fini = close_set)
{
	struct start_event e = {
		.node = "a", .ev = STAGE_MARK, .ts_ns = 1, .mono_ns = STAGE_NONE
	};
	unsigned int n_refused = 0;
	char name[16];

	e.stage = name;
	for (unsigned int i = 0; i < 2 * START_STAGES_MAX; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		n_refused += start_set_add(set, &e, NULL) == -EFBIG;
	}
	cr_expect_gt(n_refused, 0);
	e.node = "b";
	e.stage = "pull";
	cr_expect_eq(start_set_add(set, &e, NULL), 0);
	e.node = "a"; /* stages of other nodes are still accepted from it */
	cr_expect_eq(start_set_add(set, &e, NULL), 0);
}

REPORT_TEST(refuses_too_many_stages)
{
	struct start_event e = {
		.node = "a", .ev = STAGE_MARK, .ts_ns = 1, .mono_ns = STAGE_NONE
	};
	struct error err = ERROR_INIT;
	char name[16], node[16];

	e.stage = name;
	e.node = node;
	for (unsigned int i = 0; i < START_STAGES_MAX; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		snprintf(node, sizeof(node), "n%u", i / 100);
		cr_assert_eq(start_set_add(set, &e, NULL), 0);
	}
	snprintf(name, sizeof(name), "one-more");
	cr_expect_eq(start_set_add(set, &e, &err), -EFBIG);
	e.ts_ns = STAGE_NONE;
	cr_expect_eq(start_set_add(set, &e, &err), -EINVAL);
}

/* Three normal nodes, and n4 whose inner stage takes 60 s more. */
static void slow_inside(const uint64_t *facts)
{
	static const char *const nodes[] = { "n1", "n2", "n3", "n4" };

	for (int i = 0; i < 4; i++) {
		double more = i == 3 ? 60 : 0;

		at(0, nodes[i], STAGE_NONE, "env", STAGE_BEGIN);
		at(1, nodes[i], STAGE_NONE, "env.install", STAGE_BEGIN);
		at_with(11 + more, nodes[i], STAGE_NONE, "env.install",
			STAGE_END, i == 3 ? facts : NULL);
		at(12 + more, nodes[i], STAGE_NONE, "env", STAGE_END);
	}
	at(80, "n1", STAGE_NONE, "train", STAGE_MARK);
	at(880, "n1", STAGE_NONE, "train.end", STAGE_MARK);
	report();
}

Test(start_blame, names_the_stage_within_that_was_slow)
{
	const uint64_t facts[STAGE_FACTS] = { [STAGE_FACT_DISK_MS] = 55000 };
	AUTO_FREE struct start_blame *v = NULL;
	AUTO_BUF text = BUF_INIT;
	size_t n = 0;

	open_set();
	slow_inside(facts);
	cr_assert_eq(start_blame_find(&r, NULL, &v, &n, NULL), 0);
	cr_assert_eq(n, 2);
	for (size_t i = 0; i < n; i++) {
		cr_expect_eq(v[i].cause, START_CAUSE_DISK);
		cr_expect_str_eq(r.stages[v[i].within].name, "env.install");
		cr_expect_eq(v[i].explained_ns, 55 * S);
		cr_expect_eq(v[i].excess_ns, 60 * S);
	}
	cr_assert_eq(start_blame_text(&r, &v[0], &text), 0);
	cr_expect_str_eq(text.data,
			 "in env.install: waited 55.0 s for its disk, "
			 "the median node 0.0 s");
	close_set();
}

Test(start_blame, names_a_node_that_was_slow_before_only_without_another_cause)
{
	const struct start_past past[] = {
		{ 9, 0 }, { 9, 0 }, { 9, 0 }, { 9, 4 }
	};
	AUTO_FREE struct start_blame *v = NULL, *w = NULL;
	size_t n = 0;

	open_set();
	slow_inside(NULL);
	cr_assert_eq(start_blame_find(&r, past, &v, &n, NULL), 0);
	cr_assert_eq(n, 2);
	cr_expect_eq(v[0].cause, START_CAUSE_NODE);
	cr_assert_eq(start_blame_find(&r, NULL, &w, &n, NULL), 0);
	cr_expect_eq(w[0].cause, START_CAUSE_UNKNOWN);
	close_set();
}

Test(start_report, sums_the_time_that_nodes_lost)
{
	const uint64_t facts[STAGE_FACTS] = { [STAGE_FACT_GPUS] = 8 };

	open_set();
	slow_inside(facts);
	cr_expect_lt(fabs(r.lost.node_s - 4 * 80), 0.001);
	cr_expect_lt(fabs(r.lost.wait_s - (3 * 68 + 8)), 0.001);
	cr_expect_lt(fabs(r.lost.gpu_s - 8 * 80), 0.001);
	cr_expect_lt(fabs(r.lost.job_share - 80.0 / 880), 0.001);
	close_set();
}

/* Three nodes; n2 has sent only the first `upto` of its three stages. */
static void fill_three(unsigned int upto)
{
	static const char *const stages[] = { "image", "env", "model" };
	const uint64_t facts[STAGE_FACTS] = { [STAGE_FACT_DISK_MS] = 7 };

	for (unsigned int n = 1; n <= 3; n++) {
		char node[8];

		(void)snprintf(node, sizeof(node), "n%u", n);
		for (unsigned int k = 0; k < (n == 2 ? upto : 3); k++) {
			at(10.0 * k, node, 0, stages[k], STAGE_BEGIN);
			at_with(10.0 * k + 5 + n, node, 0, stages[k], STAGE_END,
				facts);
		}
	}
}

Test(start_report, is_the_same_when_one_nodes_events_are_read_again,
     .init = open_set, .fini = close_set)
{
	static const char *const changed[] = { "n2", "not-there" };
	struct start_set *copy = NULL;

	fill_three(1);
	report();
	start_report_fini(&r);
	cr_assert_eq(start_set_copy(set, changed, 2, &copy, NULL), 0);
	start_set_free(set);
	set = copy;
	run(0, 7, "n2", 0, "image");
	run(10, 17, "n2", 0, "env");
	run(20, 27, "n2", 0, "model");
	report();
	cr_assert_eq(r.n_nodes, 3u);
	cr_assert_eq(r.n_runs, 9u);
	cr_assert_eq(r.end_ns - r.begin_ns, 28 * S);
	cr_assert_eq(stage("model")->spread.n, 3u);
	cr_assert_eq(stage("image")->spread.median_ns, 7 * S);
	for (size_t i = 0; i < r.n_runs; i++) {
		const struct start_run *b = &r.runs[i];
		bool is_n2 = strcmp(r.nodes[b->node].name, "n2") == 0;

		/* The facts of the other nodes were copied. */
		cr_assert_eq(b->facts != 0, !is_n2);
		if (b->facts)
			cr_assert_eq(r.facts[b->facts - 1]
					     .v[STAGE_FACT_DISK_MS],
				     7u);
	}
}
