// SPDX-License-Identifier: Apache-2.0
/*
 * /v1/doctor and /v1/nodes/NODE/doctor: what nodes lack according to their own checks
 * (docs/formats/registry-api.md). A node may report on itself only.
 */
#include "registry/doctor.h"

#include <errno.h>
#include <time.h>

#include "common/json.h"
#include "registry/call.h"
#include "registry/routes.h"
#include "registry/schema.h"

#define CHECKS_MAX 200 /* checks that one node reports, at most */
/* failed checks of a node that are stored with their texts */
#define FAILED_MAX 50
#define NAME_MAX_BYTES 64
#define WORDS_MAX 1024 /* bytes of a detail or a cure */
#define NODES_MAX 20000
#define KEPT_S (INT64_C(7) * 86400)
#define FRESH_S (INT64_C(3) * 3600) /* nodes report each hour */

static bool is_fresh(int64_t received, int64_t now)
{
	return received >= now - FRESH_S;
}

/* ---------------------------------------------------------------------- report --- */

struct doctor_report {
	const char *node;
	int64_t now, checks, missing, advice;
	json_t *failed;
	char *text; /* `failed` as JSON text */
};

/* The member's text; NULL: not a text, or longer than `max` bytes. */
static const char *text_within(const json_t *o, const char *key, size_t max)
{
	const json_t *v = json_object_get(o, key);

	return json_string_length(v) <= max ? json_string_value(v) : NULL;
}

static int read_check(struct doctor_report *r, const json_t *check,
		      struct error *err)
{
	const json_t *ok = json_object_get(check, "ok"),
		     *needed = json_object_get(check, "needed");
	const char *name = text_within(check, "name", NAME_MAX_BYTES),
		   *detail = text_within(check, "detail", WORDS_MAX),
		   *cure = text_within(check, "cure", WORDS_MAX);

	if (!json_is_boolean(ok) || !json_is_boolean(needed) || !name ||
	    !name[0] || !detail || !cure)
		return error_set(err, EINVAL,
				 "a check has ok and needed, true or false; a "
				 "name of 1 to %d bytes; detail and cure of at "
				 "most %d",
				 NAME_MAX_BYTES, WORDS_MAX);
	r->checks++;
	if (json_is_true(ok))
		return 0;
	if (json_is_true(needed))
		r->missing++;
	else
		r->advice++;
	if (json_array_size(r->failed) >= FAILED_MAX)
		return 0;
	return json_array_append_new(r->failed,
				     json_pack("{s:s,s:b,s:s,s:s}", "name",
					       name, "needed",
					       json_is_true(needed), "detail",
					       detail, "cure", cure)) < 0
		       ? error_nomem(err)
		       : 0;
}

static int read_report(struct call *c, struct doctor_report *r,
		       struct error *err)
{
	AUTO_JSON *body = NULL;
	const json_t *checks, *one;
	size_t k;
	int rc = call_check_node(c, r->node, err);

	if (rc == 0)
		rc = call_body_json(c, &body, err);
	if (rc < 0)
		return rc;
	checks = json_object_get(body, "checks");
	if (json_array_size(checks) < 1 || json_array_size(checks) > CHECKS_MAX)
		return error_set(err, EINVAL, "checks must be 1 to %d",
				 CHECKS_MAX);
	r->failed = json_array();
	if (!r->failed)
		return error_nomem(err);
	json_array_foreach(checks, k, one)
	{
		rc = read_check(r, one, err);
		if (rc < 0)
			return rc;
	}
	r->text = json_dumps(r->failed, JSON_COMPACT);
	return r->text ? 0 : error_nomem(err);
}

static int put_report(struct db_conn *c, void *arg, struct error *err)
{
	const struct doctor_report *r = arg;

	return DB_QUERY(c, SQL_DOCTOR_PUT, NULL, NULL, err, db_text(r->node),
			DB_INT(r->now), DB_INT(r->checks), DB_INT(r->missing),
			DB_INT(r->advice), db_text(r->text), DB_INT(NODES_MAX));
}

int doctor_put(struct call *c, struct error *err)
{
	struct doctor_report r = { .node = call_param(c, "node"),
				   .now = time(NULL) };
	int rc = read_report(c, &r, err);

	if (rc == 0)
		rc = db_run(c->service->db, DB_WRITE, put_report, &r, err);
	json_decref(r.failed);
	free(r.text);
	if (rc == 0)
		return call_fail(c, HTTPD_TOO_MANY, NULL, err,
				 "%d nodes are kept already", NODES_MAX);
	return rc < 0 ? rc
		      : call_send_json(c, json_pack("{s:s}", "status", "noted"),
				       err);
}

/* ------------------------------------------------------------------------ list --- */

struct doctor_reading {
	const char *node; /* "": all */
	int64_t now, limit;
	struct doctor_counts counts;
	json_t *nodes;
};

static int note_counts(void *arg, const struct db_value *row)
{
	struct doctor_counts *n = arg;

	n->nodes = row[0].n;
	n->fresh = row[1].n;
	n->missing = row[2].n;
	n->advice = row[3].n;
	return 0;
}

static int count_nodes(struct db_conn *c, int64_t now,
		       struct doctor_counts *ret, struct error *err)
{
	*ret = (struct doctor_counts){ .nodes = 0 };
	return DB_QUERY(c, SQL_DOCTOR_COUNT, note_counts, ret, err,
			DB_INT(now - FRESH_S), DB_INT(now - KEPT_S));
}

static int add_node(void *arg, const struct db_value *row)
{
	struct doctor_reading *r = arg;
	json_t *o =
		json_pack("{s:s%,s:I,s:b,s:I,s:I,s:I,s:o}", "node", row[0].data,
			  row[0].len, "received_at", (json_int_t)row[1].n,
			  "fresh", is_fresh(row[1].n, r->now), "checks",
			  (json_int_t)row[2].n, "missing", (json_int_t)row[3].n,
			  "advice", (json_int_t)row[4].n, "failed",
			  json_loadb(row[5].data, row[5].len, 0, NULL));

	return json_array_append_new(r->nodes, o) < 0 ? -ENOMEM : 0;
}

static int read_nodes(struct db_conn *c, void *arg, struct error *err)
{
	struct doctor_reading *r = arg;
	int n = count_nodes(c, r->now, &r->counts, err);

	json_array_clear(r->nodes); /* a repeated transaction begins anew */
	return n < 0 ? n
		     : DB_QUERY(c, SQL_DOCTOR_LIST, add_node, r, err,
				DB_INT(r->now - KEPT_S), db_text(r->node),
				DB_INT(r->limit));
}

/* Is it the token of a node, or the one that all nodes share? The latter may write. */
static bool is_nodes_token(const struct token *t)
{
	return !(t->roles & ROLE_ADMIN) && (t->node || t->roles & ROLE_WRITE);
}

/* Refuse nodes' tokens: a list of what other nodes lack would show an attacker where to begin. */
static int check_reader(struct call *c, struct error *err)
{
	const struct token *t = c->token;

	if (t ? is_nodes_token(t) : !c->service->cfg->insecure_no_auth)
		return call_refuse(c, HTTPD_FORBIDDEN, err,
				   "that is for no node: it wants a token with "
				   "the role admin, or read without write and "
				   "node=");
	return call_check_repo(c, "", err);
}

int doctor_list(struct call *c, struct error *err)
{
	struct doctor_reading r = { .node = call_param(c, "node"),
				    .now = time(NULL),
				    .limit = call_number(c, "limit",
							 LIMIT_DEFAULT) };
	int rc = check_reader(c, err);

	if (rc < 0)
		return rc;
	r.nodes = json_array();
	if (!r.nodes)
		return error_nomem(err);
	rc = db_run(c->service->db, DB_ALONE, read_nodes, &r, err);
	if (rc < 0) {
		json_decref(r.nodes);
		return rc;
	}
	return call_send_json(c,
			      json_pack("{s:I,s:I,s:I,s:I,s:o}", "nodes_all",
					(json_int_t)r.counts.nodes,
					"nodes_fresh",
					(json_int_t)r.counts.fresh,
					"nodes_missing",
					(json_int_t)r.counts.missing,
					"nodes_advised",
					(json_int_t)r.counts.advice, "nodes",
					r.nodes),
			      err);
}

/* ----------------------------------------------------------------------- sweep --- */

struct doctor_sweep {
	int64_t now;
	struct doctor_counts *counts;
};

static int sweep_nodes(struct db_conn *c, void *arg, struct error *err)
{
	const struct doctor_sweep *s = arg;
	int n = DB_QUERY(c, SQL_DOCTOR_EXPIRE, NULL, NULL, err,
			 DB_INT(s->now - KEPT_S));

	return n < 0 ? n : count_nodes(c, s->now, s->counts, err);
}

int doctor_sweep(struct db *db, int64_t now, struct doctor_counts *ret,
		 struct error *err)
{
	struct doctor_sweep s = { .now = now, .counts = ret };

	return db_run(db, DB_WRITE, sweep_nodes, &s, err);
}
