// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/mount.h"

TestSuite(mount, .timeout = 240);

static int say_seven(void *arg, struct error *err)
{
	return 7;
}

Test(mount, whoever_waits_for_the_lock_of_an_image_gives_up)
{
	char dir[] = "/tmp/bootseer-mount.XXXXXX";
	struct flock l = { .l_type = F_WRLCK, .l_start = 5, .l_len = 1 };
	struct error err = ERROR_INIT;
	AUTO_FREE char *path = NULL;
	int fd;

	cr_assert_not_null(mkdtemp(dir));
	path = fs_join(dir, "mount.lock");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &l), 0);
	cr_expect_eq(mount_isolated(dir, 6, say_seven, NULL, &err), 7);
	cr_expect_eq(mount_isolated(dir, 5, say_seven, NULL, &err), -ETIMEDOUT);
	cr_expect(strstr(err.msg, "mount.lock'"), "%s", err.msg);
	(void)close(fd);
	cr_expect_eq(mount_isolated(dir, 5, say_seven, NULL, &err), 7);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

/* The clock is the test's: what the alarm would do is done at once. */
static int hang(void *arg, struct error *err)
{
	unsigned int left = alarm(0);

	if (left == 0 || left > 300)
		return error_set(err, EPROTO, "%u s are left", left);
	(void)raise(SIGALRM);
	return 0;
}

Test(mount, a_mount_that_never_ends_is_given_up_and_keeps_no_lock)
{
	char dir[] = "/tmp/bootseer-mount.XXXXXX";
	struct error err = ERROR_INIT;

	cr_assert_not_null(mkdtemp(dir));
	cr_expect_eq(mount_isolated(dir, 5, hang, NULL, &err), -ETIMEDOUT, "%s",
		     err.msg);
	cr_expect(strstr(err.msg, "took over 300 s"), "%s", err.msg);
	cr_expect_eq(mount_isolated(dir, 5, say_seven, NULL, &err), 7);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}
