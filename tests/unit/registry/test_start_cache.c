// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "registry/schema.h"
#include "registry/stage_db.h"
#include "registry/start_cache.h"

TestSuite(start_cache, .timeout = 120);

#define NOW INT64_C(1795010000)
#define NODES 40
#define TIMES 400
#define ASKERS 8

static char dir[64];
static struct db *db;
static struct start_cache *cache;
static pthread_barrier_t all;

static void open_new(void)
{
	struct error err = ERROR_INIT;
	char url[96];
	const struct db_config cfg = { .url = url,
				       .schema = &schema,
				       .timeout_ns = INT64_C(10000000000) };

	(void)snprintf(dir, sizeof(dir), "/tmp/start-cache.XXXXXX");
	cr_assert(mkdtemp(dir));
	(void)snprintf(url, sizeof(url), "sqlite:%s/db", dir);
	cr_assert_eq(db_open(&cfg, &db, &err), 0, "%s", err.msg);
	cr_assert_eq(start_cache_new(db, 64u << 20, &cache, &err), 0);
}

static void close_db(void)
{
	static const char *const files[] = { "db", "db-wal", "db-shm" };
	char path[96];

	start_cache_free(cache);
	db_close(db);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		(void)unlink(path);
	}
	(void)rmdir(dir);
}

/* Send `times` runs of a stage by `node`; ids and times begin at `id`. */
static void say(const char *node, int times, int id)
{
	struct error err = ERROR_INIT;
	AUTO_BUF lines = BUF_INIT;
	struct stage_batch b = { .node = node, .now = NOW };

	for (int i = 0; i < 2 * times; i++) {
		struct stage_event e = STAGE_EVENT_INIT;

		e.stage = stage_text("env");
		e.job = stage_text("j");
		e.node = stage_text(node);
		e.ev = i % 2 ? STAGE_END : STAGE_BEGIN;
		e.ts_ns = (NOW - 5000 + id % 1000 + i) * INT64_C(1000000000);
		e.id = id + i;
		cr_assert_eq(stage_event_format(&e, &lines), 0);
	}
	b.text = lines.data;
	b.len = lines.len;
	cr_assert_eq(stage_batch_check(&b, &err), 0, "%s", err.msg);
	cr_assert_eq(stage_db_put(db, &b, &err), 0, "%s", err.msg);
}

static void *ask(void *arg)
{
	const struct start_found *f = NULL;
	struct error err = ERROR_INIT;
	size_t *ret_runs = arg;

	(void)pthread_barrier_wait(&all);
	if (start_cache_get(cache, 1, &f, &err) < 0)
		(void)fprintf(stderr, "%s\n", err.msg);
	else
		*ret_runs = f->report.n_runs;
	start_cache_put(cache, f);
	return NULL;
}

static void ask_at_once(size_t runs)
{
	pthread_t threads[ASKERS];
	size_t found[ASKERS] = { 0 };

	cr_assert_eq(pthread_barrier_init(&all, NULL, ASKERS), 0);
	for (int i = 0; i < ASKERS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, ask, &found[i]),
			     0);
	for (int i = 0; i < ASKERS; i++) {
		(void)pthread_join(threads[i], NULL);
		cr_assert_eq(found[i], runs, "%zu of %zu", found[i], runs);
	}
	(void)pthread_barrier_destroy(&all);
}

Test(start_cache, makes_once_what_many_ask_for_at_once, .init = open_new,
     .fini = close_db)
{
	struct start_cache_stats s;
	char node[16];

	for (int n = 0; n < NODES; n++) {
		(void)snprintf(node, sizeof(node), "n%d", n);
		say(node, TIMES, 1 + 1000 * n);
	}
	ask_at_once(NODES * TIMES);
	start_cache_get_stats(cache, &s);
	cr_expect_eq(s.misses_total, 1);
	cr_expect_eq(s.hits_total, ASKERS - 1);
	/* After new events, one more analysis is made. */
	say("n3", 7, 500990);
	ask_at_once(NODES * TIMES + 7);
	start_cache_get_stats(cache, &s);
	cr_expect_eq(s.misses_total, 2);
}

Test(start_cache, says_that_there_is_no_such_start_and_keeps_nobody_waiting,
     .init = open_new, .fini = close_db)
{
	const struct start_found *f = NULL;
	struct error err = ERROR_INIT;

	for (int i = 0; i < 2; i++)
		cr_expect_eq(start_cache_get(cache, 1, &f, &err), -ENOENT);
	say("n1", 1, 1);
	cr_assert_eq(start_cache_get(cache, 1, &f, &err), 0, "%s", err.msg);
	cr_expect_eq(f->report.n_runs, 1);
	start_cache_put(cache, f);
}
