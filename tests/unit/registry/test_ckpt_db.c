// SPDX-License-Identifier: Apache-2.0
/* Tests of ckpt_db.c on SQLite; tests/functional/checkpoints.bats uses both databases. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "registry/ckpt_cache.h"
#include "registry/ckpt_parts.h"
#include "registry/schema.h"

TestSuite(ckpt_db, .timeout = 120);

#define NOW INT64_C(1795010000)
#define T0 (NOW - 5000) /* when the job began */
#define NS_PER_S INT64_C(1000000000)

static char dir[64];
static struct db *db;
static int64_t next_id = 1;

static void open_as(const struct db_schema *s)
{
	struct error err = ERROR_INIT;
	char url[96];
	const struct db_config cfg = { .url = url,
				       .schema = s,
				       .timeout_ns = 10 * NS_PER_S };

	(void)snprintf(url, sizeof(url), "sqlite:%s/db", dir);
	cr_assert_eq(db_open(&cfg, &db, &err), 0, "%s", err.msg);
}

static void make_dir(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/ckpt-db.XXXXXX");
	cr_assert(mkdtemp(dir));
}

static void open_new(void)
{
	make_dir();
	open_as(&schema);
}

static void close_db(void)
{
	static const char *const files[] = { "db", "db-wal", "db-shm" };
	char path[96];

	db_close(db);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		(void)unlink(path);
	}
	(void)rmdir(dir);
}

/* Store an event of a job on a node, `s` seconds after T0, received at `now`. */
static void say(const char *job, const char *node, const char *stage,
		enum stage_ev ev, int64_t s, uint64_t bytes, int64_t now)
{
	struct stage_event e = STAGE_EVENT_INIT;
	struct error err = ERROR_INIT;
	AUTO_BUF line = BUF_INIT;
	struct stage_batch b = { .node = node, .now = now };

	e.stage = stage_text(stage);
	e.job = stage_text(job);
	e.node = stage_text(node);
	e.ev = ev;
	e.ts_ns = (T0 + s) * NS_PER_S;
	e.id = next_id++;
	e.facts[STAGE_FACT_SAVED_BYTES] = bytes;
	cr_assert_eq(stage_event_format(&e, &line), 0);
	b.text = line.data;
	b.len = line.len;
	cr_assert_eq(stage_batch_check(&b, &err), 0, "%s", err.msg);
	cr_assert_eq(stage_db_put(db, &b, &err), 0, "%s", err.msg);
}

static void save_of(const char *job, const char *node, int64_t from, int64_t to,
		    uint64_t bytes)
{
	say(job, node, START_CKPT_SAVE, STAGE_BEGIN, from, 0, NOW);
	say(job, node, START_CKPT_SAVE, STAGE_END, to, bytes, NOW);
}

/* Sum up the starts that are due; returns their number. */
static int sum_up(int64_t now)
{
	int64_t ids[10];
	struct error err = ERROR_INIT;
	int n = ckpt_db_due(db, now, ids, 10, &err);

	cr_assert_geq(n, 0, "%s", err.msg);
	for (int i = 0; i < n; i++) {
		struct ckpt_found f;

		cr_assert_eq(ckpt_db_get(db, ids[i], &f, &err), 0, "%s",
			     err.msg);
		cr_assert_eq(ckpt_db_put(db, now, &f, &err), 0, "%s", err.msg);
		ckpt_found_fini(&f);
	}
	return n;
}

/* Append the row as "job stage bytes slowest;". */
static int note_row(void *arg, const struct ckpt_row *r)
{
	struct buf *b = arg;

	return buf_printf(b, "%s %s %lld %s;", r->job, r->stage,
			  (long long)r->bytes, r->slowest);
}

static void expect_rows(const char *rows, int64_t since, const char *job,
			int64_t limit)
{
	const struct ckpt_query q = {
		.since = since,
		.filter = { .job = job, .image = "", .label = "" },
		.limit = limit,
	};
	struct error err = ERROR_INIT;
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(buf_puts(&b, ""), 0);
	cr_assert_eq(ckpt_db_list(db, &q, note_row, &b, &err), 0, "%s",
		     err.msg);
	cr_expect_str_eq(b.data ? b.data : "", rows);
}

Test(ckpt_db, gets_a_start_without_its_other_stages, .init = open_new,
     .fini = close_db)
{
	struct error err = ERROR_INIT;
	struct ckpt_found f;

	say("j", "n1", "env", STAGE_BEGIN, 0, 0, NOW);
	say("j", "n1", START_READY_MARK, STAGE_MARK, 10, 0, NOW);
	save_of("j", "n1", 100, 107, 700);
	save_of("j", "n2", 100, 105, 300);
	save_of("other", "n1", 100, 200, 5);
	cr_assert_eq(ckpt_db_get(db, 1, &f, &err), 0, "%s", err.msg);
	cr_expect_str_eq(f.head.job, "j");
	cr_expect_eq(f.ckpt.part[START_CKPT_SAVES].begin_ns,
		     (T0 + 100) * NS_PER_S);
	cr_expect_eq(f.n_nodes, 2);
	cr_expect_str_eq(f.nodes[f.ckpt.part[START_CKPT_SAVES].nodes[0].node]
				 .name,
			 "n1");
	cr_expect_eq(f.ckpt.part[START_CKPT_SAVES].sum.bytes, 1000);
	cr_expect_eq(f.ckpt.part[START_CKPT_SAVES].n_nodes, 2);
	cr_expect_eq(f.ckpt.part[START_CKPT_SAVES].job_ns, 7 * NS_PER_S);
	cr_expect_eq(f.ckpt.part[START_CKPT_LOADS].n_nodes, 0);
	ckpt_found_fini(&f);
	cr_expect_eq(ckpt_db_get(db, 99, &f, &err), -ENOENT);
	ckpt_found_fini(&f);
}

static int note_id(void *arg, const struct job_start *s)
{
	*(int64_t *)arg = s->id;
	return 0;
}

static int64_t id_of(const char *job)
{
	const struct job_filter f = { .job = job, .image = "", .label = "" };
	struct error err = ERROR_INIT;
	int64_t id = 0;

	cr_assert_eq(stage_db_list(db, &f, 1, note_id, &id, &err), 0, "%s",
		     err.msg);
	return id;
}

static const struct ckpt_found *get_kept(struct ckpt_cache *c, const char *job)
{
	const struct ckpt_found *f = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_cache_get(c, id_of(job), &f, &err), 0, "%s", err.msg);
	cr_assert_str_eq(f->head.job, job);
	return f;
}

Test(ckpt_db, keeps_a_start_until_more_comes, .init = open_new,
     .fini = close_db)
{
	const struct ckpt_found *first, *again, *other;
	struct ckpt_cache *c;
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_cache_new(db, &c, &err), 0);
	save_of("a", "n1", 100, 107, 700);
	first = get_kept(c, "a");
	again = get_kept(c, "a");
	cr_expect_eq(first, again);
	save_of("a", "n1", 500, 507, 1);
	other = get_kept(c, "a");
	cr_expect_neq(first, other);
	cr_expect_eq(first->ckpt.part[START_CKPT_SAVES].sum.bytes, 700);
	cr_expect_eq(other->ckpt.part[START_CKPT_SAVES].sum.bytes, 701);
	ckpt_cache_put(c, first);
	ckpt_cache_put(c, again);
	ckpt_cache_put(c, other);
	cr_expect_eq(ckpt_cache_get(c, 999, &other, &err), -ENOENT);
	ckpt_cache_free(c);
}

/* Send as many events as a node may send in a start. */
static void save_often(const char *job, const char *node)
{
	struct stage_event e = STAGE_EVENT_INIT;
	struct error err = ERROR_INIT;
	AUTO_BUF lines = BUF_INIT;
	struct stage_batch b = { .node = node, .now = NOW };

	e.stage = stage_text("ckpt.save");
	e.job = stage_text(job);
	for (unsigned int i = 0; i < STAGE_NODE_EVENTS_MAX; i++) {
		e.ev = i % 2 ? STAGE_END : STAGE_BEGIN;
		e.ts_ns = (T0 + 10 * (int64_t)i) * NS_PER_S;
		e.id = next_id++;
		cr_assert_eq(stage_event_format(&e, &lines), 0);
	}
	b.text = lines.data;
	b.len = lines.len;
	cr_assert_eq(stage_db_put(db, &b, &err), 0, "%s", err.msg);
}

Test(ckpt_db, keeps_of_what_is_summed_up_the_large_starts_alone,
     .init = open_new, .fini = close_db)
{
	const struct ckpt_found *first, *again;
	struct error err = ERROR_INIT;
	struct ckpt_cache *c;

	cr_assert_eq(ckpt_cache_new(db, &c, &err), 0);
	save_of("a", "n1", 100, 107, 700);
	cr_assert_eq(ckpt_cache_sum(c, id_of("a"), &first, &err), 0);
	again = get_kept(c, "a");
	cr_expect_neq(first, again);
	ckpt_cache_put(c, first);
	ckpt_cache_put(c, again);

	save_often("large", "n1");
	save_often("large", "n2");
	cr_assert_eq(ckpt_cache_sum(c, id_of("large"), &first, &err), 0);
	again = get_kept(c, "large");
	cr_expect_eq(first, again);
	cr_expect_eq(again->ckpt.part[START_CKPT_SAVES].sum.runs, 10000);
	ckpt_cache_put(c, first);
	ckpt_cache_put(c, again);
	ckpt_cache_free(c);
}

Test(ckpt_db, keeps_no_event_and_no_run, .init = open_new, .fini = close_db)
{
	struct error err = ERROR_INIT;
	struct ckpt_found f;
	size_t before;

	save_of("a", "n1", 100, 101, 1);
	cr_assert_eq(ckpt_db_get(db, 1, &f, &err), 0, "%s", err.msg);
	before = ckpt_found_bytes(&f);
	ckpt_found_fini(&f);
	for (int64_t s = 101; s < 200; s++)
		save_of("a", "n1", s, s + 1, 1);
	cr_assert_eq(ckpt_db_get(db, 1, &f, &err), 0, "%s", err.msg);
	cr_expect_eq(f.ckpt.part[START_CKPT_SAVES].sum.runs, 100);
	cr_expect_eq(ckpt_found_bytes(&f), before);
	ckpt_found_fini(&f);
}

Test(ckpt_db, keeps_so_many_starts_the_last_ones, .init = open_new,
     .fini = close_db)
{
	const struct ckpt_found *held, *f;
	struct ckpt_cache *c;
	struct error err = ERROR_INIT;
	char job[16];

	cr_assert_eq(ckpt_cache_new(db, &c, &err), 0);
	save_of("a", "n1", 100, 107, 700);
	save_of("b", "n1", 100, 107, 700);
	held = get_kept(c, "a");
	ckpt_cache_put(c, get_kept(c, "b"));
	/* Use "b" repeatedly, "a" not, so that "a" leaves the cache. */
	for (unsigned int i = 0; i < CKPT_CACHE_STARTS - 1; i++) {
		(void)snprintf(job, sizeof(job), "j%u", i);
		save_of(job, "n1", 100, 107, i + 1);
		ckpt_cache_put(c, get_kept(c, job));
		f = get_kept(c, "b");
		ckpt_cache_put(c, f);
		cr_expect_eq(f, get_kept(c, "b"));
		ckpt_cache_put(c, f);
	}
	f = get_kept(c, "a");
	cr_expect_neq(f, held);
	/* The older reference stays valid. */
	cr_expect_str_eq(held->head.job, "a");
	ckpt_cache_put(c, f);
	ckpt_cache_put(c, held);
	ckpt_cache_free(c);
}

Test(ckpt_db, lists_what_is_summed_up_the_latest_first, .init = open_new,
     .fini = close_db)
{
	save_of("a", "n1", 100, 107, 700);
	save_of("a", "n2", 100, 105, 300);
	save_of("b", "n1", 300, 320, 5);
	say("none", "n1", "env", STAGE_BEGIN, 0, 0, NOW);
	expect_rows("", 0, "", 10);
	cr_expect_eq(sum_up(NOW), 3);
	expect_rows("b ckpt.save 5 n1;a ckpt.save 1000 n1;", 0, "", 10);
	expect_rows("b ckpt.save 5 n1;", T0 + 200, "", 10);
	expect_rows("a ckpt.save 1000 n1;", 0, "a", 10);
	expect_rows("b ckpt.save 5 n1;", 0, "", 1);
}

Test(ckpt_db, sums_up_again_what_changed_and_a_minute_later, .init = open_new,
     .fini = close_db)
{
	save_of("a", "n1", 100, 107, 700);
	save_of("b", "n1", 100, 107, 700);
	cr_expect_eq(sum_up(NOW), 2);
	cr_expect_eq(sum_up(NOW + 1000), 0);
	save_of("a", "n1", 500, 507, 1);
	cr_expect_eq(sum_up(NOW + 59), 0);
	cr_expect_eq(sum_up(NOW + 60), 1);
	expect_rows("a ckpt.save 701 n1;", 0, "a", 10);
}

Test(ckpt_db, keeps_the_sums_of_the_latest_revision, .init = open_new,
     .fini = close_db)
{
	struct error err = ERROR_INIT;
	struct ckpt_found old;

	save_of("a", "n1", 100, 107, 700);
	cr_assert_eq(ckpt_db_get(db, 1, &old, &err), 0, "%s", err.msg);
	save_of("a", "n1", 500, 507, 1);
	cr_expect_eq(sum_up(NOW), 1);
	cr_expect_eq(ckpt_db_put(db, NOW + 60, &old, &err), 0);
	expect_rows("a ckpt.save 701 n1;", 0, "", 10);
	ckpt_found_fini(&old);
}

Test(ckpt_db, forgets_sums_with_their_start, .init = open_new, .fini = close_db)
{
	struct error err = ERROR_INIT;

	save_of("a", "n1", 100, 107, 700);
	cr_expect_eq(sum_up(NOW), 1);
	cr_expect_eq(stage_db_sweep(db, NOW + 1, &err), 1);
	expect_rows("", 0, "", 10);
}

/* Change the database by SQL of SQLite that the service never runs. */
static void alter(const char *sql)
{
	sqlite3 *raw;
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/db", dir);
	cr_assert_eq(sqlite3_open(path, &raw), SQLITE_OK);
	cr_assert_eq(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK, "%s",
		     sqlite3_errmsg(raw));
	(void)sqlite3_close(raw);
}

/* ------------------------------------------- the same of parts and of events --- */

static int print_sum(struct buf *b, const struct start_ckpt_sum *s)
{
	return buf_printf(b, " %u %u %llu %llu %llu %llu %llu %llu", s->runs,
			  s->open, (unsigned long long)s->bytes,
			  (unsigned long long)s->run_ms,
			  (unsigned long long)s->wait_ms,
			  (unsigned long long)s->queue_ms,
			  (unsigned long long)s->storage_ms,
			  (unsigned long long)s->network_ms);
}

static void print_part(struct buf *b, const struct ckpt_found *f,
		       const struct start_ckpt_part *p)
{
	cr_assert_eq(buf_printf(b, "%s %zu %zu %lld %lld %lld %lld %u",
				p->stage, p->n_nodes, p->n_rounds,
				(long long)p->begin_ns, (long long)p->end_ns,
				(long long)p->job_ns,
				(long long)p->spread.median_ns, p->stragglers),
		     0);
	cr_assert_eq(print_sum(b, &p->sum), 0);
	for (size_t i = 0; i < p->n_nodes; i++) {
		cr_assert_eq(buf_printf(b, "\n%s %lld %d",
					f->nodes[p->nodes[i].node].name,
					(long long)p->nodes[i].duration_ns,
					p->nodes[i].is_straggler),
			     0);
		cr_assert_eq(print_sum(b, &p->nodes[i].sum), 0);
	}
	for (size_t i = 0; i < p->n_rounds; i++) {
		const struct start_ckpt_round *r = &p->rounds[i];

		cr_assert_eq(buf_printf(b, "\n%lld %lld %lld %lld %u %s",
					(long long)r->begin_ns,
					(long long)r->end_ns,
					(long long)r->median_ns,
					(long long)r->max_ns, r->nodes,
					f->nodes[r->slowest].name),
			     0);
		cr_assert_eq(print_sum(b, &r->sum), 0);
	}
}

/* Everything known about a start as text; the caller frees it. */
static char *text_of(int64_t id)
{
	struct error err = ERROR_INIT;
	AUTO_BUF b = BUF_INIT;
	struct ckpt_found f;

	cr_assert_eq(ckpt_db_get(db, id, &f, &err), 0, "%s", err.msg);
	cr_assert_eq(f.left_out, 0);
	for (int i = 0; i < START_CKPT_KINDS; i++)
		print_part(&b, &f, &f.ckpt.part[i]);
	ckpt_found_fini(&f);
	return buf_steal(&b);
}

#define NODES 5
#define JOBS 3
#define SAID 160 /* events of each node */

/* The events of one node, from which batches are made. */
struct said_node {
	struct stage_event events[SAID];
	char name[8];
	size_t n;
};

static unsigned int seed;

static unsigned int any(unsigned int n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % n;
}

static const char *const jobs[JOBS] = { "a", "b", "c" };

static void make_said(struct said_node *s, unsigned int node)
{
	static const char *const stages[] = { "ckpt.load", "ckpt.save",
					      "ckpt.save", "env" };
	int64_t at = 0;

	(void)snprintf(s->name, sizeof(s->name), "n%u", node);
	for (s->n = 0; s->n < SAID; s->n++) {
		struct stage_event *e = &s->events[s->n];

		at += 1 + any(4000);
		*e = (struct stage_event)STAGE_EVENT_INIT;
		e->stage = stage_text(stages[any(4)]);
		e->job = stage_text(jobs[s->n / 40 % JOBS]);
		e->ev = any(20) ? any(2) ? STAGE_BEGIN : STAGE_END : STAGE_MARK;
		e->id = (int64_t)any(1000) * 1000000 + (int64_t)s->n;
		e->rank = any(3) ? (int64_t)any(3) : STAGE_NONE;
		e->status = any(2) ? (int64_t)any(3) : STAGE_NONE;
		e->boot = any(4) ? 7 : any(2) ? 8 : 0;
		e->ts_ns = T0 * NS_PER_S + at * 1000003;
		if (any(5))
			e->mono_ns = (5000 + at) * 1000003 + (int64_t)any(9999);
		for (unsigned int i = any(3) * 3; i < STAGE_FACTS;
		     i += 1 + any(4))
			e->facts[i] = any(2) ? any(100000) : 0;
	}
}

/* Send some of the node's events: at times out of order, twice, or repeated from before; with a
 * clock exchange or without. */
static void send_some(const struct said_node *s)
{
	struct error err = ERROR_INIT;
	AUTO_BUF lines = BUF_INIT;
	struct stage_batch b = { .node = s->name, .now = NOW };
	size_t from = any(SAID), n = 1 + any(any(2) ? 4 : 40);

	for (size_t i = 0; i < n; i++) {
		size_t at = any(16) ? from + i : any(SAID);

		cr_assert_eq(stage_event_format(&s->events[at % SAID], &lines),
			     0);
	}
	b.text = lines.data;
	b.len = lines.len;
	b.has_clock = any(4) == 0;
	b.clock = (struct start_clock){
		.boot = 7 + any(2),
		.mono_offset_ns = T0 * NS_PER_S + (int64_t)any(1000000),
		.wall_offset_ns = (int64_t)any(1000000),
		.rtt_ns = 1 + (int64_t)any(1000000),
	};
	cr_assert_eq(stage_batch_check(&b, &err), 0, "%s", err.msg);
	cr_assert_eq(stage_db_put(db, &b, &err), 0, "%s", err.msg);
}

/* Run a query; returns the number in its single row. */
static int64_t count(const char *sql)
{
	sqlite3_stmt *st;
	sqlite3 *raw;
	char path[96];
	int64_t n;

	(void)snprintf(path, sizeof(path), "%s/db", dir);
	cr_assert_eq(sqlite3_open(path, &raw), SQLITE_OK);
	cr_assert_eq(sqlite3_prepare_v2(raw, sql, -1, &st, NULL), SQLITE_OK);
	cr_assert_eq(sqlite3_step(st), SQLITE_ROW);
	n = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	(void)sqlite3_close(raw);
	return n;
}

static int64_t events_of(const void *part, size_t n)
{
	struct ckpt_pack p = CKPT_PACK_INIT;
	uint64_t facts[STAGE_FACTS];
	struct start_event e;
	int64_t found = 0;
	size_t pos = 0;
	int rc;

	while ((rc = ckpt_pack_next(&p, part, n, &pos, facts, &e)) > 0)
		found++;
	cr_assert_eq(rc, 0);
	return found;
}

/* Count the events in all parts, and check that each is there once. */
static int64_t count_packed(void)
{
	sqlite3_stmt *st;
	sqlite3 *raw;
	char path[96];
	int64_t n = 0;

	(void)snprintf(path, sizeof(path), "%s/db", dir);
	cr_assert_eq(sqlite3_open(path, &raw), SQLITE_OK);
	cr_assert_eq(sqlite3_prepare_v2(raw, "SELECT events FROM ckpt_part", -1,
					&st, NULL),
		     SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW)
		n += events_of(sqlite3_column_blob(st, 0),
			       (size_t)sqlite3_column_bytes(st, 0));
	(void)sqlite3_finalize(st);
	(void)sqlite3_close(raw);
	return n;
}

/* Compare each start read from its parts with the same read from its events; returns the number of
 * saves. */
static size_t compare_ways(void)
{
	char *parts[JOBS];
	size_t saves = 0;

	for (unsigned int i = 0; i < JOBS; i++) {
		parts[i] = text_of(id_of(jobs[i]));
		cr_assert(parts[i]);
	}
	alter("UPDATE job_start SET ckpt_seen = ckpt_seen - 1");
	for (unsigned int i = 0; i < JOBS; i++) {
		AUTO_FREE char *events = text_of(id_of(jobs[i]));

		cr_assert(events);
		cr_assert_str_eq(parts[i], events, "seed %u", seed);
		saves += strstr(events, "ckpt.save") != NULL;
		free(parts[i]);
	}
	alter("UPDATE job_start SET ckpt_seen = ckpt_seen + 1");
	return saves;
}

Test(ckpt_db, has_the_same_of_parts_as_of_events, .init = open_new,
     .fini = close_db)
{
	static struct said_node nodes[NODES];

	for (unsigned int round = 0; round < 4; round++) {
		seed = 4242 + round;
		for (unsigned int i = 0; i < NODES; i++)
			make_said(&nodes[i], i);
		for (unsigned int i = 0; i < 150; i++) {
			send_some(&nodes[any(NODES)]);
			if (any(40))
				continue;
			/* Continue with another process of the service. */
			db_close(db);
			open_as(&schema);
		}
		cr_assert_eq(compare_ways(), JOBS);
		cr_assert_eq(count_packed(),
			     count("SELECT count(*) FROM stage_event "
				   "WHERE stage LIKE 'ckpt.%'"));
	}
}

Test(ckpt_db, packs_what_a_node_says_into_parts_of_a_bounded_size,
     .init = open_new, .fini = close_db)
{
	struct error err = ERROR_INIT;

	for (int64_t i = 0; i < 400; i++)
		save_of("a", "n1", 100 + 10 * i, 107 + 10 * i, 700);
	save_often("a", "n2");
	cr_expect_eq(count("SELECT ckpt_seen = events FROM job_start"), 1);
	cr_expect_gt(count("SELECT count(*) FROM ckpt_part WHERE node = 'n1'"),
		     1);
	cr_expect_lt(count("SELECT max(length(events)) FROM ckpt_part"),
		     CKPT_PART_BYTES + 200);
	/* Packed events take less than a quarter of the bytes of the events. */
	cr_expect_lt(count("SELECT sum(length(events)) FROM ckpt_part"),
		     15 * 10800);
	cr_expect_eq(stage_db_sweep(db, NOW + 1, &err), 1);
	cr_expect_eq(count("SELECT count(*) FROM ckpt_part"), 0);
}

Test(ckpt_db, makes_a_nodes_parts_again_of_its_events, .init = open_new,
     .fini = close_db)
{
	save_of("a", "n1", 100, 107, 700);
	save_of("a", "n2", 100, 105, 300);
	alter("UPDATE ckpt_part SET events = x'ff' WHERE node = 'n1'");
	/* Damaged parts are ignored, and replaced with the node's next batch. */
	struct error err = ERROR_INIT;
	struct ckpt_found f;

	cr_expect_eq(ckpt_db_get(db, 1, &f, &err), -EBADMSG);
	ckpt_found_fini(&f);
	save_of("a", "n1", 500, 507, 1);
	cr_expect_eq(sum_up(NOW), 1);
	expect_rows("a ckpt.save 1001 n1;", 0, "", 10);
}
