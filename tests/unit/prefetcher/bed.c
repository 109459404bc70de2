// SPDX-License-Identifier: Apache-2.0
#include "bed.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/pause.h"

static const struct node_config plain = { .n_blocks = 40,
					  .per_pack = 20,
					  .usize = SPAN,
					  .window = 0,
					  .window_max = 100000 };
const struct wait_policy bed_all_of_it = { .kind = WAIT_ALL };

static bool pressure(void *arg, struct error *why)
{
	struct bed *b = arg;

	if (atomic_load(&b->memory_short)) {
		(void)error_set(why, EAGAIN, "memory is short on purpose");
		return true;
	}
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

static void mark_read(void *arg, uint8_t *bits)
{
	for (unsigned int i = 0; i < atomic_load(&((struct bed *)arg)->n_seen);
	     i++)
		bits[i / 8] |= (uint8_t)(1u << i % 8);
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

void bed_make(struct bed *b, const struct prefetch_limits *limits)
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
					       .mark_read = mark_read,
					       .done = on_done,
					       .failed = on_failed,
					       .arg = b };

		cr_assert_eq(prefetch_new(b->all, &one, &b->p[i], &err), 0);
	}
}

void bed_remove(struct bed *b)
{
	for (int i = 0; i < NODE_DEVICES; i++)
		prefetch_free(b->p[i]);
	prefetcher_free(b->all);
	node_remove(&b->n);
}

struct hot_list bed_hot_list(uint32_t first, uint32_t step, size_t n)
{
	struct hot_list l = { .blocks = calloc(n, sizeof(*l.blocks)), .n = n };

	cr_assert(l.blocks);
	for (size_t i = 0; i < n; i++)
		l.blocks[i].index = first + (uint32_t)i * step;
	return l;
}

void bed_start(struct bed *b, int which, struct hot_list hot, bool rest)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(prefetch_start(b->p[which], hot.n ? &hot : NULL,
				    rest ? PREFETCH_REST_IDLE
					 : PREFETCH_REST_NONE,
				    &err),
		     0, "%s", err.msg);
	cr_expect_null(hot.n ? hot.blocks : NULL);
}

void bed_wait_phase(struct bed *b, int which, enum prefetch_phase want)
{
	int64_t end = clock_now_ns() + 30 * NS_PER_S;
	enum prefetch_phase is;

	do {
		/* Returns at once where nothing is to come. */
		prefetch_wait_end(b->p[which], clock_now_ns() + 5 * NS_PER_MS);
		is = prefetch_get_phase(b->p[which]);
	} while (is != want && clock_now_ns() < end);
	cr_assert_eq(is, want, "%s, not %s", prefetch_phase_name(is),
		     prefetch_phase_name(want));
}

void bed_wait_hot(struct bed *b, int which, size_t n)
{
	int64_t end = clock_now_ns() + 30 * NS_PER_S;
	struct error err = ERROR_INIT;
	struct prefetch_stats s;

	do {
		(void)!prefetch_wait(b->p[which], &bed_all_of_it,
				     clock_now_ns() + 5 * NS_PER_MS, &err);
		prefetch_get_stats(b->p[which], &s);
	} while (s.hot_have < n && clock_now_ns() < end);
	cr_assert_eq(s.hot_have, n);
}

void bed_read(struct bed *b, int which, uint32_t block)
{
	int64_t end = clock_now_ns() + 30 * NS_PER_S;

	expect_read(&b->n, which, block * (uint64_t)SPAN, 100);
	while (!device_has(b->n.dev[which], block) && clock_now_ns() < end)
		unit_pause();
	cr_assert(device_has(b->n.dev[which], block));
}

int bed_wait(struct bed *b, int which, const struct wait_policy *w,
	     struct error *err)
{
	return prefetch_wait(b->p[which], w, clock_now_ns() + 30 * NS_PER_S,
			     err);
}

uint64_t bed_bytes_read(struct bed *b)
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

uint64_t bed_bytes_kept(struct bed *b)
{
	struct device_stats s;
	uint64_t sum = 0;

	for (int d = 0; d < NODE_DEVICES; d++) {
		device_get_stats(b->n.dev[d], &s);
		sum += s.fetched_bytes;
	}
	return sum;
}

uint64_t bed_bytes_stored(const struct bed *b)
{
	return b->n.img.pack_size[0] + b->n.img.pack_size[1];
}

const struct hot_list bed_no_trace;
