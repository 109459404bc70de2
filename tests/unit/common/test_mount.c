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

static int return_seven(void *arg, struct error *err)
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
	cr_expect_eq(mount_isolated(dir, 6, return_seven, NULL, &err), 7);
	cr_expect_eq(mount_isolated(dir, 5, return_seven, NULL, &err),
		     -ETIMEDOUT);
	cr_expect(strstr(err.msg, "mount.lock'"), "%s", err.msg);
	(void)close(fd);
	cr_expect_eq(mount_isolated(dir, 5, return_seven, NULL, &err), 7);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

/* Do at once what the alarm would do later, so that the test need not wait. */
static int raise_alarm_now(void *arg, struct error *err)
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
	cr_expect_eq(mount_isolated(dir, 5, raise_alarm_now, NULL, &err),
		     -ETIMEDOUT, "%s", err.msg);
	cr_expect(strstr(err.msg, "took over 300 s"), "%s", err.msg);
	cr_expect_eq(mount_isolated(dir, 5, return_seven, NULL, &err), 7);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

Test(mount, options_stand_behind_commas_and_fit_in_a_page_or_are_refused)
{
	struct mount_options o = MOUNT_OPTIONS_INIT;
	struct error err = ERROR_INIT;
	char name[1000] = "";

	memset(name, 'n', sizeof(name) - 1);
	cr_assert_eq(mount_options_add(&o, &err, "device=%s", "/a"), 0);
	cr_assert_eq(mount_options_add(&o, &err, "directio"), 0);
	cr_expect_str_eq(o.text, "device=/a,directio");
	cr_expect_eq(o.len, strlen(o.text));
	for (int i = 0; i < 4; i++)
		cr_assert_eq(mount_options_add(&o, &err, "%s", name), 0);
	cr_expect_eq(mount_options_add(&o, &err, "%s", name), -E2BIG);
	cr_expect_eq(o.len, strlen(o.text), "what did not fit is not there");
	/* Fill it to the last byte; a further byte must not fit. */
	name[sizeof(o.text) - 1 - o.len - 1] = '\0';
	cr_expect_eq(mount_options_add(&o, &err, "%sn", name), -E2BIG);
	cr_expect_eq(mount_options_add(&o, &err, "%s", name), 0);
	cr_expect_eq(o.len, sizeof(o.text) - 1);
	cr_expect_eq(mount_options_add(&o, &err, "x"), -E2BIG);
}

Test(mount, what_is_seen_is_what_is_found)
{
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;
	struct mount_seen seen;

	cr_assert_eq(mount_see("/proc", &seen, &err), 1, "%s", err.msg);
	cr_assert_eq(mount_find("/proc", &line, &err), 1, "%s", err.msg);
	cr_expect_str_eq(seen.line.fstype, "proc");
	cr_expect_str_eq(seen.line.path, "/proc");
	cr_expect_str_eq(line.fstype, "proc");
	cr_expect_str_eq(line.root, seen.line.root);
	cr_expect_str_eq(line.source, seen.line.source);
	cr_expect_eq(line.minor, seen.line.minor);
	mount_line_fini(&line);
	cr_expect_eq(mount_see("/proc/none", &seen, &err), 0);
}
