// SPDX-License-Identifier: Apache-2.0
/* /v1/events and /v1/starts: docs/formats/registry-api.md. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "registry/call.h"
#include "registry/routes.h"
#include "registry/stage_db.h"
#include "registry/stage_quota.h"
#include "registry/start_cache.h"
#include "registry/starts_json.h"

/* unfinished starts that one list analyses for their summaries */
#define OPEN_MAX 20
/* starts with more events are not analysed for a list */
#define OPEN_EVENTS 50000

/* --------------------------------------------------------------------- events --- */

/* Read "BOOT:MONO:WALL:RTT"; param_clock has checked the format. */
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
	/* A batch without events serves only to send the node its clock offset. */
	if (rc == 0 && b.len)
		rc = put_batch(c->service, &b, err);
	if (rc < 0)
		return rc;
	atomic_fetch_add(&c->service->counts.stage_events, b.stored);
	return call_send_json(c,
			      json_pack("{s:I,s:I,s:I}", "stored",
					(json_int_t)b.stored, "doubles",
					(json_int_t)b.doubles, "now_ns",
					(json_int_t)clock_wall_ns()),
			      err);
}

/* ----------------------------------------------------------------------- list --- */

json_t *starts_job_json(const struct job_start *s, int64_t now_ns)
{
	const char *state = starts_state(s, now_ns);
	int64_t end = s->ready_ns                  ? s->ready_ns
		      : strcmp(state, "open") == 0 ? now_ns
						   : s->last_ns;

	return json_pack(
		"{s:I,s:s,s:I,s:s,s:I,s:f,s:b,s:s,s:I,s:I,s:I,s:I,s:s,s:s}",
		"id", (json_int_t)s->id, "job", s->job, "attempt",
		(json_int_t)s->attempt, "class",
		start_class_name(job_start_class(s)), "begin_ms",
		(json_int_t)(s->first_ns / NS_PER_MS), "duration_s",
		clock_seconds(end > s->first_ns ? end - s->first_ns : 0),
		"ready", s->ready_ns != 0, "state", state, "nodes_all",
		(json_int_t)s->nodes, "last_ms",
		(json_int_t)(s->last_ns / NS_PER_MS), "events",
		(json_int_t)s->events, "received_at", (json_int_t)s->received,
		"image", s->image, "label", s->label);
}

/* A list of starts, and the unfinished ones that are analysed for it. */
struct start_list {
	json_t *rows;
	int64_t now_ns;
	int64_t open[OPEN_MAX]; /* ids of the starts to analyse */
	size_t places[OPEN_MAX], n_open;
};

/* Add a start. Summaries of finished starts are in the database, those of others come from an
 * analysis. */
static int add_job(void *arg, const struct job_start *s)
{
	struct start_list *l = arg;
	json_t *o = starts_job_json(s, l->now_ns);
	bool is_open = o && job_start_is_open(s, l->now_ns);
	json_t *summary = is_open ? NULL : json_loads(s->summary, 0, NULL);

	if (o && !summary && l->n_open < OPEN_MAX && s->events <= OPEN_EVENTS) {
		l->places[l->n_open] = json_array_size(l->rows);
		l->open[l->n_open++] = s->id;
	}
	if (o && json_object_set_new(o, "summary",
				     summary ? summary : json_null()) < 0) {
		json_decref(o);
		o = NULL;
	}
	return json_array_append_new(l->rows, o) < 0 ? -ENOMEM : 0;
}

static void add_open_summary(struct service *s, const struct start_list *l,
			     size_t i)
{
	json_t *o = json_array_get(l->rows, l->places[i]);
	const struct start_found *f = NULL;
	struct error err = ERROR_INIT;

	/* A start that cannot be analysed is listed without a summary. */
	if (start_cache_get(s->start_cache, l->open[i], &f, &err) < 0)
		return;
	(void)json_object_set_new(o, "summary",
				  starts_summary_json(&f->report));
	if (!f->report.is_ready)
		(void)json_object_set_new(o, "waiting",
					  starts_waiting_json(&f->report,
							      l->now_ns));
	start_cache_put(s->start_cache, f);
}

int starts_list(struct call *c, struct error *err)
{
	const struct job_filter f = { .job = call_param(c, "job"),
				      .image = call_param(c, "image"),
				      .label = call_param(c, "label") };
	struct start_list l = { .rows = json_array(),
				.now_ns = clock_wall_ns() };
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = stage_db_list(c->service->db, &f,
				   call_number(c, "limit", LIMIT_DEFAULT),
				   add_job, &l, err);
	if (rc < 0) {
		json_decref(l.rows);
		return rc;
	}
	for (size_t i = 0; i < l.n_open; i++)
		add_open_summary(c->service, &l, i);
	return call_send_json(c, json_pack("{s:o}", "starts", l.rows), err);
}
