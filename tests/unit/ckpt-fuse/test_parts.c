// SPDX-License-Identifier: Apache-2.0
/* Files that several write. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "ckpt-fuse/parts.h"

TestSuite(parts, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

#define FILE_SIZE (5 * UNIT + 1000)
#define N_UNITS 6u

static const uint32_t whole[N_UNITS] = { UNIT, UNIT, UNIT, UNIT, UNIT, 1000 };

/* The part of a writer that has every n-th unit from `first` on. */
static void write_part(unsigned int first, unsigned int step, struct buf *ret)
{
	const struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN };
	struct error err = ERROR_INIT;
	AUTO(ckpt_writer) w = NULL;
	uint32_t place;

	cr_assert_eq(ckpt_write_open(store, "f", &o, &w, &err), 0);
	if (first < N_UNITS)
		cr_assert_eq(ckpt_writer_begin_segment(w, 2, &err), 0);
	for (unsigned int u = first; u < N_UNITS; u += step) {
		cr_assert_eq(ckpt_writer_add(w, u, whole[u], &place, &err), 0);
		cr_assert_eq(ckpt_write_placed(w, u, place, data + u * UNIT,
					       whole[u], &err),
			     0);
	}
	cr_assert_eq(ckpt_writer_give_part(w, FILE_SIZE, ret, &err), 0, "%s",
		     err.msg);
}

static int commit(const struct buf *parts, size_t n, const uint32_t *stored,
		  struct error *err)
{
	const struct ckpt_file_parts p = { .parts = parts,
					   .n = n,
					   .size = FILE_SIZE,
					   .stored = stored,
					   .attr = { .mode = 0640, .uid = 7 } };

	return ckpt_commit_parts(store, "f", &p, err);
}

Test(parts, are_one_file_when_they_are_committed_and_not_before)
{
	struct buf parts[3] = { BUF_INIT, BUF_INIT, BUF_INIT };
	struct error err = ERROR_INIT;
	struct ckpt_gc gc = { .dry_run = true };
	struct ckpt_stat st;

	write_part(0, 2, &parts[0]);
	write_part(1, 2, &parts[1]);
	write_part(N_UNITS, 1, &parts[2]); /* who has nothing to write */
	expect_no_file("f");
	cr_assert_eq(commit(parts, 3, whole, &err), 0, "%s", err.msg);
	expect_file("f", data, FILE_SIZE);
	cr_assert_eq(ckpt_stat(store, "f", &st, &err), 0);
	cr_expect_eq(st.attr.mode, 0640);
	cr_expect_eq(st.attr.uid, 7);
	/* Another who commits the same has done nothing wrong. */
	cr_assert_eq(commit(parts, 3, whole, &err), 0, "%s", err.msg);
	expect_file("f", data, FILE_SIZE);
	cr_assert_eq(ckpt_gc(store, &gc, &err), 0);
	cr_expect_eq(gc.n_objects, 0);
	for (size_t i = 0; i < 3; i++)
		buf_fini(&parts[i]);
}

Test(parts, that_lack_a_unit_or_overlap_are_no_file)
{
	uint32_t with_hole[N_UNITS] = { UNIT, 0, UNIT, 0, UNIT, 0 };
	struct buf parts[3] = { BUF_INIT, BUF_INIT, BUF_INIT };
	struct error err = ERROR_INIT;

	write_part(0, 2, &parts[0]);
	write_part(0, 1, &parts[1]);
	cr_expect_eq(commit(parts, 1, whole, &err), -EBADMSG);
	cr_expect_eq(commit(parts, 2, whole, &err), -EBADMSG);
	cr_expect_eq(commit(parts, 0, whole, &err), -EBADMSG);
	parts[1].data[parts[1].len / 2] ^= 1;
	cr_expect_eq(commit(parts + 1, 1, whole, &err), -EBADMSG);
	expect_no_file("f");
	cr_assert_eq(commit(parts, 1, with_hole, &err), 0, "%s", err.msg);
	memset(data + UNIT, 0, UNIT);
	memset(data + 3 * UNIT, 0, UNIT);
	memset(data + 5 * UNIT, 0, 1000);
	expect_file("f", data, FILE_SIZE);
	for (size_t i = 0; i < 3; i++)
		buf_fini(&parts[i]);
}

Test(parts, whose_columns_are_gone_are_no_file)
{
	struct buf part = BUF_INIT;
	struct error err = ERROR_INIT;
	struct ckpt_gc gc = { .older_ms = 0 };

	write_part(0, 1, &part);
	/* The first call marks what nobody names, the second removes it. */
	cr_assert_eq(ckpt_gc(store, &gc, &err), 0);
	cr_assert_eq(ckpt_gc(store, &gc, &err), 0);
	cr_assert_eq(n_columns(), 0);
	cr_expect_eq(commit(&part, 1, whole, &err), -ESTALE);
	expect_no_file("f");
	buf_fini(&part);
}
