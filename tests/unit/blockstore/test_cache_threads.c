// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>

#include "tests/unit/blockstore/cache_dir.h"

TestSuite(cache_threads, .timeout = 120);

#define N_THREADS 8
#define N_ROUNDS 1500

struct crowd {
	struct cache *c;
	struct image *img; /* two images that share nothing */
	unsigned int id;
};

static void *stir(void *arg)
{
	struct crowd *crowd = arg;
	uint32_t x = crowd->id * 7919 + 1;

	for (int round = 0; round < N_ROUNDS; round++) {
		struct error err = ERROR_INIT;
		const struct image *img;
		uint64_t freed;
		size_t i;

		x = x * 1664525u + 1013904223u;
		img = &crowd->img[x >> 31];
		i = (x >> 8) % img->map.n_blocks;
		switch ((x >> 20) % 64) {
		case 0:
			if (cache_pin(crowd->c, &crowd->img[0].map, &err) == 0)
				cache_unpin(crowd->c, &crowd->img[0].map);
			break;
		case 1:
			(void)!cache_gc(crowd->c, 1000000, &freed, &err);
			break;
		default:
			if (get_block(crowd->c, img, i) == -ENOENT) {
				int rc = put_block(crowd->c, img, i);

				cr_assert(rc == 0 || rc == -ENOSPC, "%d", rc);
			}
		}
	}
	return NULL;
}

Test(cache_threads, readers_never_see_a_place_that_was_given_away)
{
	pthread_t threads[N_THREADS];
	struct crowd crowd[N_THREADS];
	struct image img[2];
	struct cache_stats st;
	struct cache_dir d;
	struct cache *c;

	cache_dir_make(&d);
	image_make(&img[0], 1, 40, 20000, 40);
	image_make(&img[1], 2, 60, 50000, 60);
	c = cache_dir_open(&d, 2000000);
	for (unsigned int i = 0; i < N_THREADS; i++) {
		crowd[i] = (struct crowd){ .c = c, .img = img, .id = i };
		cr_assert_eq(pthread_create(&threads[i], NULL, stir, &crowd[i]),
			     0);
	}
	for (unsigned int i = 0; i < N_THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	cache_get_stats(c, &st);
	cr_expect_gt(st.evicted, 0);
	cr_expect_gt(st.hits, 0);
	cr_expect_leq(st.bytes, 2000000);
	cr_expect_eq(st.damaged, 0);
	cr_expect_eq(st.pinned_bytes, 0);
	cache_close(c);
	/* And the index that so many wrote is right. */
	c = cache_dir_open(&d, 2000000);
	for (size_t i = 0; i < 60; i++)
		(void)get_block(c, &img[1], i);
	cache_get_stats(c, &st);
	cr_expect_eq(st.damaged, 0);
	cache_close(c);
	image_fini(&img[0]);
	image_fini(&img[1]);
	cache_dir_remove(&d);
}
