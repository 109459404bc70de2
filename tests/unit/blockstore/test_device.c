// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "blockstore/fetcher.h"
#include "common/clock.h"
#include "tests/unit/blockstore/node.h"
#include "tests/unit/pause.h"

TestSuite(device, .timeout = 120);

#define SPAN 32768u /* bytes of a block in these tests */

static const struct node_config plain = { .n_blocks = 40,
					  .per_pack = 20,
					  .usize = SPAN,
					  .window = 100000,
					  .window_max = 400000 };

Test(device, any_range_reads_as_the_image_and_padding_as_zeros)
{
	struct device_stats st;
	struct node n;
	uint32_t x = 1;

	node_make(&n, &plain);
	for (int i = 0; i < 200; i++) {
		uint64_t off;

		x = x * 1664525u + 1013904223u;
		off = (x >> 4) % (39 * SPAN);
		expect_read(&n, 0, off, 1 + (x >> 9) % (40 * SPAN - off));
	}
	expect_read(&n, 0, 0, 40 * SPAN);
	/* Readers do not wait until the cache has it. */
	cr_assert_eq(fetch_blocks(&n, 0, 0, 40, SOURCE_HOT, NULL, NULL), 0);
	device_get_stats(n.dev[0], &st);
	cr_expect_eq(st.reads, 201);
	cr_expect_eq(st.blocks, 40);
	cr_expect_eq(device_count_held(n.dev[0]), 40);
	cr_expect_eq(st.fetched_bytes, n.img.pack_size[0] + n.img.pack_size[1],
		     "each stored byte once");
	cr_expect_eq(st.fetches, count_reads(&n, 0));
	cr_expect_eq(st.errors, 0);
	node_remove(&n);
}

Test(device, what_the_cache_holds_needs_no_source)
{
	struct node n;
	size_t before;

	node_make(&n, &plain);
	expect_read(&n, 0, 0, 40 * SPAN);
	before = count_reads(&n, 0);
	expect_read(&n, 0, 0, 40 * SPAN);
	expect_read(&n, 1, 0, 40 * SPAN);
	cr_expect_eq(count_reads(&n, 0), before);
	cr_expect_eq(count_reads(&n, 1), 0, "other devices share the cache");
	node_remove(&n);
}

Test(device, says_before_a_read_whether_it_will_wait)
{
	struct node n;

	node_make(&n, &plain);
	cr_expect_not(device_has_bytes(n.dev[0], 0, 1));
	cr_expect(device_has_bytes(n.dev[0], SPAN, 0), "nothing");
	cr_assert_eq(fetch_blocks(&n, 0, 3, 2, SOURCE_HOT, NULL, NULL), 0);
	cr_expect(device_has_bytes(n.dev[0], 3 * SPAN, 2 * SPAN));
	cr_expect(device_has_bytes(n.dev[0], 3 * SPAN + 5, 2 * SPAN - 5));
	cr_expect_not(device_has_bytes(n.dev[0], 3 * SPAN, 2 * SPAN + 1));
	cr_expect_not(device_has_bytes(n.dev[0], 2 * SPAN, SPAN + 1));
	cr_expect(device_has_bytes(n.dev[0], 3 * SPAN - 1, 2), "padding");
	/* A read that can only fail waits for nobody. */
	cr_expect(device_has_bytes(n.dev[0], 40 * SPAN, 1));
	cr_expect(device_has_bytes(n.dev[0], UINT64_MAX, 2));
	cr_expect_eq(count_reads(&n, 0), 1, "none was asked for");
	node_remove(&n);
}

Test(device, an_empty_read_is_done_at_once)
{
	struct later l;
	struct node n;

	node_make(&n, &plain);
	later_start(&l, &n, 0, 5, 0);
	cr_expect_eq(l.n_done, 1);
	cr_expect_eq(l.rc, 0);
	later_fini(&l, &n);
	node_remove(&n);
}

Test(device, bytes_that_no_block_covers_are_an_error)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct error err = ERROR_INIT;
	struct pack pack = { .size = 100 };
	struct block b = { .voff = 8192, .usize = 100, .csize = 100 };
	AUTO_FREE void *data = NULL;
	static uint8_t stored[100], got[16384];
	struct block_source *packs[1];
	struct device_stats st;
	struct device *dev;
	struct blockmap m;
	struct node n;
	uint32_t index;
	size_t len;

	node_make(&n, &plain);
	memset(stored, 7, sizeof(stored));
	memset(got, 7, sizeof(got));
	cr_assert_eq(digest_of(stored, 100, &b.digest), 0);
	cr_assert_eq(blockmap_writer_pack(w, &pack, &index, &err), 0);
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	cr_assert_eq(blockmap_writer_finish(w, 16384, &data, &len, &err), 0);
	cr_assert_eq(blockmap_open(data, len, &m, &err), 0);
	cr_assert_eq(verify_source_new(memory_source_new(stored, 100, 100),
				       &packs[0], &err),
		     0);
	cr_assert_eq(device_new(n.fetcher, &m, "gaps", "gaps.example", packs,
				&dev, &err),
		     0);
	cr_expect_eq(device_read_sync(dev, 8192, got, 4096, &err), 0);
	cr_expect_eq(got[99], 7);
	for (size_t i = 100; i < 4096; i++)
		cr_assert_eq(got[i], 0, "padding byte %zu", i);
	cr_expect_eq(device_read_sync(dev, 0, got, 1, &err), -EIO);
	cr_expect(strstr(err.msg, "image gaps: no block holds byte 0"), "%s",
		  err.msg);
	cr_expect_eq(device_read_sync(dev, 8191, got, 2, &err), -EIO);
	cr_expect_eq(device_read_sync(dev, 8192, got, 4097, &err), -EIO);
	cr_expect(strstr(err.msg, "byte 12288"), "%s", err.msg);
	cr_expect_eq(device_read_sync(dev, 16384, got, 1, &err), -EIO);
	cr_expect(strstr(err.msg, "past the device"), "%s", err.msg);
	cr_expect_eq(device_read_sync(dev, UINT64_MAX, got, 2, &err), -EIO);
	device_get_stats(dev, &st);
	cr_expect_eq(st.errors, 5);
	cr_expect_str_eq(st.error.msg, err.msg, "the last one");
	cr_expect_eq(st.error.code, EIO);
	cr_expect_gt(st.error_at, 0);
	device_free(dev);
	node_remove(&n);
}

Test(device, a_block_is_fetched_once_however_many_wait)
{
	struct later l[20];
	struct node n;

	node_make(&n, &plain);
	for (int d = 0; d < 2; d++)
		for (int p = 0; p < 2; p++)
			fault_set(n.fault[d][p],
				  &(struct fault_plan){ .held = true });
	for (int i = 0; i < 20; i++)
		later_start(&l[i], &n, i % 2, 3 * SPAN + (uint64_t)i, 1000);
	fault_wait_held(n.fault[0][0], 1);
	fault_release(n.fault[0][0]);
	for (int i = 0; i < 20; i++) {
		cr_expect_eq(later_wait(&l[i]), 0, "%s", l[i].err.msg);
		later_fini(&l[i], &n);
	}
	cr_expect_eq(count_reads(&n, 0), 1);
	cr_expect_eq(count_reads(&n, 1), 0);
	node_remove(&n);
}

Test(device, the_wanted_block_is_there_before_its_window)
{
	struct node_config cfg = plain;
	struct block b;
	struct node n;

	cfg.threads = 1;
	node_make(&n, &cfg);
	blockmap_block(&n.img.map, 3, &b);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .held = true,
					.hold_at = b.poff + b.csize + 5000 });
	expect_read(&n, 0, 3 * SPAN, SPAN);
	fault_wait_held(n.fault[0][0], 1);
	cr_expect_eq(n.fault[0][0]->log[0].off, b.poff);
	cr_expect_gt(n.fault[0][0]->log[0].len, 60000);
	cr_expect_leq(n.fault[0][0]->log[0].len, 100000);
	fault_release(n.fault[0][0]);
	/* And the neighbours come without another request. */
	expect_read(&n, 0, 4 * SPAN, SPAN);
	cr_expect_eq(count_reads(&n, 0), 1);
	node_remove(&n);
}

Test(device, sequential_reads_need_few_and_growing_requests)
{
	struct node_config cfg = { .n_blocks = 200,
				   .per_pack = 200,
				   .usize = SPAN,
				   .window = 100000,
				   .window_max = 800000 };
	struct fault_source *f;
	uint64_t longest = 0;
	struct node n;

	node_make(&n, &cfg);
	for (uint64_t off = 0; off < 200 * SPAN; off += 8192)
		expect_read(&n, 0, off, 8192);
	f = n.fault[0][0];
	for (size_t i = 0; i < f->n_reads; i++)
		if (f->log[i].len > longest)
			longest = f->log[i].len;
	cr_expect_leq(f->n_reads, 14, "%zu requests", f->n_reads);
	cr_expect_gt(longest, 600000);
	cr_expect_leq(longest, 800000);
	cr_expect_eq(f->n_bytes, n.img.pack_size[0]);
	node_remove(&n);
}

/* Stored bytes of the last request that began with block `index`. */
static uint64_t request_of(struct node *n, size_t index)
{
	struct fault_source *f = n->fault[0][0];
	uint64_t len = 0;
	struct block b;

	blockmap_block(&n->img.map, index, &b);
	(void)pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n_reads; i++)
		if (f->log[i].off == b.poff)
			len = f->log[i].len;
	(void)pthread_mutex_unlock(&f->lock);
	return len;
}

static uint64_t stored(struct node *n, size_t index)
{
	struct block b;

	blockmap_block(&n->img.map, index, &b);
	return b.csize;
}

/* Until no window is still coming: those that are make the next one smaller. */
static void windows_wait(struct node *n)
{
	unsigned int n_left;

	do {
		unit_pause();
		(void)pthread_mutex_lock(&n->fetcher->lock);
		n_left = n->dev[0]->n_urgent;
		(void)pthread_mutex_unlock(&n->fetcher->lock);
	} while (n_left);
}

#define FAR 700u

Test(device, who_jumps_at_random_has_windows_until_they_do_not_help)
{
	struct node_config cfg = plain;
	struct node n;
	size_t at = 0;

	cfg.n_blocks = cfg.per_pack = 800;
	node_make(&n, &cfg);
	expect_read(&n, 0, 0, 100);
	cr_expect_gt(request_of(&n, 0), stored(&n, 0));
	for (; at < 24; at++)
		expect_read(&n, 0, at * 12 * SPAN, 100);
	cr_expect_eq(request_of(&n, 23 * 12), stored(&n, 23 * 12));
	/* Close together, whether or not a window was there. */
	for (; at < 40; at++) {
		expect_read(&n, 0, at * 12 * SPAN, 100);
		expect_read(&n, 0, (at * 12 + 3) * SPAN, 100);
	}
	windows_wait(&n);
	/* Far from all of them: who came late to its window made the next one longer. */
	expect_read(&n, 0, FAR * SPAN, 100);
	cr_expect_gt(request_of(&n, FAR), stored(&n, FAR));
	node_remove(&n);
}

Test(device, readers_get_their_bytes_although_the_cache_cannot_keep_them)
{
	struct node_config cfg = plain;
	struct cache_stats st;
	struct node n;

	cfg.quota = 1;
	node_make(&n, &cfg);
	expect_read(&n, 0, 0, 40 * SPAN);
	expect_read(&n, 0, 100, 5 * SPAN);
	cache_get_stats(n.cache, &st);
	cr_expect_eq(st.blocks, 0);
	cr_expect_gt(st.put_failed, 40);
	node_remove(&n);
}

Test(device, a_reader_waits_no_longer_than_its_deadline)
{
	struct node_config cfg = plain;
	struct error err = ERROR_INIT;
	char text[DIGEST_STR_MAX];
	struct device_stats st;
	struct block b;
	struct node n;

	cfg.timeout_ms = 30;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	cr_expect_eq(try_read(&n, 0, 2 * SPAN, 100, &err), -ETIMEDOUT);
	blockmap_block(&n.img.map, 2, &b);
	digest_format(&b.digest, text);
	cr_expect(strstr(err.msg, "image-0"), "%s", err.msg);
	cr_expect(strstr(err.msg, text), "%s", err.msg);
	device_get_stats(n.dev[0], &st);
	cr_expect_eq(st.errors, 1);
	fault_release(n.fault[0][0]);
	cfg.timeout_ms = 0;
	while (try_read(&n, 0, 2 * SPAN, 100, &err) == -ETIMEDOUT)
		;
	node_remove(&n);
}

Test(device, who_joins_late_has_the_whole_of_its_own_time)
{
	struct node_config cfg = plain;
	struct later first, late;
	struct node n;

	cfg.timeout_ms = 3000;
	node_make(&n, &cfg);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true,
						       .n_fail = 1,
						       .fail_rc = -ETIMEDOUT,
						       .fail_after = 1 });
	later_start(&first, &n, 0, 0, 100);
	fault_wait_held(n.fault[0][0], 1);
	cr_expect_eq(later_wait(&first), -ETIMEDOUT);
	/* The source has not noticed yet. */
	later_start(&late, &n, 0, 0, 100);
	cr_expect_eq(late.n_done, 0);
	fault_release(n.fault[0][0]);
	cr_expect_eq(later_wait(&late), 0, "%s", late.err.msg);
	cr_expect_eq(fault_reads(n.fault[0][0]), 2);
	later_fini(&late, &n);
	free(first.buf);
	node_remove(&n);
}

Test(device, a_failed_fetch_fails_its_waiters_only_and_names_the_block)
{
	struct error err = ERROR_INIT;
	char text[DIGEST_STR_MAX];
	struct pack pack;
	struct block b;
	struct node n;

	node_make(&n, &plain);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .n_fail = 1, .fail_rc = -EIO });
	cr_expect_eq(try_read(&n, 0, 2 * SPAN, 100, &err), -EIO);
	blockmap_block(&n.img.map, 2, &b);
	digest_format(&b.digest, text);
	cr_expect(strstr(err.msg, "image image-0: block "), "%s", err.msg);
	cr_expect(strstr(err.msg, text), "%s", err.msg);
	blockmap_pack(&n.img.map, 0, &pack);
	digest_format(&pack.digest, text);
	cr_expect(strstr(err.msg, text), "%s", err.msg);
	cr_expect(strstr(err.msg, "fault on purpose"), "%s", err.msg);
	expect_read(&n, 0, 2 * SPAN, 100);
	node_remove(&n);
}

Test(device, a_failure_behind_the_wanted_block_is_not_the_readers)
{
	struct node n;

	node_make(&n, &plain);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .n_fail = 1,
					.fail_rc = -EIO,
					.fail_after = SPAN + 100 });
	expect_read(&n, 0, 0, SPAN);
	/* Two blocks wanted: the second is asked for again. */
	fault_set(n.fault[0][1], &(struct fault_plan){ .n_fail = 1,
						       .fail_rc = -ENOENT,
						       .fail_after = 0 });
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .n_wrong = 99,
					.wrong_at = n.img.pack_size[0] - 1 });
	expect_read(&n, 0, 17 * SPAN, 2 * SPAN);
	node_remove(&n);
}

Test(device, wrong_bytes_are_asked_for_once_more_and_never_served)
{
	struct error err = ERROR_INIT;
	struct block b;
	struct node n;

	node_make(&n, &plain);
	blockmap_block(&n.img.map, 4, &b);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .n_wrong = 1, .wrong_at = b.poff });
	expect_read(&n, 0, 4 * SPAN, SPAN);
	blockmap_block(&n.img.map, 12, &b);
	fault_set(n.fault[0][0],
		  &(struct fault_plan){ .n_wrong = 1000, .wrong_at = b.poff });
	cr_expect_eq(try_read(&n, 0, 12 * SPAN, SPAN, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "content is sha256:"), "%s", err.msg);
	expect_read(&n, 0, 13 * SPAN, SPAN);
	fault_set(n.fault[0][0], &(struct fault_plan){ .n_wrong = 0 });
	expect_read(&n, 0, 12 * SPAN, SPAN);
	node_remove(&n);
}

Test(device, a_device_whose_own_source_works_is_not_failed_by_another)
{
	struct later l[2];
	struct node n;

	node_make(&n, &plain);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true,
						       .n_fail = 1,
						       .fail_rc = -EACCES,
						       .fail_after = 100 });
	later_start(&l[0], &n, 0, 0, 100);
	fault_wait_held(n.fault[0][0], 1);
	later_start(&l[1], &n, 1, 0, 100);
	fault_release(n.fault[0][0]);
	cr_expect_eq(later_wait(&l[0]), -EACCES);
	cr_expect_eq(later_wait(&l[1]), 0, "%s", l[1].err.msg);
	later_fini(&l[0], &n);
	later_fini(&l[1], &n);
	cr_expect_eq(count_reads(&n, 1), 1);
	node_remove(&n);
}

Test(device, knows_how_long_nobody_read)
{
	int64_t idle, before;
	struct later l;
	struct node n;

	node_make(&n, &plain);
	cr_expect(!device_has(n.dev[0], 2));
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	later_start(&l, &n, 0, 2 * SPAN, 100);
	fault_wait_held(n.fault[0][0], 1);
	cr_expect_eq(fetcher_idle_ns(n.fetcher), 0);
	fault_release(n.fault[0][0]);
	cr_expect_eq(later_wait(&l), 0);
	later_fini(&l, &n);
	/* Readers do not wait until the cache has it. */
	cr_assert_eq(fetch_blocks(&n, 0, 2, 1, SOURCE_HOT, NULL, NULL), 0);
	cr_expect(device_has(n.dev[0], 2));
	idle = fetcher_idle_ns(n.fetcher);
	cr_expect_gt(idle, 0);
	/* What is there is read, too. */
	before = clock_now_ns();
	expect_read(&n, 0, 2 * SPAN, 100);
	cr_expect_leq(fetcher_idle_ns(n.fetcher), clock_now_ns() - before);
	node_remove(&n);
}
