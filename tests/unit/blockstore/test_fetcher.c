// SPDX-License-Identifier: Apache-2.0
/* Prefetching beside readers, and many of both at once. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "blockstore/fetcher.h"
#include "blockstore/fetcher_pace.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "tests/unit/blockstore/node.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/pause.h"

TestSuite(fetcher, .timeout = 120);

#define SPAN 32768u

static const struct node_config plain = { .n_blocks = 40,
					  .per_pack = 20,
					  .usize = SPAN,
					  .window = 100000,
					  .window_max = 300000 };

struct bulk {
	struct node *n;
	int dev;
	size_t first, count;
	enum source_priority priority;
	volatile bool cancel;
	int rc;
	struct error err;
	pthread_t thread;
};

static void *bulk_main(void *arg)
{
	struct bulk *b = arg;

	b->rc = fetch_blocks(b->n, b->dev, b->first, b->count, b->priority,
			     &b->cancel, &b->err);
	return NULL;
}

static void bulk_start_on(struct bulk *b, struct node *n, int dev, size_t first,
			  size_t count, enum source_priority priority)
{
	memset(b, 0, sizeof(*b));
	b->n = n;
	b->dev = dev;
	b->first = first;
	b->count = count;
	b->priority = priority;
	cr_assert_eq(pthread_create(&b->thread, NULL, bulk_main, b), 0);
}

static void bulk_start(struct bulk *b, struct node *n, size_t first,
		       size_t count, enum source_priority priority)
{
	bulk_start_on(b, n, 0, first, count, priority);
}

static int bulk_wait(struct bulk *b)
{
	(void)pthread_join(b->thread, NULL);
	return b->rc;
}

Test(fetcher, prefetch_brings_all_in_few_long_requests)
{
	struct error err = ERROR_INIT;
	struct device_stats st;
	struct node n;

	node_make(&n, &plain);
	cr_assert_eq(fetch_blocks(&n, 0, 0, 40, SOURCE_COLD, NULL, &err), 0,
		     "%s", err.msg);
	device_get_stats(n.dev[0], &st);
	cr_expect_eq(device_count_held(n.dev[0]), 40);
	cr_expect_leq(st.fetches, 8, "%zu", (size_t)st.fetches);
	cr_expect_eq(st.fetched_bytes, n.img.pack_size[0] + n.img.pack_size[1]);
	cr_assert_eq(fetch_blocks(&n, 0, 0, 40, SOURCE_HOT, NULL, &err), 0);
	device_get_stats(n.dev[0], &st);
	cr_expect_leq(st.fetches, 8);
	cr_expect_eq(fetch_blocks(&n, 0, 0, 41, SOURCE_HOT, NULL, &err),
		     -EINVAL);
	node_remove(&n);
}

Test(fetcher, prefetch_fetches_what_it_was_asked_for_and_no_more)
{
	struct error err = ERROR_INIT;
	struct device_stats st;
	struct node n;

	node_make(&n, &plain);
	cr_assert_eq(fetch_blocks(&n, 0, 5, 3, SOURCE_HOT, NULL, &err), 0);
	device_get_stats(n.dev[0], &st);
	cr_expect_eq(device_count_held(n.dev[0]), 3);
	node_remove(&n);
}

Test(fetcher, prefetch_says_why_it_stopped)
{
	struct node_config cfg = plain;
	struct error err = ERROR_INIT;
	struct bulk b;
	struct node n;

	node_make(&n, &cfg);
	fault_set(n.fault[0][1],
		  &(struct fault_plan){ .n_fail = 99, .fail_rc = -ENOENT });
	cr_expect_eq(fetch_blocks(&n, 0, 0, 40, SOURCE_COLD, NULL, &err),
		     -ENOENT);
	cr_expect(strstr(err.msg, "image-0: block"), "%s", err.msg);
	/* Transfers that failed may not have ended all: a list would join them. */
	node_remove(&n);
	node_make(&n, &cfg);
	fault_set(n.fault[0][1], &(struct fault_plan){ .held = true });
	bulk_start(&b, &n, 20, 20, SOURCE_COLD);
	fault_wait_held(n.fault[0][1], 1);
	__atomic_store_n(&b.cancel, true, __ATOMIC_RELAXED);
	cr_expect_eq(bulk_wait(&b), -ECANCELED, "does not wait for the source");
	fault_release(n.fault[0][1]);
	node_remove(&n);
	cfg.quota = 10 * SPAN;
	node_make(&n, &cfg);
	cr_assert_eq(cache_pin(n.cache, &n.img.map, &err), 0);
	cr_expect_eq(fetch_blocks(&n, 0, 0, 40, SOURCE_COLD, NULL, &err),
		     -ENOSPC);
	cr_expect(strstr(err.msg, "no room"), "%s", err.msg);
	node_remove(&n);
}

Test(fetcher, readers_have_threads_that_bulk_cannot_take)
{
	struct node_config cfg = plain;
	struct bulk b;
	struct node n;

	cfg.window_max = cfg.window;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	bulk_start(&b, &n, 0, 20, SOURCE_HOT);
	/* Four threads: three for bulk, all of them stuck. */
	fault_wait_held(n.fault[0][0], 3);
	expect_read(&n, 0, 30 * SPAN, SPAN);
	fault_release(n.fault[0][0]);
	cr_expect_eq(bulk_wait(&b), 0, "%s", b.err.msg);
	node_remove(&n);
}

Test(fetcher, a_bulk_transfer_gives_way_when_no_thread_is_free)
{
	struct node_config cfg = plain;
	struct fault_source *f[2];
	struct later l;
	struct bulk b;
	struct node n;

	cfg.threads = 1;
	node_make(&n, &cfg);
	f[0] = n.fault[0][0];
	f[1] = n.fault[0][1];
	fault_set(f[0], &(struct fault_plan){ .held = true });
	bulk_start(&b, &n, 0, 20, SOURCE_COLD);
	fault_wait_held(f[0], 1);
	/* Another pack, so that it cannot come along. */
	fault_set(f[1], &(struct fault_plan){ .held = true });
	later_start(&l, &n, 0, 30 * SPAN, 100);
	fault_release(f[0]);
	fault_wait_held(f[1], 1);
	cr_expect_lt(f[0]->n_bytes, 2 * SPAN, "one block went before");
	fault_release(f[1]);
	cr_expect_eq(later_wait(&l), 0, "%s", l.err.msg);
	later_fini(&l, &n);
	cr_expect_eq(bulk_wait(&b), 0, "%s", b.err.msg);
	expect_read(&n, 0, 0, 20 * SPAN);
	node_remove(&n);
}

/* A reader joins bulk far behind its begin, where a request of that brings so many bytes a
 * second, 0: that is not known; both have theirs. */
static struct fault_source *join_bulk(struct node *n, uint64_t rate)
{
	struct node_config cfg = plain;
	struct fault_source *f;
	struct later l;
	struct bulk b;

	cfg.threads = 1;
	cfg.window = SPAN;
	cfg.window_max = 20 * SPAN;
	node_make(n, &cfg);
	f = n->fault[0][0];
	atomic_store(&n->dev[0]->rate, rate);
	fault_set(f, &(struct fault_plan){ .held = true });
	bulk_start(&b, n, 0, 20, SOURCE_HOT);
	fault_wait_held(f, 1);
	later_start(&l, n, 0, 15 * SPAN, SPAN);
	fault_release(f);
	cr_expect_eq(later_wait(&l), 0, "%s", l.err.msg);
	later_fini(&l, n);
	cr_expect_eq(bulk_wait(&b), 0, "%s", b.err.msg);
	return f;
}

Test(fetcher, a_reader_who_joins_bulk_is_served_first)
{
	struct fault_source *f;
	struct block wanted;
	struct node n;

	f = join_bulk(&n, 0);
	blockmap_block(&n.img.map, 15, &wanted);
	cr_assert_gt(f->n_reads, 1);
	cr_expect_eq(f->log[1].off, wanted.poff);
	cr_expect_eq(f->log[1].priority, SOURCE_DEMAND);
	node_remove(&n);
}

/* It would come again, and his block no sooner. */
Test(fetcher, bulk_that_comes_soon_is_not_cut_for_a_reader)
{
	struct node n;

	cr_expect_eq(fault_reads(join_bulk(&n, 1000000000)), 1);
	node_remove(&n);
}

Test(fetcher, a_reader_who_joins_bulk_that_fails_has_time_of_his_own)
{
	static const int passing[] = { -EIO,          -EBUSY,     -ETIMEDOUT,
				       -ECONNREFUSED, -ECANCELED, -ENOMEM };
	struct node_config cfg = plain;

	cfg.threads = 1;
	cfg.window = SPAN;
	cfg.window_max = 20 * SPAN;
	for (size_t i = 0; i < ARRAY_SIZE(passing); i++) {
		struct fault_source *f;
		struct later l;
		struct bulk b;
		struct node n;

		node_make(&n, &cfg);
		f = n.fault[0][0];
		/* The registry sends a little, and then refuses. */
		fault_set(f, &(struct fault_plan){ .held = true,
						   .n_fail = 1,
						   .fail_after = 1,
						   .fail_rc = passing[i] });
		bulk_start(&b, &n, 0, 20, SOURCE_HOT);
		fault_wait_held(f, 1);
		later_start(&l, &n, 0, 0, SPAN);
		fault_release(f);
		cr_expect_eq(later_wait(&l), 0, "%d: %s", passing[i],
			     l.err.msg);
		later_fini(&l, &n);
		(void)bulk_wait(&b);
		node_remove(&n);
	}
}

/* Until somebody has asked for block `i` at this priority. */
static void wait_queued(struct node *n, size_t i, enum source_priority priority)
{
	bool is_queued = false;
	struct block b;

	blockmap_block(&n->img.map, i, &b);
	while (!is_queued) {
		struct flight *fl;

		unit_pause();
		(void)pthread_mutex_lock(&n->fetcher->lock);
		fl = flight_find(n->fetcher, &b);
		is_queued = fl && fl->priority == priority;
		(void)pthread_mutex_unlock(&n->fetcher->lock);
	}
}

Test(fetcher, hot_goes_before_cold)
{
	struct node_config cfg = plain;
	struct bulk cold, hot, first;
	struct fault_source *f;
	struct block wanted;
	struct node n;

	cfg.threads = 1;
	cfg.per_pack = 40;
	node_make(&n, &cfg);
	f = n.fault[0][0];
	fault_set(f, &(struct fault_plan){ .held = true });
	bulk_start(&first, &n, 0, 1, SOURCE_COLD);
	fault_wait_held(f, 1);
	bulk_start(&cold, &n, 10, 5, SOURCE_COLD);
	wait_queued(&n, 14, SOURCE_COLD);
	bulk_start(&hot, &n, 30, 5, SOURCE_HOT);
	wait_queued(&n, 34, SOURCE_HOT);
	fault_release(f);
	cr_expect_eq(bulk_wait(&first), 0);
	cr_expect_eq(bulk_wait(&cold), 0);
	cr_expect_eq(bulk_wait(&hot), 0);
	blockmap_block(&n.img.map, 30, &wanted);
	cr_expect_eq(f->log[1].off, wanted.poff);
	cr_expect_eq(f->log[1].priority, SOURCE_HOT);
	cr_expect_eq(f->log[2].priority, SOURCE_COLD);
	cr_expect_eq(f->n_reads, 3);
	node_remove(&n);
}

Test(fetcher, a_device_may_go_while_another_waits_for_the_same_block)
{
	struct node_config cfg = plain;
	struct later l;
	struct bulk b;
	struct node n;

	cfg.threads = 1;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	bulk_start(&b, &n, 0, 20, SOURCE_COLD);
	fault_wait_held(n.fault[0][0], 1);
	later_start(&l, &n, 1, 19 * SPAN, 100);
	__atomic_store_n(&b.cancel, true, __ATOMIC_RELAXED);
	cr_expect_eq(bulk_wait(&b), -ECANCELED);
	fault_release(n.fault[0][0]);
	device_free(n.dev[0]);
	n.dev[0] = NULL;
	cr_expect_eq(later_wait(&l), 0, "%s", l.err.msg);
	later_fini(&l, &n);
	node_remove(&n);
}

static void *release_when_closing(void *arg)
{
	struct node *n = arg;
	struct fetcher *f = n->fetcher;
	bool is_closing = false;

	while (!is_closing) {
		unit_pause();
		for (unsigned int i = 0; i < f->n_threads; i++)
			is_closing |= atomic_load(&f->threads[i].transfer.stop);
	}
	fault_release(n->fault[0][0]);
	return NULL;
}

Test(fetcher, a_device_that_goes_does_not_wait_for_a_whole_window)
{
	struct node_config cfg = plain;
	struct cache_stats st;
	struct block second;
	struct node n;
	pthread_t t;

	cfg.window = cfg.window_max;
	node_make(&n, &cfg);
	blockmap_block(&n.img.map, 1, &second);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .held = true,
					.hold_at = second.poff + 5000 });
	expect_read(&n, 0, 0, 100);
	fault_wait_held(n.fault[0][0], 1);
	cr_assert_eq(pthread_create(&t, NULL, release_when_closing, &n), 0);
	device_free(n.dev[0]);
	n.dev[0] = NULL;
	(void)pthread_join(t, NULL);
	cache_get_stats(n.cache, &st);
	cr_expect_eq(st.blocks, 2);
	node_remove(&n);
}

Test(fetcher, a_device_that_goes_does_not_wait_for_its_registry)
{
	static const struct fault_plan dead = { .held = true,
						.heeds_pace = true };
	struct node_config cfg = plain;
	struct later own, other;
	struct node n;

	cfg.threads = 8;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &dead);
	later_start(&own, &n, 0, 0, 100);
	fault_wait_held(n.fault[0][0], 1);
	/* Waits for the same transfer, but has a registry that answers. */
	later_start(&other, &n, 1, 100, 100);
	device_free(n.dev[0]);
	n.dev[0] = NULL;
	cr_expect_eq(later_wait(&own), -EIO);
	cr_expect(strstr(own.err.msg, "unmounted"), "%s", own.err.msg);
	cr_expect_eq(later_wait(&other), 0, "%s", other.err.msg);
	later_fini(&own, &n);
	later_fini(&other, &n);
	node_remove(&n);
}

Test(fetcher, a_dead_registry_does_not_take_all_threads)
{
	struct node_config cfg = plain;
	struct later dead[6];
	struct node n;

	cfg.window = SPAN;
	cfg.n_blocks = 60;
	cfg.per_pack = 40;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	/* Far enough from each other to be no sequential reader. */
	for (size_t i = 0; i < ARRAY_SIZE(dead); i++)
		later_start(&dead[i], &n, 0, 7 * i * SPAN, 100);
	/* Half of the four threads. */
	fault_wait_held(n.fault[0][0], 2);
	expect_read(&n, 1, 50 * SPAN, 2 * SPAN);
	cr_expect_eq(fault_reads(n.fault[0][0]), 2);
	fault_release(n.fault[0][0]);
	for (size_t i = 0; i < ARRAY_SIZE(dead); i++) {
		cr_expect_eq(later_wait(&dead[i]), 0, "%s", dead[i].err.msg);
		later_fini(&dead[i], &n);
	}
	node_remove(&n);
}

Test(fetcher, bulk_that_hangs_leaves_its_places_to_other_bulk)
{
	struct node_config cfg = plain;
	struct bulk dead, other;
	struct node n;

	cfg.window = cfg.window_max = SPAN;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .held = true, .heeds_pace = true });
	bulk_start(&dead, &n, 0, 20, SOURCE_HOT);
	/* All places that bulk has. */
	fault_wait_held(n.fault[0][0], 3);
	bulk_start_on(&other, &n, 1, 20, 20, SOURCE_COLD);
	cr_expect_eq(bulk_wait(&other), 0, "%s", other.err.msg);
	fault_wait_held(n.fault[0][0], 1);
	/* Its registry answers again, and nothing is lost. */
	fault_release(n.fault[0][0]);
	cr_expect_eq(bulk_wait(&dead), 0, "%s", dead.err.msg);
	cr_expect_eq(device_count_held(n.dev[0]), 40);
	node_remove(&n);
}

/* The transfer that was begun at this priority. */
static struct transfer *find_transfer(struct fetcher *f,
				      enum source_priority priority)
{
	struct transfer *found = NULL;

	(void)pthread_mutex_lock(&f->lock);
	for (unsigned int i = 0; i < f->n_threads; i++)
		if (f->threads[i].transfer.dev &&
		    f->threads[i].transfer.priority == priority)
			found = &f->threads[i].transfer;
	(void)pthread_mutex_unlock(&f->lock);
	cr_assert_not_null(found);
	return found;
}

Test(fetcher, bulk_gives_way_while_bytes_for_a_reader_come)
{
	struct node_config cfg = plain;
	struct transfer *bulk, *demand;
	struct later l;
	struct bulk b;
	struct node n;

	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	fault_set(n.fault[0][1], &(struct fault_plan){ .held = true });
	bulk_start(&b, &n, 0, 20, SOURCE_COLD);
	fault_wait_held(n.fault[0][0], 1);
	later_start(&l, &n, 0, 30 * SPAN, 100);
	fault_wait_held(n.fault[0][1], 1);
	bulk = find_transfer(n.fetcher, SOURCE_COLD);
	demand = find_transfer(n.fetcher, SOURCE_DEMAND);
	cr_expect(demand->pace.is_urgent && !bulk->pace.is_urgent);
	cr_expect_eq(bulk->pace.level(&bulk->pace), PACE_GO,
		     "the answer is not coming yet");
	demand->pace.moves(&demand->pace);
	cr_expect_eq(bulk->pace.level(&bulk->pace), PACE_WAIT);
	cr_expect_eq(demand->pace.level(&demand->pace), PACE_GO);
	fault_release(n.fault[0][1]);
	cr_expect_eq(later_wait(&l), 0);
	later_fini(&l, &n);
	bulk->pace.wait(&bulk->pace);
	cr_expect_eq(bulk->pace.level(&bulk->pace), PACE_GO);
	fault_release(n.fault[0][0]);
	cr_expect_eq(bulk_wait(&b), 0, "%s", b.err.msg);
	node_remove(&n);
}

Test(fetcher, who_reads_on_in_a_window_is_waited_for_again)
{
	struct node_config cfg = plain;
	struct transfer *t;
	struct block second;
	struct later l;
	struct node n;

	node_make(&n, &cfg);
	blockmap_block(&n.img.map, 1, &second);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .held = true,
					.hold_at = second.poff + 5000 });
	expect_read(&n, 0, 0, 100);
	fault_wait_held(n.fault[0][0], 1);
	t = find_transfer(n.fetcher, SOURCE_DEMAND);
	cr_expect_not(atomic_load(&t->is_awaited));
	later_start(&l, &n, 0, SPAN, 100);
	cr_expect(atomic_load(&t->is_awaited), "bulk gives way to it again");
	fault_release(n.fault[0][0]);
	cr_expect_eq(later_wait(&l), 0, "%s", l.err.msg);
	later_fini(&l, &n);
	node_remove(&n);
}

Test(fetcher, who_comes_while_a_block_is_written_gets_it_at_once)
{
	struct node_config cfg = plain;
	struct later waiting, comes;
	struct flight *fl;
	struct block first;
	struct node n;

	node_make(&n, &cfg);
	blockmap_block(&n.img.map, 0, &first);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	later_start(&waiting, &n, 0, 0, 100);
	fault_wait_held(n.fault[0][0], 1);
	/* As while cache_put() runs. */
	(void)pthread_mutex_lock(&n.fetcher->lock);
	fl = flight_find(n.fetcher, &first);
	cr_assert_not_null(fl);
	fl->data = image_plain(&n.img, 0);
	(void)pthread_mutex_unlock(&n.fetcher->lock);
	later_start(&comes, &n, 1, 50, 3000);
	cr_expect_eq(comes.n_done, 1, "on this thread");
	later_fini(&comes, &n);
	/* It waits for the second block only. */
	later_start(&comes, &n, 1, 50, SPAN);
	cr_expect_eq(comes.n_done, 0);
	(void)pthread_mutex_lock(&n.fetcher->lock);
	flight_end_early(n.fetcher, fl);
	(void)pthread_mutex_unlock(&n.fetcher->lock);
	fault_release(n.fault[0][0]);
	cr_expect_eq(later_wait(&comes), 0, "%s", comes.err.msg);
	cr_expect_eq(later_wait(&waiting), 0, "%s", waiting.err.msg);
	later_fini(&comes, &n);
	later_fini(&waiting, &n);
	node_remove(&n);
}

Test(fetcher, a_dead_registry_does_not_take_all_of_bulk)
{
	struct node_config cfg = plain;
	struct bulk dead, alive;
	struct node n;

	cfg.threads = 8;
	cfg.window = cfg.window_max = SPAN;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	bulk_start(&dead, &n, 0, 20, SOURCE_HOT);
	fault_wait_held(n.fault[0][0], 5);
	bulk_start_on(&alive, &n, 1, 20, 20, SOURCE_COLD);
	cr_expect_eq(bulk_wait(&alive), 0, "%s", alive.err.msg);
	cr_expect_eq(fault_reads(n.fault[0][0]), 5);
	fault_release(n.fault[0][0]);
	cr_expect_eq(bulk_wait(&dead), 0, "%s", dead.err.msg);
	node_remove(&n);
}

/* A transfer that began `ms` ago brings a block: what its device may have at once. */
static unsigned int width_after(struct device *d, int64_t ms, int64_t waited_ms,
				uint32_t bytes)
{
	struct transfer t = { .dev = d,
			      .priority = SOURCE_HOT,
			      .waited_ns = waited_ms * NS_PER_MS };

	test_clock_hold();
	t.first_ns = clock_now_ns() - ms * NS_PER_MS;
	pace_brought(&t, bytes);
	cr_expect_eq(t.is_judged, ms - waited_ms >= 1000);
	return atomic_load(&d->width);
}

Test(fetcher, a_list_has_more_requests_at_once_where_blocks_come_fast)
{
	struct device d = { .n_bulk = 2, .width = 2 };

	cr_expect_eq(width_after(&d, 100, 0, 100000), 3);
	cr_expect_eq(width_after(&d, 100, 0, 100000), 3, "as many as are used");
	d.n_bulk = 8;
	for (unsigned int n = 4; n < 10; n++)
		cr_expect_eq(width_after(&d, 0, 0, 100), n);
	d.n_bulk = 9;
	cr_expect_eq(width_after(&d, 900, 0, 100000), 9, "not that fast");
	cr_expect_eq(width_after(&d, 1100, 0, 100000), 10);
	cr_expect_eq(width_after(&d, 1100, 0, 100000), 10, "once a second");
}

Test(fetcher, and_fewer_where_they_come_slowly)
{
	struct device d = { .n_bulk = 8, .width = 9 };

	cr_expect_eq(width_after(&d, 900, 0, 1000), 9, "too early to tell");
	cr_expect_eq(width_after(&d, 9000, 8500, 1000), 9, "it gave way");
	cr_expect_not(atomic_load(&d.is_slow));
	cr_expect_eq(width_after(&d, 9000, 0, 100000), 4, "half of the eight");
	cr_expect_eq(width_after(&d, 9000, 0, 100000), 4,
		     "which takes a while");
	cr_expect(atomic_load(&d.is_slow));
	for (unsigned int n = 2; n > 0; n--) {
		d.narrow_ns = 0;
		cr_expect_eq(width_after(&d, 9000, 0, 100000), n);
	}
	d.narrow_ns = 0;
	cr_expect_eq(width_after(&d, 9000, 0, 100000), 1, "but one");
	(void)width_after(&d, 1100, 0, 1000000);
	cr_expect_not(atomic_load(&d.is_slow));
	atomic_store(&d.is_slow, true);
	(void)width_after(&d, 100, 0, 200000);
	cr_expect(atomic_load(&d.is_slow), "it may be a burst");
	/* Short as it is then, it ends before it can be judged. */
	(void)width_after(&d, 100, 0, 300000);
	cr_expect_not(atomic_load(&d.is_slow));
}

Test(fetcher, what_a_request_brings_is_known_once_it_brought_enough)
{
	struct device d = { .n_bulk = 8, .width = 8 };

	cr_expect_eq(pace_bytes(&d, NS_PER_S), UINT64_MAX);
	(void)width_after(&d, 1, 0, 400000);
	cr_expect_eq(pace_bytes(&d, NS_PER_S), UINT64_MAX, "of a buffer");
	(void)width_after(&d, 700, 500, 600000);
	cr_expect_eq(pace_bytes(&d, 100 * NS_PER_MS), 300000, "it gave way");
	(void)width_after(&d, 100, 0, 700000);
	cr_expect_eq(pace_bytes(&d, 100 * NS_PER_MS), 400000, "slowly");
}

Test(fetcher, a_list_begins_narrow)
{
	struct node_config cfg = plain;
	struct bulk b;
	struct node n;

	cfg.width = 2;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	bulk_start(&b, &n, 0, 20, SOURCE_HOT);
	fault_wait_held(n.fault[0][0], 2);
	/* Somebody else's, behind which a third would have begun. */
	expect_read(&n, 0, 30 * SPAN, SPAN);
	cr_expect_eq(fault_reads(n.fault[0][0]), 2);
	fault_release(n.fault[0][0]);
	cr_expect_eq(bulk_wait(&b), 0, "%s", b.err.msg);
	node_remove(&n);
}

Test(fetcher, bulk_is_not_cut_for_who_may_not_begin)
{
	struct node_config cfg = plain;
	struct later dead[3];
	struct bulk b;
	struct node n;

	cfg.window = SPAN;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	for (size_t i = 0; i < ARRAY_SIZE(dead); i++)
		later_start(&dead[i], &n, 0, 7 * i * SPAN, 100);
	fault_wait_held(n.fault[0][0], 2);
	/* The two threads that are left. */
	fault_set(n.fault[1][1], &(struct fault_plan){ .held = true });
	bulk_start_on(&b, &n, 1, 20, 20, SOURCE_COLD);
	fault_wait_held(n.fault[1][1], 2);
	fault_release(n.fault[1][1]);
	cr_expect_eq(bulk_wait(&b), 0, "%s", b.err.msg);
	cr_expect_leq(fault_reads(n.fault[1][1]), 4, "%zu",
		      fault_reads(n.fault[1][1]));
	fault_release(n.fault[0][0]);
	for (size_t i = 0; i < ARRAY_SIZE(dead); i++) {
		cr_expect_eq(later_wait(&dead[i]), 0, "%s", dead[i].err.msg);
		later_fini(&dead[i], &n);
	}
	node_remove(&n);
}

#define N_THREADS 6

struct stir {
	struct node *n;
	uint32_t x;
	pthread_t thread;
};

static uint32_t next(struct stir *s)
{
	s->x = s->x * 1664525u + 1013904223u;
	return s->x >> 8;
}

static void *stir_main(void *arg)
{
	struct stir *s = arg;
	struct node *n = s->n;

	for (int round = 0; round < 150; round++) {
		struct error err = ERROR_INIT;
		size_t i = next(s) % 60;
		int dev = next(s) % 2, rc;
		uint64_t freed;

		switch (next(s) % 16) {
		case 0:
			rc = fetch_blocks(n, dev, i, 60 - i,
					  i % 2 ? SOURCE_HOT : SOURCE_COLD,
					  NULL, &err);
			break;
		case 1:
			rc = cache_gc(n->cache, 5 * SPAN, &freed, &err);
			break;
		case 2:
			fault_set(n->fault[dev][i / 20],
				  &(struct fault_plan){
					  .n_fail = 2,
					  .fail_rc = -EIO,
					  .fail_after = next(s) % 100000,
					  .n_wrong = 1,
					  .wrong_at = next(s) % 100000 });
			rc = 0;
			break;
		default:
			rc = try_read(n, dev, i * SPAN + next(s) % SPAN,
				      1 + next(s) % (3 * SPAN / 2 - 1), &err);
			if (rc == -EIO && i >= 58)
				rc = 0; /* past the end */
		}
		cr_assert(rc == 0 || rc == -EIO || rc == -EBADMSG ||
				  rc == -ENOSPC || rc == -ETIMEDOUT,
			  "%d %s", rc, err.msg);
	}
	return NULL;
}

Test(fetcher, many_at_once_read_right_bytes_or_an_error)
{
	struct node_config cfg = { .n_blocks = 60,
				   .per_pack = 20,
				   .usize = SPAN,
				   .window = 80000,
				   .window_max = 400000,
				   .threads = 4,
				   .quota = 30 * SPAN };
	struct stir s[N_THREADS];
	struct node n;

	node_make(&n, &cfg);
	for (unsigned int i = 0; i < N_THREADS; i++) {
		s[i] = (struct stir){ .n = &n, .x = i };
		cr_assert_eq(pthread_create(&s[i].thread, NULL, stir_main,
					    &s[i]),
			     0);
	}
	for (unsigned int i = 0; i < N_THREADS; i++)
		(void)pthread_join(s[i].thread, NULL);
	for (int d = 0; d < 2; d++)
		for (int p = 0; p < 3; p++)
			fault_set(n.fault[d][p], &(struct fault_plan){ 0 });
	for (int d = 0; d < 2; d++)
		expect_read(&n, d, 0, 60 * SPAN);
	node_remove(&n);
}

/* A source may unpack what it brings sooner than it is taken. */
Test(fetcher, a_range_is_bounded_by_what_it_unpacks_to)
{
	struct node_config cfg = { .n_blocks = 40,
				   .per_pack = 40,
				   .usize = MIB,
				   .window = MIB,
				   .window_max = MIB,
				   .hollow = true };
	struct block first, ninth;
	struct bulk b;
	struct node n;

	node_make(&n, &cfg);
	blockmap_block(&n.img.map, 0, &first);
	blockmap_block(&n.img.map, 8, &ninth);
	expect_read(&n, 0, 0, 1);
	cr_expect_eq(n.fault[0][0]->log[0].len, ninth.poff - first.poff);
	node_remove(&n);
	node_make(&n, &cfg);
	bulk_start(&b, &n, 0, 40, SOURCE_HOT);
	cr_expect_eq(bulk_wait(&b), 0, "%s", b.err.msg);
	cr_expect_eq(count_reads(&n, 0), 5);
	node_remove(&n);
}
