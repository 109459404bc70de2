// SPDX-License-Identifier: Apache-2.0
/* The first of two names, from a store that answers as each test says. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "objects/object_get.h"
#include "objects/store/backend.h"

#define PATIENCE_S 60

static struct object_store store;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static bool wants_both, has_first, has_second, comes_late;
static unsigned int n_opens, n_open;

/* With `wants_both` nobody is answered before both names were asked for. */
static int fake_open(struct object_store *s, const char *name,
		     struct object **ret, struct error *err)
{
	bool is_first = strcmp(name, "first") == 0, is_there;
	struct timespec until;
	struct object *o;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	(void)pthread_mutex_lock(&lock);
	n_opens++;
	(void)pthread_cond_broadcast(&came);
	while (wants_both && n_opens < 2)
		if (pthread_cond_timedwait(&came, &lock, &until))
			break;
	is_there = is_first ? has_first
			    : has_second || (comes_late && n_opens > 2);
	if (wants_both && n_opens < 2)
		is_there = false;
	n_open += is_there;
	(void)pthread_mutex_unlock(&lock);
	if (!is_there)
		return error_set(err, ENOENT, "no %s", name);
	o = calloc(1, sizeof(*o));
	cr_assert(o);
	cr_assert_eq(store_object_init(o, s, name, err), 0);
	(void)strcpy(o->stat.tag, name);
	*ret = o;
	return 0;
}

static void fake_close(struct object *o)
{
	(void)pthread_mutex_lock(&lock);
	n_open--;
	(void)pthread_mutex_unlock(&lock);
	store_object_fini(o);
	free(o);
}

/* All are empty. */
static int fake_read(struct object *o, const struct object_range *ranges,
		     size_t n, int64_t deadline_ns, struct error *err)
{
	return 0;
}

static const struct object_store_ops ops = {
	.open = fake_open,
	.read = fake_read,
	.close = fake_close,
};

static void begin(unsigned int n_workers)
{
	char scheme[] = "fake", nothing[] = "";
	const struct store_url url = { .scheme = scheme,
				       .authority = nothing,
				       .path = nothing };
	static const struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct error err = ERROR_INIT;

	cr_assert_eq(store_init(&store, &ops, &url, &cfg, n_workers, &err), 0,
		     "%s", err.msg);
}

static int open_it(bool *ret_is_second)
{
	struct error err = ERROR_INIT;
	struct object *o;
	int rc = object_open_first(&store, "first", "second", ret_is_second, &o,
				   &err);

	if (rc == 0)
		object_close(o);
	store_fini(&store);
	cr_expect_eq(n_open, 0, "%u objects stayed open", n_open);
	return rc;
}

TestSuite(open_first, .timeout = 180);

Test(open_first, asks_a_server_for_both_at_once)
{
	bool is_second = false;

	wants_both = has_second = true;
	begin(2);
	cr_assert_eq(open_it(&is_second), 0);
	cr_expect(is_second);
}

Test(open_first, has_the_first_where_both_are)
{
	bool is_second = true;

	wants_both = has_first = has_second = true;
	begin(2);
	cr_assert_eq(open_it(&is_second), 0);
	cr_expect_not(is_second);
}

Test(open_first, asks_one_after_the_other_without_workers)
{
	bool is_second = true;

	has_first = has_second = true;
	begin(0);
	cr_assert_eq(open_it(&is_second), 0);
	cr_expect_not(is_second);
	cr_expect_eq(n_opens, 1);
}

/* It was looked for before it came, the first one after it went. */
Test(open_first, finds_what_came_when_the_first_one_went)
{
	bool is_second = false;

	wants_both = comes_late = true;
	begin(2);
	cr_assert_eq(open_it(&is_second), 0);
	cr_expect(is_second);
}

/* Begins both, and says what was seen of the second while the first was asked for. */
static struct object_seen get_seen(unsigned int n_workers)
{
	struct object_seen seen = { .is_known = false };
	struct error err = ERROR_INIT;
	struct object *other = NULL;
	AUTO_BUF text = BUF_INIT;
	struct object_stat st;

	has_first = true;
	begin(n_workers);
	cr_expect_eq(object_get_first(&store, "first", 100, &text, &st,
				      "second", 0, &other, &seen, &err),
		     0, "%s", err.msg);
	cr_expect_null(other);
	store_fini(&store);
	cr_expect_eq(n_open, 0, "%u objects stayed open", n_open);
	return seen;
}

Test(open_first, says_which_version_the_second_has_beside_the_first)
{
	struct object_seen seen;

	wants_both = has_second = true;
	seen = get_seen(2);
	cr_expect(seen.is_known);
	cr_expect_str_eq(seen.tag, "second");
	has_second = false;
	n_opens = 0;
	seen = get_seen(2);
	cr_expect(seen.is_known);
	cr_expect_str_eq(seen.tag, "");
}

Test(open_first, knows_nothing_of_a_second_that_nobody_asked_for)
{
	has_second = true;
	cr_expect_not(get_seen(0).is_known);
}

Test(open_first, says_that_neither_is_there)
{
	bool is_second;

	begin(2);
	cr_expect_eq(open_it(&is_second), -ENOENT);
}
