// SPDX-License-Identifier: Apache-2.0
/* The table of images on a node, and their folders. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/images.h"

TestSuite(images_table, .timeout = 60);

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

Test(images_table, an_index_is_not_given_twice_over_a_restart)
{
	char dir[] = "/tmp/images-table.XXXXXX";
	struct images *t = NULL;
	struct image *i;
	struct digest id;
	uint64_t last = 0;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(digest_of("x", 1, &id), 0);
	for (int round = 0; round < 3; round++) {
		cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
		for (int k = 0; k < 2; k++) {
			i = add(t, &id);
			cr_expect_geq(i->state.index, last);
			last = i->state.index + 1;
			cr_expect_eq(images_remove(i, NULL), 0);
			images_put(i);
		}
		images_close(t);
	}
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

#define NAMED 3
static struct image *named[NAMED];

static void *move_name(void *arg)
{
	const unsigned int step = arg ? 1 : 2;

	for (unsigned int k = 0; k < 60; k++)
		cr_assert_eq(image_set_name(named[k * step % NAMED], "h/r:tag",
					    NULL),
			     0);
	return NULL;
}

/* Images that the disk says have the name. */
static int count_on_disk(void)
{
	int n = 0;

	for (size_t k = 0; k < NAMED; k++) {
		AUTO_FREE char *path = image_path(named[k], "state.json");
		AUTO_BUF text = BUF_INIT;

		cr_assert_eq(fs_read_file(path, 65536, &text, NULL), 0);
		n += strstr(text.data, "h/r:tag") != NULL;
	}
	return n;
}

Test(images_table, a_name_that_two_threads_move_leads_to_one_image)
{
	char dir[] = "/tmp/images-table.XXXXXX";
	struct images *t = NULL;
	pthread_t thread;
	struct digest id;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	for (size_t k = 0; k < NAMED; k++) {
		cr_assert_eq(digest_of(&k, sizeof(k), &id), 0);
		named[k] = add(t, &id);
	}
	cr_assert_eq(pthread_create(&thread, NULL, move_name, &id), 0);
	(void)move_name(NULL);
	pthread_join(thread, NULL);
	cr_expect_eq(count_on_disk(), 1);
	for (size_t k = 0; k < NAMED; k++)
		images_put(named[k]);
	images_close(t);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}
