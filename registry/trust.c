// SPDX-License-Identifier: Apache-2.0
/* /v1/trust/revoked: keys that signed images and are no longer trusted
 * (docs/formats/registry-api.md). */
#include <errno.h>
#include <jansson.h>
#include <time.h>

#include "registry/call.h"
#include "registry/db.h"
#include "registry/routes.h"
#include "registry/schema.h"
#include "registry/trust.h"

struct trust_change {
	const char *key;
	int64_t now;
	bool is_known; /* the key was revoked already */
};

static int put_key(struct db_conn *c, void *arg, struct error *err)
{
	struct trust_change *t = arg;
	const struct db_value params[] = { db_text(t->key), DB_INT(t->now),
					   DB_INT(TRUST_REVOKED_MAX) };
	int n = db_query(c, SQL_TRUST_REVOKE, params, ARRAY_SIZE(params), NULL,
			 NULL, err),
	    known = 0;

	t->is_known = false;
	if (n == 0)
		known = db_query(c, SQL_TRUST_FIND, params, 1, db_take_note,
				 &t->is_known, err);
	return known < 0 ? known : n;
}

static int drop_key(struct db_conn *c, void *arg, struct error *err)
{
	const struct trust_change *t = arg;
	const struct db_value params[] = { db_text(t->key) };

	return db_query(c, SQL_TRUST_RESTORE, params, ARRAY_SIZE(params), NULL,
			NULL, err);
}

/* Keys sign images of every repository: refuse tokens that are bound to one. */
static int trust_change(struct call *c, struct trust_change *t,
			int (*fn)(struct db_conn *c, void *arg,
				  struct error *err),
			struct error *err)
{
	int rc = call_check_repo(c, "", err);

	t->key = call_param(c, "key");
	t->now = time(NULL);
	return rc < 0 ? rc : db_run(c->service->db, DB_WRITE, fn, t, err);
}

int trust_revoke(struct call *c, struct error *err)
{
	struct trust_change t = { .is_known = false };
	int n = trust_change(c, &t, put_key, err);

	if (n == 0 && !t.is_known)
		return call_fail(c, HTTPD_TOO_MANY, NULL, err,
				 "%d keys are revoked, and no more are kept: "
				 "restore those that no node believes anyway",
				 TRUST_REVOKED_MAX);
	return n < 0 ? n
		     : call_send_json(c, json_pack("{s:i}", "revoked", n), err);
}

int trust_restore(struct call *c, struct error *err)
{
	struct trust_change t = { .is_known = false };
	int n = trust_change(c, &t, drop_key, err);

	return n < 0 ? n
		     : call_send_json(c, json_pack("{s:i}", "restored", n),
				      err);
}

static int add_key(void *arg, const struct db_value *row)
{
	return json_array_append_new(arg,
				     json_pack("{s:s%,s:I}", "key", row[0].data,
					       row[0].len, "since",
					       (json_int_t)row[1].n)) < 0
		       ? -ENOMEM
		       : 0;
}

static int list_keys(struct db_conn *c, void *arg, struct error *err)
{
	return db_query(c, SQL_TRUST_REVOKED, NULL, 0, add_key, arg, err);
}

int trust_revoked(struct call *c, struct error *err)
{
	json_t *all = json_array();
	int rc;

	if (!all)
		return error_nomem(err);
	rc = db_run(c->service->db, DB_ALONE, list_keys, all, err);
	if (rc < 0) {
		json_decref(all);
		return rc;
	}
	rc = call_send_json(c, json_pack("{s:o}", "revoked", all), err);
	return rc < 0 ? rc : call_send_if_new(c, err);
}
