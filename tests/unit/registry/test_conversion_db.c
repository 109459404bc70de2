// SPDX-License-Identifier: Apache-2.0
/* Tests on SQLite; registry.bats also runs them on PostgreSQL with $CONVERSION_DB_URL. The tests
 * set the time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "registry/conversion_db.h"
#include "tests/unit/registry/own_db.h"

#define ROOM 16 /* conversions that wait */

static struct db *db;
static int64_t now;
static struct error err;

static void open_db(void)
{
	db = own_db_open(getenv("CONVERSION_DB_URL"));
	now = INT64_C(1800000000);
	/* A given database still has rows of the previous test: delete them. */
	cr_assert_geq(conversion_db_sweep(db, now * 2, now * 2, &err), 0, "%s",
		      err.msg);
}

static void close_db(void)
{
	own_db_close(db);
}

TestSuite(conversion_db, .init = open_db, .fini = close_db, .timeout = 60);

static int put_form(const char *repo, const char *image, const char *form)
{
	const struct conversion c = {
		.repo = repo, .image = image, .tag = "v1", .form = form
	};

	return conversion_db_put(db, &c, now, ROOM, &err);
}

static int put_image(const char *repo, const char *image)
{
	return put_form(repo, image, "index");
}

/* The last conversion that a worker took. */
static struct {
	int64_t id, tries;
	char repo[64], image[16];
} taken;

static void keep_taken(void *arg, const struct conversion *c)
{
	(void)arg;
	taken.id = c->id;
	taken.tries = c->tries;
	(void)snprintf(taken.repo, sizeof(taken.repo), "%s", c->repo);
	(void)snprintf(taken.image, sizeof(taken.image), "%s", c->image);
}

static struct conversion_worker make_worker(const char *name)
{
	return (struct conversion_worker){ .name = name,
					   .prefix = "",
					   .token_prefix = "",
					   .now = now,
					   .hourly = 100 };
}

static int take_next(const char *name)
{
	const struct conversion_worker w = make_worker(name);
	int rc = conversion_db_take(db, &w, keep_taken, NULL, &err);

	cr_assert_geq(rc, 0, "%s", err.msg);
	return rc;
}

/* Report on the taken conversion; returns its new state, or -1. */
static int say_state(const char *name, enum conversion_said said)
{
	const struct conversion_worker w = make_worker(name);
	int rc = conversion_db_say(db, &w, taken.id, taken.tries, said, "why",
				   &err);

	cr_assert_geq(rc, 0, "%s", err.msg);
	return rc - 1;
}

static int64_t count_state(enum conversion_state state)
{
	struct conversion_counts n;

	cr_assert_eq(conversion_db_count(db, "", now, &n, &err), 0);
	return n.n[state];
}

Test(conversion_db, is_taken_once_and_done_once)
{
	cr_expect_eq(put_image("reg/a/x", "1"), 1, "%s", err.msg);
	cr_expect_eq(put_image("reg/a/x", "1"), 0, "it waits");
	cr_expect_eq(take_next("w1"), 1);
	cr_expect_str_eq(taken.repo, "reg/a/x");
	cr_expect_eq(put_image("reg/a/x", "1"), 0, "it runs");
	cr_expect_eq(take_next("w2"), 0);
	cr_expect_eq(say_state("w2", CONVERSION_SAID_DONE), -1,
		     "not of this worker");
	cr_expect_eq(say_state("w1", CONVERSION_SAID_RUNNING),
		     CONVERSION_RUNNING);
	cr_expect_eq(say_state("w1", CONVERSION_SAID_DONE), CONVERSION_DONE);
	cr_expect_eq(put_image("reg/a/x", "1"), 0, "it is done");
	cr_expect_eq(take_next("w1"), 0);
	cr_expect_eq(put_form("reg/a/x", "1", "referrer"), 1, "another form");
}

Test(conversion_db, is_anothers_when_its_worker_falls_silent)
{
	cr_assert_eq(put_image("reg/a/x", "1"), 1);
	cr_assert_eq(take_next("w1"), 1);
	now += CONVERSION_LEASE_S - 1;
	cr_expect_eq(say_state("w1", CONVERSION_SAID_RUNNING),
		     CONVERSION_RUNNING);
	now += CONVERSION_LEASE_S - 1;
	cr_expect_eq(take_next("w2"), 0, "it was renewed");
	now++;
	cr_expect_eq(take_next("w2"), 1);
	cr_expect_eq(taken.tries, 2);
	taken.tries = 1;
	cr_expect_eq(say_state("w1", CONVERSION_SAID_DONE), -1);
	cr_expect_eq(count_state(CONVERSION_RUNNING), 1);
}

Test(conversion_db, is_given_up_after_tries_that_come_later_and_later)
{
	int64_t wait = CONVERSION_BACK_OFF_S;

	cr_assert_eq(put_image("reg/a/x", "1"), 1);
	for (int i = 1; i < CONVERSION_TRIES; i++) {
		cr_assert_eq(take_next("w"), 1);
		cr_assert_eq(say_state("w", CONVERSION_SAID_RETRY),
			     CONVERSION_WAITING);
		now += wait - 1;
		cr_expect_eq(take_next("w"), 0, "try %d", i);
		now++;
		wait *= 4;
	}
	cr_assert_eq(take_next("w"), 1);
	cr_expect_eq(say_state("w", CONVERSION_SAID_RETRY), CONVERSION_FAILED);
	now += 10 * wait;
	cr_expect_eq(take_next("w"), 0);
	cr_expect_eq(put_image("reg/a/x", "1"), 1,
		     "whoever pushes again asks anew");
	cr_expect_eq(take_next("w"), 1);
	cr_expect_eq(taken.tries, 1);
	cr_expect_eq(say_state("w", CONVERSION_SAID_FAILED), CONVERSION_FAILED);
}

/* Conversion of an image that kills every worker ends too. */
Test(conversion_db, is_given_up_when_each_of_its_workers_dies)
{
	cr_assert_eq(put_image("reg/a/x", "1"), 1);
	for (int i = 0; i < CONVERSION_TRIES; i++) {
		cr_assert_eq(take_next("w"), 1);
		now += CONVERSION_LEASE_S;
	}
	cr_expect_eq(take_next("w"), 0);
	cr_expect_eq(conversion_db_sweep(db, 0, now - 1, &err), 0);
	cr_expect_eq(conversion_db_sweep(db, 0, now, &err), 1,
		     "it is counted, as others that failed");
	cr_expect_eq(conversion_db_sweep(db, 0, now, &err), 0, "once");
	cr_expect_eq(count_state(CONVERSION_FAILED), 1);
}

Test(conversion_db, serves_registries_and_owners_in_turn)
{
	char image[16];

	for (int i = 0; i < 5; i++) {
		(void)snprintf(image, sizeof(image), "%d", i);
		cr_assert_eq(put_image("reg/flood/x", image), 1);
	}
	cr_assert_eq(put_image("reg/calm/x", "1"), 1);
	cr_assert_eq(put_image("other/one/x", "1"), 1);
	cr_assert_eq(take_next("w"), 1);
	now++;
	cr_assert_eq(take_next("w"), 1);
	now++;
	cr_assert_eq(take_next("w"), 1);
	/* By now each owner has had one conversion, in any order. */
	cr_expect_eq(count_state(CONVERSION_WAITING), 4);
	for (int i = 0; i < 4; i++) {
		now++;
		cr_assert_eq(take_next("w"), 1);
		cr_expect_str_eq(taken.repo, "reg/flood/x");
	}
}

Test(conversion_db, leaves_room_in_the_queue_for_other_owners_and_registries)
{
	char repo[64];
	int flood = 0, host = 0;

	for (int i = 0; i < ROOM; i++) {
		(void)snprintf(repo, sizeof(repo), "reg/flood/x%d", i);
		if (put_image(repo, "1") != 1)
			break;
		flood++;
	}
	cr_expect_eq(flood, ROOM / 2);
	cr_expect_eq(put_image("reg/flood/y", "1"), -EDQUOT);
	for (int i = 0; i < ROOM; i++) {
		(void)snprintf(repo, sizeof(repo), "reg/o%d/x", i);
		if (put_image(repo, "1") != 1)
			break;
		host++;
	}
	cr_expect_eq(flood + host, ROOM / 4 * 3);
	cr_expect_eq(put_image("other/a/x", "1"), 1, "another registry");
}

Test(conversion_db, begins_few_of_an_owner_in_an_hour)
{
	struct conversion_worker w = make_worker("w");

	w.hourly = 2;
	for (int i = 0; i < 3; i++) {
		char image[16];

		(void)snprintf(image, sizeof(image), "%d", i);
		cr_assert_eq(put_image("reg/a/x", image), 1);
	}
	cr_expect_eq(conversion_db_take(db, &w, keep_taken, NULL, &err), 1);
	cr_expect_eq(conversion_db_take(db, &w, keep_taken, NULL, &err), 1);
	cr_expect_eq(conversion_db_take(db, &w, keep_taken, NULL, &err), 0);
	cr_expect_eq(put_image("reg/b/x", "1"), 1);
	cr_expect_eq(conversion_db_take(db, &w, keep_taken, NULL, &err), 1,
		     "of another one");
	cr_expect_str_eq(taken.repo, "reg/b/x");
	w.now += 3600;
	cr_expect_eq(conversion_db_take(db, &w, keep_taken, NULL, &err), 1);
}

Test(conversion_db, is_seen_and_taken_below_prefixes_only)
{
	struct conversion_worker w = make_worker("w");
	struct conversion_counts n;

	cr_assert_eq(put_image("reg/a/x", "1"), 1);
	w.prefix = "reg/b";
	cr_expect_eq(conversion_db_take(db, &w, keep_taken, NULL, &err), 0);
	w.prefix = "reg";
	w.token_prefix = "reg/aa";
	cr_expect_eq(conversion_db_take(db, &w, keep_taken, NULL, &err), 0);
	cr_expect_eq(conversion_db_count(db, "reg/aa", now, &n, &err), 0);
	cr_expect_eq(n.n[CONVERSION_WAITING], 0);
	w.token_prefix = "reg/a";
	cr_expect_eq(conversion_db_take(db, &w, keep_taken, NULL, &err), 1);
	w.token_prefix = "reg/b";
	cr_expect_eq(conversion_db_say(db, &w, taken.id, 1,
				       CONVERSION_SAID_DONE, "", &err),
		     0);
}

Test(conversion_db, forgets_what_is_over)
{
	cr_assert_eq(put_image("reg/a/x", "1"), 1);
	cr_assert_eq(take_next("w"), 1);
	cr_assert_eq(say_state("w", CONVERSION_SAID_DONE), CONVERSION_DONE);
	cr_expect_eq(conversion_db_sweep(db, 0, now, &err), 0);
	cr_expect_eq(count_state(CONVERSION_DONE), 1);
	now += CONVERSION_KEEP_S + 1;
	cr_expect_eq(conversion_db_sweep(db, 0, now, &err), 0);
	cr_expect_eq(count_state(CONVERSION_DONE), 0);
	cr_expect_eq(put_image("reg/a/x", "1"), 1, "and does it again");
}
