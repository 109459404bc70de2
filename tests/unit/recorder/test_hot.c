// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/recorder/layout.h"
#include "tests/unit/recorder/make.h"

TestSuite(hot_list, .timeout = 120);

struct line {
	const char *path;
	uint64_t off;
	uint32_t len, at_ms, content;
};

static struct trace *trace_of(const struct line *lines, size_t n)
{
	struct trace_info info = make_info();
	AUTO(trace_builder) b = NULL;
	struct error err = ERROR_INIT;
	struct trace *t;

	cr_assert_eq(trace_builder_new(&info, &b, &err), 0);
	for (size_t i = 0; i < n; i++) {
		struct trace_entry e = {
			.path = lines[i].path,
			.off = lines[i].off,
			.len = lines[i].len,
			.at_ms = lines[i].at_ms,
			.confidence = (uint16_t)(TRACE_HOT + i),
			.block = make_digest(lines[i].content),
		};

		cr_assert_eq(trace_builder_add(b, &e, &err), 0, "%s", err.msg);
	}
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	return t;
}

#define TRACE(...) \
	trace_of((const struct line[]){ __VA_ARGS__ }, \
		 sizeof((const struct line[]){ __VA_ARGS__ }) / \
			 sizeof(struct line))

/* Version 2 of an image: content 2 moved behind 3, 4 became 40, and what was at
 * the end of /d is now in a block of its own; 6 is there twice. */
static const struct layout_block blocks[] = {
	{ 1, 8192 },   { 3, 65536 },  { 2, 8192 }, { 40, 8192 },
	{ 50, 65536 }, { 51, 10000 }, { 6, 4096 }, { 6, 4096 },
};
static const struct layout_range ranges[] = {
	{ "/a", 0, 0, 0, 8192 },   { "/c", 0, 1, 0, 65536 },
	{ "/b", 0, 2, 0, 8192 },   { "/changed", 0, 3, 0, 8192 },
	{ "/d", 0, 4, 0, 65536 },  { "/d", 65536, 5, 0, 10000 },
	{ "/six", 0, 6, 0, 4096 }, { "/six", 4096, 7, 0, 4096 },
};

static void setup(struct layout *l)
{
	layout_make(l, blocks, ARRAY_SIZE(blocks), ranges, ARRAY_SIZE(ranges));
}

static void expect_list(const struct hot_list *l, size_t n,
			const uint32_t *want, size_t by_digest, size_t by_path,
			size_t lost)
{
	cr_assert_eq(l->n, n, "%zu blocks", l->n);
	for (size_t i = 0; i < n; i++)
		cr_expect_eq(l->blocks[i].index, want[i], "block %zu: %u", i,
			     l->blocks[i].index);
	cr_expect_eq(l->by_digest, by_digest);
	cr_expect_eq(l->by_path, by_path);
	cr_expect_eq(l->lost, lost);
}

Test(hot_list, blocks_come_in_trace_order_each_once)
{
	AUTO(trace)
	t = TRACE({ "/b", 0, 4096, 10, 2 }, { "/a", 0, 1, 20, 1 },
		  { "/b", 4096, 4096, 30, 2 });
	struct error err = ERROR_INIT;
	struct hot_list list;
	struct layout l;

	setup(&l);
	cr_assert_eq(hot_list_make(t, &l.map, &l.files, &list, &err), 0);
	expect_list(&list, 2, (uint32_t[]){ 2, 0 }, 3, 0, 0);
	cr_expect_eq(list.bytes, 8192);
	cr_expect_eq(list.blocks[0].at_ms, 10);
	cr_expect_eq(list.blocks[0].confidence, TRACE_HOT);
	cr_expect_eq(list.blocks[1].at_ms, 20);
	cr_expect_eq(list.blocks[1].confidence, TRACE_HOT + 1);
	hot_list_fini(&list);
	layout_fini(&l);
}

Test(hot_list, content_that_changed_is_found_by_path_and_offset)
{
	AUTO(trace)
	t = TRACE({ "/changed", 0, 4096, 1, 4 }, { "/d", 60000, 10000, 2, 5 },
		  { "/moved-away", 0, 4096, 3, 2 }, { "/gone", 0, 4096, 4, 7 },
		  { "/a", 8192, 4096, 5, 8 });
	struct error err = ERROR_INIT;
	struct hot_list list;
	struct layout l;

	setup(&l);
	cr_assert_eq(hot_list_make(t, &l.map, &l.files, &list, &err), 0);
	expect_list(&list, 4, (uint32_t[]){ 3, 4, 5, 2 }, 1, 2, 2);
	cr_expect_eq(list.blocks[1].at_ms, 2);
	cr_expect_eq(list.blocks[2].at_ms, 2);
	hot_list_fini(&list);
	layout_fini(&l);
}

Test(hot_list, what_few_runs_read_is_left_out)
{
	AUTO(trace)
	t = TRACE({ "/b", 0, 4096, 10, 2 }, { "/a", 0, 1, 20, 1 },
		  { "/changed", 0, 4096, 30, 4 });
	struct error err = ERROR_INIT;
	struct hot_list list;
	struct layout l;

	t->entries[0].confidence = TRACE_HOT - 1;
	t->entries[2].confidence = 1;
	setup(&l);
	cr_assert_eq(hot_list_make(t, &l.map, &l.files, &list, &err), 0);
	expect_list(&list, 1, (uint32_t[]){ 0 }, 1, 0, 0);
	cr_expect_eq(list.rare, 2);
	hot_list_fini(&list);
	layout_fini(&l);
}

Test(hot_list, without_files_only_content_counts)
{
	AUTO(trace)
	t = TRACE({ "/changed", 0, 4096, 1, 4 }, { "/x", 0, 1, 2, 3 });
	struct error err = ERROR_INIT;
	struct hot_list list;
	struct layout l;

	setup(&l);
	cr_assert_eq(hot_list_make(t, &l.map, NULL, &list, &err), 0);
	expect_list(&list, 1, (uint32_t[]){ 1 }, 1, 0, 1);
	hot_list_fini(&list);
	layout_fini(&l);
}

Test(hot_list, a_stored_place_that_blocks_share_is_there_once)
{
	AUTO(trace)
	t = TRACE({ "/six", 0, 8192, 1, 600 }, { "/six", 4096, 4096, 2, 6 });
	struct error err = ERROR_INIT;
	struct hot_list list;
	struct layout l;

	setup(&l);
	cr_assert_eq(hot_list_make(t, &l.map, &l.files, &list, &err), 0);
	expect_list(&list, 1, (uint32_t[]){ 6 }, 1, 1, 0);
	cr_expect_eq(list.bytes, 2048);
	hot_list_fini(&list);
	layout_fini(&l);
}

Test(hot_list, of_an_empty_trace_or_image_is_empty)
{
	AUTO(trace) none = make_trace(1, 0);
	AUTO(trace) some = make_trace(1, 10);
	struct error err = ERROR_INIT;
	struct hot_list list;
	struct layout l, empty;

	for (size_t i = 0; i < some->n; i++)
		some->entries[i].confidence = TRACE_CERTAIN;
	setup(&l);
	layout_make(&empty, NULL, 0, NULL, 0);
	cr_assert_eq(hot_list_make(none, &l.map, &l.files, &list, &err), 0);
	expect_list(&list, 0, NULL, 0, 0, 0);
	hot_list_fini(&list);
	cr_assert_eq(hot_list_make(some, &empty.map, &empty.files, &list, &err),
		     0);
	expect_list(&list, 0, NULL, 0, 0, 10);
	hot_list_fini(&list);
	layout_fini(&l);
	layout_fini(&empty);
}

/* ---------------------------------------------------------------- inheriting --- */

#define N 60

/* Two versions of an image of N files of one block each: in the second one some
 * files changed, and all lie in another order. */
struct versions {
	struct layout_block blocks[2][N];
	struct layout_range ranges[2][N];
	uint32_t block_of[2][N]; /* by file */
	char paths[N][12];
	bool changed[N];
};

static void make_versions(struct versions *v, uint64_t *state)
{
	for (uint32_t f = 0; f < N; f++) {
		(void)snprintf(v->paths[f], sizeof(v->paths[f]), "/f%u", f);
		v->changed[f] = make_random(state, 4) == 0;
		v->block_of[0][f] = f;
		v->block_of[1][f] = f;
	}
	for (uint32_t i = N - 1; i > 0; i--) {
		uint32_t k = make_random(state, i + 1);
		uint32_t swap = v->block_of[1][i];

		v->block_of[1][i] = v->block_of[1][k];
		v->block_of[1][k] = swap;
	}
	for (uint32_t version = 0; version < 2; version++)
		for (uint32_t f = 0; f < N; f++) {
			uint32_t block = v->block_of[version][f];
			bool other = version && v->changed[f];

			v->blocks[version][block] =
				(struct layout_block){ other ? 1000 + f : f,
						       8192 };
			v->ranges[version][block] =
				(struct layout_range){ v->paths[f], 0, block, 0,
						       8192 };
		}
}

/* A recording on the first version, of random files, mapped to the second. */
static void inherit(uint64_t *state)
{
	struct trace_info info = make_info();
	struct error err = ERROR_INIT;
	struct recorder_config cfg;
	AUTO(recorder) r = NULL;
	AUTO(trace) t = NULL;
	struct layout l[2];
	struct versions v;
	struct hot_list list;
	uint32_t files[N];
	size_t n = 0, changed = 0;

	make_versions(&v, state);
	for (size_t i = 0; i < 2; i++)
		layout_make(&l[i], v.blocks[i], N, v.ranges[i], N);
	cfg = (struct recorder_config){ .device_size = l[0].map.device_size };
	cr_assert_eq(recorder_new(&cfg, &r, &err), 0);
	for (uint32_t f = 0; f < N; f++)
		if (make_random(state, 2)) {
			uint64_t voff = layout_voff(&l[0], v.block_of[0][f]);

			recorder_observer(r)->read(recorder_observer(r),
						   voff + make_random(state,
								      2) *
								   4096,
						   100);
			changed += v.changed[f];
			files[n++] = f;
		}
	cr_assert_eq(recorder_trace(r, &info, &l[0].map, &l[0].files, 60000, &t,
				    &err),
		     0);
	cr_assert_eq(hot_list_make(t, &l[1].map, &l[1].files, &list, &err), 0);
	cr_assert_eq(list.n, n);
	for (size_t i = 0; i < n; i++)
		cr_expect_eq(list.blocks[i].index, v.block_of[1][files[i]]);
	cr_expect_eq(list.by_path, changed);
	cr_expect_eq(list.by_digest, n - changed);
	hot_list_fini(&list);
	layout_fini(&l[0]);
	layout_fini(&l[1]);
}

Test(hot_list, a_new_version_inherits_what_moved_and_what_changed)
{
	uint64_t state = 3;

	for (size_t i = 0; i < 30; i++)
		inherit(&state);
}
