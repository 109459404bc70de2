// SPDX-License-Identifier: Apache-2.0
/* /v1/preheats, orders to nodes to fetch an image: docs/formats/registry-api.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "common/registry_host.h"
#include "registry/call.h"
#include "registry/db.h"
#include "registry/routes.h"
#include "registry/schema.h"

#define ORDERS_MAX 1000 /* orders that are stored */
#define RETENTION_S 86400
#define NODES_MAX 1000 /* nodes that one order names */
/* nodes whose reports on an order to all nodes are stored */
#define MEMBERS_MAX 10000
#define ANSWER_ORDERS 100 /* orders in one answer to a node */
#define REF_MAX 512
#define FOLDER_MAX 64  /* bytes of a folder's name in a store */
#define REASON_MAX 400 /* bytes of the reason that a node reports */

static bool is_one_of(const char *s, const char *const *words)
{
	while (*words && strcmp(*words, s) != 0)
		words++;
	return *words;
}

/* ---------------------------------------------------------------------- order --- */

struct preheat_order {
	json_t *body;
	const char *ref, *what;
	char repo[REF_MAX + 1]; /* the reference without tag and digest */
	/* JSON of an environment, as sent to nodes; NULL: an image */
	char *env;
	json_t *nodes; /* NULL: all nodes */
	int64_t now, id;
};

/* Parse a reference "host/repository[:tag][@digest]". */
static int read_ref(struct preheat_order *o, struct error *err)
{
	const char *slash = strchr(o->ref, '/'), *name;
	size_t n = strcspn(o->ref, "@");

	if (!slash || slash == o->ref || registry_host_is_store(o->ref) ||
	    strlen(o->ref) > REF_MAX || !param_repo.ok(o->ref))
		return error_set(err, EINVAL,
				 "ref must be HOST/REPOSITORY[:TAG][@DIGEST]");
	for (name = o->ref + n; name > slash && *name != '/' && *name != ':';)
		name--;
	if (*name == ':')
		n = (size_t)(name - o->ref);
	memcpy(o->repo, o->ref, n);
	o->repo[n] = '\0';
	return 0;
}

static bool is_digest_of(const json_t *o, const char *key)
{
	return param_digest.ok(json_text_of(o, key));
}

/* Parse a snapshot of an environment: the store's URL, and how the node asks for it
 * (docs/formats/control.md). */
static int read_env(struct preheat_order *o, struct error *err)
{
	const json_t *env = json_object_get(o->body, "env");
	const char *folder = json_text_of(env, "folder");

	if (!registry_host_is_store(o->ref) || strlen(o->ref) > REF_MAX ||
	    !param_repo.ok(o->ref))
		return error_set(err, EINVAL,
				 "ref of an environment must be the URL of its "
				 "store");
	if (json_object_size(env) != 3 || !folder[0] ||
	    strlen(folder) > FOLDER_MAX || !is_digest_of(env, "key") ||
	    !is_digest_of(env, "manifest"))
		return error_set(err, EINVAL,
				 "env must have folder, key and manifest");
	(void)snprintf(o->repo, sizeof(o->repo), "%.*s",
		       (int)strcspn(o->ref, "?"), o->ref);
	o->env = json_dumps(env, JSON_COMPACT);
	return o->env ? 0 : error_nomem(err);
}

static int read_nodes(struct preheat_order *o, struct error *err)
{
	json_t *nodes = json_object_get(o->body, "nodes"), *one;
	size_t k;

	if (strcmp(json_text_of(o->body, "nodes"), "all") == 0)
		return 0;
	if (json_array_size(nodes) < 1 || json_array_size(nodes) > NODES_MAX)
		return error_set(err, EINVAL,
				 "nodes must be \"all\", or 1 to %d names",
				 NODES_MAX);
	json_array_foreach(nodes, k, one)
	{
		if (!json_is_string(one) ||
		    !param_node.ok(json_string_value(one)))
			return error_set(err, EINVAL, "a node must be %s",
					 param_node.name);
	}
	o->nodes = nodes;
	return 0;
}

static int order_read(struct call *c, struct preheat_order *o,
		      struct error *err)
{
	static const char *const whats[] = { "hot", "all", "env", NULL };
	int rc = call_body_json(c, &o->body, err);

	if (rc < 0)
		return rc;
	o->ref = json_text_of(o->body, "ref");
	o->what = json_text_of(o->body, "what");
	rc = strcmp(o->what, "env") == 0 ? read_env(o, err) : read_ref(o, err);
	if (rc == 0 && !is_one_of(o->what, whats))
		rc = error_set(err, EINVAL, "what must be hot, all or env");
	if (rc == 0)
		rc = read_nodes(o, err);
	return rc == 0 ? call_check_repo(c, o->repo, err) : rc;
}

static int order_put(struct db_conn *c, void *arg, struct error *err)
{
	struct preheat_order *o = arg;
	json_t *one;
	size_t k;
	int n = DB_QUERY(c, SQL_PREHEAT_EXPIRE, NULL, NULL, err,
			 DB_INT(o->now - RETENTION_S));

	if (n >= 0)
		n = DB_QUERY(c, SQL_PREHEAT_PUT, db_take_number, &o->id, err,
			     db_text(o->ref), db_text(o->repo),
			     db_text(o->what), DB_INT(o->nodes == NULL),
			     DB_INT(o->now), db_text(o->env ? o->env : ""),
			     DB_INT(ORDERS_MAX));
	if (n == 0)
		return error_set(err, EDQUOT, "%d orders are kept already",
				 ORDERS_MAX);
	json_array_foreach(o->nodes, k, one)
	{
		if (n >= 0)
			n = DB_QUERY(c, SQL_PREHEAT_NAME, NULL, NULL, err,
				     DB_INT(o->id),
				     db_text(json_string_value(one)),
				     DB_INT(o->now));
	}
	return n < 0 ? n : 0;
}

int preheats_post(struct call *c, struct error *err)
{
	struct preheat_order o = { .now = time(NULL) };
	int rc = order_read(c, &o, err);

	if (rc == 0)
		rc = db_run(c->service->db, DB_WRITE, order_put, &o, err);
	json_decref(o.body);
	free(o.env);
	if (rc < 0)
		return rc;
	c->reply.status = HTTPD_ACCEPTED;
	return call_send_json(c, json_pack("{s:I}", "id", (json_int_t)o.id),
			      err);
}

/* ------------------------------------------------------------------ for a node --- */

struct orders {
	const char *node, *prefix;
	int64_t since;
	json_t *list;
};

static int add_order(void *arg, const struct db_value *row)
{
	json_t *env = row[3].len ? json_loadb(row[3].data, row[3].len, 0, NULL)
				 : NULL;

	/* An order for an image has no member for the snapshot. */
	return json_array_append_new(arg, json_pack("{s:I,s:s,s:s,s:o*}", "id",
						    (json_int_t)row[0].n, "ref",
						    row[1].data, "what",
						    row[2].data, "env", env)) <
			       0
		       ? -ENOMEM
		       : 0;
}

static int list_orders(struct db_conn *c, void *arg, struct error *err)
{
	struct orders *o = arg;

	return DB_QUERY(c, SQL_PREHEAT_FOR, add_order, o->list, err,
			db_text(o->node), DB_INT(o->since), db_text(o->prefix),
			DB_INT(ANSWER_ORDERS));
}

int preheats_list(struct call *c, struct error *err)
{
	struct orders o = { .node = call_param(c, "node"),
			    .prefix = call_prefix(c),
			    .since = time(NULL) - RETENTION_S };
	int rc = call_check_node(c, o.node, err);

	if (rc < 0)
		return rc;
	o.list = json_array();
	if (!o.list)
		return error_nomem(err);
	rc = db_run(c->service->db, DB_ALONE, list_orders, &o, err);
	if (rc < 0) {
		json_decref(o.list);
		return rc;
	}
	return call_send_json(c, json_pack("{s:o}", "preheats", o.list), err);
}

struct report {
	json_t *body;
	const char *node, *state, *error;
	int64_t id, have, all, now;
};

static int report_put(struct db_conn *c, void *arg, struct error *err)
{
	const struct report *r = arg;

	return DB_QUERY(c, SQL_PREHEAT_REPORT, NULL, NULL, err,
			db_text(r->node), db_text(r->state), DB_INT(r->have),
			DB_INT(r->all), db_text(r->error), DB_INT(r->now),
			DB_INT(r->id), DB_INT(MEMBERS_MAX));
}

static int report_read(struct call *c, struct report *r, struct error *err)
{
	static const char *const states[] = { "running", "done", "failed",
					      NULL };
	int rc = call_body_json(c, &r->body, err);

	if (rc < 0)
		return rc;
	r->node = json_text_of(r->body, "node");
	r->state = json_text_of(r->body, "state");
	r->error = json_text_of(r->body, "error");
	r->have = json_integer_value(json_object_get(r->body, "have_bytes"));
	r->all = json_integer_value(json_object_get(r->body, "all_bytes"));
	if (!is_one_of(r->state, states))
		return error_set(err, EINVAL,
				 "state must be running, done or failed");
	if (r->have < 0 || r->all < 0 || strlen(r->error) > REASON_MAX)
		return error_set(err, EINVAL,
				 "have_bytes, all_bytes: numbers; error: at "
				 "most %d bytes",
				 REASON_MAX);
	return call_check_node(c, r->node, err);
}

int preheats_report(struct call *c, struct error *err)
{
	struct report r = { .id = atoll(call_param(c, "id")),
			    .now = time(NULL) };
	int rc = report_read(c, &r, err);

	if (rc == 0)
		rc = db_run(c->service->db, DB_WRITE, report_put, &r, err);
	json_decref(r.body);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return call_fail(c, HTTPD_NOT_FOUND, NULL, err,
				 "there is no such order to that node");
	return call_send_json(c, json_pack("{s:s}", "status", "noted"), err);
}

/* -------------------------------------------------------------------- progress --- */

struct preheat_progress {
	const char *prefix;
	int64_t id;
	json_t *order, *nodes, *counts;
};

static int note_order(void *arg, const struct db_value *row)
{
	struct preheat_progress *p = arg;

	p->order =
		json_pack("{s:I,s:s,s:s,s:b,s:I}", "id", (json_int_t)row[0].n,
			  "ref", row[1].data, "what", row[2].data, "all_nodes",
			  row[3].n != 0, "created_at", (json_int_t)row[4].n);
	return p->order ? 0 : -ENOMEM;
}

static int add_node(void *arg, const struct db_value *row)
{
	struct preheat_progress *p = arg;
	json_t *count = json_object_get(p->counts, row[1].data);

	if (json_object_set_new(p->counts, row[1].data,
				json_integer(json_integer_value(count) + 1)) <
	    0)
		return -ENOMEM;
	return json_array_append_new(p->nodes,
				     json_pack("{s:s,s:s,s:I,s:I,s:s,s:I}",
					       "node", row[0].data, "state",
					       row[1].data, "have_bytes",
					       (json_int_t)row[2].n,
					       "all_bytes",
					       (json_int_t)row[3].n, "error",
					       row[4].data, "changed_at",
					       (json_int_t)row[5].n)) < 0
		       ? -ENOMEM
		       : 0;
}

static int find_progress(struct db_conn *c, void *arg, struct error *err)
{
	struct preheat_progress *p = arg;
	int n = DB_QUERY(c, SQL_PREHEAT_GET, note_order, p, err, DB_INT(p->id),
			 db_text(p->prefix));

	return n <= 0 ? n
		      : DB_QUERY(c, SQL_PREHEAT_NODES, add_node, p, err,
				 DB_INT(p->id));
}

/* Only tokens that may order preheats see the names of nodes. */
static bool may_see_nodes(const struct call *c)
{
	/* A certificate without a token gives no admin rights. */
	if (!c->token)
		return c->service->cfg->insecure_no_auth;
	return c->token->roles & ROLE_ADMIN;
}

int preheats_get(struct call *c, struct error *err)
{
	struct preheat_progress p = { .prefix = call_prefix(c),
				      .id = atoll(call_param(c, "id")),
				      .nodes = json_array(),
				      .counts = json_object() };
	int rc = p.nodes && p.counts ? db_run(c->service->db, DB_ALONE,
					      find_progress, &p, err)
				     : error_nomem(err);

	if (rc >= 0 && !p.order)
		rc = call_fail(c, HTTPD_NOT_FOUND, NULL, err,
			       "there is no such order");
	else if (rc >= 0 && (json_object_set(p.order, "counts", p.counts) < 0 ||
			     (may_see_nodes(c) &&
			      json_object_set(p.order, "nodes", p.nodes) < 0)))
		rc = error_nomem(err);
	json_decref(p.counts);
	json_decref(p.nodes);
	if (rc < 0 || !p.order) {
		json_decref(p.order);
		return rc;
	}
	return call_send_json(c, p.order, err);
}
