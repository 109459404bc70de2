// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/tar_sparse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"

#define OFFSET_LEN 12
#define PART_LEN 24
#define HEADER_MAP_AT 386
#define HEADER_PARTS 4
#define BLOCK_PARTS 21
#define HEADER_GOES_ON_AT 482
#define BLOCK_GOES_ON_AT 504

void tar_parts_fini(struct tar_parts *p)
{
	free(p->v);
	*p = (struct tar_parts){ .v = NULL };
}

uint64_t tar_parts_sum(const struct tar_parts *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n; i++)
		sum += p->v[i].len;
	return sum;
}

/* Add a part after a hole.  Parts must ascend without overlap, as Go requires. */
static int add_hole(struct tar_parts *p, uint64_t off, uint64_t len,
		    uint64_t size, struct error *err)
{
	uint64_t before = p->n ? p->v[p->n - 1].off + p->v[p->n - 1].len : 0;

	if (off < before || off > size || len > size - off)
		return error_set(err, EBADMSG,
				 "the map of a sparse file is damaged");
	if (p->n >= TAR_PARTS_MAX)
		return error_set(err, E2BIG,
				 "a sparse file of more than %u parts",
				 TAR_PARTS_MAX);
	if (array_grow(&p->v, p->n, &p->cap, 16) < 0)
		return error_nomem(err);
	p->v[p->n++] = (struct tar_part){ .off = off, .len = len };
	return 0;
}

/* ---------------------------------------------------------------- old format --- */

static int add_fields(struct tar_parts *p, const uint8_t *at, size_t n,
		      uint64_t size, struct error *err)
{
	for (size_t i = 0; i < n && at[i * PART_LEN]; i++) {
		const uint8_t *part = at + i * PART_LEN;
		uint64_t off, len;
		int rc = tar_number(part, OFFSET_LEN, &off, err);

		if (rc == 0)
			rc = tar_number(part + OFFSET_LEN, OFFSET_LEN, &len,
					err);
		if (rc == 0)
			rc = add_hole(p, off, len, size, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int read_old(struct tar_parts *p, const struct tar_head *h,
		    struct error *err)
{
	const uint8_t *block = h->header;
	bool goes_on = block[HEADER_GOES_ON_AT];
	int rc = add_fields(p, block + HEADER_MAP_AT, HEADER_PARTS, h->size,
			    err);

	while (rc == 0 && goes_on) {
		block += TAR_BLOCK;
		rc = add_fields(p, block, BLOCK_PARTS, h->size, err);
		goes_on = block[BLOCK_GOES_ON_AT];
	}
	return rc;
}

/* ------------------------------------------------------------------- records --- */

/* Cut the text before the next `end` off `*t`. */
static struct pax_text cut_line(struct pax_text *t, char end)
{
	const uint8_t *at = memchr(t->data, end, t->len);
	struct pax_text head = { .data = t->data,
				 .len = at ? (size_t)(at - t->data) : t->len };

	t->data += head.len + (at ? 1 : 0);
	t->len -= head.len + (at ? 1 : 0);
	return head;
}

/* Read a map like "0,512,4096,512": pairs of an offset and a length. */
static int read_list(struct tar_parts *p, struct pax_text list, uint64_t size,
		     struct error *err)
{
	if (list.data[list.len - 1] == ',')
		return error_set(err, EBADMSG,
				 "the map of a sparse file is damaged");
	while (list.len) {
		struct pax_text t = cut_line(&list, ',');
		uint64_t off, len;
		int rc = tar_decimal(&t, "map", &off, err);

		if (rc < 0)
			return rc;
		t = cut_line(&list, ',');
		rc = tar_decimal(&t, "map", &len, err);
		if (rc == 0)
			rc = add_hole(p, off, len, size, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Read a map that has a record for each offset, followed by one for the number of bytes. */
static int read_pairs(struct tar_parts *p, const struct tar_head *h,
		      struct error *err)
{
	static const char *const keys[] = { "GNU.sparse.offset",
					    "GNU.sparse.numbytes" };
	struct pax_text key, value;
	uint64_t pair[2];
	size_t at = 0, next = 0;
	int rc = 0;

	while (rc == 0 &&
	       pax_next(h->records.data, h->records.len, &at, &key, &value)) {
		size_t i = 0;

		while (i < 2 && !(key.len == strlen(keys[i]) &&
				  memcmp(key.data, keys[i], key.len) == 0))
			i++;
		if (i == 2)
			continue;
		if (i != next)
			return error_set(err, EBADMSG,
					 "the map of a sparse file is damaged");
		rc = tar_decimal(&value, "map", &pair[i], err);
		next = !next;
		if (rc == 0 && i == 1)
			rc = add_hole(p, pair[0], pair[1], h->size, err);
	}
	if (rc == 0 && next)
		rc = error_set(err, EBADMSG,
			       "the map of a sparse file is damaged");
	return rc;
}

static int read_records(struct tar_parts *p, const struct tar_head *h,
			struct error *err)
{
	struct pax_text map =
		pax_find(h->records.data, h->records.len, "GNU.sparse.map");
	struct pax_text count = pax_find(h->records.data, h->records.len,
					 "GNU.sparse.numblocks");
	uint64_t n = 0;
	int rc = tar_decimal(&count, "map", &n, err);

	if (rc == 0)
		rc = map.len ? read_list(p, map, h->size, err)
			     : read_pairs(p, h, err);
	if (rc == 0 && p->n != n)
		rc = error_set(err, EBADMSG,
			       "the map of a sparse file is damaged");
	return rc;
}

int tar_parts_of_head(struct tar_parts *p, const struct tar_head *h,
		      struct error *err)
{
	p->n = 0;
	return h->sparse == TAR_SPARSE_OLD ? read_old(p, h, err)
					   : read_records(p, h, err);
}

/* ------------------------------------------------------------------- content --- */

/* Read a decimal number and a newline.  1: read; 0: the newline is not there yet. */
static int take_line(struct pax_text *t, uint64_t *ret, struct error *err)
{
	const uint8_t *end = t->len ? memchr(t->data, '\n', t->len) : NULL;
	struct pax_text line;
	int rc;

	if (!end)
		return 0;
	line = cut_line(t, '\n');
	rc = tar_decimal(&line, "map", ret, err);
	return rc < 0 ? rc : 1;
}

/* Read a part; returns as take_line(). */
static int take_part(struct tar_parts *p, struct pax_text *t, uint64_t size,
		     struct error *err)
{
	uint64_t off, len;
	int rc = take_line(t, &off, err);

	if (rc == 1)
		rc = take_line(t, &len, err);
	if (rc != 1)
		return rc;
	rc = add_hole(p, off, len, size, err);
	return rc < 0 ? rc : 1;
}

int tar_parts_of_content(struct tar_parts *p, uint64_t size,
			 const uint8_t *content, size_t len, uint64_t *ret_used,
			 struct error *err)
{
	struct pax_text t = { .data = content, .len = len };
	uint64_t n = 0;
	int rc = take_line(&t, &n, err);

	p->n = 0;
	for (uint64_t i = 0; i < n && rc == 1; i++)
		rc = take_part(p, &t, size, err);
	if (rc == 1)
		*ret_used = round_up(len - t.len, TAR_BLOCK);
	return rc;
}
