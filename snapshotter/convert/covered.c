// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/covered.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/bytes.h"
#include "image/erofs/erofs.h"

/* Are all bytes of the extent in some block? */
static bool is_covered(const struct blockmap *m, const struct extent *x)
{
	uint64_t pos = x->voff, end = x->voff + x->len;

	while (pos < end) {
		size_t i = blockmap_find(m, pos);
		struct block b;

		if (i == m->n_blocks)
			return false;
		blockmap_block(m, i, &b);
		pos = b.voff + round_up(b.usize, BLOCK_ALIGN);
	}
	return true;
}

static int check_files(const struct blockmap *m, const struct inode *dir,
		       struct error *err)
{
	for (struct dentry *d = dir->children; d; d = d->next) {
		const struct inode *i = d->inode;
		int rc = 0;

		if (S_ISDIR(i->mode))
			rc = check_files(m, i, err);
		for (uint32_t k = 0;
		     rc == 0 && S_ISREG(i->mode) &&
		     i->data == INODE_DATA_EXTENTS && k < i->n_extents;
		     k++) {
			AUTO_FREE char *path = NULL;

			if (is_covered(m, &i->extents[k]))
				continue;
			path = tree_path(d);
			rc = error_set(err, EBADMSG,
				       "file '%s' has bytes that no block "
				       "holds",
				       path ? path : "?");
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The bytes of the device that files use, as ranges. */
struct spans {
	struct span {
		uint64_t from, end;
	} * v;
	size_t n, cap;
};

static int add_span(struct spans *s, const struct extent *x, struct error *err)
{
	if (array_grow(&s->v, s->n, &s->cap, 1024) < 0)
		return error_nomem(err);
	s->v[s->n++] = (struct span){ x->voff,
				      x->voff + round_up(x->len, BLOCK_ALIGN) };
	return 0;
}

static int add_spans(struct spans *s, const struct inode *dir,
		     struct error *err)
{
	int rc = 0;

	for (const struct dentry *d = dir->children; rc == 0 && d;
	     d = d->next) {
		const struct inode *i = d->inode;

		if (S_ISDIR(i->mode))
			rc = add_spans(s, i, err);
		for (uint32_t k = 0;
		     rc == 0 && S_ISREG(i->mode) &&
		     i->data == INODE_DATA_EXTENTS && k < i->n_extents;
		     k++)
			rc = add_span(s, &i->extents[k], err);
	}
	return rc;
}

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* Check that blocks hold only bytes of files: other bytes would not have been compared with
 * anything, but nodes would fetch them. */
static int check_blocks(const struct blockmap *m, const struct spans *s,
			uint64_t *ret_bytes, struct error *err)
{
	/* files use all bytes from the block's begin up to here */
	uint64_t end = 0;
	uint64_t sum = 0;
	size_t at = 0;

	for (size_t i = 0; i < m->n_blocks; i++) {
		uint64_t want;
		struct block b;

		blockmap_block(m, i, &b);
		want = b.voff + round_up(b.usize, BLOCK_ALIGN);
		if (end < b.voff)
			end = b.voff;
		for (; at < s->n && s->v[at].from <= end; at++)
			end = s->v[at].end > end ? s->v[at].end : end;
		if (end < want)
			return error_set(err, EBADMSG,
					 "block at %" PRIu64
					 " holds bytes that no file has",
					 b.voff);
		sum += want - b.voff;
	}
	*ret_bytes = sum;
	return 0;
}

int covered_check(const struct blockmap *m, const void *meta, size_t len,
		  uint64_t *ret_bytes, struct error *err)
{
	struct spans spans = { .n = 0 };
	struct erofs_image image;
	AUTO(tree) tree = NULL;
	int rc = erofs_open(meta, len, &image, err);

	if (rc == 0)
		rc = erofs_read_tree(&image, &tree, err);
	if (rc == 0)
		rc = check_files(m, tree_root(tree), err);
	if (rc == 0)
		rc = add_spans(&spans, tree_root(tree), err);
	if (rc == 0 && spans.n)
		qsort(spans.v, spans.n, sizeof(*spans.v), compare_spans);
	if (rc == 0)
		rc = check_blocks(m, &spans, ret_bytes, err);
	free(spans.v);
	return rc;
}
