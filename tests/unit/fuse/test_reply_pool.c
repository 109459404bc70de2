// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/fuse.h"

TestSuite(reply_pool, .timeout = 120);

#define SMALL 4096u
#define LARGE SESSION_DATA_MAX
#define N_SMALL 128u
#define N_LARGE 32u

struct taken {
	struct reply_buffer *b[REPLY_BUFFERS];
	unsigned int n;
};

static struct reply_pool *pool(void)
{
	struct reply_pool *p = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(reply_pool_new(&p, &err), 0, "%s", err.msg);
	return p;
}

/* All that the share can have for replies of this kind. */
static unsigned int take_kind(struct reply_pool *p, size_t len,
			      struct reply_share *share, enum reply_kind kind,
			      struct taken *t)
{
	unsigned int n = t->n;
	struct reply_buffer *b;

	while ((b = reply_pool_take(p, len, share, kind)))
		t->b[t->n++] = b;
	return t->n - n;
}

static unsigned int take_all(struct reply_pool *p, size_t len,
			     struct reply_share *share, struct taken *t)
{
	return take_kind(p, len, share, REPLY_AT_ONCE, t);
}

static void put(struct reply_pool *p, struct reply_share *share,
		struct reply_buffer *b)
{
	struct reply_buffer *next = NULL;

	reply_pool_leave(p, share);
	cr_expect_null(reply_pool_put(p, b, &next));
}

Test(reply_pool, has_memory_of_its_own_for_each_buffer)
{
	struct reply_pool *p = pool();
	struct reply_share *shares = calloc(REPLY_BUFFERS, sizeof(*shares));
	struct reply_buffer *b;

	cr_assert_not_null(shares);
	for (unsigned int i = 0; i < REPLY_BUFFERS; i++) {
		size_t len = i < N_SMALL ? 256u << 10 : LARGE;

		b = reply_pool_take(p, len, &shares[i], REPLY_AT_ONCE);
		cr_assert_not_null(b, "%u", i);
		cr_expect_eq(b->index, i);
		memset(b->data, (int)i, len);
		shares[i].n_buffers = 0;
	}
	b = reply_pool_take(p, SMALL, &shares[0], REPLY_AT_ONCE);
	cr_expect_null(b, "the large ones are not for small replies");
	reply_pool_free(p);
	free(shares);
}

Test(reply_pool, keeps_a_quarter_for_those_that_have_few)
{
	struct reply_pool *p = pool();
	struct reply_share greedy = { 0 }, other = { 0 }, third = { 0 };
	struct taken t = { .n = 0 };

	cr_expect_eq(take_all(p, SMALL, &greedy, &t), N_SMALL - N_SMALL / 4);
	cr_expect_eq(take_all(p, SMALL, &other, &t), 4);
	cr_expect_eq(take_all(p, LARGE, &greedy, &t), N_LARGE - N_LARGE / 4);
	cr_expect_eq(take_all(p, LARGE, &third, &t), 4);
	reply_pool_free(p);
}

Test(reply_pool, gives_what_comes_back_to_the_first_who_may_have_it)
{
	struct reply_pool *p = pool();
	struct reply_share greedy = { 0 }, modest[8] = { { 0 } };
	struct reply_wait first, second, third;
	struct taken t = { .n = 0 };
	struct reply_buffer *next = NULL, *b;

	(void)take_all(p, SMALL, &greedy, &t);
	for (size_t i = 0; i < ARRAY_SIZE(modest); i++)
		(void)take_all(p, SMALL, &modest[i], &t);
	cr_assert_eq(t.n, N_SMALL, "none is left");
	/* Greedy waits longest, but has more than its part. */
	b = reply_pool_take_or_wait(p, SMALL, &greedy, REPLY_AT_ONCE, &first);
	cr_assert_null(b);
	reply_pool_leave(p, &modest[0]);
	b = reply_pool_take_or_wait(p, SMALL, &modest[0], REPLY_AT_ONCE,
				    &second);
	cr_assert_null(b);
	reply_pool_leave(p, &modest[0]);
	b = reply_pool_take_or_wait(p, SMALL, &modest[0], REPLY_AT_ONCE,
				    &third);
	cr_assert_null(b);
	cr_expect_eq(reply_pool_put(p, t.b[100], &next), &second);
	cr_expect_eq(next, t.b[100], "the one whose memory is resident");
	cr_expect_eq(reply_pool_put(p, t.b[101], &next), &third);
	cr_expect_eq(next, t.b[101]);
	/* Greedy gets its one when more are free than the quarter. */
	for (unsigned int i = 0; i < N_SMALL / 4; i++)
		put(p, &greedy, t.b[i]);
	reply_pool_leave(p, &greedy);
	cr_expect_eq(reply_pool_put(p, t.b[50], &next), &first);
	cr_expect_eq(next, t.b[50]);
	reply_pool_free(p);
}

Test(reply_pool, takes_a_buffer_that_came_back_before_the_wait_began)
{
	struct reply_pool *p = pool();
	struct reply_share greedy = { 0 };
	struct reply_wait w;
	struct taken t = { .n = 0 };
	struct reply_buffer *b, *next = NULL;

	(void)take_all(p, SMALL, &greedy, &t);
	put(p, &greedy, t.b[7]);
	b = reply_pool_take_or_wait(p, SMALL, &greedy, REPLY_AT_ONCE, &w);
	cr_expect_eq(b, t.b[7]);
	/* And does not wait: nobody is there for the next. */
	reply_pool_leave(p, &greedy);
	cr_expect_null(reply_pool_put(p, t.b[8], &next));
	reply_pool_free(p);
}

/* All buffers for replies that may wait, by as many shares as that needs. */
static void hang(struct reply_pool *p, size_t len, struct reply_share *shares,
		 size_t n, struct taken *t)
{
	for (size_t i = 0; i < n; i++)
		(void)take_kind(p, len, &shares[i], REPLY_MAY_WAIT, t);
}

Test(reply_pool, of_shares_that_hang_keeps_half_for_replies_at_once)
{
	struct reply_pool *p = pool();
	struct reply_share hung[9] = { { 0 } }, good = { 0 };
	struct taken t = { .n = 0 };

	hang(p, SMALL, hung, ARRAY_SIZE(hung), &t);
	cr_expect_eq(t.n, N_SMALL / 2);
	cr_expect_eq(hung[0].n_buffers, N_SMALL / 2 - N_SMALL / 8);
	cr_expect_eq(hung[1].n_buffers, 4);
	cr_expect_null(reply_pool_take(p, SMALL, &good, REPLY_MAY_WAIT));
	cr_expect_eq(take_all(p, SMALL, &good, &t), N_SMALL / 4);
	/* What of a share that hangs is here is answered, too. */
	cr_expect_not_null(reply_pool_take(p, SMALL, &hung[8], REPLY_AT_ONCE));
	t.n = 0;
	hang(p, LARGE, hung, ARRAY_SIZE(hung), &t);
	cr_expect_leq(t.n, N_LARGE / 2);
	reply_pool_free(p);
}

Test(reply_pool, goes_on_with_one_that_may_wait_when_another_ends)
{
	struct reply_pool *p = pool();
	struct reply_share hung[9] = { { 0 } }, good = { 0 };
	struct reply_wait old, mine;
	struct taken t = { .n = 0 };
	struct reply_buffer *b, *next = NULL;

	hang(p, SMALL, hung, ARRAY_SIZE(hung), &t);
	b = reply_pool_take_or_wait(p, SMALL, &hung[0], REPLY_MAY_WAIT, &old);
	cr_assert_null(b);
	b = reply_pool_take_or_wait(p, SMALL, &good, REPLY_MAY_WAIT, &mine);
	cr_assert_null(b);
	/* A reply at once comes and goes, and is no reason to go on. */
	b = reply_pool_take(p, SMALL, &good, REPLY_AT_ONCE);
	cr_assert_not_null(b);
	put(p, &good, b);
	reply_pool_leave(p, &hung[1]);
	cr_expect_eq(reply_pool_put(p, t.b[50], &next), &mine);
	cr_expect_eq(next, t.b[50]);
	cr_expect_eq(good.n_buffers, 1);
	/* And the other when its share may have one. */
	for (unsigned int i = 0; i < N_SMALL / 8; i++)
		put(p, &hung[0], t.b[i]);
	reply_pool_leave(p, &hung[0]);
	cr_expect_eq(reply_pool_put(p, t.b[40], &next), &old);
	reply_pool_free(p);
}

Test(reply_pool, goes_on_with_shares_by_turns)
{
	struct reply_pool *p = pool();
	struct reply_share hung[16] = { { 0 } }, a = { 0 }, b = { 0 };
	struct reply_wait of_a[3], of_b[2];
	struct reply_wait *const turns[] = { &of_a[0], &of_b[0], &of_a[1],
					     &of_b[1], &of_a[2] };
	struct taken t = { .n = 0 };
	struct reply_buffer *next = NULL;

	hang(p, SMALL, hung, ARRAY_SIZE(hung), &t);
	for (size_t i = 0; i < ARRAY_SIZE(of_a); i++)
		cr_assert_null(reply_pool_take_or_wait(p, SMALL, &a,
						       REPLY_MAY_WAIT,
						       &of_a[i]));
	for (size_t i = 0; i < ARRAY_SIZE(of_b); i++)
		cr_assert_null(reply_pool_take_or_wait(p, SMALL, &b,
						       REPLY_MAY_WAIT,
						       &of_b[i]));
	for (size_t i = 0; i < ARRAY_SIZE(turns); i++) {
		reply_pool_leave(p, &hung[0]);
		cr_expect_eq(reply_pool_put(p, t.b[i], &next), turns[i], "%zu",
			     i);
	}
	/* Nobody is left. */
	put(p, &hung[0], t.b[10]);
	reply_pool_free(p);
}
