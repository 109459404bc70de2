// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "recorder/recorder_priv.h"
#include "tests/unit/recorder/layout.h"
#include "tests/unit/recorder/make.h"

TestSuite(recorder, .timeout = 120);

#define PAGE ((uint64_t)BLOCK_ALIGN)

static struct recorder *recorder(uint64_t pages, size_t ranges_max)
{
	struct recorder_config cfg = { .device_size = pages * PAGE,
				       .ranges_max = ranges_max };
	struct error err = ERROR_INIT;
	struct recorder *r;

	cr_assert_eq(recorder_new(&cfg, &r, &err), 0, "%s", err.msg);
	return r;
}

static void see(struct recorder *r, uint64_t off, size_t len)
{
	struct device_observer *o = recorder_observer(r);

	o->read(o, off, len);
}

/* The log is exactly these ranges, in pages. */
static void expect_ranges(struct recorder *r, size_t n, const uint64_t *want)
{
	struct error err = ERROR_INIT;
	struct record c;

	cr_assert_eq(recorder_snapshot(r, &c, &err), 0);
	cr_assert_eq(c.n_ranges, n, "%zu ranges", c.n_ranges);
	for (size_t i = 0; i < n; i++)
		cr_expect(c.ranges[i].page == want[2 * i] &&
				  c.ranges[i].n == want[2 * i + 1],
			  "range %zu: %llu + %u", i,
			  (unsigned long long)c.ranges[i].page, c.ranges[i].n);
	record_fini(&c);
}

#define EXPECT_RANGES(r, ...) \
	expect_ranges(r, \
		      sizeof((uint64_t[]){ __VA_ARGS__ }) / \
			      (2 * sizeof(uint64_t)), \
		      (uint64_t[]){ __VA_ARGS__ })

Test(recorder, keeps_the_first_access_to_a_page_in_order)
{
	AUTO(recorder) r = recorder(1000, 0);
	struct recorder_stats st;

	see(r, 50 * PAGE, 2 * PAGE);
	see(r, 3 * PAGE + 5, 1);
	see(r, 51 * PAGE, PAGE);
	see(r, 3 * PAGE, PAGE);
	see(r, 4 * PAGE - 1, 2);
	EXPECT_RANGES(r, 50, 2, 3, 1, 4, 1);
	recorder_get_stats(r, &st);
	cr_expect_eq(st.reads, 5);
	cr_expect_eq(st.read_bytes, 4 * PAGE + 3);
	cr_expect_eq(st.ranges, 3);
	cr_expect_not(st.truncated);
}

Test(recorder, new_pages_that_lie_together_in_a_read_are_one_range)
{
	AUTO(recorder) r = recorder(1000, 0);

	see(r, 10 * PAGE, 300 * PAGE);
	EXPECT_RANGES(r, 10, 300);
	see(r, 400 * PAGE, PAGE);
	see(r, 447 * PAGE, 2 * PAGE);
	see(r, 0, 640 * PAGE);
	EXPECT_RANGES(r, 10, 300, 400, 1, 447, 2, 0, 10, 310, 90, 401, 46, 449,
		      191);
}

Test(recorder, reads_past_the_end_are_cut)
{
	AUTO(recorder) r = recorder(130, 0);

	see(r, 129 * PAGE, 10 * PAGE);
	see(r, 130 * PAGE, PAGE);
	see(r, UINT64_MAX, SIZE_MAX);
	see(r, 5, 0);
	see(r, 128 * PAGE + 1, SIZE_MAX);
	EXPECT_RANGES(r, 129, 1, 128, 1);
	see(r, 0, SIZE_MAX);
	EXPECT_RANGES(r, 129, 1, 128, 1, 0, 128);
}

/* Against a table of pages, with lengths around the words of the bits. */
Test(recorder, random_reads_are_kept_as_a_table_of_pages_keeps_them)
{
	static uint32_t first[700];
	AUTO(recorder) r = recorder(ARRAY_SIZE(first), 0);
	struct error err = ERROR_INIT;
	uint64_t state = 5;
	struct record c;

	for (uint32_t i = 1; i <= 60; i++) {
		uint64_t off = make_random(&state, 700 * BLOCK_ALIGN);
		size_t len = make_random(&state, 140 * BLOCK_ALIGN) + 1;

		see(r, off, len);
		for (uint64_t p = off / PAGE; p <= (off + len - 1) / PAGE; p++)
			if (p < ARRAY_SIZE(first) && !first[p])
				first[p] = i;
	}
	cr_assert_eq(recorder_snapshot(r, &c, &err), 0);
	for (size_t i = 0; i < c.n_ranges; i++) {
		uint64_t p = c.ranges[i].page, end = p + c.ranges[i].n;
		uint32_t read = first[p];

		cr_expect(p == 0 || first[p - 1] != read);
		cr_expect(end == ARRAY_SIZE(first) || first[end] != read);
		for (; p < end; p++) {
			cr_assert(read && first[p] == read, "page %llu",
				  (unsigned long long)p);
			first[p] = 0;
		}
	}
	for (size_t p = 0; p < ARRAY_SIZE(first); p++)
		cr_expect_eq(first[p], 0, "page %zu is missing", p);
	record_fini(&c);
}

Test(recorder, says_when_the_log_is_full)
{
	AUTO(recorder) r = recorder(100, 3);
	struct recorder_stats st;

	for (uint64_t i = 0; i < 4; i++)
		see(r, 2 * i * PAGE, PAGE);
	EXPECT_RANGES(r, 0, 1, 2, 1, 4, 1);
	recorder_get_stats(r, &st);
	cr_expect(st.truncated);
	cr_expect_eq(st.reads, 4);
}

#define THREADS 4
#define PAGES 20000u

static void *read_all(void *arg)
{
	static _Atomic uint64_t seeds;
	struct recorder *r = arg;
	uint64_t state = ++seeds;

	for (size_t i = 0; i < 2000; i++) {
		struct recorder_stats st;

		see(r, make_random(&state, PAGES) * PAGE,
		    (1 + make_random(&state, 200)) * PAGE);
		recorder_observer(r)->miss(recorder_observer(r),
					   make_random(&state, 500));
		if (i % 100 == 0)
			recorder_get_stats(r, &st);
	}
	see(r, 0, PAGES * PAGE);
	return NULL;
}

Test(recorder, threads_together_keep_each_page_once)
{
	AUTO(recorder) r = recorder(PAGES, 0);
	AUTO_FREE uint8_t *count = calloc(PAGES, 1);
	struct error err = ERROR_INIT;
	pthread_t threads[THREADS];
	uint8_t missed[500] = { 0 };
	struct record c;

	cr_assert_not_null(count);
	for (size_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, read_all, r), 0);
	for (size_t i = 0; i < 20; i++) {
		cr_assert_eq(recorder_snapshot(r, &c, &err), 0);
		record_fini(&c);
	}
	for (size_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_assert_eq(recorder_snapshot(r, &c, &err), 0);
	for (size_t i = 0; i < c.n_ranges; i++)
		for (uint32_t k = 0; k < c.ranges[i].n; k++)
			count[c.ranges[i].page + k]++;
	for (size_t p = 0; p < PAGES; p++)
		cr_assert_eq(count[p], 1, "page %zu: %u times", p, count[p]);
	for (size_t i = 0; i < c.n_missed; i++)
		cr_expect_eq(missed[c.missed[i]]++, 0);
	cr_expect_eq(c.n_missed, 500);
	record_fini(&c);
}

/* ------------------------------------------------------------------- traces --- */

static const struct layout_block blocks[] = {
	{ 1, 65536 }, { 2, 65536 }, { 3, 10000 }, { 4, 4096 }, { 4, 4096 },
};
static const struct layout_range ranges[] = {
	{ "/a", 0, 0, 0, 40000 },       { "/b", 0, 0, 40960, 24576 },
	{ "/b", 24576, 1, 0, 65536 },   { "/c", 0, 2, 0, 10000 },
	{ "/copy", 7000, 2, 0, 8192 },  { "/twice", 0, 3, 0, 4096 },
	{ "/twice", 4096, 3, 0, 4096 },
};

static struct trace *trace_of(struct recorder *r, struct layout *l,
			      uint32_t until_ms)
{
	struct trace_info info = make_info();
	struct error err = ERROR_INIT;
	struct trace *t;

	cr_assert_eq(recorder_trace(r, &info, &l->map, &l->files, until_ms, &t,
				    &err),
		     0, "%s", err.msg);
	return t;
}

static void expect_entry(const struct trace *t, size_t i, const char *path,
			 uint64_t off, uint32_t len, uint32_t content)
{
	struct digest d = make_digest(content);

	cr_assert_lt(i, t->n);
	cr_expect_str_eq(t->entries[i].path, path);
	cr_expect_eq(t->entries[i].off, off);
	cr_expect_eq(t->entries[i].len, len, "%u", t->entries[i].len);
	cr_expect(digest_equal(&t->entries[i].block, &d));
	cr_expect_eq(t->entries[i].confidence, TRACE_CERTAIN);
}

static void setup(struct layout *l)
{
	layout_make(l, blocks, ARRAY_SIZE(blocks), ranges, ARRAY_SIZE(ranges));
}

Test(recorder, a_trace_names_files_and_blocks_in_order_of_first_access)
{
	AUTO(recorder) r = recorder(40, 0);
	AUTO(trace) t = NULL;
	struct layout l;

	setup(&l);
	see(r, layout_voff(&l, 2), PAGE);
	see(r, 8 * PAGE, 12 * PAGE); /* end of /a, /b over two blocks */
	t = trace_of(r, &l, UINT32_MAX);
	cr_assert_eq(t->n, 5);
	expect_entry(t, 0, "/c", 0, 4096, 3);
	expect_entry(t, 1, "/copy", 7000, 4096, 3);
	expect_entry(t, 2, "/a", 32768, 40000 - 32768, 1);
	expect_entry(t, 3, "/b", 0, 24576, 1);
	expect_entry(t, 4, "/b", 24576, 16384, 2);
	cr_expect_eq(t->entries[4].csize, 32768);
	cr_expect_not(t->info.truncated);
	cr_expect_str_eq(t->info.workload, "test-1");
	layout_fini(&l);
}

Test(recorder, neighbours_in_one_file_and_block_are_joined)
{
	AUTO(recorder) r = recorder(40, 0);
	AUTO(trace) t = NULL;
	struct layout l;

	setup(&l);
	see(r, 2 * PAGE, PAGE);
	see(r, 20 * PAGE, PAGE);
	see(r, 0, PAGE);
	see(r, PAGE, PAGE);
	see(r, 6 * PAGE, PAGE);
	see(r, 16 * PAGE, PAGE);
	t = trace_of(r, &l, UINT32_MAX);
	cr_assert_eq(t->n, 4);
	expect_entry(t, 0, "/a", 0, 3 * 4096, 1);
	expect_entry(t, 1, "/b", 24576 + 4 * 4096, 4096, 2);
	expect_entry(t, 2, "/a", 6 * 4096, 4096, 1);
	expect_entry(t, 3, "/b", 24576, 4096, 2);
	layout_fini(&l);
}

Test(recorder, a_block_that_a_file_repeats_is_not_made_longer)
{
	AUTO(recorder) r = recorder(40, 0);
	AUTO(trace) t = NULL;
	struct layout l;

	setup(&l);
	see(r, layout_voff(&l, 3), PAGE);
	t = trace_of(r, &l, UINT32_MAX);
	cr_assert_eq(t->n, 2);
	expect_entry(t, 0, "/twice", 0, 4096, 4);
	expect_entry(t, 1, "/twice", 4096, 4096, 4);
	layout_fini(&l);
}

Test(recorder, what_came_after_the_window_is_left_out)
{
	AUTO(recorder) r = recorder(40, 0);
	AUTO(trace) all = NULL;
	AUTO(trace) early = NULL;
	struct error err = ERROR_INIT;
	uint32_t first;
	struct layout l;
	struct record c;

	setup(&l);
	see(r, 0, PAGE);
	cr_assert_eq(recorder_snapshot(r, &c, &err), 0);
	first = c.ranges[0].at_ms;
	do {
		record_fini(&c);
		cr_assert_eq(recorder_snapshot(r, &c, &err), 0);
	} while (c.now_ms == first);
	record_fini(&c);
	see(r, 20 * PAGE, PAGE);
	all = trace_of(r, &l, UINT32_MAX);
	early = trace_of(r, &l, first);
	cr_expect_eq(all->n, 2);
	cr_expect_gt(all->entries[1].at_ms, first);
	cr_expect_geq(all->info.window_ms, all->entries[1].at_ms);
	cr_expect_eq(early->n, 1);
	cr_expect_eq(early->info.window_ms, first);
	layout_fini(&l);
}

Test(recorder, a_full_log_makes_a_truncated_trace)
{
	AUTO(recorder) r = recorder(40, 1);
	AUTO(trace) t = NULL;
	struct layout l;

	setup(&l);
	see(r, 0, PAGE);
	see(r, 20 * PAGE, PAGE);
	t = trace_of(r, &l, UINT32_MAX);
	cr_expect_eq(t->n, 1);
	cr_expect(t->info.truncated);
	layout_fini(&l);
}

Test(recorder, blocks_touched_and_missed_are_told_in_order)
{
	AUTO(recorder) r = recorder(40, 0);
	struct device_observer *o = recorder_observer(r);
	AUTO_FREE uint32_t *touched = NULL;
	AUTO_FREE uint32_t *missed = NULL;
	struct error err = ERROR_INIT;
	size_t n_touched, n_missed;
	struct layout l;

	setup(&l);
	see(r, layout_voff(&l, 2), PAGE);
	o->miss(o, 2);
	see(r, 10 * PAGE, 10 * PAGE);
	o->miss(o, 0);
	o->miss(o, 2);
	o->miss(o, 30);
	o->miss(o, SIZE_MAX);
	cr_assert_eq(recorder_blocks(r, &l.map, &touched, &n_touched, &missed,
				     &n_missed, &err),
		     0);
	cr_assert_eq(n_touched, 3);
	cr_expect_eq(touched[0], 2);
	cr_expect_eq(touched[1], 0);
	cr_expect_eq(touched[2], 1);
	cr_assert_eq(n_missed, 2);
	cr_expect_eq(missed[0], 2);
	cr_expect_eq(missed[1], 0);
	layout_fini(&l);
}

Test(recorder, a_device_too_large_to_record_is_refused)
{
	struct recorder_config cfg = { .device_size = ((uint64_t)1 << 40) + 1 };
	struct error err = ERROR_INIT;
	struct recorder *r;

	cr_expect_eq(recorder_new(&cfg, &r, &err), -EFBIG);
}

/* All files at one place, where no block lies. */
struct nowhere {
	struct file_map files;
	size_t steps;
};

static int at_nowhere(struct file_map *m, uint64_t voff, uint64_t len,
		      int (*each)(void *arg, const struct file_range *r),
		      void *arg, struct error *err)
{
	struct nowhere *w = container_of(m, struct nowhere, files);
	char path[16];
	int rc = 0;

	(void)err;
	for (int i = 0; i < 1000 && rc == 0; i++) {
		struct file_range r = {
			.path = path, .file_off = voff, .voff = voff, .len = len
		};

		snprintf(path, sizeof(path), "/%d", i);
		w->steps++;
		rc = each(arg, &r);
	}
	return rc;
}

Test(recorder, files_that_lie_nowhere_cost_a_bounded_look)
{
	static const struct layout_block one[] = { { 1, 4096 } };
	static const struct file_map_ops ops = { .at = at_nowhere };
	AUTO(recorder) r = recorder(100000, 0);
	struct nowhere w = { .files.ops = &ops };
	struct trace_info info = make_info();
	struct error err = ERROR_INIT;
	AUTO(trace) t = NULL;
	struct layout l;

	layout_make(&l, one, 1, NULL, 0);
	for (uint64_t p = 2; p < 40000; p += 2)
		see(r, p * PAGE, PAGE);
	cr_assert_eq(recorder_trace(r, &info, &l.map, &w.files, UINT32_MAX, &t,
				    &err),
		     0, "%s", err.msg);
	cr_expect_eq(t->n, 0);
	cr_expect(t->info.truncated);
	cr_expect_lt(w.steps, 9 * TRACE_ENTRIES_MAX);
	layout_fini(&l);
}
