// SPDX-License-Identifier: Apache-2.0
#include "registry/history_db.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "registry/db.h"
#include "registry/scale_sums.h"
#include "registry/schema.h"
#include "registry/starts_json.h"

#define DAY_S 86400
#define YEAR_MS INT64_C(31536000000)
#define DAY_TRIM 1000   /* rows deleted at once when a day has too many */
#define SCALE_TRIM 2000 /* starts deleted at once when there are too many */
/* nodes of a start whose earlier starts are looked up */
#define PAST_NODES_MAX 200u

/* --------------------------------------------------------------------- due --- */

struct due_query {
	int64_t now;
	int64_t *ids;
	size_t n, max;
};

static int note_due(void *arg, const struct db_value *row)
{
	struct due_query *q = arg;

	if (q->n < q->max)
		q->ids[q->n++] = row[0].n;
	return 0;
}

static int find_due(struct db_conn *c, void *arg, struct error *err)
{
	struct due_query *q = arg;

	return DB_QUERY(c, SQL_JOB_UNSUMMED, note_due, q, err,
			DB_INT(q->now - HISTORY_QUIET_S),
			DB_INT(q->now - HISTORY_QUIET_OPEN_S), DB_INT(q->now),
			DB_INT(q->max));
}

int history_db_due(struct db *db, int64_t now, int64_t *ids, size_t max,
		   struct error *err)
{
	struct due_query q = { .now = now, .ids = ids, .max = max };
	int rc = db_run(db, DB_ALONE, find_due, &q, err);

	return rc < 0 ? rc : (int)q.n;
}

struct failed_sum {
	enum history_sum what;
	int64_t id, now, tries;
};

static int put_failed(struct db_conn *c, void *arg, struct error *err)
{
	static const size_t statements[] = {
		[HISTORY_TIMES] = SQL_JOB_SUM_FAILED,
		[HISTORY_CKPT] = SQL_CKPT_SUM_FAILED,
	};
	struct failed_sum *q = arg;
	int n = DB_QUERY(c, statements[q->what], db_take_number, &q->tries, err,
			 DB_INT(HISTORY_TRIES),
			 DB_INT(q->now + HISTORY_ASIDE_S), DB_INT(q->now),
			 DB_INT(HISTORY_AGAIN_S), DB_INT(q->id));

	return n < 0 ? n : 0;
}

int history_db_failed(struct db *db, enum history_sum what, int64_t id,
		      int64_t now, struct error *err)
{
	struct failed_sum q = { what, id, now, 0 };
	int rc = db_run(db, DB_WRITE, put_failed, &q, err);

	return rc < 0 ? rc : q.tries >= HISTORY_TRIES;
}

/* --------------------------------------------------------------------- add --- */

/* For each node, the straggling stage that cost most: index of its blame plus 1; 0: none. */
static uint32_t *worst_blames(const struct start_found *f)
{
	uint32_t *v = calloc(f->report.n_nodes + 1, sizeof(*v));

	for (size_t i = 0; v && i < f->n_blames; i++) {
		uint32_t node = f->report.cells[f->blames[i].cell].node;

		if (!v[node] ||
		    f->blames[v[node] - 1].excess_ns < f->blames[i].excess_ns)
			v[node] = (uint32_t)i + 1;
	}
	return v;
}

/* Bound a time to a year, so that no wrong clock makes a sum overflow the database's integer. */
static int64_t convert_to_bounded_ms(int64_t ns)
{
	int64_t v = ns / NS_PER_MS;

	return v < 0 ? 0 : v < YEAR_MS ? v : YEAR_MS;
}

static int64_t bound_sum_ms(double s, uint64_t n)
{
	double most = (double)YEAR_MS * (double)n;

	return (int64_t)(s * 1000 < most ? s * 1000 : most);
}

/* When the start began, seconds since 1970. A node's clock may be ahead, which would keep the row
 * too long: bound the time by when the events were received. */
static int64_t begin_of_start_s(const struct start_found *f)
{
	int64_t at = f->report.begin_ns / NS_PER_S;

	return at < f->head.received ? at : f->head.received;
}

static int put_node_day(struct db_conn *c, const struct start_found *f,
			size_t node, bool slow, struct error *err)
{
	const struct start_report *r = &f->report;
	int64_t at = begin_of_start_s(f);
	int64_t excess_ns = r->nodes[node].busy_ns - r->spread.median_ns;

	return DB_QUERY(c, SQL_NODE_DAY_PUT, NULL, NULL, err,
			db_text(r->nodes[node].name), DB_INT(at / DAY_S),
			DB_INT(slow),
			DB_INT(slow ? convert_to_bounded_ms(excess_ns) : 0),
			DB_INT(slow ? at : 0));
}

static int put_nodes(struct db_conn *c, const struct start_found *f,
		     struct error *err)
{
	const struct start_report *r = &f->report;
	AUTO_FREE uint32_t *worst = worst_blames(f);
	int n = worst ? 0 : error_nomem(err);

	for (size_t i = 0; n >= 0 && i < r->n_nodes; i++) {
		const struct start_blame *b =
			worst[i] ? &f->blames[worst[i] - 1] : NULL;
		bool slow = b || r->nodes[i].is_straggler;

		if (!r->nodes[i].n_runs)
			continue;
		n = DB_QUERY(c, SQL_NODE_PUT, NULL, NULL, err,
			     db_text(r->nodes[i].name), DB_INT(f->head.id),
			     db_text(f->head.job), DB_INT(begin_of_start_s(f)),
			     DB_INT(convert_to_bounded_ms(r->nodes[i].busy_ns)),
			     DB_INT(convert_to_bounded_ms(r->spread.median_ns)),
			     DB_INT(slow),
			     db_text(b ? r->stages[b->within].name : ""),
			     db_text(b ? start_cause_name(b->cause) : ""));
		if (n > 0)
			n = put_node_day(c, f, i, slow, err);
		if (n >= 0)
			n = DB_QUERY(c, SQL_NODE_TRIM, NULL, NULL, err,
				     db_text(r->nodes[i].name),
				     DB_INT(HISTORY_NODE_STARTS));
	}
	return n < 0 ? n : 0;
}

static int put_day(struct db_conn *c, const struct start_found *f,
		   const char *stage, const struct start_spread *s,
		   int64_t job_ns, uint32_t slow, bool is_top,
		   struct error *err)
{
	const struct start_report *r = &f->report;
	const struct start_lost *lost = &r->lost;
	bool whole = !stage[0];
	/* At least 1, also when no node ended the stage: a row must not count fewer nodes than
	 * starts. */
	uint64_t nodes = s->n ? s->n : 1;

	return DB_QUERY(c, SQL_DAY_PUT, NULL, NULL, err,
			DB_INT(begin_of_start_s(f) / DAY_S),
			db_text(f->head.image), db_text(f->head.label),
			db_text(stage), DB_INT(nodes),
			DB_INT(convert_to_bounded_ms(s->median_ns)),
			DB_INT(convert_to_bounded_ms(job_ns)),
			DB_INT(convert_to_bounded_ms(s->max_ns)), DB_INT(slow),
			DB_INT(whole ? bound_sum_ms(lost->node_s, r->n_nodes)
				     : 0),
			DB_INT(whole ? bound_sum_ms(lost->wait_s, r->n_nodes)
				     : 0),
			DB_INT(is_top), DB_INT(job_start_class(&f->head)));
}

/* GPUs of all nodes together; 0: some node did not report how many it has. */
static uint64_t gpus_of(const struct start_report *r)
{
	uint64_t gpus = 0;

	for (size_t i = 0; i < r->n_nodes; i++)
		gpus = r->nodes[i].gpus && (gpus || i == 0)
			       ? gpus + r->nodes[i].gpus
			       : 0;
	return gpus;
}

/* Order stages by their number of nodes, then by length. A stage that a single node invents then
 * cannot push out others. */
static int compare_stages_by_nodes(const void *x, const void *y)
{
	const struct start_stage *a = *(const struct start_stage *const *)x,
				 *b = *(const struct start_stage *const *)y;

	if (a->spread.n != b->spread.n)
		return a->spread.n < b->spread.n ? 1 : -1;
	if (a->spread.median_ns != b->spread.median_ns)
		return a->spread.median_ns < b->spread.median_ns ? 1 : -1;
	return strcmp(a->name, b->name);
}

static int compare_stages_by_begin(const void *x, const void *y)
{
	const struct start_stage *a = *(const struct start_stage *const *)x,
				 *b = *(const struct start_stage *const *)y;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* Choose the stages to store, in the order in which they began; the caller frees the result. */
static const struct start_stage **choose_stages(const struct start_report *r,
						size_t *ret_n)
{
	const struct start_stage **v = calloc(r->n_stages + 1, sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; v && i < r->n_stages; i++)
		if (r->stages[i].spread.n)
			v[n++] = &r->stages[i];
	if (v && n > HISTORY_SCALE_STAGES) {
		qsort(v, n, sizeof(*v), compare_stages_by_nodes);
		n = HISTORY_SCALE_STAGES;
	}
	if (v && n)
		qsort(v, n, sizeof(*v), compare_stages_by_begin);
	*ret_n = n;
	return v;
}

static int format_stages(const struct start_report *r, struct buf *ret)
{
	size_t n;
	AUTO_FREE const struct start_stage **v = choose_stages(r, &n);
	int rc = v ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = scale_stage_format(
			&(struct scale_row){
				.stage = v[i]->name,
				.nodes = (int64_t)v[i]->spread.n,
				.job_ms = convert_to_bounded_ms(v[i]->job_ns),
				.median_ms = convert_to_bounded_ms(
					v[i]->spread.median_ns),
				.max_ms = convert_to_bounded_ms(
					v[i]->spread.max_ns) },
			ret);
	return rc;
}

static int put_scales(struct db_conn *c, const struct start_found *f,
		      struct error *err)
{
	const struct start_report *r = &f->report;
	AUTO_BUF stages = BUF_INIT;

	if (format_stages(r, &stages) < 0)
		return error_nomem(err);
	return DB_QUERY(c, SQL_SCALE_PUT, NULL, NULL, err, DB_INT(f->head.id),
			DB_INT(begin_of_start_s(f)), db_text(f->head.job),
			db_text(f->head.image), db_text(f->head.label),
			DB_INT(r->spread.n), DB_INT(gpus_of(r)),
			DB_INT(convert_to_bounded_ms(r->end_ns - r->begin_ns)),
			DB_INT(convert_to_bounded_ms(r->spread.median_ns)),
			DB_INT(convert_to_bounded_ms(r->spread.max_ns)),
			db_text(stages.data ? stages.data : ""),
			DB_INT(job_start_class(&f->head)));
}

static int put_summary(struct db_conn *c, const struct start_found *f,
		       struct error *err)
{
	AUTO_FREE char *text = starts_summary_text(&f->report);

	return text ? DB_QUERY(c, SQL_JOB_SUMMARY, NULL, NULL, err,
			       db_text(text), DB_INT(f->head.id))
		    : error_nomem(err);
}

/* Bound the rows of a day, so that invented images, labels and stages cannot fill the disk. */
static int trim_rows_of_day(struct db_conn *c, int64_t day, struct error *err)
{
	int64_t rows = 0;
	int n = DB_QUERY(c, SQL_DAY_ROWS, db_take_number, &rows, err,
			 DB_INT(day));

	if (n >= 0 && rows > HISTORY_DAY_ROWS)
		n = DB_QUERY(c, SQL_DAY_TRIM, NULL, NULL, err, DB_INT(day),
			     DB_INT(rows - HISTORY_DAY_ROWS + DAY_TRIM));
	return n;
}

static int add_start(struct db_conn *c, void *arg, struct error *err)
{
	const struct start_found *f = arg;
	const struct start_report *r = &f->report;
	uint32_t slow = 0;
	int n = DB_QUERY(c, SQL_JOB_SUMMED, NULL, NULL, err,
			 DB_INT(f->head.id));

	if (n <= 0)
		return n;
	for (size_t i = 0; i < r->n_nodes; i++)
		slow += r->nodes[i].is_straggler;
	n = put_nodes(c, f, err);
	if (n >= 0)
		n = put_day(c, f, "", &r->spread, r->end_ns - r->begin_ns, slow,
			    true, err);
	for (size_t i = 0; n >= 0 && i < r->n_stages; i++)
		if (r->stages[i].spread.n)
			n = put_day(c, f, r->stages[i].name,
				    &r->stages[i].spread, r->stages[i].job_ns,
				    r->stages[i].stragglers,
				    r->stages[i].is_top, err);
	if (n >= 0)
		n = put_scales(c, f, err);
	if (n >= 0)
		n = put_summary(c, f, err);
	if (n >= 0)
		n = trim_rows_of_day(c, begin_of_start_s(f) / DAY_S, err);
	return n < 0 ? n : 1;
}

int history_db_add(struct db *db, const struct start_found *f,
		   struct error *err)
{
	return db_run(db, DB_WRITE, add_start,
		      (struct start_found *)(uintptr_t)f, err);
}

/* -------------------------------------------------------------------- past --- */

struct past_query {
	int64_t start;
	const struct start_report *r;
	struct start_past *past;
};

static int note_past(void *arg, const struct db_value *row)
{
	struct start_past *p = arg;

	p->starts = (uint32_t)row[0].n;
	p->slow = (uint32_t)row[1].n;
	return 0;
}

static int find_past(struct db_conn *c, void *arg, struct error *err)
{
	struct past_query *q = arg;
	uint32_t asked = 0;
	int n = 0;

	for (size_t i = 0; n >= 0 && i < q->r->n_cells; i++) {
		uint32_t node = q->r->cells[i].node;

		if (!q->r->cells[i].is_straggler || q->past[node].starts ||
		    asked == PAST_NODES_MAX)
			continue;
		asked++;
		n = DB_QUERY(c, SQL_NODE_PAST, note_past, &q->past[node], err,
			     db_text(q->r->nodes[node].name), DB_INT(q->start),
			     DB_INT(HISTORY_PAST));
	}
	return n < 0 ? n : 0;
}

int history_db_past(struct db *db, int64_t start, const struct start_report *r,
		    struct start_past *past, struct error *err)
{
	struct past_query q = { start, r, past };

	return db_run(db, DB_ALONE, find_past, &q, err);
}

/* ------------------------------------------------------------------- asking --- */

struct history_query {
	const char *node;
	int64_t since, limit;
	const struct trend_query *trend;
	int (*each_start)(void *arg, const struct history_start *s);
	int (*each_node)(void *arg, const struct slow_node *s);
	int (*each_trend)(void *arg, const struct trend_row *t);
	void *arg;
};

static int show_node_start_row(void *arg, const struct db_value *row)
{
	const struct history_query *q = arg;
	const struct history_start s = {
		.start = row[0].n,
		.job = row[1].data,
		.at = row[2].n,
		.busy_ms = row[3].n,
		.median_ms = row[4].n,
		.is_slow = row[5].n != 0,
		.stage = row[6].data,
		.cause = row[7].data,
	};

	return q->each_start(q->arg, &s);
}

static int ask_node(struct db_conn *c, void *arg, struct error *err)
{
	struct history_query *q = arg;

	return DB_QUERY(c, SQL_NODE_STARTS, show_node_start_row, q, err,
			db_text(q->node), DB_INT(q->limit));
}

int history_db_node(struct db *db, const char *node, int64_t limit,
		    int (*each)(void *arg, const struct history_start *s),
		    void *arg, struct error *err)
{
	struct history_query q = {
		.node = node, .limit = limit, .each_start = each, .arg = arg
	};
	int n = db_run(db, DB_ALONE, ask_node, &q, err);

	return n < 0 ? n : 0;
}

static int show_slow_node_row(void *arg, const struct db_value *row)
{
	const struct history_query *q = arg;
	const struct slow_node s = {
		.node = row[0].data,
		.slow = row[1].n,
		.excess_ms = row[2].n,
		.last = row[3].n,
		.starts = row[4].n,
	};

	return q->each_node(q->arg, &s);
}

static int ask_nodes(struct db_conn *c, void *arg, struct error *err)
{
	struct history_query *q = arg;

	return DB_QUERY(c, SQL_NODE_LIST, show_slow_node_row, q, err,
			DB_INT(q->since / DAY_S), DB_INT(q->limit));
}

int history_db_nodes(struct db *db, int64_t since, int64_t limit,
		     int (*each)(void *arg, const struct slow_node *s),
		     void *arg, struct error *err)
{
	struct history_query q = {
		.since = since, .limit = limit, .each_node = each, .arg = arg
	};
	int n = db_run(db, DB_ALONE, ask_nodes, &q, err);

	return n < 0 ? n : 0;
}

static int show_trend_row(void *arg, const struct db_value *row)
{
	const struct history_query *q = arg;
	const struct trend_row t = {
		.key = row[0].data,
		.stage = row[1].data,
		.starts = row[2].n,
		.nodes = row[3].n,
		.median_ms = row[4].n,
		.job_ms = row[5].n,
		.worst_ms = row[6].n,
		.slow = row[7].n,
		.node_ms = row[8].n,
		.wait_ms = row[9].n,
		.tops = row[10].n,
	};

	return q->each_trend(q->arg, &t);
}

static int ask_trend(struct db_conn *c, void *arg, struct error *err)
{
	static const size_t statements[] = {
		[TREND_BY_DAY] = SQL_TREND_DAY,
		[TREND_BY_IMAGE] = SQL_TREND_IMAGE,
		[TREND_BY_LABEL] = SQL_TREND_LABEL,
		[TREND_BY_CLASS] = SQL_TREND_CLASS,
	};
	struct history_query *q = arg;
	const struct trend_query *t = q->trend;

	return DB_QUERY(c, statements[t->by], show_trend_row, q, err,
			DB_INT(t->since_day), db_text(t->image),
			db_text(t->label), DB_INT(t->class), DB_INT(t->limit));
}

int history_db_trend(struct db *db, const struct trend_query *t,
		     int (*each)(void *arg, const struct trend_row *t),
		     void *arg, struct error *err)
{
	struct history_query q = { .trend = t, .each_trend = each, .arg = arg };
	int n = db_run(db, DB_ALONE, ask_trend, &q, err);

	return n < 0 ? n : 0;
}

struct scale_query {
	const struct trend_query *of;
	int (*each)(void *arg, const struct scale_row *r);
	void *arg;
};

static int on_scale_row(void *arg, const struct db_value *row)
{
	const struct scale_query *q = arg;
	const char *stages = row[7].data;
	struct scale_row r = {
		.stage = row[0].data,
		.job = row[1].data,
		.nodes = row[2].n,
		.gpus = row[3].n,
		.job_ms = row[4].n,
		.median_ms = row[5].n,
		.max_ms = row[6].n,
	};
	char stage[STAGE_NAME_MAX + 1];
	int rc = q->each(q->arg, &r);

	while (rc == 0 && scale_stage_parse(&stages, stage, &r))
		rc = q->each(q->arg, &r);
	return rc;
}

static int ask_scales(struct db_conn *c, void *arg, struct error *err)
{
	struct scale_query *q = arg;
	int64_t since = q->of->since_day * DAY_S;
	int n = DB_QUERY(c, SQL_SCALE_LIST, on_scale_row, q, err, DB_INT(since),
			 db_text(q->of->image), db_text(q->of->label),
			 DB_INT(2), DB_INT(INT64_MAX), DB_INT(q->of->class),
			 DB_INT(q->of->limit));

	return n < 0 ? n
		     : DB_QUERY(c, SQL_SCALE_LIST, on_scale_row, q, err,
				DB_INT(since), db_text(q->of->image),
				db_text(q->of->label), DB_INT(0), DB_INT(1),
				DB_INT(q->of->class), DB_INT(q->of->limit));
}

int history_db_scales(struct db *db, const struct trend_query *t,
		      int (*each)(void *arg, const struct scale_row *r),
		      void *arg, struct error *err)
{
	struct scale_query q = { t, each, arg };
	int n = db_run(db, DB_ALONE, ask_scales, &q, err);

	return n < 0 && n != -ECANCELED ? n : 0;
}

/* -------------------------------------------------------------------- sweep --- */

static int trim_scales(struct db_conn *c, struct error *err)
{
	int64_t rows = 0;
	int n = db_query(c, SQL_SCALE_TOTAL, NULL, 0, db_take_number, &rows,
			 err);

	if (n >= 0 && rows > HISTORY_SCALE_ROWS)
		n = DB_QUERY(c, SQL_SCALE_TRIM, NULL, NULL, err,
			     DB_INT(SCALE_TRIM));
	return n;
}

static int sweep_history(struct db_conn *c, void *arg, struct error *err)
{
	const int64_t *times = arg;
	int n = DB_QUERY(c, SQL_NODE_EXPIRE, NULL, NULL, err, DB_INT(times[0]));

	if (n >= 0)
		n = DB_QUERY(c, SQL_NODE_DAY_EXPIRE, NULL, NULL, err,
			     DB_INT(times[0] / DAY_S));
	if (n >= 0)
		n = DB_QUERY(c, SQL_DAY_EXPIRE, NULL, NULL, err,
			     DB_INT(times[1] / DAY_S - HISTORY_DAYS));
	if (n >= 0)
		n = DB_QUERY(c, SQL_SCALE_EXPIRE, NULL, NULL, err,
			     DB_INT(times[1] - HISTORY_DAYS * DAY_S));
	if (n >= 0)
		n = trim_scales(c, err);
	return n < 0 ? n : 0;
}

int history_db_sweep(struct db *db, int64_t before, int64_t now,
		     struct error *err)
{
	int64_t times[] = { before, now };

	return db_run(db, DB_WRITE, sweep_history, times, err);
}
