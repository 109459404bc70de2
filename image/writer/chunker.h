// SPDX-License-Identifier: Apache-2.0
/*
 * Decides where files lie in the virtual data device, and where that is cut into blocks:
 * docs/formats/chunking.md. Pure: takes bytes, returns blocks, sets extents.
 */
#ifndef BOOTSEER_IMAGE_WRITER_CHUNKER_H
#define BOOTSEER_IMAGE_WRITER_CHUNKER_H

#include "image/tree.h"
#include "image/writer/spill.h"

/* A named set of parameters. A released set never changes: two versions of an image share
 * blocks only when both were cut in the same way. */
struct chunk_params {
	const char *name;
	uint32_t inline_max; /* files up to this lie in the metadata */
	uint32_t small_max;  /* files up to this share blocks */
	uint32_t group_avg;  /* bytes that a block of small files should have */
	uint32_t group_max;
	uint32_t min, avg, max; /* bytes of a block of a larger file */
	int level;              /* of zstd */
	uint64_t pack_max;      /* bytes after which a pack is closed */
};

/* The set that images are converted with. */
extern const struct chunk_params chunk_params;

/* Bytes that a block buffer must hold. */
size_t chunk_buffer_size(const struct chunk_params *p);

/*
 * Receives the blocks in the order of their place in the device. `put` may keep `*buf` if it
 * puts another buffer of the same size in its place.
 */
struct chunk_sink {
	int (*put)(struct chunk_sink *sink, uint64_t voff, uint8_t **buf,
		   uint32_t len, struct error *err);
};

struct chunker;

/* The arguments are borrowed. `spill` keeps the bytes of inline files; NULL: the tree keeps
 * them. */
int chunker_new(const struct chunk_params *params, struct tree *t,
		struct spill *spill, struct chunk_sink *sink,
		struct chunker **ret, struct error *err) MUST_CHECK;
void chunker_free(struct chunker *c);
DEFINE_AUTO(chunker)

/*
 * Add the bytes of one regular file, in ascending order; ranges that are left out are holes.
 * Sets data, bytes or extents of the inode (extents of small files only at chunker_finish()).
 *
 *   -EINVAL  bytes out of order or past inode->size
 */
int chunker_begin(struct chunker *c, struct inode *i,
		  struct error *err) MUST_CHECK;
int chunker_data(struct chunker *c, uint64_t off, const void *data, size_t len,
		 struct error *err) MUST_CHECK;
int chunker_end(struct chunker *c, struct error *err) MUST_CHECK;

/* Call it after the last file: passes on the last blocks, and sets all extents. */
int chunker_finish(struct chunker *c, uint64_t *ret_device_size,
		   struct error *err) MUST_CHECK;

#endif
