// SPDX-License-Identifier: Apache-2.0
#include "registry/stage_db.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "registry/ckpt_parts.h"
#include "registry/db.h"
#include "registry/schema.h"

#define SWEEP_MAX 1000 /* starts deleted at once */
/* Changed nodes that are read one by one; if more changed, reading all nodes is faster. */
#define CHANGED_MAX 4000

/* -------------------------------------------------------------------- lines --- */

/* Get the next line of the batch; false: at the end. */
static bool next_line(const struct stage_batch *b, size_t *pos,
		      struct stage_text *ret)
{
	const char *nl;

	if (*pos >= b->len)
		return false;
	ret->s = b->text + *pos;
	nl = memchr(ret->s, '\n', b->len - *pos);
	ret->n = nl ? (size_t)(nl - ret->s) : b->len - *pos;
	*pos += ret->n + 1;
	return true;
}

static int read_line(const struct stage_batch *b, struct stage_text line,
		     struct stage_event *e)
{
	struct stage_scan at = { .pos = 0 };

	if (stage_line_next(line.s, line.n, &at, e) != STAGE_FOUND_EVENT ||
	    at.pos != line.n || memcmp(line.s, STAGE_MARKER, 8) != 0)
		return -EINVAL;
	if (!e->job.n || e->id < 0 || (e->ts_ns < 0 && e->mono_ns < 0))
		return -EINVAL;
	/* Without a wall-clock time, only a clock exchange of the same boot places the event in
	 * time. */
	if (e->ts_ns < 0 && (!b->has_clock || b->clock.boot != e->boot))
		return -EINVAL;
	if (e->node.n && (e->node.n != strlen(b->node) ||
			  memcmp(e->node.s, b->node, e->node.n) != 0))
		return -EINVAL;
	return 0;
}

int stage_batch_check(const struct stage_batch *b, struct error *err)
{
	struct stage_text line;
	struct stage_event e;
	unsigned int n = 0;
	size_t pos = 0;

	while (next_line(b, &pos, &line)) {
		n++;
		if (read_line(b, line, &e) < 0)
			return error_set(err, EINVAL,
					 "line %u is no event of node '%s' "
					 "with stage, ev, job, id, crc and ts",
					 n, b->node);
	}
	return 0;
}

/* ---------------------------------------------------------------------- put --- */

/* The start that the current lines belong to, and the changes to its row. */
struct put_start {
	char job[STAGE_JOB_MAX + 1];
	int64_t attempt, id, events, of_node, revision;
	int64_t stored, first_ns, last_ns, ready_ns;
	char image[STAGE_IMAGE_MAX + 1], label[STAGE_NAME_MAX + 1];
	bool is_open;
	bool has_new_clock, is_new_node, is_placed;
	/* Rows collected for one statement, which saves round trips. */
	struct stage_event rows[STAGE_PUT_ROWS];
	size_t n_rows;
	struct ckpt_parts *parts; /* parts of this node in this start */
};

static void copy_text(char *to, struct stage_text t)
{
	memcpy(to, t.s, t.n);
	to[t.n] = '\0';
}

/* Copy the namespace of the job's pod: the text before the first slash. */
static void copy_namespace_of_job(char *to, struct stage_text job)
{
	const char *slash = memchr(job.s, '/', job.n);

	job.n = slash ? (size_t)(slash - job.s) : 0;
	copy_text(to, job);
}

static int read_touched_start_row(void *arg, const struct db_value *row)
{
	struct put_start *s = arg;

	s->id = row[0].n;
	s->events = row[1].n;
	s->revision = row[2].n;
	return 0;
}

/* Open the start that the event belongs to. Locks its row, so that events are counted by one
 * transaction at a time. */
static int open_start(struct db_conn *c, const struct stage_batch *b,
		      const struct stage_event *e, struct put_start *s,
		      struct error *err)
{
	const struct start_clock *k = &b->clock;
	char space[STAGE_JOB_MAX + 1];
	int n;

	*s = (struct put_start){ .attempt = e->attempt < 0 ? 0 : e->attempt,
				 .is_open = true,
				 .first_ns = INT64_MAX,
				 .parts = s->parts };
	copy_text(s->job, e->job);
	copy_namespace_of_job(space, e->job);
	n = DB_QUERY(c, SQL_JOB_TOUCH, read_touched_start_row, s, err,
		     db_text(s->job), DB_INT(s->attempt), DB_INT(b->now),
		     db_text(space));
	s->parts->start = s->id;
	s->parts->node = b->node;
	if (n >= 0)
		n = DB_QUERY(c, SQL_STAGE_COUNT, db_take_number, &s->of_node,
			     err, DB_INT(s->id), db_text(b->node));
	if (n >= 0 && b->has_clock)
		n = DB_QUERY(c, SQL_STAGE_CLOCK_PUT, NULL, NULL, err,
			     DB_INT(s->id), db_text(b->node), DB_INT(k->boot),
			     DB_INT(k->mono_offset_ns),
			     DB_INT(k->wall_offset_ns), DB_INT(k->rtt_ns));
	s->is_new_node = s->of_node == 0;
	s->has_new_clock = b->has_clock && n > 0;
	return n < 0 ? n : 0;
}

static bool is_start_of_event(const struct put_start *s,
			      const struct stage_event *e)
{
	return s->is_open && s->attempt == (e->attempt < 0 ? 0 : e->attempt) &&
	       strlen(s->job) == e->job.n &&
	       memcmp(s->job, e->job.s, e->job.n) == 0;
}

static void note_time(struct put_start *s, const struct stage_batch *b,
		      const struct stage_event *e)
{
	bool by_mono =
		b->has_clock && e->mono_ns >= 0 && e->boot == b->clock.boot;
	int64_t wall = b->has_clock ? b->clock.wall_offset_ns : 0;
	int64_t at = by_mono ? e->mono_ns + b->clock.mono_offset_ns
			     : e->ts_ns + wall;
	int64_t most = (b->now + 1) * NS_PER_S;

	/* Bound the time by now: otherwise the start of a node whose clock is ahead would stay
	 * first in lists. */
	if (at > most)
		at = most;
	if (at < s->first_ns)
		s->first_ns = at;
	if (at > s->last_ns)
		s->last_ns = at;
	if (e->ev == STAGE_MARK && at > s->ready_ns &&
	    e->stage.n == strlen(START_READY_MARK) &&
	    memcmp(e->stage.s, START_READY_MARK, e->stage.n) == 0)
		s->ready_ns = at;
}

static void note_labels(struct put_start *s, const struct stage_event *e)
{
	if (e->image.n)
		copy_text(s->image, e->image);
	if (e->label.n)
		copy_text(s->label, e->label);
}

/* Store the rows [from, from + n) with one statement. */
static int put_rows(struct db_conn *c, struct stage_batch *b,
		    struct put_start *s, size_t from, size_t n,
		    struct error *err)
{
	struct db_value v[DB_PARAMS_MAX] = { DB_INT(s->id), db_text(b->node) };
	char stages[STAGE_PUT_ROWS][STAGE_NAME_MAX + 1];
	AUTO_BUF facts = BUF_INIT;
	size_t at[STAGE_PUT_ROWS], k = 2;
	int put;

	/* Format all texts before using their addresses: the buffer may move while it grows. */
	for (size_t i = 0; i < n; i++) {
		at[i] = facts.len;
		if (stage_facts_format(s->rows[from + i].facts, &facts) < 0 ||
		    buf_append(&facts, "", 1) < 0)
			return error_nomem(err);
	}

	for (size_t i = 0; i < n; i++) {
		const struct stage_event *e = &s->rows[from + i];

		copy_text(stages[i], e->stage);
		v[k++] = DB_INT(e->id);
		v[k++] = db_text(stages[i]);
		v[k++] = DB_INT(e->ev);
		v[k++] = DB_INT(e->ts_ns);
		v[k++] = DB_INT(e->mono_ns);
		v[k++] = DB_INT(e->boot);
		v[k++] = DB_INT(e->rank);
		v[k++] = DB_INT(e->status);
		v[k++] = db_text(facts.data + at[i]);
	}
	put = db_query(c, n > 1 ? SQL_STAGE_PUT_ROWS : SQL_STAGE_PUT, v, k,
		       NULL, NULL, err);
	if (put < 0)
		return put;
	b->stored += (uint64_t)put;
	b->doubles += n - (uint64_t)put;
	s->stored += put;
	s->events += put;
	s->of_node += put;
	return put ? ckpt_parts_add(c, s->parts, s->rows + from, n,
				    (size_t)put == n, err)
		   : 0;
}

static int flush_rows(struct db_conn *c, struct stage_batch *b,
		      struct put_start *s, struct error *err)
{
	int rc = 0;

	if (s->n_rows == STAGE_PUT_ROWS)
		rc = put_rows(c, b, s, 0, s->n_rows, err);
	else
		for (size_t i = 0; i < s->n_rows && rc == 0; i++)
			rc = put_rows(c, b, s, i, 1, err);
	s->n_rows = 0;
	if (rc == 0 && (s->of_node > STAGE_NODE_EVENTS_MAX ||
			s->events > START_EVENTS_MAX))
		return error_set(err, EFBIG,
				 "this start of job '%s' would have more than "
				 "%u events, or than %u of node '%s'",
				 s->job, START_EVENTS_MAX,
				 STAGE_NODE_EVENTS_MAX, b->node);
	return rc;
}

static int put_event(struct db_conn *c, struct stage_batch *b,
		     struct put_start *s, const struct stage_event *e,
		     struct error *err)
{
	s->rows[s->n_rows++] = *e;
	note_time(s, b, e);
	note_labels(s, e);
	s->is_placed |= start_stage_is_placing(e->stage);
	return s->n_rows == STAGE_PUT_ROWS ? flush_rows(c, b, s, err) : 0;
}

static int close_start(struct db_conn *c, struct stage_batch *b,
		       struct put_start *s, struct error *err)
{
	int n = flush_rows(c, b, s, err);

	if (n == 0)
		n = ckpt_parts_close(c, s->parts, err);
	if (n == 0 && (s->stored || s->has_new_clock))
		n = DB_QUERY(c, SQL_STAGE_NODE_SUM, NULL, NULL, err,
			     DB_INT(s->id), db_text(b->node), DB_INT(s->stored),
			     DB_INT(s->revision));
	if (n < 0)
		return n;
	n = 0;
	if (n == 0 && s->stored)
		n = DB_QUERY(c, SQL_JOB_SUM, NULL, NULL, err, DB_INT(s->stored),
			     DB_INT(s->first_ns), DB_INT(s->last_ns),
			     DB_INT(s->ready_ns), db_text(s->image),
			     db_text(s->label), db_text(b->node),
			     DB_INT(s->is_new_node), DB_INT(s->is_placed),
			     DB_INT(s->id));
	return n < 0 ? n : 0;
}

static int put_lines(struct db_conn *c, struct stage_batch *b,
		     struct put_start *s, struct error *err)
{
	struct stage_text line;
	struct stage_event e;
	size_t pos = 0;
	int rc = 0;

	while (rc == 0 && next_line(b, &pos, &line)) {
		rc = read_line(b, line, &e);
		if (rc == 0 && !is_start_of_event(s, &e)) {
			rc = close_start(c, b, s, err);
			if (rc == 0)
				rc = open_start(c, b, &e, s, err);
		}
		if (rc == 0)
			rc = put_event(c, b, s, &e, err);
	}
	return rc == 0 ? close_start(c, b, s, err) : rc;
}

static int put_batch(struct db_conn *c, void *arg, struct error *err)
{
	AUTO_FINI(ckpt_parts) parts = CKPT_PARTS_INIT;
	struct put_start s = { .parts = &parts };
	struct stage_batch *b = arg;

	b->stored = b->doubles = 0;
	return put_lines(c, b, &s, err);
}

int stage_db_put(struct db *db, struct stage_batch *b, struct error *err)
{
	return db_run(db, DB_WRITE, put_batch, b, err);
}

/* --------------------------------------------------------------- list and get --- */

struct job_query {
	int64_t id, limit;
	const struct job_filter *filter;
	int (*each)(void *arg, const struct job_start *s);
	void *arg;
	enum statement events; /* statement that reads the wanted events */
	const struct stage_base *base;
	char **changed; /* nodes with new events since the base */
	size_t n_changed;
	struct start_set *set;
	int64_t left_out;
	bool is_wanted; /* the caller wants the events, not only the head */
	struct error *err;
};

static int note_job(void *arg, const struct db_value *row)
{
	struct job_query *q = arg;
	const struct job_start s = {
		.id = row[0].n,
		.job = row[1].data,
		.attempt = row[2].n,
		.first_ns = row[3].n,
		.last_ns = row[4].n,
		.ready_ns = row[5].n,
		.events = row[6].n,
		.received = row[7].n,
		.image = row[8].data,
		.label = row[9].data,
		.revision = row[10].n,
		.nodes = row[11].n,
		.summary = row[12].data,
		.is_placed = row[13].n != 0,
		.later = row[14].n,
		.was_placed = row[15].n != 0,
	};
	int rc = q->each(q->arg, &s);

	if (rc > 0)
		q->is_wanted = true;
	return rc < 0 ? rc : 0;
}

static int list_jobs(struct db_conn *c, void *arg, struct error *err)
{
	struct job_query *q = arg;

	return DB_QUERY(c, SQL_JOB_LIST, note_job, q, err,
			db_text(q->filter->job), db_text(q->filter->image),
			db_text(q->filter->label), DB_INT(q->limit));
}

int stage_db_list(struct db *db, const struct job_filter *f, int64_t limit,
		  int (*each)(void *arg, const struct job_start *s), void *arg,
		  struct error *err)
{
	struct job_query q = {
		.filter = f, .limit = limit, .each = each, .arg = arg
	};
	int n = db_run(db, DB_ALONE, list_jobs, &q, err);

	return n < 0 ? n : 0;
}

static int add_event(void *arg, const struct start_event *e)
{
	struct job_query *q = arg;
	int rc = start_set_add(q->set, e, q->err);

	/* Events beyond the limit are only counted: a node that floods a start must not make it
	 * unreadable. */
	q->left_out += rc == -EFBIG;
	return rc == -EFBIG ? 0 : rc;
}

static int note_event(void *arg, const struct db_value *row)
{
	uint64_t facts[STAGE_FACTS];
	bool has_facts = stage_facts_parse(row[8].data, facts);
	const struct start_event e = {
		.node = row[0].data,
		.stage = row[1].data,
		.ev = (enum stage_ev)row[2].n,
		.ts_ns = row[3].n,
		.mono_ns = row[4].n,
		.boot = (uint64_t)row[5].n,
		.rank = row[6].n,
		.status = row[7].n,
		.facts = has_facts ? facts : NULL,
	};

	return add_event(arg, &e);
}

static int note_clock(void *arg, const struct db_value *row)
{
	const struct job_query *q = arg;
	const struct start_clock c = {
		.boot = (uint64_t)row[1].n,
		.mono_offset_ns = row[2].n,
		.wall_offset_ns = row[3].n,
		.rtt_ns = row[4].n,
	};
	int rc = start_set_clock(q->set, row[0].data, &c, q->err);

	return rc == -EFBIG ? 0 : rc;
}

static int add_changed_node_row(void *arg, const struct db_value *row)
{
	struct job_query *q = arg;
	char *node = strdup(row[0].data);

	if (!node)
		return -ENOMEM;
	q->changed[q->n_changed++] = node;
	return 0;
}

static void drop_changed(struct job_query *q)
{
	for (size_t i = 0; i < q->n_changed; i++)
		free(q->changed[i]);
	free(q->changed);
	q->changed = NULL;
	q->n_changed = 0;
}

static int get_all_events(struct db_conn *c, struct job_query *q,
			  struct error *err)
{
	int rc = start_set_new(&q->set, err), is_packed = 0;

	if (rc == 0 && q->events == SQL_CKPT_EVENTS)
		is_packed = ckpt_parts_are_whole(c, q->id, err);
	if (rc < 0 || is_packed < 0)
		return rc < 0 ? rc : is_packed;
	return is_packed ? ckpt_parts_each(c, q->id, add_event, q, err)
			 : DB_QUERY(c, q->events, note_event, q, err,
				    DB_INT(q->id));
}

/* Find the nodes that changed since the base; if there are too many, read all. */
static int get_changed(struct db_conn *c, struct job_query *q,
		       struct error *err)
{
	int n;

	q->changed = calloc(CHANGED_MAX + 1, sizeof(*q->changed));
	if (!q->changed)
		return error_nomem(err);
	n = DB_QUERY(c, SQL_STAGE_CHANGED, add_changed_node_row, q, err,
		     DB_INT(q->id), DB_INT(q->base->revision),
		     DB_INT(CHANGED_MAX + 1));
	if (n > CHANGED_MAX)
		return get_all_events(c, q, err);
	if (n >= 0)
		n = start_set_copy(q->base->set,
				   (const char *const *)q->changed,
				   q->n_changed, &q->set, err);
	for (size_t i = 0; n >= 0 && i < q->n_changed; i++)
		n = DB_QUERY(c, SQL_STAGE_NODE_EVENTS, note_event, q, err,
			     DB_INT(q->id), db_text(q->changed[i]));
	return n;
}

static int get_job(struct db_conn *c, void *arg, struct error *err)
{
	struct job_query *q = arg;
	int n = DB_QUERY(c, SQL_JOB_GET, note_job, q, err, DB_INT(q->id));

	if (n == 0)
		return error_set(err, ENOENT, "there is no such start");
	q->err = err;
	if (n < 0 || !q->is_wanted)
		return n < 0 ? n : 0;
	n = q->base->set ? get_changed(c, q, err) : get_all_events(c, q, err);
	if (n >= 0)
		n = DB_QUERY(c, SQL_STAGE_CLOCKS, note_clock, q, err,
			     DB_INT(q->id));
	return n < 0 ? n : 0;
}

static int run_job_query(struct db *db, struct job_query *q,
			 struct start_set **ret, int64_t *ret_left_out,
			 struct error *err)
{
	int rc = db_run(db, DB_ALONE, get_job, q, err);

	drop_changed(q);
	if (rc < 0) {
		start_set_free(q->set);
		return rc;
	}
	*ret = q->set;
	*ret_left_out = q->left_out;
	return 0;
}

int stage_db_get(struct db *db, int64_t id,
		 int (*each)(void *arg, const struct job_start *s), void *arg,
		 const struct stage_base *base, struct start_set **ret,
		 int64_t *ret_left_out, struct error *err)
{
	struct job_query q = { .id = id,
			       .each = each,
			       .arg = arg,
			       .events = SQL_STAGE_EVENTS,
			       .base = base };

	return run_job_query(db, &q, ret, ret_left_out, err);
}

int stage_db_get_ckpt(struct db *db, int64_t id,
		      int (*each)(void *arg, const struct job_start *s),
		      void *arg, struct start_set **ret, int64_t *ret_left_out,
		      struct error *err)
{
	static const struct stage_base nothing = { .set = NULL };
	struct job_query q = { .id = id,
			       .each = each,
			       .arg = arg,
			       .events = SQL_CKPT_EVENTS,
			       .base = &nothing };

	return run_job_query(db, &q, ret, ret_left_out, err);
}

/* ------------------------------------------------------------- not training --- */

static int note_open_jobs(void *arg, const struct db_value *row)
{
	struct job_open *o = arg;

	o->starts = row[0].n;
	o->silent = row[1].n;
	o->silent_ns = o->now_ns > row[2].n ? o->now_ns - row[2].n : 0;
	return 0;
}

static int count_open(struct db_conn *c, void *arg, struct error *err)
{
	struct job_open *o = arg;
	int n = DB_QUERY(c, SQL_JOB_OPEN, note_open_jobs, o, err,
			 DB_INT(o->now_ns - JOB_SILENT_NS), DB_INT(o->now_ns),
			 DB_INT(o->now_ns - JOB_OPEN_NS));

	return n < 0 ? n : 0;
}

int stage_db_count_open(struct db *db, struct job_open *ret, struct error *err)
{
	return db_run(db, DB_ALONE, count_open, ret, err);
}

static int read_other_attempts_row(void *arg, const struct db_value *row)
{
	struct job_start *s = arg;

	s->later = row[0].n;
	s->was_placed = row[1].n != 0;
	return 0;
}

static int query_other_attempts(struct db_conn *c, void *arg, struct error *err)
{
	struct job_start *s = arg;
	int n = DB_QUERY(c, SQL_JOB_OTHERS, read_other_attempts_row, s, err,
			 DB_INT(s->id));

	return n < 0 ? n : 0;
}

int stage_db_others(struct db *db, struct job_start *s, struct error *err)
{
	return db_run(db, DB_ALONE, query_other_attempts, s, err);
}

enum start_class job_start_class(const struct job_start *s)
{
	return start_class_of(s->is_placed, s->was_placed);
}

bool job_start_is_open(const struct job_start *s, int64_t now_ns)
{
	return !s->ready_ns && !s->later && s->last_ns > now_ns - JOB_OPEN_NS;
}

/* -------------------------------------------------------------------- sweep --- */

static int sweep_jobs(struct db_conn *c, void *arg, struct error *err)
{
	int64_t events = 0;
	int gone = DB_QUERY(c, SQL_JOB_EXPIRE, NULL, NULL, err,
			    DB_INT(*(const int64_t *)arg), DB_INT(SWEEP_MAX));
	int n = gone < 0 ? gone
			 : db_query(c, SQL_JOB_TOTAL, NULL, 0, db_take_number,
				    &events, err);

	for (int i = 0; n >= 0 && i < SWEEP_MAX; i++) {
		if (events <= STAGE_EVENTS_MAX)
			return gone;
		n = db_query(c, SQL_JOB_REMOVE_OLDEST, NULL, 0, NULL, NULL,
			     err);
		gone += n > 0 ? n : 0;
		if (n >= 0)
			n = db_query(c, SQL_JOB_TOTAL, NULL, 0, db_take_number,
				     &events, err);
	}
	return n < 0 ? n : gone;
}

int stage_db_sweep(struct db *db, int64_t before, struct error *err)
{
	return db_run(db, DB_WRITE, sweep_jobs, &before, err);
}
