// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>
#include <time.h>

#include "own_db.h"
#include "registry/history_db.h"
#include "registry/service.h"
#include "registry/stage_db.h"

TestSuite(sweep, .timeout = 120);

#define STARTS 8
#define NS_PER_S INT64_C(1000000000)

static struct registry_config cfg;
static struct service s = { .cfg = &cfg };

static sqlite3 *raw;

/* Run SQL; returns the value of a SELECT, else 0. */
static int64_t ask(const char *sql)
{
	sqlite3_stmt *st;
	int64_t v = 0;

	cr_assert_eq(sqlite3_prepare_v2(raw, sql, -1, &st, NULL), SQLITE_OK,
		     "%s", sqlite3_errmsg(raw));
	if (sqlite3_step(st) == SQLITE_ROW)
		v = sqlite3_column_int64(st, 0);
	cr_assert_eq(sqlite3_finalize(st), SQLITE_OK, "%s",
		     sqlite3_errmsg(raw));
	return v;
}

/* Store a finished start of job jN. */
static void put_start(int n)
{
	struct error err = ERROR_INIT;
	AUTO_BUF lines = BUF_INIT;
	int64_t then = time(NULL) - 2 * HISTORY_QUIET_OPEN_S;
	struct stage_batch b = { .node = "n", .now = then + n };
	char job[8];

	(void)snprintf(job, sizeof(job), "j%d", n);
	for (int i = 0; i < 2; i++) {
		struct stage_event e = STAGE_EVENT_INIT;

		e.stage = stage_text("env");
		e.job = stage_text(job);
		e.node = stage_text("n");
		e.ev = i ? STAGE_END : STAGE_BEGIN;
		e.ts_ns = (then - 100 + i) * NS_PER_S;
		e.id = i + 1;
		cr_assert_eq(stage_event_format(&e, &lines), 0);
	}
	b.text = lines.data;
	b.len = lines.len;
	cr_assert_eq(stage_batch_check(&b, &err), 0, "%s", err.msg);
	cr_assert_eq(stage_db_put(s.db, &b, &err), 0, "%s", err.msg);
}

static void begin(void)
{
	struct error err = ERROR_INIT;
	char path[64];

	s.db = own_db_open(NULL);
	(void)snprintf(path, sizeof(path), "%s/db", own_db_dir);
	cr_assert_eq(sqlite3_open(path, &raw), SQLITE_OK);
	(void)sqlite3_busy_timeout(raw, 10000);
	s.limits.retention_s = INT64_C(86400) * 90;
	cr_assert_eq(loop_new(&s.loop, &err), 0);
	cr_assert_eq(start_cache_new(s.db, 64u << 20, &s.start_cache, &err), 0);
	cr_assert_eq(ckpt_cache_new(s.db, &s.ckpt_cache, &err), 0);
	cr_assert_eq(stage_times_new(&s.stage_times, &err), 0);
	for (int i = 1; i <= STARTS; i++)
		put_start(i);
	/* Mark the checkpoints as summed up, so that only times are due. */
	(void)ask("UPDATE job_start SET ckpt_revision = revision");
}

static void end(void)
{
	loop_free(s.loop);
	(void)sqlite3_close(raw);
	start_cache_free(s.start_cache);
	ckpt_cache_free(s.ckpt_cache);
	stage_times_free(s.stage_times);
	own_db_close(s.db);
}

/* Stop the loop when the first sweep has ended. */
static void on_look(struct loop_timer *t)
{
	if (!s.sweep.running)
		loop_stop(s.loop);
	else
		cr_assert_eq(loop_timer_start(s.loop, t, NS_PER_S / 100, NULL),
			     0);
}

static void on_begun(struct loop_timer *t)
{
	(void)t;
	loop_stop(s.loop);
}

static void start_and_run(void (*fn)(struct loop_timer *t))
{
	struct loop_timer look = { .fn = fn };
	struct error err = ERROR_INIT;

	s.sweep = (struct sweep){ .running = false };
	cr_assert_eq(sweep_start(&s.sweep, &s, &err), 0, "%s", err.msg);
	cr_assert_eq(loop_timer_start(s.loop, &look, NS_PER_S / 100, &err), 0);
	cr_assert_eq(loop_run(s.loop, &err), 0, "%s", err.msg);
	loop_timer_stop(&look);
	sweep_stop(&s.sweep);
}

static void sweep_once(void)
{
	start_and_run(on_look);
	sweep_join(&s.sweep);
}

Test(sweep, starts_that_fail_always_keep_no_others_from_being_summed_up,
     .init = begin, .fini = end)
{
	(void)ask("CREATE TRIGGER t BEFORE UPDATE OF summed ON job_start WHEN "
		  "NEW.id <= 3 BEGIN SELECT RAISE(ABORT, 'a test''s'); END");
	sweep_once();
	cr_expect_eq(ask("SELECT sum(sum_tries) FROM job_start"), 3);
	cr_expect_eq(ask("SELECT count(*) FROM job_start WHERE sum_tries = 1 "
			 "AND id <= 3"),
		     3);
	sweep_once();
	cr_expect_eq(ask("SELECT sum(summed) FROM job_start"), STARTS - 3);
}

Test(sweep, of_a_database_that_is_not_written_no_start_is_blamed, .init = begin,
     .fini = end)
{
	struct start_cache_stats n;

	(void)ask("CREATE TRIGGER t BEFORE UPDATE ON job_start "
		  "BEGIN SELECT RAISE(ABORT, 'a test''s'); END");
	sweep_once();
	cr_expect_eq(ask("SELECT sum(sum_tries) FROM job_start"), 0);
	start_cache_get_stats(s.start_cache, &n);
	cr_expect_eq(n.misses_total, 1, "%llu starts were analysed",
		     (unsigned long long)n.misses_total);
}

Test(sweep, a_start_that_fails_alone_is_noted, .init = begin, .fini = end)
{
	(void)ask("DELETE FROM job_start WHERE id > 1");
	(void)ask("CREATE TRIGGER t BEFORE UPDATE OF summed ON job_start "
		  "BEGIN SELECT RAISE(ABORT, 'a test''s'); END");
	sweep_once();
	cr_expect_eq(ask("SELECT sum_tries FROM job_start"), 1);
}

Test(sweep, a_sweep_ends_with_its_service, .init = begin, .fini = end)
{
	(void)ask("BEGIN IMMEDIATE");
	start_and_run(on_begun);
	(void)ask("COMMIT");
	sweep_join(&s.sweep);
	cr_expect_leq(ask("SELECT sum(summed) FROM job_start"), 1);
}
