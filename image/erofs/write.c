// SPDX-License-Identifier: Apache-2.0
/* Writes what layout.c has placed, from the first byte to the last. */
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/erofs/chunks.h"
#include "image/erofs/dirent.h"
#include "image/erofs/format.h"
#include "image/erofs/layout.h"

#define OUT_SIZE (128u << 10) /* a multiple of EROFS_BLOCK */

struct out {
	erofs_sink_fn *sink;
	void *arg;
	struct error *err;
	uint64_t pos; /* byte of the image behind the contents of `buf` */
	size_t len;
	uint8_t buf[OUT_SIZE];
};

struct image_writer {
	struct layout *l;
	struct out *out;
	size_t next_run; /* of layout.runs */
};

/* The checksum covers the first block, which is then whole in the buffer. */
static void put_checksum(struct out *o)
{
	uint8_t *sb = o->buf + EROFS_SB_POS;

	put_le32(sb + SB_CHECKSUM,
		 erofs_crc32c(sb, EROFS_BLOCK - EROFS_SB_POS));
}

static int out_flush(struct out *o)
{
	size_t len = o->len;

	if (len == 0)
		return 0;
	if (o->pos == len)
		put_checksum(o);
	o->len = 0;
	return o->sink(o->arg, o->buf, len, o->err);
}

static int out_put(void *arg, const void *data, size_t len)
{
	struct out *o = arg;
	const uint8_t *p = data;

	while (len) {
		size_t n = OUT_SIZE - o->len;

		if (n > len)
			n = len;
		if (p) {
			memcpy(o->buf + o->len, p, n);
			p += n;
		} else {
			memset(o->buf + o->len, 0, n);
		}
		o->len += n;
		o->pos += n;
		len -= n;
		if (o->len == OUT_SIZE) {
			int rc = out_flush(o);

			if (rc)
				return rc;
		}
	}
	return 0;
}

static int out_pad_to(struct out *o, uint64_t pos)
{
	return out_put(o, NULL, pos - o->pos);
}

static int put_super(struct image_writer *w)
{
	struct layout *l = w->l;
	const struct erofs_params *params = l->params;
	uint8_t sb[EROFS_SB_SIZE] = { 0 };
	int rc = out_pad_to(w->out, EROFS_SB_POS);

	put_le32(sb + SB_MAGIC, EROFS_MAGIC);
	put_le32(sb + SB_FEATURE_COMPAT,
		 EROFS_COMPAT_SB_CHKSUM | EROFS_COMPAT_MTIME);
	sb[SB_BLKSZBITS] = EROFS_BLKSZBITS;
	put_le16(sb + SB_ROOT_NID, (uint16_t)tree_root(l->tree)->user);
	put_le64(sb + SB_INOS, l->n_inodes);
	put_le64(sb + SB_BUILD_TIME, (uint64_t)params->build_time);
	put_le32(sb + SB_BLOCKS, (uint32_t)(layout_size(l) / EROFS_BLOCK));
	put_le32(sb + SB_XATTR_BLKADDR,
		 (uint32_t)(layout_shared_pos(l) / EROFS_BLOCK));
	memcpy(sb + SB_UUID, params->uuid, sizeof(params->uuid));
	put_le32(sb + SB_FEATURE_INCOMPAT,
		 EROFS_INCOMPAT_CHUNKED_FILE | EROFS_INCOMPAT_DEVICE_TABLE);
	put_le16(sb + SB_EXTRA_DEVICES, (uint16_t)params->n_devices);
	put_le16(sb + SB_DEVT_SLOTOFF,
		 (EROFS_SB_POS + EROFS_SB_SIZE) / EROFS_DEVT_SIZE);
	return rc ? rc : out_put(w->out, sb, sizeof(sb));
}

static int put_devices(struct image_writer *w)
{
	const struct erofs_params *params = w->l->params;
	int rc = 0;

	for (size_t k = 0; k < params->n_devices && rc == 0; k++) {
		const struct erofs_device *d = &params->devices[k];
		uint8_t slot[EROFS_DEVT_SIZE] = { 0 };

		memcpy(slot + DEVT_TAG, d->tag, sizeof(d->tag));
		put_le32(slot + DEVT_BLOCKS, (uint32_t)(d->size / EROFS_BLOCK));
		put_le32(slot + DEVT_MAPPED_BLKADDR, w->l->mapped[k]);
		rc = out_put(w->out, slot, sizeof(slot));
	}
	return rc;
}

static uint32_t encode_device(uint32_t major, uint32_t minor)
{
	return (minor & 0xff) | major << 8 | (minor & ~UINT32_C(0xff)) << 12;
}

static uint32_t get_inode_union(struct image_writer *w, const struct inode *i,
				const struct inode_plan *p)
{
	if (S_ISCHR(i->mode) || S_ISBLK(i->mode))
		return encode_device(i->major, i->minor);
	if (p->layout == EROFS_LAYOUT_CHUNK_BASED)
		return (uint32_t)(p->chunkbits - EROFS_BLKSZBITS) |
		       EROFS_CHUNK_INDEXES;
	if (p->n_blocks)
		return (uint32_t)(layout_run_pos(w->l, i) / EROFS_BLOCK);
	return p->blkaddr;
}

/* Write the last, partial block of the content of a folder, symlink or inline file. */
static int put_tail(struct image_writer *w, const struct inode *i,
		    const struct inode_plan *p)
{
	uint64_t from = p->n_blocks * EROFS_BLOCK;
	struct dirent_iter it;
	uint8_t block[EROFS_BLOCK];

	if (p->tail == 0)
		return 0;
	if (S_ISLNK(i->mode))
		return out_put(w->out, i->target + from, p->tail);
	if (!S_ISDIR(i->mode))
		return out_put(w->out, i->bytes + from, p->tail);
	dirent_iter_init(&it, i);
	for (uint64_t k = 0; k < p->n_blocks; k++)
		(void)dirent_block(&it, NULL);
	(void)dirent_block(&it, block);
	return out_put(w->out, block, p->tail);
}

static int put_chunks(struct image_writer *w, const struct inode *i,
		      const struct inode_plan *p)
{
	struct chunk_iter it;
	int rc = out_pad_to(w->out,
			    round_up(w->out->pos, EROFS_CHUNK_INDEX_SIZE));

	chunk_iter_init(&it, i, p->chunkbits);
	for (uint64_t k = 0; k < p->n_chunks && rc == 0; k++) {
		uint8_t index[EROFS_CHUNK_INDEX_SIZE] = { 0 };
		uint64_t voff;

		if (chunk_iter_next(&it, &voff)) {
			put_le16(index + CHUNK_DEVICE,
				 (uint16_t)(EROFS_VOFF_DEVICE(voff) + 1));
			put_le32(index + CHUNK_BLKADDR,
				 (uint32_t)(EROFS_VOFF_BYTE(voff) /
					    EROFS_BLOCK));
		} else {
			put_le32(index + CHUNK_BLKADDR, EROFS_NULL_ADDR);
		}
		rc = out_put(w->out, index, sizeof(index));
	}
	return rc;
}

static int put_inode(struct image_writer *w, const struct inode *i,
		     uint32_t ino)
{
	uint8_t b[EROFS_EXTENDED_SIZE] = { 0 };
	struct inode_plan p;
	int rc = layout_plan(w->l, i, &p, w->out->err);

	if (rc == 0)
		rc = out_pad_to(w->out, i->user * EROFS_SLOT);
	if (rc)
		return rc;
	put_le16(b + INO_FORMAT,
		 (uint16_t)(EROFS_FORMAT_EXTENDED |
			    p.layout << EROFS_FORMAT_LAYOUT_SHIFT));
	if (p.xattr_size)
		put_le16(b + INO_XATTR_ICOUNT,
			 (uint16_t)((p.xattr_size - EROFS_XATTR_HEADER) / 4 +
				    1));
	put_le16(b + INO_MODE, i->mode);
	put_le64(b + INO_SIZE, p.size);
	put_le32(b + INO_U, get_inode_union(w, i, &p));
	put_le32(b + INO_INO, ino);
	put_le32(b + INO_UID, i->uid);
	put_le32(b + INO_GID, i->gid);
	put_le64(b + INO_MTIME, (uint64_t)i->mtime);
	put_le32(b + INO_MTIME_NSEC, i->mtime_nsec);
	put_le32(b + INO_NLINK, i->nlink);
	rc = out_put(w->out, b, sizeof(b));
	if (rc == 0)
		rc = xattr_table_put(&w->l->xattrs, i, out_put, w->out,
				     w->out->err);
	if (rc == 0 && p.layout == EROFS_LAYOUT_CHUNK_BASED)
		return put_chunks(w, i, &p);
	return rc ? rc : put_tail(w, i, &p);
}

static int put_run(struct image_writer *w, const struct block_run *run)
{
	const struct inode *i = run->inode;
	struct inode_plan p;
	struct dirent_iter it;
	int rc = layout_plan(w->l, i, &p, w->out->err);

	if (rc == 0)
		rc = out_pad_to(w->out, run->pos);
	if (rc == 0 && !S_ISDIR(i->mode))
		return out_put(w->out,
			       S_ISLNK(i->mode) ? (const void *)i->target
						: i->bytes,
			       p.size - p.tail);
	dirent_iter_init(&it, i);
	for (uint64_t k = 0; k < p.n_blocks && rc == 0; k++) {
		uint8_t block[EROFS_BLOCK];

		(void)dirent_block(&it, block);
		rc = out_put(w->out, block, sizeof(block));
	}
	return rc;
}

/* Write the runs of blocks that lie before byte `pos`. */
static int put_runs(struct image_writer *w, uint64_t pos)
{
	struct layout *l = w->l;
	int rc = 0;

	while (rc == 0 && w->next_run < l->n_runs &&
	       l->runs[w->next_run].pos < pos)
		rc = put_run(w, &l->runs[w->next_run++]);
	return rc;
}

static int write_all(struct image_writer *w)
{
	struct layout *l = w->l;
	uint32_t ino = 1;
	int rc = put_super(w);

	if (rc == 0)
		rc = put_devices(w);
	for (struct inode *i = l->first; i && rc == 0; i = i->user_ptr) {
		rc = put_runs(w, i->user * EROFS_SLOT);
		if (rc == 0)
			rc = put_inode(w, i, ino++);
	}
	if (rc == 0)
		rc = put_runs(w, UINT64_MAX);
	if (rc == 0)
		rc = out_pad_to(w->out, layout_shared_pos(l));
	if (rc == 0)
		rc = xattr_table_put_shared(&l->xattrs, out_put, w->out);
	if (rc == 0)
		rc = out_pad_to(w->out, layout_size(l));
	return rc ? rc : out_flush(w->out);
}

int erofs_write_to(struct tree *t, const struct erofs_params *params,
		   erofs_sink_fn *sink, void *arg, uint64_t *ret_len,
		   struct error *err)
{
	AUTO(layout) l = NULL;
	AUTO_FREE struct out *o = NULL;
	struct image_writer w;
	int rc = layout_new(t, params, &l, err);

	if (rc < 0)
		return rc;
	o = malloc(sizeof(*o));
	if (!o)
		return error_nomem(err);
	o->sink = sink;
	o->arg = arg;
	o->err = err;
	o->pos = 0;
	o->len = 0;
	w = (struct image_writer){ .l = l, .out = o };
	*ret_len = layout_size(l);
	return write_all(&w);
}

struct memory_sink {
	uint8_t *data;
	uint64_t len; /* bytes of the whole image */
	size_t pos;
};

static int memory_sink(void *arg, const void *data, size_t len,
		       struct error *err)
{
	struct memory_sink *m = arg;

	if (!m->data) {
		m->data = malloc(m->len);
		if (!m->data)
			return error_nomem(err);
	}
	memcpy(m->data + m->pos, data, len);
	m->pos += len;
	return 0;
}

int erofs_write(struct tree *t, const struct erofs_params *params, void **ret,
		size_t *ret_len, struct error *err)
{
	struct memory_sink m = { .data = NULL };
	int rc = erofs_write_to(t, params, memory_sink, &m, &m.len, err);

	if (rc < 0) {
		free(m.data);
		return rc;
	}
	*ret = m.data;
	*ret_len = m.pos;
	return 0;
}
