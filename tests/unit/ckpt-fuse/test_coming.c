// SPDX-License-Identifier: Apache-2.0
/* Names that writers are going to open. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "ckpt-fuse/mount/coming.h"

Test(coming, a_name_is_known_until_its_writer_comes_or_does_not)
{
	struct coming_writers c;

	coming_init(&c);
	cr_expect(!coming_has(&c, "a/b", 0));
	coming_add(&c, "a/b", 5);
	cr_expect(coming_has(&c, "a/b", 5));
	cr_expect(!coming_has(&c, "a", 5));
	coming_drop(&c, "a/b");
	cr_expect(!coming_has(&c, "a/b", 5));
	coming_add(&c, "a/b", 5);
	coming_add(&c, "a/b", 7);
	cr_expect(coming_has(&c, "a/b", COMING_NS + 6));
	cr_expect(!coming_has(&c, "a/b", COMING_NS + 7));
	coming_fini(&c);
}

Test(coming, the_oldest_of_too_many_goes)
{
	struct coming_writers c;
	char name[16];

	coming_init(&c);
	for (unsigned int i = 0; i <= COMING_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		coming_add(&c, name, i);
	}
	cr_expect(!coming_has(&c, "n0", 0));
	cr_expect(coming_has(&c, "n1", 0));
	cr_expect(coming_has(&c, name, 0));
	coming_fini(&c);
}
