// SPDX-License-Identifier: Apache-2.0
/* Fetching scattered blocks with few requests, and watching readers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "blockstore/fetcher.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "tests/unit/blockstore/node.h"
#include "tests/unit/pause.h"

TestSuite(device_list, .timeout = 120);

#define SPAN 32768u
#define LONG_LIST 262144u

static const struct node_config plain = { .n_blocks = 60,
					  .per_pack = 40,
					  .usize = SPAN,
					  .threads = 8,
					  .window = 100000,
					  .window_max = 40 * SPAN };

/* What the callbacks of a list saw. */
struct seen {
	uint32_t blocks[LONG_LIST];
	uint32_t cost[LONG_LIST];
	atomic_size_t n;
	uint64_t asked[64]; /* bytes, at each call of pause */
	size_t n_asked;
	int64_t pause_ns; /* the answer to each first call */
};

static void on_have(void *arg, uint32_t block, uint32_t cost)
{
	struct seen *s = arg;
	size_t i = atomic_fetch_add(&s->n, 1);

	cr_assert_lt(i, LONG_LIST);
	s->blocks[i] = block;
	s->cost[i] = cost;
}

/* Every request has to wait once. */
static int64_t on_pause(void *arg, uint64_t bytes)
{
	struct seen *s = arg;

	cr_assert_lt(s->n_asked, ARRAY_SIZE(s->asked));
	s->asked[s->n_asked] = bytes;
	return s->n_asked++ % 2 ? 0 : s->pause_ns;
}

static struct seen *seen_new(void)
{
	struct seen *s = calloc(1, sizeof(*s));

	cr_assert(s);
	return s;
}

static uint64_t stored(const struct node *n, size_t i)
{
	struct block b;

	blockmap_block(&n->img.map, i, &b);
	return b.csize;
}

static uint64_t place(const struct node *n, size_t i)
{
	struct block b;

	blockmap_block(&n->img.map, i, &b);
	return b.poff;
}

static bool is_there(const struct node *n, size_t i)
{
	struct block b;

	blockmap_block(&n->img.map, i, &b);
	return cache_has(n->cache, &b.digest);
}

static void expect_list(struct node *n, const struct device_list *list)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(device_fetch_list(n->dev[0], list, &err), 0, "%s",
		     err.msg);
	for (size_t i = 0; i < list->n; i++)
		cr_assert(is_there(n, list->blocks[i]), "block %u",
			  list->blocks[i]);
}

Test(device_list, neighbours_ride_along_wherever_they_are_in_the_list)
{
	static const uint32_t blocks[] = { 12, 30, 0, 31, 11, 13, 50, 10 };
	struct device_list list = { .blocks = blocks,
				    .n = ARRAY_SIZE(blocks),
				    .priority = SOURCE_HOT,
				    .streams = 1 };
	struct fault_source *f;
	struct node n;

	node_make(&n, &plain);
	f = n.fault[0][0];
	expect_list(&n, &list);
	cr_assert_eq(f->n_reads, 3);
	cr_expect_eq(f->log[0].off, place(&n, 10));
	cr_expect_eq(f->log[0].len, place(&n, 14) - place(&n, 10));
	cr_expect_eq(f->log[1].off, place(&n, 30));
	cr_expect_eq(f->log[1].len, place(&n, 32) - place(&n, 30));
	cr_expect_eq(f->log[2].off, place(&n, 0));
	cr_expect_eq(f->log[2].priority, SOURCE_HOT);
	cr_expect_eq(n.fault[0][1]->n_reads, 1);
	cr_expect_not(is_there(&n, 9));
	cr_expect_not(is_there(&n, 14));
	node_remove(&n);
}

Test(device_list, a_gap_is_fetched_too_when_it_saves_a_request)
{
	static const uint32_t blocks[] = { 4, 6, 9, 20, 18 };
	struct seen *seen = seen_new();
	struct device_list list = { .blocks = blocks,
				    .n = ARRAY_SIZE(blocks),
				    .priority = SOURCE_HOT,
				    .streams = 1,
				    .gap = SPAN,
				    .have = on_have,
				    .arg = seen };
	struct fault_source *f;
	struct node n;

	node_make(&n, &plain);
	f = n.fault[0][0];
	/* What is there must not come again: no bridge over it. */
	cr_assert_eq(fetch_blocks(&n, 0, 19, 1, SOURCE_HOT, NULL, NULL), 0);
	expect_list(&n, &list);
	/* 7 and 8 are more than the gap; 5 lies in it. */
	cr_assert_eq(f->n_reads, 1 + 4);
	cr_expect_eq(f->log[1].off, place(&n, 4));
	cr_expect_eq(f->log[1].len, place(&n, 7) - place(&n, 4));
	cr_expect(is_there(&n, 5));
	cr_expect_not(is_there(&n, 7));
	cr_expect_not(is_there(&n, 10));
	/* What came along is told too, so that its cost is known. */
	cr_assert_eq(seen->n, 6, "%zu", (size_t)seen->n);
	for (size_t i = 0; i < 6; i++)
		cr_expect_eq(seen->cost[i], stored(&n, seen->blocks[i]));
	node_remove(&n);
	free(seen);
}

Test(device_list, ranges_have_a_bound)
{
	uint32_t blocks[40];
	struct device_list list = { .blocks = blocks,
				    .n = 40,
				    .priority = SOURCE_COLD,
				    .streams = 2,
				    .range_max = 5 * SPAN };
	struct fault_source *f;
	struct node n;

	for (uint32_t i = 0; i < 40; i++)
		blocks[i] = 39 - i;
	node_make(&n, &plain);
	f = n.fault[0][0];
	expect_list(&n, &list);
	for (size_t i = 0; i < f->n_reads; i++)
		cr_expect_leq(f->log[i].len, 5 * SPAN);
	cr_expect_geq(f->n_reads, 4);
	cr_expect_eq(f->n_bytes, n.img.pack_size[0], "nothing twice");
	node_remove(&n);
}

/* A list of one pack, whose ranges may grow, where a request brings so many bytes a second;
 * 0: that is not known. */
static struct fault_source *fetch_growing(struct node *n, uint64_t rate)
{
	uint32_t blocks[40];
	struct device_list list = { .blocks = blocks,
				    .n = 40,
				    .priority = SOURCE_HOT,
				    .streams = 1,
				    .range_max = 4 * SPAN,
				    .range_grown = 6 * SPAN };

	for (uint32_t i = 0; i < 40; i++)
		blocks[i] = i;
	node_make(n, &plain);
	atomic_store(&n->dev[0]->rate, rate);
	expect_list(n, &list);
	return n->fault[0][0];
}

/* What comes first is wanted soon; then there is time, and requests are saved. */
Test(device_list, ranges_grow_with_what_was_asked_for)
{
	struct fault_source *f;
	uint64_t asked = 0;
	struct node n;

	f = fetch_growing(&n, 0);
	for (size_t i = 0; i < f->n_reads; i++) {
		uint64_t max = 4 * SPAN + asked / 8;

		cr_expect_leq(f->log[i].len, max < 6 * SPAN ? max : 6 * SPAN);
		asked += f->log[i].len;
	}
	cr_assert_gt(f->n_reads, 1);
	cr_expect_gt(f->log[f->n_reads - 2].len, 5 * SPAN);
	cr_expect_eq(f->n_bytes, n.img.pack_size[0], "nothing twice");
	node_remove(&n);
}

/* A reader who waits for the end of one would have it cut, and bytes come twice. */
Test(device_list, ranges_grow_no_longer_than_comes_soon)
{
	struct fault_source *f;
	struct node n;

	f = fetch_growing(&n, 8 * SPAN);
	for (size_t i = 0; i < f->n_reads; i++)
		cr_expect_leq(f->log[i].len, 4 * SPAN);
	node_remove(&n);
}

Test(device_list, who_comes_much_later_does_not_ride_along)
{
	struct node_config cfg = { .n_blocks = 4500,
				   .per_pack = 4500,
				   .usize = 4096,
				   .window = 4096,
				   .window_max = 1 << 20 };
	uint32_t blocks[4500] = { 0 };
	struct device_list list = { .blocks = blocks,
				    .n = 4500,
				    .priority = SOURCE_HOT,
				    .streams = 1 };
	struct node n;

	for (uint32_t i = 1; i < 4500; i++)
		blocks[i] = 4500 - i;
	node_make(&n, &cfg);
	expect_list(&n, &list);
	cr_expect_eq(n.fault[0][0]->log[0].off, 0);
	cr_expect_lt(n.fault[0][0]->log[0].len, 500 * 4096);
	cr_expect_eq(n.fault[0][0]->n_bytes, n.img.pack_size[0]);
	node_remove(&n);
}

struct listed {
	struct node *n;
	struct device_list list;
	volatile bool cancel;
	struct error err;
	int rc;
	pthread_t thread;
};

static void *listed_main(void *arg)
{
	struct listed *l = arg;

	l->rc = device_fetch_list(l->n->dev[0], &l->list, &l->err);
	return NULL;
}

static void listed_start(struct listed *l, struct node *n)
{
	l->n = n;
	l->list.cancel = &l->cancel;
	l->rc = 1;
	cr_assert_eq(pthread_create(&l->thread, NULL, listed_main, l), 0);
}

static int listed_wait(struct listed *l)
{
	(void)pthread_join(l->thread, NULL);
	return l->rc;
}

Test(device_list, so_many_requests_as_wanted_are_under_way)
{
	static const uint32_t blocks[] = { 0, 5, 10, 15, 20, 25, 30, 35 };
	struct listed l = { .list = { .blocks = blocks,
				      .n = ARRAY_SIZE(blocks),
				      .priority = SOURCE_HOT,
				      .streams = 3 } };
	struct fault_source *f;
	struct node n;

	node_make(&n, &plain);
	f = n.fault[0][0];
	fault_set(f, &(struct fault_plan){ .held = true });
	listed_start(&l, &n);
	fault_wait_held(f, 3);
	/* Somebody else's, behind which a fourth would have begun. */
	expect_read(&n, 0, 50 * SPAN, SPAN);
	cr_expect_eq(fault_reads(f), 3);
	fault_release(f);
	cr_expect_eq(listed_wait(&l), 0, "%s", l.err.msg);
	cr_expect_eq(f->n_reads, 8);
	node_remove(&n);
}

Test(device_list, a_reader_and_a_list_share_a_transfer)
{
	static const uint32_t blocks[] = { 0, 1, 2, 3 };
	struct seen *seen = seen_new();
	struct listed l = { .list = { .blocks = blocks,
				      .n = ARRAY_SIZE(blocks),
				      .priority = SOURCE_COLD,
				      .streams = 2,
				      .have = on_have,
				      .arg = seen } };
	struct fault_source *f;
	struct later r;
	struct node n;

	node_make(&n, &plain);
	f = n.fault[0][0];
	fault_set(f, &(struct fault_plan){ .held = true });
	later_start(&r, &n, 0, 0, SPAN);
	fault_wait_held(f, 1);
	listed_start(&l, &n);
	fault_release(f);
	cr_expect_eq(listed_wait(&l), 0, "%s", l.err.msg);
	later_fini(&r, &n);
	expect_read(&n, 0, 0, 4 * SPAN);
	for (size_t i = 0; i < seen->n; i++)
		if (seen->blocks[i] == 0)
			cr_expect_eq(seen->cost[i], 0);
	cr_expect_eq(seen->n, 4);
	for (size_t i = 1; i < f->n_reads; i++)
		cr_expect_geq(f->log[i].off,
			      f->log[i - 1].off + f->log[i - 1].len);
	node_remove(&n);
	free(seen);
}

Test(device_list, a_cancel_ends_it_and_what_nobody_wants)
{
	static const uint32_t blocks[] = { 0, 5, 10, 15, 20, 25, 30, 35 };
	struct listed l = { .list = { .blocks = blocks,
				      .n = ARRAY_SIZE(blocks),
				      .priority = SOURCE_HOT,
				      .streams = 8 } };
	struct fault_source *f;
	struct node n;

	node_make(&n, &plain);
	f = n.fault[0][0];
	fault_set(f, &(struct fault_plan){ .held = true });
	listed_start(&l, &n);
	/* A quarter of the eight threads is for readers, one of the rest for the
	 * bulk of others. */
	fault_wait_held(f, 5);
	__atomic_store_n(&l.cancel, true, __ATOMIC_RELAXED);
	cr_expect_eq(listed_wait(&l), -ECANCELED);
	fault_release(f);
	expect_read(&n, 0, 50 * SPAN, SPAN);
	cr_expect_eq(fault_reads(f), 5, "three were still queued");
	node_remove(&n);
}

Test(device_list, each_request_waits_for_its_permission)
{
	static const uint32_t blocks[] = { 0, 1, 10, 20 };
	struct seen *seen = seen_new();
	struct device_list list = { .blocks = blocks,
				    .n = ARRAY_SIZE(blocks),
				    .priority = SOURCE_HOT,
				    .streams = 4,
				    .pause = on_pause,
				    .arg = seen };
	struct node n;
	int64_t start;

	node_make(&n, &plain);
	seen->pause_ns = 30000000;
	start = clock_now_ns();
	expect_list(&n, &list);
	cr_expect_geq(clock_now_ns() - start, 3 * seen->pause_ns);
	cr_assert_eq(seen->n_asked, 6);
	cr_expect_eq(seen->asked[0], stored(&n, 0) + stored(&n, 1));
	cr_expect_eq(seen->asked[5], stored(&n, 20));
	node_remove(&n);
	free(seen);
}

Test(device_list, a_cancel_is_seen_during_a_pause)
{
	static const uint32_t blocks[] = { 0 };
	struct seen *seen = seen_new();
	struct listed l = { .list = { .blocks = blocks,
				      .n = 1,
				      .priority = SOURCE_HOT,
				      .streams = 1,
				      .pause = on_pause,
				      .arg = seen } };
	struct node n;

	node_make(&n, &plain);
	seen->pause_ns = INT64_C(3600000000000); /* nobody waits for its end */
	listed_start(&l, &n);
	__atomic_store_n(&l.cancel, true, __ATOMIC_RELAXED);
	cr_expect_eq(listed_wait(&l), -ECANCELED);
	cr_expect_eq(count_reads(&n, 0), 0);
	node_remove(&n);
	free(seen);
}

Test(device_list, every_entry_of_a_long_list_is_told_of_once)
{
	uint32_t *blocks = calloc(LONG_LIST, sizeof(*blocks));
	struct seen *seen = seen_new();
	struct device_list list = { .blocks = blocks,
				    .n = LONG_LIST,
				    .priority = SOURCE_COLD,
				    .streams = 6,
				    .have = on_have,
				    .arg = seen };
	uint32_t count[60] = { 0 };
	uint64_t cost = 0;
	struct node n;

	for (uint32_t i = 0; i < LONG_LIST; i++)
		blocks[i] = i * 7 % 60;
	node_make(&n, &plain);
	expect_list(&n, &list);
	cr_assert_eq(seen->n, LONG_LIST);
	for (uint32_t i = 0; i < LONG_LIST; i++) {
		count[seen->blocks[i]]++;
		cost += seen->cost[i];
	}
	for (uint32_t i = 0; i < 60; i++)
		cr_expect_geq(count[i], LONG_LIST / 60);
	cr_expect_eq(cost, n.img.pack_size[0] + n.img.pack_size[1]);
	/* And again, when all is there. */
	atomic_store(&seen->n, 0);
	expect_list(&n, &list);
	cr_expect_eq(seen->n, LONG_LIST);
	cr_expect_eq(seen->cost[0], 0);
	node_remove(&n);
	free(seen);
	free(blocks);
}

Test(device_list, damage_is_asked_for_again_and_then_told)
{
	static const uint32_t blocks[] = { 3, 4, 5, 6 };
	struct device_list list = { .blocks = blocks,
				    .n = ARRAY_SIZE(blocks),
				    .priority = SOURCE_HOT,
				    .streams = 2 };
	struct error err = ERROR_INIT;
	struct node n;

	node_make(&n, &plain);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .n_wrong = 1,
					.wrong_at = place(&n, 4) + 10 });
	expect_list(&n, &list);
	node_remove(&n);
	node_make(&n, &plain);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .n_wrong = 9,
					.wrong_at = place(&n, 4) + 10 });
	cr_expect_eq(device_fetch_list(n.dev[0], &list, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "image-0"), "%s", err.msg);
	cr_expect(is_there(&n, 3), "what came until then stays");
	node_remove(&n);
}

Test(device_list, refuses_what_it_cannot_do)
{
	static const uint32_t blocks[] = { 0, 60 };
	struct device_list list = {
		.blocks = blocks, .n = 2, .streams = 1, .priority = SOURCE_HOT
	};
	struct error err = ERROR_INIT;
	struct node n;

	node_make(&n, &plain);
	cr_expect_eq(device_fetch_list(n.dev[0], &list, &err), -EINVAL);
	cr_expect(strstr(err.msg, "block 60 of 60"), "%s", err.msg);
	list.n = 1;
	list.streams = 9;
	cr_expect_eq(device_fetch_list(n.dev[0], &list, &err), -EINVAL);
	list.n = 0;
	list.streams = 8;
	cr_expect_eq(device_fetch_list(n.dev[0], &list, &err), 0);
	node_remove(&n);
}

/* ------------------------------------------------------------- observers --- */

struct watcher {
	struct device_observer base;
	atomic_size_t reads, bytes, misses;
	atomic_size_t last_miss;
	atomic_bool gone; /* no call may come any more */
};

static void on_read(struct device_observer *o, uint64_t off, size_t len)
{
	struct watcher *w = container_of(o, struct watcher, base);

	(void)off;
	cr_assert_not(atomic_load(&w->gone));
	atomic_fetch_add(&w->reads, 1);
	atomic_fetch_add(&w->bytes, len);
}

static void on_miss(struct device_observer *o, size_t index)
{
	struct watcher *w = container_of(o, struct watcher, base);

	cr_assert_not(atomic_load(&w->gone));
	atomic_fetch_add(&w->misses, 1);
	atomic_store(&w->last_miss, index);
}

Test(device_list, observers_see_readers_and_nobody_else)
{
	struct watcher all = { .base = { .read = on_read, .miss = on_miss } };
	struct watcher reads = { .base = { .read = on_read } };
	struct error err = ERROR_INIT;
	struct device_stats st;
	struct node n;
	int64_t waited;

	node_make(&n, &plain);
	device_observe(n.dev[0], &all.base);
	device_observe(n.dev[0], &reads.base);
	cr_assert_eq(fetch_blocks(&n, 0, 0, 5, SOURCE_HOT, NULL, &err), 0);
	cr_expect_eq(all.reads, 0);
	expect_read(&n, 0, 0, 2 * SPAN);
	cr_expect_eq(all.reads, 1);
	cr_expect_eq(all.misses, 0);
	expect_read(&n, 0, 7 * SPAN + 5, 100);
	cr_expect_eq(all.bytes, 2 * SPAN + 100);
	cr_expect_eq(all.misses, 1);
	cr_expect_eq(all.last_miss, 7);
	device_get_stats(n.dev[0], &st);
	waited = st.waited_ns;
	cr_expect_gt(waited, 0);
	device_unobserve(n.dev[0], &all.base);
	expect_read(&n, 0, 0, 10);
	device_get_stats(n.dev[0], &st);
	cr_expect_eq(st.waited_ns, waited, "nothing was missed");
	cr_expect_eq(all.reads, 2);
	cr_expect_eq(reads.reads, 3);
	device_unobserve(n.dev[0], &reads.base);
	expect_read(&n, 0, 0, 10);
	cr_expect_eq(reads.reads, 3);
	node_remove(&n);
}

struct reader {
	struct node *n;
	atomic_bool *stop;
	pthread_t thread;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;

	for (uint64_t i = 0; !atomic_load(r->stop); i++)
		expect_read(r->n, 0, i % 59 * SPAN, 2 * SPAN);
	return NULL;
}

Test(device_list, an_observer_may_leave_while_others_read)
{
	struct watcher w = { .base = { .read = on_read, .miss = on_miss } };
	struct reader readers[4];
	atomic_bool stop = false;
	struct node n;

	node_make(&n, &plain);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		readers[i] = (struct reader){ .n = &n, .stop = &stop };
		cr_assert_eq(pthread_create(&readers[i].thread, NULL,
					    reader_main, &readers[i]),
			     0);
	}
	for (int round = 0; round < 200; round++) {
		size_t before = atomic_load(&w.reads);

		atomic_store(&w.gone, false);
		device_observe(n.dev[0], &w.base);
		while (atomic_load(&w.reads) == before)
			unit_pause();
		device_unobserve(n.dev[0], &w.base);
		atomic_store(&w.gone, true);
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		(void)pthread_join(readers[i].thread, NULL);
	node_remove(&n);
}
