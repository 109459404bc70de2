// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "cli/image_differs.h"

TestSuite(differs, .timeout = 120);

Test(differs, names_of_an_image_give_no_orders_to_a_terminal)
{
	struct image_differs d;

	image_differs_start(&d);
	d.base.n = 1;
	d.base.differs(&d.base, "/a\x1b[2J\n\xc2\x9bm", "its mode");
	cr_expect_str_eq(d.shown[0], "/a?[2J???m: its mode");
}
