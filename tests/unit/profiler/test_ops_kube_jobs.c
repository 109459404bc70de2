// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "profiler/ops/kube_jobs.h"

TestSuite(ops_kube_jobs, .timeout = 60);

#define NOW_S 1760000000 /* 2025-10-09T08:53:20Z */

/* "08:00" of that day. */
#define AT(time) "2025-10-09T" time ":00Z"

#define OWNED(kind, name) \
	"\"ownerReferences\": [{\"kind\": \"" kind "\", \"name\": \"" name \
	"\", \"uid\": \"u-" name "\"}]"
#define RUNS(since) "{\"running\": {\"startedAt\": \"" since "\"}}"
#define ENDED(from, to, code, why) \
	"{\"terminated\": {\"startedAt\": \"" from "\", \"finishedAt\": \"" to \
	"\", \"exitCode\": " code ", \"reason\": \"" why "\"}}"
/* A pod with a side-car container, whose runs do not count. */
#define POD(name, owner, node, restarts, state, last, more) \
	"{\"kind\": \"Pod\", \"metadata\": {\"namespace\": \"team\", " \
	"\"name\": \"" name "\", \"uid\": \"p-" name "\", " owner more "}, " \
	"\"spec\": {\"nodeName\": \"" node "\", \"containers\": [" \
	"{\"name\": \"log\"}, {\"name\": \"main\", \"resources\": " \
	"{\"limits\": {\"nvidia.com/gpu\": \"8\", \"cpu\": \"9\"}}}]}, " \
	"\"status\": {\"containerStatuses\": [{\"name\": \"log\", " \
	"\"restartCount\": 9, \"state\": " RUNS(AT( \
		"01:00")) "}, " \
			  "{\"name\": \"main\", \"restartCount\": " restarts \
			  ", \"state\": " state ", \"lastState\": " last \
			  "}]}}"

static void add_objects(struct ops_kube *k, const char *items)
{
	struct error err = ERROR_INIT;
	AUTO_FREE char *text = NULL;
	AUTO_JSON *list = NULL;

	cr_assert(asprintf(&text, "{\"kind\": \"List\", \"items\": [%s]}",
			   items) > 0);
	list = json_loads(text, 0, NULL);
	cr_assert_not_null(list, "%s", text);
	cr_assert_eq(ops_kube_add(k, "", list, &err), 0, "%s", err.msg);
}

static struct ops_set *read_set(struct ops_kube *k)
{
	AUTO_BUF text = BUF_INIT;
	struct error err = ERROR_INIT;
	struct ops_set *s = NULL;

	cr_assert_eq(ops_kube_write_jobs(k, &text, &err), 0, "%s", err.msg);
	cr_assert_eq(ops_read_sacct(&text, NOW_S, &s, &err), 0, "%s", err.msg);
	cr_assert_eq(ops_kube_add_outages(k, NOW_S, s, &err), 0, "%s", err.msg);
	return s;
}

static struct ops_set *set_of(const char *items)
{
	AUTO(ops_kube) k = NULL;

	cr_assert_eq(ops_kube_new(&k, NULL), 0);
	add_objects(k, items);
	return read_set(k);
}

static int64_t at(const char *text)
{
	struct tm tm = { .tm_isdst = 0 };

	cr_assert_not_null(strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm));
	return timegm(&tm);
}

static void expect_try(const struct ops_session *s, const char *state,
		       const char *begin, const char *end, uint32_t nodes)
{
	cr_expect_str_eq(s->state, state);
	cr_expect_eq(s->begin_s, at(begin));
	cr_expect_eq(s->end_s, end ? at(end) : NOW_S);
	cr_expect_eq(s->n_nodes, nodes);
}

#define JOB OWNED("PyTorchJob", "train")

Test(ops_kube_jobs, containers_that_are_started_again_are_a_new_try)
{
	AUTO(ops_set)
	s = set_of(
		POD("train-0", JOB, "gpu1", "1", RUNS(AT("08:10")),
		    ENDED(AT("07:00"), AT("08:00"), "1", "Error"), "") ","
		/* This pod hung, and was ended after the first pod had restarted. */
		POD("train-1", JOB, "gpu2", "1", RUNS(AT("08:20")),
		    ENDED(AT("07:01"), AT("08:15"), "143", "Error"),
		    "") "," POD("agent-x", OWNED("DaemonSet", "agent"), "gpu1",
				"0", RUNS(AT("01:00")), "{}", ""));

	cr_assert_eq(s->n_sessions, 2);
	expect_try(&s->sessions[0], "FAILED", AT("07:00"), AT("08:15"), 2);
	expect_try(&s->sessions[1], "RUNNING", AT("08:10"), NULL, 2);
	cr_expect_str_eq(s->sessions[0].exit, "1:0");
	cr_expect_str_eq(s->sessions[0].user, "team");
	cr_expect_str_eq(s->sessions[0].name, "train");
	cr_expect_str_eq(s->sessions[0].job, s->sessions[1].job);
	cr_expect_eq(s->sessions[0].gpus, 16);
}

Test(ops_kube_jobs, pods_that_are_made_anew_are_a_new_try)
{
	static const char index[] =
		", \"labels\": {\"batch.kubernetes.io/job-completion-index\": \"0\"}";
	AUTO_FREE char *first =
		strdup(POD("j-0-a", JOB, "gpu1", "0",
			   ENDED(AT("07:00"), AT("07:30"), "137", "OOMKilled"),
			   "{}", "@"));
	AUTO_FREE char *second =
		strdup(POD("j-0-b", JOB, "gpu3", "0",
			   ENDED(AT("07:29"), AT("08:30"), "0", "Completed"),
			   "{}", "@"));
	AUTO_FREE char *all = NULL;

	cr_assert(asprintf(&all, "%.*s%s%s,%.*s%s%s", (int)strcspn(first, "@"),
			   first, index, strchr(first, '@') + 1,
			   (int)strcspn(second, "@"), second, index,
			   strchr(second, '@') + 1) > 0);
	{
		AUTO(ops_set) s = set_of(all);

		cr_assert_eq(s->n_sessions, 2);
		expect_try(&s->sessions[0], "OUT_OF_MEMORY", AT("07:00"),
			   AT("07:30"), 1);
		expect_try(&s->sessions[1], "COMPLETED", AT("07:29"),
			   AT("08:30"), 1);
	}
}

Test(ops_kube_jobs, why_a_pod_was_ended_is_told_from_a_failure)
{
	AUTO(ops_set)
	s = set_of(POD(
		"a", OWNED("Job", "a"), "gpu1", "0",
		ENDED(AT("07:00"), AT("07:30"), "143", "Error"), "{}",
		", \"deletionTimestamp\": \"" AT(
			"07:29") "\"") ","
				       "{\"kind\": \"Pod\", \"metadata\": {\"namespace\": \"team\", \"name\": \"b\", "
				       "\"uid\": \"p-b\"}, \"spec\": {\"nodeName\": \"gpu1\", \"containers\": "
				       "[{\"name\": \"m\"}]}, \"status\": {\"conditions\": [{\"type\": "
				       "\"DisruptionTarget\", \"status\": \"True\", \"reason\": "
				       "\"PreemptionByScheduler\"}], \"containerStatuses\": [{\"name\": \"m\", "
				       "\"restartCount\": 0, \"state\": " ENDED(
					       AT("07:00"), AT("07:30"), "137",
					       "Error") "}]}}");

	cr_assert_eq(s->n_sessions, 2);
	cr_expect_eq(s->sessions[0].end, OPS_STOPPED);
	cr_expect_eq(s->sessions[1].end, OPS_REQUEUED);
}

Test(ops_kube_jobs, later_snapshot_ends_what_ran_in_an_earlier_one)
{
	AUTO(ops_kube) k = NULL;

	cr_assert_eq(ops_kube_new(&k, NULL), 0);
	add_objects(k, POD("a", JOB, "gpu1", "0", RUNS(AT("07:00")), "{}", ""));
	add_objects(k, POD("a", JOB, "gpu1", "0",
			   ENDED(AT("07:00"), AT("08:00"), "0", "Completed"),
			   "{}", ""));
	/* The pod's end was not seen: the next snapshot has only its successor. */
	add_objects(k, POD("b", JOB, "gpu1", "0", RUNS(AT("08:10")), "{}", ""));
	add_objects(k, POD("c", JOB, "gpu2", "0", RUNS(AT("08:40")), "{}", ""));
	{
		AUTO(ops_set) s = read_set(k);

		cr_assert_eq(s->n_sessions, 2);
		expect_try(&s->sessions[0], "COMPLETED", AT("07:00"),
			   AT("08:00"), 1);
		expect_try(&s->sessions[1], "RUNNING", AT("08:10"), NULL, 2);
	}
}

Test(ops_kube_jobs, what_is_no_name_or_time_is_passed_over)
{
	AUTO(ops_set)
	s = set_of(POD(
		"a", OWNED("Job", "x|9|root"), "gpu1", "0", RUNS(AT("07:00")),
		"{}",
		"") "," POD("b", JOB, "gpu[1-9]", "0", RUNS(AT("07:00")), "{}",
			    "") "," POD("c", JOB, "gpu1", "0",
					RUNS("yesterday"), "{}",
					"") "," POD("d", JOB, "gpu1",
						    "\"many\"", "[1]", "7",
						    "") ","
							"7, null, {\"kind\": 3}, {\"kind\": \"Pod\"}, {\"kind\": \"Node\"}, "
							"{\"kind\": \"Event\"}, {\"kind\": \"Secret\"}");

	cr_expect_eq(s->n_sessions, 0);
	cr_expect_eq(s->n_outages, 0);
}

#define EVENT(reason, node, time) \
	"{\"kind\": \"Event\", \"reason\": \"" reason \
	"\", \"message\": \"of " node \
	"\\u001b[2J\", \"involvedObject\": {\"kind\": \"Node\", \"name\": \"" node \
	"\"}, \"lastTimestamp\": \"" time "\"}"
#define NODE(name, spec, ready, since) \
	"{\"kind\": \"Node\", \"metadata\": {\"name\": \"" name \
	"\"}, \"spec\": {" spec \
	"}, \"status\": {\"conditions\": [{\"type\": \"Ready\", " \
	"\"status\": \"" ready "\", \"lastTransitionTime\": \"" since "\", " \
	"\"lastHeartbeatTime\": \"" AT("08:50") "\"}]}}"

Test(ops_kube_jobs, cordons_and_outages_have_begin_and_end)
{
	AUTO(ops_set)
	s = set_of(EVENT("NodeNotSchedulable", "gpu1", AT("06:00")) "," EVENT(
		"NodeNotSchedulable", "gpu1",
		AT("06:10")) "," EVENT("NodeSchedulable", "gpu1",
				       AT("07:00")) "," NODE("gpu1",
							     "\"unschedulable\": true, \"taints\": [{\"key\": "
							     "\"node.kubernetes.io/unschedulable\", \"timeAdded\": \"" AT(
								     "08:00") "\"}]",
							     "True",
							     AT("01:00")) "," NODE("gpu2",
										   "",
										   "False",
										   AT("08:30")) ","
		   /* The event that gave the node back is missing. */
		   EVENT("BootseerTakenOut", "gpu3",
			 AT("05:00")) "," NODE("gpu3", "", "True",
					       AT("01:00")));

	cr_assert_eq(s->n_outages, 4);
	for (size_t i = 0; i < s->n_outages; i++) {
		const struct ops_outage *o = &s->outages[i];
		static const struct {
			const char *node, *from, *to;
			enum ops_outage_kind kind;
			bool lasts;
		} wanted[] = {
			{ "gpu1", AT("06:00"), AT("07:00"), OPS_CORDONED,
			  false },
			{ "gpu1", AT("08:00"), NULL, OPS_CORDONED, true },
			{ "gpu2", AT("08:30"), NULL, OPS_AWAY, true },
			{ "gpu3", AT("05:00"), AT("08:50"), OPS_CORDONED,
			  false },
		};

		cr_expect_str_eq(o->node, wanted[i].node);
		cr_expect_eq(o->from_s, at(wanted[i].from));
		cr_expect_eq(o->to_s, wanted[i].to ? at(wanted[i].to) : NOW_S);
		cr_expect_eq(o->kind, wanted[i].kind);
		cr_expect_eq(o->lasts, wanted[i].lasts);
	}
	cr_expect_str_eq(s->outages[0].why, "of gpu1?[2J");
}

/* ----------------------------------------------------------------- with sessions --- */

static struct ops_set *slurm_set(const char *rows, const char *drains)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_FREE char *list = strdup(drains);
	struct error err = ERROR_INIT;
	struct ops_set *s = NULL;

	cr_assert_eq(buf_printf(&text,
				"JobID|User|State|ExitCode|Start|End|NodeList|"
				"AllocTRES|JobName\n%s",
				rows),
		     0);
	cr_assert_eq(ops_read_sacct(&text, 100000, &s, &err), 0, "%s", err.msg);
	cr_assert_eq(ops_read_drains(list, 100000, s, &err), 0, "%s", err.msg);
	return s;
}

Test(ops_kube_jobs, drain_of_a_node_explains_why_jobs_ran_without_it)
{
	AUTO(ops_set)
	s = slurm_set("1|u|COMPLETED|0:0|1000|11000|n[1-3]||a\n"
		      "2|u|COMPLETED|0:0|12000|22000|n[1-4]||a\n"
		      "3|u|COMPLETED|0:0|30000|40000|n[1,3-4]||a\n",
		      "|1|2|cluster|\n"
		      "n4|5000|11500|DRAIN|bad | NIC\n"
		      "n2|39000|Unknown|DOWN*|gone\n"
		      "n2|39500|2|DOWN|ends before it begins\nn9\n");
	const struct ops_rule rule = { .nodes_min = 3 };
	struct ops_exclusions e;
	struct ops_absence *v = NULL;
	size_t n = 0;

	cr_assert_eq(s->n_outages, 2);
	cr_expect_str_eq(s->outages[0].why, "bad | NIC");
	cr_expect(s->outages[1].lasts);
	cr_assert_eq(ops_find_exclusions(s, &rule, &e, NULL), 0);
	cr_assert_eq(ops_add_outages(s, &rule, &e, NULL), 0);
	for (size_t i = 0; i < e.n; i++) {
		const char *name = s->nodes[e.v[i].node];

		cr_expect_float_eq(e.v[i].cordoned_s,
				   strcmp(name, "n4") == 0 ? 6000 : 0, 0.5);
		cr_expect_float_eq(e.v[i].away_s,
				   strcmp(name, "n2") == 0 ? 1000 : 0, 0.5);
		if (strcmp(name, "n4") != 0)
			continue;
		cr_assert_eq(ops_find_absences(s, &rule, e.v[i].node, &v, &n,
					       NULL),
			     0);
	}
	cr_assert_eq(n, 1);
	cr_expect_eq(v[0].from_s, 1000);
	cr_expect_eq(v[0].to_s, 11000);
	cr_expect_eq(v[0].sessions, 1);
	free(v);
	ops_exclusions_fini(&e);
}
