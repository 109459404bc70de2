// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "recorder/trace_format.h"
#include "tests/unit/failures.h"
#include "tests/unit/recorder/make.h"

TestSuite(trace_codec, .timeout = 120);

static void encode(const struct trace *t, struct buf *ret)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(trace_encode(t, ret, &err), 0, "%s", err.msg);
}

/* Give a spoiled trace the right checksum again. */
static void seal(struct buf *b)
{
	uint8_t *p = (uint8_t *)b->data;
	struct digest sum;

	cr_assert_eq(trace_checksum(p, b->len, &sum), 0);
	memcpy(p + HEAD_SUM, sum.b, DIGEST_SIZE);
}

static int verdict(const struct buf *b, struct error *err)
{
	AUTO(trace) t = NULL;

	return trace_decode(b->data, b->len, &t, err);
}

Test(trace_codec, random_traces_come_back_as_they_were)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 10, 100, 3000, 20000 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		AUTO(trace) t = make_trace(i + 1, sizes[i]);
		AUTO(trace) back = NULL;
		AUTO_BUF b = BUF_INIT;
		struct error err = ERROR_INIT;

		t->info.truncated = i % 2;
		cr_assert_eq(buf_puts(&b, "before"), 0);
		encode(t, &b);
		cr_assert_eq(trace_decode(b.data + 6, b.len - 6, &back, &err),
			     0, "%s", err.msg);
		expect_same(t, back);
	}
}

Test(trace_codec, extreme_entries_come_back)
{
	struct trace_info info = make_info();
	AUTO(trace_builder) b = NULL;
	AUTO(trace) t = NULL;
	AUTO(trace) back = NULL;
	AUTO_BUF encoded = BUF_INIT;
	struct error err = ERROR_INIT;
	struct trace_entry e = {
		.path = "/a",
		.off = (uint64_t)1 << 62,
		.len = TRACE_BLOCK_MAX,
		.at_ms = UINT32_MAX,
		.csize = TRACE_BLOCK_MAX,
		.confidence = TRACE_CERTAIN,
	};

	cr_assert_eq(trace_builder_new(&info, &b, &err), 0);
	cr_assert_eq(trace_builder_add(b, &e, &err), 0);
	e = (struct trace_entry){ .path = "/a", .len = 1, .confidence = 1 };
	cr_assert_eq(trace_builder_add(b, &e, &err), 0);
	/* The same content, stored differently. */
	e.csize = 7;
	cr_assert_eq(trace_builder_add(b, &e, &err), 0);
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	encode(t, &encoded);
	cr_assert_eq(trace_decode(encoded.data, encoded.len, &back, &err), 0,
		     "%s", err.msg);
	expect_same(t, back);
}

Test(trace_codec, the_head_alone_tells_who_and_how_much)
{
	AUTO(trace) t = make_trace(1, 50);
	AUTO_BUF b = BUF_INIT;
	struct error err = ERROR_INIT;
	struct trace_info info;
	size_t n, head;

	encode(t, &b);
	head = HEAD_SIZE + strlen(t->info.repo) + strlen(t->info.workload);
	cr_assert_eq(trace_decode_info(b.data, head, &info, &n, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(n, 50);
	cr_expect_str_eq(info.repo, t->info.repo);
	cr_expect_str_eq(info.workload, t->info.workload);
	cr_expect(digest_equal(&info.image, &t->info.image));
	cr_expect_eq(info.ready_ms, t->info.ready_ms);
	trace_info_fini(&info);
	cr_expect_eq(trace_decode_info(b.data, head - 1, &info, &n, &err),
		     -EINVAL);
}

Test(trace_codec, every_truncation_and_every_flipped_byte_is_refused)
{
	AUTO(trace) t = make_trace(1, 30);
	AUTO_BUF b = BUF_INIT;

	encode(t, &b);
	for (size_t len = 0; len < b.len; len++) {
		AUTO_BUF cut = BUF_INIT;
		struct error err = ERROR_INIT;

		cr_assert_eq(buf_append(&cut, b.data, len), 0);
		cr_expect_eq(verdict(&cut, &err), -EINVAL, "%zu bytes", len);
	}
	for (size_t i = 0; i < b.len; i++) {
		struct error err = ERROR_INIT;

		b.data[i] ^= 0x40;
		cr_expect_lt(verdict(&b, &err), 0, "byte %zu", i);
		b.data[i] ^= 0x40;
	}
}

Test(trace_codec, hostile_heads_are_refused)
{
	static const struct {
		size_t at;
		uint32_t value;
		int rc;
		const char *says;
	} cases[] = {
		{ 0, 'X', -EINVAL, "no trace" },
		{ HEAD_VERSION, 2, -ENOTSUP, "version 2" },
		{ HEAD_FLAGS, 2, -EINVAL, "reserved" },
		{ HEAD_RESERVED, 1, -EINVAL, "reserved" },
		{ HEAD_RUNS, 0, -EINVAL, "runs" },
		{ HEAD_RUNS, UINT32_MAX, -EINVAL, "runs" },
		{ HEAD_CREATED + 4, UINT32_MAX, -EINVAL, "1970" },
		{ HEAD_N_ENTRIES, TRACE_ENTRIES_MAX + 1, -EFBIG, "entries" },
		{ HEAD_N_ENTRIES, UINT32_MAX, -EFBIG, "entries" },
		{ HEAD_N_ENTRIES, TRACE_ENTRIES_MAX, -EINVAL, "too short" },
		{ HEAD_N_ENTRIES, 29, -EINVAL, "hold its counts" },
		{ HEAD_N_PATHS, UINT32_MAX, -EINVAL, "more paths" },
		{ HEAD_N_PATHS, 0, -EINVAL, "without paths" },
		{ HEAD_N_BLOCKS, UINT32_MAX, -EINVAL, "more paths or blocks" },
		{ HEAD_BODY, UINT32_MAX, -EFBIG, "bytes" },
		{ HEAD_BODY, BODY_MAX, -EINVAL, "not of the size" },
		{ HEAD_STORED, 1, -EINVAL, "length" },
		{ HEAD_REPO_LEN, UINT32_MAX, -EINVAL, "texts" },
	};
	AUTO(trace) t = make_trace(1, 30);
	AUTO_BUF b = BUF_INIT;
	char saved[4];

	encode(t, &b);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		int rc;

		memcpy(saved, b.data + cases[i].at, 4);
		put_le32(b.data + cases[i].at, cases[i].value);
		seal(&b);
		rc = verdict(&b, &err);
		cr_expect_eq(rc, cases[i].rc, "case %zu: %d %s", i, rc,
			     err.msg);
		cr_expect(strstr(err.msg, cases[i].says), "case %zu: %s", i,
			  err.msg);
		memcpy(b.data + cases[i].at, saved, 4);
	}
	seal(&b);
	cr_expect_eq(verdict(&b, NULL), 0);
}

/* Front coding could make gigabytes of a few bytes. */
Test(trace_codec, paths_do_not_grow_beyond_the_bound)
{
	struct trace_info info = make_info();
	AUTO(trace_builder) b = NULL;
	AUTO(trace) t = NULL;
	AUTO_FREE char *text = malloc((size_t)40000 * 4096);
	AUTO_BUF encoded = BUF_INIT;
	struct error err = ERROR_INIT;

	cr_assert_not_null(text);
	cr_assert_eq(trace_builder_new(&info, &b, &err), 0);
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	t->entries = calloc(40000, sizeof(t->entries[0]));
	cr_assert_not_null(t->entries);
	for (t->n = 0; t->n < 40000; t->n++) {
		char *path = text + t->n * 4096;

		memset(path, 'a', TRACE_PATH_MAX);
		path[0] = '/';
		(void)snprintf(path + 4000, 96, "%095zu", t->n);
		t->entries[t->n] = (struct trace_entry){ .path = path,
							 .len = 1,
							 .confidence = 1 };
	}
	encode(t, &encoded);
	cr_expect_lt(encoded.len, 500000);
	cr_expect_eq(verdict(&encoded, &err), -EFBIG, "%s", err.msg);
}

Test(trace_codec, ten_thousand_entries_take_less_than_300_kib)
{
	AUTO(trace) t = make_trace(7, 10000);
	AUTO_BUF b = BUF_INIT;

	encode(t, &b);
	cr_expect_lt(b.len, 300000);
}

/* A file of each released version is read for ever. */
Test(trace_codec, the_golden_file_is_read)
{
	AUTO(trace) t = make_trace(2026, 200);
	AUTO(trace) golden = NULL;
	AUTO_BUF b = BUF_INIT;
	struct error err = ERROR_INIT;

	cr_assert_eq(fs_read_file(GOLDEN, 1 << 20, &b, &err), 0, "%s", err.msg);
	cr_assert_eq(trace_decode(b.data, b.len, &golden, &err), 0, "%s",
		     err.msg);
	expect_same(t, golden);
}

Test(trace_codec, a_strangers_trace_takes_no_more_memory_than_is_given)
{
	AUTO(trace) t = make_trace(1, 3000);
	AUTO(trace) back = NULL;
	AUTO_BUF b = BUF_INIT;
	struct error err = ERROR_INIT;
	uint64_t least = 3000 * sizeof(struct trace_entry);

	encode(t, &b);
	cr_expect_eq(trace_decode_within(b.data, b.len, least, &back, &err),
		     -EFBIG);
	cr_expect_null(back);
	cr_assert_eq(trace_decode_within(b.data, b.len,
					 4 * trace_memory(t) + b.len, &back,
					 &err),
		     0, "%s", err.msg);
	expect_same(t, back);
}

Test(trace_codec, a_trace_is_whole_or_memory_is_short)
{
	struct failures f = { .kind = FAIL_MEMORY };
	AUTO(trace) t = make_trace(3, 200);
	AUTO_BUF b = BUF_INIT;

	encode(t, &b);
	while (failures_next(&f)) {
		struct error err = ERROR_INIT;
		struct trace *back = NULL;
		int rc = trace_decode(b.data, b.len, &back, &err);

		cr_expect_eq(rc, failures_hit(&f) ? -ENOMEM : 0,
			     "round %u: %d %s", f.n, rc, err.msg);
		if (rc == 0)
			expect_same(t, back);
		trace_free(back);
	}
	cr_expect_gt(f.n, 3);
}
