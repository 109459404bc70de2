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
	begun_add(b, 5);
	begun_add(b, 6);
	begun_add(b, 7);
	begun_end(b, 7);
	/* It is no news to who began it. */
	cr_expect_not(begun_find(b, 5));
	restart();
	cr_expect(begun_find(b, 5));
	cr_expect(begun_find(b, 6));
	cr_expect_not(begun_find(b, 7));
	cr_expect_not(begun_find(b, 8));
	begun_end(b, 5);
	restart();
	cr_expect_not(begun_find(b, 5));
	cr_expect(begun_find(b, 6));
}

Test(begun, stays_known_when_it_is_begun_again)
{
	begun_add(b, 5);
	restart();
	begun_add(b, 5);
	cr_expect(begun_find(b, 5));
	restart();
	cr_expect(begun_find(b, 5));
}

Test(begun, of_no_request_is_nothing)
{
	begun_add(b, 0);
	restart();
	cr_expect_not(begun_find(b, 0));
	begun_end(b, 0);
}

/* Each process leaves some that were answered in the moment of its end. */
Test(begun, makes_room_where_the_longest_dead_left_some)
{
	for (uint64_t life = 1; life <= 100; life++) {
		for (uint64_t i = 0; i < 8; i++)
			begun_add(b, life * 100 + i);
		restart();
	}
	for (uint64_t life = 90; life <= 100; life++)
		for (uint64_t i = 0; i < 8; i++)
			cr_expect(begun_find(b, life * 100 + i), "of life %d",
				  (int)life);
	cr_expect_not(begun_find(b, 100));
}

Test(begun, without_a_file_is_known_to_nobody_else)
{
	struct begun *alone;
	struct error err = ERROR_INIT;

	cr_assert_eq(begun_new(-1, &alone, &err), 0, "%s", err.msg);
	begun_add(alone, 5);
	cr_expect_not(begun_find(alone, 5));
	begun_end(alone, 5);
	begun_free(alone);
}
