// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/recorder/layout.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "tests/unit/recorder/make.h"

uint64_t layout_voff(const struct layout *l, size_t i)
{
	struct block b;

	blockmap_block(&l->map, i, &b);
	return b.voff;
}

static int at(struct file_map *m, uint64_t voff, uint64_t len,
	      int (*each)(void *arg, const struct file_range *r), void *arg,
	      struct error *err)
{
	struct layout *l = container_of(m, struct layout, files);
	int rc = 0;

	for (size_t i = 0; i < l->n_ranges && rc == 0; i++) {
		const struct layout_range *x = &l->ranges[i];
		uint64_t from = layout_voff(l, x->block) + x->at;
		uint64_t lo = from > voff ? from : voff;
		uint64_t hi = from + x->len;
		struct file_range r = { .path = x->path };

		if (hi > voff + len)
			hi = voff + len;
		if (lo >= hi)
			continue;
		r.file_off = x->off + (lo - from);
		r.voff = lo;
		r.len = hi - lo;
		rc = each(arg, &r);
	}
	return rc;
}

static int of(struct file_map *m, const char *path, uint64_t off, uint64_t len,
	      int (*each)(void *arg, const struct file_range *r), void *arg,
	      struct error *err)
{
	struct layout *l = container_of(m, struct layout, files);
	bool found = false;
	int rc = 0;

	for (size_t i = 0; i < l->n_ranges && rc == 0; i++) {
		const struct layout_range *x = &l->ranges[i];
		uint64_t lo = x->off > off ? x->off : off;
		uint64_t hi = x->off + x->len;
		struct file_range r = { .path = path };

		if (strcmp(x->path, path) != 0)
			continue;
		found = true;
		if (hi > off + len)
			hi = off + len;
		if (lo >= hi)
			continue;
		r.file_off = lo;
		r.voff = layout_voff(l, x->block) + x->at + (lo - x->off);
		r.len = hi - lo;
		rc = each(arg, &r);
	}
	return found ? rc : error_set(err, ENOENT, "no file '%s'", path);
}

static const struct file_map_ops ops = { .at = at, .of = of };

void layout_make(struct layout *l, const struct layout_block *blocks,
		 size_t n_blocks, const struct layout_range *ranges,
		 size_t n_ranges)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct pack p = { .size = GIB * 64 };
	struct error err = ERROR_INIT;
	uint64_t voff = 0;
	uint32_t pack;
	size_t len;

	cr_assert_not_null(w);
	cr_assert_eq(blockmap_writer_pack(w, &p, &pack, &err), 0);
	for (size_t i = 0; i < n_blocks; i++) {
		struct block b = {
			.digest = make_digest(blocks[i].content),
			.voff = voff,
			.poff = (uint64_t)blocks[i].content * MIB,
			.usize = blocks[i].usize,
			.csize = blocks[i].usize / 2,
			.codec = BLOCK_CODEC_ZSTD,
		};

		cr_assert_eq(blockmap_writer_block(w, &b, &err), 0, "%s",
			     err.msg);
		voff += round_up(b.usize, BLOCK_ALIGN);
	}
	memset(l, 0, sizeof(*l));
	cr_assert_eq(blockmap_writer_finish(w, voff, &l->map_data, &len, &err),
		     0);
	cr_assert_eq(blockmap_open(l->map_data, len, &l->map, &err), 0, "%s",
		     err.msg);
	l->files.ops = &ops;
	l->ranges = ranges;
	l->n_ranges = n_ranges;
}

void layout_fini(struct layout *l)
{
	free(l->map_data);
}
