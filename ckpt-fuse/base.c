// SPDX-License-Identifier: Apache-2.0
/*
 * Checks columns that a writer's manifest names but that the writer did not make: those of the file
 * that it extends, of the parts that it commits, and of earlier files whose units it names.
 * ckpt_gc() may be about to remove columns that no manifest names: docs/formats/checkpoint.md.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ckpt-fuse/writer.h"
#include "common/side_by_side.h"

#define LOOKS_MAX 16u /* parallel requests */

struct column_look {
	struct ckpt_writer *writer;
	/* needed end of each column, by segment; all 0: the segment is not used */
	uint64_t (*ends)[COLUMNS_MAX];
	enum base_mark mark;
	atomic_size_t next;
};

static bool is_any_column_used(const uint64_t ends[COLUMNS_MAX])
{
	for (uint32_t c = 0; c < COLUMNS_MAX; c++)
		if (ends[c])
			return true;
	return false;
}

/* Check a segment's mark. ckpt_gc() marks a segment that no manifest names, and writes into the
 * mark before it removes the columns. -ENOENT: the columns are being removed, and must not be
 * named. */
static int check_segment_mark(const struct column_look *l,
			      const struct ckpt_segment *s, struct error *err)
{
	struct object_store *store = l->writer->store;
	char name[COLUMN_NAME_MAX];
	struct object_stat o;
	int rc;

	segment_mark_name(s->id, name);
	rc = object_stat(store, name, &o, err);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (l->mark == BASE_MARK_REFUSED || o.size)
		return -ENOENT;
	if (l->mark == BASE_MARK_LEFT)
		return 0;
	/* Remove only this version of the mark: gc may have written into it since, to remove the
	 * columns. */
	rc = object_delete(store, name, o.tag, err);
	if (rc == -ESTALE)
		return -ENOENT;
	return rc == -ENOENT ? 0 : rc;
}

static int check_segment_marks(void *arg, unsigned int index, struct error *err)
{
	struct column_look *l = arg;
	int rc = 0;
	size_t i;

	(void)index;
	while (rc == 0 &&
	       (i = atomic_fetch_add(&l->next, 1)) < l->writer->n_base)
		if (is_any_column_used(l->ends[i]))
			rc = check_segment_mark(l, &l->writer->map.segments[i],
						err);
	return rc;
}

/* Check columns in the store. -ENOENT: one is gone, or shorter than the part of it that is
 * needed. */
static int check_base_columns(void *arg, unsigned int index, struct error *err)
{
	struct column_look *l = arg;
	const size_t n = l->writer->n_base * COLUMNS_MAX;
	int rc = 0;
	size_t i;

	(void)index;
	while (rc == 0 && (i = atomic_fetch_add(&l->next, 1)) < n) {
		const uint64_t end = l->ends[i / COLUMNS_MAX][i % COLUMNS_MAX];
		char name[COLUMN_NAME_MAX];
		struct object_stat o;

		if (!end)
			continue;
		column_name(&l->writer->map.segments[i / COLUMNS_MAX],
			    (uint32_t)(i % COLUMNS_MAX), name);
		rc = object_stat(l->writer->store, name, &o, err);
		if (rc == 0 && o.size < end)
			rc = -ENOENT;
	}
	return rc;
}

static unsigned int count_needed_column_checks(const struct column_look *l)
{
	unsigned int n = 0;

	for (size_t i = 0; i < l->writer->n_base; i++)
		for (uint32_t c = 0; c < COLUMNS_MAX && n < LOOKS_MAX; c++)
			n += l->ends[i][c] != 0;
	return n;
}

/* Check all marks before any column: gc, which removes both, removes the mark last. */
int writer_look_at_base(struct ckpt_writer *w, enum base_mark mark,
			struct error *err)
{
	AUTO_FREE uint64_t(*ends)[COLUMNS_MAX] =
		calloc(w->n_base + 1, sizeof(*ends));
	struct column_look l = { .writer = w, .ends = ends, .mark = mark };
	unsigned int n;
	int rc;

	if (!ends)
		return error_nomem(err);
	unit_map_column_ends(&w->map, w->n_base, ends);
	n = count_needed_column_checks(&l);
	if (!n)
		return 0;
	rc = side_by_side(n, check_segment_marks, &l, err);
	atomic_store(&l.next, 0);
	return rc == 0 ? side_by_side(n, check_base_columns, &l, err) : rc;
}
