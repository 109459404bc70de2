// SPDX-License-Identifier: Apache-2.0
#include "registry/ckpt_db.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "registry/schema.h"

/* --------------------------------------------------------------------- get --- */

static void free_start_head(struct ckpt_found *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->texts); i++) {
		free(f->texts[i]);
		f->texts[i] = NULL;
	}
}

/* Copy the head of the start. Returns 1: go on and read the start's events. */
static int copy_start_head(void *arg, const struct job_start *s)
{
	const char *texts[] = { s->job, s->image, s->label };
	struct ckpt_found *f = arg;

	f->head = *s;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		f->texts[i] = strdup(texts[i]);
		if (!f->texts[i])
			return -ENOMEM;
	}
	f->head.job = f->texts[0];
	f->head.image = f->texts[1];
	f->head.label = f->texts[2];
	return 1;
}

int ckpt_db_get(struct db *db, int64_t id, struct ckpt_found *ret,
		struct error *err)
{
	AUTO_FINI(start_report) r = { .n_runs = 0 };
	int rc;

	*ret = (struct ckpt_found){ .left_out = 0 };
	rc = stage_db_get_ckpt(db, id, copy_start_head, ret, &ret->set,
			       &ret->left_out, err);
	if (rc == 0)
		rc = start_report_make_stages(ret->set, &r, err);
	if (rc == 0)
		rc = start_ckpt_make(&r, &ret->ckpt, err);
	/* Release the runs and events, which take much memory; keep the nodes and rounds, which
	 * take little. */
	if (rc == 0) {
		start_set_drop_events(ret->set);
		start_set_drop_facts(ret->set);
		ret->n_nodes = r.n_nodes;
		ret->nodes = steal_ptr(&r.nodes);
	}
	return rc;
}

void ckpt_found_fini(struct ckpt_found *f)
{
	start_ckpt_fini(&f->ckpt);
	free(f->nodes);
	f->nodes = NULL;
	start_set_free(f->set);
	f->set = NULL;
	free_start_head(f);
}

size_t ckpt_found_bytes(const struct ckpt_found *f)
{
	size_t n = sizeof(*f) + start_set_bytes(f->set) +
		   f->n_nodes * sizeof(*f->nodes);

	for (int i = 0; i < START_CKPT_KINDS; i++) {
		const struct start_ckpt_part *p = &f->ckpt.part[i];

		n += p->n_nodes * sizeof(*p->nodes) +
		     p->n_rounds * sizeof(*p->rounds);
	}
	return n;
}

/* Store the revision. Returns 0: do not read the start's events. */
static int note_revision(void *arg, const struct job_start *s)
{
	*(int64_t *)arg = s->revision;
	return 0;
}

int ckpt_db_revision(struct db *db, int64_t id, int64_t *ret, struct error *err)
{
	struct start_set *none = NULL;
	int64_t left_out, revision = 0;
	int rc = stage_db_get_ckpt(db, id, note_revision, &revision, &none,
				   &left_out, err);

	if (rc == 0)
		*ret = revision;
	return rc;
}

/* -------------------------------------------------------------------- sums --- */

struct ckpt_due {
	int64_t now, *ids;
	size_t n, max;
};

static int note_due(void *arg, const struct db_value *row)
{
	struct ckpt_due *q = arg;

	if (q->n < q->max)
		q->ids[q->n++] = row[0].n;
	return 0;
}

static int find_due(struct db_conn *c, void *arg, struct error *err)
{
	struct ckpt_due *q = arg;

	return DB_QUERY(c, SQL_CKPT_DUE, note_due, q, err, DB_INT(q->now),
			DB_INT(q->max));
}

int ckpt_db_due(struct db *db, int64_t now, int64_t *ids, size_t max,
		struct error *err)
{
	struct ckpt_due q = { .now = now, .ids = ids, .max = max };
	int rc = db_run(db, DB_ALONE, find_due, &q, err);

	return rc < 0 ? rc : (int)q.n;
}

struct ckpt_put {
	int64_t now;
	const struct ckpt_found *f;
};

/* When the last run ended, seconds since 1970. A node's clock may be ahead, which would keep the
 * start first in lists: bound the time by when the events were received. */
static int64_t last_end_s(const struct ckpt_found *f,
			  const struct start_ckpt_part *p)
{
	int64_t at = p->end_ns / NS_PER_S;

	return at < f->head.received ? at : f->head.received;
}

static int put_part(struct db_conn *c, const struct ckpt_found *f,
		    const struct start_ckpt_part *p, struct error *err)
{
	return DB_QUERY(c, SQL_CKPT_PUT, NULL, NULL, err, DB_INT(f->head.id),
			db_text(p->stage), DB_INT(last_end_s(f, p)),
			DB_INT(p->n_rounds), DB_INT(p->n_nodes),
			DB_INT(p->sum.runs), DB_INT(p->sum.open),
			DB_INT(p->sum.bytes), DB_INT(p->job_ns / NS_PER_MS),
			DB_INT(p->sum.run_ms), DB_INT(p->sum.wait_ms),
			DB_INT(p->sum.queue_ms), DB_INT(p->sum.storage_ms),
			DB_INT(p->sum.network_ms),
			DB_INT(p->spread.median_ns / NS_PER_MS),
			DB_INT(p->spread.max_ns / NS_PER_MS),
			DB_INT(p->stragglers),
			db_text(f->nodes[p->nodes[0].node].name));
}

static int put_sums(struct db_conn *c, void *arg, struct error *err)
{
	const struct ckpt_put *q = arg;
	const struct ckpt_found *f = q->f;
	int n = DB_QUERY(c, SQL_CKPT_SUMMED, NULL, NULL, err,
			 DB_INT(f->head.revision), DB_INT(q->now),
			 DB_INT(f->head.id));

	/* 0: another replica has stored sums of a later revision, or the start was removed. */
	if (n <= 0)
		return n;
	for (int i = 0; n >= 0 && i < START_CKPT_KINDS; i++)
		if (f->ckpt.part[i].n_nodes)
			n = put_part(c, f, &f->ckpt.part[i], err);
	return n < 0 ? n : 0;
}

int ckpt_db_put(struct db *db, int64_t now, const struct ckpt_found *f,
		struct error *err)
{
	struct ckpt_put q = { now, f };

	return db_run(db, DB_WRITE, put_sums, &q, err);
}

/* -------------------------------------------------------------------- list --- */

struct ckpt_listing {
	const struct ckpt_query *q;
	int (*each)(void *arg, const struct ckpt_row *row);
	void *arg;
};

static int show_ckpt_row(void *arg, const struct db_value *v)
{
	const struct ckpt_listing *l = arg;
	const struct ckpt_row row = {
		.start = v[0].n,
		.job = v[1].data,
		.attempt = v[2].n,
		.image = v[3].data,
		.label = v[4].data,
		.stage = v[5].data,
		.last = v[6].n,
		.rounds = v[7].n,
		.nodes = v[8].n,
		.runs = v[9].n,
		.open = v[10].n,
		.bytes = v[11].n,
		.job_ms = v[12].n,
		.run_ms = v[13].n,
		.wait_ms = v[14].n,
		.queue_ms = v[15].n,
		.storage_ms = v[16].n,
		.network_ms = v[17].n,
		.median_ms = v[18].n,
		.max_ms = v[19].n,
		.slow = v[20].n,
		.slowest = v[21].data,
	};

	return l->each(l->arg, &row);
}

static int list_sums(struct db_conn *c, void *arg, struct error *err)
{
	struct ckpt_listing *l = arg;
	const struct ckpt_query *q = l->q;

	return DB_QUERY(c, SQL_CKPT_LIST, show_ckpt_row, l, err,
			DB_INT(q->since), db_text(q->filter.job),
			db_text(q->filter.image), db_text(q->filter.label),
			DB_INT(q->limit));
}

int ckpt_db_list(struct db *db, const struct ckpt_query *q,
		 int (*each)(void *arg, const struct ckpt_row *row), void *arg,
		 struct error *err)
{
	struct ckpt_listing l = { q, each, arg };
	int n = db_run(db, DB_ALONE, list_sums, &l, err);

	return n < 0 ? n : 0;
}
