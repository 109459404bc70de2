// SPDX-License-Identifier: Apache-2.0
/* Tests of stage_db.c on SQLite; tests/functional/stages.bats uses both databases. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "registry/schema.h"
#include "registry/stage_db.h"

TestSuite(stage_db, .timeout = 120);

#define NOW INT64_C(1795010000)
#define T0 (NOW - 5000) /* when the jobs began */
#define BOOT 7u

static char dir[64];
static struct db *db;

static void open_new(void)
{
	struct error err = ERROR_INIT;
	char url[96];
	const struct db_config cfg = { .url = url,
				       .schema = &schema,
				       .timeout_ns = 10 * NS_PER_S };

	(void)snprintf(dir, sizeof(dir), "/tmp/stage-db.XXXXXX");
	cr_assert(mkdtemp(dir));
	(void)snprintf(url, sizeof(url), "sqlite:%s/db", dir);
	cr_assert_eq(db_open(&cfg, &db, &err), 0, "%s", err.msg);
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

/* ------------------------------------------------------------------- batches --- */

/* An event of job "j", `s` seconds after T0. */
static struct stage_event event_at(int64_t id, int64_t s)
{
	struct stage_event e = STAGE_EVENT_INIT;

	e.stage = stage_text("env");
	e.job = stage_text("j");
	e.ev = id % 2 ? STAGE_BEGIN : STAGE_END;
	e.ts_ns = (T0 + s) * NS_PER_S;
	e.id = id;
	return e;
}

static void add(struct buf *lines, struct stage_event e)
{
	cr_assert_eq(stage_event_format(&e, lines), 0);
}

static int put_of(const char *node, const struct buf *lines,
		  const struct start_clock *clock, struct stage_batch *b,
		  struct error *err)
{
	int rc;

	*b = (struct stage_batch){ .node = node,
				   .text = lines->data,
				   .len = lines->len,
				   .now = NOW,
				   .has_clock = clock };
	if (clock)
		b->clock = *clock;
	rc = stage_batch_check(b, err);
	return rc < 0 ? rc : stage_db_put(db, b, err);
}

/* Store a batch; returns the number of new events. */
static uint64_t put(const char *node, const struct buf *lines)
{
	struct error err = ERROR_INIT;
	struct stage_batch b;

	cr_assert_eq(put_of(node, lines, NULL, &b, &err), 0, "%s", err.msg);
	return b.stored;
}

static void put_one(const char *node, struct stage_event e)
{
	AUTO_BUF lines = BUF_INIT;

	add(&lines, e);
	cr_assert_eq(put(node, &lines), 1);
}

static void expect_refused(const char *node, const struct buf *lines,
			   const struct start_clock *clock, const char *what)
{
	struct error err = ERROR_INIT;
	struct stage_batch b;

	cr_expect_eq(put_of(node, lines, clock, &b, &err), -EINVAL);
	cr_expect(strstr(err.msg, what), "%s", err.msg);
}

/* -------------------------------------------------------------------- starts --- */

struct found {
	int64_t id, first_ns, last_ns, ready_ns, events, revision;
};

static int note(void *arg, const struct job_start *s)
{
	*(struct found *)arg =
		(struct found){ s->id,       s->first_ns, s->last_ns,
				s->ready_ns, s->events,   s->revision };
	return 1;
}

static struct found start_of(const char *job)
{
	const struct job_filter f = { .job = job, .image = "", .label = "" };
	struct error err = ERROR_INIT;
	struct found ret = { .id = -1 };

	cr_assert_eq(stage_db_list(db, &f, 1, note, &ret, &err), 0, "%s",
		     err.msg);
	return ret;
}

/* Read the start's events and analyse them. */
static int get(int64_t id, const struct stage_base *base,
	       struct start_set **ret, struct start_report *ret_report,
	       struct error *err)
{
	struct found f;
	int64_t left_out;
	int rc = stage_db_get(db, id, note, &f, base, ret, &left_out, err);

	return rc < 0 ? rc : start_report_make(*ret, ret_report, err);
}

static int note_list(void *arg, const struct job_start *s)
{
	return buf_printf(arg, "%s/%lld ", s->job, (long long)s->attempt);
}

static void expect_list(struct job_filter f, int64_t limit, const char *want)
{
	struct error err = ERROR_INIT;
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(stage_db_list(db, &f, limit, note_list, &b, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(buf_append(&b, "", 1), 0);
	cr_expect_str_eq(b.data, want);
}

/* --------------------------------------------------------------------- tests --- */

Test(stage_db, takes_no_line_that_is_no_event_of_the_node)
{
	const struct start_clock clock = { .boot = BOOT, .rtt_ns = 1 };
	struct stage_event e = event_at(1, 0);
	AUTO_BUF other = BUF_INIT;
	AUTO_BUF no_id = BUF_INIT;
	AUTO_BUF no_job = BUF_INIT;
	AUTO_BUF old_boot = BUF_INIT;

	e.node = stage_text("n2");
	add(&other, event_at(3, 0));
	add(&other, e);
	expect_refused("n1", &other, NULL, "line 2 is no event of node 'n1'");
	expect_refused("n22", &other, NULL, "line 2");

	e = event_at(STAGE_NONE, 0);
	add(&no_id, e);
	expect_refused("n1", &no_id, NULL, "line 1");
	e = event_at(1, 0);
	e.job.n = 0;
	add(&no_job, e);
	expect_refused("n1", &no_job, NULL, "line 1");

	/* Without a wall-clock time, only events of the boot of the clock exchange have a time. */
	e = event_at(1, 0);
	e.ts_ns = STAGE_NONE;
	e.mono_ns = NS_PER_S;
	e.boot = BOOT + 1;
	add(&old_boot, e);
	expect_refused("n1", &old_boot, NULL, "line 1");
	expect_refused("n1", &old_boot, &clock, "line 1");
}

Test(stage_db, counts_an_event_once_however_often_it_comes, .init = open_new,
     .fini = close_db)
{
	struct error err = ERROR_INIT;
	AUTO_BUF lines = BUF_INIT;
	struct stage_batch b;

	/* More events than one statement stores, so that some are stored one by one. */
	for (int i = 1; i <= 24; i++)
		add(&lines, event_at(i, i));
	cr_assert_eq(put("n1", &lines), 24);
	cr_assert_eq(put_of("n1", &lines, NULL, &b, &err), 0, "%s", err.msg);
	cr_expect_eq(b.stored, 0);
	cr_expect_eq(b.doubles, 24);
	cr_expect_eq(start_of("j").events, 24);
	/* Events of another node are different events. */
	cr_expect_eq(put("n2", &lines), 24);
	cr_expect_eq(start_of("j").events, 48);
	cr_expect_eq(start_of("j").first_ns, (T0 + 1) * NS_PER_S);
	cr_expect_eq(start_of("j").last_ns, (T0 + 24) * NS_PER_S);
}

Test(stage_db, keeps_nothing_of_a_batch_that_is_too_much, .init = open_new,
     .fini = close_db)
{
	struct error err = ERROR_INIT;
	AUTO_BUF most = BUF_INIT;
	AUTO_BUF more = BUF_INIT;
	struct stage_batch b;

	for (unsigned int i = 1; i <= STAGE_NODE_EVENTS_MAX; i++)
		add(&most, event_at(i, i % 100));
	cr_assert_eq(put("n1", &most), STAGE_NODE_EVENTS_MAX);
	add(&more, event_at(1, 1)); /* stored already */
	cr_expect_eq(put("n1", &more), 0);
	for (unsigned int i = 1; i <= 20; i++)
		add(&more, event_at(STAGE_NODE_EVENTS_MAX + i, 1));
	cr_expect_eq(put_of("n1", &more, NULL, &b, &err), -EFBIG);
	cr_expect(strstr(err.msg, "of node 'n1'"), "%s", err.msg);
	cr_expect_eq(start_of("j").events, STAGE_NODE_EVENTS_MAX);
	put_one("n2", event_at(1, 1));
	cr_expect_eq(start_of("j").events, STAGE_NODE_EVENTS_MAX + 1);
}

Test(stage_db, keeps_jobs_and_attempts_of_a_batch_apart, .init = open_new,
     .fini = close_db)
{
	const struct job_filter all = { "", "", "" }, k = { "k", "", "" },
				image = { "", "reg/i:1", "" },
				label = { "", "", "big" };
	struct stage_event e = event_at(1, 10);
	AUTO_BUF lines = BUF_INIT;

	e.image = stage_text("reg/i:1");
	add(&lines, e);
	e = event_at(2, 30);
	e.attempt = 1;
	add(&lines, e);
	e = event_at(3, 20);
	e.job = stage_text("k");
	e.label = stage_text("big");
	add(&lines, e);
	add(&lines, event_at(4, 11)); /* the first start again */
	cr_assert_eq(put("n1", &lines), 4);

	expect_list(all, 10, "j/1 k/0 j/0 "); /* by when they began */
	expect_list(all, 2, "j/1 k/0 ");
	expect_list(k, 10, "k/0 ");
	expect_list(image, 10, "j/0 ");
	expect_list(label, 10, "k/0 ");
	cr_expect_eq(start_of("k").events, 1);
}

static int note_class(void *arg, const struct job_start *s)
{
	return buf_printf(arg, "%lld %s, ", (long long)s->attempt,
			  start_class_name(job_start_class(s)));
}

/* Put the stages of each attempt, and expect these classes. */
static void expect_classes(const char *const *stages, const char *want)
{
	const struct job_filter all = { "j", "", "" };
	struct error err = ERROR_INIT;
	AUTO_BUF lines = BUF_INIT;
	AUTO_BUF b = BUF_INIT;
	uint64_t n = 0;

	for (; stages[n]; n++) {
		struct stage_event e = event_at((int64_t)n + 1, (int64_t)n);

		e.stage = stage_text(stages[n]);
		e.attempt = (int64_t)n;
		add(&lines, e);
	}
	cr_assert_eq(put("n1", &lines), n);
	cr_assert_eq(stage_db_list(db, &all, 10, note_class, &b, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(buf_append(&b, "", 1), 0);
	cr_expect_str_eq(b.data, want);
}

Test(stage_db, tells_a_hot_update_from_a_full_start, .init = open_new,
     .fini = close_db)
{
	static const char *const stages[] = {
		"env", "image.pull", "env", "queued.env", "schedule", NULL
	};

	expect_classes(stages, "4 full, 3 hot_update, 2 hot_update, 1 full, "
			       "0 full, ");
}

Test(stage_db, hears_late_that_an_attempt_before_was_placed, .init = open_new,
     .fini = close_db)
{
	struct stage_event e = event_at(1, 10);
	struct job_start s = { .is_placed = false };
	struct error err = ERROR_INIT;

	e.attempt = 1;
	put_one("n1", e);
	s.id = start_of("j").id;
	cr_assert_eq(stage_db_others(db, &s, &err), 0, "%s", err.msg);
	cr_expect_eq(job_start_class(&s), START_FULL);
	e = event_at(2, 5);
	e.stage = stage_text("queue");
	put_one("n2", e);
	cr_assert_eq(stage_db_others(db, &s, &err), 0, "%s", err.msg);
	cr_expect_eq(job_start_class(&s), START_HOT_UPDATE);
	cr_expect_eq(s.later, 0);
}

Test(stage_db, tells_times_by_the_clock_of_the_service, .init = open_new,
     .fini = close_db)
{
	const struct start_clock clock = { .boot = BOOT,
					   .mono_offset_ns = T0 * NS_PER_S,
					   .wall_offset_ns = -60 * NS_PER_S,
					   .rtt_ns = 1000 };
	struct error err = ERROR_INIT;
	struct stage_event e = event_at(1, 100);
	AUTO_BUF lines = BUF_INIT;
	struct stage_batch b;

	e.mono_ns = 3 * NS_PER_S;
	e.boot = BOOT;
	add(&lines, e);
	e = event_at(2, 100); /* without a boot only the wall clock counts */
	e.ev = STAGE_MARK;
	e.stage = stage_text(START_READY_MARK);
	add(&lines, e);
	cr_assert_eq(put_of("n1", &lines, &clock, &b, &err), 0, "%s", err.msg);
	cr_expect_eq(start_of("j").first_ns, (T0 + 3) * NS_PER_S);
	cr_expect_eq(start_of("j").last_ns, (T0 + 40) * NS_PER_S);
	cr_expect_eq(start_of("j").ready_ns, (T0 + 40) * NS_PER_S);

	/* A node whose clock is a day ahead does not stay first in the list for a day. */
	e = event_at(3, 86400);
	e.job = stage_text("ahead");
	put_one("n1", e);
	cr_expect_eq(start_of("ahead").first_ns, (NOW + 1) * NS_PER_S);
}

Test(stage_db, believes_the_shortest_exchange, .init = open_new,
     .fini = close_db)
{
	static const struct start_clock clocks[] = {
		{ BOOT, 10 * NS_PER_S, 0, 5000 },
		{ BOOT, 20 * NS_PER_S, 0, 1000 },
		{ BOOT, 30 * NS_PER_S, 0, 9000 },
	};
	struct error err = ERROR_INIT;
	AUTO_BUF lines = BUF_INIT;
	struct start_report r;
	struct start_set *set = NULL;
	const struct stage_base none = { .set = NULL };
	struct stage_event e = event_at(1, 0);
	struct stage_batch b;

	for (int i = 1; i <= 2; i++) {
		e = event_at(i, 0);
		e.mono_ns = i * NS_PER_S;
		e.boot = BOOT;
		add(&lines, e);
	}
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		cr_assert_eq(put_of("n1", &lines, &clocks[i], &b, &err), 0,
			     "%s", err.msg);
	cr_assert_eq(get(start_of("j").id, &none, &set, &r, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(r.n_runs, 1);
	cr_expect_eq(r.runs[0].begin_ns, 21 * NS_PER_S);
	start_report_fini(&r);
	start_set_free(set);
}

Test(stage_db, reads_only_nodes_that_sent_something_since, .init = open_new,
     .fini = close_db)
{
	const struct stage_base none = { .set = NULL };
	struct error err = ERROR_INIT;
	struct start_set *before = NULL, *since = NULL;
	struct start_report old, new;
	struct stage_base base;

	put_one("n1", event_at(1, 0));
	put_one("n1", event_at(2, 5));
	put_one("n2", event_at(1, 0));
	base.revision = start_of("j").revision;
	cr_assert_eq(get(start_of("j").id, &none, &before, &old, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(old.n_runs, 2);
	cr_expect(old.runs[1].is_open);

	put_one("n2", event_at(2, 7));
	put_one("n3", event_at(1, 0));
	base.set = before;
	cr_assert_eq(get(start_of("j").id, &base, &since, &new, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(new.n_nodes, 3);
	cr_assert_eq(new.n_runs, 3);
	cr_expect_str_eq(new.nodes[new.runs[0].node].name, "n1");
	for (size_t i = 0; i < new.n_runs; i++) {
		const struct start_run *r = &new.runs[i];
		const char *node = new.nodes[r->node].name;

		cr_expect_eq(r->duration_ns,
			     strcmp(node, "n1") == 0   ? 5 * NS_PER_S
			     : strcmp(node, "n2") == 0 ? 7 * NS_PER_S
						       : 0);
	}
	start_report_fini(&new);
	start_set_free(since);
	start_report_fini(&old);
	start_set_free(before);
}

static int want_none(void *arg, const struct job_start *s)
{
	(void)s;
	++*(int *)arg;
	return 0;
}

Test(stage_db, reads_events_only_where_they_are_wanted, .init = open_new,
     .fini = close_db)
{
	const struct stage_base none = { .set = NULL };
	struct error err = ERROR_INIT;
	struct start_set *set = NULL;
	int64_t left_out = 0;
	int seen = 0;

	put_one("n1", event_at(1, 0));
	cr_assert_eq(stage_db_get(db, start_of("j").id, want_none, &seen, &none,
				  &set, &left_out, &err),
		     0, "%s", err.msg);
	cr_expect_eq(seen, 1);
	cr_expect_null(set);
	cr_expect_eq(stage_db_get(db, start_of("j").id + 1, want_none, &seen,
				  &none, &set, &left_out, &err),
		     -ENOENT);
	cr_expect_eq(seen, 1);
}

Test(stage_db, forgets_starts_that_heard_nothing_since, .init = open_new,
     .fini = close_db)
{
	const struct job_filter all = { "", "", "" };
	struct stage_event e = event_at(1, 0);
	struct error err = ERROR_INIT;
	AUTO_BUF lines = BUF_INIT;
	struct stage_batch b = { .node = "n1", .now = NOW - 100 };

	e.job = stage_text("old");
	add(&lines, e);
	b.text = lines.data;
	b.len = lines.len;
	cr_assert_eq(stage_batch_check(&b, &err), 0, "%s", err.msg);
	cr_assert_eq(stage_db_put(db, &b, &err), 0, "%s", err.msg);
	put_one("n1", event_at(1, 0));
	cr_expect_eq(stage_db_sweep(db, NOW - 100, &err), 0, "%s", err.msg);
	cr_expect_eq(stage_db_sweep(db, NOW - 99, &err), 1, "%s", err.msg);
	expect_list(all, 10, "j/0 ");
}
