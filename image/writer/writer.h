// SPDX-License-Identifier: Apache-2.0
/*
 * Stores a tree of files: contents become blocks in packs, and a block map tells the place of
 * each; names, attributes and places become a metadata image. The result depends on the tree,
 * the contents and their order, the chunking and the dedup index, never on the number of
 * threads.
 *
 * The tree may come from any source. docs/architecture.md describes storing and restoring.
 */
#ifndef BOOTSEER_IMAGE_WRITER_WRITER_H
#define BOOTSEER_IMAGE_WRITER_WRITER_H

#include "image/artifact/artifact.h"
#include "image/tree.h"

struct dedup_index;
struct span_set;
struct upload;
struct upload_target;

/* All is borrowed until tree_writer_free(). */
struct tree_writer_config {
	struct tree *tree;
	/* Receives the blobs, one at a time, on any thread. */
	struct upload_target *target;
	/* Receives packs, while `target` receives other blobs at the same time; NULL:
	 * `target` gets all. */
	struct upload_target *packs;
	/* finds blocks that are stored already; NULL: none */
	struct dedup_index *index;
	/* packs are kept there until they are stored */
	const char *temp_dir;
	unsigned int jobs; /* compressing threads, 1..ORDERED_POOL_JOBS_MAX */
	int level;         /* of zstd; 0: level of the chunking */
	int meta_level;    /* of zstd, for metadata and block map; 0: 12 */
	/* bytes of the first pack; 0: no smaller than others */
	uint64_t pack_first;
	uint64_t pack_max; /* bytes of a pack; 0: pack_max of the chunking */
	/* Set when the image's layers hold all contents: then no block is stored, only the
	 * places of blocks in layers (image/spans/spans.h). NULL: blocks are stored. */
	struct span_set *spans;
};

struct tree_writer_stats {
	uint64_t blocks;     /* entries of the block map */
	uint64_t new_blocks; /* stored now */
	uint64_t new_bytes;  /* of packs */
	uint64_t old_bytes;  /* of distinct blocks that the index had, stored */
};

/*
 * A writer of one tree, which one thread uses.
 *   -EINVAL  `jobs` is out of its bounds
 */
struct tree_writer;
int tree_writer_new(const struct tree_writer_config *cfg,
		    struct tree_writer **ret, struct error *err) MUST_CHECK;
void tree_writer_free(struct tree_writer *w); /* stops what is under way */
DEFINE_AUTO(tree_writer)

/* The queue of blobs to `target`, to which the caller may add blobs. Borrowed. */
struct upload *tree_writer_upload(struct tree_writer *w);

/*
 * Add the bytes of one regular file of the tree, in ascending order; ranges that are left out
 * are holes. A file with several names is added once, an empty one need not be. Waits when blobs
 * are made faster than they are stored, and returns the error of an earlier blob that failed.
 *
 *   -EINVAL  bytes out of order or past inode->size
 *
 *   -E2BIG   the places of its bytes need too much memory
 */
int tree_writer_begin(struct tree_writer *w, struct inode *i,
		      struct error *err) MUST_CHECK;
int tree_writer_data(struct tree_writer *w, uint64_t off, const void *data,
		     size_t len, struct error *err) MUST_CHECK;
int tree_writer_end(struct tree_writer *w, struct error *err) MUST_CHECK;

/*
 * After the last file, once: store block map and metadata image, and wait until all packs and
 * other blobs in the queue are stored. Sets in `a`, which is zero before, all that depends on
 * the tree: format, chunking, meta and map with their parts, digests and sizes, packs,
 * device_size, image_size, n_inodes. The caller sets the image that it belongs to, makes the
 * manifest, and calls artifact_fini(), also after a failure.
 */
int tree_writer_finish(struct tree_writer *w, struct artifact *a,
		       struct tree_writer_stats *ret,
		       struct error *err) MUST_CHECK;

#endif
