// SPDX-License-Identifier: Apache-2.0
/* Tests which bytes the cache stores and returns, and what is removed to make room. */
#include "ckpt-fuse/disk_cache.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt_fixture.h"
#include "common/clock.h"

#define SIZE (2 * UNIT + 1000)

static char dir[] = "/tmp/bootseer-disk-cache.XXXXXX";
static char *buf;

static void setup(void)
{
	ckpt_setup();
	cr_assert_not_null(mkdtemp(dir));
	buf = malloc(SIZE);
	cr_assert_not_null(buf);
}

/* Call fn for each file of the cache; returns their number. */
static size_t each_entry(void (*fn)(int dir_fd, const char *name))
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.') {
			n++;
			if (fn)
				fn(dirfd(d), e->d_name);
		}
	cr_assert(d && closedir(d) == 0);
	return n;
}

static void remove_it(int dir_fd, const char *name)
{
	cr_assert_eq(unlinkat(dir_fd, name, 0), 0);
}

/* Date the file as if it had not been used for long. */
static void make_it_old(int dir_fd, const char *name)
{
	const struct timespec t[2] = { { .tv_sec = LONG_AGO },
				       { .tv_sec = LONG_AGO } };

	cr_assert_eq(utimensat(dir_fd, name, t, 0), 0);
}

/* Change a byte of the second chunk, and cut off the last bytes. */
static void damage_it(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC);
	char c;

	cr_assert_eq(pread(fd, &c, 1, MIB + 5), 1);
	c ^= 1;
	cr_assert_eq(pwrite(fd, &c, 1, MIB + 5), 1);
	cr_assert_eq(ftruncate(fd, SIZE - 10), 0);
	cr_assert_eq(close(fd), 0);
}

static void teardown(void)
{
	free(buf);
	(void)each_entry(remove_it);
	cr_assert_eq(rmdir(dir), 0);
	ckpt_teardown();
}

TestSuite(disk_cache, .init = setup, .fini = teardown, .timeout = 120);

static struct disk_cache *cache_of(uint64_t most, const char *url)
{
	struct disk_cache *c = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(disk_cache_open(dir, most, url, &c, &err), 0, "%s",
		     err.msg);
	return c;
}

static bool has(struct disk_cache_file *x, uint64_t off, size_t len)
{
	memset(buf, 0, len);
	return disk_cache_read(x, off, buf, len) &&
	       memcmp(buf, data + off, len) == 0;
}

static struct disk_cache_stats stats_of(struct disk_cache *c)
{
	struct disk_cache_stats s;

	disk_cache_stats(c, &s);
	return s;
}

/* Store bytes, retrying: on a busy machine the cache may take the disk for slow and pause. */
static void keep(struct disk_cache *c, struct disk_cache_file *x, uint64_t off,
		 size_t len)
{
	const uint64_t before = stats_of(c).kept_bytes;
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	cr_assert_not_null(x);
	while (stats_of(c).kept_bytes == before) {
		const struct timespec t = { .tv_nsec = NS_PER_MS };

		cr_assert_lt(clock_now_ns(), until);
		cr_assert_eq(disk_cache_keep(x, off, data + off, len, NULL), 0);
		(void)nanosleep(&t, NULL); /* deadline poll */
	}
}

Test(disk_cache, has_what_an_earlier_mount_read)
{
	struct disk_cache *c = cache_of(64 * MIB, "s3://a");
	struct disk_cache_file *x;
	struct ckpt_file *f;

	(void)put("f", data, SIZE, 2);
	f = open_file("f");
	x = disk_cache_attach(c, f);
	cr_expect_not(has(x, 0, UNIT));
	keep(c, x, 0, UNIT);
	keep(c, x, 2 * UNIT, 1000);
	cr_expect_eq(stats_of(c).kept_bytes, UNIT + 1000);
	disk_cache_detach(x);
	disk_cache_free(c);
	c = cache_of(64 * MIB, "s3://a");
	x = disk_cache_attach(c, f);
	cr_expect(has(x, 0, UNIT));
	cr_expect(has(x, MIB, MIB));
	cr_expect(has(x, 2 * UNIT, 1000));
	/* The cache lacks bytes that were not stored, or only partly, and ranges that are not whole
	 * chunks. */
	cr_expect_not(has(x, UNIT, UNIT));
	cr_expect_not(has(x, UNIT - MIB, 2 * MIB));
	cr_expect_not(has(x, 10, MIB));
	cr_expect_eq(stats_of(c).read_bytes, UNIT + MIB + 1000);
	disk_cache_detach(x);
	disk_cache_free(c);
	ckpt_close(f);
}

Test(disk_cache, gives_no_wrong_byte)
{
	struct disk_cache *c = cache_of(64 * MIB, "s3://a");
	struct disk_cache_file *x;
	struct ckpt_file *f;

	(void)put("f", data, SIZE, 2);
	f = open_file("f");
	x = disk_cache_attach(c, f);
	keep(c, x, 0, SIZE);
	cr_expect_eq(each_entry(damage_it), 1);
	cr_expect(has(x, 0, MIB));
	cr_expect_not(has(x, MIB, MIB));
	cr_expect_not(has(x, 2 * UNIT, 1000));
	/* Bytes read from the store repair the file. */
	keep(c, x, MIB, MIB);
	keep(c, x, 2 * UNIT, 1000);
	cr_expect(has(x, 0, SIZE));
	disk_cache_detach(x);
	disk_cache_free(c);
	ckpt_close(f);
}

Test(disk_cache, tells_versions_and_stores_apart)
{
	struct disk_cache *c = cache_of(64 * MIB, "s3://a");
	struct disk_cache *other = cache_of(64 * MIB, "s3://b");
	struct disk_cache_file *x, *y;
	struct ckpt_file *f;

	(void)put("f", data, SIZE, 2);
	f = open_file("f");
	x = disk_cache_attach(c, f);
	y = disk_cache_attach(other, f);
	keep(c, x, 0, SIZE);
	cr_expect_not(has(y, 0, SIZE));
	disk_cache_detach(x);
	disk_cache_detach(y);
	ckpt_close(f);
	(void)put("f", data, SIZE, 2); /* the same bytes, written anew */
	f = open_file("f");
	x = disk_cache_attach(c, f);
	cr_expect_not(has(x, 0, SIZE));
	disk_cache_detach(x);
	disk_cache_free(c);
	disk_cache_free(other);
	ckpt_close(f);
}

Test(disk_cache, gives_up_what_was_unused_for_longest)
{
	struct disk_cache *c = cache_of(16 * MIB, "s3://a");
	struct disk_cache_file *x[3];
	struct ckpt_file *f[3];

	for (int i = 0; i < 3; i++) {
		const char name[] = { (char)('f' + i), '\0' };

		(void)put(name, data, SIZE, 1);
		f[i] = open_file(name);
		x[i] = disk_cache_attach(c, f[i]);
	}
	keep(c, x[0], 0, SIZE);
	disk_cache_detach(x[0]);
	(void)each_entry(make_it_old);
	disk_cache_free(c);
	/* Files in use stay, and bytes beyond the budget are not stored. */
	c = cache_of(16 * MIB, "s3://a");
	x[0] = disk_cache_attach(c, f[0]);
	cr_expect(has(x[0], 0, SIZE));
	disk_cache_detach(x[1]);
	x[1] = disk_cache_attach(c, f[1]);
	cr_assert_eq(disk_cache_keep(x[1], 0, data, SIZE, NULL), 0);
	cr_expect_not(has(x[1], 0, SIZE));
	disk_cache_detach(x[0]);
	disk_cache_detach(x[1]);
	(void)each_entry(make_it_old);
	disk_cache_free(c);
	/* The file is not in use now. */
	c = cache_of(16 * MIB, "s3://a");
	disk_cache_detach(x[2]);
	x[2] = disk_cache_attach(c, f[2]);
	keep(c, x[2], 0, SIZE);
	cr_expect(has(x[2], 0, SIZE));
	x[0] = disk_cache_attach(c, f[0]);
	cr_expect_not(has(x[0], 0, SIZE));
	cr_expect_eq(each_entry(NULL), 1);
	for (int i = 0; i < 3; i++) {
		if (i != 1)
			disk_cache_detach(x[i]);
		ckpt_close(f[i]);
	}
	disk_cache_free(c);
}

static uint64_t kept_on_disk;

static void add_blocks(int dir_fd, const char *name)
{
	struct stat st;

	cr_assert_eq(fstatat(dir_fd, name, &st, 0), 0);
	kept_on_disk += (uint64_t)st.st_blocks * 512;
}

/* Mounts share the budget; otherwise each mount that began with an empty folder would fill it. */
Test(disk_cache, has_one_budget_for_all_mounts)
{
	struct disk_cache *c[2];
	struct disk_cache_file *x[4];
	struct ckpt_file *f[4];

	for (int i = 0; i < 2; i++)
		c[i] = cache_of(16 * MIB, "s3://a");
	for (int i = 0; i < 4; i++) {
		const char name[] = { (char)('f' + i), '\0' };

		(void)put(name, data, SIZE, 1);
		f[i] = open_file(name);
		x[i] = disk_cache_attach(c[i % 2], f[i]);
		keep(c[i % 2], x[i], 0, MIB);
	}
	for (uint64_t off = MIB; off < 2 * UNIT; off += MIB)
		for (int i = 0; i < 4; i++)
			cr_assert_eq(disk_cache_keep(x[i], off, data + off, MIB,
						     NULL),
				     0);
	(void)each_entry(add_blocks);
	cr_expect_leq(kept_on_disk, 16 * MIB);
	for (int i = 0; i < 4; i++) {
		disk_cache_detach(x[i]);
		ckpt_close(f[i]);
	}
	for (int i = 0; i < 2; i++)
		disk_cache_free(c[i]);
}

Test(disk_cache, is_its_users_alone)
{
	struct disk_cache *c = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(chmod(dir, 0750), 0);
	cr_expect_eq(disk_cache_open(dir, 16 * MIB, "s3://a", &c, &err),
		     -EPERM);
	cr_expect_not_null(strstr(err.msg, "mode 0700"));
	cr_assert_eq(chmod(dir, 0700), 0);
}

Test(disk_cache, keeps_no_plain_object)
{
	struct disk_cache *c = cache_of(16 * MIB, "s3://a");
	struct ckpt_file *f;

	put_object("plain", data, 5000);
	f = open_file("plain");
	cr_expect_null(disk_cache_attach(c, f));
	ckpt_close(f);
	disk_cache_free(c);
}
