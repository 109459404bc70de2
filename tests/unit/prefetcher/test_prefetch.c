// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "bed.h"
#include "blockstore/cache.h"
#include "common/clock.h"

TestSuite(prefetch, .timeout = 120);

Test(prefetch, fetches_the_hot_set_then_the_rest_and_each_byte_once)
{
	struct prefetch_stats s;
	bool cold = false;
	struct bed b;

	bed_make(&b, NULL);
	bed_start(&b, 0, bed_hot_list(30, 1, 8), true);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(bed_bytes_read(&b), bed_bytes_stored(&b));
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
	cr_expect_eq(s.all_have_bytes, bed_bytes_stored(&b));
	cr_expect_eq(s.hot_fetched_bytes, s.hot_bytes);
	cr_expect_eq(s.hot_fetched_bytes + s.cold_fetched_bytes,
		     bed_bytes_stored(&b));
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
	bed_read(&b, 1, 10); /* there already */
	bed_start(&b, 0, bed_hot_list(8, 1, 4), false);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0, "%s", err.msg);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	cr_assert_eq(prefetch_fetched(b.p[0], false, &bits, &err), 0);
	cr_expect_eq(bits[0], 0);
	cr_expect_eq(bits[1], 0x0b);
	cr_expect_eq(bits[2] | bits[3] | bits[4], 0);
	bed_start(&b, 0, bed_hot_list(8, 1, 4), true);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
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
	bed_start(&b, 0, bed_hot_list(5, 3, 10), true);
	bed_start(&b, 1, bed_hot_list(1, 2, 15), true);
	for (uint32_t i = 0; i < 40; i++)
		expect_read(&b.n, (int)(i % 2), (i * 7 % 40) * (uint64_t)SPAN,
			    SPAN);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	bed_wait_phase(&b, 1, PREFETCH_DONE);
	cr_expect_eq(bed_bytes_kept(&b), bed_bytes_stored(&b));
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
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0);
	/* The second half of the hot set does not come. */
	fault_set(b.n.fault[0][1], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_hot_list(10, 1, 20), false);
	cr_expect_eq(bed_wait(&b, 0, &none, &err), 0);
	cr_expect_eq(bed_wait(&b, 0,
			      &(struct wait_policy){ WAIT_SHARE, 400, 0 },
			      &err),
		     0);
	bed_wait_hot(&b, 0, 10);
	cr_expect_eq(bed_wait(&b, 0, &soon, &err), -ETIMEDOUT);
	cr_expect(strstr(err.msg, "image a: 10 of 20 blocks"), "%s", err.msg);
	cr_expect_eq(prefetch_wait(b.p[0], &bed_all_of_it,
				   clock_now_ns() + NS_PER_MS, &err),
		     -ETIMEDOUT);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_HOT);
	cr_expect_eq(s.hot_have, 10);
	fault_release(b.n.fault[0][1]);
	cr_expect_eq(bed_wait(&b, 0, &half, &err), 0);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0);
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
	bed_start(&b, 0, bed_hot_list(3, 1, 4), false);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), -EACCES);
	cr_expect(strstr(err.msg, "image a: prefetch failed: "), "%s", err.msg);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_FAILED);
	cr_expect_eq(s.failures, 1);
	cr_expect(strstr(s.error.msg, "fault on purpose"), "%s", s.error.msg);
	bed_start(&b, 0, bed_no_trace, false);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0, "%s", err.msg);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
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
	bed_start(&b, 0, bed_hot_list(0, 1, 4), true);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
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
	bed_start(&b, 0, bed_hot_list(3, 1, 4), false);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), -ETIMEDOUT);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_RETRYING);
	cr_expect(strstr(s.error.msg, "fault on purpose"), "%s", s.error.msg);
	bed_start(&b, 0, bed_no_trace, false);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	/* It is told beside what waits, and before the next run begins. */
	cr_expect_eq(atomic_load(&b.n_failed), 1);
	bed_remove(&b);
	bed_make(&b, NULL);
	fault_set(b.n.fault[0][0],
		  &(struct fault_plan){ .n_fail = 99, .fail_rc = -ETIMEDOUT });
	bed_start(&b, 0, bed_hot_list(3, 1, 4), false);
	bed_wait_phase(&b, 0, PREFETCH_FAILED);
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
	bed_start(&b, 0, bed_hot_list(0, 1, 20), false);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
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
	bed_start(&b, 0, bed_hot_list(0, 1, 8), true);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), -ENOSPC);
	cr_expect(strstr(err.msg, "prefetch paused: the disk is full"), "%s",
		  err.msg);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_PAUSED);
	cr_expect_eq(s.pauses, 1);
	cr_expect_eq(s.all_have, 0);
	cr_expect_eq(bed_bytes_read(&b), 0);
	expect_read(&b.n, 1, 0, SPAN); /* readers are served */
	atomic_store(&b.pressure, false);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
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
	bed_read(&b, 1, 39); /* counts too */
	bed_start(&b, 0, bed_hot_list(30, 1, 4), true);
	bed_wait_phase(&b, 0, PREFETCH_PAUSED);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.error.code, ENOSPC);
	cr_expect(strstr(s.error.msg, "no room"), "%s", s.error.msg);
	cr_expect_eq(s.hot_have, 4);
	cr_expect_eq(s.all_have, 10);
	cr_expect_eq(s.pauses, 1);
	atomic_store(&b.room, 40 * SPAN);
	bed_start(&b, 0, bed_no_trace, true);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(bed_bytes_read(&b), bed_bytes_stored(&b));
	bed_remove(&b);
}

/* A mount reads blocks `first`, first + 1 and so on of the image in the cache. */
static void pin(struct bed *b, uint32_t first, size_t n)
{
	struct block block;

	for (size_t i = 0; i < n; i++) {
		bed_read(b, 1, first + (uint32_t)i);
		blockmap_block(&b->n.img.map, first + i, &block);
		cr_assert_eq(cache_pin_block(b->n.cache, &block.digest, NULL),
			     0);
	}
}

static void damage(struct bed *b, uint32_t index)
{
	struct cache *c = b->n.cache;
	struct block block;
	uint32_t id;

	blockmap_block(&b->n.img.map, index, &block);
	id = table_find(c, shard_of(c, &block.digest), &block.digest);
	cr_assert_neq(id, ENTRY_NIL);
	drop_damaged(c, id);
	cr_assert_not(device_has(b->n.dev[0], index));
}

Test(prefetch, what_is_pinned_takes_no_room)
{
	struct prefetch_limits limits = { .hot_streams = 2,
					  .cold_streams = 2,
					  .settle_max_ns = INT64_MAX,
					  .retry_ns = 3600 * NS_PER_S };
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, &limits);
	pin(&b, 0, 30);
	atomic_store(&b.room, 10 * SPAN);
	bed_start(&b, 0, bed_no_trace, true);
	prefetch_wait_end(b.p[0], clock_now_ns() + 20 * NS_PER_S);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_DONE, "%s", s.error.msg);
	cr_expect_eq(s.all_have, 40);
	bed_remove(&b);
}

Test(prefetch, mends_what_a_mount_reads_on_a_full_node)
{
	struct prefetch_limits limits = { .hot_streams = 2,
					  .cold_streams = 2,
					  .settle_max_ns = INT64_MAX,
					  .retry_ns = 3600 * NS_PER_S };
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, &limits);
	pin(&b, 0, 40);
	damage(&b, 3);
	damage(&b, 20);
	atomic_store(&b.room, 0);
	atomic_store(&b.pressure, true);
	bed_start(&b, 0, bed_no_trace, true);
	prefetch_wait_end(b.p[0], clock_now_ns() + 20 * NS_PER_S);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_DONE, "%s", s.error.msg);
	cr_expect_eq(s.all_have, 40);
	cr_expect_eq(s.pauses, 0);
	bed_remove(&b);
}

Test(prefetch, mends_what_a_mount_reads_though_memory_stays_short)
{
	struct prefetch_limits limits = { .hot_streams = 2,
					  .cold_streams = 2,
					  .settle_max_ns = INT64_MAX,
					  .repair_ns = 50 * NS_PER_MS,
					  .retry_ns = 3600 * NS_PER_S };
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, &limits);
	pin(&b, 0, 40);
	damage(&b, 3);
	atomic_store(&b.memory_short, true);
	bed_start(&b, 0, bed_no_trace, true);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.all_have, 40);
	/* It did wait. */
	cr_expect_eq(s.pauses, 1);
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
	begin = clock_now_ns();
	bed_start(&b, 0, bed_no_trace, true);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	/* All but the last request have been paid for. */
	least = (int64_t)(bed_bytes_stored(&b) - 100000) * NS_PER_S / 4000000;
	cr_expect_geq(clock_now_ns() - begin, least);
	bed_remove(&b);
}

Test(prefetch, goes_on_with_the_same_hot_set_and_begins_with_another)
{
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, NULL);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_hot_list(0, 1, 2), true);
	fault_wait_held(b.n.fault[0][0], 1);
	bed_start(&b, 0, bed_hot_list(0, 1, 2), true);
	cr_expect_eq(count_reads(&b.n, 0), 1);
	/* What lies in the other pack need not wait for the held one. */
	bed_start(&b, 0, bed_hot_list(25, 1, 5), true);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0, "%s", err.msg);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.hot_blocks, 5);
	cr_expect_eq(s.hot_have, 5);
	fault_release(b.n.fault[0][0]);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(bed_bytes_kept(&b), bed_bytes_stored(&b));
	bed_remove(&b);
}

Test(prefetch, a_hot_set_interrupts_the_rest)
{
	struct error err = ERROR_INIT;
	struct bed b;

	bed_make(&b, NULL);
	atomic_store(&b.idle_ns, INT64_MAX);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_no_trace, true);
	fault_wait_held(b.n.fault[0][0], 2);
	bed_start(&b, 0, bed_hot_list(22, 1, 3), false);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0, "%s", err.msg);
	fault_release(b.n.fault[0][0]);
	/* The rest was asked for before and is not forgotten. */
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_eq(bed_bytes_kept(&b), bed_bytes_stored(&b));
	bed_remove(&b);
}

Test(prefetch, stops_and_begins_again_where_it_was)
{
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, NULL);
	fault_set(b.n.fault[0][1], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_hot_list(0, 1, 40), false);
	fault_wait_held(b.n.fault[0][1], 1);
	prefetch_stop(b.p[0]);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_STOPPED);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), -ECANCELED);
	prefetch_stop(b.p[0]);
	fault_release(b.n.fault[0][1]);
	bed_start(&b, 0, bed_no_trace, false);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0, "%s", err.msg);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.all_have, 40);
	cr_expect_eq(bed_bytes_kept(&b), bed_bytes_stored(&b));
	bed_remove(&b);
}

Test(prefetch, is_given_up_without_a_wait_and_begins_again_at_once)
{
	struct error err = ERROR_INIT;
	struct bed b;

	bed_make(&b, NULL);
	atomic_store(&b.idle_ns, INT64_MAX);
	fault_set(b.n.fault[0][1], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_hot_list(0, 1, 40), true);
	fault_wait_held(b.n.fault[0][1], 1);
	prefetch_cancel(b.p[0]);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_STOPPED);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), -ECANCELED);
	/* A run that was given up may go on still. */
	bed_start(&b, 0, bed_no_trace, false);
	fault_release(b.n.fault[0][1]);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0, "%s", err.msg);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	prefetch_cancel(b.p[0]);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_DONE);
	cr_expect_eq(atomic_load(&b.n_failed), 0);
	bed_remove(&b);
}

Test(prefetch, what_is_given_up_fetches_no_more)
{
	struct prefetch_stats s;
	struct bed b;

	bed_make(&b, NULL);
	atomic_store(&b.idle_ns, INT64_MAX);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_no_trace, true);
	fault_wait_held(b.n.fault[0][0], 1);
	prefetch_cancel(b.p[0]);
	fault_release(b.n.fault[0][0]);
	/* Which waits until the run has ended. */
	prefetch_stop(b.p[0]);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.phase, PREFETCH_STOPPED);
	cr_expect_lt(s.all_have, s.all_blocks);
	cr_expect_eq(atomic_load(&b.n_done), 0);
	cr_expect_eq(atomic_load(&b.n_failed), 0);
	bed_remove(&b);
}

Test(prefetch, refuses_a_hot_list_of_another_image_and_goes_on)
{
	struct error err = ERROR_INIT;
	struct hot_list hot = bed_hot_list(38, 1, 5);
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

/* Blocks of these tests do not compress: each is SPAN bytes and little more. */
static const struct prefetch_limits guessing = { .hot_streams = 1,
						 .cold_streams = 1,
						 .hot_range = SPAN + 1024,
						 .guess_lead = 6 * SPAN,
						 .guess_ns = 3600 * NS_PER_S };

static struct hot_list make_guess(size_t n)
{
	struct hot_list hot = bed_hot_list(0, 1, n);

	hot.is_predicted = true;
	return hot;
}

/* Until so many bytes of the hot set were fetched: how many were. */
static uint64_t wait_fetched(struct bed *b, uint64_t bytes)
{
	int64_t end = clock_now_ns() + 30 * NS_PER_S;
	struct prefetch_stats s;

	do {
		prefetch_wait_end(b->p[0], clock_now_ns() + 5 * NS_PER_MS);
		prefetch_get_stats(b->p[0], &s);
	} while (s.hot_fetched_bytes < bytes && clock_now_ns() < end);
	cr_expect_geq(s.hot_fetched_bytes, bytes);
	cr_expect_eq(s.phase, PREFETCH_HOT);
	cr_expect(s.is_predicted);
	return s.hot_fetched_bytes;
}

Test(prefetch, a_prediction_is_fetched_as_far_as_it_is_read)
{
	struct prefetch_stats s;
	uint64_t first;
	struct bed b;

	bed_make(&b, &guessing);
	bed_start(&b, 0, make_guess(36), false);
	first = wait_fetched(&b, 3 * SPAN);
	cr_expect_leq(first, 6 * SPAN);
	/* A third of what was read more than that, and the bytes that were. */
	atomic_store(&b.n_seen, 3);
	cr_expect_leq(wait_fetched(&b, first + 1), 10 * SPAN);
	atomic_store(&b.n_seen, 40);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.hot_have, 36);
	cr_expect_not(s.has_given_up);
	bed_remove(&b);
}

Test(prefetch, a_prediction_that_nobody_reads_ends_and_a_trace_takes_its_place)
{
	struct prefetch_limits limits = guessing;
	struct hot_list hot = bed_hot_list(0, 1, 36);
	struct prefetch_stats s;
	struct bed b;

	limits.guess_ns = NS_PER_MS;
	bed_make(&b, &limits);
	bed_start(&b, 0, make_guess(36), false);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	prefetch_get_stats(b.p[0], &s);
	cr_expect(s.has_given_up);
	cr_expect_leq(s.hot_fetched_bytes, 6 * SPAN);
	cr_expect_eq(s.failures, 0);
	bed_start(&b, 0, hot, false);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(s.hot_have, 36);
	cr_expect_not(s.is_predicted);
	bed_remove(&b);
}

/* With what a search fetched that has a hot set in the end it is within one lead; what a search
 * without one fetched is nobody's. */
Test(prefetch, an_ended_search_takes_nothing_of_the_next_predictions_lead)
{
	static const uint32_t ahead[] = { 36, 37, 38, 39 };
	static const volatile bool goes_on;

	for (int has_ended = 0; has_ended < 2; has_ended++) {
		struct prefetch_limits limits = guessing;
		struct prefetch_stats s;
		struct bed b;

		limits.guess_ns = NS_PER_MS;
		bed_make(&b, &limits);
		cr_assert_eq(prefetch_ahead(b.p[0], ahead, 4, &goes_on, NULL),
			     0);
		if (has_ended)
			prefetch_ahead_forget(b.p[0]);
		bed_start(&b, 0, make_guess(30), false);
		bed_wait_phase(&b, 0, PREFETCH_DONE);
		prefetch_get_stats(b.p[0], &s);
		cr_expect(s.has_given_up);
		if (has_ended)
			cr_expect_geq(s.hot_fetched_bytes, 7 * SPAN, "%llu",
				      (unsigned long long)s.hot_fetched_bytes);
		else
			cr_expect_leq(s.hot_fetched_bytes, 6 * SPAN);
		bed_remove(&b);
	}
}
