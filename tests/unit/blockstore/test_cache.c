// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "blockstore/cache.h"
#include "common/fs.h"
#include "tests/unit/blockstore/cache_dir.h"

TestSuite(cache, .timeout = 120);

#define MB ((uint64_t)1000000)

static uint64_t disk_bytes(const struct cache_dir *d)
{
	uint64_t sum = 0;

	for (int i = 0; i < 16; i++) {
		AUTO_BUF path = BUF_INIT;
		struct stat st;

		cr_assert_eq(buf_printf(&path, "%s/segment-%08x", d->path, i),
			     0);
		if (stat(path.data, &st) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	}
	return sum;
}

Test(cache, what_was_put_is_read_back_also_after_reopening)
{
	struct cache_stats st;
	struct cache_dir d;
	struct image img;
	struct cache *c;

	cache_dir_make(&d);
	image_make(&img, 1, 20, 100000, 10);
	c = cache_dir_open(&d, 100 * MB);
	for (size_t i = 0; i < 20; i++) {
		cr_expect_eq(get_block(c, &img, i), -ENOENT);
		cr_assert_eq(put_block(c, &img, i), 0);
		cr_expect_eq(get_block(c, &img, i), 0);
	}
	cache_get_stats(c, &st);
	cr_expect_eq(st.blocks, 20);
	cr_expect_eq(st.bytes, 20 * 102400);
	cr_expect_eq(st.hits, 20);
	cr_expect_eq(st.misses, 20);
	cr_expect_eq(st.verified, 0);
	cache_close(c);
	c = cache_dir_open(&d, 100 * MB);
	for (size_t i = 0; i < 20; i++)
		cr_expect_eq(get_block(c, &img, i), 0);
	for (size_t i = 0; i < 20; i++)
		cr_expect_eq(get_block(c, &img, i), 0);
	cache_get_stats(c, &st);
	cr_expect_eq(st.verified, 20, "each is hashed once");
	cr_expect_eq(st.hits, 40);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

Test(cache, parts_of_a_block_are_read_and_what_lies_outside_is_refused)
{
	struct error err = ERROR_INIT;
	struct cache_dir d;
	struct image img;
	struct cache *c;
	uint8_t got[10];
	struct block b;

	cache_dir_make(&d);
	image_make(&img, 1, 1, 100000, 10);
	c = cache_dir_open(&d, 100 * MB);
	cr_assert_eq(put_block(c, &img, 0), 0);
	blockmap_block(&img.map, 0, &b);
	cr_expect_eq(cache_read(c, &b, 99990, got, 10, &err), 0);
	cr_expect_arr_eq(got, img.device + 99990, 10);
	cr_expect_eq(cache_read(c, &b, 99991, got, 10, &err), -EINVAL);
	cr_expect_eq(cache_read(c, &b, UINT32_MAX, got, 10, &err), -EINVAL);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

Test(cache, a_second_process_is_refused)
{
	struct cache_config cfg = { .quota = MB };
	struct error err = ERROR_INIT;
	struct cache_dir d;
	struct cache *c, *other;

	cache_dir_make(&d);
	c = cache_dir_open(&d, MB);
	cfg.dir = d.path;
	cr_expect_eq(cache_open(&cfg, &other, &err), -EBUSY);
	cr_expect(strstr(err.msg, d.path), "%s", err.msg);
	cache_close(c);
	cache_dir_remove(&d);
}

Test(cache, a_newer_version_is_refused_and_left_alone)
{
	uint8_t header[LOG_HEADER_SIZE];
	struct cache_config cfg = { .quota = MB };
	struct error err = ERROR_INIT;
	struct cache_dir d;
	struct picture p;
	struct cache *c;

	cache_dir_make(&d);
	c = cache_dir_open(&d, MB);
	cache_close(c);
	picture_take(&p, &d);
	log_encode_header(CACHE_TEST_SEGMENT, header);
	header[8] = 2;
	/* The CRC of a version 2 header, as version 2 would write it. */
	{
		uint32_t crc = 0xffffffff;

		for (size_t i = 0; i < 60; i++) {
			crc ^= header[i];
			for (int k = 0; k < 8; k++)
				crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
		}
		crc = ~crc;
		memcpy(header + 60, &crc, 4);
	}
	memcpy(p.file[0].data, header, sizeof(header));
	p.file[0].len = sizeof(header);
	picture_restore(&p, &d);
	cfg.dir = d.path;
	cr_expect_eq(cache_open(&cfg, &c, &err), -ENOTSUP);
	cr_expect(strstr(err.msg, "version 2"), "%s", err.msg);
	picture_fini(&p);
	cache_dir_remove(&d);
}

Test(cache, the_quota_holds_and_holes_give_the_disk_back)
{
	struct cache_stats st;
	struct cache_dir d;
	struct image img;
	struct cache *c;

	cache_dir_make(&d);
	image_make(&img, 1, 200, 100000, 200);
	c = cache_dir_open(&d, 3 * MB);
	for (size_t i = 0; i < 200; i++) {
		cr_assert_eq(put_block(c, &img, i), 0);
		cache_get_stats(c, &st);
		cr_assert_leq(st.bytes, 3 * MB);
	}
	cr_expect_gt(st.blocks, 20);
	cr_expect_eq(st.evicted, 200 - st.blocks);
	cr_expect_eq(get_block(c, &img, 199), 0);
	cr_expect_eq(get_block(c, &img, 0), -ENOENT);
	cr_expect_leq(disk_bytes(&d), 3 * MB + 65536);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

Test(cache, what_is_read_often_and_what_is_hot_outlives_the_rest)
{
	struct error err = ERROR_INIT;
	struct cache_dir d;
	struct image img;
	struct cache *c;
	struct block b;

	cache_dir_make(&d);
	image_make(&img, 1, 60, 100000, 60);
	c = cache_dir_open(&d, 3 * MB);
	for (size_t i = 0; i < 60; i++) {
		blockmap_block(&img.map, i, &b);
		cr_assert_eq(cache_put(c, &b, image_plain(&img, i),
				       i == 1 ? SOURCE_HOT : SOURCE_COLD, &err),
			     0);
		cr_expect_eq(get_block(c, &img, 0), 0);
	}
	cr_expect_eq(get_block(c, &img, 1), 0);
	cr_expect_eq(get_block(c, &img, 2), -ENOENT);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

Test(cache, one_block_can_be_pinned)
{
	struct error err = ERROR_INIT;
	struct cache_dir d;
	struct image img;
	struct cache *c;
	struct block b;
	uint64_t freed;

	cache_dir_make(&d);
	image_make(&img, 1, 3, 100000, 60);
	c = cache_dir_open(&d, 25 * 102400);
	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	blockmap_block(&img.map, 1, &b);
	cr_assert_eq(cache_pin_block(c, &b.digest, &err), 0, "%s", err.msg);
	cr_assert_eq(cache_gc(c, 0, &freed, &err), 0, "%s", err.msg);
	cr_expect_eq(get_block(c, &img, 0), -ENOENT);
	cr_expect_eq(get_block(c, &img, 1), 0);
	cache_unpin_block(c, &b.digest);
	cr_assert_eq(cache_gc(c, 0, &freed, &err), 0, "%s", err.msg);
	cr_expect_eq(get_block(c, &img, 1), -ENOENT);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

Test(cache, pinned_blocks_stay_and_a_cache_full_of_them_says_so)
{
	struct error err = ERROR_INIT;
	struct image kept, other;
	struct cache_stats st;
	struct cache_dir d;
	struct cache *c;
	uint64_t freed;

	cache_dir_make(&d);
	image_make(&kept, 1, 25, 100000, 60);
	image_make(&other, 2, 60, 100000, 60);
	c = cache_dir_open(&d, 25 * 102400);
	for (size_t i = 0; i < 12; i++)
		cr_assert_eq(put_block(c, &kept, i), 0);
	/* Also what comes later. */
	cr_assert_eq(cache_pin(c, &kept.map, &err), 0, "%s", err.msg);
	cr_assert_eq(cache_pin(c, &kept.map, &err), 0, "%s", err.msg);
	for (size_t i = 0; i < 60; i++)
		cr_assert_eq(put_block(c, &other, i), 0);
	for (size_t i = 12; i < 25; i++)
		cr_assert_eq(put_block(c, &kept, i), 0);
	cache_get_stats(c, &st);
	cr_expect_eq(st.pinned_bytes, 25 * 102400);
	cr_expect_eq(put_block(c, &other, 0), -ENOSPC);
	cache_unpin(c, &kept.map);
	cr_expect_eq(put_block(c, &other, 0), -ENOSPC, "still pinned once");
	cr_assert_eq(cache_gc(c, 0, &freed, &err), 0, "%s", err.msg);
	cr_expect_eq(freed, 0);
	for (size_t i = 0; i < 25; i++)
		cr_expect_eq(get_block(c, &kept, i), 0);
	cache_unpin(c, &kept.map);
	cr_expect_eq(put_block(c, &other, 0), 0);
	cr_assert_eq(cache_gc(c, 0, &freed, &err), 0, "%s", err.msg);
	cache_get_stats(c, &st);
	cr_expect_eq(st.bytes, 0);
	cr_expect_eq(st.blocks, 0);
	cr_expect_eq(st.pinned_bytes, 0);
	cr_expect_eq(disk_bytes(&d), 0);
	cache_close(c);
	image_fini(&kept);
	image_fini(&other);
	cache_dir_remove(&d);
}

Test(cache, consecutive_puts_lie_together)
{
	struct error err = ERROR_INIT;
	uint64_t off, expected = 0;
	struct cache_dir d;
	struct image img;
	struct cache *c;
	uint32_t file;

	cache_dir_make(&d);
	image_make(&img, 1, 20, 100000, 10);
	c = cache_dir_open(&d, 100 * MB);
	cr_assert_eq(cache_pin(c, &img.map, &err), 0);
	for (size_t i = 0; i < 20; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	for (size_t i = 0; i < 20; i++) {
		struct block b;

		blockmap_block(&img.map, i, &b);
		cr_assert_eq(cache_locate(c, &b, &file, &off, &err), 0, "%s",
			     err.msg);
		cr_expect_eq(file, 0);
		cr_expect_eq(off, expected);
		expected += 102400;
	}
	cache_unpin(c, &img.map);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

Test(cache, a_located_file_holds_the_block_and_zeros_after_it)
{
	struct error err = ERROR_INIT;
	AUTO_FREE uint8_t *got = malloc(102400);
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int fd = -1;
	struct cache_dir d;
	struct image img;
	struct cache *c;
	struct block b;
	uint32_t file;
	uint64_t off;

	cache_dir_make(&d);
	image_make(&img, 1, 20, 100000, 20);
	c = cache_dir_open(&d, 100 * MB);
	cr_assert_eq(put_block(c, &img, 7), 0);
	blockmap_block(&img.map, 7, &b);
	cr_expect_eq(cache_locate(c, &b, &file, &off, &err), -EINVAL,
		     "not pinned");
	cr_assert_eq(cache_pin(c, &img.map, &err), 0);
	cache_close(c);
	c = cache_dir_open(&d, 100 * MB);
	cr_assert_eq(cache_pin(c, &img.map, &err), 0);
	cr_assert_eq(cache_locate(c, &b, &file, &off, &err), 0, "%s", err.msg);
	cr_assert_eq(cache_file_path(c, file, &path, &err), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(fs_pread_full(fd, got, 102400, off), 0);
	cr_expect_arr_eq(got, image_plain(&img, 7), 102400);
	blockmap_block(&img.map, 8, &b);
	cr_expect_eq(cache_locate(c, &b, &file, &off, &err), -ENOENT);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

/* Overwrite a byte of a block where it lies on the disk. */
static void flip_on_disk(struct cache *c, const struct block *b, uint64_t at)
{
	struct error err = ERROR_INIT;
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int fd = -1;
	uint32_t file;
	uint64_t off;
	uint8_t x;

	cr_assert_eq(cache_locate(c, b, &file, &off, &err), 0, "%s", err.msg);
	cr_assert_eq(cache_file_path(c, file, &path, &err), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	cr_assert_eq(fs_pread_full(fd, &x, 1, off + at), 0);
	x ^= 1;
	cr_assert_eq(fs_pwrite_full(fd, &x, 1, off + at), 0);
}

Test(cache, a_damaged_pinned_block_is_repaired_where_it_was)
{
	struct error err = ERROR_INIT;
	uint64_t before, after;
	struct cache_stats st;
	struct cache_dir d;
	struct image img;
	struct cache *c;
	struct block b;
	uint32_t file;

	cache_dir_make(&d);
	image_make(&img, 1, 20, 100000, 20);
	c = cache_dir_open(&d, 100 * MB);
	cr_assert_eq(cache_pin(c, &img.map, &err), 0);
	for (size_t i = 0; i < 20; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	blockmap_block(&img.map, 2, &b);
	cr_assert_eq(cache_locate(c, &b, &file, &before, &err), 0);
	flip_on_disk(c, &b, 100);
	cache_close(c);
	c = cache_dir_open(&d, 100 * MB);
	cr_assert_eq(cache_pin(c, &img.map, &err), 0);
	cr_expect_eq(get_block(c, &img, 2), -ENOENT);
	cr_expect_not(cache_has(c, &b.digest));
	cr_expect_eq(cache_locate(c, &b, &file, &after, &err), -ENOENT);
	cr_assert_eq(put_block(c, &img, 2), 0);
	cr_expect_eq(get_block(c, &img, 2), 0);
	cr_assert_eq(cache_locate(c, &b, &file, &after, &err), 0);
	cr_expect_eq(before, after);
	cache_get_stats(c, &st);
	cr_expect_eq(st.damaged, 1);
	cr_expect_eq(st.blocks, 20);
	/* Padding is what mounts of our files see. */
	flip_on_disk(c, &b, b.usize + 1);
	cache_close(c);
	c = cache_dir_open(&d, 100 * MB);
	cr_expect_eq(get_block(c, &img, 2), -ENOENT);
	cache_get_stats(c, &st);
	cr_expect_eq(st.blocks, 19);
	cr_expect_eq(st.bytes, 19 * 102400);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

Test(cache, what_the_disk_did_not_take_is_not_held)
{
	struct error err = ERROR_INIT;
	struct image kept, img;
	struct cache_stats st;
	struct cache_dir d;
	struct cache *c;

	cache_dir_make(&d);
	image_make(&kept, 1, 10, 100000, 20);
	image_make(&img, 2, 10, 100000, 20);
	c = cache_dir_open(&d, 100 * MB);
	cr_assert_eq(cache_pin(c, &kept.map, &err), 0);
	for (size_t i = 0; i < 10; i++) {
		cr_assert_eq(put_block(c, &img, i), 0);
		cr_assert_eq(put_block(c, &kept, i), 0);
	}
	(void)pthread_mutex_lock(&c->space);
	watch_distrust(c, 0);
	(void)pthread_mutex_unlock(&c->space);
	cache_get_stats(c, &st);
	cr_expect_eq(st.blocks, 0);
	cr_expect_eq(st.bytes, 10 * 102400, "pinned places stay");
	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < 10; i++) {
			int rc = again ? 0 : -ENOENT;

			cr_expect_eq(get_block(c, &img, i), rc);
			cr_expect_eq(get_block(c, &kept, i), rc);
			cr_assert_eq(put_block(c, &img, i), 0);
			cr_assert_eq(put_block(c, &kept, i), 0);
		}
	}
	cache_get_stats(c, &st);
	cr_expect_eq(st.blocks, 20);
	cr_expect_eq(st.bytes, 20 * 102400);
	cache_unpin(c, &kept.map);
	cache_close(c);
	image_fini(&kept);
	image_fini(&img);
	cache_dir_remove(&d);
}

/* A cache on a disk of its own, which the test's process alone sees. */
static struct cache *open_on_disk(struct cache_dir *d, const char *size,
				  uint64_t min_free)
{
	struct cache_config cfg = { .quota = 100 * MB,
				    .min_free = min_free,
				    .segment_bytes = CACHE_TEST_SEGMENT };
	struct error err = ERROR_INIT;
	struct cache *c;

	cache_dir_make(d);
	cr_assert_eq(unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNS
				       : CLONE_NEWNS),
		     0);
	cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	cr_assert_eq(mount("none", d->path, "tmpfs", 0, size), 0);
	cfg.dir = d->path;
	cr_assert_eq(cache_open(&cfg, &c, &err), 0, "%s", err.msg);
	return c;
}

Test(cache, a_little_is_kept_where_others_leave_less_free_than_is_to_stay_so)
{
	struct cache_stats st;
	struct cache_dir d;
	struct image img;
	struct cache *c;

	c = open_on_disk(&d, "size=32m", 1000 * MB);
	image_make(&img, 1, 60, 100000, 60);
	for (size_t i = 0; i < 60; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	cache_get_stats(c, &st);
	cr_expect_eq(st.put_failed, 0);
	cr_expect_gt(st.bytes, 3 * MB);
	cr_expect_leq(st.bytes, 4 << 20);
	cr_expect_eq(get_block(c, &img, 59), 0);
	cache_close(c);
	image_fini(&img);
	cr_expect_eq(umount(d.path), 0);
	cache_dir_remove(&d);
}

Test(cache, a_full_disk_fails_puts_and_nothing_else)
{
	struct cache_stats st;
	struct cache_dir d;
	struct image img;
	struct cache *c;
	size_t n_held = 0;
	AUTO_BUF big = BUF_INIT;

	c = open_on_disk(&d, "size=4m", 0);
	image_make(&img, 1, 60, 100000, 60);
	/* The free space that is watched makes room in time. */
	for (size_t i = 0; i < 60; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	cache_get_stats(c, &st);
	cr_expect_lt(st.blocks, 42);
	cr_expect_gt(st.evicted, 0);
	cr_expect_eq(st.put_failed, 0);
	/* Somebody else fills the disk. */
	cr_assert_eq(buf_printf(&big, "%s/big", d.path), 0);
	{
		AUTO_CLOSE int fd = open(big.data, O_CREAT | O_RDWR, 0600);
		AUTO_FREE uint8_t *zeros = calloc(1, 1 << 20);

		while (write(fd, zeros, 1 << 20) > 0)
			;
		while (write(fd, zeros, 1) > 0)
			;
	}
	for (size_t i = 0; i < 60; i++)
		if (get_block(c, &img, i) == 0)
			n_held++;
	cr_expect_eq(n_held, st.blocks);
	cr_assert_eq(unlink(big.data), 0);
	for (size_t i = 0; i < 10; i++)
		(void)put_block(c, &img, i);
	cr_expect_eq(put_block(c, &img, 0), 0);
	cr_expect_eq(get_block(c, &img, 0), 0);
	cache_close(c);
	image_fini(&img);
	cr_expect_eq(umount(d.path), 0);
	cache_dir_remove(&d);
}

Test(cache, the_index_does_not_grow_without_bound)
{
	struct cache_dir d;
	struct image img;
	struct cache *c;
	AUTO_BUF path = BUF_INIT;
	struct stat st;

	cache_dir_make(&d);
	image_make(&img, 1, 100, 4096, 100);
	c = cache_dir_open(&d, 50 * 4096);
	for (size_t round = 0; round < 200; round++)
		for (size_t i = 0; i < 100; i++)
			cr_assert_eq(put_block(c, &img, i), 0);
	cr_assert_eq(buf_printf(&path, "%s/index", d.path), 0);
	cr_assert_eq(stat(path.data, &st), 0);
	cr_expect_leq(st.st_size, 5000 * LOG_RECORD_SIZE);
	cache_close(c);
	c = cache_dir_open(&d, 50 * 4096);
	cr_expect_eq(get_block(c, &img, 99), 0);
	cache_close(c);
	image_fini(&img);
	cache_dir_remove(&d);
}

/* EISDIR stands for what a disk or a quota may say. */
Test(cache, an_index_that_cannot_be_written_anew_still_serves)
{
	struct cache_dir d;
	struct image img;
	struct cache *c;
	AUTO_BUF path = BUF_INIT;
	struct stat st;

	cache_dir_make(&d);
	image_make(&img, 1, 100, 4096, 100);
	c = cache_dir_open(&d, 50 * 4096);
	cr_assert_eq(buf_printf(&path, "%s/index.new", d.path), 0);
	cr_assert_eq(mkdir(path.data, 0700), 0);
	for (size_t round = 0; round < 100; round++)
		for (size_t i = 0; i < 100; i++)
			cr_assert_eq(put_block(c, &img, i), 0);
	cache_close(c);
	c = cache_dir_open(&d, 50 * 4096);
	cr_expect_eq(get_block(c, &img, 99), 0);
	cr_expect_eq(put_block(c, &img, 0), 0);
	cache_close(c);
	c = cache_dir_open(&d, 50 * 4096);
	cr_expect_eq(get_block(c, &img, 0), 0);
	cr_assert_eq(rmdir(path.data), 0);
	cache_close(c);
	/* And it is, once it can be. */
	c = cache_dir_open(&d, 50 * 4096);
	cr_expect_eq(get_block(c, &img, 0), 0);
	cache_close(c);
	path.data[path.len - strlen(".new")] = '\0';
	cr_assert_eq(stat(path.data, &st), 0);
	cr_expect_leq(st.st_size, 200 * LOG_RECORD_SIZE);
	image_fini(&img);
	cache_dir_remove(&d);
}

Test(cache, a_ram_entry_is_small)
{
	cr_expect_leq(sizeof(struct entry) + sizeof(uint32_t), 64);
}
