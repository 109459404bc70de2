// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Small files have small buffers: a thousand of them may be open.  A file that fills a
 * unit mostly fills the next, whose bytes then are not copied at each step. */
#define SIZE_MIN 4096u

void tail_init(struct tail *t, struct budget *b, size_t unit, uint64_t start)
{
	*t = (struct tail){
		.budget = b, .unit = unit, .first = start / unit, .end = start
	};
}

void tail_fini(struct tail *t)
{
	for (size_t i = 0; i < t->n; i++)
		budget_memory_free(t->budget, t->units[i].data,
				   t->units[i].size);
	free(t->units);
	t->units = NULL;
	t->n = t->cap = 0;
}

size_t tail_piece(const struct tail *t, uint64_t off, size_t len)
{
	size_t left = t->unit - (size_t)(off % t->unit);

	return len < left ? len : left;
}

/* What unit `i` is given, which has to hold `need` bytes. */
static size_t size_for(const struct tail *t, size_t i, size_t need)
{
	size_t size = t->first + i == 0 ? SIZE_MIN : t->unit;

	while (size < need)
		size *= 2;
	return size < t->unit ? size : t->unit;
}

/* Of the unit that `end` closes, or lies in. */
static size_t index_of(const struct tail *t, uint64_t end)
{
	return (size_t)((end - 1) / t->unit - t->first);
}

static size_t bytes_in(const struct tail *t, uint64_t end)
{
	return (size_t)((end - 1) % t->unit) + 1;
}

size_t tail_wants(const struct tail *t, uint64_t end)
{
	size_t i, size;

	if (end <= tail_start(t))
		return 0;
	i = index_of(t, end);
	size = size_for(t, i, bytes_in(t, end));
	if (i >= t->n)
		return size;
	return size > t->units[i].size ? size - t->units[i].size : 0;
}

static int add_unit(struct tail *t)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 4;
		struct tail_unit *more = realloc(t->units, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->units = more;
		t->cap = cap;
	}
	t->units[t->n++] = (struct tail_unit){ .data = NULL };
	return 0;
}

static int make_room(struct tail *t, size_t i, size_t need)
{
	struct tail_unit *u;
	size_t size = size_for(t, i, need);
	char *data;

	if (i >= t->n && add_unit(t) < 0)
		return -ENOMEM;
	u = &t->units[i];
	if (size <= u->size)
		return 0;
	data = budget_memory(t->budget, size);
	if (!data)
		return -ENOMEM;
	if (u->data)
		memcpy(data, u->data, u->size);
	budget_memory_free(t->budget, u->data, u->size);
	u->data = data;
	u->size = size;
	return 0;
}

int tail_write(struct tail *t, uint64_t off, const void *data, size_t len)
{
	size_t i, at = (size_t)(off % t->unit);

	if (!len)
		return 0;
	i = index_of(t, off + len);
	if (make_room(t, i, at + len) < 0)
		return -ENOMEM;
	if (data)
		memcpy(t->units[i].data + at, data, len);
	else
		memset(t->units[i].data + at, 0, len);
	if (off + len > t->end)
		t->end = off + len;
	return 0;
}

void tail_read(const struct tail *t, uint64_t off, void *data, size_t len)
{
	if (len)
		memcpy(data,
		       t->units[index_of(t, off + len)].data + off % t->unit,
		       len);
}

bool tail_has_whole(const struct tail *t)
{
	return t->n && t->end >= (t->first + 1) * t->unit;
}

void tail_pop(struct tail *t, struct tail_unit *ret)
{
	*ret = t->units[0];
	t->n--;
	t->first++;
	memmove(t->units, t->units + 1, t->n * sizeof(*t->units));
}

size_t tail_cut(struct tail *t, uint64_t end)
{
	size_t keep = end > tail_start(t) ? index_of(t, end) + 1 : 0;
	size_t freed = 0;

	while (t->n > keep) {
		freed += t->units[--t->n].size;
		budget_memory_free(t->budget, t->units[t->n].data,
				   t->units[t->n].size);
	}
	if (end < t->end)
		t->end = end;
	return freed;
}
