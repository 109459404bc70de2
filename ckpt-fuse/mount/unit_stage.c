// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/unit_stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Size of the first buffer: small, because a thousand small files may be open. A file that fills
 * one unit mostly fills the next, so later units are allocated in full to avoid copies. */
#define SIZE_MIN 4096u

void unit_stage_init(struct unit_stage *s, struct budget *b)
{
	*s = (struct unit_stage){ .budget = b, .unit = STAGE_UNIT };
}

void unit_stage_fini(struct unit_stage *s)
{
	for (size_t i = 0; i < s->n; i++)
		budget_memory_free(s->budget, s->units[i].data,
				   s->units[i].size);
	free(s->units);
	unit_stage_init(s, s->budget);
}

/* Index of unit `u`, or if it is not staged, of the next unit. */
static size_t find_unit_index(const struct unit_stage *s, uint64_t u)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->units[mid].u < u)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct staged_unit *unit_stage_find(struct unit_stage *s, uint64_t u)
{
	size_t i = find_unit_index(s, u);

	return i < s->n && s->units[i].u == u ? &s->units[i] : NULL;
}

static size_t get_unit_room(const struct unit_stage *s, uint64_t u, size_t need)
{
	size_t size = u == 0 ? SIZE_MIN : s->unit;

	while (size < need)
		size *= 2;
	return size < s->unit ? size : s->unit;
}

size_t unit_stage_wants(struct unit_stage *s, uint64_t u, size_t need)
{
	const struct staged_unit *x = unit_stage_find(s, u);
	size_t size = get_unit_room(s, u, need);

	if (!x)
		return size;
	return size > x->size ? size - x->size : 0;
}

static int add_unit(struct unit_stage *s, uint64_t u)
{
	size_t i = find_unit_index(s, u);

	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 4;
		struct staged_unit *more =
			realloc(s->units, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->units = more;
		s->cap = cap;
	}
	memmove(s->units + i + 1, s->units + i, (s->n - i) * sizeof(*s->units));
	s->units[i] = (struct staged_unit){ .u = u, .is_whole = true };
	s->n++;
	return 0;
}

int unit_stage_have(struct unit_stage *s, uint64_t u, size_t need,
		    struct staged_unit **ret)
{
	struct staged_unit *x = unit_stage_find(s, u);
	size_t size = get_unit_room(s, u, need);
	char *data;

	if (x && size <= x->size) {
		*ret = x;
		return 0;
	}
	data = budget_memory(s->budget, size);
	if (!data || (!x && add_unit(s, u) < 0)) {
		budget_memory_free(s->budget, data, size);
		return -ENOMEM;
	}
	x = unit_stage_find(s, u);
	if (x->set)
		memcpy(data, x->data, x->set);
	budget_memory_free(s->budget, x->data, x->size);
	x->data = data;
	x->size = size;
	*ret = x;
	return 0;
}

void unit_stage_take(struct unit_stage *s, struct staged_unit *x)
{
	size_t i = (size_t)(x - s->units);

	s->n--;
	memmove(x, x + 1, (s->n - i) * sizeof(*x));
}

size_t unit_stage_drop(struct unit_stage *s, struct staged_unit *x)
{
	size_t size = x->size;

	budget_memory_free(s->budget, x->data, size);
	unit_stage_take(s, x);
	return size;
}

/* ------------------------------------------------------------------------ ranges --- */

/* Find the ranges that touch [from, to]; *ret_first is the first of them; returns their number. */
static unsigned int find_touching_ranges(const struct staged_unit *x,
					 uint32_t from, uint32_t to,
					 unsigned int *ret_first)
{
	unsigned int i = 0, n = 0;

	while (i < x->n_written && x->written[i].to < from)
		i++;
	*ret_first = i;
	while (i + n < x->n_written && x->written[i + n].from <= to)
		n++;
	return n;
}

bool staged_can_write(const struct staged_unit *x, size_t at, size_t len)
{
	unsigned int i;

	return x->is_whole || x->n_written < STAGE_RANGES_MAX ||
	       find_touching_ranges(x, (uint32_t)at, (uint32_t)(at + len), &i) >
		       0;
}

static void note_written_range(struct staged_unit *x, uint32_t from,
			       uint32_t to)
{
	unsigned int i, n = find_touching_ranges(x, from, to, &i);
	struct stage_range r = { .from = from, .to = to };

	/* The table of ranges is full: extend the range before over the gap. */
	if (!n && x->n_written == STAGE_RANGES_MAX) {
		i = i ? i - 1 : 0;
		n = 1;
	}
	if (n && x->written[i].from < from)
		r.from = x->written[i].from;
	if (n && x->written[i + n - 1].to > to)
		r.to = x->written[i + n - 1].to;
	memmove(x->written + i + 1, x->written + i + n,
		(x->n_written - i - n) * sizeof(r));
	x->written[i] = r;
	x->n_written = x->n_written - n + 1;
}

bool staged_is_full(const struct unit_stage *s, const struct staged_unit *x)
{
	return x->n_written == 1 && x->written[0].from == 0 &&
	       x->written[0].to == s->unit;
}

/* ------------------------------------------------------------------------- bytes --- */

void staged_set_up_to(struct staged_unit *x, size_t len)
{
	if (x->set >= len)
		return;
	memset(x->data + x->set, 0, len - x->set);
	x->set = len;
}

void staged_write(struct unit_stage *s, struct staged_unit *x, size_t at,
		  const void *data, size_t len)
{
	if (!len)
		return;
	staged_set_up_to(x, at);
	if (data)
		memcpy(x->data + at, data, len);
	else
		memset(x->data + at, 0, len);
	if (x->set < at + len)
		x->set = at + len;
	x->used = ++s->clock;
	x->is_dirty = true;
	note_written_range(x, (uint32_t)at, (uint32_t)(at + len));
	x->is_whole = x->is_whole || staged_is_full(s, x);
}

bool staged_has(const struct staged_unit *x, size_t at, size_t len)
{
	for (unsigned int i = 0; i < x->n_written; i++)
		if (x->written[i].from <= at && at + len <= x->written[i].to)
			return true;
	return x->is_whole;
}

void staged_read(const struct staged_unit *x, size_t at, void *data, size_t len)
{
	size_t n = at < x->set ? x->set - at : 0;

	if (n > len)
		n = len;
	if (n)
		memcpy(data, x->data + at, n);
	memset((char *)data + n, 0, len - n);
}

static void fill_gap(struct staged_unit *x, size_t from, size_t to,
		     const char *stored, size_t len)
{
	size_t n = from < len ? len - from : 0;

	if (n > to - from)
		n = to - from;
	if (n)
		memcpy(x->data + from, stored + from, n);
	memset(x->data + from + n, 0, to - from - n);
}

void staged_fill(struct staged_unit *x, const void *stored, size_t len)
{
	size_t from = 0;

	for (unsigned int i = 0; i < x->n_written; i++) {
		fill_gap(x, from, x->written[i].from, stored, len);
		from = x->written[i].to;
	}
	fill_gap(x, from, x->size, stored, len);
	x->set = x->size;
	x->is_whole = true;
}
