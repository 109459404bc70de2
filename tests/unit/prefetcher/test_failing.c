// SPDX-License-Identifier: Apache-2.0
/* Cache, fetcher and prefetcher, whose threads or memory are not to be had. */
#include <criterion/criterion.h>
#include <errno.h>

#include "blockstore/device.h"
#include "common/clock.h"
#include "prefetcher/prefetcher.h"
#include "tests/unit/blockstore/cache_dir.h"
#include "tests/unit/failures.h"

TestSuite(prefetch_failing, .timeout = 120);

#define THREADS 6u

static void expect(struct failures *f, int rc, const struct error *err)
{
	int code = f->kind == FAIL_THREAD ? EAGAIN : ENOMEM;

	cr_expect_eq(rc, failures_hit(f) ? -code : 0, "round %u: %d %s", f->n,
		     rc, err->msg);
	cr_expect_eq(err->msg[0] != '\0', rc < 0, "%s", err->msg);
}

Test(prefetch_failing, a_cache_is_not_opened_and_can_be_opened_again)
{
	struct cache_dir d;

	cache_dir_make(&d);
	for (enum failure_kind k = 0; k < FAILURE_KINDS; k++) {
		struct failures f = { .kind = k };

		while (failures_next(&f)) {
			struct cache_config cfg = { .dir = d.path,
						    .quota = 64 << 20,
						    .segment_bytes =
							    CACHE_TEST_SEGMENT,
						    .scrub_every_ns =
							    3600 * NS_PER_S,
						    .scrub_rate = 1 << 20 };
			struct error err = ERROR_INIT;
			struct cache *c = NULL;

			expect(&f, cache_open(&cfg, &c, &err), &err);
			cache_close(c);
		}
		cr_expect_geq(f.n, 3);
	}
	cache_dir_remove(&d);
}

Test(prefetch_failing, a_fetcher_ends_the_threads_that_it_has)
{
	struct fetcher_config cfg = { .threads = THREADS,
				      .window = 1 << 20,
				      .window_max = 1 << 20,
				      .demand_timeout_ns = NS_PER_S };
	struct cache_dir d;

	cache_dir_make(&d);
	cfg.cache = cache_dir_open(&d, 64 << 20);
	for (enum failure_kind k = 0; k < FAILURE_KINDS; k++) {
		struct failures f = { .kind = k };

		while (failures_next(&f)) {
			struct error err = ERROR_INIT;
			struct fetcher *fetcher = NULL;

			expect(&f, fetcher_new(&cfg, &fetcher, &err), &err);
			fetcher_free(fetcher);
		}
		if (k == FAIL_THREAD) /* and one for deadlines */
			cr_expect_eq(f.n, THREADS + 2);
		else
			cr_expect_gt(f.n, 2);
	}
	cache_close(cfg.cache);
	cache_dir_remove(&d);
}

Test(prefetch_failing, a_prefetcher_ends_the_threads_that_it_has)
{
	struct prefetcher_config cfg = { .limits = { .hot_streams = 2,
						     .cold_streams = 2,
						     .hot_range = 100000,
						     .cold_range = 200000 } };

	for (enum failure_kind k = 0; k < FAILURE_KINDS; k++) {
		struct failures f = { .kind = k };

		while (failures_next(&f)) {
			struct error err = ERROR_INIT;
			struct prefetcher *p = NULL;

			expect(&f, prefetcher_new(&cfg, &p, &err), &err);
			prefetcher_free(p);
		}
		cr_expect_geq(f.n, 2);
	}
}
