// SPDX-License-Identifier: Apache-2.0
/* What a mount reads stays until the mount is gone.  A descriptor plays the kernel's
 * part: it has the metadata image and the segment open. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "blockstore/cache.h"
#include "common/clock.h"
#include "common/fs.h"
#include "tests/unit/blockstore/cache_dir.h"
#include "tests/unit/blockstore/image.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/pause.h"

#define MB (1ull << 20)
#define N 20u
#define NAME "00ff"

static struct cache_dir d;
static struct image img, other;
static struct cache *c;
static int held_meta = -1, held_segment = -1;

static void setup(void)
{
	(void)signal(SIGIO, SIG_IGN);
	cache_dir_make(&d);
	image_make(&img, 1, N, 100000, 10);
	image_make(&other, 2, N, 100000, 10);
	c = cache_dir_open(&d, 100 * MB);
}

static void unmount(void)
{
	if (held_meta >= 0)
		(void)close(held_meta);
	if (held_segment >= 0)
		(void)close(held_segment);
	held_meta = held_segment = -1;
}

static void teardown(void)
{
	cache_close(c);
	unmount();
	image_fini(&img);
	image_fini(&other);
	cache_dir_remove(&d);
}

TestSuite(cache_mounts, .timeout = 60, .init = setup, .fini = teardown);

/* Block 0 of the other image first, so that segment 0 has what is not mounted. */
static void mount_it(void)
{
	AUTO_FREE char *meta = NULL, *segment = NULL;
	struct error err = ERROR_INIT;
	struct block b;
	uint32_t file;
	uint64_t off;

	cr_assert_eq(put_block(c, &other, 0), 0);
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	cr_assert_eq(cache_pin(c, &img.map, &err), 0);
	for (size_t i = 0; i < N; i++) {
		blockmap_block(&img.map, i, &b);
		cr_assert_eq(cache_locate(c, &b, &file, &off, &err), 0, "%s",
			     err.msg);
	}
	cr_assert_eq(cache_mount_path(c, NAME, "erofs", &meta, &err), 0);
	cr_assert_eq(fs_replace_file(meta, "meta", 4, 0600, &err), 0);
	cr_assert_eq(cache_mount_keep(c, NAME, &img.map, &err), 0, "%s",
		     err.msg);
	cache_unpin(c, &img.map);
	cr_assert_eq(cache_file_path(c, file, &segment, &err), 0);
	held_meta = open(meta, O_RDONLY | O_CLOEXEC);
	held_segment = open(segment, O_RDONLY | O_CLOEXEC);
	cr_assert(held_meta >= 0 && held_segment >= 0);
}

static void reopen(void)
{
	cache_close(c);
	c = cache_dir_open(&d, 100 * MB);
}

static void spoil(const char *name, const char *text)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_CLOSE int fd = -1;

	cr_assert_eq(buf_printf(&path, "%s/%s", d.path, name), 0);
	fd = open(path.data, O_WRONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", path.data);
	cr_assert_eq(ftruncate(fd, 64), 0);
	cr_assert_eq(fs_pwrite_full(fd, text, strlen(text), 8), 0);
}

/* Everything that may go, goes; then others come. */
static void press(void)
{
	struct error err = ERROR_INIT;
	uint64_t freed;

	cr_assert_eq(cache_gc(c, 0, &freed, &err), 0, "%s", err.msg);
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(put_block(c, &other, i), 0);
}

/* As the mount sees it: no byte of the segment that was is another. */
static void expect_bytes(void)
{
	AUTO_FREE uint8_t *got = malloc(100000);

	for (size_t i = 0; i < N; i++) {
		struct block b;

		blockmap_block(&img.map, i, &b);
		cr_assert_eq(fs_pread_full(held_segment, got, b.usize,
					   (i + 1) * 102400),
			     0);
		cr_expect_arr_eq(got, image_plain(&img, i), b.usize, "%zu", i);
	}
}

static struct cache_stats stats(void)
{
	struct cache_stats s;

	cache_get_stats(c, &s);
	return s;
}

/* As the cache's thread does once a second. */
static void look(void)
{
	(void)mounts_poll(c);
	(void)freeze_poll(c);
}

Test(cache_mounts, what_is_dropped_stays_until_the_mount_is_gone)
{
	mount_it();
	cache_mount_drop(c, NAME);
	cr_expect_eq(stats().mounts_lingering, 1);
	cr_expect_eq(cache_mount_forget(c, NAME, NULL), -EBUSY);
	press();
	expect_bytes();
	unmount();
	look();
	cr_expect_eq(stats().pinned_bytes, 0);
	cr_expect_eq(stats().mounts_lingering, 0);
	cr_expect_eq(cache_mount_forget(c, NAME, NULL), 0);
}

Test(cache_mounts, a_mount_that_is_gone_when_it_is_dropped_keeps_nothing)
{
	mount_it();
	unmount();
	cache_mount_drop(c, NAME);
	cr_expect_eq(stats().pinned_bytes, 0);
}

Test(cache_mounts, a_successor_knows_what_is_mounted_without_an_index)
{
	mount_it();
	spoil("index", "not an index");
	reopen();
	cr_expect_eq(stats().frozen_files, 0);
	cr_expect_eq(stats().mounts_lingering, 1);
	cr_expect_eq(cache_mount_adopt(c, NAME), 0);
	cr_expect_eq(stats().mounts_lingering, 0);
	press();
	expect_bytes();
	for (size_t i = 0; i < N; i++)
		cr_expect_eq(get_block(c, &img, i), 0);
}

Test(cache_mounts, an_unknown_list_freezes_the_file_until_nobody_reads_it)
{
	mount_it();
	spoil("index", "not an index");
	spoil("mounts/" NAME ".blocks", "not a list");
	reopen();
	cr_expect_eq(stats().frozen_files, 1);
	cr_expect_eq(stats().mounts_unknown, 1);
	cr_expect_geq(stats().frozen_bytes, (N + 1) * 100000);
	press();
	expect_bytes();
	cr_expect_eq(cache_mount_keep(c, NAME, &img.map, NULL), -EBUSY);
	unmount();
	look();
	cr_expect_eq(stats().frozen_files, 0);
	cr_expect_eq(stats().frozen_bytes, 0);
}

Test(cache_mounts, a_block_in_a_frozen_file_is_read_and_never_changed)
{
	struct error err = ERROR_INIT;
	struct block b;
	uint32_t file;
	uint64_t off;

	mount_it();
	spoil("mounts/" NAME ".blocks", "not a list");
	reopen();
	cr_expect_eq(stats().frozen_files, 1);
	cr_expect_eq(get_block(c, &img, 3), 0);
	/* Found damaged: a miss, whose place stays as it is. */
	cr_assert_eq(fs_pwrite_full(c->fds[0], "x", 1, 5 * 102400), 0);
	cr_expect_eq(get_block(c, &img, 4), -ENOENT);
	cr_assert_eq(put_block(c, &img, 4), 0);
	cr_expect_eq(get_block(c, &img, 4), -ENOENT);
	press();
	cr_expect_eq(stats().evicted, 0);
	/* Nothing new is mounted from it. */
	blockmap_block(&img.map, 3, &b);
	cr_assert_eq(cache_pin(c, &img.map, &err), 0);
	cr_expect_eq(cache_locate(c, &b, &file, &off, &err), -EBUSY);
	cache_unpin(c, &img.map);
	unmount();
	look();
	cr_expect_eq(stats().frozen_files, 0);
	cr_assert_eq(put_block(c, &img, 4), 0);
	cr_expect_eq(get_block(c, &img, 4), 0);
	press();
}

Test(cache_mounts, a_file_that_somebody_reads_is_frozen_meanwhile)
{
	mount_it();
	unmount();
	cache_mount_drop(c, NAME);
	held_segment = openat(c->dir_fd, "segment-00000000", O_RDONLY);
	reopen();
	cr_expect_eq(stats().frozen_files, 1);
	press();
	expect_bytes();
	unmount();
	look();
	cr_expect_eq(stats().frozen_files, 0);
	press();
}

/* What the kernel answers instead, -errno; 0: as it is. */
static int answer;

int __real_fs_is_in_use(int fd);
int __wrap_fs_is_in_use(int fd);

int __wrap_fs_is_in_use(int fd)
{
	return answer ? answer : __real_fs_is_in_use(fd);
}

Test(cache_mounts, a_file_is_frozen_while_the_kernel_cannot_say_who_reads_it)
{
	mount_it();
	spoil("mounts/" NAME ".blocks", "not a list");
	unmount();
	answer = -ENOMEM;
	reopen();
	cr_expect_eq(stats().frozen_files, 1);
	look();
	cr_expect_eq(stats().frozen_files, 1);
	answer = 0;
	look();
	cr_expect_eq(stats().frozen_files, 0);
}

Test(cache_mounts, no_file_is_frozen_where_there_are_no_leases)
{
	mount_it();
	unmount();
	cache_mount_drop(c, NAME);
	answer = -EINVAL;
	reopen();
	cr_expect_eq(stats().frozen_files, 0);
	answer = 0;
}

/* How write-back ends for this thread when it asks next; 0: as it is. */
static _Thread_local int write_back;

/* What this thread asked for, and how long each of it takes by a clock that is held. */
static _Thread_local struct {
	size_t n, n_writing;
	off_t longest, end; /* of what is to be written */
	int64_t takes_ns;
	void (*meanwhile)(void);
} asked;

static void note_asked(off_t off, off_t len, unsigned int flags)
{
	asked.n++;
	if (asked.takes_ns)
		test_clock_step(asked.takes_ns);
	if (asked.meanwhile)
		asked.meanwhile();
	if (flags != SYNC_FILE_RANGE_WRITE_AND_WAIT)
		return;
	asked.n_writing++;
	asked.end = off + len;
	if (len > asked.longest)
		asked.longest = len;
}

int __real_sync_file_range(int fd, off_t off, off_t len, unsigned int flags);
int __wrap_sync_file_range(int fd, off_t off, off_t len, unsigned int flags);

int __wrap_sync_file_range(int fd, off_t off, off_t len, unsigned int flags)
{
	note_asked(off, len, flags);
	if (!write_back)
		return __real_sync_file_range(fd, off, len, flags);
	errno = write_back;
	write_back = 0;
	return -1;
}

/* As the cache's thread does every five seconds.  It may have looked for the last time
 * already, where a test let its clock run on. */
static void look_at_writing(int how_it_ended)
{
	(void)pthread_mutex_lock(&c->space);
	watch_written(c, 0);
	write_back = how_it_ended;
	watch_look(c);
	(void)pthread_mutex_unlock(&c->space);
}

#define DAY_NS (24 * 3600 * NS_PER_S)

/* Longer than any of these. */
#define NEVER_NS (10000 * DAY_NS)

static void open_scrubbed(int64_t every_ns)
{
	struct cache_config cfg = { .dir = d.path,
				    .quota = 100 * MB,
				    .scrub_rate = 1 << 30,
				    .scrub_every_ns = every_ns };

	cache_close(c);
	cr_assert_eq(cache_open(&cfg, &c, NULL), 0);
}

static void look_again(int how_it_ended)
{
	(void)pthread_mutex_lock(&c->space);
	write_back = how_it_ended;
	watch_look(c);
	write_back = 0;
	(void)pthread_mutex_unlock(&c->space);
}

Test(cache_mounts, what_a_predecessor_put_and_the_disk_did_not_take_is_a_miss)
{
	cr_assert_eq(put_block(c, &img, 0), 0);
	reopen();
	/* Out of the page cache. */
	cr_expect_eq(get_block(c, &img, 0), 0);
	look_again(EIO);
	cr_expect_eq(get_block(c, &img, 0), -ENOENT);
}

/* All looks but the last; the cache's thread may take a part of them. */
static void look_until_last(void)
{
	uint32_t left;

	do {
		look_again(0);
		(void)pthread_mutex_lock(&c->space);
		left = c->segments[0].looks;
		(void)pthread_mutex_unlock(&c->space);
	} while (left > 1);
	cr_assert_eq(left, 1);
	asked.n_writing = 0;
}

Test(cache_mounts, the_last_look_writes_all_and_hears_how_it_ended)
{
	test_clock_hold();
	cr_assert_eq(put_block(c, &img, 0), 0);
	look_until_last();
	look_again(EIO);
	cr_expect_eq(get_block(c, &img, 0), -ENOENT);
	look_again(0);
	cr_expect_geq(asked.end, (off_t)c->segment_bytes);
	cr_expect_leq(asked.longest, 8 << 20, "it would keep the end waiting");
	cr_expect_eq(c->segments[0].looks, 0);
}

Test(cache_mounts, a_slow_disk_has_one_second_of_each_round_for_the_last_look)
{
	test_clock_hold();
	/* Without an index there is nothing that says how large segments are. */
	cr_assert_eq(unlinkat(c->dir_fd, "index", 0), 0);
	open_scrubbed(NEVER_NS);
	cr_assert_eq(c->segment_bytes, CACHE_SEGMENT_BYTES);
	cr_assert_eq(put_block(c, &img, 0), 0);
	look_until_last();
	asked.takes_ns = NS_PER_S / 2;
	look_again(0);
	cr_expect_eq(asked.n_writing, 2);
	look_again(0);
	cr_expect_eq(asked.n_writing, 4, "goes on where it was");
	cr_expect_eq(asked.end, 4 * asked.longest);
}

static void put_another(void)
{
	asked.meanwhile = NULL;
	cr_assert_eq(put_block(c, &img, 1), 0);
}

Test(cache_mounts, what_is_put_during_the_last_look_has_looks_of_its_own)
{
	test_clock_hold();
	cr_assert_eq(put_block(c, &img, 0), 0);
	look_until_last();
	asked.meanwhile = put_another;
	look_again(0);
	cr_expect_eq(asked.n_writing, 1);
	look_until_last();
	look_again(EIO);
	cr_expect_eq(get_block(c, &img, 1), -ENOENT);
}

static void end_it(void)
{
	(void)pthread_mutex_lock(&c->space);
	c->stop = true;
	(void)pthread_mutex_unlock(&c->space);
}

Test(cache_mounts, the_end_waits_for_one_piece_of_the_last_look)
{
	test_clock_hold();
	cr_assert_eq(put_block(c, &img, 0), 0);
	look_until_last();
	asked.meanwhile = end_it;
	look_again(0);
	cr_expect_eq(asked.n_writing, 1);
}

Test(cache_mounts, what_was_not_written_is_a_miss_whatever_the_disk_says)
{
	static const int lost[] = { EIO,       ENOSPC,    ENODATA,
				    ENOLINK,   EREMOTEIO, EDQUOT,
				    ETIMEDOUT, ENODEV,    EINVAL };
	static const int of_the_call[] = { EINTR, EBADF, ESPIPE };

	for (size_t i = 0; i < ARRAY_SIZE(lost); i++) {
		cr_assert_eq(put_block(c, &img, 0), 0);
		cr_expect_eq(get_block(c, &img, 0), 0);
		look_at_writing(lost[i]);
		cr_expect_eq(get_block(c, &img, 0), -ENOENT, "%s",
			     strerror(lost[i]));
	}
	cr_assert_eq(put_block(c, &img, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(of_the_call); i++) {
		look_at_writing(of_the_call[i]);
		cr_expect_eq(get_block(c, &img, 0), 0, "%s",
			     strerror(of_the_call[i]));
	}
}

/* Does write-back of this thread's next write fail before the write has returned? */
static _Thread_local bool loses_next;

ssize_t __real_pwritev64(int fd, const struct iovec *v, int n, off_t at);
ssize_t __wrap_pwritev64(int fd, const struct iovec *v, int n, off_t at);

ssize_t __wrap_pwritev64(int fd, const struct iovec *v, int n, off_t at)
{
	ssize_t len = __real_pwritev64(fd, v, n, at);

	if (loses_next) {
		loses_next = false;
		look_at_writing(EIO);
	}
	return len;
}

Test(cache_mounts, what_was_lost_while_it_was_put_is_not_there)
{
	loses_next = true;
	cr_expect_eq(put_block(c, &img, 1), -EIO);
	cr_expect_eq(get_block(c, &img, 1), -ENOENT);
	cr_assert_eq(put_block(c, &img, 1), 0);
	cr_expect_eq(get_block(c, &img, 1), 0);
	/* Where it lay under a mount, too. */
	mount_it();
	look_at_writing(EIO);
	loses_next = true;
	cr_expect_eq(put_block(c, &img, 4), -EIO);
	cr_expect_eq(get_block(c, &img, 4), -ENOENT);
	cr_expect(cache_mount_is_damaged(c, NAME));
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	cr_expect_eq(get_block(c, &img, 4), 0);
	cr_expect_not(cache_mount_is_damaged(c, NAME));
}

static void on_damage(void *arg)
{
	(void)sem_post(arg);
}

/* A bit of block 4 flips, below the page cache. */
static void flip(void)
{
	AUTO_CLOSE int fd = openat(c->dir_fd, "segment-00000000", O_RDWR);
	uint64_t at = 5 * 102400 + 7;
	uint8_t b;

	cr_assert_eq(fs_pread_full(fd, &b, 1, at), 0);
	b ^= 4;
	cr_assert_eq(fs_pwrite_full(fd, &b, 1, at), 0);
	cr_assert_eq(fdatasync(fd), 0);
}

static void wait_for_damage(sem_t *found)
{
	struct timespec end;

	(void)clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 50;
	cr_assert_eq(sem_timedwait(found, &end), 0);
}

static void expect_mended(void)
{
	cr_expect_eq(stats().damaged, 1);
	cr_expect_eq(get_block(c, &img, 4), -ENOENT);
	cr_assert_eq(put_block(c, &img, 4), 0);
	expect_bytes();
	cr_expect_eq(get_block(c, &img, 4), 0);
}

Test(cache_mounts, bits_that_flip_are_found_and_put_where_they_were)
{
	sem_t found;

	(void)sem_init(&found, 0, 0);
	open_scrubbed(1000000);
	mount_it();
	cache_on_damage(c, on_damage, &found);
	flip();
	wait_for_damage(&found);
	cache_on_damage(c, NULL, NULL);
	expect_mended();
	cr_expect_gt(stats().scrubbed, 0);
	(void)sem_destroy(&found);
}

Test(cache_mounts, bits_that_flipped_before_a_restart_are_found_without_a_read)
{
	sem_t found;

	(void)sem_init(&found, 0, 0);
	mount_it();
	flip();
	open_scrubbed(1000000);
	cr_assert_eq(cache_mount_adopt(c, NAME), 0);
	cache_on_damage(c, on_damage, &found);
	wait_for_damage(&found);
	cache_on_damage(c, NULL, NULL);
	expect_mended();
	cr_expect_gt(stats().scrubbed, 0);
	(void)sem_destroy(&found);
}

/* When damage is told next; 0: not at all. */
static int64_t told_at(void)
{
	int64_t at_ns;

	(void)pthread_mutex_lock(&c->space);
	at_ns = c->tell_ns;
	(void)pthread_mutex_unlock(&c->space);
	return at_ns;
}

/* The threads of the cache look at the clock. */
static void step(void)
{
	test_clock_step(NS_PER_S);
	watch_soon(c);
	unit_pause();
}

/* Mounted, and nothing to be told. */
static void mount_and_listen(sem_t *found)
{
	(void)sem_init(found, 0, 0);
	open_scrubbed(NEVER_NS);
	mount_it();
	cache_on_damage(c, on_damage, found);
	while (told_at())
		step();
	cr_assert_lt(sem_trywait(found), 0);
}

static void leave(sem_t *found)
{
	cache_on_damage(c, NULL, NULL);
	(void)sem_destroy(found);
}

Test(cache_mounts, a_segment_that_was_not_written_is_told_of)
{
	sem_t found;

	mount_and_listen(&found);
	look_at_writing(EIO);
	while (sem_trywait(&found) < 0)
		step();
	leave(&found);
}

static void lose_all(void)
{
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	look_at_writing(EIO);
}

/* How often is it told in so long, when all is put again at once and lost again?  The test's
 * thread does what the scrubber's does, second by second. */
static int times_told(int seconds, sem_t *found)
{
	int times = 0;

	for (int i = 0; i < seconds; i++) {
		test_clock_step(NS_PER_S);
		(void)pthread_mutex_lock(&c->space);
		(void)scrub_tell(c);
		(void)pthread_mutex_unlock(&c->space);
		for (; sem_trywait(found) == 0; times++)
			lose_all();
	}
	return times;
}

/* All of the segment is fetched again each time. */
Test(cache_mounts, a_place_that_the_disk_never_takes_is_told_less_and_less)
{
	sem_t found;

	(void)sem_init(&found, 0, 0);
	test_clock_hold();
	mount_it();
	cache_on_damage(c, on_damage, &found);
	lose_all();
	cr_expect_eq(times_told(1, &found), 1);
	/* After 10, 20, 40 and 80 seconds. */
	cr_expect_eq(times_told(150, &found), 4);
	/* 160, 320, 640, 1280, then 1800 each. */
	cr_expect_eq(times_told(2400 + 3 * 1800, &found), 7);
	leave(&found);
}

Test(cache_mounts, damage_of_a_mount_that_was_mended_is_told_at_once)
{
	sem_t found;

	(void)sem_init(&found, 0, 0);
	test_clock_hold();
	mount_it();
	cache_on_damage(c, on_damage, &found);
	lose_all();
	/* Its pause is half an hour by now. */
	cr_expect_eq(times_told(2551, &found), 9);
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	cr_expect_eq(times_told(50, &found), 0);
	look_at_writing(EIO);
	cr_expect_eq(times_told(1, &found), 0, "it was not mended for long");
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	cr_expect_eq(times_told(70, &found), 0);
	look_at_writing(EIO);
	/* And then after ten seconds. */
	cr_expect_eq(times_told(1, &found), 1);
	cr_expect_eq(times_told(12, &found), 1);
	leave(&found);
}

#define SECOND "01ff"

/* Block 0 of the other image is under a mount, too. */
static int keep_second(void)
{
	AUTO_FREE char *meta = NULL;
	struct blockmap one = other.map;
	struct error err = ERROR_INIT;
	struct block b;
	int rc;

	one.n_blocks = 1;
	blockmap_block(&one, 0, &b);
	cr_assert_eq(cache_pin_block(c, &b.digest, &err), 0);
	cr_assert_eq(put_block(c, &other, 0), 0);
	cr_assert_eq(cache_mount_path(c, SECOND, "erofs", &meta, &err), 0);
	cr_assert_eq(fs_replace_file(meta, "meta", 4, 0600, &err), 0);
	rc = cache_mount_keep(c, SECOND, &one, &err);
	cache_unpin_block(c, &b.digest);
	return rc;
}

Test(cache_mounts, damage_of_one_mount_keeps_that_of_another_from_nobody)
{
	sem_t found;

	(void)sem_init(&found, 0, 0);
	test_clock_hold();
	mount_it();
	cache_on_damage(c, on_damage, &found);
	lose_all();
	/* Its pause is half an hour by now. */
	cr_expect_eq(times_told(2551, &found), 9);
	cr_assert_eq(keep_second(), 0);
	cr_expect_eq(times_told(5, &found), 0);
	cr_expect_not(cache_mount_is_damaged(c, SECOND));
	look_at_writing(EIO);
	cr_expect(cache_mount_is_damaged(c, SECOND));
	cr_expect(cache_mount_is_damaged(c, NAME));
	cr_expect_eq(times_told(1, &found), 1);
	/* And alone: the other one's pause goes on. */
	cr_expect(cache_mount_is_told(c, SECOND));
	cr_expect_not(cache_mount_is_told(c, NAME));
	cr_expect_eq(cache_mounts_told(c), 1);
	leave(&found);
}

Test(cache_mounts, nothing_damaged_is_kept)
{
	struct error err = ERROR_INIT;

	mount_it();
	cr_assert_eq(cache_pin(c, &other.map, &err), 0);
	cr_assert_eq(put_block(c, &other, 0), 0);
	look_at_writing(EIO);
	cache_unpin(c, &other.map);
	cr_assert_eq(cache_pin(c, &img.map, &err), 0);
	cr_expect_eq(cache_mount_keep(c, SECOND, &img.map, &err), -ENOENT);
	cache_unpin(c, &img.map);
	cr_expect(cache_mount_is_damaged(c, NAME));
	cr_expect_not(cache_mount_is_damaged(c, SECOND));
}

Test(cache_mounts, damage_of_what_no_mount_reads_is_not_told)
{
	struct block b;
	sem_t found;

	(void)sem_init(&found, 0, 0);
	open_scrubbed(NEVER_NS);
	cr_assert_eq(put_block(c, &img, 0), 0);
	blockmap_block(&img.map, 0, &b);
	cr_assert_eq(cache_pin_block(c, &b.digest, NULL), 0);
	test_clock_hold();
	cache_on_damage(c, on_damage, &found);
	look_at_writing(EIO);
	cr_expect_eq(get_block(c, &img, 0), -ENOENT);
	while (told_at())
		step();
	cr_expect_lt(sem_trywait(&found), 0);
	cr_assert_eq(put_block(c, &img, 0), 0);
	cr_expect_eq(get_block(c, &img, 0), 0);
	leave(&found);
}

Test(cache_mounts,
     damage_that_a_reader_finds_is_told_also_when_it_is_asked_for_later)
{
	sem_t found;

	(void)sem_init(&found, 0, 0);
	mount_it();
	flip();
	open_scrubbed(NEVER_NS);
	cr_assert_eq(cache_mount_adopt(c, NAME), 0);
	test_clock_hold();
	cr_expect_eq(get_block(c, &img, 4), -ENOENT);
	while (told_at())
		step();
	cache_on_damage(c, on_damage, &found);
	while (sem_trywait(&found) < 0)
		step();
	expect_mended();
	leave(&found);
}

Test(cache_mounts, damage_is_told_until_the_block_is_put)
{
	sem_t found;

	mount_and_listen(&found);
	look_at_writing(EIO);
	for (int times = 0; times < 3; times++)
		while (sem_trywait(&found) < 0)
			step();
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(put_block(c, &img, i), 0);
	while (told_at())
		step();
	expect_bytes();
	leave(&found);
}

/* As log_compact() with space says. */
static int compact(void)
{
	int rc;

	(void)pthread_mutex_lock(&c->space);
	rc = log_compact(c, true, NULL);
	(void)pthread_mutex_unlock(&c->space);
	return rc;
}

Test(cache_mounts, an_index_that_was_not_written_has_no_record_of_a_block)
{
	struct entry *e;

	cr_assert_eq(put_block(c, &img, 0), 0);
	e = entry_at(c, 0);
	/* As on a disk that was full then. */
	e->flags &= (uint8_t)~ENTRY_LOGGED;
	cr_assert_eq(unlinkat(c->dir_fd, "index", 0), 0);
	cr_assert_eq(mkdirat(c->dir_fd, "index", 0700), 0);
	cr_expect_lt(compact(), 0);
	cr_expect_not(e->flags & ENTRY_LOGGED);
	cr_assert_eq(unlinkat(c->dir_fd, "index", AT_REMOVEDIR), 0);
	cr_expect_eq(compact(), 0);
	cr_expect(e->flags & ENTRY_LOGGED);
}

Test(cache_mounts, a_scrub_begins_soon_after_a_restart_with_mounts)
{
	open_scrubbed(DAY_NS);
	cr_expect_eq(scrub_first_ns(c), DAY_NS, "nothing is mounted");
	mount_it();
	open_scrubbed(DAY_NS);
	cr_expect_leq(scrub_first_ns(c), DAY_NS / 1000);
}
