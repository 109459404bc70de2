// SPDX-License-Identifier: Apache-2.0
/*
 * Order and places.  The children of a folder lie together behind it, and the
 * branches below follow one after the other, so that listing a folder reads
 * neighbouring blocks, and so does a walk of a branch.
 */
#include "snapshotter/erofs/layout.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "snapshotter/erofs/chunks.h"
#include "snapshotter/erofs/dirent.h"
#include "snapshotter/erofs/format.h"

/* Where the address space of FLAT_PLAIN files in devices begins: constant, so
 * that such a file's inode is the same in the next version of the image. */
#define MAPPED_FIRST (UINT32_C(1) << 24) /* blocks: 64 GiB */

/* Chunks of holes in one image: 32 MiB of index.  Chunks of data are bounded
 * by the data, holes only by this. */
#define HOLES_MAX (UINT64_C(4) << 20)

#define WAITING_MAX 16
#define WAITING_BYTES 8192

void layout_free(struct layout *l)
{
	if (!l)
		return;
	xattr_table_fini(&l->xattrs);
	free(l);
}

/* A growing stack of folders: depth is bounded by memory only. */
struct dir_stack {
	struct inode **list;
	size_t n, cap;
};

static int stack_push(struct dir_stack *s, struct inode *dir)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct inode **p = realloc(s->list, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		s->list = p;
		s->cap = cap;
	}
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

static void append(struct layout *l, struct inode *i)
{
	i->user_ptr = NULL;
	if (l->last)
		l->last->user_ptr = i;
	else
		l->first = i;
	l->last = i;
}

/* Call with list: link every inode once, in order; without: only clear. */
static int walk(struct layout *l, bool list)
{
	struct dir_stack s = { .list = NULL };
	int rc = stack_push(&s, tree_root(l->tree));

	while (rc == 0 && s.n > 0) {
		struct inode *dir = s.list[--s.n];
		size_t from = s.n;

		rc = list ? tree_sort(dir) : 0;
		for (struct dentry *d = dir->children; d && rc == 0;
		     d = d->next) {
			struct inode *i = d->inode;

			if (S_ISDIR(i->mode))
				rc = stack_push(&s, i);
			if (!list) {
				i->user = 0;
			} else if (i->user++ == 0) {
				append(l, i);
				l->n_inodes++;
			}
		}
		stack_reverse(&s, from);
	}
	free(s.list);
	return rc;
}

static int order(struct layout *l, struct error *err)
{
	append(l, tree_root(l->tree));
	l->n_inodes = 1;
	if (walk(l, false) < 0 || walk(l, true) < 0)
		return error_nomem(err);
	return 0;
}

/* A path of the inode, for messages. */
static char *find_path(struct tree *t, const struct inode *wanted)
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

static int wrap_path(const struct layout *l, const struct inode *i, int rc,
		     struct error *err)
{
	AUTO_FREE char *path = err ? find_path(l->tree, i) : NULL;

	return error_wrap(err, rc, "'%.300s'", path ? path : "/");
}

/* Content in the image itself: whole blocks apart, the rest with the inode
 * where inode, xattrs and rest fit into one block. */
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
		p->blkaddr = base + (uint32_t)(EROFS_VOFF_BYTE(voff) /
					       EROFS_BLOCK);
		if (base)
			return 0;
	}
	if (c.n_holes > HOLES_MAX)
		return error_set(err, EFBIG,
				 "holes of %llu chunks; one image holds %llu",
				 (unsigned long long)c.n_holes,
				 (unsigned long long)HOLES_MAX);
	p->layout = EROFS_LAYOUT_CHUNK_BASED;
	p->chunkbits = c.chunkbits;
	p->n_chunks = c.n_chunks;
	p->n_holes = c.n_holes;
	return 0;
}

/* layout_plan() without the path in the message. */
static int plan(struct layout *l, const struct inode *i, struct inode_plan *p,
		struct error *err)
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
	int rc = plan(l, i, ret, err);

	return rc < 0 ? wrap_path(l, i, rc, err) : 0;
}

/* An inode that waits for a place where its tail lies in one block. */
struct waiting {
	struct inode *inode;
	uint64_t need;
	uint64_t since; /* position when it began */
};

struct placer {
	struct layout *l;
	struct inode *next; /* not yet looked at */
	uint64_t pos;
	struct waiting waiting[WAITING_MAX];
	size_t n_waiting;
};

static void place(struct placer *p, struct inode *i, uint64_t need)
{
	append(p->l, i);
	i->user = p->pos / EROFS_SLOT;
	p->pos = round_up(p->pos + need, EROFS_SLOT);
}

static bool fits(const struct placer *p, uint64_t need)
{
	return p->pos % EROFS_BLOCK + need <= EROFS_BLOCK;
}

/* Place the first waiting inode that fits. */
static bool place_waiting(struct placer *p)
{
	for (size_t k = 0; k < p->n_waiting; k++) {
		struct waiting *w = &p->waiting[k];

		if (!fits(p, w->need))
			continue;
		place(p, w->inode, w->need);
		p->n_waiting--;
		memmove(w, w + 1, (p->n_waiting - k) * sizeof(*w));
		return true;
	}
	return false;
}

static int place_next(struct placer *p, struct error *err)
{
	struct layout *l = p->l;
	struct inode *i = p->next;
	struct inode_plan plan_of;
	int rc = plan(l, i, &plan_of, err);

	if (rc < 0)
		return wrap_path(l, i, rc, err);
	p->next = i->user_ptr;
	l->n_holes += plan_of.n_holes;
	l->n_blocks += plan_of.n_blocks;
	if (l->n_holes > HOLES_MAX)
		return wrap_path(l, i,
				 error_set(err, EFBIG,
					   "too many holes in the image"),
				 err);
	if (plan_of.tail == 0 || fits(p, plan_of.need)) {
		place(p, i, plan_of.need);
	} else if (!l->first) {
		/* The root's nid has 16 bits: it does not wait. */
		p->pos = round_up(p->pos, EROFS_BLOCK);
		place(p, i, plan_of.need);
	} else {
		p->waiting[p->n_waiting++] = (struct waiting){
			.inode = i,
			.need = plan_of.need,
			.since = p->pos,
		};
	}
	return 0;
}

static int place_all(struct layout *l, struct error *err)
{
	struct placer p = { .l = l, .next = l->first };
	int rc;

	p.pos = round_up(layout_head_size(l), EROFS_SLOT);
	l->first = NULL;
	l->last = NULL;
	while (p.next || p.n_waiting) {
		bool overdue = p.n_waiting &&
			       (!p.next || p.n_waiting == WAITING_MAX ||
				p.pos - p.waiting[0].since > WAITING_BYTES);

		if (place_waiting(&p))
			continue;
		if (overdue) {
			p.pos = round_up(p.pos, EROFS_BLOCK);
			continue;
		}
		rc = place_next(&p, err);
		if (rc < 0)
			return rc;
	}
	l->end = p.pos;
	return 0;
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

static int collect_xattrs(struct layout *l, struct error *err)
{
	int rc;

	for (struct inode *i = l->first; i; i = i->user_ptr) {
		rc = xattr_table_add(&l->xattrs, i, err);
		if (rc < 0)
			return wrap_path(l, i, rc, err);
	}
	return xattr_table_finish(&l->xattrs, err);
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
		rc = order(l, err);
	if (rc == 0)
		rc = collect_xattrs(l, err);
	if (rc == 0)
		rc = place_all(l, err);
	if (rc < 0)
		return rc;
	if (layout_size(l) / EROFS_BLOCK > MAPPED_FIRST)
		return error_set(err, EFBIG, "metadata of %llu bytes",
				 (unsigned long long)layout_size(l));
	*ret = steal_ptr(&l);
	return 0;
}

uint64_t layout_head_size(const struct layout *l)
{
	return EROFS_SB_POS + EROFS_SB_SIZE +
	       l->params->n_devices * (uint64_t)EROFS_DEVT_SIZE;
}

uint64_t layout_blocks_pos(const struct layout *l)
{
	return round_up(l->end, EROFS_BLOCK);
}

uint64_t layout_shared_pos(const struct layout *l)
{
	return layout_blocks_pos(l) + l->n_blocks * EROFS_BLOCK;
}

uint64_t layout_size(const struct layout *l)
{
	return layout_shared_pos(l) +
	       round_up(l->xattrs.shared_size, EROFS_BLOCK);
}
