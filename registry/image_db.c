// SPDX-License-Identifier: Apache-2.0
#include "registry/image_db.h"

#include <stdlib.h>

#include "registry/db.h"
#include "registry/schema.h"

#define SWEEP_MAX 10000 /* rows that one statement deletes */

/* --------------------------------------------------------------------- put --- */

struct image_put {
	const struct image_start_name *n;
	const struct image_report *r;
	int64_t now, id;
	char *figures;
};

static int put_report(struct db_conn *c, void *arg, struct error *err)
{
	struct image_put *p = arg;
	const struct image_start_name *s = p->n;
	const struct image_report *r = p->r;
	int n = DB_QUERY(c, SQL_IMAGE_DROP, NULL, NULL, err, db_text(s->image),
			 db_text(s->repo), db_text(s->workload),
			 db_text(s->node), db_text(r->job), DB_INT(r->attempt));

	if (n >= 0)
		n = DB_QUERY(c, SQL_IMAGE_PUT, db_take_number, &p->id, err,
			     db_text(s->image), db_text(s->repo),
			     db_text(s->workload), db_text(s->node),
			     db_text(r->job), DB_INT(r->attempt),
			     db_text(r->name), DB_INT(p->now),
			     DB_INT(r->peer_bytes), DB_INT(r->origin_bytes));
	if (n >= 0)
		n = DB_QUERY(c, SQL_IMAGE_PUT_TEXT, NULL, NULL, err,
			     DB_INT(p->id), db_text(p->figures),
			     db_text(r->peers.data ? r->peers.data : ""));
	if (n >= 0)
		n = DB_QUERY(c, SQL_IMAGE_TRIM, NULL, NULL, err,
			     db_text(s->node), DB_INT(IMAGE_NODE_STARTS_MAX));
	return n < 0 ? n : 0;
}

int image_db_put(struct db *db, const struct image_start_name *n, int64_t now,
		 const struct image_report *r, struct error *err)
{
	struct image_put p = { .n = n,
			       .r = r,
			       .now = now,
			       .figures = json_dumps(r->start, JSON_COMPACT) };
	int rc = p.figures ? db_run(db, DB_WRITE, put_report, &p, err)
			   : error_nomem(err);

	free(p.figures);
	return rc;
}

/* ------------------------------------------------------------------- lists --- */

struct image_listing {
	const char *prefix, *repo;
	const struct image_start_name *of;
	const struct image_peers_query *peers;
	int64_t limit;
	int (*each_image)(void *arg, const struct image_line *l);
	int (*each_start)(void *arg, const struct image_start_row *r);
	int (*each_peers)(void *arg, const struct image_peers_row *r);
	void *arg;
};

static int show_image_row(void *arg, const struct db_value *v)
{
	const struct image_listing *q = arg;
	const struct image_line l = {
		.image = v[0].data,
		.repo = v[1].data,
		.workload = v[2].data,
		.name = v[3].data,
		.starts = v[4].n,
		.nodes = v[5].n,
		.received = v[6].n,
		.peer_bytes = v[7].n,
		.origin_bytes = v[8].n,
	};

	return q->each_image(q->arg, &l);
}

static int list_images(struct db_conn *c, void *arg, struct error *err)
{
	struct image_listing *q = arg;

	return DB_QUERY(c, SQL_IMAGE_LIST, show_image_row, q, err,
			db_text(q->prefix), db_text(q->repo), DB_INT(q->limit));
}

int image_db_list(struct db *db, const char *prefix, const char *repo,
		  int64_t limit,
		  int (*each)(void *arg, const struct image_line *l), void *arg,
		  struct error *err)
{
	struct image_listing q = { .prefix = prefix,
				   .repo = repo,
				   .limit = limit,
				   .each_image = each,
				   .arg = arg };
	int n = db_run(db, DB_ALONE, list_images, &q, err);

	return n < 0 ? n : 0;
}

static int show_image_start_row(void *arg, const struct db_value *v)
{
	const struct image_listing *q = arg;
	const struct image_start_row r = {
		.node = v[0].data,
		.job = v[1].data,
		.attempt = v[2].n,
		.name = v[3].data,
		.received = v[4].n,
		.peer_bytes = v[5].n,
		.origin_bytes = v[6].n,
		.figures = v[7].data,
	};

	return q->each_start(q->arg, &r);
}

static int list_starts(struct db_conn *c, void *arg, struct error *err)
{
	struct image_listing *q = arg;

	return DB_QUERY(c, SQL_IMAGE_STARTS, show_image_start_row, q, err,
			db_text(q->of->image), db_text(q->of->repo),
			db_text(q->of->workload), DB_INT(q->limit));
}

int image_db_starts(struct db *db, const struct image_start_name *of,
		    int64_t limit,
		    int (*each)(void *arg, const struct image_start_row *r),
		    void *arg, struct error *err)
{
	struct image_listing q = {
		.of = of, .limit = limit, .each_start = each, .arg = arg
	};
	int n = db_run(db, DB_ALONE, list_starts, &q, err);

	return n < 0 ? n : 0;
}

static int show_image_peers_row(void *arg, const struct db_value *v)
{
	const struct image_listing *q = arg;
	const struct image_peers_row r = {
		.of = { .node = v[0].data,
			.image = v[1].data,
			.repo = v[2].data,
			.workload = v[3].data },
		.peer_bytes = v[4].n,
		.origin_bytes = v[5].n,
		.peers = v[6].data,
	};

	return q->each_peers(q->arg, &r);
}

static int list_peers(struct db_conn *c, void *arg, struct error *err)
{
	struct image_listing *q = arg;
	const struct image_peers_query *p = q->peers;

	if (p->job)
		return DB_QUERY(c, SQL_IMAGE_JOB_PEERS, show_image_peers_row, q,
				err, db_text(p->job), DB_INT(p->attempt),
				DB_INT(IMAGE_ROWS_MAX));
	return DB_QUERY(c, SQL_IMAGE_PEERS, show_image_peers_row, q, err,
			DB_INT(p->since), db_text(p->image),
			DB_INT(IMAGE_ROWS_MAX));
}

int image_db_peers(struct db *db, const struct image_peers_query *p,
		   int (*each)(void *arg, const struct image_peers_row *r),
		   void *arg, struct error *err)
{
	struct image_listing q = { .peers = p, .each_peers = each, .arg = arg };
	int n = db_run(db, DB_ALONE, list_peers, &q, err);

	return n < 0 ? n : 0;
}

/* ------------------------------------------------------------------- sweep --- */

static int sweep_reports(struct db_conn *c, void *arg, struct error *err)
{
	int gone = DB_QUERY(c, SQL_IMAGE_EXPIRE, NULL, NULL, err,
			    DB_INT(*(const int64_t *)arg), DB_INT(SWEEP_MAX));
	int n = gone < 0 ? gone
			 : DB_QUERY(c, SQL_IMAGE_BOUND, NULL, NULL, err,
				    DB_INT(IMAGE_STARTS_MAX));

	return n < 0 ? n : gone + n;
}

int image_db_sweep(struct db *db, int64_t before, struct error *err)
{
	return db_run(db, DB_WRITE, sweep_reports, &before, err);
}
