// SPDX-License-Identifier: Apache-2.0
/* The table of images on a node, and their folders. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/images.h"

TestSuite(images_table, .timeout = 10);

static struct image *add(struct images *t, const struct digest *id)
{
	struct artifact a = { .digest = *id };
	AUTO_FREE char *staged = NULL;
	struct image *i = NULL;

	cr_assert_eq(buf_puts(&a.manifest_json, "{}"), 0);
	cr_assert_eq(buf_puts(&a.config_json, "{}"), 0);
	cr_assert_eq(images_stage(t, id, &staged, NULL), 0);
	cr_assert_eq(images_add(t, staged, &a, "h:5000", "r", false, &i, NULL),
		     0);
	return i;
}

Test(images_table, a_removed_image_does_not_take_its_successor_along)
{
	char dir[] = "/tmp/images-table.XXXXXX";
	struct image *first, *second;
	struct images *t = NULL;
	struct digest id;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(digest_of("x", 1, &id), 0);
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	first = add(t, &id);
	cr_assert_eq(images_remove(first, NULL), 0);
	second = add(t, &id);
	cr_assert_neq(first, second);
	/* Somebody who listed the images before comes late. */
	cr_expect_eq(images_remove(first, NULL), -EBUSY);
	cr_expect_eq(access(second->dir, F_OK), 0);
	cr_expect_eq(images_remove(second, NULL), 0);
	images_put(first);
	images_put(second);
	images_close(t);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}
