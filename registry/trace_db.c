// SPDX-License-Identifier: Apache-2.0
#include "registry/trace_db.h"

#include <errno.h>
#include <string.h>

#include "registry/db.h"
#include "registry/schema.h"

/* the time of use is stored at most once in this time */
#define USED_EVERY_S 3600
/* A new start counts as last used so long ago, until it is used: within a week it is deleted before
 * starts that were used. */
#define UNUSED_S (7 * 86400)
#define EVICT_MAX 64u   /* starts deleted at most to store one recording */
#define SWEEP_MAX 1000u /* starts deleted at most in one sweep */

/* ---------------------------------------------------------------------- find --- */

struct find {
	const struct start_query *q;
	int64_t now;
	struct start *ret;
};

static int read_start_row(void *arg, const struct db_value *row)
{
	struct start *s = arg;

	s->id = row[0].n;
	s->version = row[4].n;
	s->votes = row[5].n;
	s->newest = row[6].n;
	s->used = row[7].n;
	return 0;
}

static int find_near(struct db_conn *c, const struct start_query *q,
		     struct start *ret, struct error *err)
{
	int n = 0;

	ret->match = MATCH_RELATIVE;
	if (q->repo[0])
		n = DB_QUERY(c, SQL_FIND_RELATIVE, read_start_row, ret, err,
			     db_text(q->repo), db_text(q->workload));
	if (n != 0)
		return n;
	ret->match = MATCH_WORKLOAD;
	n = DB_QUERY(c, SQL_FIND_WORKLOAD, read_start_row, ret, err,
		     db_text(q->image), db_text(q->prefix), db_text(q->repo));
	if (n != 0)
		return n;
	ret->match = MATCH_FAR;
	return q->repo[0] ? DB_QUERY(c, SQL_FIND_FAR, read_start_row, ret, err,
				     db_text(q->repo))
			  : 0;
}

static int find_start(struct db_conn *c, void *arg, struct error *err)
{
	struct find *f = arg;
	const struct start_query *q = f->q;
	int n;

	f->ret->match = MATCH_OWN;
	n = DB_QUERY(c, SQL_FIND_OWN, read_start_row, f->ret, err,
		     db_text(q->image), db_text(q->workload),
		     db_text(q->prefix), db_text(q->repo));
	if (n > 0) {
		f->ret->wanted = retention_wants((uint64_t)f->ret->votes,
						 f->ret->newest, f->now);
		return n;
	}
	f->ret->wanted = true;
	if (n == 0 && !q->exact)
		n = find_near(c, q, f->ret, err);
	return n;
}

static int store_time_of_use(struct db_conn *c, void *arg, struct error *err)
{
	struct find *f = arg;

	return DB_QUERY(c, SQL_USED, NULL, NULL, err, DB_INT(f->now),
			DB_INT(f->ret->id));
}

int trace_db_find(struct db *db, const struct start_query *q, int64_t now,
		  struct start *ret, struct error *err)
{
	struct find f = { .q = q, .now = now, .ret = ret };
	int n;

	memset(ret, 0, sizeof(*ret));
	n = db_run(db, DB_ALONE, find_start, &f, err);
	if (n == 0)
		return error_set(err, ENOENT, "there is no trace yet");
	/* The answer is right even if the time of use could not be stored. */
	if (n > 0 && now - ret->used > USED_EVERY_S &&
	    db_run(db, DB_WRITE, store_time_of_use, &f, NULL) < 0)
		return 0;
	return n < 0 ? n : 0;
}

/* --------------------------------------------------------------------- votes --- */

struct votes {
	struct vote *v;
	size_t n;
};

void votes_free(struct vote *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].token);
		free(v[i].node);
	}
}

static int note_vote(void *arg, const struct db_value *row)
{
	struct votes *votes = arg;
	struct vote *v = &votes->v[votes->n];

	if (votes->n == VOTES_MAX)
		return 0;
	v->token = db_strdup(&row[0]);
	v->node = db_strdup(&row[1]);
	v->received = row[2].n;
	v->memory = (uint64_t)row[3].n;
	votes->n++;
	return v->token && v->node ? 0 : -ENOMEM;
}

static int load_votes(struct db_conn *c, int64_t start, struct votes *ret,
		      struct error *err)
{
	int rc = DB_QUERY(c, SQL_VOTES, note_vote, ret, err, DB_INT(start));

	return rc < 0 ? rc : 0;
}

struct load_votes {
	int64_t start;
	struct votes votes;
};

static int load_votes_of(struct db_conn *c, void *arg, struct error *err)
{
	struct load_votes *l = arg;

	return load_votes(c, l->start, &l->votes, err);
}

int trace_db_votes(struct db *db, int64_t start, struct vote ret[VOTES_MAX],
		   size_t *ret_n, struct error *err)
{
	struct load_votes l = { .start = start, .votes = { .v = ret } };
	int rc = db_run(db, DB_ALONE, load_votes_of, &l, err);

	if (rc < 0) {
		votes_free(ret, l.votes.n);
		return rc;
	}
	*ret_n = l.votes.n;
	return 0;
}

struct load_blob {
	int64_t start;
	const struct vote *vote;
	struct buf *ret;
};

static int note_blob(void *arg, const struct db_value *row)
{
	struct load_blob *l = arg;

	return buf_append(l->ret, row[0].data, row[0].len);
}

static int load_blob(struct db_conn *c, void *arg, struct error *err)
{
	struct load_blob *l = arg;

	buf_reset(l->ret);
	return DB_QUERY(c, SQL_VOTE, note_blob, l, err, DB_INT(l->start),
			db_text(l->vote->token), db_text(l->vote->node));
}

int trace_db_vote(struct db *db, int64_t start, const struct vote *v,
		  struct buf *ret, struct error *err)
{
	struct load_blob l = { .start = start, .vote = v, .ret = ret };
	int n = db_run(db, DB_ALONE, load_blob, &l, err);

	if (n == 0)
		return error_set(err, ENOENT, "the recording has gone");
	return n < 0 ? n : 0;
}

/* ----------------------------------------------------------------------- put --- */

struct put {
	const struct trace_limits *l;
	const struct trace_recording *r;
	int64_t now, start;
	enum verdict *ret;
	unsigned int *evicted;
};

static int judge_start(struct db_conn *c, struct put *p, struct error *err)
{
	struct vote v[VOTES_MAX];
	struct votes votes = { .v = v };
	size_t at = 0;
	int rc = load_votes(c, p->start, &votes, err);

	if (rc == 0)
		*p->ret = retention_judge(v, votes.n, p->r->token, p->r->node,
					  p->now, &at);
	if (rc == 0 && *p->ret == VERDICT_DISPLACE && p->l)
		rc = DB_QUERY(c, SQL_VOTE_REMOVE, NULL, NULL, err,
			      DB_INT(p->start), db_text(v[at].token),
			      db_text(v[at].node));
	votes_free(v, votes.n);
	return rc < 0 ? rc : 0;
}

static int judge_only_recording(struct db_conn *c, void *arg, struct error *err)
{
	struct put *p = arg;
	const struct trace_recording *r = p->r;
	struct start s = { .id = 0 };
	int n = DB_QUERY(c, SQL_FIND_OWN, read_start_row, &s, err,
			 db_text(r->image), db_text(r->workload),
			 db_text(r->repo), db_text(r->repo));

	*p->ret = VERDICT_STORE;
	p->start = s.id;
	return n > 0 ? judge_start(c, p, err) : n;
}

int trace_db_judge(struct db *db, const struct trace_recording *r, int64_t now,
		   enum verdict *ret, struct error *err)
{
	struct put p = { .r = r, .now = now, .ret = ret };

	return db_run(db, DB_ALONE, judge_only_recording, &p, err);
}

static int remove_start(struct db_conn *c, int64_t id, struct put *p,
			struct error *err)
{
	int n = DB_QUERY(c, SQL_REMOVE, NULL, NULL, err, DB_INT(id));

	*p->evicted += n > 0;
	return n < 0 ? n : 0;
}

struct voter {
	int64_t hourly, bytes;
};

static int note_voter(void *arg, const struct db_value *row)
{
	struct voter *v = arg;

	v->hourly = row[0].n;
	v->bytes = row[1].n;
	return 0;
}

static int query_voter(struct db_conn *c, const struct put *p,
		       struct voter *ret, struct error *err)
{
	int n = DB_QUERY(c, SQL_VOTER, note_voter, ret, err,
			 DB_INT(p->now - 3600), db_text(p->r->token),
			 db_text(p->r->node));

	return n < 0 ? n : 0;
}

/* Enforce the node's limit of bytes by deleting its own older recordings. */
static int bound_voter(struct db_conn *c, struct put *p, struct error *err)
{
	struct voter v = { 0 };
	int64_t start;
	int n = query_voter(c, p, &v, err);

	for (unsigned int i = 0; n == 0 && i < EVICT_MAX; i++) {
		if ((uint64_t)v.bytes <= p->l->node_bytes)
			return 0;
		n = DB_QUERY(c, SQL_VOTER_OLDEST, db_take_number, &start, err,
			     db_text(p->r->token), db_text(p->r->node),
			     DB_INT(p->start));
		if (n <= 0)
			return n;
		n = DB_QUERY(c, SQL_VOTE_REMOVE, NULL, NULL, err, DB_INT(start),
			     db_text(p->r->token), db_text(p->r->node));
		if (n >= 0)
			n = DB_QUERY(c, SQL_SUM, NULL, NULL, err,
				     DB_INT(start));
		if (n >= 0)
			n = DB_QUERY(c, SQL_REMOVE_EMPTY, NULL, NULL, err,
				     DB_INT(start));
		if (n >= 0)
			n = query_voter(c, p, &v, err);
	}
	return n < 0 ? n : 0;
}

/* Enforce the repository's limit of bytes by deleting its least recently used starts. */
static int bound_repo(struct db_conn *c, struct put *p, const char *repo,
		      uint64_t max, struct error *err)
{
	int64_t bytes = 0, id;
	int n;

	for (unsigned int i = 0; i < EVICT_MAX; i++) {
		n = DB_QUERY(c, SQL_REPO_BYTES, db_take_number, &bytes, err,
			     db_text(repo));
		if (n < 0 || (uint64_t)bytes <= max)
			return n < 0 ? n : 0;
		n = DB_QUERY(c, SQL_REPO_OLDEST, db_take_number, &id, err,
			     db_text(repo), DB_INT(p->start));
		if (n > 0)
			n = remove_start(c, id, p, err);
		else
			return n;
		if (n < 0)
			return n;
	}
	return 0;
}

static int put_vote(struct db_conn *c, struct put *p, struct error *err)
{
	const struct trace_recording *r = p->r;
	const struct trace_info *i = r->info;
	int n = DB_QUERY(c, SQL_VOTE_PUT, NULL, NULL, err, DB_INT(p->start),
			 db_text(r->token), db_text(r->node), DB_INT(p->now),
			 DB_INT(r->len), DB_INT(r->memory),
			 db_blob(r->data, r->len));

	if (n >= 0)
		n = DB_QUERY(c, SQL_SUMMARY, NULL, NULL, err, DB_INT(p->now),
			     DB_INT(i->created_at), DB_INT(i->window_ms),
			     DB_INT(i->ready_ms), DB_INT(r->entries),
			     DB_INT(i->truncated), DB_INT(p->start));
	if (n >= 0)
		n = DB_QUERY(c, SQL_SUM, NULL, NULL, err, DB_INT(p->start));
	return n < 0 ? n : 0;
}

static int put_recording(struct db_conn *c, void *arg, struct error *err)
{
	struct put *p = arg;
	const struct trace_recording *r = p->r;
	struct voter v = { 0 };
	int rc;

	*p->evicted = 0;
	/* Lock the start's row, so that votes are counted by one transaction at a time. */
	rc = DB_QUERY(c, SQL_TOUCH, db_take_number, &p->start, err,
		      db_text(r->repo), db_text(r->image), db_text(r->workload),
		      DB_INT(p->now), DB_INT(p->now - UNUSED_S));
	if (rc < 0)
		return rc;
	rc = judge_start(c, p, err);
	if (rc == 0 &&
	    (*p->ret == VERDICT_ENOUGH || *p->ret == VERDICT_TOO_SOON))
		return -ECANCELED;
	if (rc == 0 && *p->ret != VERDICT_REPLACE)
		rc = query_voter(c, p, &v, err);
	if (rc == 0 && (uint64_t)v.hourly >= p->l->node_hourly)
		return error_set(err, EDQUOT,
				 "node '%s' has sent too many starts within "
				 "the hour",
				 r->node);
	if (rc == 0)
		rc = put_vote(c, p, err);
	if (rc == 0)
		rc = bound_voter(c, p, err);
	return rc == 0 ? bound_repo(c, p, r->repo, p->l->repo_bytes, err) : rc;
}

int trace_db_put(struct db *db, const struct trace_limits *l,
		 const struct trace_recording *r, int64_t now,
		 enum verdict *ret, unsigned int *ret_evicted,
		 struct error *err)
{
	struct put p = {
		.l = l, .r = r, .now = now, .ret = ret, .evicted = ret_evicted
	};
	int rc = db_run(db, DB_WRITE, put_recording, &p, err);

	/* Nothing was stored; the verdict says why. */
	return rc == -ECANCELED ? 0 : rc;
}

/* ----------------------------------------------------------------------- hot --- */

struct hot_arg {
	int64_t start;
	struct hot_row *row;
	const struct hot_row *put;
};

static int read_hot_list_row(void *arg, const struct db_value *row)
{
	struct hot_row *h = arg;

	h->version = row[0].n;
	h->made_ms = row[1].n;
	h->votes = row[2].n;
	return buf_append(&h->trace, row[3].data, row[3].len);
}

static int load_hot(struct db_conn *c, void *arg, struct error *err)
{
	struct hot_arg *h = arg;

	buf_reset(&h->row->trace);
	return DB_QUERY(c, SQL_HOT, read_hot_list_row, h->row, err,
			DB_INT(h->start));
}

int trace_db_hot(struct db *db, int64_t start, struct hot_row *ret,
		 struct error *err)
{
	struct hot_arg h = { .start = start, .row = ret };
	int n = db_run(db, DB_ALONE, load_hot, &h, err);

	return n == 0 ? -ENOENT : n < 0 ? n : 0;
}

static int put_hot(struct db_conn *c, void *arg, struct error *err)
{
	const struct hot_arg *h = arg;
	/* Lock the start's row, and check that it still exists. */
	int n = DB_QUERY(c, SQL_SUM, NULL, NULL, err, DB_INT(h->start));

	if (n <= 0)
		return n;
	n = DB_QUERY(c, SQL_HOT_PUT, NULL, NULL, err, DB_INT(h->start),
		     DB_INT(h->put->version), DB_INT(h->put->made_ms),
		     DB_INT(h->put->votes), DB_INT(h->put->trace.len),
		     db_blob(h->put->trace.data, h->put->trace.len));
	return n < 0 ? n
		     : DB_QUERY(c, SQL_SUM, NULL, NULL, err, DB_INT(h->start));
}

int trace_db_hot_put(struct db *db, int64_t start, const struct hot_row *row,
		     struct error *err)
{
	struct hot_arg h = { .start = start, .put = row };
	int n = db_run(db, DB_WRITE, put_hot, &h, err);

	return n < 0 ? n : 0;
}

/* ------------------------------------------------------------- list and forget --- */

struct trace_list {
	const char *image, *repo, *workload, *prefix;
	int64_t limit;
	int (*each)(void *arg, const struct start_line *l);
	void *arg;
};

static int show_start_line_row(void *arg, const struct db_value *row)
{
	const struct trace_list *l = arg;
	const struct start_line line = {
		.repo = row[0].data,
		.image = row[1].data,
		.workload = row[2].data,
		.votes = row[3].n,
		.bytes = row[4].n,
		.newest = row[5].n,
		.used = row[6].n,
		.created = row[7].n,
		.window_ms = row[8].n,
		.ready_ms = row[9].n,
		.entries = row[10].n,
		.truncated = row[11].n,
	};

	return l->each(l->arg, &line);
}

static int list_starts(struct db_conn *c, void *arg, struct error *err)
{
	struct trace_list *l = arg;

	if (l->image)
		return DB_QUERY(c, SQL_LIST_IMAGE, show_start_line_row, l, err,
				db_text(l->image), db_text(l->prefix),
				db_text(l->repo), DB_INT(l->limit));
	return DB_QUERY(c, SQL_LIST_REPO, show_start_line_row, l, err,
			db_text(l->repo), DB_INT(l->limit));
}

int trace_db_list(struct db *db, const char *image, const char *repo,
		  const char *prefix, int64_t limit,
		  int (*each)(void *arg, const struct start_line *l), void *arg,
		  struct error *err)
{
	struct trace_list l = { .image = image,
				.repo = repo,
				.prefix = prefix,
				.limit = limit,
				.each = each,
				.arg = arg };
	int n = db_run(db, DB_ALONE, list_starts, &l, err);

	return n < 0 ? n : 0;
}

struct donor_list {
	int (*each)(void *arg, const struct donor_line *l);
	void *arg;
};

static int note_donor(void *arg, const struct db_value *row)
{
	struct donor_list *l = arg;
	struct donor_line line = { .repo = row[1].data };
	int rc = read_start_row(&line.start, row);

	return rc < 0 ? rc : l->each(l->arg, &line);
}

static int list_donors(struct db_conn *c, void *arg, struct error *err)
{
	return DB_QUERY(c, SQL_LIST_DONORS, note_donor, arg, err,
			DB_INT(DONOR_LINES_MAX));
}

int trace_db_donors(struct db *db,
		    int (*each)(void *arg, const struct donor_line *l),
		    void *arg, struct error *err)
{
	struct donor_list l = { .each = each, .arg = arg };
	int n = db_run(db, DB_ALONE, list_donors, &l, err);

	return n < 0 ? n : 0;
}

static int forget_traces(struct db_conn *c, void *arg, struct error *err)
{
	const struct trace_list *l = arg;

	return DB_QUERY(c, SQL_FORGET, NULL, NULL, err, db_text(l->image),
			db_text(l->workload), db_text(l->repo),
			db_text(l->prefix));
}

int trace_db_forget(struct db *db, const char *image, const char *workload,
		    const char *repo, const char *prefix, struct error *err)
{
	struct trace_list l = { .image = image,
				.workload = workload,
				.repo = repo,
				.prefix = prefix };

	return db_run(db, DB_WRITE, forget_traces, &l, err);
}

/* --------------------------------------------------------------------- sweep --- */

struct trace_sweep {
	const struct trace_limits *l;
	int64_t now;
	struct trace_totals *ret;
	struct put put;
};

static int read_trace_totals_row(void *arg, const struct db_value *row)
{
	struct trace_totals *t = arg;

	t->starts = (uint64_t)row[0].n;
	t->votes = (uint64_t)row[1].n;
	t->bytes = (uint64_t)row[2].n;
	return 0;
}

static int copy_repo_of_row(void *arg, const struct db_value *row)
{
	*(char **)arg = db_strdup(&row[0]);
	return *(char **)arg ? 0 : -ENOMEM;
}

/* Enforce the total limit by deleting the least recently used starts of the largest repository, so
 * that a flood of recordings hurts only its own repository. */
static int bound_total(struct db_conn *c, struct trace_sweep *s,
		       struct error *err)
{
	int n = db_query(c, SQL_TOTAL, NULL, 0, read_trace_totals_row, s->ret,
			 err);

	for (unsigned int i = 0; n >= 0 && i < EVICT_MAX; i++) {
		AUTO_FREE char *repo = NULL;
		int64_t id;

		if (s->ret->bytes <= s->l->total_bytes)
			return 0;
		n = db_query(c, SQL_REPO_LARGEST, NULL, 0, copy_repo_of_row,
			     &repo, err);
		if (n <= 0)
			return n;
		n = DB_QUERY(c, SQL_REPO_OLDEST, db_take_number, &id, err,
			     db_text(repo), DB_INT(0));
		if (n > 0)
			n = remove_start(c, id, &s->put, err);
		if (n >= 0)
			n = db_query(c, SQL_TOTAL, NULL, 0,
				     read_trace_totals_row, s->ret, err);
	}
	return n < 0 ? n : 0;
}

static int sweep_starts(struct db_conn *c, void *arg, struct error *err)
{
	struct trace_sweep *s = arg;
	int n;

	*s->put.evicted = 0;
	n = DB_QUERY(c, SQL_EXPIRE, NULL, NULL, err,
		     DB_INT(s->now - s->l->retention_s), DB_INT(SWEEP_MAX));
	if (n < 0)
		return n;
	*s->put.evicted += (unsigned int)n;
	return bound_total(c, s, err);
}

int trace_db_sweep(struct db *db, const struct trace_limits *l, int64_t now,
		   struct trace_totals *ret, unsigned int *ret_evicted,
		   struct error *err)
{
	struct trace_sweep s = { .l = l,
				 .now = now,
				 .ret = ret,
				 .put = { .evicted = ret_evicted } };

	memset(ret, 0, sizeof(*ret));
	return db_run(db, DB_WRITE, sweep_starts, &s, err);
}

static int note_nothing(void *arg, const struct db_value *row)
{
	return 0;
}

static int run_ping(struct db_conn *c, void *arg, struct error *err)
{
	int n = db_query(c, SQL_PING, NULL, 0, note_nothing, NULL, err);

	return n < 0 ? n : 0;
}

int trace_db_ping(struct db *db, struct error *err)
{
	return db_run(db, DB_ALONE, run_ping, NULL, err);
}
