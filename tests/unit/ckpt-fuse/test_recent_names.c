// SPDX-License-Identifier: Apache-2.0
/* Tests the set of recently noted paths. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "ckpt-fuse/mount/recent_names.h"

#define ME 70
#define OTHER 71
#define VALID 10

Test(recent_names, a_path_is_known_to_its_thread_until_it_is_old_or_taken)
{
	struct recent_names r;

	recent_names_init(&r, VALID);
	cr_expect_not(recent_names_has(&r, ME, "a/b", 5));
	recent_names_add(&r, ME, "a/b", 5);
	cr_expect_not(recent_names_has(&r, OTHER, "a/b", 5));
	cr_expect_not(recent_names_has(&r, ME, "a", 5));
	cr_expect(recent_names_has(&r, ME, "a/b", 5));
	cr_expect(recent_names_has(&r, ME, "a/b", 4 + VALID));
	cr_expect_not(recent_names_has(&r, ME, "a/b", 5 + VALID));
	recent_names_add(&r, ME, "a/b", 7);
	cr_expect(recent_names_has(&r, ME, "a/b", 5 + VALID));
	cr_expect(recent_names_take(&r, ME, "a/b", 8));
	cr_expect_not(recent_names_take(&r, ME, "a/b", 8));
	recent_names_fini(&r);
}

Test(recent_names, the_oldest_of_too_many_goes)
{
	struct recent_names r;
	char name[16];

	recent_names_init(&r, 1000);
	for (unsigned int i = 0; i <= RECENT_NAMES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		recent_names_add(&r, ME, name, i);
	}
	cr_expect_not(recent_names_has(&r, ME, "n0", 100));
	cr_expect(recent_names_has(&r, ME, "n1", 100));
	cr_expect(recent_names_has(&r, ME, name, 100));
	/* A freed place is reused before an entry is replaced. */
	cr_expect(recent_names_take(&r, ME, "n9", 100));
	recent_names_add(&r, ME, "new", 100);
	cr_expect(recent_names_has(&r, ME, "n1", 100));
	recent_names_fini(&r);
}
