// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "containerd-plugin/usage.h"

TestSuite(usage, .timeout = 120);

static struct error err;

static void put_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "text", 4), 4);
	(void)close(fd);
}

Test(usage, counts_what_has_several_names_once)
{
	char dir[] = "/var/tmp/bootseer-usage.XXXXXX";
	int64_t size = -1, inodes = -1;
	int fd;

	cr_assert_not_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(mkdirat(fd, "a", 0700), 0);
	cr_assert_eq(mkdirat(fd, "b", 0700), 0);
	put_file(fd, "a/one");
	put_file(fd, "two");
	cr_assert_eq(linkat(fd, "a/one", fd, "b/same", 0), 0);
	cr_assert_eq(symlinkat("/", fd, "b/link"), 0);
	(void)close(fd);
	cr_expect_eq(usage_count(dir, UINT64_MAX, &size, &inodes, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(inodes, 6);
	cr_expect_geq(size, 0);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
	cr_expect_eq(usage_count(dir, UINT64_MAX, &size, &inodes, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(inodes, 0);
}

/* Longer than a path, and with more folders than there are descriptors. */
Test(usage, counts_a_tree_that_no_path_leads_through)
{
	const int n = 3000;
	char dir[] = "/var/tmp/bootseer-usage.XXXXXX";
	int64_t size = -1, inodes = -1;
	int fd;

	cr_assert_not_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < n; i++) {
		int next;

		cr_assert_eq(mkdirat(fd, "deep", 0700), 0);
		cr_assert_eq(mkdirat(fd, "e", 0700), 0);
		next = openat(fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cr_assert_geq(next, 0);
		(void)close(fd);
		fd = next;
	}
	put_file(fd, "end");
	(void)close(fd);
	cr_expect_eq(usage_count(dir, UINT64_MAX, &size, &inodes, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(inodes, 2 * n + 2);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

/* ---- a container that keeps whoever counts going ---- */

#define RING \
	4000 /* folders in each other; more than are met between two moves */

struct ring {
	int top;
	int last[2]; /* the innermost of each half */
	pthread_t thread;
	atomic_bool is_over;
};

/* Without end: the upper half becomes what is below the lower one. */
static void *ring_turn(void *arg)
{
	struct ring *r = arg;

	for (int upper = 0; !atomic_load(&r->is_over); upper = !upper) {
		cr_assert_eq(renameat(r->last[upper], "d", r->top, "new"), 0);
		cr_assert_eq(renameat(r->top, "d", r->last[!upper], "d"), 0);
		cr_assert_eq(renameat(r->top, "new", r->top, "d"), 0);
	}
	return NULL;
}

static void ring_start(struct ring *r, const char *dir)
{
	int parent, next;

	atomic_init(&r->is_over, false);
	r->top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(r->top, 0);
	parent = r->top;
	for (int i = 0; i < RING; i++) {
		cr_assert_eq(mkdirat(parent, "d", 0700), 0);
		next = openat(parent, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cr_assert_geq(next, 0);
		if (i % (RING / 2))
			(void)close(parent);
		if (i % (RING / 2) == RING / 2 - 1)
			r->last[i / (RING / 2)] = next;
		parent = next;
	}
	cr_assert_eq(pthread_create(&r->thread, NULL, ring_turn, r), 0);
}

static void ring_stop(struct ring *r)
{
	atomic_store(&r->is_over, true);
	(void)pthread_join(r->thread, NULL);
	(void)close(r->last[0]);
	(void)close(r->last[1]);
	(void)close(r->top);
}

Test(usage, folders_that_are_moved_in_front_of_it_are_met_once)
{
	char dir[] = "/var/tmp/bootseer-usage.XXXXXX";
	int64_t size = -1, inodes = -1;
	static struct ring r;

	cr_assert_not_null(mkdtemp(dir));
	ring_start(&r, dir);
	for (int i = 0; i < 20; i++) {
		cr_expect_eq(usage_count(dir, UINT64_MAX, &size, &inodes, &err),
			     0, "%s", err.msg);
		cr_expect_leq(inodes, RING + 1);
	}
	ring_stop(&r);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

Test(usage, ends_where_it_may_look_no_further)
{
	char dir[] = "/var/tmp/bootseer-usage.XXXXXX", name[16];
	int64_t size = -1, inodes = -1;
	int fd;

	cr_assert_not_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		put_file(fd, name);
	}
	(void)close(fd);
	cr_expect_eq(usage_count(dir, 50, &size, &inodes, &err), 0, "%s",
		     err.msg);
	cr_expect_lt(inodes, 100);
	cr_expect_gt(inodes, 10);
	cr_expect_eq(usage_count(dir, 1000, &size, &inodes, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(inodes, 101);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}
