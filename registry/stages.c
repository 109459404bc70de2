// SPDX-License-Identifier: Apache-2.0
/* /v1/events and /v1/starts: docs/registry-api.md. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "registry/service.h"
#include "registry/stage_db.h"
#include "registry/stage_quota.h"

#define LIMIT_DEFAULT 100
#define RUNS_MAX 100000u /* of one answer */
#define NS_PER_MS INT64_C(1000000)

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

/* --------------------------------------------------------------------- events --- */

static int64_t wall_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* "BOOT:MONO:WALL:RTT", which param_clock lets pass. */
static bool read_clock(const char *text, struct start_clock *ret)
{
	char *p;

	ret->boot = strtoull(text, &p, 16);
	ret->mono_offset_ns = strtoll(p + 1, &p, 10);
	ret->wall_offset_ns = strtoll(p + 1, &p, 10);
	ret->rtt_ns = strtoll(p + 1, NULL, 10);
	return start_clock_is_sane(ret);
}

static int put_batch(struct service *s, struct stage_batch *b,
		     struct error *err)
{
	int rc = stage_quota_check(s->stage_quota, b->node, b->now, err);

	if (rc == 0)
		rc = stage_db_put(s->db, b, err);
	if (rc == 0)
		stage_quota_add(s->stage_quota, b->node, b->stored, b->now);
	return rc;
}

int stages_post(struct call *c, struct error *err)
{
	const char *clock = call_param(c, "clock");
	struct stage_batch b = {
		.node = call_param(c, "Bootseer-Node"),
		.text = c->req->body ? c->req->body : "",
		.len = c->req->head.content_length,
		.now = time(NULL),
	};
	int rc = call_check_repo(c, "", err);

	b.has_clock = clock[0];
	if (rc == 0 && b.has_clock && !read_clock(clock, &b.clock))
		rc = error_set(err, EINVAL, "clock: no clock is so far off");
	if (rc == 0)
		rc = stage_batch_check(&b, err);
	/* Without events it is the exchange that tells a node its offset. */
	if (rc == 0 && b.len)
		rc = put_batch(c->service, &b, err);
	if (rc < 0)
		return rc;
	atomic_fetch_add(&c->service->counts.stage_events, b.stored);
	return call_send_json(c,
			      json_pack("{s:I,s:I,s:I}", "stored",
					(json_int_t)b.stored, "doubles",
					(json_int_t)b.doubles, "now_ns",
					(json_int_t)wall_ns()),
			      err);
}

/* ----------------------------------------------------------------------- list --- */

static json_t *job_json(const struct job_start *s)
{
	int64_t end = s->ready_ns ? s->ready_ns : s->last_ns;

	return json_pack("{s:I,s:s,s:I,s:I,s:f,s:b,s:I,s:I}", "id",
			 (json_int_t)s->id, "job", s->job, "attempt",
			 (json_int_t)s->attempt, "begin_ms",
			 (json_int_t)(s->first_ns / NS_PER_MS), "duration_s",
			 seconds(end - s->first_ns), "ready", s->ready_ns != 0,
			 "events", (json_int_t)s->events, "received_at",
			 (json_int_t)s->received);
}

static int add_job(void *arg, const struct job_start *s)
{
	return json_array_append_new(arg, job_json(s)) < 0 ? -ENOMEM : 0;
}

int starts_list(struct call *c, struct error *err)
{
	const char *limit = call_param(c, "limit");
	json_t *array = json_array();
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = stage_db_list(c->service->db, call_param(c, "job"),
				   limit[0] ? atoi(limit) : LIMIT_DEFAULT,
				   add_job, array, err);
	if (rc < 0) {
		json_decref(array);
		return rc;
	}
	return call_send_json(c, json_pack("{s:o}", "starts", array), err);
}

/* ------------------------------------------------------------------------ get --- */

static json_t *spread_json(const struct start_spread *s)
{
	return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "nodes",
			 (json_int_t)s->n, "min_s", seconds(s->min_ns),
			 "median_s", seconds(s->median_ns), "p90_s",
			 seconds(s->p90_ns), "p95_s", seconds(s->p95_ns),
			 "p99_s", seconds(s->p99_ns), "max_s",
			 seconds(s->max_ns), "max_median", s->max_median);
}

static json_t *stage_json(const struct start_report *r,
			  const struct start_stage *s)
{
	return json_pack("{s:s,s:b,s:f,s:f,s:I,s:I,s:I,s:I,s:I,s:o}", "stage",
			 s->name, "top", s->is_top, "at_s",
			 seconds(s->begin_ns - r->begin_ns), "job_s",
			 seconds(s->job_ns), "runs", (json_int_t)s->runs,
			 "open", (json_int_t)s->open, "retries",
			 (json_int_t)s->retries, "lost_begins",
			 (json_int_t)s->lost_begins, "stragglers",
			 (json_int_t)s->stragglers, "node",
			 spread_json(&s->spread));
}

static json_t *run_json(const struct start_report *r,
			const struct start_run *run)
{
	json_t *o = json_pack("{s:s,s:f,s:f,s:I,s:b,s:b}", "stage",
			      r->stages[run->stage].name, "at_s",
			      seconds(run->begin_ns - r->begin_ns),
			      "duration_s", seconds(run->duration_ns),
			      "attempt", (json_int_t)run->attempt, "open",
			      run->is_open, "top", run->is_top);

	if (o && run->rank >= 0)
		(void)json_object_set_new(o, "rank", json_integer(run->rank));
	if (o && run->status > 0)
		(void)json_object_set_new(o, "status",
					  json_integer(run->status));
	return o;
}

static int order_begin(const void *x, const void *y, void *arg)
{
	const struct start_stage *stages = arg;
	const struct start_stage *a = &stages[*(const uint32_t *)x],
				 *b = &stages[*(const uint32_t *)y];

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* The numbers from 0 on, sorted; the caller's. */
static uint32_t *sorted(size_t n, void *arg,
			int (*order)(const void *x, const void *y, void *arg))
{
	uint32_t *v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		v[i] = (uint32_t)i;
	if (v && n)
		qsort_r(v, n, sizeof(*v), order, arg);
	return v;
}

/* As they began. */
static json_t *stages_json(const struct start_report *r)
{
	AUTO_FREE uint32_t *order = sorted(r->n_stages, r->stages, order_begin);
	json_t *a = order ? json_array() : NULL;

	for (size_t i = 0; a && i < r->n_stages; i++) {
		const struct start_stage *s = &r->stages[order[i]];

		if (s->runs || s->lost_begins)
			(void)json_array_append_new(a, stage_json(r, s));
	}
	return a;
}

static json_t *stragglers_json(const struct start_report *r)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->n_cells; i++) {
		const struct start_cell *c = &r->cells[i];
		const struct start_stage *s = &r->stages[c->stage];

		if (c->is_straggler)
			(void)json_array_append_new(
				a,
				json_pack("{s:s,s:s,s:f,s:f,s:I}", "node",
					  r->nodes[c->node].name, "stage",
					  s->name, "duration_s",
					  seconds(c->duration_ns), "excess_s",
					  seconds(c->duration_ns -
						  s->spread.median_ns),
					  "attempts", (json_int_t)c->attempts));
	}
	return a;
}

static json_t *path_json(const struct start_report *r)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->n_path; i++) {
		const struct start_run *run = &r->runs[r->path[i].run];
		json_t *o = run_json(r, run);

		(void)json_object_set_new(o, "node",
					  json_string(
						  r->nodes[run->node].name));
		(void)json_object_set_new(o, "gap_s",
					  json_real(
						  seconds(r->path[i].gap_ns)));
		(void)json_array_append_new(a, o);
	}
	return a;
}

static int order_slow(const void *x, const void *y, void *arg)
{
	const struct start_node *nodes = arg;
	const struct start_node *a = &nodes[*(const uint32_t *)x],
				*b = &nodes[*(const uint32_t *)y];

	if (a->busy_ns != b->busy_ns)
		return a->busy_ns > b->busy_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

static json_t *node_runs(const struct start_report *r, uint32_t node,
			 size_t *left)
{
	json_t *a = json_array();

	/* Runs are by node. */
	for (size_t i = 0; i < r->n_runs && *left; i++) {
		if (r->runs[i].node != node)
			continue;
		(void)json_array_append_new(a, run_json(r, &r->runs[i]));
		--*left;
	}
	return a;
}

/* The slowest ones, with what they did. */
static json_t *nodes_json(const struct start_report *r, size_t limit)
{
	AUTO_FREE uint32_t *order = sorted(r->n_nodes, r->nodes, order_slow);
	json_t *a = order ? json_array() : NULL;
	size_t left = RUNS_MAX;

	for (size_t i = 0; a && i < r->n_nodes && i < limit; i++) {
		const struct start_node *n = &r->nodes[order[i]];

		(void)json_array_append_new(a,
					    json_pack("{s:s,s:f,s:b,s:o}",
						      "node", n->name, "busy_s",
						      seconds(n->busy_ns),
						      "straggler",
						      n->is_straggler, "runs",
						      node_runs(r, order[i],
								&left)));
	}
	return a;
}

static int send_report(struct call *c, const struct start_report *r,
		       json_t *head, struct error *err)
{
	const char *limit = call_param(c, "limit");
	json_t *more =
		json_pack("{s:o,s:I,s:o,s:o,s:o,s:o}", "node_level",
			  spread_json(&r->spread), "nodes_all",
			  (json_int_t)r->n_nodes, "stages", stages_json(r),
			  "stragglers", stragglers_json(r), "critical_path",
			  path_json(r), "nodes",
			  nodes_json(r, limit[0] ? (size_t)atoi(limit)
						 : LIMIT_DEFAULT));
	int rc;

	/* The clocks of all nodes together say it better than the list does. */
	if (more &&
	    (json_object_set_new(head, "begin_ms",
				 json_integer(r->begin_ns / NS_PER_MS)) < 0 ||
	     json_object_set_new(head, "duration_s",
				 json_real(seconds(r->end_ns - r->begin_ns))) <
		     0))
		rc = error_nomem(err);
	else
		rc = more && json_object_update(head, more) == 0
			     ? call_send_json(c, json_incref(head), err)
			     : error_nomem(err);
	json_decref(more);
	return rc;
}

static int note_head(void *arg, const struct job_start *s)
{
	json_t **head = arg;

	json_decref(*head);
	*head = job_json(s);
	return *head ? 0 : -ENOMEM;
}

int starts_get(struct call *c, struct error *err)
{
	AUTO(start_set) set = NULL;
	struct start_report r;
	json_t *head = NULL;
	int64_t left_out = 0;
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = stage_db_get(c->service->db,
				  strtoll(call_param(c, "id"), NULL, 10),
				  note_head, &head, &set, &left_out, err);
	if (rc == 0)
		rc = start_report_make(set, &r, err);
	if (rc == 0) {
		(void)json_object_set_new(head, "left_out",
					  json_integer(left_out));
		rc = send_report(c, &r, head, err);
		start_report_fini(&r);
	}
	json_decref(head);
	return rc;
}
