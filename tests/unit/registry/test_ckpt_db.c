// SPDX-License-Identifier: Apache-2.0
/* On SQLite; tests/functional/checkpoints.bats has both kinds. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "registry/ckpt_cache.h"
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

/* One event of a job on a node, `s` seconds after T0, heard of at `now`. */
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

/* How many starts are due, which are summed up then. */
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

/* The rows as "job stage bytes slowest;", the latest first. */
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

/* As many events as one node may send of a start. */
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
	/* "b" is asked for again and again, "a" not. */
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
	/* Whoever has it may go on with it. */
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

Test(ckpt_db, finds_what_the_version_before_stored, .init = make_dir,
     .fini = close_db)
{
	/* Its statements are those before the first of checkpoints. */
	const struct db_schema before = { .scripts = schema.scripts,
					  .n = 8,
					  .statements = schema.statements,
					  .n_statements = SQL_CKPT_EVENTS };

	open_as(&before);
	save_of("a", "n1", 100, 107, 700);
	db_close(db);
	open_as(&schema);
	cr_expect_eq(sum_up(NOW), 1);
	expect_rows("a ckpt.save 700 n1;", 0, "", 10);
}
