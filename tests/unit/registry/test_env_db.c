// SPDX-License-Identifier: Apache-2.0
/* Tests of env_db.c on SQLite; tests/functional/registry.bats uses both databases. The tests set
 * the time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "registry/env_db.h"
#include "tests/unit/registry/own_db.h"

#define REPO "registry.example/ml/env"
#define KEY \
	"sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define ONE "00000000000000000000000000000001"
#define TWO "00000000000000000000000000000002"
#define TTL 15000
#define DAY INT64_C(86400000)

static struct db *db;
static int64_t now;
static struct error err;

static void open_db(void)
{
	db = own_db_open(NULL);
	now = INT64_C(1800000000000);
}

static void close_db(void)
{
	own_db_close(db);
}

TestSuite(env_db, .init = open_db, .fini = close_db, .timeout = 60);

static struct env_name name_of(const char *owner)
{
	return (struct env_name){
		.repo = REPO, .key = KEY, .owner = owner, .now_ms = now
	};
}

/* Take the lease; returns its generation, 0: not available. */
static int64_t take(const char *owner, const char *instead)
{
	const struct env_lease_wish w = { .by = "host:1",
					  .instead = instead,
					  .ttl_ms = TTL };
	struct env_name n = name_of(owner);
	int64_t generation = 0;
	int rc = env_db_take(db, &n, &w, &generation, &err);

	cr_assert_geq(rc, 0, "%s", err.msg);
	cr_assert_eq(rc, generation != 0);
	return generation;
}

static int renew(const char *owner, int64_t generation)
{
	struct env_name n = name_of(owner);

	return env_db_renew(db, &n, generation, &err);
}

static int drop(const char *owner, int64_t generation, bool has_failed)
{
	struct env_name n = name_of(owner);

	return env_db_drop(db, &n, generation, has_failed, &err);
}

static int publish(const char *owner, int64_t generation, const char *capture,
		   int64_t ttl_ms)
{
	const struct env_published p = { .capture = capture,
					 .description = KEY,
					 .by = "host",
					 .program = "pip",
					 .stored = 7,
					 .ttl_ms = ttl_ms };
	struct env_name n = name_of(owner);

	return env_db_publish(db, &n, generation, &p, &err);
}

/* An entry, with copies of the texts that tests compare. */
struct seen_entry {
	bool has_snapshot, is_pinned;
	char capture[40], holder[40], bad[40];
	int64_t lease_ms, failures, made_ms, used_ms;
};

static int see(void *arg, const struct env_known *e)
{
	struct seen_entry *s = arg;

	*s = (struct seen_entry){ .has_snapshot = e->has_snapshot,
				  .is_pinned = e->is_pinned,
				  .lease_ms = e->lease_ms,
				  .failures = e->failures,
				  .made_ms = e->made_ms,
				  .used_ms = e->used_ms };
	(void)snprintf(s->capture, sizeof(s->capture), "%s", e->capture);
	(void)snprintf(s->holder, sizeof(s->holder), "%s", e->holder);
	(void)snprintf(s->bad, sizeof(s->bad), "%s", e->bad);
	return 0;
}

static struct seen_entry look(void)
{
	struct env_name n = name_of("a");
	struct seen_entry s = { .failures = -1 };

	cr_assert_eq(env_db_get(db, &n, see, &s, &err), 0, "%s", err.msg);
	return s;
}

static int count(void *arg, const struct env_known *e)
{
	(void)e;
	++*(int *)arg;
	return 0;
}

static int n_listed(const char *begins, const char *after)
{
	const struct env_filter f = { .repo = REPO,
				      .begins = begins,
				      .after = after,
				      .now_ms = now,
				      .limit = 10 };
	int n = 0;

	cr_assert_eq(env_db_list(db, &f, count, &n, &err), 0, "%s", err.msg);
	return n;
}

Test(env_db, a_key_that_nobody_named_has_nothing)
{
	struct seen_entry s = look();

	cr_expect_not(s.has_snapshot);
	cr_expect_str_eq(s.holder, "");
	cr_expect_eq(s.failures, 0);
}

Test(env_db, one_captor_has_the_lease)
{
	int64_t mine = take("a", "");

	cr_assert_gt(mine, 0);
	cr_expect_eq(take("b", ""), 0);
	cr_expect_eq(take("a", ""), 0);
	cr_expect_str_eq(look().holder, "host:1");
	cr_expect_eq(look().lease_ms, TTL);
}

Test(env_db, a_lease_that_is_renewed_lasts_and_one_that_is_not_is_taken_over)
{
	int64_t mine = take("a", ""), theirs;

	now += TTL - 1;
	cr_assert_eq(renew("a", mine), 1);
	now += TTL - 1;
	cr_assert_eq(take("b", ""), 0);
	now += 1;
	theirs = take("b", "");
	cr_assert_gt(theirs, mine);
	cr_expect_eq(renew("a", mine), 0);
	cr_expect_eq(publish("a", mine, ONE, 0), 0);
	cr_expect_eq(drop("a", mine, true), 0);
	cr_expect_eq(look().failures, 0);
	cr_expect_eq(publish("b", theirs, TWO, 0), 1);
	cr_expect_str_eq(look().capture, TWO);
}

Test(env_db, a_lease_is_of_the_token_that_took_it)
{
	int64_t mine = take("a", "");

	cr_expect_eq(renew("b", mine), 0);
	cr_expect_eq(publish("b", mine, ONE, 0), 0);
	cr_expect_eq(drop("b", mine, false), 0);
	cr_expect_eq(renew("a", mine), 1);
}

Test(env_db, a_clock_that_was_set_back_makes_no_lease_longer)
{
	(void)take("a", "");
	now -= DAY;
	cr_expect_str_eq(look().holder, "");
	cr_expect_gt(take("b", ""), 0);
}

Test(env_db, where_there_is_a_snapshot_nobody_has_a_lease)
{
	int64_t mine = take("a", "");

	cr_assert_eq(publish("a", mine, ONE, 0), 1);
	cr_expect_eq(publish("a", mine, ONE, 0), 1); /* the answer was lost */
	cr_assert_eq(drop("a", mine, false), 1);
	cr_expect_eq(publish("a", mine, TWO, 0), 0);
	cr_expect_eq(take("b", ""), 0);
	cr_expect_eq(take("b", TWO), 0);
	cr_expect_eq(look().made_ms, now);
	cr_expect_gt(take("b", ONE), 0);
	cr_expect(look().has_snapshot);
}

Test(env_db, what_has_expired_is_made_again_but_what_is_pinned)
{
	struct env_name n = name_of("a");

	cr_assert_eq(publish("a", take("a", ""), ONE, DAY), 1);
	now += DAY - 1;
	cr_expect(look().has_snapshot);
	cr_expect_eq(n_listed("", ""), 1);
	now += 1;
	cr_expect_not(look().has_snapshot);
	cr_expect_eq(n_listed("", ""), 0);
	cr_assert_eq(env_db_pin(db, &n, true, &err), 1);
	cr_expect(look().has_snapshot);
	cr_expect_eq(take("b", ""), 0);
	cr_expect_eq(take("b", ONE), 0);
	cr_assert_eq(env_db_pin(db, &n, false, &err), 1);
	cr_expect_gt(take("b", ""), 0);
}

Test(env_db, what_is_pinned_under_the_lease_of_another_captor_stays)
{
	struct env_name n = name_of("a");
	int64_t mine = take("a", ""), theirs;

	cr_assert_eq(publish("a", mine, ONE, 0), 1);
	cr_assert_eq(drop("a", mine, false), 1);
	theirs = take("b", ONE);
	cr_assert_gt(theirs, 0);
	cr_assert_eq(env_db_pin(db, &n, true, &err), 1);
	cr_expect_eq(publish("b", theirs, TWO, 0), 0);
	cr_expect_str_eq(look().capture, ONE);
	cr_expect(look().is_pinned);
	cr_assert_eq(env_db_pin(db, &n, false, &err), 1);
	cr_assert_eq(publish("b", theirs, TWO, 0), 1);
	/* The answer was lost, and the snapshot was pinned before the request was repeated. */
	cr_assert_eq(env_db_pin(db, &n, true, &err), 1);
	cr_expect_eq(publish("b", theirs, TWO, 0), 1);
	cr_expect(look().is_pinned);
}

Test(env_db, a_failure_is_counted_once)
{
	int64_t mine = take("a", "");

	cr_assert_eq(drop("a", mine, true), 1);
	cr_expect_eq(drop("a", mine, true), 0);
	cr_expect_eq(look().failures, 1);
	cr_expect_gt(take("b", ""), mine);
}

Test(env_db, marks_are_of_a_capture)
{
	struct env_name n = name_of("a");
	int64_t again;

	cr_assert_eq(publish("a", take("a", ""), ONE, 0), 1);
	cr_expect_eq(env_db_bad(db, &n, TWO, "other", &err), 0);
	cr_assert_eq(env_db_bad(db, &n, ONE, "first", &err), 1);
	cr_assert_eq(env_db_bad(db, &n, ONE, "second", &err), 1);
	cr_expect_str_eq(look().bad, "first");
	cr_expect_eq(env_db_used(db, &n, ONE, &err), 0);
	now += 3600000;
	n = name_of("a");
	cr_expect_eq(env_db_used(db, &n, ONE, &err), 1);
	cr_expect_eq(look().used_ms, now);
	again = take("b", ONE);
	cr_assert_eq(publish("b", again, TWO, 0), 1);
	cr_expect_str_eq(look().bad, "");
}

Test(env_db, what_is_removed_ends_the_lease)
{
	struct env_name n = name_of("a");
	int64_t mine = take("a", "");

	cr_assert_eq(publish("a", mine, ONE, 0), 1);
	cr_expect_eq(env_db_remove(db, &n, &err), 1);
	cr_expect_eq(env_db_remove(db, &n, &err), 0);
	cr_expect_not(look().has_snapshot);
	cr_expect_eq(publish("a", mine, ONE, 0), 0);
	cr_expect_gt(take("b", ""), mine);
}

Test(env_db, what_is_pinned_is_not_removed)
{
	struct env_name n = name_of("a");

	cr_assert_eq(publish("a", take("a", ""), ONE, 0), 1);
	cr_assert_eq(env_db_pin(db, &n, true, &err), 1);
	cr_expect_eq(env_db_remove(db, &n, &err), 0);
	cr_expect(look().has_snapshot);
	cr_expect(look().is_pinned);
	cr_assert_eq(env_db_pin(db, &n, false, &err), 1);
	cr_expect_eq(env_db_remove(db, &n, &err), 1);
}

static int name_key(const char *repo, unsigned int i, const char *owner)
{
	const struct env_lease_wish w = { .by = "host:1",
					  .instead = "",
					  .ttl_ms = TTL };
	char key[sizeof(KEY)];
	const struct env_name n = {
		.repo = repo, .key = key, .owner = owner, .now_ms = now
	};
	int64_t generation = 0;

	(void)snprintf(key, sizeof(key), "sha256:%064x", i);
	return env_db_take(db, &n, &w, &generation, &err);
}

Test(env_db, a_store_has_no_more_keys_than_its_bound_until_some_are_forgotten)
{
	for (unsigned int i = 0; i < ENV_REPO_KEYS_MAX; i++)
		cr_assert_eq(name_key(REPO, i, "a"), 1, "%s", err.msg);
	cr_expect_eq(name_key(REPO, ENV_REPO_KEYS_MAX, "a"), -EDQUOT);
	cr_expect_eq(name_key(REPO, ENV_REPO_KEYS_MAX, "b"), -EDQUOT);
	/* Known keys and keys of other stores are still accepted. */
	cr_expect_eq(name_key(REPO, 0, "b"), 0);
	cr_expect_eq(name_key(REPO "/2", 0, "a"), 1, "%s", err.msg);
	now += 2 * DAY;
	cr_expect_eq(name_key(REPO, 1, "b"), 1);
	cr_expect_eq(env_db_sweep(db, 0, now, &err), ENV_REPO_KEYS_MAX);
	cr_expect_eq(name_key(REPO, ENV_REPO_KEYS_MAX, "a"), 1, "%s", err.msg);
}

Test(env_db, is_listed_by_the_beginning_of_keys)
{
	cr_assert_eq(publish("a", take("a", ""), ONE, 0), 1);
	cr_expect_eq(n_listed("1111", ""), 1);
	cr_expect_eq(n_listed("12", ""), 0);
	cr_expect_eq(n_listed("", KEY), 0);
}

Test(env_db, what_is_not_used_is_forgotten_but_what_is_pinned)
{
	struct env_name n = name_of("a");
	int64_t mine = take("a", ""), old = now + DAY;

	cr_assert_eq(publish("a", mine, ONE, 0), 1);
	cr_assert_eq(env_db_pin(db, &n, true, &err), 1);
	now += 2 * DAY;
	cr_expect_eq(env_db_sweep(db, old, now, &err), 0);
	cr_assert_eq(env_db_pin(db, &n, false, &err), 1);
	cr_expect_eq(env_db_sweep(db, old - DAY, now, &err), 0);
	cr_expect_eq(env_db_sweep(db, old, now, &err), 1);
	/* Generations keep growing although the row was deleted. */
	cr_expect_gt(take("b", ""), mine);
}
