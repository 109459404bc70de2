// SPDX-License-Identifier: Apache-2.0
/* Decides how inodes are stored, and where. */
#include "image/erofs/layout.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/bytes.h"
#include "image/erofs/chunks.h"
#include "image/erofs/dirent.h"
#include "image/erofs/format.h"

/* Where the address space of FLAT_PLAIN files in devices begins: constant, so that such a
 * file's inode is the same in the image's next version. Only files of one block are stored so:
 * when only the address tells the device, the kernel (Linux 6.18, fs/erofs/fileio.c) reads
 * larger files page by page, a request each, but chunks of a named device in one request. */
#define MAPPED_FIRST (UINT32_C(1) << 24) /* blocks: 64 GiB */

void layout_free(struct layout *l)
{
	if (!l)
		return;
	xattr_table_fini(&l->xattrs);
	free(l->runs);
	free(l->runs_by_nid);
	free(l);
}

/* A growing stack of folders: depth is bounded by memory only. */
struct dir_stack {
	struct inode **list;
	size_t n, cap;
};

static int stack_push(struct dir_stack *s, struct inode *dir)
{
	if (array_grow(&s->list, s->n, &s->cap, 64) < 0)
		return -ENOMEM;
	s->list[s->n++] = dir;
	return 0;
}

static void stack_reverse(struct dir_stack *s, size_t from)
{
	for (size_t a = from, b = s->n; a + 1 < b; a++) {
		struct inode *i = s->list[a];

		s->list[a] = s->list[--b];
		s->list[b] = i;
	}
}

/* The path of an inode, found by a walk of the tree (slow); the caller frees it. NULL for
 * the root. */
static char *layout_path(struct tree *t, const struct inode *wanted)
{
	struct dir_stack s = { .list = NULL };
	char *path = NULL;
	int rc = stack_push(&s, tree_root(t));

	while (rc == 0 && s.n > 0 && !path) {
		struct inode *dir = s.list[--s.n];

		for (struct dentry *d = dir->children; d && rc == 0;
		     d = d->next) {
			if (d->inode == wanted) {
				path = tree_path(d);
				break;
			}
			if (S_ISDIR(d->inode->mode))
				rc = stack_push(&s, d->inode);
		}
	}
	free(s.list);
	return path;
}

/* Put "'/path'" of the inode before the error's message. */
static int layout_wrap(const struct layout *l, const struct inode *i, int rc,
		       struct error *err)
{
	AUTO_FREE char *path = err ? layout_path(l->tree, i) : NULL;

	return error_wrap(err, rc, "'%.300s'", path ? path : "/");
}

/* Bytes of superblock and device table: where inodes start. */
static uint64_t layout_head_size(const struct layout *l)
{
	return EROFS_SB_POS + EROFS_SB_SIZE +
	       l->params->n_devices * (uint64_t)EROFS_DEVT_SIZE;
}

/* Decide where content in the image itself lies: whole blocks apart from the inode, the rest
 * behind the inode if inode, xattrs and rest fit into one block. */
static void plan_content(struct inode_plan *p)
{
	uint64_t head = EROFS_EXTENDED_SIZE + (uint64_t)p->xattr_size;
	uint32_t tail = (uint32_t)(p->size % EROFS_BLOCK);

	if (tail && head + tail <= EROFS_BLOCK) {
		p->layout = EROFS_LAYOUT_FLAT_INLINE;
		p->tail = tail;
		p->n_blocks = p->size / EROFS_BLOCK;
	} else {
		p->layout = EROFS_LAYOUT_FLAT_PLAIN;
		p->n_blocks = (p->size + EROFS_BLOCK - 1) / EROFS_BLOCK;
	}
}

static int plan_extents(struct layout *l, const struct inode *i,
			struct inode_plan *p, struct error *err)
{
	struct chunks c;
	int rc = chunks_choose(i, l->params, &c, err);

	if (rc < 0)
		return rc;
	if (c.is_one_run) {
		uint64_t voff = i->extents[0].voff;
		uint32_t base = l->mapped[EROFS_VOFF_DEVICE(voff)];

		p->layout = EROFS_LAYOUT_FLAT_PLAIN;
		p->blkaddr =
			base + (uint32_t)(EROFS_VOFF_BYTE(voff) / EROFS_BLOCK);
		if (base && i->size <= EROFS_BLOCK)
			return 0;
	}
	if (c.n_holes > LAYOUT_HOLES_MAX)
		return error_set(err, EFBIG,
				 "holes of %llu chunks; one image holds %llu",
				 (unsigned long long)c.n_holes,
				 (unsigned long long)LAYOUT_HOLES_MAX);
	p->layout = EROFS_LAYOUT_CHUNK_BASED;
	p->chunkbits = c.chunkbits;
	p->n_chunks = c.n_chunks;
	p->n_holes = c.n_holes;
	return 0;
}

/* As layout_plan(), but the error does not name the path. */
static int layout_plan_unnamed(struct layout *l, const struct inode *i,
			       struct inode_plan *p, struct error *err)
{
	int rc;

	memset(p, 0, sizeof(*p));
	if (erofs_file_type(i->mode) == 0)
		return error_set(err, EINVAL, "mode 0%o is of no file type",
				 i->mode);
	rc = xattr_table_size(&l->xattrs, i, &p->xattr_size, err);
	if (rc < 0)
		return rc;
	p->layout = EROFS_LAYOUT_FLAT_PLAIN;
	if (S_ISDIR(i->mode)) {
		p->size = dirent_size(i);
		plan_content(p);
	} else if (S_ISLNK(i->mode)) {
		if (i->size == 0 || i->size > TREE_SYMLINK_MAX)
			return error_set(err, EINVAL, "symlink of %llu bytes",
					 (unsigned long long)i->size);
		p->size = i->size;
		plan_content(p);
	} else if (S_ISREG(i->mode)) {
		p->size = i->size;
		if (i->size > INT64_MAX)
			return error_set(err, EFBIG, "%llu bytes",
					 (unsigned long long)i->size);
		if (i->data == INODE_DATA_INLINE)
			plan_content(p);
		else if (i->size)
			rc = plan_extents(l, i, p, err);
	} else if (i->major > 0xfff || i->minor > 0xfffff) {
		return error_set(err, EFBIG, "device %u:%u", i->major,
				 i->minor);
	}
	p->need = EROFS_EXTENDED_SIZE + p->xattr_size + p->tail;
	if (p->n_chunks)
		p->need = round_up(p->need, EROFS_CHUNK_INDEX_SIZE) +
			  p->n_chunks * EROFS_CHUNK_INDEX_SIZE;
	return rc;
}

int layout_plan(struct layout *l, const struct inode *i, struct inode_plan *ret,
		struct error *err)
{
	int rc = layout_plan_unnamed(l, i, ret, err);

	return rc < 0 ? layout_wrap(l, i, rc, err) : 0;
}

/* Give each device its range of the 32-bit address space. */
static int map_devices(struct layout *l, struct error *err)
{
	const struct erofs_params *params = l->params;
	uint64_t at = MAPPED_FIRST;

	if (params->n_devices == 0 || params->n_devices > EROFS_DEVICES_MAX)
		return error_set(err, EINVAL, "%zu devices, not 1 to %u",
				 params->n_devices, EROFS_DEVICES_MAX);
	for (size_t k = 0; k < params->n_devices; k++) {
		uint64_t size = params->devices[k].size;
		uint64_t blocks = size / EROFS_BLOCK;

		if (size % EROFS_BLOCK || blocks >= UINT32_MAX)
			return error_set(err, EINVAL,
					 "device %zu of %llu bytes", k,
					 (unsigned long long)size);
		if (at + blocks >= UINT32_MAX)
			continue;
		l->mapped[k] = (uint32_t)at;
		at += blocks;
	}
	return 0;
}

/* ------------------------------------------------------------------ order and places --- */

/*
 * Order and places. The children of a folder lie together, behind the folder's own whole blocks
 * if it has any; the folders among them follow, each with all below it. So listing a folder
 * reads neighbouring blocks, and so does walking a branch. The room that a tail or a run of
 * blocks leaves in a block is filled with the next small inodes.
 */

#define GAPS_MAX 8

/* Values of inode.user until the inode has its nid; nids are larger. */
enum { STATE_NEW, STATE_SEEN, STATE_PLACED };

/* Free room in a block, behind the inode `last`. */
struct gap {
	uint64_t pos;
	struct inode *last;
};

struct placer {
	struct layout *l;
	struct error *err;
	uint64_t pos;
	struct inode *last;        /* with the highest position so far */
	struct gap gaps[GAPS_MAX]; /* oldest first */
	size_t n_gaps;
};

typedef int visit_fn(struct placer *p, struct inode *dir, struct inode *i);

/* Call `visit` for each folder (with `i` NULL), then for its children, then go on with the
 * folders among them. */
static int layout_walk(struct placer *p, visit_fn *visit)
{
	struct dir_stack s = { .list = NULL };
	int rc = stack_push(&s, tree_root(p->l->tree));

	while (rc == 0 && s.n > 0) {
		struct inode *dir = s.list[--s.n];
		size_t from = s.n;

		rc = visit(p, dir, NULL);
		for (struct dentry *d = dir->children; d && rc == 0;
		     d = d->next) {
			if (S_ISDIR(d->inode->mode))
				rc = stack_push(&s, d->inode);
			if (rc == 0)
				rc = visit(p, dir, d->inode);
		}
		stack_reverse(&s, from);
	}
	free(s.list);
	return rc == -ENOMEM ? error_nomem(p->err) : rc;
}

static int layout_clear(struct placer *p, struct inode *dir, struct inode *i)
{
	if (!i)
		return tree_sort(dir);
	i->user = STATE_NEW;
	return 0;
}

static int see_inode(struct placer *p, struct inode *i)
{
	int rc = xattr_table_add(&p->l->xattrs, i, p->err);

	i->user = STATE_SEEN;
	p->l->n_inodes++;
	return rc < 0 ? layout_wrap(p->l, i, rc, p->err) : 0;
}

static int layout_see(struct placer *p, struct inode *dir, struct inode *i)
{
	return i && i->user == STATE_NEW ? see_inode(p, i) : 0;
}

/* Remember the rest of the current block as a gap, and go on with the next block. */
static void next_block(struct placer *p)
{
	if (p->pos % EROFS_BLOCK == 0)
		return;
	if (p->last) {
		if (p->n_gaps == GAPS_MAX)
			memmove(p->gaps, p->gaps + 1,
				--p->n_gaps * sizeof(p->gaps[0]));
		p->gaps[p->n_gaps++] = (struct gap){ p->pos, p->last };
	}
	p->pos = round_up(p->pos, EROFS_BLOCK);
}

static bool fits_in_started_block(uint64_t pos, uint64_t need)
{
	return pos % EROFS_BLOCK != 0 &&
	       pos % EROFS_BLOCK + need <= EROFS_BLOCK;
}

static bool place_in_gap(struct placer *p, struct inode *i, uint64_t need)
{
	for (size_t k = 0; k < p->n_gaps; k++) {
		struct gap *g = &p->gaps[k];

		if (!fits_in_started_block(g->pos, need))
			continue;
		i->user = g->pos / EROFS_SLOT;
		i->user_ptr = g->last->user_ptr;
		g->last->user_ptr = i;
		if (p->last == g->last)
			p->last = i;
		g->last = i;
		g->pos = round_up(g->pos + need, EROFS_SLOT);
		if (g->pos % EROFS_BLOCK == 0)
			memmove(g, g + 1,
				(--p->n_gaps - k) * sizeof(p->gaps[0]));
		return true;
	}
	return false;
}

static int add_run(struct placer *p, struct inode *i, uint64_t n_blocks)
{
	struct layout *l = p->l;

	if (array_grow(&l->runs, l->n_runs, &l->cap_runs, 64) < 0)
		return -ENOMEM;
	next_block(p);
	l->runs[l->n_runs++] = (struct block_run){ i, p->pos };
	p->pos += n_blocks * EROFS_BLOCK;
	return 0;
}

static int place_inode(struct placer *p, struct inode *i)
{
	struct layout *l = p->l;
	struct inode_plan plan;
	int rc = layout_plan(l, i, &plan, p->err);

	if (rc < 0)
		return rc;
	l->n_holes += plan.n_holes;
	if (l->n_holes > LAYOUT_HOLES_MAX)
		return layout_wrap(l, i,
				   error_set(p->err, EFBIG,
					     "too many holes in the image"),
				   p->err);
	if (!place_in_gap(p, i, plan.need)) {
		/* A tail lies in one block with its inode. */
		if (plan.tail && p->pos % EROFS_BLOCK + plan.need > EROFS_BLOCK)
			next_block(p);
		i->user = p->pos / EROFS_SLOT;
		i->user_ptr = NULL;
		if (p->last)
			p->last->user_ptr = i;
		else
			l->first = i;
		p->last = i;
		p->pos = round_up(p->pos + plan.need, EROFS_SLOT);
	}
	/* A folder's blocks are placed together with its children. */
	if (plan.n_blocks && !S_ISDIR(i->mode))
		return add_run(p, i, plan.n_blocks);
	return 0;
}

static int place_dir_blocks(struct placer *p, struct inode *dir)
{
	struct inode_plan plan;
	int rc = layout_plan(p->l, dir, &plan, p->err);

	return rc < 0 || plan.n_blocks == 0 ? rc
					    : add_run(p, dir, plan.n_blocks);
}

static int place_layout(struct placer *p, struct inode *dir, struct inode *i)
{
	if (!i)
		return place_dir_blocks(p, dir);
	if (i->user != STATE_SEEN)
		return 0;
	i->user = STATE_PLACED;
	return place_inode(p, i);
}

static int compare_nids(const void *a, const void *b)
{
	uint64_t x = ((const struct block_run *)a)->inode->user;
	uint64_t y = ((const struct block_run *)b)->inode->user;

	return x < y ? -1 : x > y;
}

static int index_runs(struct layout *l, struct error *err)
{
	size_t size = l->n_runs * sizeof(*l->runs);

	if (!l->n_runs)
		return 0;
	l->runs_by_nid = malloc(size);
	if (!l->runs_by_nid)
		return error_nomem(err);
	memcpy(l->runs_by_nid, l->runs, size);
	qsort(l->runs_by_nid, l->n_runs, sizeof(*l->runs), compare_nids);
	return 0;
}

uint64_t layout_run_pos(const struct layout *l, const struct inode *i)
{
	struct block_run key = { .inode = (struct inode *)(uintptr_t)i };
	const struct block_run *r =
		l->n_runs ? bsearch(&key, l->runs_by_nid, l->n_runs,
				    sizeof(key), compare_nids)
			  : NULL;

	return r ? r->pos : 0;
}

/* Give all inodes an order, xattrs, nids and runs of blocks. */
static int layout_place(struct layout *l, struct error *err)
{
	struct placer p = { .l = l, .err = err };
	struct inode *root = tree_root(l->tree);
	int rc;

	p.pos = round_up(layout_head_size(l), EROFS_SLOT);
	rc = layout_walk(&p, layout_clear);
	if (rc == 0)
		rc = see_inode(&p, root);
	if (rc == 0)
		rc = layout_walk(&p, layout_see);
	if (rc == 0)
		rc = xattr_table_finish(&l->xattrs, err);
	/* The root is placed first, since the superblock has only 16 bits for its nid. */
	if (rc == 0)
		rc = place_inode(&p, root);
	if (rc == 0)
		rc = layout_walk(&p, place_layout);
	l->end = p.pos;
	return rc < 0 ? rc : index_runs(l, err);
}

int layout_new(struct tree *t, const struct erofs_params *params,
	       struct layout **ret, struct error *err)
{
	AUTO(layout) l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return error_nomem(err);
	l->tree = t;
	l->params = params;
	rc = map_devices(l, err);
	if (rc == 0)
		rc = layout_place(l, err);
	if (rc < 0)
		return rc;
	if (layout_size(l) / EROFS_BLOCK > MAPPED_FIRST ||
	    (params->size_max && layout_size(l) > params->size_max))
		return error_set(err, EFBIG, "metadata of %llu bytes",
				 (unsigned long long)layout_size(l));
	*ret = steal_ptr(&l);
	return 0;
}

uint64_t layout_shared_pos(const struct layout *l)
{
	return round_up(l->end, EROFS_BLOCK);
}

uint64_t layout_size(const struct layout *l)
{
	return layout_shared_pos(l) +
	       round_up(l->xattrs.shared_size, EROFS_BLOCK);
}
