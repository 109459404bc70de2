// SPDX-License-Identifier: Apache-2.0
/* /v1/env, the index of environment snapshots: docs/formats/registry-api.md. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "registry/call.h"
#include "registry/env_db.h"
#include "registry/routes.h"

#define RETRY_MS 500 /* a client that waits asks again after this time */
#define LEASE_MIN_MS 1000
#define TTL_MAX_MS (INT64_C(400) * 86400 * 1000)

/* Read the key's name from the request's path; refuse a store that the caller may not see. */
static int read_env_name(struct call *c, struct env_name *ret,
			 struct error *err)
{
	*ret = (struct env_name){ .repo = call_param(c, "repo"),
				  .key = call_param(c, "digest"),
				  .owner = call_owner(c),
				  .now_ms = clock_wall_ms() };
	if (!*ret->repo)
		return error_set(err, EINVAL, "repo is empty: name the store");
	return call_check_repo(c, ret->repo, err);
}

/* ------------------------------------------------------------------ what there is --- */

static json_t *snapshot_json(const struct env_known *e)
{
	return json_pack("{s:s,s:s,s:s,s:I,s:s,s:s,s:s,s:I,s:I,s:I,s:b,s:s}",
			 "key", e->key, "capture", e->capture, "description",
			 e->description, "stored", (json_int_t)e->stored, "by",
			 e->by, "program", e->program, "token", e->token,
			 "made_ms", (json_int_t)e->made_ms, "used_ms",
			 (json_int_t)e->used_ms, "expires_ms",
			 (json_int_t)e->expires_ms, "pinned", e->is_pinned,
			 "bad", e->bad);
}

static int note_state(void *arg, const struct env_known *e)
{
	json_t *o = arg;
	int bad = json_object_set_new(o, "snapshot",
				      e->has_snapshot ? snapshot_json(e)
						      : json_null());

	bad |= json_object_set_new(o, "lease",
				   *e->holder
					   ? json_pack("{s:s,s:I}", "by",
						       e->holder, "left_ms",
						       (json_int_t)e->lease_ms)
					   : json_null());
	bad |= json_object_set_new(o, "failures", json_integer(e->failures));
	return bad ? -ENOMEM : 0;
}

/* Everything that is known about the key, with the service's time. */
static int get_state(struct call *c, const struct env_name *n, json_t **ret,
		     struct error *err)
{
	json_t *o = json_pack("{s:I}", "now_ms", (json_int_t)n->now_ms);
	int rc = o ? env_db_get(c->service->db, n, note_state, o, err)
		   : error_nomem(err);

	if (rc < 0)
		json_decref(o);
	else
		*ret = o;
	return rc;
}

int environments_get(struct call *c, struct error *err)
{
	struct env_name n;
	json_t *o = NULL;
	int rc = read_env_name(c, &n, err);

	if (rc == 0)
		rc = get_state(c, &n, &o, err);
	return rc < 0 ? rc : call_send_json(c, o, err);
}

static int add_entry(void *arg, const struct env_known *e)
{
	return json_array_append_new(arg, snapshot_json(e)) < 0 ? -ENOMEM : 0;
}

int environments_list(struct call *c, struct error *err)
{
	const struct env_filter f = {
		.repo = call_param(c, "repo"),
		.begins = call_param(c, "begins"),
		.after = call_param(c, "after"),
		.now_ms = clock_wall_ms(),
		.limit = call_number(c, "limit", LIMIT_DEFAULT),
	};
	int rc = call_check_repo(c, f.repo, err);
	json_t *list;

	if (rc < 0)
		return rc;
	list = json_array();
	if (!list)
		return error_nomem(err);
	rc = env_db_list(c->service->db, &f, add_entry, list, err);
	if (rc < 0) {
		json_decref(list);
		return rc;
	}
	return call_send_json(c,
			      json_pack("{s:I,s:o}", "now_ms",
					(json_int_t)f.now_ms, "environments",
					list),
			      err);
}

/* ---------------------------------------------------------------------- bodies --- */

/* Read a text of printable ASCII: users see it on terminals, so it may hold no control
 * characters. */
static int get_words(const json_t *o, const char *name, size_t max,
		     const char **ret, struct error *err)
{
	const char *s = json_string_value(json_object_get(o, name));
	size_t n = 0;

	while (s && s[n] >= ' ' && s[n] <= '~')
		n++;
	if (!s || s[n] || n < 1 || n > max)
		return error_set(err, EINVAL,
				 "%s must be 1 to %zu bytes of printable ASCII",
				 name, max);
	*ret = s;
	return 0;
}

static int get_kind(const json_t *o, const char *name,
		    const struct param_kind *kind, const char **ret,
		    struct error *err)
{
	const char *s = json_string_value(json_object_get(o, name));

	if (!s || !kind->ok(s))
		return error_set(err, EINVAL, "%s must be %s", name,
				 kind->name);
	*ret = s;
	return 0;
}

static int get_number(const json_t *o, const char *name, int64_t min,
		      int64_t max, int64_t *ret, struct error *err)
{
	const json_t *v = json_object_get(o, name);

	if (!json_is_integer(v) || json_integer_value(v) < min ||
	    json_integer_value(v) > max)
		return error_set(err, EINVAL,
				 "%s must be a number of %" PRId64
				 " to %" PRId64,
				 name, min, max);
	*ret = json_integer_value(v);
	return 0;
}

/* ---------------------------------------------------------------------- leases --- */

static int read_wish(const json_t *o, struct env_lease_wish *ret,
		     struct error *err)
{
	int rc = get_words(o, "by", ENV_WORDS_MAX, &ret->by, err);

	ret->instead = "";
	if (rc == 0)
		rc = get_number(o, "ttl_ms", LEASE_MIN_MS, ENV_LEASE_MAX_MS,
				&ret->ttl_ms, err);
	if (rc == 0 && json_object_get(o, "instead"))
		rc = get_kind(o, "instead", &param_capture, &ret->instead, err);
	ret->failures = -1;
	if (rc == 0 && json_object_get(o, "failures"))
		rc = get_number(o, "failures", 0, INT64_MAX, &ret->failures,
				err);
	return rc;
}

/* The state to report: a usable snapshot, a lease of another captor, or a failed capture. */
static const char *state_of_wish(const json_t *o,
				 const struct env_lease_wish *w)
{
	const json_t *snap = json_object_get(o, "snapshot");
	const char *capture =
		json_string_value(json_object_get(snap, "capture"));

	if (capture && (strcmp(capture, w->instead) != 0 ||
			json_is_true(json_object_get(snap, "pinned"))))
		return "made";
	if (w->failures >= 0 &&
	    json_integer_value(json_object_get(o, "failures")) != w->failures)
		return "failed";
	return json_is_null(json_object_get(o, "lease")) ? "free" : "held";
}

/* Read the table first, and write only if the lease may be free: a thousand waiting nodes then do
 * not block others from writing. */
static int wait_for_lease(struct call *c, const struct env_name *n,
			  const struct env_lease_wish *w, json_t **ret,
			  struct error *err)
{
	int64_t generation = 0;
	json_t *o = NULL;
	int rc = get_state(c, n, &o, err), bad;

	if (rc == 0 && strcmp(state_of_wish(o, w), "free") == 0) {
		json_decref(o);
		o = NULL;
		rc = env_db_take(c->service->db, n, w, &generation, err);
		if (rc >= 0)
			rc = get_state(c, n, &o, err);
	}
	if (rc < 0) {
		json_decref(o);
		return rc;
	}
	bad = json_object_set_new(o, "state",
				  json_string(generation
						      ? "yours"
						      : state_of_wish(o, w)));
	if (generation)
		bad |= json_object_set_new(o, "generation",
					   json_integer(generation));
	bad |= json_object_set_new(o, "retry_ms", json_integer(RETRY_MS));
	if (bad) {
		json_decref(o);
		return error_nomem(err);
	}
	*ret = o;
	return 0;
}

int environments_take(struct call *c, struct error *err)
{
	struct env_lease_wish w;
	struct env_name n;
	AUTO_JSON *body = NULL;
	json_t *o = NULL;
	int rc = read_env_name(c, &n, err);

	if (rc == 0)
		rc = call_body_json(c, &body, err);
	if (rc == 0)
		rc = read_wish(body, &w, err);
	if (rc == 0)
		rc = wait_for_lease(c, &n, &w, &o, err);
	return rc < 0 ? rc : call_send_json(c, o, err);
}

static int64_t generation_of(const struct call *c)
{
	return strtoll(call_param(c, "generation"), NULL, 10);
}

/* Answer with the JSON object {"NAME": n}, n being 0 or 1. */
static int send_count(struct call *c, const char *name, int n,
		      struct error *err)
{
	return n < 0 ? n : call_send_json(c, json_pack("{s:i}", name, n), err);
}

int environments_renew(struct call *c, struct error *err)
{
	struct env_name n;
	int rc = read_env_name(c, &n, err);

	if (rc == 0)
		rc = env_db_renew(c->service->db, &n, generation_of(c), err);
	return send_count(c, "renewed", rc, err);
}

int environments_drop(struct call *c, struct error *err)
{
	struct env_name n;
	int rc = read_env_name(c, &n, err);

	if (rc == 0)
		rc = env_db_drop(c->service->db, &n, generation_of(c),
				 strcmp(call_param(c, "failed"), "1") == 0,
				 err);
	return send_count(c, "dropped", rc, err);
}

static int read_published(const json_t *o, struct env_published *ret,
			  struct error *err)
{
	int rc = get_kind(o, "capture", &param_capture, &ret->capture, err);

	ret->ttl_ms = 0;
	if (rc == 0)
		rc = get_kind(o, "description", &param_digest,
			      &ret->description, err);
	if (rc == 0)
		rc = get_words(o, "by", ENV_WORDS_MAX, &ret->by, err);
	if (rc == 0)
		rc = get_words(o, "program", ENV_WORDS_MAX, &ret->program, err);
	if (rc == 0)
		rc = get_number(o, "stored", 0, INT64_MAX, &ret->stored, err);
	if (rc == 0 && json_object_get(o, "ttl_ms"))
		rc = get_number(o, "ttl_ms", 1, TTL_MAX_MS, &ret->ttl_ms, err);
	return rc;
}

int environments_publish(struct call *c, struct error *err)
{
	struct env_published p;
	struct env_name n;
	AUTO_JSON *body = NULL;
	int rc = read_env_name(c, &n, err);

	if (rc == 0)
		rc = call_body_json(c, &body, err);
	if (rc == 0)
		rc = read_published(body, &p, err);
	if (rc == 0)
		rc = env_db_publish(c->service->db, &n, generation_of(c), &p,
				    err);
	return send_count(c, "published", rc, err);
}

/* ----------------------------------------------------------------------- marks --- */

int environments_note(struct call *c, struct error *err)
{
	const char *capture = call_param(c, "capture"), *what, *why;
	struct env_name n;
	AUTO_JSON *body = NULL;
	int rc = read_env_name(c, &n, err);

	if (rc == 0)
		rc = call_body_json(c, &body, err);
	if (rc == 0)
		rc = get_words(body, "what", ENV_WORDS_MAX, &what, err);
	if (rc == 0 && strcmp(what, "used") == 0) {
		rc = env_db_used(c->service->db, &n, capture, err);
	} else if (rc == 0 && strcmp(what, "bad") == 0) {
		rc = get_words(body, "why", ENV_WHY_MAX, &why, err);
		if (rc == 0)
			rc = env_db_bad(c->service->db, &n, capture, why, err);
	} else if (rc == 0) {
		rc = error_set(err, EINVAL, "what must be used or bad");
	}
	return send_count(c, "noted", rc, err);
}

static int set_pin(struct call *c, bool is_pinned, struct error *err)
{
	struct env_name n;
	int rc = read_env_name(c, &n, err);

	if (rc == 0)
		rc = env_db_pin(c->service->db, &n, is_pinned, err);
	return send_count(c, is_pinned ? "pinned" : "unpinned", rc, err);
}

int environments_pin(struct call *c, struct error *err)
{
	return set_pin(c, true, err);
}

int environments_unpin(struct call *c, struct error *err)
{
	return set_pin(c, false, err);
}

/* Nothing was removed: find out whether the snapshot is pinned. */
static int check_unpinned(struct call *c, const struct env_name *n,
			  struct error *err)
{
	AUTO_JSON *o = NULL;
	int rc = get_state(c, n, &o, err);

	if (rc == 0 &&
	    json_is_true(
		    json_object_get(json_object_get(o, "snapshot"), "pinned")))
		rc = error_set(err, EINVAL,
			       "the snapshot is pinned and stays: first DELETE "
			       "/v1/env/%.71s/pin, or 'bootseer env unpin'",
			       n->key);
	return rc;
}

int environments_remove(struct call *c, struct error *err)
{
	struct env_name n;
	int rc = read_env_name(c, &n, err), n_removed = 0;

	if (rc == 0)
		rc = n_removed = env_db_remove(c->service->db, &n, err);
	if (rc == 0)
		rc = check_unpinned(c, &n, err);
	return send_count(c, "removed", rc < 0 ? rc : n_removed, err);
}
