// SPDX-License-Identifier: Apache-2.0
/* Who waits for whom: the rest of one image for the hot set and the starts of others. */
#include <criterion/criterion.h>
#include <errno.h>

#include "bed.h"
#include "common/clock.h"

TestSuite(prefetch_turns, .timeout = 120);

Test(prefetch_turns, the_rest_of_one_waits_for_the_hot_set_of_another)
{
	struct bed b;

	bed_make(&b, NULL);
	atomic_store(&b.idle_ns, INT64_MAX);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_hot_list(0, 1, 4), false);
	fault_wait_held(b.n.fault[0][0], 1);
	bed_start(&b, 1, bed_no_trace, true);
	/* Long enough to begin, if it did. */
	cr_expect_eq(prefetch_wait(b.p[0], &bed_all_of_it,
				   clock_now_ns() + 100 * NS_PER_MS, NULL),
		     -ETIMEDOUT);
	cr_expect_eq(count_reads(&b.n, 1), 0);
	fault_release(b.n.fault[0][0]);
	bed_wait_phase(&b, 1, PREFETCH_DONE);
	cr_expect_gt(count_reads(&b.n, 1), 0);
	bed_remove(&b);
}

Test(prefetch_turns, the_rest_does_not_wait_for_a_hot_set_that_does_not_get_on)
{
	struct bed b;

	bed_make(&b, NULL);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_hot_list(0, 1, 4), false);
	fault_wait_held(b.n.fault[0][0], 1);
	/* As if it had begun long ago. */
	(void)pthread_mutex_lock(&b.all->lock);
	b.p[0]->hot_moved_ns -= 60 * NS_PER_S;
	(void)pthread_mutex_unlock(&b.all->lock);
	bed_start(&b, 1, bed_no_trace, true);
	fault_wait_reads(b.n.fault[1][1], 1);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_HOT);
	fault_release(b.n.fault[0][0]);
	bed_wait_phase(&b, 1, PREFETCH_DONE);
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

Test(prefetch_turns, the_rest_waits_for_no_hot_set_that_trickles)
{
	struct prefetch *slow;
	struct bed b;

	bed_make(&b, NULL);
	slow = new_trickling(&b);
	start_it(slow, bed_hot_list(0, 1, 4), PREFETCH_REST_NONE);
	bed_start(&b, 1, bed_no_trace, true);
	cr_expect_eq(prefetch_wait(slow, &bed_all_of_it,
				   clock_now_ns() + 100 * NS_PER_MS, NULL),
		     -ETIMEDOUT);
	cr_expect_eq(count_reads(&b.n, 1), 0);
	/* As if it had begun long ago; it still gets a block now and then. */
	(void)pthread_mutex_lock(&b.all->lock);
	slow->hot_begun_ns -= 60 * NS_PER_S;
	(void)pthread_mutex_unlock(&b.all->lock);
	atomic_store(&b.idle_ns, INT64_MAX);
	bed_wait_phase(&b, 1, PREFETCH_DONE);
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
		start_it(slow[i], hot ? bed_hot_list(0, 1, 4) : bed_no_trace,
			 hot ? PREFETCH_REST_NONE : PREFETCH_REST_NOW);
	}
	start_it(b.p[1], hot ? bed_hot_list(0, 1, 4) : bed_no_trace,
		 hot ? PREFETCH_REST_NONE : PREFETCH_REST_NOW);
	bed_wait_phase(&b, 1, PREFETCH_DONE);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		struct prefetch_stats s;

		prefetch_get_stats(slow[i], &s);
		cr_expect_eq(s.failures, 0);
		prefetch_free(slow[i]);
	}
	bed_remove(&b);
}

Test(prefetch_turns, hot_sets_that_trickle_keep_no_other_waiting)
{
	images_that_trickle_keep_none_waiting(true);
}

Test(prefetch_turns, images_that_trickle_keep_the_rest_of_no_other_waiting)
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

Test(prefetch_turns, the_rest_waits_until_nobody_starts_or_reads)
{
	struct prefetch_stats s;
	struct error err = ERROR_INIT;
	struct bed b;

	bed_make(&b, &settling);
	atomic_store(&b.idle_ns, INT64_MAX);
	bed_start(&b, 0, bed_hot_list(0, 1, 2), true);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0, "%s", err.msg);
	/* Long enough to begin, if it did. */
	prefetch_wait_end(b.p[0], clock_now_ns() + 300 * NS_PER_MS);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_COLD);
	atomic_store(&b.idle_ns, 0);
	age_starts(&b);
	prefetch_wait_end(b.p[0], clock_now_ns() + 300 * NS_PER_MS);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_COLD);
	prefetch_get_stats(b.p[0], &s);
	cr_expect_eq(bed_bytes_read(&b), s.hot_bytes);
	atomic_store(&b.idle_ns, settling.settle_ns);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch_turns, the_rest_pauses_for_the_start_of_another_image)
{
	struct error err = ERROR_INIT;
	size_t before;
	struct bed b;

	bed_make(&b, &settling);
	atomic_store(&b.idle_ns, INT64_MAX);
	fault_set(b.n.fault[0][0], &(struct fault_plan){ .held = true });
	bed_start(&b, 0, bed_no_trace, true);
	age_starts(&b);
	fault_wait_held(b.n.fault[0][0], 1);
	bed_start(&b, 1, bed_hot_list(20, 1, 2), true);
	cr_expect_eq(bed_wait(&b, 1, &bed_all_of_it, &err), 0, "%s", err.msg);
	before = count_reads(&b.n, 0);
	fault_release(b.n.fault[0][0]);
	prefetch_wait_end(b.p[0], clock_now_ns() + 300 * NS_PER_MS);
	cr_expect_eq(count_reads(&b.n, 0), before);
	/* A hot set is not held back, nor what somebody asks for. */
	cr_assert_eq(prefetch_start(b.p[1], NULL, PREFETCH_REST_NOW, &err), 0);
	bed_wait_phase(&b, 1, PREFETCH_DONE);
	cr_expect_eq(count_reads(&b.n, 0), before);
	age_starts(&b);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch_turns, the_rest_waits_for_a_start_however_long)
{
	struct prefetch_limits limits = settling;
	struct error err = ERROR_INIT;
	struct bed b;

	limits.settle_max_ns = 50 * NS_PER_MS;
	bed_make(&b, &limits);
	atomic_store(&b.idle_ns, PREFETCH_HELD);
	bed_start(&b, 0, bed_hot_list(0, 1, 2), true);
	cr_expect_eq(bed_wait(&b, 0, &bed_all_of_it, &err), 0, "%s", err.msg);
	age_starts(&b);
	/* Long enough to begin, if it did. */
	prefetch_wait_end(b.p[0], clock_now_ns() + 500 * NS_PER_MS);
	cr_expect_eq(prefetch_get_phase(b.p[0]), PREFETCH_COLD);
	/* The start is ready; a reader holds the rest for `settle_max_ns`. */
	atomic_store(&b.idle_ns, 0);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch_turns, without_a_trace_begins_at_once_when_asked_to)
{
	struct prefetch_limits limits = { .hot_streams = 1,
					  .cold_streams = 1,
					  .settle_ns = NS_PER_S,
					  .settle_max_ns = 3600 * NS_PER_S };
	struct error err = ERROR_INIT;
	struct bed b;

	bed_make(&b, &limits);
	bed_start(&b, 0, bed_no_trace, true);
	cr_assert_eq(prefetch_start(b.p[0], NULL, PREFETCH_REST_NOW, &err), 0);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch_turns, what_is_here_needs_no_leave)
{
	struct bed b;

	bed_make(&b, NULL);
	bed_start(&b, 0, bed_hot_list(0, 1, 40), false);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	atomic_store(&b.pressure, true);
	bed_start(&b, 0, bed_no_trace, true);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	bed_remove(&b);
}

Test(prefetch_turns, the_rest_does_not_wait_for_ever)
{
	struct prefetch_limits limits = settling;
	int64_t begin = clock_now_ns();
	struct bed b;

	limits.settle_max_ns = 50 * NS_PER_MS;
	bed_make(&b, &limits);
	bed_start(&b, 0, bed_hot_list(0, 1, 2), true);
	bed_wait_phase(&b, 0, PREFETCH_DONE);
	cr_expect_geq(clock_now_ns() - begin, 50 * NS_PER_MS);
	bed_remove(&b);
}
