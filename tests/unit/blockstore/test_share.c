// SPDX-License-Identifier: Apache-2.0
/* Many images of one registry that hangs, beside those of others. */
#include <criterion/criterion.h>

#include "blockstore/fetcher_share.h"
#include "common/clock.h"
#include "tests/unit/blockstore/node.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/pause.h"

TestSuite(share, .timeout = 120);

#define SPAN 4096u
#define THREADS 16u
#define IMAGES 10u /* of the registry: enough for all threads */
#define READERS 9u /* of each, far from each other */
#define GOOD 190u  /* blocks from this one on are for other registries */

static const struct node_config many = { .n_blocks = 220,
					 .per_pack = 220,
					 .usize = SPAN,
					 .threads = THREADS,
					 .window = SPAN,
					 .window_max = SPAN,
					 .of_one_host = IMAGES };

/* By halves, and three quarters of a half. */
static const unsigned int alone[IMAGES] = { 8,  12, 14, 15, 15,
					    15, 15, 15, 15, 15 };
static const unsigned int beside[IMAGES] = { 6, 8, 8, 8, 8, 8, 8, 8, 8, 8 };

static struct later hanging[IMAGES][READERS];

static unsigned int n_held(struct node *n, unsigned int dev)
{
	struct fault_source *f = n->fault[dev][0];
	unsigned int count;

	(void)pthread_mutex_lock(&f->lock);
	count = f->n_waiting;
	(void)pthread_mutex_unlock(&f->lock);
	return count;
}

static unsigned int all_held(struct node *n)
{
	unsigned int count = 0;

	for (unsigned int d = 0; d < IMAGES; d++)
		count += n_held(n, d);
	return count;
}

static void wait_held(struct node *n, unsigned int count)
{
	while (all_held(n) != count)
		unit_pause();
}

/* The readers of so many images, one image after the other; no two want the same
 * block.  These are the threads that all of them have when each began. */
static void begin_hanging(struct node *n, unsigned int images,
			  const unsigned int held[IMAGES])
{
	const struct fault_plan plan = { .held = true, .heeds_pace = true };

	for (unsigned int d = 0; d < images; d++) {
		fault_set(n->fault[d][0], &plan);
		for (unsigned int k = 0; k < READERS; k++)
			later_start(&hanging[d][k], n, (int)d,
				    (uint64_t)(d + 2 * IMAGES * k) * SPAN,
				    SPAN);
		wait_held(n, held[d]);
	}
}

/* Its registry answers again, and nothing was lost. */
static void end_hanging(struct node *n, unsigned int images)
{
	for (unsigned int d = 0; d < images; d++)
		fault_release(n->fault[d][0]);
	for (unsigned int d = 0; d < images; d++)
		for (unsigned int k = 0; k < READERS; k++) {
			struct later *l = &hanging[d][k];

			cr_expect_eq(later_wait(l), 0, "%s", l->err.msg);
			later_fini(l, n);
		}
	node_remove(n);
}

Test(share, images_of_one_registry_take_half_of_the_threads)
{
	struct node n;

	node_make(&n, &many);
	node_add_device(&n, "good.example");
	begin_hanging(&n, IMAGES, beside);
	for (unsigned int k = 0; k < 20; k++)
		expect_read(&n, IMAGES, (uint64_t)(GOOD + k) * SPAN, SPAN);
	cr_expect_eq(all_held(&n), THREADS / 2);
	end_hanging(&n, IMAGES);
}

Test(share, and_leave_some_of_it_to_each_other)
{
	struct node n;

	node_make(&n, &many);
	node_add_device(&n, "good.example");
	begin_hanging(&n, 1, beside);
	expect_read(&n, 1, (uint64_t)GOOD * SPAN, SPAN);
	cr_expect_eq(all_held(&n), 6);
	end_hanging(&n, 1);
}

Test(share, a_registry_alone_has_all_threads_but_one)
{
	struct node n;

	node_make(&n, &many);
	begin_hanging(&n, 1, alone);
	end_hanging(&n, 1);
	node_make(&n, &many);
	begin_hanging(&n, IMAGES, alone);
	/* The last is another's, if one comes. */
	node_add_device(&n, "good.example");
	for (unsigned int k = 0; k < 20; k++)
		expect_read(&n, IMAGES, (uint64_t)(GOOD + k) * SPAN, SPAN);
	cr_expect_eq(all_held(&n), THREADS - 1);
	end_hanging(&n, IMAGES);
}

/* What it is asked for is at the head of the queue again: others go before it. */
Test(share, a_registry_that_hangs_has_one_place_while_others_wait)
{
	struct later slow, waiting;
	struct node n;

	test_clock_hold();
	node_make(&n, &many);
	begin_hanging(&n, IMAGES, alone);
	node_add_device(&n, "slow.example");
	node_add_device(&n, "good.example");
	fault_set(n.fault[IMAGES][0], &(struct fault_plan){ .held = true });
	later_start(&slow, &n, IMAGES, (uint64_t)GOOD * SPAN, SPAN);
	fault_wait_held(n.fault[IMAGES][0], 1);
	/* No thread is left. */
	later_start(&waiting, &n, IMAGES + 1, (uint64_t)(GOOD + 9) * SPAN,
		    SPAN);
	test_clock_step(2 * NS_PER_S);
	cr_expect_eq(all_held(&n), THREADS - 1);
	test_clock_step(2 * NS_PER_S);
	cr_expect_eq(later_wait(&waiting), 0, "%s", waiting.err.msg);
	wait_held(&n, 1);
	for (unsigned int k = 10; k < 30; k++)
		expect_read(&n, IMAGES + 1, (uint64_t)(GOOD + k) * SPAN, SPAN);
	cr_expect_eq(all_held(&n), 1);
	fault_release(n.fault[IMAGES][0]);
	later_fini(&waiting, &n);
	later_fini(&slow, &n);
	end_hanging(&n, IMAGES);
}

/* Nobody else wants the threads. */
Test(share, a_registry_that_is_slow_alone_keeps_its_places)
{
	struct node n;

	test_clock_hold();
	node_make(&n, &many);
	begin_hanging(&n, IMAGES, alone);
	test_clock_step(60 * NS_PER_S / 2);
	(void)pthread_mutex_lock(&n.fetcher->lock);
	/* As if the last one were at work, too. */
	n.fetcher->n_idle--;
	share_look(n.fetcher, clock_now_ns());
	n.fetcher->n_idle++;
	cr_expect_eq(LIST_FIRST(&n.fetcher->hosts)->hangs_until, 0);
	(void)pthread_mutex_unlock(&n.fetcher->lock);
	cr_expect_eq(all_held(&n), THREADS - 1);
	end_hanging(&n, IMAGES);
}

Test(share, bulk_of_images_of_one_registry_leaves_places_to_other_bulk)
{
	struct node n;

	node_make(&n, &many);
	node_add_device(&n, "good.example");
	(void)pthread_mutex_lock(&n.fetcher->lock);
	/* As if each had one. */
	n.dev[0]->host->n_bulk = n.fetcher->n_bulk = 9;
	cr_expect(!share_may_begin_bulk(n.fetcher, n.dev[0]));
	cr_expect(share_may_begin_bulk(n.fetcher, n.dev[IMAGES]));
	n.dev[0]->host->n_bulk = n.fetcher->n_bulk = 0;
	(void)pthread_mutex_unlock(&n.fetcher->lock);
	node_remove(&n);
}
