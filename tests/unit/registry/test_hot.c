// SPDX-License-Identifier: Apache-2.0
/* Tests with a fake database: recordings of start 1 arrive when `held` is released, those of other
 * starts are gone, and starts from OLD on have an older list. */
#include "registry/hot.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "tests/unit/pause.h"

TestSuite(hot, .timeout = 120);

#define OLD 100

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static atomic_int n_ended, n_loading;

int trace_db_hot(struct db *db, int64_t start, struct hot_row *ret,
		 struct error *err)
{
	if (start < OLD)
		return error_set(err, ENOENT, "no list");
	ret->version = 1;
	ret->made_ms = 0;
	return buf_puts(&ret->trace, "an older list");
}

int trace_db_hot_put(struct db *db, int64_t start, const struct hot_row *row,
		     struct error *err)
{
	return 0;
}

int trace_db_votes(struct db *db, int64_t start, struct vote ret[VOTES_MAX],
		   size_t *ret_n, struct error *err)
{
	atomic_fetch_add(&n_loading, 1);
	if (start == 1) {
		pthread_mutex_lock(&held);
		pthread_mutex_unlock(&held);
	}
	*ret_n = 0;
	return 0;
}

void votes_free(struct vote *v, size_t n)
{
}

int trace_db_vote(struct db *db, int64_t start, const struct vote *v,
		  struct buf *ret, struct error *err)
{
	return error_set(err, ENOENT, "no recording");
}

struct asker {
	pthread_t thread;
	struct hot *hot;
	int64_t start;
	int rc;
};

static void *ask(void *arg)
{
	struct asker *a = arg;
	struct start s = { .id = a->start, .version = 2 };
	struct hot_list_text *list;

	a->rc = hot_get(a->hot, &s, &list, NULL);
	if (a->rc == 0)
		hot_put(a->hot, list);
	atomic_fetch_add(&n_ended, 1);
	return NULL;
}

static void begin(struct asker *a, struct hot *h, int64_t start)
{
	*a = (struct asker){ .hot = h, .start = start };
	cr_assert_eq(pthread_create(&a->thread, NULL, ask, a), 0);
}

/* Begin a merge of start 1 that does not end. */
static struct hot *begin_merge(struct asker *first, int64_t timeout_ns)
{
	struct hot *h;

	cr_assert_eq(hot_new(NULL, 1 << 20, timeout_ns, &h, NULL), 0);
	pthread_mutex_lock(&held);
	begin(first, h, 1);
	while (!atomic_load(&n_loading))
		unit_pause();
	return h;
}

static void end_merge(struct hot *h, struct asker *first)
{
	pthread_mutex_unlock(&held);
	pthread_join(first->thread, NULL);
	cr_expect_eq(first->rc, -ENOENT);
	hot_free(h);
}

Test(hot, a_merge_that_takes_long_is_waited_for_by_two_and_no_more)
{
	struct asker first, others[8];
	struct hot *h = begin_merge(&first, 100 * NS_PER_S);
	int n_busy = 0, n_gone = 0;

	for (int i = 0; i < 8; i++)
		begin(&others[i], h, 2 + i);
	while (atomic_load(&n_ended) < 6)
		unit_pause();
	pthread_mutex_unlock(&held);
	for (int i = 0; i < 8; i++) {
		pthread_join(others[i].thread, NULL);
		n_busy += others[i].rc == -EBUSY;
		n_gone += others[i].rc == -ENOENT;
	}
	cr_expect_eq(n_busy, 6);
	cr_expect_eq(n_gone, 2);
	pthread_mutex_lock(&held);
	end_merge(h, &first);
}

Test(hot, a_merge_is_waited_for_until_the_timeout)
{
	struct asker first, other;
	struct hot *h = begin_merge(&first, NS_PER_S / 10);

	begin(&other, h, 2);
	pthread_join(other.thread, NULL);
	cr_expect_eq(other.rc, -EBUSY);
	end_merge(h, &first);
}

Test(hot, an_older_list_does_while_others_are_merged)
{
	struct asker first;
	struct hot *h = begin_merge(&first, NS_PER_S / 10);
	struct start s = { .id = OLD, .version = 2 };
	struct hot_list_text *list = NULL;

	cr_assert_eq(hot_get(h, &s, &list, NULL), 0);
	cr_expect_str_eq(list->trace.data, "an older list");
	hot_put(h, list);
	end_merge(h, &first);
}

Test(hot, a_list_that_nobody_merged_is_not_merged_for_a_prediction)
{
	const struct start none = { .id = 2, .version = 2 };
	const struct start older = { .id = OLD, .version = 2 };
	struct hot_list_text *list;
	AUTO(hot) h = NULL;

	cr_assert_eq(hot_new(NULL, 1 << 20, NS_PER_S, &h, NULL), 0);
	cr_expect_eq(hot_get_merged(h, &none, &list, NULL), -ENOENT);
	cr_assert_eq(hot_get_merged(h, &older, &list, NULL), 0);
	hot_put(h, list);
	cr_expect_eq(atomic_load(&n_loading), 0);
	/* A caller that may merge still merges it. */
	cr_expect_eq(hot_get(h, &older, &list, NULL), -ENOENT);
	cr_expect_eq(atomic_load(&n_loading), 1);
}
