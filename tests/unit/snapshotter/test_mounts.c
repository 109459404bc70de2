// SPDX-License-Identifier: Apache-2.0
/* mount_image() at a mount point that may be in use. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/datapath/mounts.h"

TestSuite(mounts, .timeout = 120);

static bool is_same(const struct mount_wish *w, const struct mount_line *l)
{
	return strcmp(l->source, w->arg) == 0;
}

static int make(const struct mount_wish *w, struct error *err)
{
	return mount(w->arg, w->path, "tmpfs", 0, "size=64k") < 0
		       ? error_set(err, errno, "mount: %s", strerror(errno))
		       : 0;
}

static dev_t device_at(const char *path)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return st.st_dev;
}

Test(mounts, what_can_only_fail_makes_way_for_a_new_mount)
{
	char dir[] = "/tmp/mounts.XXXXXX";
	struct error err = ERROR_INIT;
	AUTO_FREE char *at = NULL;
	AUTO_FREE char *mark = NULL;
	struct mount_wish wish;
	bool adopted = true;
	dev_t below;

	cr_assert_eq(unshare(CLONE_NEWNS), 0, "needs root");
	cr_assert_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	cr_assert_not_null(mkdtemp(dir));
	at = fs_join(dir, "fs");
	mark = fs_join(at, "mark");
	cr_assert_eq(mkdir(at, 0700), 0);
	below = device_at(at);
	wish = (struct mount_wish){ .run_dir = dir,
				    .lock = 1,
				    .path = at,
				    .is_same = is_same,
				    .make = make,
				    .arg = "one" };
	cr_assert_eq(mount_image(&wish, &adopted, &err), 0, "%s", err.msg);
	cr_expect_not(adopted);
	cr_expect_neq(device_at(at), below);
	cr_assert_eq(mkdir(mark, 0700), 0);
	cr_assert_eq(mount_image(&wish, &adopted, &err), 0, "%s", err.msg);
	cr_expect(adopted);
	cr_expect_eq(access(mark, F_OK), 0);
	/* With `replaces`, a mount that looks the same is replaced too. */
	wish.replaces = true;
	cr_assert_eq(mount_image(&wish, &adopted, &err), 0, "%s", err.msg);
	cr_expect_not(adopted);
	cr_expect_lt(access(mark, F_OK), 0);
	/* Another mount replaces the first; nothing stays mounted below it. */
	wish.arg = "two";
	cr_assert_eq(mount_image(&wish, &adopted, &err), 0, "%s", err.msg);
	cr_expect_not(adopted);
	wish.replaces = false;
	wish.arg = "three";
	cr_expect_eq(mount_image(&wish, &adopted, &err), -EBUSY);
	cr_assert_eq(umount2(at, MNT_DETACH), 0);
	cr_expect_eq(device_at(at), below);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}
