// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/zip_order.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"

#define END_SIZE 22u
#define LOCATOR_SIZE 20u
#define END64_SIZE 56u
#define ENTRY_SIZE 46u
#define LOCAL_SIZE 30u
/* Most padding bytes that torch inserts before an entry's bytes to align them. */
#define PADDING 128u
#define DIGITS_MAX 9u
#define SHARE 4u
/* The kernel reads a little beyond the end of a tensor. So many such requests in a row show that
 * the reader really moved: elsewhere, or past skipped tensors. */
#define STRAYS_MAX 8u
#define SKIPS_MAX 4u

struct zip_tensor {
	uint64_t key, off, len;
	/* bytes of all tensors that come before in the reading order */
	uint64_t start;
};

struct zip_order {
	uint32_t n;
	uint32_t now;    /* index of the tensor being read */
	uint32_t cursor; /* index of the tensor requested last */
	uint32_t last;   /* index of the last tensor that may be requested */
	/* Positions in the reading order: next byte to be read; all before `asked` was requested;
	 * may be requested before `until`. */
	uint64_t next, asked, until;
	uint64_t had; /* bytes read in order so far */
	unsigned int n_strays;
	uint32_t *by_off; /* indices of tensors, sorted by offset in the file */
	struct zip_tensor t[];
};

/* ------------------------------------------------------------------- directory --- */

static bool has_zip_signature(const unsigned char *p, unsigned char a,
			      unsigned char b)
{
	return p[0] == 'P' && p[1] == 'K' && p[2] == a && p[3] == b;
}

int zip_find_directory(const void *tail, size_t n, uint64_t size,
		       struct zip_range *ret)
{
	const unsigned char *end, *end64;

	/* The directory's end is the last thing in the file: torch adds no comment. */
	if (n < ZIP_TAIL_MIN || n > size)
		return -ENOENT;
	end = (const unsigned char *)tail + n - END_SIZE;
	if (!has_zip_signature(end, 5, 6))
		return -ENOENT;
	ret->len = get_le32(end + 12);
	ret->off = get_le32(end + 16);
	end64 = end - LOCATOR_SIZE - END64_SIZE;
	if (has_zip_signature(end - LOCATOR_SIZE, 6, 7) &&
	    has_zip_signature(end64, 6, 6)) {
		ret->len = get_le64(end64 + 40);
		ret->off = get_le64(end64 + 48);
	}
	return ret->len && ret->off < size && ret->len <= size - ret->off
		       ? 0
		       : -ENOENT;
}

/* Parse the number 17 in a name such as "NAME/data/17". */
static bool parse_key(const char *name, size_t len, uint64_t *ret)
{
	static const char folder[] = "/data/";
	size_t n = 0;

	while (n < len && n <= DIGITS_MAX &&
	       isdigit((unsigned char)name[len - 1 - n]))
		n++;
	if (!n || n > DIGITS_MAX || len < n + strlen(folder) ||
	    memcmp(name + len - n - strlen(folder), folder, strlen(folder)) !=
		    0)
		return false;
	*ret = 0;
	for (size_t i = len - n; i < len; i++)
		*ret = *ret * 10 + (uint64_t)(name[i] - '0');
	return true;
}

/* Read the 64-bit numbers of the extra field. */
static void parse_extra(const unsigned char *p, size_t n, struct zip_tensor *t,
			bool has_size)
{
	while (n >= 4) {
		size_t len = get_le16(p + 2), at = 4;

		if (len > n - 4)
			return;
		if (get_le16(p) == 1) {
			/* In the extra field, both sizes come before the offset. */
			if (has_size && len >= 16)
				t->len = get_le64(p + 12);
			at += has_size ? 16 : 0;
			if (t->off == UINT32_MAX && len + 4 >= at + 8)
				t->off = get_le64(p + at);
			return;
		}
		p += 4 + len;
		n -= 4 + len;
	}
}

/* Parse an entry in at most `n` bytes; returns its length, 0: damaged. t->len is 0 if it is no
 * tensor. */
static size_t parse_entry(const unsigned char *p, size_t n, uint64_t size,
			  struct zip_tensor *t)
{
	size_t name, extra, all;
	uint32_t len;

	if (n < ENTRY_SIZE || !has_zip_signature(p, 1, 2))
		return 0;
	name = get_le16(p + 28);
	extra = get_le16(p + 30);
	all = ENTRY_SIZE + name + extra + get_le16(p + 32);
	if (all > n)
		return 0;
	len = get_le32(p + 20);
	*t = (struct zip_tensor){ .len = len, .off = get_le32(p + 42) };
	parse_extra(p + ENTRY_SIZE + name, extra, t, len == UINT32_MAX);
	/* Accept only uncompressed entries. */
	if (get_le16(p + 10) != 0 || t->off >= size || t->len > size - t->off ||
	    !parse_key((const char *)p + ENTRY_SIZE, name, &t->key))
		t->len = 0;
	if (t->len) {
		t->len += LOCAL_SIZE + name + PADDING;
		if (t->len > size - t->off)
			t->len = size - t->off;
	}
	return all;
}

/* ----------------------------------------------------------------------- order --- */

static int compare_keys(const void *a, const void *b)
{
	const struct zip_tensor *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

static int compare_places(const void *a, const void *b, void *arg)
{
	const struct zip_tensor *t = arg;
	uint64_t x = t[*(const uint32_t *)a].off;
	uint64_t y = t[*(const uint32_t *)b].off;

	return (x > y) - (x < y);
}

static int set_order(struct zip_order *o)
{
	uint64_t sum = 0;

	o->by_off = malloc(o->n * sizeof(*o->by_off));
	if (!o->by_off)
		return -ENOMEM;
	qsort(o->t, o->n, sizeof(o->t[0]), compare_keys);
	for (uint32_t i = 0; i < o->n; i++) {
		o->by_off[i] = i;
		o->t[i].start = sum;
		sum += o->t[i].len;
	}
	qsort_r(o->by_off, o->n, sizeof(*o->by_off), compare_places, o->t);
	return 0;
}

int zip_order_new(const void *directory, size_t n, uint64_t size,
		  struct zip_order **ret)
{
	const unsigned char *p = directory;
	size_t most = n / ENTRY_SIZE;
	struct zip_order *o;
	int rc = 0;

	if (most > ZIP_ORDER_MAX)
		most = ZIP_ORDER_MAX;
	/* Bound the size, so that no sum of lengths overflows 64 bits. */
	if (size > UINT64_MAX / (2 * ZIP_ORDER_MAX))
		return -ENOENT;
	o = calloc(1, sizeof(*o) + most * sizeof(o->t[0]));
	if (!o)
		return -ENOMEM;
	while (n && rc == 0 && o->n < most) {
		size_t len = parse_entry(p, n, size, &o->t[o->n]);

		rc = len ? 0 : -EBADMSG;
		o->n += len && o->t[o->n].len;
		p += len;
		n -= len;
	}
	if (rc == 0 && o->n < 2)
		rc = -ENOENT;
	if (rc == 0)
		rc = set_order(o);
	if (rc == 0)
		*ret = o;
	else
		zip_order_free(o);
	return rc;
}

void zip_order_free(struct zip_order *o)
{
	if (!o)
		return;
	free(o->by_off);
	free(o);
}

static bool tensor_has_byte(const struct zip_tensor *t, uint64_t off)
{
	return off >= t->off && off - t->off < t->len;
}

/* Index in by_off of the first tensor that begins after the byte. */
static uint32_t find_first_tensor_behind(const struct zip_order *o,
					 uint64_t off)
{
	uint32_t from = 0, to = o->n;

	while (from < to) {
		uint32_t mid = from + (to - from) / 2;

		if (o->t[o->by_off[mid]].off <= off)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static bool reaches_into(const struct zip_tensor *t, uint64_t off, uint64_t len)
{
	return off < t->off + t->len && off + len > t->off;
}

static uint32_t find_tensor_with_byte(const struct zip_order *o, uint64_t off)
{
	const uint32_t from = find_first_tensor_behind(o, off);

	return from && tensor_has_byte(&o->t[o->by_off[from - 1]], off)
		       ? o->by_off[from - 1]
		       : o->n;
}

/* Find the tensor that a read is for. A request begins at a page, whose first bytes may belong to
 * the tensor before. So prefer the current tensor or the next one if the range overlaps it, else
 * that of the last byte, else of the first. o->n: none. */
static uint32_t find_tensor(const struct zip_order *o, uint64_t off,
			    uint64_t len)
{
	uint32_t i;

	for (i = o->now; i < o->n && i - o->now <= 1; i++)
		if (reaches_into(&o->t[i], off, len))
			return i;
	i = find_tensor_with_byte(o, off + len - 1);
	return i < o->n ? i : find_tensor_with_byte(o, off);
}

/* The last of the tensors, consecutive in the order, that the range reaches into. */
static uint32_t find_last_reached_tensor(const struct zip_order *o, uint32_t i,
					 uint64_t off, uint64_t len)
{
	while (i + 1 < o->n && reaches_into(&o->t[i + 1], off, len))
		i++;
	return i;
}

/* Does the reader continue in order with tensor `i`, or has it moved there permanently? */
static bool is_in_order(struct zip_order *o, uint32_t i)
{
	const bool is_behind = i >= o->now && i - o->now <= ZIP_ORDER_SKIP;

	if (!o->had || (is_behind && i - o->now <= 1))
		return true;
	return ++o->n_strays >= (is_behind ? SKIPS_MAX : STRAYS_MAX);
}

bool zip_order_note(struct zip_order *o, uint64_t off, uint64_t len,
		    uint64_t least, uint64_t most)
{
	uint32_t i = len ? find_tensor(o, off, len) : o->n;
	uint64_t at, window;

	if (i == o->n)
		return false;
	if (!is_in_order(o, i))
		return true;
	i = find_last_reached_tensor(o, i, off, len);
	at = o->t[i].start + (off + len - o->t[i].off);
	if (i < o->now || i - o->now > ZIP_ORDER_SKIP) {
		/* The reader has moved: continue from here. */
		o->had /= SHARE;
		o->next = o->asked = at;
		o->cursor = i;
	}
	o->n_strays = 0;
	o->now = i;
	if (o->cursor < i)
		o->cursor = i;
	o->had += len;
	if (at > o->next)
		o->next = at;
	window = o->had < most / SHARE ? o->had * SHARE : most;
	if (window < least)
		window = least < most ? least : most;
	if (o->asked < o->next)
		o->asked = o->next;
	if (o->asked - o->next <= window / 2) {
		o->until = o->next + window;
		/* Even the smallest tensor costs a chunk, so bound the number of tensors. */
		o->last = i + (uint32_t)(window / MIB) + 1;
	}
	return true;
}

bool zip_order_next(struct zip_order *o, struct zip_range *ret)
{
	for (; o->cursor < o->n && o->cursor <= o->last && o->asked < o->until;
	     o->cursor++) {
		const struct zip_tensor *t = &o->t[o->cursor];
		uint64_t at;

		if (o->asked < t->start)
			o->asked = t->start;
		at = o->asked - t->start;
		if (at >= t->len)
			continue;
		ret->off = t->off + at;
		ret->len = t->len - at;
		if (ret->len > o->until - o->asked)
			ret->len = o->until - o->asked;
		o->asked += ret->len;
		return true;
	}
	return false;
}

/* Find which of these bytes comes first in the order; false: none is needed. A block has parts of
 * several tensors, of which the first may have been read already. */
static bool find_first_needed_byte(const struct zip_order *o, uint64_t off,
				   uint64_t len, uint32_t *ret_tensor,
				   uint64_t *ret)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t k = find_first_tensor_behind(o, off)
				  ? find_first_tensor_behind(o, off) - 1
				  : 0;
	     k < o->n && o->t[o->by_off[k]].off < off + len; k++) {
		const struct zip_tensor *t = &o->t[o->by_off[k]];
		uint64_t at = t->start + (off > t->off ? off - t->off : 0);

		if (off > t->off && off - t->off >= t->len)
			continue;
		if (at < o->next && t->start + t->len > o->next)
			at = o->next;
		if (at < o->next || at >= least)
			continue;
		least = at;
		*ret_tensor = o->by_off[k];
	}
	*ret = least;
	return least != UINT64_MAX;
}

uint64_t zip_order_distance(const struct zip_order *o, uint64_t off,
			    uint64_t len)
{
	uint32_t i;
	uint64_t at;

	return find_first_needed_byte(o, off, len, &i, &at) ? at - o->next
							    : UINT64_MAX;
}

void zip_order_lost(struct zip_order *o, uint64_t off, uint64_t len)
{
	uint32_t i;
	uint64_t at;

	if (!find_first_needed_byte(o, off, len, &i, &at) || at >= o->asked)
		return;
	o->asked = at;
	o->cursor = i;
}
