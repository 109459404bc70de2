// SPDX-License-Identifier: Apache-2.0
/* Members of a group in one process: what is read from the store, what a member that lies
 * does, and what is left when the store fails. */
#include "groupio/groupio.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "groupio/group_priv.h"
#include "tests/unit/groupio/group_fixture.h"

TestSuite(group, .timeout = 120, .fini = members_forget_key);

Test(group, reads_each_unit_from_the_store_once_for_all)
{
	struct member all[3];

	members_begin(all, 3);
	for (size_t i = 0; i < 3; i++) {
		member_open(&all[i], "one");
		member_read(&all[i], 0, 0); /* so that the others know of it */
	}
	for (uint64_t u = 0; u < UNITS; u++)
		for (size_t i = 0; i < 3; i++)
			member_read(&all[i], u, 0);
	cr_expect_eq(members_reads(all, 3), UNITS);
	for (size_t i = 0; i < 3; i++) {
		cr_expect_gt(atomic_load(&all[i].store.n_reads), 0);
		member_end(&all[i]);
	}
	cr_expect_eq(atomic_load(&stores_released), 3);
}

static bool is_joining(const struct member *m)
{
	bool is;

	(void)pthread_mutex_lock(&m->group->lock);
	is = m->group->is_joining;
	(void)pthread_mutex_unlock(&m->group->lock);
	return is;
}

/* A member that is the place itself would begin to read at once. */
Test(group, waits_for_as_many_members_as_there_will_be)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;
	struct member all[2];
	char host[64];
	int64_t enough;

	members_expected = 2;
	members_begin_place();
	member_begin(&all[0]);
	cr_assert_eq(group_wait_host(all[0].group, until, host, NULL), 0);
	enough = clock_now_ns() + NS_PER_S / 2;
	while (clock_now_ns() < enough) {
		cr_assert(is_joining(&all[0]));
		member_nap();
	}
	member_begin(&all[1]);
	while (is_joining(&all[0]) || is_joining(&all[1])) {
		cr_assert_lt(clock_now_ns(), until);
		member_nap();
	}
	cr_expect_eq(member_stats(&all[0]).members, 1);
	members_end(all, 2);
}

Test(group, gives_parts_of_units)
{
	struct member all[2];

	members_begin(all, 2);
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	for (uint64_t u = 0; u < UNITS; u++)
		for (size_t i = 0; i < 2; i++)
			member_read(&all[i], u, 1000 + u);
	cr_expect_lt(members_reads(all, 2), 2 * UNITS);
	members_end(all, 2);
}

/* Eight slots: six are for what this member read from the store. */
Test(group, keeps_what_others_sent_where_memory_is_spare)
{
	struct member all[2];
	uint64_t first, second;

	members_begin_with_file(all, 2);
	for (uint64_t u = 0; u < UNITS; u++)
		member_read(&all[0], u, 0);
	first = member_stats(&all[0]).received_bytes;
	for (uint64_t u = 0; u < UNITS; u++)
		member_read(&all[0], u, 0);
	second = member_stats(&all[0]).received_bytes - first;
	cr_expect_gt(first, 5 * member_unit);
	cr_expect_leq(second + 2 * member_unit, first + 100);
	cr_expect_eq(members_reads(all, 2), UNITS);
	members_end(all, 2);
}

Test(group, reads_the_share_of_a_member_that_is_left_alone_once)
{
	struct member all[4];

	members_begin_with_file(all, 4);
	for (size_t i = 0; i < 3; i++)
		member_shun(&all[i], &all[3], FOR_LONG_NS);
	for (uint64_t u = 0; u < UNITS; u++)
		for (size_t i = 0; i < 3; i++)
			member_read(&all[i], u, 0);
	cr_expect(members_reads(all, 3) == UNITS &&
		  members_reads(&all[3], 1) == 0);
	members_end(all, 4);
}

/* Units that a member reads beside the plan are asked of it, and not read from the store again. */
Test(group, tells_members_which_units_it_reads)
{
	struct member all[3];

	members_begin_with_file(all, 3);
	member_shun(&all[0], &all[1], FOR_LONG_NS);
	member_shun(&all[0], &all[2], FOR_LONG_NS);
	for (uint64_t u = 0; u < UNITS; u++)
		member_read(&all[0], u, 0);
	member_wait_told(&all[2], &all[0], UNITS);
	member_shun(&all[0], &all[2], 0);
	/* The eight slots have these units still. */
	for (uint64_t u = UNITS - 6; u < UNITS; u++)
		member_read(&all[2], u, 0);
	cr_expect_eq(atomic_load(&all[2].store.n_reads), 0);
	members_end(all, 3);
}

/* A member that read all units before the others came would else send each unit to each of
 * them. */
Test(group, asks_a_member_that_came_first_once_for_all)
{
	const uint64_t n_units = 6; /* all members have memory for them */
	struct member all[5];
	uint64_t sent = 0;
	bool is_own;

	members_begin(all, 5);
	member_open(&all[0], "one");
	for (uint64_t u = 0; u < n_units; u++)
		member_read(&all[0], u, 0);
	for (size_t i = 1; i < 5; i++)
		member_open(&all[i], "one");
	members_wait_opened(all, 5);
	for (size_t i = 1; i < 5; i++)
		member_wait_told(&all[i], &all[0], n_units);
	for (uint64_t u = 0; u < n_units; u++) {
		is_own = (u + all[0].file->id.b[0]) % 5 == all[0].file->self_at;
		sent += (is_own ? 4 : 1) * member_unit;
		for (size_t i = 1; i < 5; i++)
			member_read(&all[i], u, 0);
	}
	cr_expect_eq(members_reads(all, 5), n_units);
	while (member_stats(&all[0]).sent_bytes < sent) /* or the test's end */
		member_nap();
	cr_expect_eq(member_stats(&all[0]).sent_bytes, sent);
	members_end(all, 5);
}

/* Where both waited for one another's reads of the store, all of their threads could. */
Test(group, reads_its_own_units_that_another_member_gave_up)
{
	struct member all[3];
	uint64_t own = 0;

	members_begin_with_file(all, 3);
	(void)pthread_mutex_lock(&all[0].group->lock);
	while (file_owner(all[0].file, own))
		own++;
	all[0].file->members[0]->has[0] = 255;
	(void)pthread_mutex_unlock(&all[0].group->lock);
	member_read(&all[0], own, 0);
	cr_expect(members_reads(all, 1) == 1 && members_reads(all + 1, 2) == 0);
	members_end(all, 3);
}

Test(group, takes_no_unit_of_another_version)
{
	struct member all[2];

	members_begin(all, 2);
	all[1].store.lies = true;
	member_open(&all[0], "one");
	member_open(&all[1], "two");
	for (uint64_t u = 0; u < UNITS; u++)
		member_read(&all[0], u, 0);
	cr_expect_eq(atomic_load(&all[0].store.n_reads), UNITS);
	members_end(all, 2);
}

Test(group, believes_no_member_whose_bytes_are_not_the_files)
{
	struct member all[2];
	struct group_stats s;

	members_begin(all, 2);
	all[1].store.lies = true;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	for (uint64_t u = 0; u < UNITS; u++)
		member_read(&all[0], u, 0);
	group_stats(all[0].group, &s);
	cr_expect_gt(s.wrong_total, 0);
	cr_expect_eq(s.received_bytes, 0);
	members_end(all, 2);
}

Test(group, says_what_the_store_said_to_who_asked_it)
{
	struct error err = ERROR_INIT;
	struct member all[2];
	uint8_t buf[100];

	members_begin(all, 2);
	all[1].store.fails = true;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	/* A member whose store fails is no failure of others. */
	for (uint64_t u = 0; u < UNITS; u++)
		member_read(&all[0], u, 0);
	group_file_close(all[0].file);
	group_free(all[0].group);
	for (uint64_t u = 0; u < UNITS; u++) {
		int rc = group_read(all[1].file, u * UNIT, buf, 100, &err);

		cr_assert(rc == 0 || rc == -EACCES);
	}
	cr_expect_str_eq(err.msg, "the store says no");
	/* Its failures do not make it a slow store. */
	(void)pthread_mutex_lock(&all[1].group->lock);
	cr_expect_eq(all[1].group->slow_ns, 0);
	(void)pthread_mutex_unlock(&all[1].group->lock);
	member_end(&all[1]);
}

static void *read_inner(void *arg)
{
	struct member *m = arg;
	const size_t size = UNITS * member_unit - 100;
	uint8_t *buf = malloc(size);
	size_t n_wrong = 0;

	/* The first and the last unit not whole. */
	if (buf && group_read(m->file, 50, buf, size - 100, NULL) == 0)
		for (size_t i = 0; i < size - 100; i++)
			n_wrong += buf[i] != (i + 50) / member_unit;
	else
		n_wrong = 1;
	free(buf);
	return n_wrong ? m : NULL;
}

/* The fetches of a unit that is shut do not keep back those of the units behind it. */
Test(group, fetches_the_units_of_a_read_side_by_side)
{
	struct member all[2];
	pthread_t readers[2];
	void *wrong;

	members_begin_with_file(all, 2);
	/* Both before a reader begins: it has the other member read, too. */
	for (size_t i = 0; i < 2; i++)
		all[i].store.gate = SHUT;
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&readers[i], NULL, read_inner,
					    &all[i]),
			     0);
	for (size_t i = 0; i < 2; i++)
		member_wait_held(&all[i], 4);
	for (size_t i = 0; i < 2; i++)
		atomic_store(&all[i].store.is_opened, true);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(pthread_join(readers[i], &wrong), 0);
		cr_expect_null(wrong);
	}
	cr_expect_eq(members_reads(all, 2), UNITS);
	members_end(all, 2);
}

/* ------------------------------------------------------------------ a broken loop --- */

static int find_epoll(void)
{
	char path[32], what[64];
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");
	int fd = -1;

	cr_assert_not_null(d);
	while ((e = readdir(d))) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%.9s",
			       e->d_name);
		n = readlink(path, what, sizeof(what) - 1);
		what[n > 0 ? n : 0] = 0;
		if (strcmp(what, "anon_inode:[eventpoll]") == 0)
			fd = atoi(e->d_name);
	}
	(void)closedir(d);
	return fd;
}

Test(group, reads_alone_when_its_loop_has_failed)
{
	struct member all[2];
	pthread_t reader;
	int loop_fd, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	members_begin_place();
	member_begin(&all[0]);
	loop_fd = find_epoll();
	cr_assert_geq(loop_fd, 0);
	member_begin(&all[1]);
	members_wait_linked(all, 2);
	all[1].store.gate = SHUT;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	cr_assert_eq(pthread_create(&reader, NULL, member_read_all, &all[0]),
		     0);
	member_wait_held(&all[1], 1);
	cr_assert_geq(dup3(fd, loop_fd, O_CLOEXEC), 0);
	cr_assert_eq(pthread_join(reader, NULL), 0);
	cr_expect_eq(member_stats(&all[0]).members, 0);
	member_read_all(&all[0]);
	atomic_store(&all[1].store.is_opened, true);
	members_end(all, 2);
	(void)close(fd);
}
