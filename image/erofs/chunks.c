// SPDX-License-Identifier: Apache-2.0
#include "image/erofs/chunks.h"

#include <errno.h>

#include "common/bytes.h"
#include "image/erofs/format.h"

#define CHUNKBITS_MAX (EROFS_BLKSZBITS + (int)EROFS_CHUNK_BLKBITS)

static bool is_aligned(uint64_t v)
{
	return v % EROFS_BLOCK == 0;
}

static int check_extent(const struct inode *i, uint64_t pos,
			const struct extent *e,
			const struct erofs_params *params, struct error *err)
{
	unsigned int dev = EROFS_VOFF_DEVICE(e->voff);
	uint64_t byte = EROFS_VOFF_BYTE(e->voff);
	const char *what = NULL;

	if (!is_aligned(e->off) || !is_aligned(e->voff) || e->len == 0)
		what = "is not aligned";
	else if (e->off < pos)
		what = "overlaps the one before";
	else if (e->off >= i->size || e->len > i->size - e->off)
		what = "leaves the file";
	else if (dev >= params->n_devices || byte > params->devices[dev].size ||
		 round_up(e->len, EROFS_BLOCK) >
			 params->devices[dev].size - byte)
		what = "leaves the device";
	if (!what)
		return 0;
	return error_set(err, EINVAL,
			 "extent of %llu bytes at %llu, device %u at %llu: %s",
			 (unsigned long long)e->len, (unsigned long long)e->off,
			 dev, (unsigned long long)byte, what);
}

int chunks_choose(const struct inode *i, const struct erofs_params *params,
		  struct chunks *ret, struct error *err)
{
	uint64_t pos = 0;    /* end in the file of the extent before */
	uint64_t voff = 0;   /* end in the device of the extent before */
	uint64_t breaks = 0; /* all offsets where the mapping breaks, or-ed */
	uint64_t chunk = EROFS_BLOCK, data = 0, data_end = 0;
	uint8_t bits = EROFS_BLKSZBITS;

	for (uint32_t k = 0; k < i->n_extents; k++) {
		const struct extent *e = &i->extents[k];
		int rc = check_extent(i, pos, e, params, err);

		if (rc < 0)
			return rc;
		/* voff includes the device's number, so one comparison sees a change of
		 * either. */
		if (e->off != pos || (k > 0 && e->voff != voff))
			breaks |= pos | e->off;
		pos = e->off + round_up(e->len, EROFS_BLOCK);
		voff = e->voff + round_up(e->len, EROFS_BLOCK);
	}
	if (pos < i->size && i->n_extents > 0)
		breaks |= pos;
	ret->is_one_run = breaks == 0 && i->n_extents > 0;
	/* Take the largest chunk size for which each break is at a chunk's end. */
	while (bits < CHUNKBITS_MAX && chunk < i->size && !(breaks & chunk)) {
		chunk <<= 1;
		bits++;
	}
	ret->chunkbits = bits;
	ret->n_chunks = (i->size >> bits) + ((i->size & (chunk - 1)) != 0);
	for (uint32_t k = 0; k < i->n_extents; k++) {
		const struct extent *e = &i->extents[k];
		uint64_t first = e->off >> bits;
		uint64_t end = ((e->off + e->len - 1) >> bits) + 1;

		if (first < data_end)
			first = data_end;
		if (end > first)
			data += end - first;
		data_end = end;
	}
	ret->n_holes = ret->n_chunks - data;
	return 0;
}

void chunk_iter_init(struct chunk_iter *it, const struct inode *i,
		     uint8_t chunkbits)
{
	it->inode = i;
	it->chunkbits = chunkbits;
	it->off = 0;
	it->at = 0;
}

bool chunk_iter_next(struct chunk_iter *it, uint64_t *ret_voff)
{
	const struct inode *i = it->inode;
	const struct extent *e;
	uint64_t off = it->off;

	it->off += UINT64_C(1) << it->chunkbits;
	while (it->at < i->n_extents &&
	       i->extents[it->at].off + i->extents[it->at].len <= off)
		it->at++;
	if (it->at >= i->n_extents)
		return false;
	e = &i->extents[it->at];
	if (e->off > off)
		return false;
	*ret_voff = e->voff + (off - e->off);
	return true;
}
