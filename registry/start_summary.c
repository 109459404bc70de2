// SPDX-License-Identifier: Apache-2.0
/* JSON for the head of a start's page: its progress, the nodes it waits for, its failures. */
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "registry/starts_json.h"

#define NAMED_MAX 20      /* nodes and failures listed at most */
#define SUMMARY_STAGES 16 /* stages listed at most: the longest */

static double seconds_since(int64_t now_ns, int64_t then_ns)
{
	return now_ns > then_ns ? clock_seconds(now_ns - then_ns) : 0;
}

const char *starts_state(const struct job_start *s, int64_t now_ns)
{
	if (s->ready_ns)
		return "ready";
	return job_start_is_open(s, now_ns) ? "open" : "stopped";
}

static void set_rank(json_t *o, int64_t rank)
{
	if (o && rank >= 0)
		(void)json_object_set_new(o, "rank", json_integer(rank));
}

/* ------------------------------------------------------------------- waiting --- */

static json_t *wait_json(const struct start_report *r,
			 const struct start_wait *w, int64_t now_ns)
{
	AUTO_BUF said = BUF_INIT;
	json_t *o;

	if (start_said_text(r, w, &said) < 0)
		return NULL;
	o = json_pack("{s:s,s:s,s:b,s:f,s:f,s:s,s:I,s:I}", "node",
		      r->nodes[w->node].name, "stage", r->stages[w->stage].name,
		      "in", w->is_in, "for_s",
		      seconds_since(now_ns, w->since_ns), "heard_s",
		      seconds_since(now_ns, w->last_ns), "said", said.data,
		      "done", (json_int_t)w->done, "of", (json_int_t)w->of);
	set_rank(o, w->rank);
	return o;
}

json_t *starts_waiting_json(const struct start_report *r, int64_t now_ns)
{
	AUTO_BUF text = BUF_INIT;
	json_t *nodes;
	size_t n = 0;

	if (start_wait_text(r, now_ns, &text) < 0)
		return NULL;
	if (!text.len)
		return json_null();
	nodes = json_array();
	/* Several waits may be for the same nodes; show only the first of each. */
	for (size_t i = 0; i < r->n_waits; i++) {
		if (!start_wait_is_first(r, &r->waits[i]))
			continue;
		if (n++ < NAMED_MAX)
			(void)json_array_append_new(nodes,
						    wait_json(r, &r->waits[i],
							      now_ns));
	}
	return json_pack("{s:s,s:I,s:o}", "text", text.data, "all",
			 (json_int_t)n, "nodes", nodes);
}

/* ------------------------------------------------------------------- failures --- */

static json_t *failure_json(const struct start_report *r,
			    const struct start_failure *f)
{
	const struct start_run *run = &r->runs[f->run];
	json_t *o =
		json_pack("{s:s,s:s,s:I,s:f,s:I,s:b}", "node",
			  r->nodes[run->node].name, "stage",
			  r->stages[run->stage].name, "status",
			  (json_int_t)run->status, "at_s",
			  clock_seconds(run->end_ns - r->begin_ns), "attempt",
			  (json_int_t)run->attempt, "mended", f->is_again);

	set_rank(o, run->rank);
	return o;
}

json_t *starts_failed_json(const struct start_report *r)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_BUF mended = BUF_INIT;
	json_t *runs;

	if (start_failure_text(r, &text) < 0 ||
	    start_mended_text(r, &mended) < 0)
		return NULL;
	if (!r->n_failures)
		return json_null();
	runs = json_array();
	for (size_t i = 0; i < r->n_failures && i < NAMED_MAX; i++)
		(void)json_array_append_new(runs,
					    failure_json(r, &r->failures[i]));
	return json_pack("{s:s,s:s,s:I,s:o}", "text", text.len ? text.data : "",
			 "mended", mended.len ? mended.data : "", "all",
			 (json_int_t)r->n_failures, "runs", runs);
}

/* ------------------------------------------------------------------- summary --- */

static int compare_summary_by_begin(const void *x, const void *y)
{
	const struct start_stage *a = *(const struct start_stage *const *)x,
				 *b = *(const struct start_stage *const *)y;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int compare_summary_by_length(const void *x, const void *y)
{
	const struct start_stage *a = *(const struct start_stage *const *)x,
				 *b = *(const struct start_stage *const *)y;

	if (a->spread.median_ns != b->spread.median_ns)
		return a->spread.median_ns > b->spread.median_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* An array [NAME, seconds of the median node] for each of the longest stages, in the order in which
 * they began. */
static json_t *summary_stages(const struct start_report *r)
{
	AUTO_FREE const struct start_stage **v =
		calloc(r->n_stages + 1, sizeof(*v));
	json_t *a = v ? json_array() : NULL;
	size_t n = 0;

	for (size_t i = 0; v && i < r->n_stages; i++)
		if (r->stages[i].is_top && r->stages[i].spread.n)
			v[n++] = &r->stages[i];
	if (n > SUMMARY_STAGES) {
		qsort(v, n, sizeof(*v), compare_summary_by_length);
		n = SUMMARY_STAGES;
	}
	if (n)
		qsort(v, n, sizeof(*v), compare_summary_by_begin);
	for (size_t i = 0; a && i < n; i++)
		(void)json_array_append_new(
			a, json_pack("[s,f]", v[i]->name,
				     clock_seconds(v[i]->spread.median_ns)));
	return a;
}

json_t *starts_summary_json(const struct start_report *r)
{
	AUTO_BUF text = BUF_INIT;
	uint32_t slow = 0;

	if (start_failure_text(r, &text) < 0)
		return NULL;
	for (size_t i = 0; i < r->n_nodes; i++)
		slow += r->nodes[i].is_straggler;
	return json_pack("{s:f,s:f,s:f,s:I,s:s,s:o}", "median_s",
			 clock_seconds(r->spread.median_ns), "max_s",
			 clock_seconds(r->spread.max_ns), "max_median",
			 r->spread.max_median, "stragglers", (json_int_t)slow,
			 "failed", text.len ? text.data : "", "stages",
			 summary_stages(r));
}

char *starts_summary_text(const struct start_report *r)
{
	AUTO_JSON *o = starts_summary_json(r);

	return o ? json_dumps(o, JSON_COMPACT) : NULL;
}
