// SPDX-License-Identifier: Apache-2.0
/*
 * Records where each unit of a written file is stored: segment and place in it. Units may be
 * written in any order, and more than once; a commit makes a manifest from the map. Pure.
 */
#ifndef BOOTSEER_CKPT_FUSE_UNIT_MAP_H
#define BOOTSEER_CKPT_FUSE_UNIT_MAP_H

#include "ckpt-fuse/manifest.h"
#include "common/bytes.h"

#define MAP_CHUNK_SIZE ((uint32_t)MIB)
#define MAP_UNIT_CHUNKS 4u /* most chunks of a unit */
#define MAP_PAGE 1024u

struct unit_place {
	uint32_t segment,
		/* segment: index in unit_map.segments; place: units before it there */
		place;
	uint32_t len; /* stored bytes; 0: a hole */
	uint32_t crcs[MAP_UNIT_CHUNKS];
};

struct unit_map {
	uint64_t unit;                 /* bytes of a unit */
	struct ckpt_segment *segments; /* start and place are not used */
	size_t n_segments, cap_segments;
	/* Pages of MAP_PAGE units each, so that holes take no memory; NULL: all units of the page
	 * are holes. */
	struct unit_place **pages;
	uint64_t n_pages;
	uint64_t n_units; /* units from here on are holes */
};

/* Initialise with the units of a manifest (NULL: none). -EOPNOTSUPP: its units have another number
 * of chunks, or more than MAP_UNIT_CHUNKS. */
int unit_map_init(struct unit_map *f, const struct manifest *base,
		  uint32_t unit_chunks, struct error *err) MUST_CHECK;
void unit_map_fini(struct unit_map *f);

int unit_map_add_segment(struct unit_map *f, const struct ckpt_segment *s,
			 struct error *err) MUST_CHECK;
/* Put the unit, of `len` bytes, at the next place of the last segment. -EFBIG */
int unit_map_add_unit(struct unit_map *f, uint64_t u, uint32_t len,
		      uint32_t *ret_place, struct error *err) MUST_CHECK;
/* Put the unit at an existing place in a segment of the map. -EFBIG */
int unit_map_name_unit(struct unit_map *f, uint64_t u,
		       const struct unit_place *at,
		       struct error *err) MUST_CHECK;
/* Set the checksums of a written unit, unless the unit has got another place since. */
void unit_map_set_crcs(struct unit_map *f, uint64_t u, uint32_t place,
		       const uint32_t crcs[MAP_UNIT_CHUNKS]);
/* Find a unit's place; NULL: a hole. */
const struct unit_place *unit_map_find(const struct unit_map *f, uint64_t u);
/* Units from `n` on are holes. */
void unit_map_cut(struct unit_map *f, uint64_t n);
/* For each column of segments 0..n-1, compute the end of its bytes that the file uses; 0: none.
 * `ret` has `n` rows of zeros. */
void unit_map_column_ends(const struct unit_map *f, size_t n,
			  uint64_t (*ret)[COLUMNS_MAX]);

/* Set the segments and checksums of `m` from the map, up to m->size. -EFBIG: too many pieces. */
int unit_map_fill(const struct unit_map *f, struct manifest *m,
		  struct error *err) MUST_CHECK;

#endif
