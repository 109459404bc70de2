// SPDX-License-Identifier: Apache-2.0
#include "registry/conversion_db.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "registry/db.h"
#include "registry/schema.h"

#define BACK_OFF_TIMES 4

struct conversion_call {
	const struct conversion *put;
	const struct conversion_worker *worker;
	char *host, *owner; /* of the image that is queued */
	int64_t now, id, tries;
	enum conversion_said said;
	const char *error, *prefix;
	void (*taken)(void *arg, const struct conversion *c);
	int (*each)(void *arg, const struct conversion *c);
	void *arg;
	bool is_known;
	int64_t limit, before;
	struct conversion_counts *counts;
};

static struct conversion conversion_of_row(const struct db_value *row)
{
	return (struct conversion){
		.id = row[0].n,
		.repo = row[1].data,
		.image = row[2].data,
		.tag = row[3].data,
		.form = row[4].data,
		.state = (enum conversion_state)row[5].n,
		.tries = row[6].n,
		.queued = row[7].n,
		.due = row[8].n,
		.worker = row[9].data,
		.error = row[10].data,
	};
}

/* ------------------------------------------------------------------------- put --- */

static int note_known(void *arg, const struct db_value *row)
{
	struct conversion_call *k = arg;

	k->is_known = row[0].n < CONVERSION_DONE ||
		      (row[0].n == CONVERSION_DONE &&
		       strcmp(row[1].data, k->put->form) == 0);
	return 0;
}

static int put_conversion(struct db_conn *c, void *arg, struct error *err)
{
	struct conversion_call *k = arg;
	const struct conversion *p = k->put;
	int n;

	k->is_known = false;
	n = DB_QUERY(c, SQL_CONVERSION_KNOWN, note_known, k, err,
		     db_text(p->repo), db_text(p->image));
	if (n < 0 || k->is_known)
		return n < 0 ? n : 0;
	n = DB_QUERY(c, SQL_CONVERSION_PUT, NULL, NULL, err, db_text(p->repo),
		     db_text(k->host), db_text(k->owner), db_text(p->image),
		     db_text(p->tag), db_text(p->form), DB_INT(k->now),
		     DB_INT(k->limit));
	if (n == 0)
		return error_set(err, EDQUOT,
				 "too many images of %s wait to be converted",
				 k->owner);
	return n < 0 ? n : 1;
}

int conversion_db_put(struct db *db, const struct conversion *c, int64_t now,
		      int64_t most, struct error *err)
{
	size_t host = strcspn(c->repo, "/");
	size_t first = c->repo[host] ? strcspn(c->repo + host + 1, "/") : 0;
	struct conversion_call k = {
		.put = c,
		.now = now,
		.limit = most,
		.host = strndup(c->repo, host),
		.owner = strndup(c->repo, host + 1 + first),
	};
	int rc = k.host && k.owner
			 ? db_run(db, DB_WRITE, put_conversion, &k, err)
			 : error_nomem(err);

	free(k.host);
	free(k.owner);
	return rc;
}

/* ------------------------------------------------------------------------ work --- */

static int show_taken(void *arg, const struct db_value *row)
{
	const struct conversion_call *k = arg;
	const struct conversion c = conversion_of_row(row);

	k->taken(k->arg, &c);
	return 0;
}

static int take_conversion(struct db_conn *c, void *arg, struct error *err)
{
	struct conversion_call *k = arg;
	const struct conversion_worker *w = k->worker;
	int64_t id = 0;
	int n = DB_QUERY(c, SQL_CONVERSION_NEXT, db_take_number, &id, err,
			 DB_INT(w->now - 3600), DB_INT(w->now),
			 DB_INT(w->hourly), DB_INT(CONVERSION_TRIES),
			 db_text(w->prefix), db_text(w->token_prefix));

	/* 0: another replica took the conversion at the same moment; the worker gets none this
	 * time. */
	if (n > 0)
		n = DB_QUERY(c, SQL_CONVERSION_TAKE, show_taken, k, err,
			     DB_INT(w->now),
			     DB_INT(w->now + CONVERSION_LEASE_S),
			     db_text(w->name), DB_INT(id));
	return n;
}

int conversion_db_take(struct db *db, const struct conversion_worker *w,
		       void (*each)(void *arg, const struct conversion *c),
		       void *arg, struct error *err)
{
	struct conversion_call k = { .worker = w, .taken = each, .arg = arg };

	return db_run(db, DB_WRITE, take_conversion, &k, err);
}

static int64_t back_off_of(int64_t tries)
{
	int64_t s = CONVERSION_BACK_OFF_S;

	while (--tries > 0)
		s *= BACK_OFF_TIMES;
	return s;
}

static int store_conversion_report(struct db_conn *c, void *arg,
				   struct error *err)
{
	const struct conversion_call *k = arg;
	const struct conversion_worker *w = k->worker;
	enum conversion_state state = CONVERSION_FAILED;
	int64_t due = w->now;
	int n;

	if (k->said == CONVERSION_SAID_DONE)
		state = CONVERSION_DONE;
	if (k->said == CONVERSION_SAID_RUNNING) {
		state = CONVERSION_RUNNING;
		due += CONVERSION_LEASE_S;
	}
	if (k->said == CONVERSION_SAID_RETRY && k->tries < CONVERSION_TRIES) {
		state = CONVERSION_WAITING;
		due += back_off_of(k->tries);
	}
	n = DB_QUERY(c, SQL_CONVERSION_SAY, NULL, NULL, err, DB_INT(state),
		     DB_INT(due), db_text(k->error), DB_INT(k->id),
		     DB_INT(k->tries), db_text(w->name),
		     db_text(w->token_prefix));
	return n <= 0 ? n : 1 + (int)state;
}

int conversion_db_say(struct db *db, const struct conversion_worker *w,
		      int64_t id, int64_t tries, enum conversion_said said,
		      const char *error, struct error *err)
{
	struct conversion_call k = { .worker = w,
				     .id = id,
				     .tries = tries,
				     .said = said,
				     .error = error };

	return db_run(db, DB_WRITE, store_conversion_report, &k, err);
}

/* --------------------------------------------------------------------- reading --- */

static int show_conversion_row(void *arg, const struct db_value *row)
{
	const struct conversion_call *k = arg;
	const struct conversion c = conversion_of_row(row);

	return k->each(k->arg, &c);
}

static int list_conversions(struct db_conn *c, void *arg, struct error *err)
{
	struct conversion_call *k = arg;

	return DB_QUERY(c, SQL_CONVERSION_LIST, show_conversion_row, k, err,
			db_text(k->prefix), DB_INT(k->limit));
}

int conversion_db_list(struct db *db, const char *token_prefix, int64_t limit,
		       int (*each)(void *arg, const struct conversion *c),
		       void *arg, struct error *err)
{
	struct conversion_call k = {
		.prefix = token_prefix, .limit = limit, .each = each, .arg = arg
	};
	int n = db_run(db, DB_ALONE, list_conversions, &k, err);

	return n < 0 ? n : 0;
}

static int note_count(void *arg, const struct db_value *row)
{
	struct conversion_counts *r = arg;

	if (row[0].n < 0 || row[0].n >= CONVERSION_STATES)
		return 0;
	r->n[row[0].n] = row[1].n;
	if (row[0].n == CONVERSION_WAITING)
		r->due_since = row[2].n;
	return 0;
}

static int count_conversions(struct db_conn *c, void *arg, struct error *err)
{
	const struct conversion_call *k = arg;

	return DB_QUERY(c, SQL_CONVERSION_COUNT, note_count, k->counts, err,
			DB_INT(k->now), db_text(k->prefix));
}

int conversion_db_count(struct db *db, const char *token_prefix, int64_t now,
			struct conversion_counts *ret, struct error *err)
{
	struct conversion_call k = { .prefix = token_prefix,
				     .now = now,
				     .counts = ret };
	int n;

	*ret = (struct conversion_counts){ .due_since = 0 };
	n = db_run(db, DB_ALONE, count_conversions, &k, err);
	return n < 0 ? n : 0;
}

static int sweep_conversions(struct db_conn *c, void *arg, struct error *err)
{
	const struct conversion_call *k = arg;
	int n_silent = DB_QUERY(c, SQL_CONVERSION_SILENT, NULL, NULL, err,
				DB_INT(k->now), DB_INT(CONVERSION_TRIES));
	int n = n_silent;

	if (n >= 0)
		n = DB_QUERY(c, SQL_CONVERSION_EXPIRE, NULL, NULL, err,
			     DB_INT(k->now - CONVERSION_KEEP_S),
			     DB_INT(k->now - CONVERSION_KEEP_FAILED_S),
			     DB_INT(k->before));
	if (n >= 0)
		n = DB_QUERY(c, SQL_CONVERSION_BOUND, NULL, NULL, err,
			     DB_INT(CONVERSIONS_MAX));
	return n < 0 ? n : n_silent;
}

int conversion_db_sweep(struct db *db, int64_t before, int64_t now,
			struct error *err)
{
	struct conversion_call k = { .before = before, .now = now };

	return db_run(db, DB_WRITE, sweep_conversions, &k, err);
}
