// SPDX-License-Identifier: Apache-2.0
/* What every store of objects does alike: names, versions and leases. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "objects/store/backend.h"
#include "tests/unit/objects/store_fixture.h"

#define MANY_MAX 1100

TestSuite(store_names, .init = store_test_setup, .fini = store_test_teardown,
	  .timeout = 240);

/* -------------------------------------------------------------- conditions --- */

Test(store_names, creates_only_what_is_not_there)
{
	const struct object_put_options new = { .condition = OBJECT_NEW };
	struct error err = ERROR_INIT;

	cr_expect_eq(object_put(store, "n", "one", 3, &new, NULL, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(object_put(store, "n", "two", 3, &new, NULL, &err),
		     -EEXIST);
	cr_expect(strstr(err.msg, "'n'"), "%s", err.msg);
	store_expect_text("n", "one");
}

struct contender {
	pthread_barrier_t *start;
	unsigned int id, n_won;
	int rc;
	struct error err;
};

static void *create(void *arg)
{
	const struct object_put_options new = { .condition = OBJECT_NEW };
	struct contender *c = arg;
	int rc;

	pthread_barrier_wait(c->start);
	rc = object_put(store, "n", &c->id, sizeof(c->id), &new, NULL, &c->err);
	c->n_won = rc == 0;
	c->rc = rc == -EEXIST ? 0 : rc;
	return NULL;
}

Test(store_names, lets_one_of_many_create)
{
	pthread_barrier_t start;
	struct contender c[THREADS] = { { .id = 0 } };
	unsigned int won = 0, winner = 0;

	pthread_barrier_init(&start, NULL, THREADS);
	for (unsigned int i = 0; i < THREADS; i++)
		c[i] = (struct contender){ .start = &start, .id = i };
	store_run_threads(create, c, sizeof(*c));
	for (unsigned int i = 0; i < THREADS; i++) {
		cr_expect_eq(c[i].rc, 0, "%s", c[i].err.msg);
		won += c[i].n_won;
		if (c[i].n_won)
			winner = i;
	}
	cr_expect_eq(won, 1);
	store_expect_bytes("n", &winner, sizeof(winner));
	pthread_barrier_destroy(&start);
}

Test(store_names, replaces_only_the_version_that_was_seen)
{
	struct object_stat one = store_put_text("m", "one"), two;
	struct object_put_options match = { .condition = OBJECT_MATCH,
					    .tag = one.tag };
	struct error err = ERROR_INIT;

	cr_expect_eq(object_put(store, "m", "two", 3, &match, &two, &err), 0,
		     "%s", err.msg);
	cr_expect_str_neq(one.tag, two.tag);
	cr_expect_eq(object_put(store, "m", "3rd", 3, &match, NULL, &err),
		     -ESTALE, "%s", err.msg);
	store_expect_text("m", "two");
	cr_expect_eq(object_put(store, "none", "x", 1, &match, NULL, &err),
		     -ESTALE, "%s", err.msg);
	store_expect_none("none");
	match.tag = NULL;
	cr_expect_eq(object_put(store, "m", "x", 1, &match, NULL, &err),
		     -EINVAL);
}

static int add_one(struct error *err)
{
	struct object_put_options match = { .condition = OBJECT_MATCH };
	struct object_range r = { .len = sizeof(uint64_t) };
	struct object *o;
	uint64_t n = 0;
	int rc;

	r.buf = &n;
	rc = object_open(store, "count", &o, err);
	if (rc < 0)
		return rc;
	rc = object_read(o, &r, 1, 0, err);
	if (rc == 0) {
		n++;
		match.tag = object_opened_stat(o)->tag;
		rc = object_put(store, "count", &n, sizeof(n), &match, NULL,
				err);
	}
	object_close(o);
	return rc;
}

/* How often each counts: STORE_ROUNDS, or 5.  A lock of objects is some ten requests. */
static unsigned int rounds(void)
{
	const char *n = getenv("STORE_ROUNDS");

	return n ? (unsigned int)strtoul(n, NULL, 10) : 5;
}

static void *count_up(void *arg)
{
	struct contender *c = arg;

	pthread_barrier_wait(c->start);
	while (c->n_won < rounds()) {
		int rc = add_one(&c->err);

		if (rc == 0) {
			c->n_won++;
		} else if (rc != -ESTALE &&
			   (rc != -ENOENT ||
			    object_store_caps(store).has_replace)) {
			c->rc = rc;
			break;
		}
	}
	return NULL;
}

Test(store_names, loses_no_update_of_writers_that_compare)
{
	struct contender c[THREADS];
	pthread_barrier_t start;
	uint64_t n = 0;

	store_put_bytes(store, "count", &n, sizeof(n));
	pthread_barrier_init(&start, NULL, THREADS);
	for (unsigned int i = 0; i < THREADS; i++)
		c[i] = (struct contender){ .start = &start, .id = i };
	store_run_threads(count_up, c, sizeof(*c));
	for (unsigned int i = 0; i < THREADS; i++)
		cr_expect_eq(c[i].rc, 0, "%s", c[i].err.msg);
	n = (uint64_t)THREADS * rounds();
	store_expect_bytes("count", &n, sizeof(n));
	pthread_barrier_destroy(&start);
}

Test(store_names, removes_only_the_version_that_was_seen)
{
	struct object_stat one = store_put_text("d", "one");
	struct object_stat two = store_put_text("d", "two");
	struct error err = ERROR_INIT;

	cr_expect_eq(object_delete(store, "d", one.tag, &err), -ESTALE, "%s",
		     err.msg);
	store_expect_text("d", "two");
	cr_expect_eq(object_delete(store, "d", two.tag, &err), 0, "%s",
		     err.msg);
	store_expect_none("d");
	cr_expect_eq(object_delete(store, "d", two.tag, &err), -ENOENT);
}

/* ------------------------------------------------------------------- names --- */

Test(store_names, lists_folders_and_what_is_below_them)
{
	store_put_text("a", "1");
	store_put_text("ab/x", "22");
	store_put_text("ab/y/z", "333");
	store_put_text("abc", "4444");
	store_expect_list("", false, "a|ab/|abc|");
	store_expect_list("", true, "a|ab/x|ab/y/z|abc|");
	store_expect_list("ab", false, "ab/x|ab/y/|");
	store_expect_list("ab/y", true, "ab/y/z|");
	store_expect_list("none", true, "");
	store_expect_list("none", false, "");
	store_expect_list("a", true, "");
}

static int check_entry(void *arg, const struct object_entry *e,
		       struct error *err)
{
	struct object_stat *want = arg;

	cr_expect_eq(e->stat.size, want->size);
	cr_expect_str_eq(e->stat.tag, want->tag);
	want->modified_ms = 0;
	return 0;
}

static int stop(void *arg, const struct object_entry *e, struct error *err)
{
	return error_set(err, EXDEV, "enough");
}

Test(store_names, lists_sizes_and_tags)
{
	struct object_stat st = store_put_text("l/a", "hello");
	struct error err = ERROR_INIT;

	cr_expect_eq(object_list(store, "l", false, check_entry, &st, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(st.modified_ms, 0, "nothing was listed");
	cr_expect_eq(object_list(store, "l", false, stop, NULL, &err), -EXDEV);
}

/* A tenth more than a page of the server has: STORE_PAGE, or 1,000. */
static unsigned int many(void)
{
	const char *page = getenv("STORE_PAGE");
	unsigned long n = page ? strtoul(page, NULL, 10) : 1000;

	return (unsigned int)(n + n / 10);
}

static void *put_many(void *arg)
{
	struct contender *c = arg;

	for (unsigned int i = c->id; i < many() && c->rc == 0; i += THREADS) {
		char name[32];

		(void)snprintf(name, sizeof(name), "many/%04u", i);
		c->rc = object_put(store, name, "x", 1, NULL, NULL, &c->err);
	}
	return NULL;
}

static int count_entries(void *arg, const struct object_entry *e,
			 struct error *err)
{
	unsigned char *seen = arg;
	unsigned int n = (unsigned int)strtoul(e->name + 5, NULL, 10);

	cr_assert_lt(n, many());
	cr_expect_eq(seen[n]++, 0, "%s is listed twice", e->name);
	return 0;
}

Test(store_names, lists_more_than_a_page)
{
	struct contender c[THREADS] = { { .id = 0 } };
	unsigned char seen[MANY_MAX] = { 0 };
	struct error err = ERROR_INIT;
	unsigned int n = 0;

	for (unsigned int i = 0; i < THREADS; i++)
		c[i].id = i;
	store_run_threads(put_many, c, sizeof(*c));
	for (unsigned int i = 0; i < THREADS; i++)
		cr_assert_eq(c[i].rc, 0, "%s", c[i].err.msg);
	cr_assert_eq(object_list(store, "many", false, count_entries, seen,
				 &err),
		     0, "%s", err.msg);
	for (unsigned int i = 0; i < many(); i++)
		n += seen[i];
	cr_expect_eq(n, many());
}

Test(store_names, renames)
{
	struct error err = ERROR_INIT;

	store_put_text("from/a", "one");
	store_put_text("b", "two");
	cr_expect_eq(object_rename(store, "from/a", "to/deep/c", OBJECT_ANY,
				   &err),
		     0, "%s", err.msg);
	store_expect_none("from/a");
	store_expect_text("to/deep/c", "one");
	cr_expect_eq(object_rename(store, "to/deep/c", "b", OBJECT_NEW, &err),
		     -EEXIST, "%s", err.msg);
	store_expect_text("b", "two");
	store_expect_text("to/deep/c", "one");
	cr_expect_eq(object_rename(store, "to/deep/c", "b", OBJECT_ANY, &err),
		     0, "%s", err.msg);
	store_expect_text("b", "one");
	store_expect_none("to/deep/c");
	cr_expect_eq(object_rename(store, "none", "x", OBJECT_ANY, &err),
		     -ENOENT, "%s", err.msg);
	cr_expect_eq(object_rename(store, "b", "x", OBJECT_MATCH, &err),
		     -EINVAL);
}

/* ------------------------------------------------------------------ leases --- */

static struct object_lease *lease(const char *owner, uint32_t ttl_ms)
{
	const struct object_lease_options opts = { .owner = owner,
						   .ttl_ms = ttl_ms };
	struct error err = ERROR_INIT;
	struct object_lease *l = NULL;

	cr_assert_eq(object_lease_take(store, "lease", &opts, &l, &err), 0,
		     "%s", err.msg);
	return l;
}

Test(store_names, leases_to_one_at_a_time)
{
	const struct object_lease_options opts = { .owner = "node-b",
						   .ttl_ms = 60000 };
	struct object_lease *l = lease("node-a", 60000), *other;
	uint64_t first = object_lease_generation(l);
	struct error err = ERROR_INIT;

	cr_expect_eq(object_lease_take(store, "lease", &opts, &other, &err),
		     -EBUSY);
	cr_expect(strstr(err.msg, "held by 'node-a'"), "%s", err.msg);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(object_lease_renew(l, &err), 0, "%s", err.msg);
	cr_expect_eq(object_lease_drop(l, &err), 0, "%s", err.msg);
	l = lease("node-b", 60000);
	cr_expect_gt(object_lease_generation(l), first);
	cr_expect_eq(object_lease_drop(l, &err), 0, "%s", err.msg);
}

Test(store_names, gives_the_lease_of_the_dead_to_another)
{
	const struct object_lease_options opts = {
		.owner = "node-b",
		.ttl_ms = 1000,
		.deadline_ns = clock_now_ns() + 60 * NS_PER_S,
	};
	struct object_lease *dead = lease("node-a", 1000), *l = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(object_lease_take(store, "lease", &opts, &l, &err), 0,
		     "%s", err.msg);
	cr_expect_gt(object_lease_generation(l), object_lease_generation(dead));
	cr_expect_eq(object_lease_renew(dead, &err), -ESTALE, "%s", err.msg);
	cr_expect_eq(object_lease_renew(l, &err), 0, "%s", err.msg);
	cr_expect_eq(object_lease_drop(dead, &err), -ESTALE, "%s", err.msg);
	cr_expect_eq(object_lease_drop(l, &err), 0, "%s", err.msg);
}

Test(store_names, takes_no_other_object_for_a_lease)
{
	const struct object_lease_options opts = { .owner = "a",
						   .ttl_ms = 1000 };
	struct object_lease *l;
	struct error err = ERROR_INIT;

	store_put_text("lease", "{\"owner\": 3}");
	cr_expect_eq(object_lease_take(store, "lease", &opts, &l, &err),
		     -EINVAL);
	store_expect_text("lease", "{\"owner\": 3}");
}
