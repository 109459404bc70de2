// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "prefetcher/prefetch.h"
#include "tests/unit/blockstore/node.h"

TestSuite(prefetch, .timeout = 120);

#define SPAN 32768u /* bytes of a block in these tests */

static const struct node_config plain = { .n_blocks = 40,
					  .per_pack = 20,
					  .usize = SPAN,
					  .window = 0,
					  .window_max = 100000 };
static const struct wait_policy all_of_it = { .kind = WAIT_ALL };

/* One prefetch over each device of the node. */
struct bed {
	struct node n;
	struct prefetcher *all;
	struct prefetch *p[NODE_DEVICES];
	atomic_bool pressure;
	atomic_uint_fast64_t room;
	atomic_llong idle_ns;
	atomic_uint n_done, n_failed;
	atomic_uint n_given_up; /* of n_failed, those that are no mere pause */
};

static bool pressure(void *arg, struct error *why)
{
	struct bed *b = arg;

	if (!atomic_load(&b->pressure))
		return false;
	(void)error_set(why, ENOSPC, "the disk is full on purpose");
	return true;
}

static uint64_t room(void *arg)
{
	return atomic_load(&((struct bed *)arg)->room);
}

static int64_t idle(void *arg)
{
	return atomic_load(&((struct bed *)arg)->idle_ns);
}

static void on_done(void *arg)
{
	atomic_fetch_add(&((struct bed *)arg)->n_done, 1);
}

static void on_failed(void *arg, const struct error *why, int64_t retry_ns)
{
	struct bed *b = arg;

	cr_expect(strstr(why->msg, "fault on purpose"), "%s", why->msg);
	cr_expect_leq(retry_ns, 4500 * NS_PER_S);
	atomic_fetch_add(&b->n_failed, 1);
	if (prefetch_get_phase(b->p[0]) == PREFETCH_FAILED)
		atomic_fetch_add(&b->n_given_up, 1);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void bed_make(struct bed *b, const struct prefetch_limits *limits)
{
	struct prefetcher_config cfg = {
		.limits = { .hot_streams = 2,
			    .cold_streams = 2,
			    .hot_range = 100000,
			    .cold_range = 200000,
			    .retry_ns = NS_PER_MS,
			    .settle_max_ns = INT64_MAX },
		.pressure = pressure,
		.room = room,
		.idle_ns = idle,
		.arg = b,
	};
	struct error err = ERROR_INIT;

	memset(b, 0, sizeof(*b));
	atomic_init(&b->room, UINT64_MAX);
	node_make(&b->n, &plain);
	if (limits)
		cfg.limits = *limits;
	cr_assert_eq(prefetcher_new(&cfg, &b->all, &err), 0, "%s", err.msg);
	for (int i = 0; i < NODE_DEVICES; i++) {
		struct prefetch_config one = { .dev = b->n.dev[i],
					       .map = &b->n.img.map,
					       .label = i ? "b" : "a",
					       .done = on_done,
					       .failed = on_failed,
					       .arg = b };

		cr_assert_eq(prefetch_new(b->all, &one, &b->p[i], &err), 0);
	}
}

static void bed_remove(struct bed *b)
{
	for (int i = 0; i < NODE_DEVICES; i++)
		prefetch_free(b->p[i]);
	prefetcher_free(b->all);
	node_remove(&b->n);
}

/* Blocks `first`, first + step and so on. */
static struct hot_list hot_list(uint32_t first, uint32_t step, size_t n)
{
	struct hot_list l = { .blocks = calloc(n, sizeof(*l.blocks)), .n = n };

	cr_assert(l.blocks);
	for (size_t i = 0; i < n; i++)
		l.blocks[i].index = first + (uint32_t)i * step;
	return l;
}

static void start(struct bed *b, int which, struct hot_list hot, bool rest)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(prefetch_start(b->p[which], hot.n ? &hot : NULL,
				    rest ? PREFETCH_REST_IDLE
					 : PREFETCH_REST_NONE,
				    &err),
		     0, "%s", err.msg);
	cr_expect_null(hot.n ? hot.blocks : NULL);
}

static void wait_phase(struct bed *b, int which, enum prefetch_phase want)
{
	int64_t end = now_ns() + 30 * NS_PER_S;
	enum prefetch_phase is;

	do {
		/* Returns at once where nothing is to come. */
		prefetch_wait_end(b->p[which], now_ns() + 5 * NS_PER_MS);
		is = prefetch_get_phase(b->p[which]);
	} while (is != want && now_ns() < end);
	cr_assert_eq(is, want, "%s, not %s", prefetch_phase_name(is),
		     prefetch_phase_name(want));
}

/* Until `n` blocks of the hot set are here. */
static void wait_hot(struct bed *b, int which, size_t n)
{
	int64_t end = now_ns() + 30 * NS_PER_S;
	struct error err = ERROR_INIT;
	struct prefetch_stats s;

	do {
		(void)!prefetch_wait(b->p[which], &all_of_it,
				     now_ns() + 5 * NS_PER_MS, &err);
		prefetch_get_stats(b->p[which], &s);
	} while (s.hot_have < n && now_ns() < end);
	cr_assert_eq(s.hot_have, n);
}

/* Read a block, until it is also kept: the reader has his bytes before that. */
static void read_and_keep(struct bed *b, int which, uint32_t block)
{
	int64_t end = now_ns() + 30 * NS_PER_S;

	expect_read(&b->n, which, block * (uint64_t)SPAN, 100);
	while (!device_has(b->n.dev[which], block) && now_ns() < end)
		(void)sched_yield();
	cr_assert(device_has(b->n.dev[which], block));
}

static int wait_for(struct bed *b, int which, const struct wait_policy *w,
		    struct error *err)
{
	return prefetch_wait(b->p[which], w, now_ns() + 30 * NS_PER_S, err);
}

/* Stored bytes that the sources of all devices passed on. */
static uint64_t bytes_read(struct bed *b)
{
	uint64_t sum = 0;

	for (int d = 0; d < NODE_DEVICES; d++) {
		for (size_t i = 0; i < b->n.img.n_packs; i++) {
			struct fault_source *f = b->n.fault[d][i];

			(void)pthread_mutex_lock(&f->lock);
			sum += f->n_bytes;
			(void)pthread_mutex_unlock(&f->lock);
		}
	}
	return sum;
}

/* The same without what was cut off on its way. */
static uint64_t bytes_kept(struct bed *b)
{
	struct device_stats s;
	uint64_t sum = 0;

	for (int d = 0; d < NODE_DEVICES; d++) {
		device_get_stats(b->n.dev[d], &s);
		sum += s.fetched_bytes;
	}
	return sum;
}

static uint64_t bytes_stored(const struct bed *b)
{
	return b->n.img.pack_size[0] + b->n.img.pack_size[1];
}

static const struct hot_list no_trace;

Test(prefetch, fetches_the_hot_set_then_the_rest_and_each_byte_once)
{
	struct prefetch_stats s;
	bool cold = false;
	struct bed b;

	bed_make(&b, NULL);
	start(&b, 0, hot_list(30, 1, 8), true);
	wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(bytes_read(&b), bytes_stored(&b));
	/* All hot blocks lie in the second pack. */
	for (size_t i = 0; i < fault_reads(b.n.fault[0][1]); i++) {
		bool is_cold = b.n.fault[0][1]->log[i].priority == SOURCE_COLD;

		cr_expect(is_cold || !cold, "hot request %zu after a cold one",
			  i);
		cold = is_cold;
	}
	cr_expect_eq(b.n.fault[0][1]->log[0].priority, SOURCE_HOT);
	cr_expect_eq(b.n.fault[0][0]->log[0].priority, SOURCE_COLD);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.hot_blocks, 8);
	cr_expect_eq(s.hot_have, 8);
	cr_expect_eq(s.hot_have_bytes, s.hot_bytes);
	cr_expect_eq(s.all_have, 40);
	cr_expect_eq(s.all_have_bytes, bytes_stored(&b));
	cr_expect_eq(s.hot_fetched_bytes, s.hot_bytes);
	cr_expect_eq(s.hot_fetched_bytes + s.cold_fetched_bytes,
		     bytes_stored(&b));
	cr_expect_eq(s.cold_fetched_blocks, 32);
	cr_expect_gt(s.hot_ns, 0);
	prefetch_free(b.p[0]); /* waits for on_done */
	b.p[0] = NULL;
	cr_expect_eq(atomic_load(&b.n_done), 1);
	bed_remove(&b);
}

Test(prefetch, without_the_rest_ends_with_the_hot_set_and_tells_what_it_brought)
{
	AUTO_FREE uint8_t *bits = NULL, *hot = NULL;
	struct error err = ERROR_INIT;
	struct bed b;

	bed_make(&b, NULL);
	read_and_keep(&b, 1, 10); /* there already */
	start(&b, 0, hot_list(8, 1, 4), false);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), 0, "%s", err.msg);
	wait_phase(&b, 0, PREFETCH_DONE);
	cr_assert_eq(prefetch_fetched(b.p[0], false, &bits, &err), 0);
	cr_expect_eq(bits[0], 0);
	cr_expect_eq(bits[1], 0x0b);
	cr_expect_eq(bits[2] | bits[3] | bits[4], 0);
	start(&b, 0, hot_list(8, 1, 4), true);
	wait_phase(&b, 0, PREFETCH_DONE);
	cr_assert_eq(prefetch_fetched(b.p[0], true, &hot, &err), 0);
	cr_expect_eq(hot[1], 0x0b);
	cr_expect_eq(hot[0] | hot[2] | hot[3] | hot[4], 0);
	bed_remove(&b);
}

Test(prefetch, brings_no_byte_that_a_reader_or_another_prefetch_brings)
{
	struct bed b;

	bed_make(&b, NULL);
	atomic_store(&b.idle_ns, INT64_MAX);
	start(&b, 0, hot_list(5, 3, 10), true);
	start(&b, 1, hot_list(1, 2, 15), true);
	for (uint32_t i = 0; i < 40; i++)
		expect_read(&b.n, (int)(i % 2), (i * 7 % 40) * (uint64_t)SPAN,
			    SPAN);
	wait_phase(&b, 0, PREFETCH_DONE);
	wait_phase(&b, 1, PREFETCH_DONE);
	cr_expect_eq(bytes_kept(&b), bytes_stored(&b));
	bed_remove(&b);
}

Test(prefetch, a_start_waits_for_as_much_as_its_policy_says)
{
	static const struct wait_policy none = { .kind = WAIT_NONE },
					half = { WAIT_SHARE, 500, 0 },
					soon = { WAIT_DEADLINE, 0,
						 20 * NS_PER_MS };
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, NULL);
	/* No prefetch, nothing to wait for. */
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), 0);
	/* The second half of the hot set does not come. */
	fault_set(b.n.fault[0][1], &(struct fault_plan){ .held = true });
	start(&b, 0, hot_list(10, 1, 20), false);
	cr_expect_eq(wait_for(&b, 0, &none, &err), 0);
	cr_expect_eq(wait_for(&b, 0,
			      &(struct wait_policy){ WAIT_SHARE, 400, 0 },
			      &err),
		     0);
	wait_hot(&b, 0, 10);
	cr_expect_eq(wait_for(&b, 0, &soon, &err), -ETIMEDOUT);
	cr_expect(strstr(err.msg, "image a: 10 of 20 blocks"), "%s", err.msg);
	cr_expect_eq(prefetch_wait(b.p[0], &all_of_it, now_ns() + NS_PER_MS,
				   &err),
		     -ETIMEDOUT);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_HOT);
	cr_expect_eq(s.hot_have, 10);
	fault_release(b.n.fault[0][1]);
	cr_expect_eq(wait_for(&b, 0, &half, &err), 0);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), 0);
	bed_remove(&b);
}

Test(prefetch, a_failure_reaches_who_waits_and_is_tried_again)
{
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, &(struct prefetch_limits){ .hot_streams = 1,
						.cold_streams = 1,
						.retry_ns = 3600 * NS_PER_S });
	fault_set(b.n.fault[0][0],
		  &(struct fault_plan){ .n_fail = 1, .fail_rc = -EACCES });
	start(&b, 0, hot_list(3, 1, 4), false);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), -EACCES);
	cr_expect(strstr(err.msg, "image a: prefetch failed: "), "%s", err.msg);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_FAILED);
	cr_expect_eq(s.failures, 1);
	cr_expect(strstr(s.error.msg, "fault on purpose"), "%s", s.error.msg);
	start(&b, 0, no_trace, false);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), 0, "%s", err.msg);
	wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(atomic_load(&b.n_failed), 1);
	bed_remove(&b);
}

Test(prefetch, tries_again_by_itself_after_a_while)
{
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, NULL);
	fault_set(b.n.fault[0][0],
		  &(struct fault_plan){ .n_fail = 3, .fail_rc = -EIO });
	start(&b, 0, hot_list(0, 1, 4), true);
	wait_phase(&b, 0, PREFETCH_DONE);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_geq(s.failures, 1);
	cr_expect_eq(atomic_load(&b.n_failed), s.failures);
	cr_expect_eq(s.error.code, 0);
	cr_expect_eq(s.all_have, 40);
	bed_remove(&b);
}

Test(prefetch, silence_is_no_failure_before_it_lasts)
{
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, &(struct prefetch_limits){ .hot_streams = 1,
						.cold_streams = 1,
						.retry_ns = 3600 * NS_PER_S });
	fault_set(b.n.fault[0][0],
		  &(struct fault_plan){ .n_fail = 1, .fail_rc = -ETIMEDOUT });
	start(&b, 0, hot_list(3, 1, 4), false);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), -ETIMEDOUT);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_RETRYING);
	cr_expect(strstr(s.error.msg, "fault on purpose"), "%s", s.error.msg);
	start(&b, 0, no_trace, false);
	wait_phase(&b, 0, PREFETCH_DONE);
	/* It is told beside what waits, and before the next run begins. */
	cr_expect_eq(atomic_load(&b.n_failed), 1);
	bed_remove(&b);
	bed_make(&b, NULL);
	fault_set(b.n.fault[0][0],
		  &(struct fault_plan){ .n_fail = 99, .fail_rc = -ETIMEDOUT });
	start(&b, 0, hot_list(3, 1, 4), false);
	wait_phase(&b, 0, PREFETCH_FAILED);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_geq(s.failures, 3);
	bed_remove(&b);
}

Test(prefetch, what_brings_blocks_is_retried_for_as_long_as_that_takes)
{
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, &(struct prefetch_limits){ .hot_streams = 1,
						.cold_streams = 1,
						.hot_range = 100000,
						.cold_range = 100000,
						.retry_ns = NS_PER_MS });
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .n_fail = 99,
							 .fail_rc = -ETIMEDOUT,
							 .fail_after = SPAN });
	start(&b, 0, hot_list(0, 1, 20), false);
	wait_phase(&b, 0, PREFETCH_DONE);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_gt(s.failures, 3);
	cr_expect_eq(atomic_load(&b.n_given_up), 0);
	bed_remove(&b);
}

Test(prefetch, pauses_under_pressure_and_goes_on_after_it)
{
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, NULL);
	atomic_store(&b.pressure, true);
	start(&b, 0, hot_list(0, 1, 8), true);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), -ENOSPC);
	cr_expect(strstr(err.msg, "prefetch paused: the disk is full"), "%s",
		  err.msg);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_PAUSED);
	cr_expect_eq(s.pauses, 1);
	cr_expect_eq(s.all_have, 0);
	cr_expect_eq(bytes_read(&b), 0);
	expect_read(&b.n, 1, 0, SPAN); /* readers are served */
	atomic_store(&b.pressure, false);
	wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch, takes_no_more_than_there_is_room_for)
{
	struct prefetch_limits limits = { .hot_streams = 2,
					  .cold_streams = 2,
					  .cold_range = 200000,
					  .settle_max_ns = INT64_MAX,
					  .retry_ns = 3600 * NS_PER_S };
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, &limits);
	atomic_store(&b.room, 10 * SPAN);
	read_and_keep(&b, 1, 39); /* counts too */
	start(&b, 0, hot_list(30, 1, 4), true);
	wait_phase(&b, 0, PREFETCH_PAUSED);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.error.code, ENOSPC);
	cr_expect(strstr(s.error.msg, "no room"), "%s", s.error.msg);
	cr_expect_eq(s.hot_have, 4);
	cr_expect_eq(s.all_have, 10);
	cr_expect_eq(s.pauses, 1);
	atomic_store(&b.room, 40 * SPAN);
	start(&b, 0, no_trace, true);
	wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(bytes_read(&b), bytes_stored(&b));
	bed_remove(&b);
}

Test(prefetch, keeps_to_the_rate)
{
	struct prefetch_limits limits = { .hot_streams = 4,
					  .cold_streams = 4,
					  .cold_range = 100000,
					  .cold_rate = 4000000 };
	int64_t begin, least;
	struct bed b;

	bed_make(&b, &limits);
	begin = now_ns();
	start(&b, 0, no_trace, true);
	wait_phase(&b, 0, PREFETCH_DONE);
	/* All but the last request have been paid for. */
	least = (int64_t)(bytes_stored(&b) - 100000) * NS_PER_S / 4000000;
	cr_expect_geq(now_ns() - begin, least);
	bed_remove(&b);
}

Test(prefetch, the_rest_of_one_waits_for_the_hot_set_of_another)
{
	struct bed b;

	bed_make(&b, NULL);
	atomic_store(&b.idle_ns, INT64_MAX);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	start(&b, 0, hot_list(0, 1, 4), false);
	fault_wait_held(b.n.fault[0][0], 1);
	start(&b, 1, no_trace, true);
	/* Long enough to begin, if it did. */
	cr_expect_eq(prefetch_wait(b.p[0], &all_of_it,
				   now_ns() + 100 * NS_PER_MS, NULL),
		     -ETIMEDOUT);
	cr_expect_eq(count_reads(&b.n, 1), 0);
	fault_release(b.n.fault[0][0]);
	wait_phase(&b, 1, PREFETCH_DONE);
	cr_expect_gt(count_reads(&b.n, 1), 0);
	bed_remove(&b);
}

Test(prefetch, the_rest_does_not_wait_for_a_hot_set_that_does_not_get_on)
{
	struct bed b;

	bed_make(&b, NULL);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	start(&b, 0, hot_list(0, 1, 4), false);
	fault_wait_held(b.n.fault[0][0], 1);
	/* As if it had begun long ago. */
	(void)pthread_mutex_lock(&b.all->lock);
	b.p[0]->hot_moved_ns -= 60 * NS_PER_S;
	(void)pthread_mutex_unlock(&b.all->lock);
	start(&b, 1, no_trace, true);
	fault_wait_reads(b.n.fault[1][1], 1);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_HOT);
	fault_release(b.n.fault[0][0]);
	wait_phase(&b, 1, PREFETCH_DONE);
	bed_remove(&b);
}

/* device_fetch_list() of a registry that trickles: a block now and then, never all. */
static int trickle(void *arg, const struct device_list *list, struct error *err)
{
	const struct timespec moment = { .tv_nsec = NS_PER_MS };

	while (!__atomic_load_n(list->cancel, __ATOMIC_RELAXED)) {
		list->have(list->arg, list->blocks[0], 0);
		(void)nanosleep(&moment, NULL);
	}
	return error_set(err, ECANCELED, "cancelled");
}

static struct prefetch *new_trickling(struct bed *b)
{
	struct prefetch_config cfg = { .dev = b->n.dev[0],
				       .map = &b->n.img.map,
				       .label = "slow",
				       .fetch = trickle };
	struct prefetch *p;

	cr_assert_eq(prefetch_new(b->all, &cfg, &p, NULL), 0);
	return p;
}

static void start_it(struct prefetch *p, struct hot_list hot,
		     enum prefetch_rest rest)
{
	cr_assert_eq(prefetch_start(p, hot.n ? &hot : NULL, rest, NULL), 0);
}

Test(prefetch, the_rest_waits_for_no_hot_set_that_trickles)
{
	struct prefetch *slow;
	struct bed b;

	bed_make(&b, NULL);
	slow = new_trickling(&b);
	start_it(slow, hot_list(0, 1, 4), PREFETCH_REST_NONE);
	start(&b, 1, no_trace, true);
	cr_expect_eq(prefetch_wait(slow, &all_of_it, now_ns() + 100 * NS_PER_MS,
				   NULL),
		     -ETIMEDOUT);
	cr_expect_eq(count_reads(&b.n, 1), 0);
	/* As if it had begun long ago; it still gets a block now and then. */
	(void)pthread_mutex_lock(&b.all->lock);
	slow->hot_begun_ns -= 60 * NS_PER_S;
	(void)pthread_mutex_unlock(&b.all->lock);
	atomic_store(&b.idle_ns, INT64_MAX);
	wait_phase(&b, 1, PREFETCH_DONE);
	cr_expect_eq(prefetch_get_phase(slow), PREFETCH_HOT);
	prefetch_free(slow);
	bed_remove(&b);
}

static const struct prefetch_limits short_turns = {
	.hot_streams = 1,
	.cold_streams = 1,
	.settle_max_ns = 3600 * NS_PER_S,
	.turn_ns = 50 * NS_PER_MS,
};

/* As many as there are threads, and more. */
static void images_that_trickle_keep_none_waiting(bool hot)
{
	struct prefetch *slow[2 * HOT_WORKERS];
	struct bed b;

	bed_make(&b, &short_turns);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		slow[i] = new_trickling(&b);
		start_it(slow[i], hot ? hot_list(0, 1, 4) : no_trace,
			 hot ? PREFETCH_REST_NONE : PREFETCH_REST_NOW);
	}
	start_it(b.p[1], hot ? hot_list(0, 1, 4) : no_trace,
		 hot ? PREFETCH_REST_NONE : PREFETCH_REST_NOW);
	wait_phase(&b, 1, PREFETCH_DONE);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		struct prefetch_stats s;

		prefetch_get_stats(slow[i], &s);
		cr_expect_eq(s.failures, 0);
		prefetch_free(slow[i]);
	}
	bed_remove(&b);
}

Test(prefetch, hot_sets_that_trickle_keep_no_other_waiting)
{
	images_that_trickle_keep_none_waiting(true);
}

Test(prefetch, images_that_trickle_keep_the_rest_of_no_other_waiting)
{
	images_that_trickle_keep_none_waiting(false);
}

/* As if the last start had been long ago. */
static void age_starts(struct bed *b)
{
	(void)pthread_mutex_lock(&b->all->lock);
	b->all->start_ns -= 60 * NS_PER_S;
	(void)pthread_mutex_unlock(&b->all->lock);
}

static const struct prefetch_limits settling = {
	.hot_streams = 1,
	.cold_streams = 1,
	.cold_range = SPAN,
	.settle_ns = 10 * NS_PER_S,
	.settle_max_ns = 3600 * NS_PER_S,
};

Test(prefetch, the_rest_waits_until_nobody_starts_or_reads)
{
	struct prefetch_stats s;
	struct error err = ERROR_INIT;
	struct bed b;

	bed_make(&b, &settling);
	atomic_store(&b.idle_ns, INT64_MAX);
	start(&b, 0, hot_list(0, 1, 2), true);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), 0, "%s", err.msg);
	/* Long enough to begin, if it did. */
	prefetch_wait_end(b.p[0], now_ns() + 300 * NS_PER_MS);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_COLD);
	atomic_store(&b.idle_ns, 0);
	age_starts(&b);
	prefetch_wait_end(b.p[0], now_ns() + 300 * NS_PER_MS);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_COLD);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(bytes_read(&b), s.hot_bytes);
	atomic_store(&b.idle_ns, settling.settle_ns);
	wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch, the_rest_pauses_for_the_start_of_another_image)
{
	struct error err = ERROR_INIT;
	size_t before;
	struct bed b;

	bed_make(&b, &settling);
	atomic_store(&b.idle_ns, INT64_MAX);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	start(&b, 0, no_trace, true);
	age_starts(&b);
	fault_wait_held(b.n.fault[0][0], 1);
	start(&b, 1, hot_list(20, 1, 2), true);
	cr_expect_eq(wait_for(&b, 1, &all_of_it, &err), 0, "%s", err.msg);
	before = count_reads(&b.n, 0);
	fault_release(b.n.fault[0][0]);
	prefetch_wait_end(b.p[0], now_ns() + 300 * NS_PER_MS);
	cr_expect_eq(count_reads(&b.n, 0), before);
	/* A hot set is not held back, nor what somebody asks for. */
	cr_assert_eq(prefetch_start(b.p[1], NULL, PREFETCH_REST_NOW, &err), 0);
	wait_phase(&b, 1, PREFETCH_DONE);
	cr_expect_eq(count_reads(&b.n, 0), before);
	age_starts(&b);
	wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch, without_a_trace_begins_at_once_when_asked_to)
{
	struct prefetch_limits limits = { .hot_streams = 1,
					  .cold_streams = 1,
					  .settle_ns = NS_PER_S,
					  .settle_max_ns = 3600 * NS_PER_S };
	struct error err = ERROR_INIT;
	struct bed b;

	bed_make(&b, &limits);
	start(&b, 0, no_trace, true);
	cr_assert_eq(prefetch_start(b.p[0], NULL, PREFETCH_REST_NOW, &err), 0);
	wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch, what_is_here_needs_no_leave)
{
	struct bed b;

	bed_make(&b, NULL);
	start(&b, 0, hot_list(0, 1, 40), false);
	wait_phase(&b, 0, PREFETCH_DONE);
	atomic_store(&b.pressure, true);
	start(&b, 0, no_trace, true);
	wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch, the_rest_does_not_wait_for_ever)
{
	struct prefetch_limits limits = settling;
	int64_t begin = now_ns();
	struct bed b;

	limits.settle_max_ns = 50 * NS_PER_MS;
	bed_make(&b, &limits);
	start(&b, 0, hot_list(0, 1, 2), true);
	wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_geq(now_ns() - begin, 50 * NS_PER_MS);
	bed_remove(&b);
}

Test(prefetch, goes_on_with_the_same_hot_set_and_begins_with_another)
{
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, NULL);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	start(&b, 0, hot_list(0, 1, 2), true);
	fault_wait_held(b.n.fault[0][0], 1);
	start(&b, 0, hot_list(0, 1, 2), true);
	cr_expect_eq(count_reads(&b.n, 0), 1);
	/* What lies in the other pack need not wait for the held one. */
	start(&b, 0, hot_list(25, 1, 5), true);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), 0, "%s", err.msg);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.hot_blocks, 5);
	cr_expect_eq(s.hot_have, 5);
	fault_release(b.n.fault[0][0]);
	wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(bytes_kept(&b), bytes_stored(&b));
	bed_remove(&b);
}

Test(prefetch, a_hot_set_interrupts_the_rest)
{
	struct error err = ERROR_INIT;
	struct bed b;

	bed_make(&b, NULL);
	atomic_store(&b.idle_ns, INT64_MAX);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	start(&b, 0, no_trace, true);
	fault_wait_held(b.n.fault[0][0], 2);
	start(&b, 0, hot_list(22, 1, 3), false);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), 0, "%s", err.msg);
	fault_release(b.n.fault[0][0]);
	/* The rest was asked for before and is not forgotten. */
	wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(bytes_kept(&b), bytes_stored(&b));
	bed_remove(&b);
}

Test(prefetch, stops_and_begins_again_where_it_was)
{
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, NULL);
	fault_set(b.n.fault[0][1], &(struct fault_plan){ .held = true });
	start(&b, 0, hot_list(0, 1, 40), false);
	fault_wait_held(b.n.fault[0][1], 1);
	prefetch_stop(b.p[0]);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_STOPPED);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), -ECANCELED);
	prefetch_stop(b.p[0]);
	fault_release(b.n.fault[0][1]);
	start(&b, 0, no_trace, false);
	cr_expect_eq(wait_for(&b, 0, &all_of_it, &err), 0, "%s", err.msg);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.all_have, 40);
	cr_expect_eq(bytes_kept(&b), bytes_stored(&b));
	bed_remove(&b);
}

Test(prefetch, refuses_a_hot_list_of_another_image_and_goes_on)
{
	struct error err = ERROR_INIT;
	struct hot_list hot = hot_list(38, 1, 5);
	struct bed b;

	bed_make(&b, NULL);
	cr_expect_eq(prefetch_start(b.p[0], &hot, PREFETCH_REST_NOW, &err),
		     -EINVAL);
	cr_expect_null(hot.blocks);
	cr_expect(strstr(err.msg, "image a: hot list: block 40 of 40"), "%s",
		  err.msg);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_IDLE);
	bed_remove(&b);
}
