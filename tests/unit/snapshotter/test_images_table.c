// SPDX-License-Identifier: Apache-2.0
/* The table of images on a node, and their folders. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/images/images.h"

TestSuite(images_table, .timeout = 120);

static struct image *add_at(struct images *t, const struct digest *id,
			    const struct image_place *place)
{
	struct artifact a = { .digest = *id };
	AUTO_FREE char *staged = NULL;
	struct image *i = NULL;

	cr_assert_eq(buf_puts(&a.manifest_json, "{}"), 0);
	cr_assert_eq(buf_puts(&a.config_json, "{}"), 0);
	cr_assert_eq(images_stage(t, id, &staged, NULL), 0);
	cr_assert_eq(images_stage_texts(staged, &a, NULL), 0);
	cr_assert_eq(images_add(t, staged, &a, place, &i, NULL), 0);
	return i;
}

static struct image *add(struct images *t, const struct digest *id)
{
	return add_at(t, id,
		      &(struct image_place){ .host = "h:5000", .repo = "r" });
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
	/* A caller that listed the images earlier must not remove the new one's folder. */
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
	for (int round = 0; round < 3; round++) {
		cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
		for (int k = 0; k < 2; k++) {
			cr_assert_eq(digest_of(&last, sizeof(last), &id), 0);
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

/* A flat image's artifact has no subject, so the reference that led to it names the image. */
Test(images_table, a_flat_image_is_known_by_the_manifest_that_led_to_it)
{
	char dir[] = "/tmp/images-table.XXXXXX", text[DIGEST_STR_MAX];
	struct digest id, manifest, got;
	struct images *t = NULL;
	struct buf name = BUF_INIT;
	struct image *i;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(digest_of("x", 1, &id), 0);
	cr_assert_eq(digest_of("y", 1, &manifest), 0);
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	i = add(t, &id);
	got = image_manifest(i);
	cr_expect(digest_equal(&got, &id));
	digest_format(&manifest, text);
	cr_assert_eq(image_set_name(i, "h:5000/r:flat", NULL), 0);
	cr_assert_eq(buf_printf(&name, "h:5000/r@%s", text), 0);
	cr_assert_eq(image_set_name(i, name.data, NULL), 0);
	got = image_manifest(i);
	cr_expect(digest_equal(&got, &manifest));
	buf_fini(&name);
	images_put(i);
	images_close(t);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

static void set_used_at(struct image *i, int64_t at)
{
	const struct timespec times[2] = { { .tv_sec = at }, { .tv_sec = at } };
	AUTO_FREE char *path = image_path(i, "state.json");

	i->used_at = at;
	cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The time of last use that the next bootseerd will read. */
static int64_t used_at_on_disk(const struct image *i)
{
	AUTO_FREE char *path = image_path(i, "state.json");
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return st.st_mtime;
}

/* Expect the oldest unused image to be `want`; NULL: there is none. */
static void expect_oldest(struct images *t, int64_t after, int64_t before,
			  const struct image *want)
{
	struct image *i = images_oldest_unused(t, after, before);

	cr_expect_eq(i, want);
	images_put(i);
}

Test(images_table, the_unused_image_asked_for_longest_ago_is_known)
{
	char dir[] = "/tmp/images-table.XXXXXX";
	struct images *t = NULL;
	struct image *i[4];
	bool was;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	for (size_t k = 0; k < ARRAY_SIZE(i); k++) {
		struct digest id;

		cr_assert_eq(digest_of(&k, sizeof(k), &id), 0);
		i[k] = add(t, &id);
		/* The first image, which is the oldest, has a user. */
		if (k == 0)
			cr_assert_eq(image_add_user(i[k], "u", NULL), 0);
		set_used_at(i[k], 1000 + (int64_t)k * 10);
	}
	expect_oldest(t, 0, 2000, i[1]);
	expect_oldest(t, 1010, 2000, i[2]);
	expect_oldest(t, 1010, 1020, NULL);
	/* A request makes the image the latest one. */
	image_touch(i[1]);
	cr_expect_gt(used_at_on_disk(i[1]), 2000);
	/* The file's time is set too if only this process knew a recent time. */
	set_used_at(i[1], 1010);
	i[1]->used_at = time(NULL);
	image_touch(i[1]);
	cr_expect_gt(used_at_on_disk(i[1]), 2000);
	cr_assert_eq(image_add_user(i[2], "u", NULL), 0);
	cr_assert_eq(image_remove_user(i[2], "u", &was, NULL), 0);
	cr_expect_gt(used_at_on_disk(i[2]), 2000);
	expect_oldest(t, 0, 2000, i[3]);
	expect_oldest(t, 1030, 2000, NULL);
	for (size_t k = 0; k < ARRAY_SIZE(i); k++)
		images_put(i[k]);
	images_close(t);
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

/* How many images have the name on disk. */
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

/* Make the disk refuse to write the state of `i`; or allow it again. */
static void refuse_state(const struct image *i, bool refuse)
{
	AUTO_FREE char *path = image_path(i, "state.json");

	if (refuse) {
		cr_assert_eq(unlink(path), 0);
		cr_assert_eq(mkdir(path, 0700), 0);
	} else {
		cr_assert_eq(rmdir(path), 0);
	}
}

static bool disk_says(const struct image *i, const char *what)
{
	AUTO_FREE char *path = image_path(i, "state.json");
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(fs_read_file(path, 65536, &text, NULL), 0);
	return strstr(text.data, what) != NULL;
}

static void expect_named(struct images *t, const struct image *want)
{
	struct image *i = images_by_name(t, "h/r:tag");

	cr_expect_eq(i, want);
	images_put(i);
}

static ino_t inode_of_state(const struct image *i)
{
	AUTO_FREE char *path = image_path(i, "state.json");
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return st.st_ino;
}

Test(images_table, a_new_image_is_on_the_disk_with_its_free_names)
{
	static const char *const names[] = { "h/r:tag", "h/r@1", "h/r@1",
					     "h/r:new" };
	const struct image_place place = { .host = "h:5000",
					   .repo = "r",
					   .names = names,
					   .n_names = ARRAY_SIZE(names) };
	char dir[] = "/tmp/images-table.XXXXXX";
	struct images *t = NULL;
	struct image *a, *b;
	struct digest id;
	ino_t inode;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	cr_assert_eq(digest_of("a", 1, &id), 0);
	a = add(t, &id);
	cr_assert_eq(image_set_name(a, "h/r:tag", NULL), 0);
	cr_assert_eq(digest_of("b", 1, &id), 0);
	b = add_at(t, &id, &place);
	cr_expect(disk_says(b, "h/r@1"));
	cr_expect(disk_says(b, "h/r:new"));
	cr_expect_eq(b->state.names.n, 2);
	/* The old name has moved to another image. */
	cr_expect_not(disk_says(b, "h/r:tag"));
	expect_named(t, a);
	/* A name that the image has already is not written again. */
	inode = inode_of_state(b);
	cr_assert_eq(image_set_name(b, "h/r:new", NULL), 0);
	cr_expect_eq(inode_of_state(b), inode);
	cr_assert_eq(image_set_name(b, "h/r:tag", NULL), 0);
	cr_expect_neq(inode_of_state(b), inode);
	expect_named(t, b);
	images_put(a);
	images_put(b);
	images_close(t);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

Test(images_table, a_name_that_the_disk_refused_is_tried_again)
{
	char dir[] = "/tmp/images-table.XXXXXX";
	struct images *t = NULL;
	struct image *a, *b;
	struct digest id;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	cr_assert_eq(digest_of("a", 1, &id), 0);
	a = add(t, &id);
	cr_assert_eq(digest_of("b", 1, &id), 0);
	b = add(t, &id);
	cr_assert_eq(image_set_name(a, "h/r:tag", NULL), 0);
	refuse_state(a, true);
	cr_expect_lt(image_set_name(b, "h/r:tag", NULL), 0);
	expect_named(t, a);
	refuse_state(a, false);
	refuse_state(b, true);
	cr_expect_lt(image_set_name(b, "h/r:tag", NULL), 0);
	expect_named(t, NULL);
	refuse_state(b, false);
	cr_expect_eq(image_set_name(b, "h/r:tag", NULL), 0);
	expect_named(t, b);
	cr_expect(disk_says(b, "h/r:tag"));
	cr_expect_not(disk_says(a, "h/r:tag"));
	/* The image that had the name is being removed. */
	refuse_state(b, true);
	b->removed = true;
	cr_expect_eq(image_set_name(a, "h/r:tag", NULL), 0);
	expect_named(t, a);
	b->removed = false;
	refuse_state(b, false);
	images_put(a);
	images_put(b);
	images_close(t);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

Test(images_table, a_state_that_the_disk_refused_is_written_the_next_time)
{
	char dir[] = "/tmp/images-table.XXXXXX";
	struct images *t = NULL;
	struct image *i;
	struct digest id;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	cr_assert_eq(digest_of("a", 1, &id), 0);
	i = add(t, &id);
	refuse_state(i, true);
	cr_expect_lt(image_set_complete(i, true, NULL), 0);
	cr_expect_lt(image_set_prefetch(i, STATE_PREFETCH_ALL, NULL), 0);
	refuse_state(i, false);
	cr_expect_eq(image_set_complete(i, true, NULL), 0);
	cr_assert(disk_says(i, "\"complete\": true"));
	cr_expect_eq(image_set_prefetch(i, STATE_PREFETCH_ALL, NULL), 0);
	cr_expect(disk_says(i, "\"prefetch\""));
	images_put(i);
	images_close(t);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

Test(images_table, a_user_that_the_disk_did_not_let_go_is_let_go_the_next_time)
{
	char dir[] = "/tmp/images-table.XXXXXX";
	struct images *t = NULL;
	struct image *i;
	struct digest id;
	bool was = true;

	cr_assert(mkdtemp(dir));
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	cr_assert_eq(digest_of("a", 1, &id), 0);
	i = add(t, &id);
	cr_assert_eq(image_add_user(i, "somebody", NULL), 0);
	refuse_state(i, true);
	cr_expect_lt(image_remove_user(i, "somebody", &was, NULL), 0);
	cr_expect_not(was);
	cr_expect(image_has_user(i, "somebody"));
	refuse_state(i, false);
	cr_expect_eq(image_remove_user(i, "somebody", &was, NULL), 0);
	cr_expect(was);
	cr_expect_not(disk_says(i, "somebody"));
	images_put(i);
	images_close(t);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}
