// SPDX-License-Identifier: Apache-2.0
/* Tests which bytes are read ahead for which reader. */
#include <criterion/criterion.h>

#include "ckpt-fuse/mount/readahead.h"
#include "common/bytes.h"

#define UNIT (4 * MIB)
#define READ (128 * KIB)

TestSuite(readahead, .timeout = 60);

Test(readahead, follows_one_that_reads_forward_and_asks_for_nothing_twice)
{
	const uint64_t size = 256 * MIB + 5;
	struct readahead r;
	uint64_t asked = 0;

	readahead_init(&r, UNIT, 64 * MIB);
	for (uint64_t off = 0; off < size; off += READ) {
		struct readahead_advice a =
			readahead_note(&r, off,
				       size - off < READ ? size - off : READ,
				       size);

		if (a.from == a.to)
			continue;
		cr_expect_leq(a.to, size);
		cr_expect_leq(a.to, off + READ + 64 * MIB);
		cr_expect_geq(a.from, asked);
		asked = a.to;
	}
	cr_expect_eq(asked, size);
}

Test(readahead, is_further_ahead_the_longer_one_reads)
{
	struct readahead r;
	uint64_t first = 0, most = 0;

	readahead_init(&r, UNIT, 64 * MIB);
	for (uint64_t off = 0; off < 512 * MIB; off += READ) {
		struct readahead_advice a =
			readahead_note(&r, off, READ, 1024 * MIB);

		if (a.from == a.to)
			continue;
		if (!first)
			first = a.to - off;
		if (a.to - off > most)
			most = a.to - off;
	}
	cr_expect_leq(first, 2 * UNIT);
	cr_expect_gt(most, 32 * MIB);
}

Test(readahead, is_nothing_for_who_jumps)
{
	struct readahead r;

	readahead_init(&r, UNIT, 64 * MIB);
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t off = (i * 7919 % 1000 + 1) * 16 * MIB;
		struct readahead_advice a =
			readahead_note(&r, off, READ, 20000 * MIB);

		cr_expect_eq(a.from, a.to);
		cr_expect_not(a.is_sequential);
	}
}

Test(readahead, tells_several_readers_of_a_file_apart)
{
	struct readahead r;
	uint64_t asked[4] = { 0 };

	readahead_init(&r, UNIT, 16 * MIB);
	for (uint64_t at = 0; at < 64 * MIB; at += READ)
		for (uint64_t i = 0; i < 4; i++) {
			struct readahead_advice a =
				readahead_note(&r, i * 256 * MIB + at, READ,
					       1024 * MIB);

			if (a.from != a.to)
				asked[i] = a.to - i * 256 * MIB;
		}
	for (size_t i = 0; i < 4; i++)
		cr_expect_geq(asked[i], 64 * MIB);
}

/* The kernel reads mapped files from a little before a byte to a little behind it. */
Test(readahead, of_a_part_ends_where_another_began)
{
	const uint64_t part = 16 * MIB, over = 64 * KIB;
	struct readahead r;
	uint64_t most = 0;

	readahead_init(&r, UNIT, 64 * MIB);
	for (uint64_t at = 0; at < part + over; at += over)
		for (uint64_t i = 2; i--;) {
			struct readahead_advice a =
				readahead_note(&r, i * (part - over) + at, over,
					       4 * part);

			if (i == 0 && a.to > most)
				most = a.to;
		}
	cr_expect_leq(most, part);
	cr_expect_eq(readahead_count(&r), 2);
	/* A reader that continues beyond the part is read ahead for again. */
	for (uint64_t at = part; at < 3 * part; at += over) {
		struct readahead_advice a =
			readahead_note(&r, at, over, 4 * part);

		most = a.to > most ? a.to : most;
	}
	cr_expect_gt(most, 2 * part);
	cr_expect_eq(readahead_count(&r), 1);
}

/* Ranks read a slice of each tensor. */
Test(readahead, of_slices_ends_where_the_one_before_did)
{
	const uint64_t slice = 6 * MIB, step = 32 * MIB;
	struct readahead_advice a;
	struct readahead r;
	uint64_t begin, most = 0;

	readahead_init(&r, UNIT, 64 * MIB);
	for (uint64_t k = 0; k < 2 * READAHEAD_READERS; k++) {
		begin = k * step + 7 * MIB;
		for (uint64_t at = 0; at < slice; at += READ) {
			a = readahead_note(&r, begin + at, READ, 1024 * step);
			if (!k)
				continue;
			cr_expect_leq(a.to, begin + slice);
			cr_expect_eq(a.until, begin + slice);
			most = a.to > most ? a.to : most;
		}
		cr_expect(!k || most == begin + slice);
	}
	/* A reader that continues beyond the expected end is read ahead for again. */
	begin = 512 * step;
	for (uint64_t at = 0; at < 64 * MIB; at += READ) {
		a = readahead_note(&r, begin + at, READ, 1024 * step);
		most = a.to > most ? a.to : most;
	}
	cr_expect_eq(a.until, UINT64_MAX);
	cr_expect_gt(most, begin + 96 * MIB);
}

/* Parallel readers are not taken for one that jumps. */
Test(readahead, of_pieces_that_are_read_side_by_side_has_no_end)
{
	struct readahead_advice a = { .until = 0 };
	struct readahead r;

	readahead_init(&r, UNIT, 64 * MIB);
	for (uint64_t at = 0; at < 16 * MIB; at += READ)
		for (uint64_t i = 0; i < 8; i++) {
			a = readahead_note(&r, i * 64 * MIB + at, READ,
					   1024 * MIB);
			if (at > READ)
				cr_expect_eq(a.until, UINT64_MAX);
		}
}

Test(readahead, bears_requests_that_come_in_another_order)
{
	struct readahead r;
	uint64_t asked = 0;

	readahead_init(&r, UNIT, 16 * MIB);
	for (uint64_t at = 0; at < 64 * MIB; at += 2 * READ)
		for (uint64_t i = 2; i--;) {
			struct readahead_advice a =
				readahead_note(&r, at + i * READ, READ,
					       64 * MIB);

			if (a.from != a.to)
				asked = a.to;
		}
	cr_expect_eq(asked, 64 * MIB);
}

/* docs/checkpoints.md states this bound, whenever a reader stops. */
Test(readahead, leaves_unread_no_more_than_its_declared_share)
{
	const uint64_t sizes[] = { 16 * KIB, READ, MIB, 5 * MIB };
	const uint64_t first = READAHEAD_FIRST * UNIT, most = 64 * MIB;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const uint64_t begin = 7 * MIB + 3;
		struct readahead r;
		uint64_t asked = 0;

		readahead_init(&r, UNIT, most);
		for (uint64_t had = 0; had < 256 * MIB;) {
			struct readahead_advice a =
				readahead_note(&r, begin + had, sizes[i],
					       1024 * MIB);
			uint64_t bound;

			had += sizes[i];
			bound = READAHEAD_SHARE * had;
			bound = bound < first ? first : bound;
			bound = bound < most ? bound : most;
			if (a.from != a.to)
				asked = a.to;
			cr_assert_leq(asked, begin + had + bound);
		}
		/* The bound still allows much read-ahead. */
		cr_expect_gt(asked, begin + 256 * MIB + most / 4);
	}
}

Test(readahead,
     asks_for_nothing_beyond_a_bound_that_is_less_than_its_first_step)
{
	struct readahead r;

	readahead_init(&r, UNIT, UNIT);
	for (uint64_t off = 0; off < 64 * MIB; off += READ) {
		struct readahead_advice a =
			readahead_note(&r, off, READ, 1024 * MIB);

		cr_expect_leq(a.to, off + READ + UNIT);
	}
}

Test(readahead, asks_again_for_what_was_not_read_or_is_gone)
{
	struct readahead_advice a = { .from = 0 };
	struct readahead r;

	readahead_init(&r, 4 * MIB, 64 * MIB);
	for (uint64_t off = 0; off < 8 * MIB; off += MIB) {
		struct readahead_advice b =
			readahead_note(&r, off, MIB, 1024 * MIB);

		a = b.to > b.from ? b : a;
	}
	cr_assert_gt(a.to, 16 * MIB);
	cr_expect_eq(readahead_distance(&r, 16 * MIB, MIB), 8 * MIB);
	cr_expect_eq(readahead_distance(&r, 6 * MIB, 4 * MIB), 0);
	cr_expect_eq(readahead_distance(&r, 5 * MIB, MIB), UINT64_MAX);
	readahead_lost(&r, 12 * MIB);
	a = readahead_note(&r, 8 * MIB, MIB, 1024 * MIB);
	cr_expect_eq(a.from, 12 * MIB);
	/* Lost bytes in another reader's window, or already read, change nothing. */
	readahead_lost(&r, MIB);
	readahead_lost(&r, 900 * MIB);
	a = readahead_note(&r, 9 * MIB, MIB, 1024 * MIB);
	cr_expect_eq(a.from, a.to);
}

/* Bytes behind the other reader's begin were read already, and would be fetched again. */
Test(readahead, goes_no_further_than_where_another_began)
{
	const uint64_t part = 64 * MIB;
	struct readahead r;

	readahead_init(&r, UNIT, 128 * MIB);
	for (uint64_t off = 0; off < part; off += READ)
		for (unsigned int i = 0; i < 4; i++) {
			struct readahead_advice a =
				readahead_note(&r, i * part + off, READ,
					       4 * part);

			if (off >= 2 * READ && a.from != a.to)
				cr_expect_leq(a.to, (i + 1) * part, "%u", i);
		}
	cr_expect_eq(readahead_end(&r, MIB, 512 * MIB), part);
	cr_expect_eq(readahead_end(&r, part, 100 * MIB), 100 * MIB);
	/* A single read does not begin a part. */
	readahead_init(&r, UNIT, 128 * MIB);
	(void)readahead_note(&r, 32 * MIB, READ, 4 * part);
	cr_expect_eq(readahead_end(&r, MIB, 64 * MIB), 64 * MIB);
}

/* The kernel reads beyond the end of a part. */
Test(readahead, takes_a_reader_for_none_where_another_has_gone_on)
{
	const uint64_t part = 32 * MIB, size = 64 * MIB;
	struct readahead r;

	readahead_init(&r, UNIT, 64 * MIB);
	for (uint64_t off = 0; off < part; off += READ) {
		struct readahead_advice a = readahead_note(&r, off, READ, size);

		cr_expect(a.is_sequential);
		a = readahead_note(&r, part + off, READ, size);
		cr_expect(a.is_sequential || off == 0);
	}
	cr_expect_not(readahead_note(&r, part, READ, size).is_sequential);
}
