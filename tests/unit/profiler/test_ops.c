// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/ops/ops.h"

TestSuite(ops, .timeout = 120);

#define HEAD "JobID|User|State|ExitCode|Start|End|NodeList|AllocTRES|JobName\n"
#define NOW INT64_C(2000000)
#define HOUR INT64_C(3600)

static int read_text(const char *text, struct ops_set **ret, struct error *err)
{
	struct buf b = BUF_INIT;

	cr_assert_eq(buf_puts(&b, text), 0);
	return ops_read_sacct(&b, NOW, ret, err);
}

static struct ops_set *must_read(const char *text)
{
	struct ops_set *s = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(read_text(text, &s, &err), 0, "%s", err.msg);
	return s;
}

/* Add a session of job "train" and user "u" between these hours. */
static void add_row(struct buf *b, const char *job, const char *state,
		    double from_h, double to_h, const char *nodes)
{
	cr_assert_eq(buf_printf(b,
				"%s|u|%s|1:0|%.0f|%.0f|%s|gres/gpu=16|train\n",
				job, state, 1000000 + from_h * 3600,
				1000000 + to_h * 3600, nodes),
		     0);
}

static struct buf new_rows(void)
{
	struct buf b = BUF_INIT;

	cr_assert_eq(buf_puts(&b, HEAD), 0);
	return b;
}

static const struct ops_rule two = { .nodes_min = 2, .trained_s = HOUR };

static bool has_name(const struct ops_set *s, size_t i, const char *name)
{
	return strcmp(s->nodes[s->places[s->sessions[i].first]], name) == 0;
}

/* ---------------------------------------------------------------------- rows --- */

/* Output of sacct 22.05.8, which does not quote names: a name with a delimiter ends with its
 * line. */
Test(ops, reads_what_sacct_printed)
{
	AUTO(ops_set)
	s = must_read(
		HEAD
		"1|root|FAILED|1:0|1795947402|1795947404|gpu[071-072]|billing=2,cpu=2,node=2|train\n"
		"3|root|COMPLETED|0:0|1795947404|1795947407|gpu[071-073]|billing=3,cpu=3,node=3|odd|name\nx\n"
		"4|root|REQUEUED|0:0|1795947410|1795947414|gpu[071-074]|"
		"billing=4,gres/gpu:h100=32,gres/gpu=32,node=4|llm\n"
		"4|root|COMPLETED|0:0|1795947538|1795947568|gpu[071-074]|billing=4,cpu=4,node=4|llm\n"
		"6|root|CANCELLED by 0|0:0|1795947418|1795947421|gpu074|billing=2,cpu=2,node=2|canc\n"
		"8|root|CANCELLED by 0|0:0|None|1795947421|None assigned||never\n");

	cr_assert_eq(s->n_sessions, 5);
	cr_expect_eq(s->n_bad, 1);
	cr_expect_eq(s->n_nodes, 4);
	cr_expect_str_eq(s->sessions[0].name, "canc");
	cr_expect_eq(s->sessions[0].end, OPS_STOPPED);
	cr_expect(has_name(s, 0, "gpu074"));
	cr_expect_str_eq(s->sessions[1].name, "llm");
	cr_expect_eq(s->sessions[1].end, OPS_REQUEUED);
	cr_expect_eq(s->sessions[1].gpus, 32);
	cr_expect_eq(s->sessions[1].n_nodes, 4);
	cr_expect_eq(ops_length(&s->sessions[2]), 30);
	cr_expect_str_eq(s->sessions[3].name, "odd|name");
	cr_expect_eq(s->sessions[4].end, OPS_FAILED);
	cr_expect_str_eq(s->sessions[4].exit, "1:0");
}

Test(ops, name_of_a_job_makes_no_row_where_the_delimiter_is_secret)
{
	AUTO(ops_set)
	s = must_read(
		"JobID,7f,User,7f,State,7f,ExitCode,7f,Start,7f,End,7f,NodeList,7f,AllocTRES,7f,JobName\n"
		"1,7f,u,7f,FAILED,7f,1:0,7f,100,7f,200,7f,a,7f,,7f,x\n"
		"2|v|FAILED|1:0|100|200|b||forged\n"
		"3,v,FAILED,1:0,100,200,b,,forged\n"
		"4,7f,w,7f,COMPLETED,7f,0:0,7f,100,7f,200,7f,b,7f,,7f,\n");

	cr_assert_eq(s->n_sessions, 2);
	cr_expect_str_eq(s->sessions[0].user, "u");
	cr_expect(strstr(s->sessions[0].name, "3,v,FAILED"));
	cr_expect_str_eq(s->sessions[1].user, "w");
	cr_expect_str_eq(s->sessions[1].name, "");
}

Test(ops, job_that_runs_runs_until_now)
{
	AUTO(ops_set)
	s = must_read(HEAD "1|u|RUNNING|0:0|1999000|Unknown|a||x\n");

	cr_assert_eq(s->n_sessions, 1);
	cr_expect_eq(s->sessions[0].end, OPS_RUNS);
	cr_expect_eq(ops_length(&s->sessions[0]), 1000);
}

Test(ops, time_without_an_offset_is_of_this_machine)
{
	AUTO(ops_set) s = NULL;

	setenv("TZ", "UTC-2", 1);
	s = must_read(
		HEAD
		"1|u|FAILED|0:0|1970-01-12T15:46:40|1970-01-12T15:46:41|a||x\n");
	cr_assert_eq(s->n_sessions, 1);
	cr_expect_eq(s->sessions[0].begin_s, 1000000);
}

Test(ops, rows_that_say_nothing_are_counted)
{
	AUTO(ops_set)
	s = must_read(HEAD "1|u|FAILED|1:0|100|200|a\n"
			   "x|u|FAILED|1:0|100|200|a||n\n"
			   "2|u|FAILED|1:0|300|200|a||backwards\n"
			   "3|u|FAILED|1:0|300|Unknown|a||endless\n"
			   "4|u|FAILED|1:0|100|200|a||good");

	cr_assert_eq(s->n_sessions, 1);
	cr_expect_eq(s->n_bad, 4);
	cr_expect_str_eq(s->sessions[0].name, "good");
}

Test(ops, other_columns_are_refused_with_the_command)
{
	static const char *const texts[] = {
		"",
		"\n",
		"JobID",
		"JobID|JobName|User\n",
		"JobIDUser|State|ExitCode|Start|End|NodeList|AllocTRES|JobName\n",
		"1|u|FAILED|1:0|100|200|a||n\n",
		"JobID|User|State|ExitCode|Start|End|NodeList|AllocTRES|JobName|\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct ops_set *s = NULL;
		struct error err = ERROR_INIT;

		cr_expect_eq(read_text(texts[i], &s, &err), -EINVAL);
		cr_expect(strstr(err.msg, "--format=JobID,User"), "%s",
			  err.msg);
		cr_expect_null(s);
	}
}

Test(ops, lists_of_nodes_are_expanded)
{
	static const struct {
		const char *list, *first;
		size_t n;
	} lists[] = {
		{ "a", "a", 1 },
		{ "a,b,a", "a", 2 },
		{ "gpu[071-074,080]", "gpu071", 5 },
		{ "r[1-2]n[01-03],login", "r1n01", 7 },
		{ "n[9-11]", "n9", 3 },
		{ "n[1-3]-ib", "n1-ib", 3 },
		{ "n[3-1]", NULL, 0 },
		{ "n[", NULL, 0 },
		{ "n[1-", NULL, 0 },
		{ "n[x]", NULL, 0 },
		{ "n[0-99999999]", NULL, 0 },
		{ "n[12345678901]", NULL, 0 },
		{ "None assigned", NULL, 0 },
		{ ",,", NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		AUTO(ops_set) s = NULL;
		char text[256];

		(void)snprintf(text, sizeof(text),
			       HEAD "1|u|FAILED|1:0|1|2|%s||n\n",
			       lists[i].list);
		s = must_read(text);
		cr_assert_eq(s->n_sessions, 1);
		cr_expect_eq(s->sessions[0].n_nodes, lists[i].n, "%s: %u",
			     lists[i].list, s->sessions[0].n_nodes);
		if (lists[i].first)
			cr_expect(has_name(s, 0, lists[i].first), "%s",
				  lists[i].list);
	}
}

Test(ops, cluster_of_too_many_nodes_is_refused)
{
	struct ops_set *s = NULL;
	struct error err = ERROR_INIT;

	cr_expect_eq(read_text(HEAD "1|u|FAILED|1:0|1|2|a[1-300]b[1-300]||n\n",
			       &s, &err),
		     -EFBIG);
	cr_expect(strstr(err.msg, "65536 nodes"), "%s", err.msg);
}

/* The list has 10^14 names, none of which is complete. */
Test(ops, list_without_an_end_is_not_walked)
{
	struct ops_set *s = NULL;
	struct error err = ERROR_INIT;

	cr_expect_eq(read_text(HEAD "1|u|FAILED|1:0|1|2|"
				    "a[0-9999][0-9999][0-9999][||n\n",
			       &s, &err),
		     -EFBIG);
}

/* -------------------------------------------------------------------- chains --- */

static struct ops_chains find_chains(const struct ops_set *s,
				     const struct ops_rule *r)
{
	struct ops_chains c;
	struct error err = ERROR_INIT;

	cr_assert_eq(ops_find_chains(s, r, &c, &err), 0, "%s", err.msg);
	return c;
}

Test(ops, chain_has_tries_until_one_trains)
{
	struct buf b = new_rows();
	AUTO(ops_set) s = NULL;
	struct ops_chains c;

	add_row(&b, "1", "FAILED", 0, 20, "n[1-2]");
	add_row(&b, "1", "NODE_FAIL", 20.5, 20.75, "n[1-2]");
	add_row(&b, "2", "FAILED", 21, 21.25, "n[1-2]");
	add_row(&b, "3", "COMPLETED", 22, 40, "n[1-2]");
	/* No session failed before this one. */
	add_row(&b, "4", "COMPLETED", 41, 50, "n[1-2]");
	s = must_read(b.data);
	buf_fini(&b);
	c = find_chains(s, &two);
	cr_assert_eq(c.n, 1);
	cr_expect_eq(c.v[0].n, 4);
	cr_expect_eq(c.v[0].automatic, 1);
	cr_expect_eq(c.v[0].outcome, OPS_RECOVERED);
	cr_expect_float_eq(c.wasted_node_s, 2 * 0.5 * HOUR, 1e-6);
	cr_expect_float_eq(c.wasted_gpu_s, 16 * 0.5 * HOUR, 1e-6);
	cr_expect_eq(c.gap_automatic_s.n, 1);
	cr_expect_float_eq(c.gap_automatic_s.median, 0.5 * HOUR, 1e-6);
	cr_expect_eq(c.gap_other_s.n, 2);
	cr_expect_float_eq(c.gap_other_s.max, 0.75 * HOUR, 1e-6);
	/* Down time counts from the end of the session that trained; a person restarted it. */
	cr_expect_eq(c.down_automatic_s.n, 0);
	cr_expect_eq(c.down_other_s.n, 1);
	cr_expect_float_eq(c.down_other_s.median, 2 * HOUR, 1e-6);
	ops_chains_fini(&c);
}

Test(ops, tries_that_end_alike_are_counted_past_the_third)
{
	struct buf b = new_rows();
	AUTO(ops_set) s = NULL;
	struct ops_chains c;

	add_row(&b, "0", "FAILED", 0, 25, "n[1-2]");
	for (int i = 0; i < 30; i++)
		add_row(&b, "0", "FAILED", 26 + i, 26.5 + i, "n[1-2]");
	s = must_read(b.data);
	buf_fini(&b);
	c = find_chains(s, &two);
	cr_assert_eq(c.n, 1);
	cr_expect_eq(c.v[0].outcome, OPS_GIVEN_UP);
	cr_expect_eq(c.recovered, 0);
	cr_expect_eq(c.v[0].automatic, 30);
	cr_expect_eq(c.v[0].alike, 30);
	cr_expect_float_eq(c.v[0].alike_node_s, 27 * 2 * 0.5 * HOUR, 1e-6);
	cr_expect_float_eq(c.v[0].wasted_node_s, 30 * 2 * 0.5 * HOUR, 1e-6);
	ops_chains_fini(&c);
}

Test(ops, sessions_that_did_not_follow_a_failure_make_no_chain)
{
	struct buf b = new_rows();
	AUTO(ops_set) s = NULL;
	struct ops_chains c;

	add_row(&b, "1", "CANCELLED by 0", 0, 2, "n[1-2]");
	add_row(&b, "2", "TIMEOUT", 3, 4, "n[1-2]");
	add_row(&b, "3", "FAILED", 5, 6, "n[1-2]");
	/* overlaps the session before */
	add_row(&b, "4", "FAILED", 5.5, 7, "n[1-2]");
	/* more than a day later */
	add_row(&b, "5", "FAILED", 40, 41, "n[1-2]");
	/* tasks of an array */
	add_row(&b, "7_1", "FAILED", 100, 101, "n[1-2]");
	add_row(&b, "7_2", "FAILED", 102, 103, "n[1-2]");
	add_row(&b, "8", "FAILED", 200, 201, "n[1-2]");
	/* fewer nodes than the rule wants */
	add_row(&b, "9", "FAILED", 202, 203, "n1");
	s = must_read(b.data);
	buf_fini(&b);
	c = find_chains(s, &two);
	cr_expect_eq(c.n, 0);
	ops_chains_fini(&c);
}

Test(ops, last_try_may_still_run)
{
	AUTO(ops_set)
	s = must_read(HEAD "1|u|FAILED|1:0|1998000|1999000|n[1-2]||x\n"
			   "2|u|RUNNING|0:0|1999500|Unknown|n[1-2]||x\n");
	struct ops_chains c = find_chains(s, &two);

	cr_assert_eq(c.n, 1);
	cr_expect_eq(c.v[0].outcome, OPS_GOES_ON);
	ops_chains_fini(&c);
}

/* ---------------------------------------------------------------------- cost --- */

/* 24 runs of 1,294 h, 23 of them failed: M = 56.2 h (the paper, 4.2.2). */
static struct ops_cost paper_cost(void)
{
	struct buf b = new_rows();
	AUTO(ops_set) s = NULL;
	struct ops_cost cost;
	char job[16];

	for (int i = 0; i < 24; i++) {
		(void)snprintf(job, sizeof(job), "%d", i);
		add_row(&b, job, i ? "FAILED" : "CANCELLED by 0", i * 100.0,
			i * 100.0 + 1294.0 / 24, "n[1-60]");
	}
	/* too short to have trained */
	add_row(&b, "90", "FAILED", 0, 0.5, "n[1-60]");
	add_row(&b, "91", "FAILED", 0, 50, "n1");
	s = must_read(b.data);
	buf_fini(&b);
	ops_find_cost(s,
		      &(struct ops_rule){ .nodes_min = 31, .trained_s = HOUR },
		      &cost);
	return cost;
}

Test(ops, time_between_failures_is_the_papers)
{
	struct ops_cost c = paper_cost();

	cr_expect_eq(c.sessions, 24);
	cr_expect_eq(c.failed, 23);
	cr_expect_eq(c.early, 1);
	cr_expect_float_eq(c.mtbf_s / (double)HOUR, 56.26, 0.01);
	/* chi-square with 48 and 46 degrees of freedom: 69.023 and 29.160 */
	cr_expect_float_eq(c.low_s / (double)HOUR, 2 * 1294 / 69.023, 0.01);
	cr_expect_float_eq(c.high_s / (double)HOUR, 2 * 1294 / 29.160, 0.01);
}

/* Figures of tables 10 and 11 of the paper, in 4.2.2. */
Test(ops, cost_of_intervals_is_the_papers)
{
	static const struct {
		double save_s, interval_min, lost, both, times, best;
	} rows[] = {
		{ 18.0, 133.5, 1.98, 0, 3.0, 0 },   /* 4K */
		{ 31.7, 199, 2.95, 0, 3.3, 0 },     /* 32K */
		{ 30.0, 81.5, 0, 1.82, 1.4, 1.72 }, /* 100K */
	};
	const double mtbf_s = 56.2 * 3600;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		double best_s = ops_best_interval(rows[i].save_s, mtbf_s);
		struct ops_share now =
			ops_share_of(rows[i].save_s, rows[i].interval_min * 60,
				     mtbf_s);
		struct ops_share best =
			ops_share_of(rows[i].save_s, best_s, mtbf_s);

		if (rows[i].lost > 0)
			cr_expect_float_eq(100 * now.lost, rows[i].lost, 0.005);
		if (rows[i].both > 0)
			cr_expect_float_eq(100 * (now.save + now.lost),
					   rows[i].both, 0.005);
		if (rows[i].best > 0)
			cr_expect_float_eq(100 * (best.save + best.lost),
					   rows[i].best, 0.005);
		cr_expect_float_eq(rows[i].interval_min * 60 / best_s,
				   rows[i].times, 0.05);
		cr_expect_lt(100 * now.save, 0.62);
		cr_expect_float_eq(best.save, best.lost, 1e-12);
	}
}

Test(ops, cluster_without_a_failure_has_a_lower_bound_alone)
{
	struct buf b = new_rows();
	AUTO(ops_set) s = NULL;
	struct ops_cost c;

	add_row(&b, "1", "COMPLETED", 0, 100, "n[1-2]");
	s = must_read(b.data);
	buf_fini(&b);
	ops_find_cost(s, &two, &c);
	cr_expect(isinf(c.mtbf_s) && isinf(c.high_s));
	cr_expect_float_eq(c.low_s / (double)HOUR, 100 / 3.6889, 0.01);
}

/* --------------------------------------------------------------------- nodes --- */

Test(ops, node_that_is_held_is_told_from_one_that_was_not_chosen)
{
	struct buf b = new_rows();
	AUTO(ops_set) s = NULL;
	struct ops_exclusions e;
	struct error err = ERROR_INIT;

	add_row(&b, "1", "FAILED", 0, 10, "n[1-3]");
	add_row(&b, "2", "FAILED", 10, 20, "n[1-2],n4");
	/* uses the node all the time */
	add_row(&b, "3", "COMPLETED", 5, 15, "n5");
	add_row(&b, "4", "COMPLETED", 0, 8, "n4");
	add_row(&b, "5", "COMPLETED", 16, 18, "n1"); /* shares the node */
	add_row(&b, "6", "COMPLETED", 14, 30, "n5");
	add_row(&b, "7", "COMPLETED", 0, 5, "n5");
	s = must_read(b.data);
	buf_fini(&b);
	cr_assert_eq(ops_find_exclusions(s,
					 &(struct ops_rule){ .nodes_min = 3 },
					 &e, &err),
		     0);
	cr_assert_eq(e.n, 5);
	cr_expect_eq(e.sessions, 2);
	cr_expect_float_eq(e.run_s, 20.0 * HOUR, 1e-6);
	cr_expect_str_eq(s->nodes[e.v[0].node], "n5");
	cr_expect_eq(e.v[0].sessions, 2);
	/* Jobs 3 and 6 share the node from hour 14 to 15. */
	cr_expect_float_eq(e.v[0].held_s, 20.0 * HOUR, 1e-6);
	for (size_t i = 1; i < e.n; i++) {
		const char *name = s->nodes[e.v[i].node];

		cr_expect_float_eq(e.v[i].excluded_s,
				   strcmp(name, "n3") == 0 ||
						   strcmp(name, "n4") == 0
					   ? 10.0 * HOUR
					   : 0,
				   1e-6);
		cr_expect_float_eq(e.v[i].held_s,
				   strcmp(name, "n4") == 0 ? 8.0 * HOUR : 0,
				   1e-6);
	}
	ops_exclusions_fini(&e);
}
