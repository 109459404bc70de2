// SPDX-License-Identifier: Apache-2.0
/* Usage of the disk, measured by several threads at once. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "snapshotter/node/control/disk.h"

#define IMAGES 40
#define LOOKS 60

static char root[] = "/tmp/disk-look.XXXXXX";
static struct disk_usage want;
static atomic_uint wrong;

static void *look_often(void *arg)
{
	for (unsigned int k = 0; k < LOOKS; k++) {
		struct disk_usage u;

		disk_look(root, &u);
		atomic_fetch_add(&wrong,
				 u.images != want.images ||
					 disk_sum(&u) != disk_sum(&want));
	}
	return arg;
}

static void make_images(void)
{
	static char content[10000];
	struct error err = ERROR_INIT;
	char path[80];

	cr_assert(mkdtemp(root));
	for (unsigned int k = 0; k < IMAGES; k++) {
		(void)snprintf(path, sizeof(path), "%s/images/i%u", root, k);
		cr_assert_eq(fs_mkdir_p(path, 0700, &err), 0, "%s", err.msg);
		(void)snprintf(path, sizeof(path), "%s/images/i%u/m", root, k);
		cr_assert_eq(fs_replace_file(path, content, sizeof(content),
					     0600, &err),
			     0, "%s", err.msg);
	}
}

/* Files on another file system, and those behind a symlink, do not count. */
Test(disk_look, counts_nothing_that_is_mounted_and_follows_no_link)
{
	AUTO_FREE char *mnt = NULL;
	AUTO_FREE char *up = NULL;
	struct error err = ERROR_INIT;
	struct disk_usage u;

	make_images();
	disk_look(root, &want);
	cr_assert(asprintf(&mnt, "%s/images/mnt", root) > 0);
	cr_assert(asprintf(&up, "%s/images/up", root) > 0);
	cr_assert_eq(fs_mkdir_p(mnt, 0700, &err), 0, "%s", err.msg);
	cr_assert_eq(symlink("..", up), 0);
	disk_look(root, &u);
	cr_expect_geq(u.images, want.images);
	cr_expect_lt(u.images, want.images + 10000);
	want = u;
	/* Without the right to mount, `mnt` stays an ordinary folder. */
	if (mount("none", mnt, "tmpfs", 0, "size=1m") == 0) {
		AUTO_FREE char *file = NULL;

		cr_assert(asprintf(&file, "%s/f", mnt) > 0);
		cr_assert_eq(fs_replace_file(file, root, sizeof(root), 0600,
					     &err),
			     0, "%s", err.msg);
		disk_look(root, &u);
		cr_expect_leq(u.images, want.images);
		cr_assert_eq(umount(mnt), 0);
	}
	cr_expect_eq(fs_remove_tree(root, &err), 0, "%s", err.msg);
}

Test(disk_look, counts_the_same_from_several_threads_and_moves_nobody,
     .timeout = 120)
{
	AUTO_FREE char *before = getcwd(NULL, 0);
	AUTO_FREE char *after = NULL;
	struct error err = ERROR_INIT;
	pthread_t threads[4];

	make_images();
	disk_look(root, &want);
	cr_expect_geq(want.images, IMAGES * 10000);
	for (size_t k = 0; k < ARRAY_SIZE(threads); k++)
		cr_assert_eq(pthread_create(&threads[k], NULL, look_often,
					    NULL),
			     0);
	for (size_t k = 0; k < ARRAY_SIZE(threads); k++)
		cr_assert_eq(pthread_join(threads[k], NULL), 0);
	cr_expect_eq(atomic_load(&wrong), 0);
	after = getcwd(NULL, 0);
	cr_assert(before && after);
	cr_expect_str_eq(after, before);
	cr_expect_eq(fs_remove_tree(root, &err), 0, "%s", err.msg);
}
