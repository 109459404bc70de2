// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "profiler/follow/pod_stages.h"

TestSuite(pod_stages, .timeout = 120);

static struct buf told;
static int64_t last_id;

/* Append "stage ev job seconds ..." for the event. */
static int tell(void *arg, const struct stage_event *e)
{
	static const char *const evs[] = { "begin", "end", "mark" };

	(void)arg;
	cr_assert(e->id >= 0);
	cr_assert_neq(e->id, last_id);
	last_id = e->id;
	return buf_printf(&told,
			  "%.*s %s %.*s %" PRId64 " %" PRId64 " %" PRId64 "\n",
			  (int)e->stage.n, e->stage.s, evs[e->ev],
			  (int)e->job.n, e->job.s, e->ts_ns / 1000000000,
			  e->attempt, e->rank);
}

static int read_pods(const char *json)
{
	buf_reset(&told);
	last_id = STAGE_NONE;
	return pod_stages_read(json, strlen(json), "n1", tell, NULL, NULL);
}

/* A pod as in the API, with members that are not read. */
#define POD(node, uid, env, conditions) \
	"{\"metadata\":{\"name\":\"w-0\",\"namespace\":\"team\"," \
	"\"uid\":\"" uid "\",\"creationTimestamp\":\"2026-11-23T10:00:00Z\"," \
	"\"labels\":{\"app\":\"w\"}},\"spec\":{\"nodeName\":\"" node "\"," \
	"\"containers\":[{\"name\":\"side\",\"image\":\"s\"},{\"name\":\"w\"," \
	"\"image\":\"r/w:1\",\"env\":[" env "]," \
	"\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"8\"}}}]}," \
	"\"status\":{\"phase\":\"Running\",\"startTime\":" \
	"\"2026-11-23T10:01:32Z\",\"conditions\":[" conditions "]}}"
#define ENV(name, value) "{\"name\":\"" name "\",\"value\":\"" value "\"}"
#define FROM \
	"{\"name\":\"POD_IP\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":" \
	"\"v1\",\"fieldPath\":\"status.podIP\"}}}"
#define CONDITION(type, status, at) \
	"{\"type\":\"" type "\",\"status\":\"" status "\"," \
	"\"lastProbeTime\":null,\"lastTransitionTime\":\"" at "\"}"
#define LIST(items) \
	"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{}," \
	"\"items\":" items "}"
#define JOB FROM "," ENV("BOOTSEER_JOB", "j")
#define PLACED CONDITION("PodScheduled", "True", "2026-11-23T10:01:30Z")
#define SANDBOX(status) \
	CONDITION("PodReadyToStartContainers", status, "2026-11-23T10:01:40Z")

Test(pod_stages, of_a_pod_that_runs)
{
	cr_assert_eq(read_pods(LIST("[" POD(
			     "n1", "a",
			     JOB "," ENV("BOOTSEER_ATTEMPT",
					 "2") "," ENV("RANK", "3"),
			     SANDBOX("True") "," CONDITION(
				     "Ready", "False",
				     "2026-11-23T10:05:00Z") "," PLACED) "]")),
		     0);
	cr_assert_str_eq(told.data, "queue begin team/j 1795428000 2 3\n"
				    "queue end team/j 1795428090 2 3\n"
				    "schedule begin team/j 1795428090 2 3\n"
				    "schedule end team/j 1795428100 2 3\n");
	buf_fini(&told);
}

Test(pod_stages, that_are_not_over_have_no_end)
{
	cr_assert_eq(read_pods(LIST("[" POD("n1", "a", JOB,
					    PLACED "," SANDBOX("False")) "]")),
		     0);
	cr_assert_str_eq(told.data, "queue begin team/j 1795428000 -1 -1\n"
				    "queue end team/j 1795428090 -1 -1\n"
				    "schedule begin team/j 1795428090 -1 -1\n");
	/* The pod still waits for a node. */
	cr_assert_eq(read_pods(LIST(
			     "[" POD("n1", "a", JOB,
				     CONDITION("PodScheduled", "False",
					       "2026-11-23T10:00:01Z")) "]")),
		     0);
	cr_assert_str_eq(told.data, "queue begin team/j 1795428000 -1 -1\n");
	buf_fini(&told);
}

Test(pod_stages, before_kubernetes_1_29_end_with_the_kubelets_start)
{
	cr_assert_eq(read_pods(LIST("[" POD("n1", "a", JOB, PLACED) "]")), 0);
	cr_assert(strstr(told.data, "schedule end team/j 1795428092 "));
	buf_fini(&told);
}

Test(pod_stages, keep_their_ids)
{
	int64_t before;

	cr_assert_eq(read_pods(LIST("[" POD("n1", "a", JOB,
					    SANDBOX("True") "," PLACED) "]")),
		     0);
	before = last_id;
	cr_assert_eq(
		read_pods(LIST("[" POD(
			"n1", "a", JOB,
			CONDITION("PodReadyToStartContainers", "True",
				  "2026-11-23T11:00:00Z") "," PLACED) "]")),
		0);
	cr_assert_eq(last_id, before);
	cr_assert_eq(read_pods(LIST("[" POD("n1", "b", JOB,
					    SANDBOX("True") "," PLACED) "]")),
		     0);
	cr_assert_neq(last_id, before);
	buf_fini(&told);
}

Test(pod_stages, of_other_pods_are_not_told)
{
	static const char *const lists[] = {
		LIST("[" POD("n2", "a", JOB, PLACED) "]"),
		LIST("[" POD("n1", "a", FROM, PLACED) "]"),
		LIST("[" POD("n1", "a", ENV("BOOTSEER_JOB", "a b"),
			     PLACED) "]"),
		LIST("[" POD("n1", "", JOB, PLACED) "]"),
		LIST("[1,null,\"x\",[],{},{\"spec\":7,\"metadata\":[]}]"),
		LIST("[]"),
		LIST("null"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		cr_assert_eq(read_pods(lists[i]), 0, "%zu", i);
		cr_assert_eq(told.len, 0u, "%zu", i);
	}
	buf_fini(&told);
}

Test(pod_stages, times_that_are_none_are_left_out)
{
	cr_assert_eq(read_pods(LIST("[" POD("n1", "a", JOB,
					    CONDITION("PodScheduled", "True",
						      "soon")) "]")),
		     0);
	cr_assert_str_eq(told.data, "queue begin team/j 1795428000 -1 -1\n");
	buf_fini(&told);
}

Test(pod_stages, of_what_is_no_list_are_refused)
{
	cr_assert_eq(read_pods("Unauthorized"), -EINVAL);
	cr_assert_eq(read_pods("{\"kind\":\"Status\"}"), -EINVAL);
	cr_assert_eq(read_pods("{\"items\":{}}"), -EINVAL);
	cr_assert_eq(read_pods(""), -EINVAL);
	buf_fini(&told);
}
