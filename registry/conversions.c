// SPDX-License-Identifier: Apache-2.0
/*
 * /v1/notifications, where registries report pushes, and /v1/conversions, where workers take pushed
 * images and report on their conversion: docs/formats/registry-api.md. The service does not check a
 * notification with its sender; the worker pulls the image by the name that --convert allows.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "common/log.h"
#include "registry/call.h"
#include "registry/conversion_db.h"
#include "registry/push_events.h"
#include "registry/routes.h"

static const char *const state_names[CONVERSION_STATES] = {
	[CONVERSION_WAITING] = "waiting",
	[CONVERSION_RUNNING] = "running",
	[CONVERSION_DONE] = "done",
	[CONVERSION_FAILED] = "failed",
};

/* --------------------------------------------------------------- notifications --- */

struct notification {
	struct call *call;
	const char *host;
	int64_t now;
	int queued, known, dropped, other;
	struct error *err;
};

static int take_event(void *arg, const struct push_event *e)
{
	struct notification *n = arg;
	const struct service *s = n->call->service;
	const struct token *t = n->call->token;
	char repo[PUSH_REPO_MAX];
	struct conversion c = { .repo = repo,
				.image = e->digest,
				.tag = e->tag };
	int len = snprintf(repo, sizeof(repo), "%s/%s", n->host, e->repository);
	int rc;

	c.form = len < PUSH_REPO_MAX ? convert_rules_find(s->cfg->convert, repo)
				     : NULL;
	if (!c.form || (t && !token_has_repo(t, repo))) {
		n->other++;
		return 0;
	}
	rc = conversion_db_put(s->db, &c, n->now, CONVERSIONS_MAX, n->err);
	n->queued += rc > 0;
	n->known += rc == 0;
	/* Drop the push, but accept the notification. A registry repeats a refused notification
	 * before it sends the next, so one owner's pushes would hold up those of all others. */
	n->dropped += rc == -EDQUOT;
	return rc == -EDQUOT || rc > 0 ? 0 : rc;
}

static void count_events(struct notification *n, const struct push_events *e)
{
	struct service_counts *counts = &n->call->service->counts;

	n->dropped += (int)e->n_dropped;
	n->other += (int)e->n_others;
	atomic_fetch_add(&counts->pushes_queued, (uint64_t)n->queued);
	atomic_fetch_add(&counts->pushes_dropped, (uint64_t)n->dropped);
	atomic_fetch_add(&counts->pushes_other, (uint64_t)n->other);
	/* Log at most one line a minute, so that constant pushes cannot fill the log. */
	if (n->dropped && n->now - atomic_load(&counts->drops_said_s) >= 60) {
		atomic_store(&counts->drops_said_s, n->now);
		log_warning("conversions",
			    "pushed images are not converted, too many wait "
			    "registry=%s images=%d reason=\"%s\"",
			    n->host, n->dropped,
			    n->err->msg[0] ? n->err->msg
					   : "one body has so many");
	}
}

int notifications_post(struct call *c, struct error *err)
{
	struct notification n = { .call = c,
				  .host = call_param(c, "registry"),
				  .now = time(NULL),
				  .err = err };
	struct push_events e = { .n_pushes = 0 };
	int rc;

	if (!convert_rules_have_host(c->service->cfg->convert, n.host))
		return call_fail(c, HTTPD_FORBIDDEN, NULL, err,
				 "--convert has no rule for registry '%s'",
				 n.host);
	rc = push_events_parse(c->req->body, c->req->head.content_length,
			       take_event, &n, &e, err);
	count_events(&n, &e);
	if (rc < 0)
		return rc;
	return call_send_json(c,
			      json_pack("{s:i,s:i,s:i,s:i}", "queued", n.queued,
					"known", n.known, "dropped", n.dropped,
					"other", n.other),
			      err);
}

/* ------------------------------------------------------------------------ work --- */

static json_t *conversion_json(const struct conversion *c)
{
	return json_pack("{s:I,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:s,s:s}", "id",
			 (json_int_t)c->id, "repo", c->repo, "image", c->image,
			 "tag", c->tag, "form", c->form, "state",
			 state_names[c->state], "tries", (json_int_t)c->tries,
			 "queued_at", (json_int_t)c->queued, "due_at",
			 (json_int_t)c->due, "worker", c->worker, "error",
			 c->error);
}

static struct conversion_worker worker_of(const struct call *c,
					  const char *name)
{
	return (struct conversion_worker){
		.name = name,
		.token_prefix = call_prefix(c),
		.now = time(NULL),
		.hourly = (int64_t)c->service->cfg->max_convert_hourly,
	};
}

/* Keep the row; replace an earlier one, since a transaction that is repeated reads its row
 * again. */
static void store_taken_conversion_json(void *arg, const struct conversion *c)
{
	json_t **ret = arg;

	json_decref(*ret);
	*ret = conversion_json(c);
}

int conversions_take(struct call *c, struct error *err)
{
	struct conversion_worker w = worker_of(c, call_param(c, "worker"));
	AUTO_JSON *taken = NULL;
	int rc;

	w.prefix = call_param(c, "repo");
	rc = call_check_repo(c, w.prefix, err);
	if (rc == 0)
		rc = conversion_db_take(c->service->db, &w,
					store_taken_conversion_json, &taken,
					err);
	if (rc < 0)
		return rc;
	if (rc > 0 && !taken)
		return error_nomem(err);
	return call_send_json(c,
			      json_pack("{s:O?,s:i}", "conversion", taken,
					"lease_s", CONVERSION_LEASE_S),
			      err);
}

static int parse_reported_state(const char *text, enum conversion_said *ret,
				struct error *err)
{
	static const char *const words[] = {
		[CONVERSION_SAID_RUNNING] = "running",
		[CONVERSION_SAID_DONE] = "done",
		[CONVERSION_SAID_RETRY] = "retry",
		[CONVERSION_SAID_FAILED] = "failed",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(words[i], text) == 0) {
			*ret = (enum conversion_said)i;
			return 0;
		}
	}
	return error_set(err, EINVAL,
			 "state must be running, done, retry or failed");
}

static void count_reported_state(struct service_counts *counts,
				 enum conversion_said said, int state)
{
	if (state == CONVERSION_DONE)
		atomic_fetch_add(&counts->conversions_done, 1);
	if (state == CONVERSION_FAILED)
		atomic_fetch_add(&counts->conversions_failed, 1);
	if (said == CONVERSION_SAID_RETRY && state == CONVERSION_WAITING)
		atomic_fetch_add(&counts->conversions_retried, 1);
}

int conversions_say(struct call *c, struct error *err)
{
	AUTO_JSON *body = NULL;
	enum conversion_said said = CONVERSION_SAID_RUNNING;
	const char *state, *error, *name;
	struct conversion_worker w;
	int rc = call_body_json(c, &body, err);

	if (rc < 0)
		return rc;
	state = json_string_value(json_object_get(body, "state"));
	error = json_string_value(json_object_get(body, "error"));
	name = json_string_value(json_object_get(body, "worker"));
	if (!name || !param_node.ok(name) ||
	    (error && strlen(error) > CONVERSION_ERROR_MAX))
		return error_set(err, EINVAL,
				 "worker must be %s; error: %d bytes at most",
				 param_node.name, CONVERSION_ERROR_MAX);
	w = worker_of(c, name);
	rc = parse_reported_state(state ? state : "", &said, err);
	if (rc == 0)
		rc = conversion_db_say(c->service->db, &w,
				       atoll(call_param(c, "id")),
				       atoll(call_param(c, "try")), said,
				       error ? error : "", err);
	if (rc < 0)
		return rc;
	count_reported_state(&c->service->counts, said, rc - 1);
	return call_send_json(c, json_pack("{s:i}", "noted", rc > 0), err);
}

/* ------------------------------------------------------------------------ list --- */

static int add_conversion(void *arg, const struct conversion *c)
{
	return json_array_append_new(arg, conversion_json(c)) < 0 ? -ENOMEM : 0;
}

static json_t *counts_json(const struct conversion_counts *n)
{
	return json_pack("{s:I,s:I,s:I,s:I}", state_names[0],
			 (json_int_t)n->n[0], state_names[1],
			 (json_int_t)n->n[1], state_names[2],
			 (json_int_t)n->n[2], state_names[3],
			 (json_int_t)n->n[3]);
}

int conversions_list(struct call *c, struct error *err)
{
	struct conversion_counts counts;
	AUTO_JSON *all = json_array();
	int rc = all ? conversion_db_list(c->service->db, call_prefix(c),
					  call_number(c, "limit", 100),
					  add_conversion, all, err)
		     : error_nomem(err);

	if (rc == 0)
		rc = conversion_db_count(c->service->db, call_prefix(c),
					 time(NULL), &counts, err);
	if (rc < 0)
		return rc;
	return call_send_json(c,
			      json_pack("{s:o,s:O}", "counts",
					counts_json(&counts), "conversions",
					all),
			      err);
}
