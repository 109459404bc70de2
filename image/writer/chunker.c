// SPDX-License-Identifier: Apache-2.0
/*
 * Small files are gathered into groups. A group ends behind a file whose content decides so:
 * then a changed file moves no cut but its own. A larger file is cut at page boundaries, behind
 * a page whose content decides so. A file lies contiguous in the device except for its holes.
 */
#include "image/writer/chunker.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/digest.h"

#define PAGE 4096u
#define GRAINS_MAX (UINT64_C(1) << 18) /* grains in a file, at most */
#define FILL_MAX (UINT64_C(64) << 30)  /* bytes of holes stored as zeros */
#define SHARED_MAX (1u << 20) /* small files that are kept to find equal ones */

const struct chunk_params chunk_params = {
	.name = "c1",
	.inline_max = 512,
	.small_max = 131072,
	.group_avg = 131072,
	.group_max = 524288,
	.min = 196608,
	.avg = 786432,
	.max = 3145728,
	.level = 5,
	.pack_max = 128 * MIB,
};

size_t chunk_buffer_size(const struct chunk_params *p)
{
	size_t large = (size_t)p->max + p->min;

	return large > p->group_max ? large : p->group_max;
}

/* A small file, whose place is set when its group is written. */
struct group_member {
	struct inode *inode;
	uint64_t at; /* byte in the group */
};

/* A small file with the same content as an earlier one, `same`. */
struct alias {
	struct inode *inode, *same;
};

struct shared_file {
	struct digest digest;
	struct inode *inode;
};

struct file_run {     /* the part of a larger file between two holes */
	uint64_t off; /* byte in the file of its start */
	uint64_t voff;
	uint64_t len; /* bytes so far */
};

struct chunker {
	const struct chunk_params *p;
	struct tree *tree;
	struct spill *spill; /* or NULL */
	struct chunk_sink *sink;
	uint64_t cut;    /* a page with a hash below this ends a block */
	uint64_t voff;   /* next free byte of the device */
	uint64_t filled; /* bytes of holes that became zeros */

	struct inode *file; /* the file whose bytes are being added */
	uint64_t grain;     /* its holes begin and end at multiples of it */
	uint64_t pos;       /* bytes of the file that are done */
	uint8_t *small;     /* the file's bytes, when it is small or inline */

	uint8_t *block; /* the open block of the larger file */
	uint32_t n_block;
	bool in_run;
	struct file_run run;
	struct extent *extents;
	size_t n_extents, cap_extents;

	uint8_t *group;
	uint32_t n_group;
	struct group_member *members;
	size_t n_members, cap_members;

	struct alias *aliases;
	size_t n_aliases, cap_aliases;
	struct shared_file *shared; /* open addressing */
	size_t n_shared, cap_shared;
};

int chunker_new(const struct chunk_params *params, struct tree *t,
		struct spill *spill, struct chunk_sink *sink,
		struct chunker **ret, struct error *err)
{
	AUTO(chunker) c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err);
	c->p = params;
	c->tree = t;
	c->spill = spill;
	c->sink = sink;
	/* A cut after a page beyond the minimum has probability
	 * PAGE / (avg - min). */
	c->cut = UINT64_MAX / ((params->avg - params->min) / PAGE);
	c->small = malloc(params->small_max);
	c->block = malloc(chunk_buffer_size(params));
	c->group = malloc(chunk_buffer_size(params));
	if (!c->small || !c->block || !c->group)
		return error_nomem(err);
	*ret = steal_ptr(&c);
	return 0;
}

void chunker_free(struct chunker *c)
{
	if (!c)
		return;
	free(c->small);
	free(c->block);
	free(c->group);
	free(c->extents);
	free(c->members);
	free(c->aliases);
	free(c->shared);
	free(c);
}

static uint64_t chunker_mul(uint64_t v, unsigned int shift)
{
	v *= UINT64_C(0x9fb21c651e98df25);
	return v ^ v >> shift;
}

/* docs/formats/chunking.md, "Page hash": it decides cuts, so it is part of the
 * format and must not change. */
static uint64_t page_hash(const uint8_t *p)
{
	uint64_t a = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t b = UINT64_C(0xc2b2ae3d27d4eb4f);
	uint64_t c = UINT64_C(0x165667b19e3779f9);
	uint64_t d = UINT64_C(0x27d4eb2f165667c5);

	for (size_t i = 0; i < PAGE; i += 32) {
		a = chunker_mul(a ^ get_le64(p + i), 29);
		b = chunker_mul(b ^ get_le64(p + i + 8), 31);
		c = chunker_mul(c ^ get_le64(p + i + 16), 33);
		d = chunker_mul(d ^ get_le64(p + i + 24), 30);
	}
	a ^= (b << 13 | b >> 51) ^ (c << 27 | c >> 37) ^ (d << 41 | d >> 23);
	a ^= a >> 32;
	a *= UINT64_C(0xd6e8feb86659fd93);
	return a ^ a >> 32;
}

/* ------------------------------------------------------------- small files --- */

static int set_extent(struct chunker *c, struct inode *i, uint64_t voff,
		      struct error *err)
{
	struct extent *x = tree_alloc(c->tree, sizeof(*x));

	if (!x)
		return error_nomem(err);
	*x = (struct extent){ .off = 0, .len = i->size, .voff = voff };
	i->data = INODE_DATA_EXTENTS;
	i->extents = x;
	i->n_extents = 1;
	return 0;
}

static int flush_group(struct chunker *c, struct error *err)
{
	uint64_t voff = c->voff;
	uint32_t len = c->n_group;
	int rc = 0;

	if (len == 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < c->n_members; i++)
		rc = set_extent(c, c->members[i].inode, voff + c->members[i].at,
				err);
	if (rc < 0)
		return rc;
	c->voff += len;
	c->n_group = 0;
	c->n_members = 0;
	return c->sink->put(c->sink, voff, &c->group, len, err);
}

static size_t shared_slot(const struct shared_file *set, size_t cap,
			  const struct digest *d)
{
	size_t at = (size_t)get_le64(d->b) & (cap - 1);

	while (set[at].inode && !digest_equal(&set[at].digest, d))
		at = (at + 1) & (cap - 1);
	return at;
}

/* Find the first file with this content; NULL when `i` is the first. */
static int chunker_share(struct chunker *c, const struct digest *d,
			 struct inode *i, struct inode **ret, struct error *err)
{
	size_t at;

	*ret = NULL;
	if (c->n_shared * 2 >= c->cap_shared && c->n_shared < SHARED_MAX) {
		size_t cap = c->cap_shared ? c->cap_shared * 2 : 1024;
		struct shared_file *set = calloc(cap, sizeof(*set));

		if (!set)
			return error_nomem(err);
		for (size_t k = 0; k < c->cap_shared; k++)
			if (c->shared[k].inode)
				set[shared_slot(set, cap,
						&c->shared[k].digest)] =
					c->shared[k];
		free(c->shared);
		c->shared = set;
		c->cap_shared = cap;
	}
	at = shared_slot(c->shared, c->cap_shared, d);
	if (c->shared[at].inode) {
		*ret = c->shared[at].inode;
	} else if (c->n_shared < SHARED_MAX) {
		c->shared[at] =
			(struct shared_file){ .digest = *d, .inode = i };
		c->n_shared++;
	}
	return 0;
}

static int end_small(struct chunker *c, struct error *err)
{
	struct inode *i = c->file, *same;
	uint32_t len = (uint32_t)i->size;
	uint32_t padded = (uint32_t)round_up(len, PAGE);
	struct digest d;
	int rc = digest_of(c->small, len, &d);

	if (rc < 0)
		return error_errno(err, -rc, "hash");
	rc = chunker_share(c, &d, i, &same, err);
	if (rc < 0)
		return rc;
	if (same) {
		if (array_grow(&c->aliases, c->n_aliases, &c->cap_aliases, 64) <
		    0)
			return error_nomem(err);
		c->aliases[c->n_aliases++] =
			(struct alias){ .inode = i, .same = same };
		return 0;
	}
	if (c->n_group + padded > c->p->group_max) {
		rc = flush_group(c, err);
		if (rc < 0)
			return rc;
	}
	if (array_grow(&c->members, c->n_members, &c->cap_members, 64) < 0)
		return error_nomem(err);
	c->members[c->n_members++] =
		(struct group_member){ .inode = i, .at = c->n_group };
	memcpy(c->group + c->n_group, c->small, len);
	memset(c->group + c->n_group + len, 0, padded - len);
	c->n_group += padded;
	/* The probability of a cut is padded / group_avg: large files end a group sooner, so
	 * groups get similar sizes whatever files they hold. */
	if (get_le64(d.b) / padded < UINT64_MAX / c->p->group_avg)
		return flush_group(c, err);
	return 0;
}

static int end_inline(struct chunker *c, struct error *err)
{
	size_t len = (size_t)c->file->size;
	uint8_t *copy;

	c->file->data = INODE_DATA_INLINE;
	if (c->spill)
		return spill_put(c->spill, c->small, len, &c->file->bytes, err);
	copy = tree_alloc(c->tree, len);
	if (!copy)
		return error_nomem(err);
	memcpy(copy, c->small, len);
	c->file->bytes = copy;
	return 0;
}

/* ------------------------------------------------------------ larger files --- */

static int put_block(struct chunker *c, struct error *err)
{
	uint64_t voff = c->voff;
	uint32_t len = c->n_block;

	c->voff += round_up(len, PAGE);
	c->n_block = 0;
	return c->sink->put(c->sink, voff, &c->block, len, err);
}

static int end_run(struct chunker *c, struct error *err)
{
	int rc;

	if (!c->in_run)
		return 0;
	c->in_run = false;
	if (c->n_block) {
		rc = put_block(c, err);
		if (rc < 0)
			return rc;
	}
	if (array_grow(&c->extents, c->n_extents, &c->cap_extents, 64) < 0)
		return error_nomem(err);
	c->extents[c->n_extents++] = (struct extent){ .off = c->run.off,
						      .len = c->run.len,
						      .voff = c->run.voff };
	return 0;
}

static bool is_cut(const struct chunker *c)
{
	uint64_t rest = c->file->size - c->pos;

	/* Do not leave a tiny last block. */
	if (c->n_block < c->p->min || (rest && rest < c->p->min))
		return false;
	return c->n_block >= c->p->max ||
	       page_hash(c->block + c->n_block - PAGE) < c->cut;
}

/* Append bytes to the current run; `data` NULL: zeros. */
static int feed_run(struct chunker *c, const uint8_t *data, size_t len,
		    struct error *err)
{
	size_t cap = chunk_buffer_size(c->p);

	c->filled += data ? 0 : len;
	if (c->filled > FILL_MAX)
		return error_set(err, EFBIG,
				 "its holes are many and far apart: over %llu "
				 "GiB of them would be stored as zeros",
				 (unsigned long long)FILL_MAX >> 30);
	while (len) {
		size_t n = PAGE - c->n_block % PAGE;
		int rc;

		if (n > len)
			n = len;
		if (data)
			memcpy(c->block + c->n_block, data, n);
		else
			memset(c->block + c->n_block, 0, n);
		data = data ? data + n : NULL;
		len -= n;
		c->n_block += (uint32_t)n;
		c->pos += n;
		c->run.len += n;
		if (c->n_block % PAGE ||
		    (!is_cut(c) && c->n_block + PAGE <= cap))
			continue;
		rc = put_block(c, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Skip a hole of [pos, off): only whole grains of it stay a hole. */
static int skip_hole(struct chunker *c, uint64_t off, struct error *err)
{
	uint64_t begin = off / c->grain * c->grain;
	uint64_t end = round_up(c->pos, c->grain);
	int rc;

	if (begin <= end && c->in_run)
		return feed_run(c, NULL, (size_t)(off - c->pos), err);
	if (c->in_run) {
		rc = feed_run(c, NULL, (size_t)(end - c->pos), err);
		if (rc == 0)
			rc = end_run(c, err);
		if (rc < 0)
			return rc;
	}
	c->pos = begin;
	return 0;
}

static int feed_large(struct chunker *c, uint64_t off, const uint8_t *data,
		      size_t len, struct error *err)
{
	int rc = 0;

	if (off > c->pos)
		rc = skip_hole(c, off, err);
	if (rc < 0)
		return rc;
	if (!c->in_run) {
		c->in_run = true;
		c->run = (struct file_run){ .off = c->pos, .voff = c->voff };
	}
	rc = feed_run(c, NULL, (size_t)(off - c->pos), err);
	return rc < 0 ? rc : feed_run(c, data, len, err);
}

static int end_large(struct chunker *c, struct error *err)
{
	struct inode *i = c->file;
	uint64_t rest = i->size - c->pos;
	int rc;

	/* The file ends with a hole: fill the grain that the data began with zeros. */
	if (c->in_run && rest) {
		uint64_t fill = round_up(c->pos, c->grain) - c->pos;

		rc = feed_run(c, NULL, (size_t)(fill < rest ? fill : rest),
			      err);
		if (rc < 0)
			return rc;
	}
	rc = end_run(c, err);
	if (rc < 0)
		return rc;
	i->data = INODE_DATA_EXTENTS;
	i->n_extents = (uint32_t)c->n_extents;
	i->extents = NULL;
	if (c->n_extents) {
		size_t size = c->n_extents * sizeof(struct extent);

		/* Many small holes make much metadata for little data, so that is bounded. */
		if (tree_memory(c->tree) + size > TREE_MEMORY_MAX)
			return error_set(err, E2BIG,
					 "its holes make the image's metadata "
					 "larger than %llu MiB",
					 (unsigned long long)(TREE_MEMORY_MAX /
							      MIB));
		i->extents = tree_alloc(c->tree, size);
		if (!i->extents)
			return error_nomem(err);
		memcpy(i->extents, c->extents, size);
	}
	return 0;
}

/* --------------------------------------------------------------- interface --- */

/* Size of a file's grains, so that the index of its chunks is bounded:
 * docs/formats/chunking.md. */
static uint64_t get_grain_size(uint64_t size)
{
	uint64_t grain = PAGE;

	while (size / grain > GRAINS_MAX)
		grain *= 2;
	return grain;
}

static bool is_small(const struct chunker *c)
{
	return c->file->size <= c->p->small_max;
}

int chunker_begin(struct chunker *c, struct inode *i, struct error *err)
{
	c->file = i;
	c->grain = get_grain_size(i->size);
	c->pos = 0;
	c->n_block = 0;
	c->in_run = false;
	c->n_extents = 0;
	if (is_small(c))
		memset(c->small, 0, (size_t)i->size);
	return 0;
}

int chunker_data(struct chunker *c, uint64_t off, const void *data, size_t len,
		 struct error *err)
{
	if (len == 0)
		return 0;
	if (off < c->pos || len > c->file->size || off > c->file->size - len)
		return error_set(err, EINVAL,
				 "its bytes are out of order or more than its "
				 "size");
	if (!is_small(c))
		return feed_large(c, off, data, len, err);
	memcpy(c->small + off, data, len);
	c->pos = off + len;
	return 0;
}

int chunker_end(struct chunker *c, struct error *err)
{
	int rc = 0;

	if (c->file->size == 0)
		c->file->data = INODE_DATA_NONE;
	else if (c->file->size <= c->p->inline_max)
		rc = end_inline(c, err);
	else if (is_small(c))
		rc = end_small(c, err);
	else
		rc = end_large(c, err);
	c->file = NULL;
	return rc;
}

int chunker_finish(struct chunker *c, uint64_t *ret_device_size,
		   struct error *err)
{
	int rc = flush_group(c, err);

	for (size_t k = 0; rc == 0 && k < c->n_aliases; k++) {
		const struct alias *a = &c->aliases[k];

		a->inode->data = INODE_DATA_EXTENTS;
		a->inode->extents = a->same->extents;
		a->inode->n_extents = a->same->n_extents;
	}
	if (rc == 0)
		*ret_device_size = c->voff;
	return rc;
}
