// SPDX-License-Identifier: Apache-2.0
/*
 * The rows of env_key: one for each key of each store. Every change is one statement whose
 * condition includes the lease's generation, so that replicas need no lock between them.
 */
#include "registry/env_db.h"

#include <errno.h>
#include <inttypes.h>

#include "common/buf.h"
#include "registry/db.h"
#include "registry/schema.h"

#define DAY_MS INT64_C(86400000)
#define HOUR_MS INT64_C(3600000)
#define N_MAX 24

/* A statement with its parameters and the callback for its rows. */
struct env_query {
	enum statement what;
	struct db_value v[N_MAX];
	size_t n;
	int (*each)(void *arg, const struct db_value *row);
	void *arg;
};

static void add_value(struct env_query *q, struct db_value v)
{
	q->v[q->n++] = v;
}

static void add_name(struct env_query *q, const struct env_name *n)
{
	add_value(q, db_text(n->repo));
	add_value(q, db_text(n->key));
}

static int run_env_query(struct db_conn *c, void *arg, struct error *err)
{
	struct env_query *q = arg;

	return db_query(c, q->what, q->v, q->n, q->each, q->arg, err);
}

static int run_change(struct db *db, struct env_query *q, struct error *err)
{
	return db_run(db, DB_WRITE, run_env_query, q, err);
}

/* ------------------------------------------------------------------------ read --- */

struct env_reading {
	env_known_fn *fn;
	void *arg;
	int64_t now_ms;
	bool is_found;
};

static int note_entry(void *arg, const struct db_value *row)
{
	struct env_reading *r = arg;
	struct env_known e = {
		.key = row[0].data,
		.generation = row[1].n,
		.holder = row[2].data,
		.lease_ms = row[3].n - r->now_ms,
		.failures = row[4].n,
		.capture = row[5].data,
		.description = row[6].data,
		.stored = row[7].n,
		.by = row[8].data,
		.program = row[9].data,
		.token = row[10].data,
		.made_ms = row[11].n,
		.used_ms = row[12].n,
		.expires_ms = row[13].n,
		.is_pinned = row[14].n != 0,
		.bad = row[15].data,
	};

	/* Ignore a lease that would last longer than the maximum: the clock was set back since. */
	if (e.lease_ms <= 0 || e.lease_ms > ENV_LEASE_MAX_MS) {
		e.lease_ms = 0;
		e.holder = "";
	}
	e.has_snapshot = e.capture[0] && (e.is_pinned || !e.expires_ms ||
					  e.expires_ms > r->now_ms);
	r->is_found = true;
	return r->fn(r->arg, &e);
}

int env_db_get(struct db *db, const struct env_name *n, env_known_fn *fn,
	       void *arg, struct error *err)
{
	static const struct env_known none = {
		.capture = "",
		.description = "",
		.by = "",
		.program = "",
		.token = "",
		.bad = "",
		.holder = "",
	};
	struct env_reading r = { .fn = fn, .arg = arg, .now_ms = n->now_ms };
	struct env_query q = { .what = SQL_ENV_GET,
			       .each = note_entry,
			       .arg = &r };
	struct env_known e = none;
	int rc;

	add_name(&q, n);
	rc = db_run(db, DB_ALONE, run_env_query, &q, err);
	if (rc < 0)
		return rc;
	e.key = n->key;
	rc = r.is_found ? 0 : fn(arg, &e);
	return rc < 0 ? error_nomem(err) : 0;
}

int env_db_list(struct db *db, const struct env_filter *f, env_known_fn *fn,
		void *arg, struct error *err)
{
	struct env_reading r = { .fn = fn, .arg = arg, .now_ms = f->now_ms };
	struct env_query q = { .what = SQL_ENV_LIST,
			       .each = note_entry,
			       .arg = &r };
	int rc;

	add_value(&q, db_text(f->repo));
	add_value(&q, db_text(f->begins));
	add_value(&q, db_text(f->after));
	add_value(&q, DB_INT(f->now_ms));
	add_value(&q, DB_INT(f->limit));
	rc = db_run(db, DB_ALONE, run_env_query, &q, err);
	return rc < 0 ? rc : 0;
}

/* ---------------------------------------------------------------------- leases --- */

struct env_taking {
	const struct env_name *of;
	struct env_query known, take, name;
	bool is_known;
	int64_t generation;
};

/* Count one key more for `name` among the counters of `kind`. */
static int count_key(struct db_conn *c, const char *kind, const char *name,
		     int64_t *ret, struct error *err)
{
	AUTO_BUF what = BUF_INIT;
	struct db_value v;

	if (buf_printf(&what, "%s%s", kind, name) < 0)
		return error_nomem(err);
	v = db_text(what.data);
	return db_query(c, SQL_ENV_COUNT, &v, 1, db_take_number, ret, err);
}

/*
 * A token may have as many keys as are left free in all, so that a further token always finds room.
 * Callers without a name share one count.
 */
static int check_room(struct db_conn *c, const struct env_name *n,
		      struct error *err)
{
	int64_t all = 0, store = 0, own = 0;
	int rc = count_key(c, "all", "", &all, err);

	if (rc >= 0)
		rc = count_key(c, "store ", n->repo, &store, err);
	if (rc >= 0)
		rc = count_key(c, "owner ", n->owner, &own, err);
	if (rc < 0)
		return rc;
	if (all > ENV_KEYS_MAX || store > ENV_REPO_KEYS_MAX)
		return error_set(err, EDQUOT,
				 "%d environments of the store, or %d of all, "
				 "are kept already: 'bootseer env rm' those "
				 "that nobody needs",
				 ENV_REPO_KEYS_MAX, ENV_KEYS_MAX);
	if (n->owner[0] && own > 1 && own > ENV_KEYS_MAX - all)
		return error_set(err, EDQUOT,
				 "%" PRId64 " environments of this token are "
				 "kept already, and no more than that are left "
				 "for others: 'bootseer env rm' those that "
				 "nobody needs",
				 own - 1);
	return 0;
}

static int take_lease(struct db_conn *c, void *arg, struct error *err)
{
	struct env_taking *t = arg;
	int n, rc;

	t->is_known = false;
	n = run_env_query(c, &t->take, err);
	if (n != 0)
		return n;
	n = run_env_query(c, &t->known, err);
	if (n < 0 || t->is_known)
		return n < 0 ? n : 0;
	/* 0: another replica inserted the key a moment before, so it is counted already. */
	n = run_env_query(c, &t->name, err);
	rc = n > 0 ? check_room(c, t->of, err) : 0;
	return rc < 0 ? rc : n;
}

int env_db_take(struct db *db, const struct env_name *n,
		const struct env_lease_wish *w, int64_t *ret_generation,
		struct error *err)
{
	struct env_taking t = { .of = n };
	int rc;

	t.known = (struct env_query){ .what = SQL_ENV_GET,
				      .each = db_take_note,
				      .arg = &t.is_known };
	t.take = (struct env_query){ .what = SQL_ENV_TAKE,
				     .each = db_take_number,
				     .arg = &t.generation };
	t.name = (struct env_query){ .what = SQL_ENV_NEW,
				     .each = db_take_number,
				     .arg = &t.generation };
	add_name(&t.known, n);
	add_value(&t.take, db_text(w->by));
	add_value(&t.take, db_text(n->owner));
	add_value(&t.take, DB_INT(w->ttl_ms));
	add_value(&t.take, DB_INT(n->now_ms));
	add_name(&t.take, n);
	add_value(&t.take, DB_INT(ENV_LEASE_MAX_MS));
	add_value(&t.take, db_text(w->instead));
	add_name(&t.name, n);
	add_value(&t.name, DB_INT(n->now_ms));
	add_value(&t.name, db_text(w->by));
	add_value(&t.name, db_text(n->owner));
	add_value(&t.name, DB_INT(w->ttl_ms));
	rc = db_run(db, DB_WRITE, take_lease, &t, err);
	if (rc > 0)
		*ret_generation = t.generation;
	return rc;
}

/* Add the key and the generation of the lease that permits the change. */
static void add_lease(struct env_query *q, const struct env_name *n,
		      int64_t generation)
{
	add_name(q, n);
	add_value(q, DB_INT(generation));
	add_value(q, db_text(n->owner));
}

int env_db_renew(struct db *db, const struct env_name *n, int64_t generation,
		 struct error *err)
{
	struct env_query q = { .what = SQL_ENV_RENEW };

	add_value(&q, DB_INT(n->now_ms));
	add_lease(&q, n, generation);
	return run_change(db, &q, err);
}

int env_db_drop(struct db *db, const struct env_name *n, int64_t generation,
		bool has_failed, struct error *err)
{
	struct env_query q = { .what = SQL_ENV_DROP };

	add_value(&q, DB_INT(n->now_ms));
	add_value(&q, DB_INT(has_failed));
	add_lease(&q, n, generation);
	return run_change(db, &q, err);
}

int env_db_publish(struct db *db, const struct env_name *n, int64_t generation,
		   const struct env_published *p, struct error *err)
{
	struct env_query q = { .what = SQL_ENV_PUBLISH };

	add_value(&q, DB_INT(n->now_ms));
	add_value(&q, db_text(p->capture));
	add_value(&q, db_text(p->description));
	add_value(&q, DB_INT(p->stored));
	add_value(&q, db_text(p->by));
	add_value(&q, db_text(p->program));
	add_value(&q, DB_INT(p->ttl_ms ? n->now_ms + p->ttl_ms : 0));
	add_lease(&q, n, generation);
	return run_change(db, &q, err);
}

/* ----------------------------------------------------------------------- marks --- */

int env_db_used(struct db *db, const struct env_name *n, const char *capture,
		struct error *err)
{
	struct env_query q = { .what = SQL_ENV_USED };

	add_value(&q, DB_INT(n->now_ms));
	add_name(&q, n);
	add_value(&q, db_text(capture));
	add_value(&q, DB_INT(n->now_ms - HOUR_MS));
	return run_change(db, &q, err);
}

int env_db_bad(struct db *db, const struct env_name *n, const char *capture,
	       const char *why, struct error *err)
{
	struct env_query q = { .what = SQL_ENV_BAD };

	add_value(&q, db_text(why));
	add_name(&q, n);
	add_value(&q, db_text(capture));
	return run_change(db, &q, err);
}

int env_db_pin(struct db *db, const struct env_name *n, bool is_pinned,
	       struct error *err)
{
	struct env_query q = { .what = SQL_ENV_PIN };

	add_value(&q, DB_INT(is_pinned));
	add_name(&q, n);
	return run_change(db, &q, err);
}

int env_db_remove(struct db *db, const struct env_name *n, struct error *err)
{
	struct env_query q = { .what = SQL_ENV_REMOVE };

	add_value(&q, DB_INT(n->now_ms));
	add_name(&q, n);
	return run_change(db, &q, err);
}

/* Remove expired snapshots. They belong to many stores and tokens, so count all keys anew. */
static int sweep_expired(struct db_conn *c, void *arg, struct error *err)
{
	int gone = run_env_query(c, arg, err), n = gone;

	if (gone > 0)
		n = db_query(c, SQL_ENV_COUNT_NONE, NULL, 0, NULL, NULL, err);
	if (gone > 0 && n >= 0)
		n = db_query(c, SQL_ENV_COUNT_ALL, NULL, 0, NULL, NULL, err);
	return n < 0 ? n : gone;
}

int env_db_sweep(struct db *db, int64_t unused_ms, int64_t now_ms,
		 struct error *err)
{
	struct env_query q = { .what = SQL_ENV_SWEEP };

	add_value(&q, DB_INT(now_ms - DAY_MS));
	add_value(&q, DB_INT(unused_ms));
	return db_run(db, DB_WRITE, sweep_expired, &q, err);
}
