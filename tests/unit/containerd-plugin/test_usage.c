// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
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
	cr_expect_eq(usage_count(dir, &size, &inodes, &err), 0, "%s", err.msg);
	cr_expect_eq(inodes, 6);
	cr_expect_geq(size, 0);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
	cr_expect_eq(usage_count(dir, &size, &inodes, &err), 0, "%s", err.msg);
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
	cr_expect_eq(usage_count(dir, &size, &inodes, &err), 0, "%s", err.msg);
	cr_expect_eq(inodes, 2 * n + 2);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}
