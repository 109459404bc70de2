// SPDX-License-Identifier: Apache-2.0
#include "registry/index_db.h"

#include <errno.h>
#include <inttypes.h>

#include "registry/db.h"
#include "registry/schema.h"

#define EVICT_MAX 64 /* owners whose indexes may be deleted to store one part */

/* The row of an owner's offer, read before a change. */
struct index_row {
	int64_t id, state, until, bytes;
	bool is_nodes; /* the calling node has the claim */
};

struct index_call {
	const struct index_name *n;
	const struct index_published *published;
	const char *artifact;
	int64_t id, part;
	const void *data;
	size_t len;
	uint64_t max;
	struct index_row row;
	bool was_withdrawn;
	enum index_state *ret_state;
	struct buf *ret;
	int (*each)(void *arg, const struct index_offer *o);
	void *arg;
};

static int read_index_row(void *arg, const struct db_value *row)
{
	struct index_row *r = arg;

	r->id = row[0].n;
	r->state = row[1].n;
	r->until = row[2].n;
	r->bytes = row[3].n;
	r->is_nodes = row[4].n != 0;
	return 0;
}

/* Read the row. Returns 1, or 0: there is none. */
static int find_index_row(struct db_conn *c, struct index_call *k,
			  struct error *err)
{
	return DB_QUERY(c, SQL_INDEX_OF, read_index_row, &k->row, err,
			db_text(k->n->node), db_text(k->n->image),
			db_text(k->n->repo), db_text(k->n->owner));
}

/* ----------------------------------------------------------------------- claim --- */

static int claim_index(struct db_conn *c, void *arg, struct error *err)
{
	struct index_call *k = arg;
	const struct index_name *n = k->n;
	int64_t id = 0, held = 0;
	int rows = DB_QUERY(c, SQL_INDEX_HELD, db_take_number, &held, err,
			    db_text(n->image), db_text(n->repo),
			    db_text(n->owner), DB_INT(n->now));

	if (rows >= 0 && held > 0) {
		*k->ret_state = INDEX_COMING;
		return 0;
	}
	if (rows >= 0)
		rows = DB_QUERY(c, SQL_INDEX_CLAIM, db_take_number, &id, err,
				db_text(n->image), db_text(n->repo),
				db_text(n->owner), db_text(n->node),
				DB_INT(n->now), DB_INT(n->now + INDEX_CLAIM_S),
				DB_INT(INDEX_OFFERS_MAX),
				DB_INT(n->now - INDEX_KEEP_S));
	if (rows > 0) {
		rows = DB_QUERY(c, SQL_INDEX_DROP_PARTS, NULL, NULL, err,
				DB_INT(id));
		return rows < 0 ? rows : 1;
	}
	if (rows == 0)
		rows = find_index_row(c, k, err);
	if (rows < 0)
		return rows;
	if (rows == 0)
		return error_set(err, EDQUOT,
				 "it offers %d indexes, and no more are kept",
				 INDEX_OFFERS_MAX);
	*k->ret_state = (enum index_state)k->row.state;
	return 0;
}

int index_db_claim(struct db *db, const struct index_name *n,
		   enum index_state *ret, struct error *err)
{
	struct index_call k = { .n = n, .ret_state = ret };

	return db_run(db, DB_WRITE, claim_index, &k, err);
}

/* ----------------------------------------------------------------------- parts --- */

/* Check that the calling node has a valid claim to the index. 0 or -errno. */
static int check_claim(struct db_conn *c, struct index_call *k,
		       struct error *err)
{
	int n = find_index_row(c, k, err);

	if (n < 0)
		return n;
	if (n == 0 || !k->row.is_nodes || k->row.state != INDEX_COMING ||
	    k->row.until <= k->n->now)
		return error_set(err, ECANCELED,
				 "this node has no claim to it, or no more");
	return 0;
}

static int bound_total(struct db_conn *c, struct index_call *k,
		       struct error *err)
{
	int64_t total = 0;
	int n;

	for (int i = 0; i < EVICT_MAX; i++) {
		n = db_query(c, SQL_INDEX_TOTAL, NULL, 0, db_take_number,
			     &total, err);
		if (n < 0 || (uint64_t)total <= k->max)
			return n < 0 ? n : 0;
		n = DB_QUERY(c, SQL_INDEX_BOUND, NULL, NULL, err,
			     DB_INT(k->row.id),
			     DB_INT(total - (int64_t)k->max));
		if (n < 0)
			return n;
		if (n == 0)
			break;
	}
	return error_set(err, EFBIG,
			 "there is no room for it: %" PRIu64
			 " bytes of indexes are kept",
			 k->max);
}

static int put_part(struct db_conn *c, void *arg, struct error *err)
{
	struct index_call *k = arg;
	int n = check_claim(c, k, err);

	if (n == 0)
		n = DB_QUERY(c, SQL_INDEX_PUT_PART, NULL, NULL, err,
			     DB_INT(k->row.id), DB_INT(k->part), DB_INT(k->len),
			     db_blob(k->data, k->len));
	if (n >= 0)
		n = DB_QUERY(c, SQL_INDEX_SUM, NULL, NULL, err,
			     DB_INT(k->row.id),
			     DB_INT(k->n->now + INDEX_CLAIM_S));
	return n < 0 ? n : bound_total(c, k, err);
}

int index_db_put_part(struct db *db, const struct index_name *n, int64_t part,
		      const void *data, size_t len, uint64_t max,
		      struct error *err)
{
	struct index_call k = {
		.n = n, .part = part, .data = data, .len = len, .max = max
	};

	return db_run(db, DB_WRITE, put_part, &k, err);
}

/* Refuse an artifact that any owner withdrew: equal layers give equal indexes, so a wrong one is
 * wrong for all. */
static int check_withdrawn(struct db_conn *c, struct index_call *k,
			   struct error *err)
{
	int64_t count = 0;
	int n = DB_QUERY(c, SQL_INDEX_IS_WRONG, db_take_number, &count, err,
			 db_text(k->n->image), db_text(k->n->repo),
			 db_text(k->published->artifact));

	k->was_withdrawn = count > 0;
	if (n >= 0 && k->was_withdrawn)
		n = DB_QUERY(c, SQL_INDEX_DROP_PARTS, NULL, NULL, err,
			     DB_INT(k->row.id));
	if (n >= 0 && k->was_withdrawn)
		n = DB_QUERY(c, SQL_INDEX_REFUSE, NULL, NULL, err,
			     db_text(k->published->artifact), DB_INT(k->n->now),
			     DB_INT(k->row.id));
	return n < 0 ? n : 0;
}

static int publish_index(struct db_conn *c, void *arg, struct error *err)
{
	struct index_call *k = arg;
	int n = check_claim(c, k, err);

	if (n == 0)
		n = check_withdrawn(c, k, err);
	if (n < 0 || k->was_withdrawn)
		return n;
	n = DB_QUERY(c, SQL_INDEX_REPLACE, NULL, NULL, err,
		     db_text(k->n->image), db_text(k->n->repo),
		     db_text(k->n->owner));
	if (n >= 0)
		n = DB_QUERY(c, SQL_INDEX_PUBLISH, NULL, NULL, err,
			     db_text(k->published->artifact),
			     db_text(k->published->signature),
			     DB_INT(k->published->parts), DB_INT(k->n->now),
			     DB_INT(k->row.id));
	if (n == 0)
		return error_set(err, ECANCELED,
				 "not all of its parts are there");
	return n < 0 ? n : 0;
}

int index_db_publish(struct db *db, const struct index_name *n,
		     const struct index_published *p, struct error *err)
{
	struct index_call k = { .n = n, .published = p };
	int rc = db_run(db, DB_WRITE, publish_index, &k, err);

	return rc == 0 && k.was_withdrawn
		       ? error_set(err, ECANCELED,
				   "this index was withdrawn as wrong; DELETE "
				   "/v1/indexes takes that back")
		       : rc;
}

/* --------------------------------------------------------------------- reading --- */

static int note_offer(void *arg, const struct db_value *row)
{
	const struct index_call *k = arg;
	const struct index_offer o = {
		.artifact = row[0].data,
		.signature = row[1].data,
		.bytes = row[2].n,
		.parts = row[3].n,
		.made = row[4].n,
		.id = row[5].n,
	};

	return k->each(k->arg, &o);
}

static int list_indexes(struct db_conn *c, void *arg, struct error *err)
{
	struct index_call *k = arg;

	return DB_QUERY(c, SQL_INDEX_LIST, note_offer, k, err,
			db_text(k->n->image), db_text(k->n->repo),
			DB_INT(INDEX_LIST_MAX));
}

int index_db_list(struct db *db, const struct index_name *n,
		  int (*each)(void *arg, const struct index_offer *o),
		  void *arg, struct error *err)
{
	struct index_call k = { .n = n, .each = each, .arg = arg };
	int rows = db_run(db, DB_ALONE, list_indexes, &k, err);

	return rows < 0 ? rows : 0;
}

static int note_part(void *arg, const struct db_value *row)
{
	const struct index_call *k = arg;

	buf_reset(k->ret);
	return buf_append(k->ret, row[0].data, row[0].len);
}

static int get_part(struct db_conn *c, void *arg, struct error *err)
{
	struct index_call *k = arg;

	return DB_QUERY(c, SQL_INDEX_PART, note_part, k, err, DB_INT(k->id),
			db_text(k->n->image), db_text(k->n->repo),
			db_text(k->artifact), DB_INT(k->part));
}

static int note_used(struct db_conn *c, void *arg, struct error *err)
{
	struct index_call *k = arg;

	return DB_QUERY(c, SQL_INDEX_USED, NULL, NULL, err, DB_INT(k->n->now),
			DB_INT(k->id));
}

int index_db_part(struct db *db, const struct index_name *n, int64_t id,
		  const char *artifact, int64_t part, struct buf *ret,
		  struct error *err)
{
	struct index_call k = {
		.n = n, .artifact = artifact, .id = id, .part = part, .ret = ret
	};
	int rows = db_run(db, DB_ALONE, get_part, &k, err);

	if (rows == 0)
		return error_set(err, ENOENT, "there is no such index");
	/* The part was read; ignore a failure to store the time of use. */
	if (rows > 0 && part == 0 &&
	    db_run(db, DB_WRITE, note_used, &k, NULL) < 0)
		return 0;
	return rows < 0 ? rows : 0;
}

/* --------------------------------------------------------------------- leaving --- */

static int withdraw_index(struct db_conn *c, void *arg, struct error *err)
{
	struct index_call *k = arg;
	int n = DB_QUERY(c, SQL_INDEX_DROP_WRONG, NULL, NULL, err,
			 db_text(k->n->image), db_text(k->n->repo),
			 db_text(k->artifact));

	return n < 0 ? n
		     : DB_QUERY(c, SQL_INDEX_WITHDRAW, NULL, NULL, err,
				DB_INT(k->n->now), db_text(k->n->image),
				db_text(k->n->repo), db_text(k->artifact));
}

int index_db_withdraw(struct db *db, const struct index_name *n,
		      const char *artifact, struct error *err)
{
	struct index_call k = { .n = n, .artifact = artifact };

	return db_run(db, DB_WRITE, withdraw_index, &k, err);
}

static int forget_index(struct db_conn *c, void *arg, struct error *err)
{
	const struct index_call *k = arg;

	return DB_QUERY(c, SQL_INDEX_FORGET, NULL, NULL, err,
			db_text(k->n->image), db_text(k->n->repo));
}

int index_db_forget(struct db *db, const struct index_name *n,
		    struct error *err)
{
	struct index_call k = { .n = n };

	return db_run(db, DB_WRITE, forget_index, &k, err);
}

struct index_sweep {
	int64_t before, now;
};

static int sweep_indexes(struct db_conn *c, void *arg, struct error *err)
{
	const struct index_sweep *s = arg;

	return DB_QUERY(c, SQL_INDEX_EXPIRE, NULL, NULL, err, DB_INT(s->before),
			DB_INT(s->now));
}

int index_db_sweep(struct db *db, int64_t before, int64_t now,
		   struct error *err)
{
	struct index_sweep s = { .before = before, .now = now };

	return db_run(db, DB_WRITE, sweep_indexes, &s, err);
}
