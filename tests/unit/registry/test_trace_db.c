// SPDX-License-Identifier: Apache-2.0
/* Tests which start is closest and which recordings are kept, on SQLite; registry.bats uses both
 * databases. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "registry/schema.h"
#include "registry/trace_db.h"

#define NOW INT64_C(1795010000)
#define HOUR 3600
#define DAY 86400
#define LEN 100u /* bytes of a recording */

static char dir[64];
static struct db *db;
static struct error err;
static struct trace_limits plenty = { .trace_max = 1 << 20,
				      .memory_max = 1 << 20,
				      .node_bytes = 1 << 20,
				      .node_hourly = 1000,
				      .repo_bytes = 1 << 20,
				      .total_bytes = 1 << 20,
				      .retention_s = 30 * DAY };

static void open_new(void)
{
	char url[96];
	const struct db_config cfg = { .url = url,
				       .schema = &schema,
				       .timeout_ns = 60 * NS_PER_S };

	(void)snprintf(dir, sizeof(dir), "/tmp/trace-db.XXXXXX");
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
	cr_expect_eq(rmdir(dir), 0);
}

TestSuite(trace_db, .init = open_new, .fini = close_db, .timeout = 120);

/* Store a recording of `node`; returns the verdict or -errno. */
static int put(const struct trace_limits *l, const char *repo,
	       const char *image, const char *workload, const char *node,
	       int64_t now)
{
	static const char data[LEN];
	const struct trace_info info = { .created_at = (uint64_t)now,
					 .window_ms = 10000,
					 .ready_ms = 8000,
					 .runs = 1 };
	const struct trace_recording r = { .repo = repo,
					   .image = image,
					   .workload = workload,
					   .token = "t",
					   .node = node,
					   .data = data,
					   .len = LEN,
					   .info = &info,
					   .memory = LEN,
					   .entries = 1 };
	enum verdict verdict, judged;
	unsigned int evicted;
	int rc;

	cr_assert_eq(trace_db_judge(db, &r, now, &judged, &err), 0, "%s",
		     err.msg);
	rc = trace_db_put(db, l, &r, now, &verdict, &evicted, &err);
	if (rc < 0)
		return rc;
	/* trace_db_judge() had predicted the verdict. */
	cr_expect_eq(judged, verdict);
	return (int)verdict;
}

static int find(const char *image, const char *workload, const char *repo,
		struct start *ret)
{
	const struct start_query q = {
		.image = image, .workload = workload, .repo = repo, .prefix = ""
	};

	return trace_db_find(db, &q, NOW, ret, &err);
}

static uint64_t count_starts(const struct trace_limits *l, int64_t now)
{
	struct trace_totals t;
	unsigned int evicted;

	cr_assert_eq(trace_db_sweep(db, l, now, &t, &evicted, &err), 0, "%s",
		     err.msg);
	return t.starts;
}

Test(trace_db, the_nearest_start_is_found)
{
	struct start s;

	cr_expect_eq(find("A", "w", "h/r", &s), -ENOENT);
	cr_expect(s.wanted);
	cr_assert_eq(put(&plenty, "h/r", "B", "other", "n", NOW - 4),
		     VERDICT_STORE);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_FAR);
	cr_assert_eq(put(&plenty, "h/else", "A", "other", "n", NOW - 3),
		     VERDICT_STORE);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_WORKLOAD);
	cr_assert_eq(put(&plenty, "h/r", "B", "w", "n", NOW - 2),
		     VERDICT_STORE);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_RELATIVE);
	cr_expect(s.wanted);
	cr_assert_eq(put(&plenty, "h/r", "A", "w", "n", NOW - 1),
		     VERDICT_STORE);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_OWN);
	cr_expect_eq(s.votes, 1);
	/* Without a repository there are no related starts. */
	cr_expect_eq(find("C", "w", "", &s), -ENOENT);
}

Test(trace_db, a_start_that_was_asked_for_exactly_is_no_other)
{
	struct start_query q = { .image = "A",
				 .workload = "w",
				 .repo = "h/r",
				 .prefix = "",
				 .exact = true };
	struct start s;

	cr_assert_eq(put(&plenty, "h/r", "A", "other", "n", NOW),
		     VERDICT_STORE);
	cr_expect_eq(trace_db_find(db, &q, NOW, &s, &err), -ENOENT);
	q.workload = "other";
	cr_expect_eq(trace_db_find(db, &q, NOW, &s, &err), 0);
}

Test(trace_db, what_is_not_below_the_askers_prefix_is_not_found)
{
	struct start_query q = { .image = "A",
				 .workload = "w",
				 .repo = "h/mine/x",
				 .prefix = "h/mine" };
	struct start s;

	cr_assert_eq(put(&plenty, "h/yours/x", "A", "w", "n", NOW),
		     VERDICT_STORE);
	cr_expect_eq(trace_db_find(db, &q, NOW, &s, &err), -ENOENT);
	cr_assert_eq(put(&plenty, "h/mine/y", "A", "w", "n", NOW),
		     VERDICT_STORE);
	cr_expect_eq(trace_db_find(db, &q, NOW, &s, &err), 0);
	/* A token cannot delete a start that it may not see. */
	cr_expect_eq(trace_db_forget(db, "A", "", "", "h/mine", &err), 1);
	cr_expect_eq(count_starts(&plenty, NOW), 1);
}

static int count_line(void *arg, const struct start_line *l)
{
	(void)l;
	++*(int *)arg;
	return 0;
}

/* Count the starts of image A listed for a caller that names `repo`. */
static int count_lines(const char *repo)
{
	int n = 0;

	cr_assert_geq(trace_db_list(db, "A", repo, "", 10, count_line, &n,
				    &err),
		      0, "%s", err.msg);
	return n;
}

Test(trace_db, what_is_of_a_store_is_found_by_the_stores_name_alone)
{
	struct start_query q = { .image = "A",
				 .workload = "w",
				 .repo = "s3://bkt/env",
				 .prefix = "s3://bkt/env" };
	struct start s;

	cr_assert_eq(put(&plenty, "s3://bkt/env", "A", "w", "n", NOW),
		     VERDICT_STORE);
	cr_assert_eq(trace_db_find(db, &q, NOW, &s, &err), 0);
	cr_expect_eq(s.match, MATCH_OWN);
	cr_expect_eq(count_lines("s3://bkt/env"), 1);
	/* A URL above or below the store's is another store. */
	q.repo = q.prefix = "s3://bkt";
	cr_expect_eq(trace_db_find(db, &q, NOW, &s, &err), -ENOENT);
	q.repo = q.prefix = "s3://bkt/env/x";
	cr_expect_eq(trace_db_find(db, &q, NOW, &s, &err), -ENOENT);
	/* The start is not found without the store's URL, or with another one. */
	cr_expect_eq(find("A", "w", "", &s), -ENOENT);
	cr_expect_eq(find("A", "w", "h/r", &s), -ENOENT);
	cr_expect_eq(find("A", "other", "h/r", &s), -ENOENT);
	cr_expect_eq(count_lines(""), 0);
	cr_expect_eq(count_lines("h/r"), 0);
}

Test(trace_db, more_recordings_are_wanted_until_there_are_enough)
{
	struct start s;
	char node[8];

	for (unsigned int i = 0; i < VOTES_WANTED; i++) {
		(void)snprintf(node, sizeof(node), "n%u", i);
		cr_assert_eq(put(&plenty, "h/r", "A", "w", node, NOW),
			     VERDICT_STORE);
		cr_assert_eq(find("A", "w", "h/r", &s), 0);
		cr_expect_eq(s.votes, i + 1);
		cr_expect_eq(s.wanted, i + 1 < VOTES_WANTED);
	}
}

Test(trace_db, a_node_has_one_vote_and_not_twice_in_a_moment)
{
	struct start s;

	cr_assert_eq(put(&plenty, "h/r", "A", "w", "n", NOW), VERDICT_STORE);
	cr_assert_eq(put(&plenty, "h/r", "A", "w", "n", NOW), VERDICT_TOO_SOON);
	cr_assert_eq(put(&plenty, "h/r", "A", "w", "n", NOW + VOTE_AGAIN_S + 1),
		     VERDICT_REPLACE);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(s.votes, 1);
}

Test(trace_db, a_node_sends_so_many_starts_within_an_hour)
{
	struct trace_limits l = plenty;

	l.node_hourly = 2;
	cr_assert_eq(put(&l, "h/r", "A", "w", "n", NOW), VERDICT_STORE);
	cr_assert_eq(put(&l, "h/r", "B", "w", "n", NOW), VERDICT_STORE);
	cr_expect_eq(put(&l, "h/r", "C", "w", "n", NOW), -EDQUOT);
	cr_expect(strstr(err.msg, "'n'"), "%s", err.msg);
	/* Nothing was stored, and other nodes may still send. */
	cr_expect_eq(count_starts(&l, NOW), 2);
	cr_expect_eq(put(&l, "h/r", "C", "w", "m", NOW), VERDICT_STORE);
	cr_expect_eq(put(&l, "h/r", "A", "w", "n", NOW + 10), VERDICT_REPLACE);
	cr_expect_eq(put(&l, "h/r", "D", "w", "n", NOW + HOUR + 20),
		     VERDICT_STORE);
}

Test(trace_db, a_node_pays_with_its_own_older_recordings)
{
	struct trace_limits l = plenty;
	struct start s;

	l.node_bytes = 2 * LEN;
	cr_assert_eq(put(&l, "h/r", "A", "w", "other", NOW - 9), VERDICT_STORE);
	cr_assert_eq(put(&l, "h/r", "A", "w", "n", NOW - 8), VERDICT_STORE);
	cr_assert_eq(put(&l, "h/r", "B", "w", "n", NOW - 7), VERDICT_STORE);
	cr_assert_eq(put(&l, "h/r", "C", "w", "n", NOW - 6), VERDICT_STORE);
	/* The other node's recording still exists. */
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_OWN);
	cr_expect_eq(s.votes, 1);
	cr_assert_eq(put(&l, "h/r", "D", "w", "n", NOW - 5), VERDICT_STORE);
	/* A start without recordings was deleted. */
	cr_assert_eq(find("B", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_RELATIVE);
	cr_expect_eq(count_starts(&l, NOW), 3);
}

Test(trace_db, a_repository_pays_with_its_own_starts)
{
	struct trace_limits l = plenty;
	struct start s;

	l.repo_bytes = 2 * LEN;
	cr_assert_eq(put(&l, "h/other", "A", "w", "n", NOW - 9 * DAY),
		     VERDICT_STORE);
	cr_assert_eq(put(&l, "h/r", "A", "w", "n", NOW - 8), VERDICT_STORE);
	cr_assert_eq(put(&l, "h/r", "B", "w", "n", NOW - 7), VERDICT_STORE);
	/* A start that is used is kept longer than an unused one. */
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_assert_eq(put(&l, "h/r", "C", "w", "n", NOW - 6), VERDICT_STORE);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_OWN);
	cr_assert_eq(find("B", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_RELATIVE);
	cr_expect_eq(count_starts(&l, NOW), 3);
}

Test(trace_db, a_flood_of_one_repository_drowns_itself)
{
	struct trace_limits l = plenty;
	char image[8];
	struct start s;

	cr_assert_eq(put(&l, "h/small", "A", "w", "n", NOW - DAY),
		     VERDICT_STORE);
	for (unsigned int i = 0; i < 8; i++) {
		(void)snprintf(image, sizeof(image), "F%u", i);
		cr_assert_eq(put(&l, "h/flood", image, "w", "n", NOW - 8 + i),
			     VERDICT_STORE);
	}
	l.total_bytes = 4 * LEN;
	cr_expect_eq(count_starts(&l, NOW), 4);
	cr_assert_eq(find("A", "w", "h/small", &s), 0);
	cr_expect_eq(s.match, MATCH_OWN);
	cr_assert_eq(find("F7", "w", "h/flood", &s), 0);
	cr_expect_eq(s.match, MATCH_OWN);
}

Test(trace_db, what_nobody_used_for_long_is_forgotten)
{
	struct start s;

	cr_assert_eq(put(&plenty, "h/r", "A", "w", "n", NOW), VERDICT_STORE);
	cr_assert_eq(put(&plenty, "h/r", "B", "w", "n", NOW), VERDICT_STORE);
	/* The use is late enough to be stored again. */
	cr_expect_eq(count_starts(&plenty, NOW + 20 * DAY), 2);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(count_starts(&plenty, NOW + 29 * DAY), 1);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(s.match, MATCH_OWN);
	cr_expect_eq(count_starts(&plenty, NOW + 61 * DAY), 0);
}

Test(trace_db, a_merged_list_of_a_start_that_has_gone_is_not_kept)
{
	struct hot_row row = { .version = 1, .made_ms = 5, .votes = 2 };
	struct hot_row back = { .version = 0 };
	struct start s;

	cr_assert_eq(put(&plenty, "h/r", "A", "w", "n", NOW), VERDICT_STORE);
	cr_assert_eq(find("A", "w", "h/r", &s), 0);
	cr_expect_eq(trace_db_hot(db, s.id, &back, &err), -ENOENT);
	cr_assert_eq(buf_puts(&row.trace, "merged"), 0);
	cr_assert_eq(trace_db_hot_put(db, s.id, &row, &err), 0);
	cr_assert_eq(trace_db_hot(db, s.id, &back, &err), 0);
	cr_expect_eq(back.votes, 2);
	cr_expect_eq(back.trace.len, 6);
	cr_expect_eq(trace_db_forget(db, "A", "", "", "", &err), 1);
	cr_assert_eq(trace_db_hot_put(db, s.id, &row, &err), 0);
	cr_expect_eq(trace_db_hot(db, s.id, &back, &err), -ENOENT);
	buf_fini(&row.trace);
	buf_fini(&back.trace);
}
