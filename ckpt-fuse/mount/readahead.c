// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/readahead.h"

#include "common/bytes.h"

/* A reader's position may be off by this: the kernel sends its requests in parallel and in any
 * order. */
#define SLACK (2 * MIB)
/* So many consecutive reads are needed before a next one is expected. */
#define READS_MIN 2u
/* A reader without any of the last so many reads of a file is ignored. */
#define RECENT 256u

void readahead_init(struct readahead *r, uint64_t unit, uint64_t most)
{
	*r = (struct readahead){ .unit = unit,
				 .most = most < unit ? unit : most,
				 .share = READAHEAD_SHARE };
}

static bool is_next_read(const struct readahead_reader *x, uint64_t off)
{
	return x->used && off + SLACK >= x->next && off <= x->next + SLACK;
}

/* Find the reader whose next read this is, or else replace the oldest. */
static struct readahead_reader *find_reader(struct readahead *r, uint64_t off,
					    bool *ret_is_new)
{
	struct readahead_reader *oldest = &r->readers[0];

	for (size_t i = 0; i < READAHEAD_READERS; i++) {
		struct readahead_reader *x = &r->readers[i];

		*ret_is_new = false;
		if (is_next_read(x, off))
			return x;
		if (x->used < oldest->used)
			oldest = x;
	}
	*ret_is_new = true;
	return oldest;
}

uint64_t readahead_end(const struct readahead *r, uint64_t off, uint64_t end)
{
	for (size_t i = 0; i < READAHEAD_READERS; i++) {
		const struct readahead_reader *x = &r->readers[i];

		if (x->used && x->n >= READS_MIN && x->begin > off &&
		    x->begin < end)
			end = x->begin;
	}
	return end;
}

/* Where a reader's part of the file ends, as far as other readers that began behind it show. The
 * kernel reads beyond an end, so a reader must continue there for a while before more is read
 * ahead. */
static uint64_t part_end(const struct readahead *r,
			 const struct readahead_reader *me, uint64_t end)
{
	for (size_t i = 0; i < READAHEAD_READERS; i++) {
		const struct readahead_reader *x = &r->readers[i];

		if (x->used && x->n >= READS_MIN && x->begin > me->begin &&
		    x->begin + SLACK >= me->next && x->begin < end)
			end = x->begin;
	}
	return end;
}

/* Did another reader already pass these bytes? The kernel reads beyond the end of a part into the
 * next one, which is not needed again. */
static bool was_read_by_other(const struct readahead *r,
			      const struct readahead_reader *me, uint64_t off,
			      uint64_t end)
{
	for (size_t i = 0; i < READAHEAD_READERS; i++) {
		const struct readahead_reader *x = &r->readers[i];

		if (x != me && x->used && x->n >= READS_MIN &&
		    x->begin <= off && end < x->next)
			return true;
	}
	return false;
}

/* Where the reader is expected to jump: a program that reads a slice of each tensor jumps after
 * reading as much as before its last jump. Readers that stopped when this one began are its earlier
 * slices. */
static uint64_t expected_end(const struct readahead *r,
			     const struct readahead_reader *me)
{
	const struct readahead_reader *last = NULL;
	uint64_t run;

	for (size_t i = 0; i < READAHEAD_READERS; i++) {
		const struct readahead_reader *x = &r->readers[i];

		if (x->n >= READS_MIN && x->used < me->begun &&
		    (!last || x->used > last->used))
			last = x;
	}
	run = last ? last->next - last->begin : 0;
	return last && me->next - me->begin <= run + SLACK ? me->begin + run
							   : UINT64_MAX;
}

/* How far to read ahead of a reader: in proportion to what it has read, because that bounds the
 * waste when it stops. */
static uint64_t window_of(const struct readahead *r,
			  const struct readahead_reader *x)
{
	uint64_t had = x->next - x->begin, most = r->most;

	if (had < most / r->share)
		most = had * r->share;
	if (most < READAHEAD_FIRST * r->unit)
		most = READAHEAD_FIRST * r->unit;
	return most < r->most ? most : r->most;
}

/* Advise to read more when half of the window is used up. */
static void advise_reader(struct readahead *r, struct readahead_reader *x,
			  uint64_t size, struct readahead_advice *ret)
{
	uint64_t to, window = window_of(r, x);

	if (x->ahead < x->next)
		x->ahead = x->next;
	if (x->ahead - x->next > window / 2)
		return;
	to = x->next + window;
	to -= to % r->unit;
	if (to > size)
		to = size;
	to = part_end(r, x, to);
	if (to > ret->until)
		to = round_up(ret->until, MIB);
	if (to > size)
		to = size;
	if (to <= x->ahead)
		return;
	ret->from = x->ahead;
	ret->to = to;
	x->ahead = to;
}

struct readahead_advice readahead_note(struct readahead *r, uint64_t off,
				       uint64_t len, uint64_t size)
{
	struct readahead_advice ret = { .from = 0 };
	bool is_new;
	struct readahead_reader *x = find_reader(r, off, &is_new);

	r->clock++;
	if (is_new)
		*x = (struct readahead_reader){ .begin = off,
						.begun = r->clock };
	x->used = r->clock;
	x->n++;
	if (off + len > x->next)
		x->next = off + len;
	/* A read at the begin of the file counts as sequential: such readers mostly continue. */
	ret.goes_on = x->n >= READS_MIN;
	ret.is_sequential = (ret.goes_on || off == 0) &&
			    !was_read_by_other(r, x, off, off + len);
	ret.until = expected_end(r, x);
	if (ret.goes_on && size > r->unit)
		advise_reader(r, x, size, &ret);
	return ret;
}

unsigned int readahead_count(const struct readahead *r)
{
	unsigned int n = 0;

	for (size_t i = 0; i < READAHEAD_READERS; i++) {
		const struct readahead_reader *x = &r->readers[i];

		n += x->n >= READS_MIN && x->used + RECENT > r->clock;
	}
	return n ? n : 1;
}

void readahead_lost(struct readahead *r, uint64_t off)
{
	for (size_t i = 0; i < READAHEAD_READERS; i++) {
		struct readahead_reader *x = &r->readers[i];

		if (x->used && x->next <= off && off < x->ahead)
			x->ahead = off;
	}
}

uint64_t readahead_distance(const struct readahead *r, uint64_t off,
			    uint64_t len)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < READAHEAD_READERS; i++) {
		const struct readahead_reader *x = &r->readers[i];

		/* The reader may still be at its last read, and not have these bytes yet. */
		if (x->used && x->n >= READS_MIN && x->next > off &&
		    x->next <= off + len)
			return 0;
		if (x->used && x->next <= off && off - x->next < least)
			least = off - x->next;
	}
	return least;
}
