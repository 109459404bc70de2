// SPDX-License-Identifier: Apache-2.0
/* What a successor knows of requests that a process had begun. */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt-fuse/mount/begun.h"

static struct begun *b;
static int fd;

static void restart(void)
{
	struct error err = ERROR_INIT;

	begun_free(b);
	cr_assert_eq(begun_new(fd, &b, &err), 0, "%s", err.msg);
}

static void setup(void)
{
	fd = memfd_create("test", MFD_CLOEXEC);
	cr_assert_geq(fd, 0);
	b = NULL;
	restart();
}

static void teardown(void)
{
	begun_free(b);
	(void)close(fd);
}

TestSuite(begun, .init = setup, .fini = teardown, .timeout = 60);

Test(begun, is_known_to_a_successor_until_it_is_answered)
{
	struct begun_names over = { .from_id = 0 };

	begun_add(b, 5, &(const struct begun_names){ .over_id = 77 });
	begun_add(b, 6, NULL);
	begun_add(b, 7, NULL);
	begun_end(b, 7);
	/* It is no news to who began it. */
	cr_expect_not(begun_find(b, 5, NULL));
	restart();
	cr_expect(begun_find(b, 5, &over));
	cr_expect_eq(over.over_id, 77);
	cr_expect(begun_find(b, 6, NULL));
	cr_expect_not(begun_find(b, 7, NULL));
	cr_expect_not(begun_find(b, 8, NULL));
	begun_end(b, 5);
	restart();
	cr_expect_not(begun_find(b, 5, NULL));
	cr_expect(begun_find(b, 6, NULL));
}

/* How things were before the first try. */
Test(begun, stays_as_it_was_when_it_is_begun_again)
{
	struct begun_names over = { .from_id = 0 };

	begun_add(b, 5, &(const struct begun_names){ .over_id = 77 });
	restart();
	begun_add(b, 5, &(const struct begun_names){ .over_id = 88 });
	restart();
	cr_expect(begun_find(b, 5, &over));
	cr_expect_eq(over.over_id, 77);
}

Test(begun, of_no_request_is_nothing)
{
	begun_add(b, 0, &(const struct begun_names){ .over_id = 1 });
	restart();
	cr_expect_not(begun_find(b, 0, NULL));
	begun_end(b, 0);
}

/* Each process leaves some that were answered in the moment of its end. */
Test(begun, makes_room_where_the_longest_dead_left_some)
{
	for (uint64_t life = 1; life <= 100; life++) {
		for (uint64_t i = 0; i < 8; i++)
			begun_add(b, life * 100 + i,
				  &(const struct begun_names){ .over_id =
								       life });
		restart();
	}
	for (uint64_t life = 90; life <= 100; life++)
		for (uint64_t i = 0; i < 8; i++)
			cr_expect(begun_find(b, life * 100 + i, NULL),
				  "of life %d", (int)life);
	cr_expect_not(begun_find(b, 100, NULL));
}

Test(begun, without_a_file_is_known_to_nobody_else)
{
	struct begun *alone;
	struct error err = ERROR_INIT;

	cr_assert_eq(begun_new(-1, &alone, &err), 0, "%s", err.msg);
	begun_add(alone, 5, &(const struct begun_names){ .over_id = 1 });
	cr_expect_not(begun_find(alone, 5, NULL));
	begun_end(alone, 5);
	begun_free(alone);
}
