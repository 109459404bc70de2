// SPDX-License-Identifier: Apache-2.0
/* Starts, stops, waits and readers at once: for the thread sanitizer. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "prefetcher/prefetcher.h"
#include "tests/unit/blockstore/node.h"

TestSuite(prefetch_threads, .timeout = 120);

#define SPAN 16384u
#define N_BLOCKS 200
#define ROUNDS 60
#define THREADS 4

struct bed {
	struct node n;
	struct prefetcher *all;
	struct prefetch *p[NODE_DEVICES];
	atomic_uint seed;
};

static uint32_t next(uint32_t *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 8;
}

static struct hot_list some(uint32_t *x)
{
	struct hot_list l = { .n = 1 + next(x) % 50 };

	l.blocks = calloc(l.n, sizeof(*l.blocks));
	for (size_t i = 0; i < l.n; i++)
		l.blocks[i].index = next(x) % N_BLOCKS;
	return l;
}

static void *work(void *arg)
{
	static const struct wait_policy soon = { WAIT_DEADLINE, 0, 2000000 };
	struct bed *b = arg;
	uint32_t x = atomic_fetch_add(&b->seed, 1) * 77777 + 1;

	for (int i = 0; i < ROUNDS; i++) {
		struct prefetch *p = b->p[next(&x) % NODE_DEVICES];
		struct prefetch_stats s;
		struct hot_list hot;
		int rc = 0;

		switch (next(&x) % 6) {
		case 0:
			hot = some(&x);
			rc = prefetch_start(p, &hot,
					    next(&x) % 2 ? PREFETCH_REST_NOW
							 : PREFETCH_REST_NONE,
					    NULL);
			break;
		case 1:
			rc = prefetch_start(p, NULL, PREFETCH_REST_IDLE, NULL);
			break;
		case 2:
			rc = prefetch_wait(p, &soon, 0, NULL);
			break;
		case 3:
			prefetch_get_stats(p, &s);
			cr_expect_leq(s.hot_have, s.hot_blocks);
			break;
		case 4:
			if (i % 4 == 0)
				prefetch_stop(p);
			break;
		default:
			expect_read(&b->n, (int)(next(&x) % NODE_DEVICES),
				    next(&x) % N_BLOCKS * (uint64_t)SPAN, SPAN);
		}
		cr_expect(rc == 0 || rc == -ECANCELED || rc == -ETIMEDOUT, "%d",
			  rc);
	}
	return NULL;
}

Test(prefetch_threads, many_at_once_leave_a_whole_image)
{
	struct node_config node = { .n_blocks = N_BLOCKS,
				    .per_pack = 100,
				    .usize = SPAN,
				    .window_max = 200000,
				    .threads = 8 };
	struct prefetcher_config cfg = {
		.limits = { .hot_streams = 3,
			    .cold_streams = 3,
			    .gap = 20000,
			    .hot_range = 60000,
			    .cold_range = 100000,
			    .retry_ns = 1000000 },
	};
	struct error err = ERROR_INIT;
	struct prefetch_stats s;
	pthread_t threads[THREADS];
	struct bed b = { .all = NULL };

	node_make(&b.n, &node);
	cr_assert_eq(prefetcher_new(&cfg, &b.all, &err), 0);
	for (int i = 0; i < NODE_DEVICES; i++) {
		struct prefetch_config one = { .dev = b.n.dev[i],
					       .map = &b.n.img.map,
					       .label = "a" };

		cr_assert_eq(prefetch_new(b.all, &one, &b.p[i], &err), 0);
	}
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, work, &b), 0);
	for (int i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	for (int i = 0; i < NODE_DEVICES; i++) {
		struct timespec ts;

		cr_assert_eq(prefetch_start(b.p[i], NULL, PREFETCH_REST_NOW,
					    &err),
			     0);
		(void)clock_gettime(CLOCK_MONOTONIC, &ts);
		prefetch_wait_end(b.p[i],
				  (ts.tv_sec + 60) * INT64_C(1000000000));
		prefetch_get_stats(b.p[i], &s);
		cr_expect_eq(s.phase, PREFETCH_DONE);
		cr_expect_eq(s.all_have, N_BLOCKS);
		prefetch_free(b.p[i]);
	}
	prefetcher_free(b.all);
	node_remove(&b.n);
}
