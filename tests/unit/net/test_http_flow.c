// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "net/http_flow.h"

TestSuite(http_flow, .timeout = 120);

#define MS 1000000LL

/* A link of `rate` bytes a second and `rtt_us`, shared by `n` that do the same:
 * what each gets when its window is this. */
static uint64_t shared_rate(uint64_t rate, uint32_t rtt_us, unsigned int n,
			    uint32_t window)
{
	uint64_t each = (uint64_t)window * 1000000 / (rtt_us ? rtt_us : 1);

	return each * n > rate ? rate / n : each;
}

/* Where the windows end up. */
static uint32_t settle(uint64_t rate, uint32_t rtt_us, unsigned int n)
{
	uint32_t window = 64u << 10;

	for (int i = 0; i < 100; i++)
		window = http_flow_window(shared_rate(rate, rtt_us, n, window) /
						  100,
					  10 * MS, rtt_us);
	return window;
}

Test(http_flow, one_connection_fills_the_link_and_queues_little)
{
	/* 1 Gbit/s, 5 ms. */
	uint32_t window = settle(125000000, 5000, 1);

	cr_expect_geq(window, 625000, "%u is less than the link holds", window);
	cr_expect_leq(window, 625000 + 125000 * 5, "%u queues too much",
		      window);
}

Test(http_flow, many_connections_share_the_same_queue)
{
	uint64_t all = 8ull * settle(125000000, 5000, 8);

	cr_expect_geq(all, 625000);
	cr_expect_leq(all, 625000 + 125000 * 5);
}

Test(http_flow, a_long_way_is_filled_too)
{
	/* 1 Gbit/s, 80 ms. */
	cr_expect_geq(settle(125000000, 80000, 1), 10000000);
}

Test(http_flow, windows_have_bounds)
{
	cr_expect_geq(http_flow_window(0, 10 * MS, 1000), 4096);
	cr_expect_leq(http_flow_window(UINT64_C(1) << 40, 10 * MS, 1000000),
		      64u << 20);
}
