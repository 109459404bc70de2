// SPDX-License-Identifier: Apache-2.0
#include "registry/ckpt_parts.h"

#include <errno.h>

#include "registry/db.h"
#include "registry/schema.h"

/* -------------------------------------------------------------------- write --- */

static int write_part(struct db_conn *c, struct ckpt_parts *p,
		      struct error *err)
{
	return DB_QUERY(c, SQL_CKPT_PART_PUT, NULL, NULL, err, DB_INT(p->start),
			db_text(p->node), DB_INT(p->part),
			db_blob(p->bytes.data, p->bytes.len));
}

static void next_part(struct ckpt_parts *p)
{
	p->part++;
	p->pack = (struct ckpt_pack)CKPT_PACK_INIT;
	buf_reset(&p->bytes);
}

static int pack_event(struct db_conn *c, struct ckpt_parts *p,
		      const struct start_event *e, struct error *err)
{
	int rc = 0;

	if (p->bytes.len >= CKPT_PART_BYTES) {
		rc = write_part(c, p, err);
		next_part(p);
	}
	if (rc < 0)
		return rc;
	return ckpt_pack_add(&p->pack, e, &p->bytes) < 0 ? error_nomem(err) : 0;
}

/* Store the last part's number and state, so that the next event can be appended to it. */
static int note_last(void *arg, const struct db_value *row)
{
	struct ckpt_parts *p = arg;
	uint64_t facts[STAGE_FACTS];
	struct start_event e;
	size_t pos = 0;
	int rc;

	p->part = row[0].n;
	if (buf_append(&p->bytes, row[1].data, row[1].len) < 0)
		return -ENOMEM;
	do
		rc = ckpt_pack_next(&p->pack, row[1].data, row[1].len, &pos,
				    facts, &e);
	while (rc > 0);
	if (rc == 0 && row[1].len >= CKPT_PART_BYTES)
		next_part(p);
	return rc;
}

static int open_last(struct db_conn *c, struct ckpt_parts *p, struct error *err)
{
	int n;

	p->is_open = true;
	p->part = -1;
	next_part(p);
	n = DB_QUERY(c, SQL_CKPT_PART_LAST, note_last, p, err, DB_INT(p->start),
		     db_text(p->node));
	/* Damaged parts are built again from the events. */
	if (n == -EBADMSG) {
		p->is_doubtful = true;
		n = 0;
	}
	return n < 0 ? n : 0;
}

int ckpt_parts_add(struct db_conn *c, struct ckpt_parts *p,
		   const struct stage_event *events, size_t n, bool is_sure,
		   struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct stage_event *from = &events[i];
		const struct start_event e = {
			.stage = ckpt_pack_stage(from->stage),
			.ev = from->ev,
			.ts_ns = from->ts_ns,
			.mono_ns = from->mono_ns,
			.rank = from->rank,
			.status = from->status,
			.boot = from->boot,
			.facts = from->facts,
		};

		if (!e.stage)
			continue;
		if (!is_sure)
			p->is_doubtful = true;
		if (!p->is_open && !p->is_doubtful)
			rc = open_last(c, p, err);
		if (rc == 0 && !p->is_doubtful)
			rc = pack_event(c, p, &e, err);
	}
	return rc;
}

/* ------------------------------------------------------------------- rebuild --- */

static int note_event(void *arg, const struct db_value *row)
{
	struct ckpt_parts *p = arg;
	uint64_t facts[STAGE_FACTS];
	bool has_facts = stage_facts_parse(row[7].data, facts);
	const struct start_event e = {
		.stage = ckpt_pack_stage(stage_text(row[0].data)),
		.ev = (enum stage_ev)row[1].n,
		.ts_ns = row[2].n,
		.mono_ns = row[3].n,
		.boot = (uint64_t)row[4].n,
		.rank = row[5].n,
		.status = row[6].n,
		.facts = has_facts ? facts : NULL,
	};

	return ckpt_pack_add(&p->pack, &e, &p->bytes);
}

/* Replace all parts of the node by one, built from the node's events. */
static int rebuild_parts(struct db_conn *c, struct ckpt_parts *p,
			 struct error *err)
{
	int n = DB_QUERY(c, SQL_CKPT_PART_DROP, NULL, NULL, err,
			 DB_INT(p->start), db_text(p->node));

	p->part = -1;
	next_part(p);
	if (n >= 0)
		n = DB_QUERY(c, SQL_CKPT_NODE_EVENTS, note_event, p, err,
			     DB_INT(p->start), db_text(p->node));
	return n < 0 ? n : 0;
}

int ckpt_parts_close(struct db_conn *c, struct ckpt_parts *p, struct error *err)
{
	int rc = p->is_doubtful ? rebuild_parts(c, p, err) : 0;

	if (rc == 0 && p->bytes.len)
		rc = write_part(c, p, err);
	p->is_open = p->is_doubtful = false;
	buf_reset(&p->bytes);
	return rc < 0 ? rc : 0;
}

void ckpt_parts_fini(struct ckpt_parts *p)
{
	buf_fini(&p->bytes);
}

/* --------------------------------------------------------------------- read --- */

int ckpt_parts_are_whole(struct db_conn *c, int64_t start, struct error *err)
{
	int64_t is_whole = 0;
	int n = DB_QUERY(c, SQL_CKPT_WHOLE, db_take_number, &is_whole, err,
			 DB_INT(start));

	return n < 0 ? n : is_whole != 0;
}

struct parts_reading {
	int (*each)(void *arg, const struct start_event *e);
	void *arg;
};

static int note_part(void *arg, const struct db_value *row)
{
	struct ckpt_pack pack = CKPT_PACK_INIT;
	const struct parts_reading *r = arg;
	uint64_t facts[STAGE_FACTS];
	struct start_event e;
	size_t pos = 0;
	int rc;

	while ((rc = ckpt_pack_next(&pack, row[1].data, row[1].len, &pos, facts,
				    &e)) > 0) {
		e.node = row[0].data;
		rc = r->each(r->arg, &e);
		if (rc < 0)
			break;
	}
	return rc;
}

int ckpt_parts_each(struct db_conn *c, int64_t start,
		    int (*each)(void *arg, const struct start_event *e),
		    void *arg, struct error *err)
{
	struct parts_reading r = { each, arg };
	int n = DB_QUERY(c, SQL_CKPT_PARTS, note_part, &r, err, DB_INT(start));

	return n < 0 ? n : 0;
}
