// SPDX-License-Identifier: Apache-2.0
/* How inodes are stored.  Where is place.c's. */
#include "image/erofs/layout.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/erofs/chunks.h"
#include "image/erofs/dirent.h"
#include "image/erofs/format.h"

/* Where the address space of FLAT_PLAIN files in devices begins: constant, so
 * that such a file's inode is the same in the next version of the image.  Only
 * for files of one block: the kernel (Linux 6.18, fs/erofs/fileio.c) reads
 * larger ones page by page when their device is told by the address alone, a
 * request each, and chunks of a named device in one. */
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

int layout_wrap(const struct layout *l, const struct inode *i, int rc,
		struct error *err)
{
	AUTO_FREE char *path = err ? layout_path(l->tree, i) : NULL;

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

uint64_t layout_head_size(const struct layout *l)
{
	return EROFS_SB_POS + EROFS_SB_SIZE +
	       l->params->n_devices * (uint64_t)EROFS_DEVT_SIZE;
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
