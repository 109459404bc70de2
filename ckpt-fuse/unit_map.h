// SPDX-License-Identifier: Apache-2.0
/*
 * Where each unit of a file is that is being written: in which segment, and at which place
 * of it.  Units are written in any order, and again; a manifest is made of them for a commit.
 * Pure.
 */
#ifndef BOOTSEER_CKPT_FUSE_UNIT_MAP_H
#define BOOTSEER_CKPT_FUSE_UNIT_MAP_H

#include "ckpt-fuse/manifest.h"
#include "common/bytes.h"

#define MAP_CHUNK_SIZE ((uint32_t)MIB)
#define MAP_UNIT_CHUNKS 4u /* at most */
#define MAP_PAGE 1024u

struct unit_place {
	uint32_t segment,
		place; /* index in unit_map.segments; units before it there */
	uint32_t len;  /* bytes that are stored; 0: it is a hole */
	uint32_t crcs[MAP_UNIT_CHUNKS];
};

struct unit_map {
	uint64_t unit;                 /* bytes */
	struct ckpt_segment *segments; /* start and place are not used */
	size_t n_segments, cap_segments;
	/* Pages of MAP_PAGE units each, so that a file of holes takes none; NULL: all are holes. */
	struct unit_place **pages;
	uint64_t n_pages;
	uint64_t n_units; /* behind the last are holes */
};

/* Begin with the units of a manifest; NULL: none. -EOPNOTSUPP: its units are not of so many
 * chunks, or of more than MAP_UNIT_CHUNKS. */
int unit_map_init(struct unit_map *f, const struct manifest *base,
		  uint32_t unit_chunks, struct error *err) MUST_CHECK;
void unit_map_fini(struct unit_map *f);

int unit_map_add_segment(struct unit_map *f, const struct ckpt_segment *s,
			 struct error *err) MUST_CHECK;
/* The unit is at the next place of the last segment, `len` bytes of it.  -EFBIG */
int unit_map_add_unit(struct unit_map *f, uint64_t u, uint32_t len,
		      uint32_t *ret_place, struct error *err) MUST_CHECK;
/* The unit is where it was stored before, in a segment of the map.  -EFBIG */
int unit_map_name_unit(struct unit_map *f, uint64_t u,
		       const struct unit_place *at,
		       struct error *err) MUST_CHECK;
/* Set the checksums of a unit that was written, unless it has another place by now. */
void unit_map_set_crcs(struct unit_map *f, uint64_t u, uint32_t place,
		       const uint32_t crcs[MAP_UNIT_CHUNKS]);
/* NULL: it is a hole. */
const struct unit_place *unit_map_find(const struct unit_map *f, uint64_t u);
/* Units from `n` on are holes. */
void unit_map_cut(struct unit_map *f, uint64_t n);
/* Bytes of each column of segments 0..n-1 that are read of the file; 0: none of it. `ret` has `n`
 * rows of zeros. */
void unit_map_column_ends(const struct unit_map *f, size_t n,
			  uint64_t (*ret)[COLUMNS_MAX]);

/* Set segments and checksums of `m` to these, as far as m->size goes.  -EFBIG: it has too many
 * pieces. */
int unit_map_fill(const struct unit_map *f, struct manifest *m,
		  struct error *err) MUST_CHECK;

#endif
