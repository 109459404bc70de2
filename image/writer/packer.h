// SPDX-License-Identifier: Apache-2.0
/*
 * Turns blocks in device order into entries of the block map and bytes of packs. The result
 * depends on the blocks alone, never on the number of threads that compress them.
 */
#ifndef BOOTSEER_IMAGE_WRITER_PACKER_H
#define BOOTSEER_IMAGE_WRITER_PACKER_H

#include "blockstore/blockstore.h"
#include "image/writer/chunker.h"
#include "image/writer/pack.h"

struct dedup_index;
struct span_set;
struct upload;

struct packer_config {
	const struct chunk_params *params; /* borrowed */
	unsigned int jobs;                 /* compressing threads, 1..64 */
	const char *temp_dir;              /* packs lie here until stored */
	struct upload *upload;             /* of packs; borrowed */
	struct dedup_index *index;         /* borrowed; may be NULL */
	int level;                         /* of zstd; 0: that of `params` */
	struct pack_sizes packs;           /* max 0: that of `params` */
	struct span_set *spans; /* borrowed; as in tree_writer_config */
};

struct packer;

int packer_new(const struct packer_config *cfg, struct packer **ret,
	       struct error *err) MUST_CHECK;
void packer_free(struct packer *p); /* also stops unfinished work */
DEFINE_AUTO(packer)

/* Receives the chunker's blocks; borrowed. */
struct chunk_sink *packer_sink(struct packer *p);

struct packer_stats {
	uint64_t blocks;     /* entries of the map */
	uint64_t new_blocks; /* stored now */
	uint64_t new_bytes;  /* of packs */
	uint64_t
		old_bytes; /* stored size of distinct blocks found in `index` */
};

/* Close the last pack (uploads may still run: upload_finish() waits for them) and return the
 * encoded map, which the caller owns. */
int packer_finish(struct packer *p, uint64_t device_size, void **ret_map,
		  size_t *ret_len, struct packer_stats *ret_stats,
		  struct error *err) MUST_CHECK;

#endif
