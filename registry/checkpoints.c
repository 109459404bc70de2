// SPDX-License-Identifier: Apache-2.0
/* /v1/checkpoints and /v1/starts/ID/checkpoints: docs/formats/registry-api.md. */
#include <jansson.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "registry/call.h"
#include "registry/ckpt_cache.h"
#include "registry/routes.h"
#include "registry/starts_json.h"

#define DAYS_DEFAULT 30
#define DAY_S INT64_C(86400)

static double convert_ms_to_s(uint64_t ms)
{
	return (double)ms / 1e3;
}

static double max_median(int64_t max_ms, int64_t median_ms)
{
	return median_ms > 0 ? (double)max_ms / (double)median_ms : 0;
}

/* --------------------------------------------------------------------- list --- */

static int add_row(void *arg, const struct ckpt_row *r)
{
	json_t *o = json_pack(
		"{s:I,s:s,s:I,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:I,"
		"s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:s}",
		"id", (json_int_t)r->start, "job", r->job, "attempt",
		(json_int_t)r->attempt, "image", r->image, "label", r->label,
		"stage", r->stage, "last", (json_int_t)r->last, "rounds",
		(json_int_t)r->rounds, "nodes", (json_int_t)r->nodes, "runs",
		(json_int_t)r->runs, "open", (json_int_t)r->open, "bytes",
		(json_int_t)r->bytes, "job_s",
		convert_ms_to_s((uint64_t)r->job_ms), "rate",
		(json_int_t)start_ckpt_rate((uint64_t)r->bytes,
					    r->job_ms * NS_PER_MS),
		"run_s", convert_ms_to_s((uint64_t)r->run_ms), "wait_s",
		convert_ms_to_s((uint64_t)r->wait_ms), "queue_s",
		convert_ms_to_s((uint64_t)r->queue_ms), "storage_s",
		convert_ms_to_s((uint64_t)r->storage_ms), "network_s",
		convert_ms_to_s((uint64_t)r->network_ms), "median_s",
		convert_ms_to_s((uint64_t)r->median_ms), "max_s",
		convert_ms_to_s((uint64_t)r->max_ms), "max_median",
		max_median(r->max_ms, r->median_ms), "stragglers",
		(json_int_t)r->slow, "slowest", r->slowest);

	return json_array_append_new(arg, o) < 0 ? -ENOMEM : 0;
}

int checkpoints_list(struct call *c, struct error *err)
{
	const struct ckpt_query q = {
		.since = time(NULL) -
			 DAY_S * call_number(c, "days", DAYS_DEFAULT),
		.filter = { .job = call_param(c, "job"),
			    .image = call_param(c, "image"),
			    .label = call_param(c, "label") },
		.limit = call_number(c, "limit", LIMIT_DEFAULT),
	};
	json_t *rows = json_array();
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = ckpt_db_list(c->service->db, &q, add_row, rows, err);
	if (rc < 0) {
		json_decref(rows);
		return rc;
	}
	return call_send_json(c, json_pack("{s:o}", "checkpoints", rows), err);
}

/* ---------------------------------------------------------------- one start --- */

/* Add to `o` the members that all sums have; when memory is short, release `o` and return NULL. */
static json_t *add_sum_members(json_t *o, const struct start_ckpt_sum *s,
			       int64_t duration_ns)
{
	json_t *more =
		json_pack("{s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f}", "runs",
			  (json_int_t)s->runs, "open", (json_int_t)s->open,
			  "bytes", (json_int_t)s->bytes, "rate",
			  (json_int_t)start_ckpt_rate(s->bytes, duration_ns),
			  "run_s", convert_ms_to_s(s->run_ms), "wait_s",
			  convert_ms_to_s(s->wait_ms), "queue_s",
			  convert_ms_to_s(s->queue_ms), "storage_s",
			  convert_ms_to_s(s->storage_ms), "network_s",
			  convert_ms_to_s(s->network_ms));

	if (json_object_update_new(o, more) == 0)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *nodes_json(const struct ckpt_found *f,
			  const struct start_ckpt_part *p, size_t limit)
{
	json_t *a = json_array();

	for (size_t i = 0; i < p->n_nodes && i < limit; i++) {
		const struct start_ckpt_node *n = &p->nodes[i];
		json_t *o = json_pack("{s:s,s:f,s:b}", "node",
				      f->nodes[n->node].name, "duration_s",
				      clock_seconds(n->duration_ns),
				      "straggler", n->is_straggler);

		(void)json_array_append_new(a, add_sum_members(o, &n->sum,
							       n->duration_ns));
	}
	return a;
}

/* The last `limit` rounds, in the order of time. */
static json_t *rounds_json(const struct ckpt_found *f,
			   const struct start_ckpt_part *p, size_t limit)
{
	size_t first = p->n_rounds > limit ? p->n_rounds - limit : 0;
	json_t *a = json_array();

	for (size_t i = first; i < p->n_rounds; i++) {
		const struct start_ckpt_round *t = &p->rounds[i];
		int64_t ns = t->end_ns - t->begin_ns;
		json_t *o =
			json_pack("{s:I,s:f,s:I,s:f,s:f,s:f,s:s}", "begin_ms",
				  (json_int_t)(t->begin_ns / NS_PER_MS),
				  "job_s", clock_seconds(ns), "nodes",
				  (json_int_t)t->nodes, "median_s",
				  clock_seconds(t->median_ns), "max_s",
				  clock_seconds(t->max_ns), "max_median",
				  t->max_median, "slowest",
				  f->nodes[t->slowest].name);

		(void)json_array_append_new(a, add_sum_members(o, &t->sum, ns));
	}
	return a;
}

static json_t *part_json(const struct ckpt_found *f,
			 const struct start_ckpt_part *p, size_t limit)
{
	json_t *o = json_pack("{s:s,s:f,s:I,s:I,s:I,s:o,s:o,s:o}", "stage",
			      p->stage, "job_s", clock_seconds(p->job_ns),
			      "stragglers", (json_int_t)p->stragglers,
			      "nodes_all", (json_int_t)p->n_nodes, "rounds_all",
			      (json_int_t)p->n_rounds, "node",
			      starts_spread_json(&p->spread), "nodes",
			      nodes_json(f, p, limit), "rounds",
			      rounds_json(f, p, limit));

	return add_sum_members(o, &p->sum, p->job_ns);
}

static json_t *parts_json(const struct ckpt_found *f, size_t limit)
{
	json_t *a = json_array();

	for (int i = 0; i < START_CKPT_KINDS; i++)
		if (f->ckpt.part[i].n_nodes)
			(void)json_array_append_new(a,
						    part_json(f,
							      &f->ckpt.part[i],
							      limit));
	return a;
}

int checkpoints_get(struct call *c, struct error *err)
{
	struct ckpt_cache *cache = c->service->ckpt_cache;
	const struct ckpt_found *f = NULL;
	json_t *o;
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = ckpt_cache_get(cache,
				    strtoll(call_param(c, "id"), NULL, 10), &f,
				    err);
	if (rc == 0) {
		o = starts_job_json(&f->head, clock_wall_ns());
		if (json_object_set_new(o, "left_out",
					json_integer(f->left_out)) < 0 ||
		    json_object_set_new(
			    o, "checkpoints",
			    parts_json(f, (size_t)call_number(c, "limit",
							      LIMIT_DEFAULT))) <
			    0) {
			json_decref(o);
			o = NULL;
		}
		rc = call_send_json(c, o, err);
	}
	ckpt_cache_put(cache, f);
	return rc;
}
