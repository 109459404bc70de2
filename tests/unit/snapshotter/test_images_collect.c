// SPDX-License-Identifier: Apache-2.0
/* Removal of unused images, and the account of the disk that all parts of ROOT use. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "blockstore/blockstore.h"
#include "common/fs.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/images.h"

TestSuite(images_collect, .timeout = 300);

#define DAY_S 86400
#define QUOTA (UINT64_C(64) << 20)

/* In memory if possible: thousands of images are synced. */
static char dir[64];
static char cache_dir[sizeof(dir) + 8];
static struct node_config cfg;
static struct node node;

static void open_images(void)
{
	cr_assert_eq(images_open(dir, dir, &node.images, NULL), 0);
}

static void set_up(void)
{
	const struct cache_config cache = { .dir = cache_dir, .quota = QUOTA };

	(void)snprintf(dir, sizeof(dir), "%s/images-collect.XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	cr_assert(mkdtemp(dir));
	(void)snprintf(cache_dir, sizeof(cache_dir), "%s/cache", dir);
	cfg = (struct node_config){ .root = dir };
	node.cfg = &cfg;
	node.gate = keyed_lock_new();
	cr_assert(node.gate);
	cr_assert_eq(cache_open(&cache, &node.cache, NULL), 0);
	open_images();
	node.gc = (struct gc){ .images = node.images,
			       .cache = node.cache,
			       .gate = node.gate };
	cr_assert_eq(disk_open(&(struct disk_of){ .cfg = &cfg,
						  .cache = node.cache,
						  .gc = &node.gc },
			       &node.disk, NULL),
		     0);
}

static void tear_down(void)
{
	disk_close(node.disk);
	images_close(node.images);
	cache_close(node.cache);
	keyed_lock_free(node.gate);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

static struct digest artifact_of(size_t k)
{
	struct digest d;

	cr_assert_eq(digest_of(&k, sizeof(k), &d), 0);
	return d;
}

static struct digest id_of(size_t k)
{
	const struct digest artifact = artifact_of(k);
	struct digest id;

	cr_assert_eq(image_id_of(&artifact, "h:5000", "r", &id), 0);
	return id;
}

static int try_add(size_t k, struct image **ret, struct error *err)
{
	struct artifact a = { .digest = artifact_of(k) };
	const struct digest id = id_of(k);
	AUTO_FREE char *staged = NULL;
	int rc;

	cr_assert_eq(buf_puts(&a.manifest_json, "{}"), 0);
	cr_assert_eq(buf_puts(&a.config_json, "{}"), 0);
	cr_assert_eq(images_stage(node.images, &id, &staged, NULL), 0);
	cr_assert_eq(images_stage_texts(staged, &a, NULL), 0);
	rc = images_add(node.images, staged, &a,
			&(struct image_place){ .host = "h:5000", .repo = "r" },
			ret, err);
	artifact_fini(&a);
	return rc;
}

static void set_used_at(struct image *i, int64_t at)
{
	images_lock(node.images);
	i->used_at = at;
	images_unlock(node.images);
}

static void add(size_t k, int64_t used_at)
{
	struct image *i = NULL;

	cr_assert_eq(try_add(k, &i, NULL), 0);
	set_used_at(i, used_at);
	images_put(i);
}

static bool has(size_t k)
{
	struct digest id = id_of(k);
	struct image *i = images_get(node.images, &id);

	images_put(i);
	return i;
}

static void use(size_t k)
{
	struct digest id = id_of(k);
	struct image *i = images_get(node.images, &id);

	cr_assert_eq(image_add_user(i, "user", NULL), 0);
	set_used_at(i, 1);
	images_put(i);
}

Test(images_collect, old_images_go_unless_somebody_uses_them, .init = set_up,
     .fini = tear_down)
{
	const int64_t now = 100 * DAY_S;

	add(0, now - 31 * DAY_S);
	add(1, now - 29 * DAY_S);
	add(2, now - 90 * DAY_S);
	add(3, now - 90 * DAY_S);
	use(3);
	gc_old(&node.gc, now);
	cr_expect_not(has(0));
	cr_expect(has(1));
	cr_expect_not(has(2));
	cr_expect(has(3));
	gc_old(&node.gc, now + 2 * DAY_S);
	cr_expect_not(has(1));
}

Test(images_collect, one_that_is_worked_on_stays, .init = set_up,
     .fini = tear_down)
{
	struct digest id = id_of(0);

	add(0, 1);
	add(1, 2);
	cr_assert_eq(keyed_lock_enter(node.gate, &id, 0, NULL), 0);
	gc_old(&node.gc, 100 * DAY_S);
	keyed_lock_leave(node.gate, &id);
	cr_expect(has(0));
	cr_expect_not(has(1));
}

Test(images_collect, the_4097th_image_takes_the_place_of_the_oldest_unused,
     .init = set_up, .fini = tear_down)
{
	struct error err = ERROR_INIT;
	struct image *i = NULL;
	struct image **list;
	size_t n;

	for (size_t k = 0; k < IMAGES_MAX; k++)
		add(k, 1000 + (int64_t)k);
	use(0);
	cr_expect_eq(try_add(IMAGES_MAX, &i, &err), -ENOSPC);
	cr_assert_eq(gc_make_place(&node.gc, &err), 0, "%s", err.msg);
	cr_expect(has(0));
	cr_expect_not(has(1));
	cr_expect(has(2));
	add(IMAGES_MAX, time(NULL));
	cr_expect_eq(images_count(node.images), IMAGES_MAX);

	/* Only when all images are in use it is an error, with a cure. */
	cr_assert_eq(images_list(node.images, &list, &n, NULL), 0);
	images_lock(node.images);
	for (size_t k = 0; k < n; k++)
		list[k]->recordings++;
	images_unlock(node.images);
	images_list_free(list, n);
	cr_expect_eq(gc_make_place(&node.gc, &err), -ENOSPC);
	cr_expect(strstr(err.msg, "unmount"), "%s", err.msg);
}

static void make_file(const char *name, size_t mib)
{
	static char zeros[1 << 20];
	char path[160];
	AUTO_CLOSE int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	*strrchr(path, '/') = '\0';
	cr_assert_eq(fs_mkdir_p(path, 0700, NULL), 0);
	path[strlen(path)] = '/';
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	memset(zeros, 'x', sizeof(zeros));
	while (mib--)
		cr_assert_eq(fs_write_full(fd, zeros, sizeof(zeros)), 0);
}

static uint64_t mib_of(uint64_t bytes)
{
	return bytes >> 20;
}

Test(images_collect, all_of_root_counts_and_is_told_by_part, .init = set_up,
     .fini = tear_down)
{
	struct cache_stats cache;
	struct disk_usage u;

	make_file("images/hex/meta.erofs", 1);
	make_file("images/tmp.hex/meta.erofs", 2);
	make_file("traces/store/t", 3);
	make_file("p2p/relay", 4);
	make_file("cache/note", 5);
	make_file("cache/segment-00000099", 6);
	make_file("else", 7);
	disk_refresh(node.disk);
	disk_get(node.disk, &u);
	cr_expect_eq(mib_of(u.images), 1);
	cr_expect_eq(mib_of(u.stages), 2);
	cr_expect_eq(mib_of(u.traces), 3);
	cr_expect_eq(mib_of(u.peers), 4);
	cr_expect_eq(mib_of(u.index), 5);
	cr_expect_eq(mib_of(u.other), 7);
	cache_get_stats(node.cache, &cache);
	cr_expect_eq(cache.others, disk_sum(&u));
	cr_expect_eq(cache.quota, QUOTA);
}

Test(images_collect, blocks_give_way_to_what_else_is_there, .init = set_up,
     .fini = tear_down)
{
	static uint8_t data[1 << 20];
	struct cache_stats cache;
	struct error err = ERROR_INIT;

	for (uint32_t k = 0; k < 48; k++) {
		struct block b = { .usize = sizeof(data),
				   .csize = sizeof(data) };

		memset(data, (int)k, sizeof(data));
		cr_assert_eq(digest_of(data, sizeof(data), &b.digest), 0);
		cr_assert_eq(cache_put(node.cache, &b, data, SOURCE_COLD, NULL),
			     0);
	}
	cr_assert_eq(disk_reserve(node.disk, 32 << 20, &err), 0, "%s", err.msg);
	cache_get_stats(node.cache, &cache);
	cr_expect_leq(cache.bytes + cache.others, QUOTA);
	cr_expect_geq(cache.others, 32 << 20);
	disk_settle(node.disk, 32 << 20, NULL);
	cache_get_stats(node.cache, &cache);
	cr_expect_lt(cache.others, 32 << 20);
}

Test(images_collect, unused_images_give_way_and_used_ones_are_a_reason,
     .init = set_up, .fini = tear_down)
{
	struct error err = ERROR_INIT;
	char hex[IMAGE_HEX_MAX], name[128];

	for (size_t k = 0; k < 3; k++) {
		struct digest id = id_of(k);

		add(k, 1000 + (int64_t)k);
		digest_hex(&id, hex);
		(void)snprintf(name, sizeof(name), "images/%s/meta.erofs", hex);
		make_file(name, 20);
	}
	use(0);
	disk_refresh(node.disk);
	/* 60 of 64 MiB are used; the oldest unused image has to go. */
	cr_assert_eq(disk_reserve(node.disk, 16 << 20, &err), 0, "%s", err.msg);
	cr_expect(has(0));
	cr_expect_not(has(1));
	cr_expect(has(2));
	use(2);
	cr_expect_eq(disk_reserve(node.disk, 16 << 20, &err), -ENOSPC);
	cr_expect(strstr(err.msg, "--cache-quota"), "%s", err.msg);
	cr_expect(has(2));
}

Test(images_collect,
     what_failed_before_an_index_came_anew_is_not_held_against_it,
     .init = set_up, .fini = tear_down)
{
	struct image *i = NULL;

	cr_assert_eq(try_add(1, &i, NULL), 0);
	images_lock(node.images);
	(void)error_set(&i->last_error, EBADMSG, "a block does not fit");
	i->last_error_at = time(NULL);
	cr_expect_lt(i->judged_error_at, i->last_error_at);
	images_unlock(node.images);
	image_forget_errors(i);
	cr_expect_geq(i->judged_error_at, i->last_error_at);
	images_put(i);
}
