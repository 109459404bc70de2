// SPDX-License-Identifier: Apache-2.0
/* /v1/starts/ID and what is below it: docs/formats/registry-api.md. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "profiler/start_export.h"
#include "registry/call.h"
#include "registry/routes.h"
#include "registry/start_cache.h"
#include "registry/starts_json.h"

#define RUNS_MAX 100000u /* runs in one answer */

/* ------------------------------------------------------------------------ get --- */

json_t *starts_spread_json(const struct start_spread *s)
{
	return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "nodes",
			 (json_int_t)s->n, "min_s", clock_seconds(s->min_ns),
			 "p25_s", clock_seconds(s->p25_ns), "p75_s",
			 clock_seconds(s->p75_ns), "median_s",
			 clock_seconds(s->median_ns), "p90_s",
			 clock_seconds(s->p90_ns), "p95_s",
			 clock_seconds(s->p95_ns), "p99_s",
			 clock_seconds(s->p99_ns), "max_s",
			 clock_seconds(s->max_ns), "max_median", s->max_median);
}

static json_t *stage_json(const struct start_report *r,
			  const struct start_stage *s)
{
	return json_pack("{s:s,s:b,s:f,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:o}",
			 "stage", s->name, "top", s->is_top, "at_s",
			 clock_seconds(s->begin_ns - r->begin_ns), "job_s",
			 clock_seconds(s->job_ns), "runs", (json_int_t)s->runs,
			 "open", (json_int_t)s->open, "retries",
			 (json_int_t)s->retries, "lost_begins",
			 (json_int_t)s->lost_begins, "failed",
			 (json_int_t)s->failed, "stragglers",
			 (json_int_t)s->stragglers, "node",
			 starts_spread_json(&s->spread));
}

static json_t *run_json(const struct start_report *r,
			const struct start_run *run, int64_t until_ns)
{
	json_t *o = json_pack("{s:s,s:f,s:f,s:I,s:b,s:b}", "stage",
			      r->stages[run->stage].name, "at_s",
			      clock_seconds(run->begin_ns - r->begin_ns),
			      "duration_s",
			      clock_seconds(start_run_length(r, run, until_ns)),
			      "attempt", (json_int_t)run->attempt, "open",
			      run->is_open, "top", run->is_top);

	if (o && run->rank >= 0)
		(void)json_object_set_new(o, "rank", json_integer(run->rank));
	if (o && run->status > 0)
		(void)json_object_set_new(o, "status",
					  json_integer(run->status));
	return o;
}

static int compare_stage_begins(const void *x, const void *y, void *arg)
{
	const struct start_stage *stages = arg;
	const struct start_stage *a = &stages[*(const uint32_t *)x],
				 *b = &stages[*(const uint32_t *)y];

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* The numbers 0 to n - 1, sorted by `order`; the caller frees them. */
static uint32_t *sort_numbers(size_t n, void *arg,
			      int (*order)(const void *x, const void *y,
					   void *arg))
{
	uint32_t *v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		v[i] = (uint32_t)i;
	if (v && n)
		qsort_r(v, n, sizeof(*v), order, arg);
	return v;
}

/* The stages, in the order in which they began. */
static json_t *stages_json(const struct start_report *r)
{
	AUTO_FREE uint32_t *order =
		sort_numbers(r->n_stages, r->stages, compare_stage_begins);
	json_t *a = order ? json_array() : NULL;

	for (size_t i = 0; a && i < r->n_stages; i++) {
		const struct start_stage *s = &r->stages[order[i]];

		if (s->runs || s->lost_begins)
			(void)json_array_append_new(a, stage_json(r, s));
	}
	return a;
}

static json_t *blame_json(const struct start_report *r,
			  const struct start_blame *b)
{
	const struct start_cell *c = &r->cells[b->cell];
	AUTO_BUF text = BUF_INIT;

	if (start_blame_text(r, b, &text) < 0)
		return NULL;
	return json_pack("{s:s,s:s,s:f,s:f,s:I,s:s,s:s,s:s,s:f,s:I,s:I}",
			 "node", r->nodes[c->node].name, "stage",
			 r->stages[c->stage].name, "duration_s",
			 clock_seconds(c->duration_ns), "excess_s",
			 clock_seconds(b->excess_ns), "attempts",
			 (json_int_t)c->attempts, "cause",
			 start_cause_name(b->cause), "cause_stage",
			 r->stages[b->within].name, "why", text.data,
			 "explained_s", clock_seconds(b->explained_ns),
			 "slow_before", (json_int_t)b->past.slow,
			 "starts_before", (json_int_t)b->past.starts);
}

static json_t *stragglers_json(const struct start_found *f)
{
	json_t *a = json_array();

	for (size_t i = 0; i < f->n_blames; i++)
		(void)json_array_append_new(a, blame_json(&f->report,
							  &f->blames[i]));
	return a;
}

static json_t *lost_time_json(const struct start_lost *l)
{
	return json_pack("{s:f,s:f,s:f,s:f}", "node_s", l->node_s, "wait_s",
			 l->wait_s, "gpu_s", l->gpu_s, "job_share",
			 l->job_share);
}

static json_t *path_json(const struct start_report *r)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->n_path; i++) {
		const struct start_run *run = &r->runs[r->path[i].run];
		json_t *o = run_json(r, run, r->end_ns);

		(void)json_object_set_new(o, "node",
					  json_string(
						  r->nodes[run->node].name));
		(void)json_object_set_new(o, "gap_s",
					  json_real(clock_seconds(
						  r->path[i].gap_ns)));
		(void)json_array_append_new(a, o);
	}
	return a;
}

/* A report's nodes, and the time up to which open stages count. */
struct nodes_until {
	const struct start_report *r;
	int64_t ns;
};

static int compare_nodes_by_busy_time(const void *x, const void *y, void *arg)
{
	const struct nodes_until *u = arg;
	const struct start_node *a = &u->r->nodes[*(const uint32_t *)x],
				*b = &u->r->nodes[*(const uint32_t *)y];
	int64_t k = start_node_busy(u->r, a, u->ns),
		m = start_node_busy(u->r, b, u->ns);

	/* A node that others wait for comes first, even if the waiting ones lost as much time. */
	if (a->is_waited != b->is_waited)
		return a->is_waited ? -1 : 1;
	if (k != m)
		return k > m ? -1 : 1;
	return strcmp(a->name, b->name);
}

static json_t *node_runs(const struct nodes_until *u, uint32_t node,
			 size_t *left)
{
	const struct start_node *n = &u->r->nodes[node];
	json_t *a = json_array();

	for (uint32_t i = 0; i < n->n_runs && *left; i++, --*left)
		(void)json_array_append_new(a,
					    run_json(u->r,
						     &u->r->runs[n->first_run +
								 i],
						     u->ns));
	return a;
}

/* The `limit` slowest nodes, with their stages. */
static json_t *nodes_json(const struct start_report *r, size_t limit,
			  int64_t until_ns)
{
	struct nodes_until u = { r, until_ns };
	AUTO_FREE uint32_t *order =
		sort_numbers(r->n_nodes, &u, compare_nodes_by_busy_time);
	json_t *a = order ? json_array() : NULL;
	size_t left = RUNS_MAX;

	for (size_t i = 0; a && i < r->n_nodes && i < limit; i++) {
		const struct start_node *n = &r->nodes[order[i]];
		double busy = clock_seconds(start_node_busy(r, n, until_ns));

		(void)json_array_append_new(a,
					    json_pack("{s:s,s:f,s:b,s:o}",
						      "node", n->name, "busy_s",
						      busy, "straggler",
						      n->is_straggler, "runs",
						      node_runs(&u, order[i],
								&left)));
	}
	return a;
}

/* A start at the time of the request. */
struct start_view {
	const struct start_found *found; /* reference to the cache's entry */
	struct job_start head;
	int64_t now_ns;
	/* up to here open stages count: the start's end, or now if it may still begin training */
	int64_t until_ns;
};

static json_t *head_json(const struct start_view *v)
{
	const struct start_report *r = &v->found->report;
	json_t *o = starts_job_json(&v->head, v->now_ns);

	/* Replace the times of the list's row: the analysis uses the clocks of all nodes, and is
	 * more exact. */
	if (o &&
	    (json_object_set_new(o, "begin_ms",
				 json_integer(r->begin_ns / NS_PER_MS)) < 0 ||
	     json_object_set_new(o, "duration_s",
				 json_real(clock_seconds(v->until_ns -
							 r->begin_ns))) < 0 ||
	     json_object_set_new(o, "left_out",
				 json_integer(v->found->left_out)) < 0)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* Open a view of the start. The caller calls close_view(), also after a failure. */
static int open_view(struct call *c, const char *id, struct start_view *ret,
		     struct error *err)
{
	struct service *s = c->service;
	const struct start_report *r;
	int rc = call_check_repo(c, "", err);

	*ret = (struct start_view){ .now_ns = clock_wall_ns() };
	if (rc == 0)
		rc = start_cache_get(s->start_cache, strtoll(id, NULL, 10),
				     &ret->found, err);
	if (rc < 0)
		return rc;
	r = &ret->found->report;
	ret->head = ret->found->head;
	rc = stage_db_others(s->db, &ret->head, err);
	ret->until_ns = job_start_is_open(&ret->head, ret->now_ns) &&
					ret->now_ns > r->end_ns
				? ret->now_ns
				: r->end_ns;
	return rc;
}

static void close_view(struct call *c, const struct start_view *v)
{
	start_cache_put(c->service->start_cache, v->found);
}

static json_t *view_json(const struct start_view *v, size_t limit)
{
	const struct start_report *r = &v->found->report;
	struct start_lost lost;

	start_lost_until(r, v->until_ns, &lost);
	return json_pack("{s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o,s:o}", "waiting",
			 starts_waiting_json(r, v->until_ns), "failed",
			 starts_failed_json(r), "node_level",
			 starts_spread_json(&r->spread), "nodes_all",
			 (json_int_t)r->n_nodes, "lost", lost_time_json(&lost),
			 "stages", stages_json(r), "stragglers",
			 stragglers_json(v->found), "critical_path",
			 path_json(r), "nodes",
			 nodes_json(r, limit, v->until_ns));
}

int starts_get(struct call *c, struct error *err)
{
	json_t *head, *more;
	struct start_view v;
	int rc = open_view(c, call_param(c, "id"), &v, err);

	if (rc == 0) {
		head = head_json(&v);
		more = view_json(&v, (size_t)call_number(c, "limit",
							 LIMIT_DEFAULT));
		rc = head && more && json_object_update(head, more) == 0
			     ? call_send_json(c, json_incref(head), err)
			     : error_nomem(err);
		json_decref(more);
		json_decref(head);
	}
	close_view(c, &v);
	return rc;
}

/* --------------------------------------------------------------------- bars --- */

#define BAR_MAX (4u * (sizeof("-9223372036854775808")))

/* Write the digits of `n` to `at`; returns their end. printf is too slow for the 400,000 numbers of
 * a start of 2,000 nodes. */
static char *put_number(char *at, int64_t n)
{
	uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
	char digits[20];
	size_t k = 0;

	do
		digits[k++] = (char)('0' + left % 10);
	while (left /= 10);
	if (n < 0)
		*at++ = '-';
	while (k)
		*at++ = digits[--k];
	return at;
}

/* Write the bars of a node as [stage, at_ms, duration_ms, flags, ...]; flags: 1 open, 2 top, 4
 * rank, 8 failed, 16 goes on. Plain numbers, since there are many bars. */
static int put_bars(const struct nodes_until *u, const struct start_node *n,
		    struct buf *b)
{
	const struct start_report *r = u->r;
	int rc = buf_printf(b, "[\"%s\",%.3f,%d,[", n->name,
			    clock_seconds(start_node_busy(r, n, u->ns)),
			    (n->is_straggler ? 1 : 0) |
				    (n->is_waited && !r->is_ready ? 2 : 0));
	char *at;

	if (rc == 0)
		rc = buf_reserve(b, n->n_runs * BAR_MAX);
	if (rc < 0)
		return rc;
	at = b->data + b->len;
	for (uint32_t i = 0; i < n->n_runs; i++) {
		const struct start_run *run = &r->runs[n->first_run + i];

		if (i)
			*at++ = ',';
		at = put_number(at, run->stage);
		*at++ = ',';
		at = put_number(at, (run->begin_ns - r->begin_ns) / NS_PER_MS);
		*at++ = ',';
		at = put_number(at,
				start_run_length(r, run, u->ns) / NS_PER_MS);
		*at++ = ',';
		at = put_number(at, (run->is_open ? 1 : 0) |
					    (run->is_top ? 2 : 0) |
					    (run->rank >= 0 ? 4 : 0) |
					    (run->status > 0 ? 8 : 0) |
					    (run->goes_on ? 16 : 0));
	}
	b->len = (size_t)(at - b->data);
	return buf_puts(b, "]]");
}

static int write_bars(const struct start_view *v, struct buf *b)
{
	const struct start_report *r = &v->found->report;
	struct nodes_until u = { r, v->until_ns };
	AUTO_FREE uint32_t *order =
		sort_numbers(r->n_nodes, &u, compare_nodes_by_busy_time);
	int rc = order ? buf_printf(b, "{\"duration_s\":%.3f,\"stages\":[",
				    clock_seconds(v->until_ns - r->begin_ns))
		       : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < r->n_stages; i++)
		rc = buf_printf(b, "%s\"%s\"", i ? "," : "", r->stages[i].name);
	if (rc == 0)
		rc = buf_puts(b, "],\"nodes\":[");
	for (size_t i = 0; rc == 0 && i < r->n_nodes; i++) {
		rc = i ? buf_puts(b, ",\n") : 0;
		if (rc == 0)
			rc = put_bars(&u, &r->nodes[order[i]], b);
	}
	return rc == 0 ? buf_puts(b, "]}\n") : rc;
}

int starts_bars(struct call *c, struct error *err)
{
	struct start_view v;
	int rc = open_view(c, call_param(c, "id"), &v, err);

	if (rc == 0 && write_bars(&v, &c->reply.body) < 0)
		rc = error_nomem(err);
	c->reply.type = "application/json";
	close_view(c, &v);
	return rc;
}

int starts_export(struct call *c, struct error *err)
{
	const struct start_export_kind *k =
		start_export_find(call_param(c, "format"));
	struct start_title name;
	struct start_view v;
	int rc = open_view(c, call_param(c, "id"), &v, err);

	if (rc == 0) {
		name = (struct start_title){ .job = v.head.job,
					     .attempt = v.head.attempt,
					     .class = job_start_class(&v.head),
					     .blames = v.found->blames,
					     .n_blames = v.found->n_blames };
		if (start_export(k, &v.found->report, &name, &c->reply.body) <
		    0)
			rc = error_nomem(err);
	}
	c->reply.type = k->type;
	close_view(c, &v);
	return rc;
}

/* ------------------------------------------------------------------ compare --- */

static const struct start_stage *find_stage(const struct start_report *r,
					    const char *name)
{
	for (size_t i = 0; i < r->n_stages; i++)
		if (strcmp(r->stages[i].name, name) == 0 && r->stages[i].runs)
			return &r->stages[i];
	return NULL;
}

static json_t *stage_side_json(const struct start_stage *s)
{
	return s ? json_pack("{s:f,s:f,s:f,s:f,s:I,s:I}", "median_s",
			     clock_seconds(s->spread.median_ns), "max_s",
			     clock_seconds(s->spread.max_ns), "max_median",
			     s->spread.max_median, "job_s",
			     clock_seconds(s->job_ns), "retries",
			     (json_int_t)s->retries, "stragglers",
			     (json_int_t)s->stragglers)
		 : json_null();
}

static json_t *pair_json(const char *name, const struct start_stage *a,
			 const struct start_stage *b)
{
	int64_t x = a ? a->job_ns : 0, y = b ? b->job_ns : 0;

	return json_pack("{s:s,s:b,s:o,s:o,s:f}", "stage", name, "top",
			 (a && a->is_top) || (b && b->is_top), "a",
			 stage_side_json(a), "b", stage_side_json(b),
			 "change_s", clock_seconds(y - x));
}

/* Pairs of stages: those of the first start in the order in which they began, then those that only
 * the second has. */
static json_t *pairs_json(const struct start_report *a,
			  const struct start_report *b)
{
	AUTO_FREE uint32_t *x =
		sort_numbers(a->n_stages, a->stages, compare_stage_begins);
	AUTO_FREE uint32_t *y =
		sort_numbers(b->n_stages, b->stages, compare_stage_begins);
	json_t *list = x && y ? json_array() : NULL;

	for (size_t i = 0; list && i < a->n_stages; i++) {
		const struct start_stage *s = &a->stages[x[i]];

		if (s->runs)
			(void)json_array_append_new(
				list,
				pair_json(s->name, s, find_stage(b, s->name)));
	}
	for (size_t i = 0; list && i < b->n_stages; i++) {
		const struct start_stage *s = &b->stages[y[i]];

		if (s->runs && !find_stage(a, s->name))
			(void)json_array_append_new(list, pair_json(s->name,
								    NULL, s));
	}
	return list;
}

static json_t *summary_of_start_json(const struct start_view *v)
{
	const struct start_report *r = &v->found->report;
	json_t *o = head_json(v);

	if (!o ||
	    json_object_set_new(o, "nodes_all",
				json_integer((json_int_t)r->n_nodes)) < 0 ||
	    json_object_set_new(o, "node_level",
				starts_spread_json(&r->spread)) < 0 ||
	    json_object_set_new(o, "lost", lost_time_json(&r->lost)) < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

int starts_compare(struct call *c, struct error *err)
{
	struct start_view a, b = { .found = NULL };
	int rc = open_view(c, call_param(c, "id"), &a, err);

	if (rc == 0)
		rc = open_view(c, call_param(c, "with"), &b, err);
	if (rc == 0) {
		const struct start_report *x = &a.found->report,
					  *y = &b.found->report;

		rc = call_send_json(c,
				    json_pack("{s:o,s:o,s:f,s:o}", "a",
					      summary_of_start_json(&a), "b",
					      summary_of_start_json(&b),
					      "change_s",
					      clock_seconds(b.until_ns -
							    y->begin_ns -
							    (a.until_ns -
							     x->begin_ns)),
					      "stages", pairs_json(x, y)),
				    err);
	}
	close_view(c, &a);
	close_view(c, &b);
	return rc;
}
