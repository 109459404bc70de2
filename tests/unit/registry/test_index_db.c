// SPDX-License-Identifier: Apache-2.0
/* Tests on SQLite; registry.bats also runs them on PostgreSQL with $INDEX_DB_URL. The tests set the
 * time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "registry/index_db.h"
#include "tests/unit/registry/own_db.h"

#define IMAGE "sha256:1"
#define ARTIFACT "sha256:2"
#define ROOM 100 /* bytes of all offers */

static struct db *db;
static int64_t now;
static struct error err;

static void open_db(void)
{
	db = own_db_open(getenv("INDEX_DB_URL"));
	now = INT64_C(1800000000);
	cr_assert_geq(index_db_sweep(db, now * 2, now * 2, &err), 0, "%s",
		      err.msg);
}

static void close_db(void)
{
	own_db_close(db);
}

TestSuite(index_db, .init = open_db, .fini = close_db, .timeout = 60);

static struct index_name name_of(const char *owner, const char *node)
{
	return (struct index_name){ .image = IMAGE,
				    .repo = "reg.example/app",
				    .owner = owner,
				    .node = node,
				    .now = now };
}

/* Claim an index; returns 1, or the state of the existing offer, negated. */
static int claim(const char *owner, const char *node)
{
	const struct index_name n = name_of(owner, node);
	enum index_state s = INDEX_COMING;
	int rc = index_db_claim(db, &n, &s, &err);

	cr_assert_geq(rc, 0, "%s", err.msg);
	return rc ? rc : -(int)s;
}

static int put(const char *owner, const char *node, int64_t part, size_t len)
{
	const struct index_name n = name_of(owner, node);
	static char data[ROOM + 1];

	memset(data, 'a' + (int)part, sizeof(data));
	return index_db_put_part(db, &n, part, data, len, ROOM, &err);
}

static int publish(const char *owner, const char *node, int64_t parts)
{
	const struct index_name n = name_of(owner, node);
	const struct index_published p = { .artifact = ARTIFACT,
					   .signature = "c2ln",
					   .parts = parts };

	return index_db_publish(db, &n, &p, &err);
}

/* The ids of the listed offers, newest first. */
struct listed {
	int64_t id[INDEX_LIST_MAX];
	int n;
};

static int list_offer(void *arg, const struct index_offer *o)
{
	struct listed *l = arg;

	cr_expect_str_eq(o->artifact, ARTIFACT);
	l->id[l->n++] = o->id;
	return 0;
}

static struct listed list_offers(void)
{
	const struct index_name n = name_of("x", "x");
	struct listed l = { .n = 0 };

	cr_assert_eq(index_db_list(db, &n, list_offer, &l, &err), 0, "%s",
		     err.msg);
	return l;
}

static int count_offers(void)
{
	return list_offers().n;
}

static int read_part(int64_t id, int64_t part, struct buf *ret)
{
	const struct index_name n = name_of("x", "x");

	return index_db_part(db, &n, id, ARTIFACT, part, ret, &err);
}

static void offer(const char *owner, size_t len)
{
	cr_assert_eq(claim(owner, "n1"), 1);
	cr_assert_eq(put(owner, "n1", 0, len), 0, "%s", err.msg);
	cr_assert_eq(publish(owner, "n1", 1), 0, "%s", err.msg);
}

Test(index_db, is_made_by_one_node_of_a_token_and_comes_as_it_was_sent)
{
	AUTO_BUF part = BUF_INIT;
	int64_t id;

	cr_expect_eq(claim("t", "n1"), 1);
	cr_expect_eq(claim("t", "n2"), -INDEX_COMING);
	cr_expect_eq(claim("other", "n2"), -INDEX_COMING);
	cr_expect_eq(claim("t", "n1"), 1, "it may begin anew");
	cr_expect_eq(put("t", "n2", 0, 5), -ECANCELED);
	cr_expect_eq(put("t", "n1", 0, 5), 0);
	cr_expect_eq(put("t", "n1", 2, 5), 0);
	cr_expect_eq(publish("t", "n1", 2), -ECANCELED, "part 1 is not there");
	cr_expect_eq(count_offers(), 0);
	cr_expect_eq(put("t", "n1", 1, 5), 0);
	cr_expect_eq(publish("t", "n1", 3), 0, "%s", err.msg);
	cr_expect_eq(count_offers(), 1);
	id = list_offers().id[0];
	cr_expect_eq(read_part(id, 1, &part), 0);
	cr_expect_str_eq(part.data, "bbbbb");
	cr_expect_eq(read_part(id, 3, &part), -ENOENT);
	cr_expect_eq(claim("t", "n2"), -INDEX_WHOLE);
	cr_expect_eq(put("t", "n1", 0, 5), -ECANCELED, "it is published");
	now += INDEX_KEEP_S + 1;
	cr_expect_eq(claim("t", "n2"), 1);
}

Test(index_db, has_a_claim_end_with_its_node)
{
	cr_expect_eq(claim("t", "n1"), 1);
	now += INDEX_CLAIM_S;
	cr_expect_eq(put("t", "n1", 0, 5), -ECANCELED);
	cr_expect_eq(claim("t", "n2"), 1);
}

Test(index_db, has_nobody_hide_or_replace_the_offer_of_another_token)
{
	struct index_name n = name_of("x", "x");
	AUTO_BUF part = BUF_INIT;
	struct listed l;

	offer("liar", 5);
	cr_expect_eq(claim("t", "n1"), 1);
	cr_expect_eq(put("liar", "n1", 0, 5), -ECANCELED);
	/* Offer other bytes as the same artifact. */
	cr_expect_eq(put("t", "n1", 0, 7), 0);
	cr_expect_eq(publish("t", "n1", 1), 0);
	l = list_offers();
	cr_assert_eq(l.n, 2);
	cr_expect_eq(read_part(l.id[0], 0, &part), 0);
	cr_expect_eq(part.len, 7);
	cr_expect_eq(read_part(l.id[1], 0, &part), 0);
	cr_expect_eq(part.len, 5);
	/* The number alone does not give access to another repository's offer. */
	n.repo = "reg.example/other";
	cr_expect_eq(index_db_part(db, &n, l.id[0], ARTIFACT, 0, &part, &err),
		     -ENOENT);
}

Test(index_db, keeps_an_old_offer_until_the_new_one_is_whole)
{
	AUTO_BUF part = BUF_INIT;
	struct listed l;

	offer("t", 5);
	l = list_offers();
	now += INDEX_KEEP_S + 1;
	cr_expect_eq(claim("t", "n2"), 1);
	cr_expect_eq(put("t", "n2", 0, 7), 0);
	cr_assert_eq(count_offers(), 1);
	cr_expect_eq(read_part(l.id[0], 0, &part), 0);
	cr_expect_eq(part.len, 5);
	cr_expect_eq(publish("t", "n2", 1), 0, "%s", err.msg);
	l = list_offers();
	cr_assert_eq(l.n, 1);
	cr_expect_eq(read_part(l.id[0], 0, &part), 0);
	cr_expect_eq(part.len, 7);
}

Test(index_db, has_the_token_that_takes_most_give_way)
{
	offer("small", 10);
	offer("large", 80);
	cr_assert_eq(claim("new", "n1"), 1);
	cr_expect_eq(put("new", "n1", 0, 30), 0, "%s", err.msg);
	cr_expect_eq(count_offers(), 1);
	cr_expect_eq(put("new", "n1", 1, ROOM), -EFBIG);
	cr_expect_eq(publish("new", "n1", 1), 0);
	cr_expect_eq(claim("small", "n2"), -INDEX_WHOLE);
}

static void offer_of(const char *image, size_t len)
{
	struct index_name n = name_of("many", "n1");
	const struct index_published p = { .artifact = ARTIFACT,
					   .signature = "c2ln",
					   .parts = 1 };
	enum index_state s;

	n.image = image;
	cr_assert_eq(index_db_claim(db, &n, &s, &err), 1, "%s", err.msg);
	cr_assert_eq(index_db_put_part(db, &n, 0, "0123456789", len, ROOM,
				       &err),
		     0, "%s", err.msg);
	cr_assert_eq(index_db_publish(db, &n, &p, &err), 0, "%s", err.msg);
}

Test(index_db, finds_room_however_small_the_oldest_offers_are)
{
	char image[32];

	for (int i = 0; i < 90; i++) {
		(void)snprintf(image, sizeof(image), "sha256:a%02d", i);
		offer_of(image, 1);
		now++;
	}
	offer_of("sha256:b", 10);
	cr_assert_eq(claim("new", "n1"), 1);
	cr_expect_eq(put("new", "n1", 0, 95), 0, "%s", err.msg);
}

Test(index_db, has_no_token_offer_again_what_another_ones_was_withdrawn_for)
{
	const struct index_name n = name_of("x", "x");

	offer("liar", 5);
	cr_expect_eq(claim("t", "n1"), 1);
	cr_expect_eq(put("t", "n1", 0, 5), 0);
	/* Withdraw the artifact while the second owner sends it. */
	cr_expect_eq(index_db_withdraw(db, &n, ARTIFACT, &err), 1);
	cr_expect_eq(publish("t", "n1", 1), -ECANCELED);
	cr_expect_eq(count_offers(), 0);
	cr_expect_eq(claim("t", "n1"), -INDEX_WITHDRAWN);
	cr_expect_eq(index_db_forget(db, &n, &err), 2);
	offer("t", 5);
	cr_expect_eq(count_offers(), 1);
}

Test(index_db, gives_what_was_withdrawn_to_nobody_until_it_is_forgotten)
{
	const struct index_name n = name_of("x", "x");
	AUTO_BUF part = BUF_INIT;
	int64_t id;

	offer("t", 5);
	id = list_offers().id[0];
	cr_expect_eq(index_db_withdraw(db, &n, "sha256:other", &err), 0);
	cr_expect_eq(count_offers(), 1);
	cr_expect_eq(index_db_withdraw(db, &n, ARTIFACT, &err), 1);
	cr_expect_eq(count_offers(), 0);
	cr_expect_eq(read_part(id, 0, &part), -ENOENT);
	cr_expect_eq(claim("t", "n1"), -INDEX_WITHDRAWN);
	cr_expect_eq(index_db_forget(db, &n, &err), 1);
	cr_expect_eq(claim("t", "n1"), 1);
	now += INDEX_CLAIM_S + 1;
	cr_expect_eq(index_db_sweep(db, now - 1000000, now, &err), 1);
}
