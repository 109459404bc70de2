// SPDX-License-Identifier: Apache-2.0
/* Tests what the next process knows of requests begun by an earlier one. */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt-fuse/mount/nodes.h"

static struct nodes t;
static int fd;

static void begin(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(nodes_init(&t, fd, &err), 0, "%s", err.msg);
}

static void restart(void)
{
	nodes_fini(&t);
	begin();
}

static void setup(void)
{
	fd = memfd_create("test", MFD_CLOEXEC);
	cr_assert_geq(fd, 0);
	begin();
}

static void teardown(void)
{
	nodes_fini(&t);
	(void)close(fd);
}

TestSuite(begun, .init = setup, .fini = teardown, .timeout = 60);

Test(begun, is_known_to_a_successor_until_it_is_answered)
{
	nodes_begin_change(&t, 5);
	nodes_begin_change(&t, 6);
	nodes_begin_change(&t, 7);
	nodes_end_change(&t, 7);
	/* The process that began the request is not told so. */
	cr_expect_not(nodes_was_begun(&t, 5));
	restart();
	cr_expect(nodes_was_begun(&t, 5));
	cr_expect(nodes_was_begun(&t, 6));
	cr_expect_not(nodes_was_begun(&t, 7));
	cr_expect_not(nodes_was_begun(&t, 8));
	nodes_end_change(&t, 5);
	restart();
	cr_expect_not(nodes_was_begun(&t, 5));
	cr_expect(nodes_was_begun(&t, 6));
}

Test(begun, stays_known_when_it_is_begun_again)
{
	nodes_begin_change(&t, 5);
	restart();
	nodes_begin_change(&t, 5);
	cr_expect(nodes_was_begun(&t, 5));
	restart();
	cr_expect(nodes_was_begun(&t, 5));
}

/* A begun request stays known however often the journal is rewritten. */
Test(begun, stays_known_while_many_others_come_and_go)
{
	const uint64_t first = 1000, last = 300000;
	struct stat st;

	nodes_begin_change(&t, 5);
	restart();
	for (uint64_t i = first; i < last; i++) {
		nodes_begin_change(&t, i);
		nodes_end_change(&t, i);
	}
	nodes_begin_change(&t, last);
	restart();
	cr_expect(nodes_was_begun(&t, 5));
	cr_expect(nodes_was_begun(&t, last));
	cr_expect_not(nodes_was_begun(&t, last - 1));
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_lt(st.st_blocks * 512, 2 << 20);
}

Test(begun, of_no_request_is_nothing)
{
	nodes_begin_change(&t, 0);
	restart();
	cr_expect_not(nodes_was_begun(&t, 0));
	nodes_end_change(&t, 0);
}

/* Each process leaves requests that were answered just before it ended. */
Test(begun, makes_room_where_the_longest_dead_left_some)
{
	for (uint64_t life = 1; life <= 100; life++) {
		for (uint64_t i = 0; i < 8; i++)
			nodes_begin_change(&t, life * 100 + i);
		restart();
	}
	for (uint64_t life = 90; life <= 100; life++)
		for (uint64_t i = 0; i < 8; i++)
			cr_expect(nodes_was_begun(&t, life * 100 + i),
				  "of life %d", (int)life);
	cr_expect_not(nodes_was_begun(&t, 100));
}

Test(begun, without_a_file_is_known_to_nobody_else)
{
	struct nodes alone;
	struct error err = ERROR_INIT;

	cr_assert_eq(nodes_init(&alone, -1, &err), 0, "%s", err.msg);
	nodes_begin_change(&alone, 5);
	cr_expect_not(nodes_was_begun(&alone, 5));
	nodes_end_change(&alone, 5);
	nodes_fini(&alone);
}
