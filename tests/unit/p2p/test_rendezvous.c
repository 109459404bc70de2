// SPDX-License-Identifier: Apache-2.0
/* Which of several trackers an image is at. */
#include <criterion/criterion.h>

#include "p2p/tracker/tracker.h"

TestSuite(rendezvous, .timeout = 120);

Test(rendezvous, moves_only_the_images_of_one_that_is_lost)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	static const char *const fewer[] = { "a", "c", "d" };
	unsigned int count[4] = { 0 };

	for (unsigned int n = 0; n < 1000; n++) {
		size_t four[4], three[3];
		struct digest d;

		cr_assert_eq(digest_of(&n, sizeof(n), &d), 0);
		cr_assert_eq(rendezvous(&d, names, 4, four, NULL), 0);
		cr_assert_eq(rendezvous(&d, fewer, 3, three, NULL), 0);
		count[four[0]]++;
		if (four[0] == 1)
			cr_expect_str_eq(fewer[three[0]], names[four[1]]);
		else
			cr_expect_str_eq(fewer[three[0]], names[four[0]]);
	}
	for (size_t i = 0; i < 4; i++)
		cr_expect(count[i] > 190 && count[i] < 310, "%u", count[i]);
}
