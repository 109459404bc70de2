// SPDX-License-Identifier: Apache-2.0
/*
 * Stores a tree of files: contents become blocks in packs, with a block map that
 * says which lies where, and names, attributes and places a metadata image.  What
 * is stored depends on the tree, the contents and their order, the chunking and the
 * dedup index, never on the number of threads.
 *
 * The tree may come from anywhere.  docs/architecture.md has the steps to there and back.
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
	/* Takes the blobs; on any thread, one blob at a time. */
	struct upload_target *target;
	/* Takes packs, also while `target` takes the others; NULL: `target` does. */
	struct upload_target *packs;
	struct dedup_index *index; /* blocks that are stored; NULL: none */
	const char *temp_dir;      /* packs lie there until they are stored */
	unsigned int jobs;   /* compressing threads, 1..ORDERED_POOL_JOBS_MAX */
	int level;           /* of zstd; 0: the chunking's */
	int meta_level;      /* of zstd, for metadata and block map; 0: 12 */
	uint64_t pack_first; /* bytes of the first pack; 0: of any */
	uint64_t pack_max;   /* bytes of a pack; 0: the chunking's */
	/* The layers that hold all contents: no block is stored, but where they lie
	 * (image/spans/spans.h).  NULL: blocks are stored. */
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

/* The queue of blobs to `target`: other blobs may go the same way.  Borrowed. */
struct upload *tree_writer_upload(struct tree_writer *w);

/*
 * The bytes of one regular file of the tree, in ascending order; what is left out
 * is a hole.  A file with several names comes once, an empty one need not come.
 * Waits when blobs are stored slower than they are made, and returns what storing
 * an earlier one failed with.
 *   -EINVAL  bytes out of order or past inode->size
 *   -E2BIG   the places of its bytes need too much memory
 */
int tree_writer_begin(struct tree_writer *w, struct inode *i,
		      struct error *err) MUST_CHECK;
int tree_writer_data(struct tree_writer *w, uint64_t off, const void *data,
		     size_t len, struct error *err) MUST_CHECK;
int tree_writer_end(struct tree_writer *w, struct error *err) MUST_CHECK;

/*
 * After the last file, once: store block map and metadata image, and wait until all
 * packs, and whatever else is in the queue, are stored.  Sets of `a`, which
 * is zero before, all that is of the tree: format, chunking, meta and map with
 * their parts, digests and sizes, packs, device_size, image_size, n_inodes.  What
 * it belongs to and its manifest are the caller's, as is artifact_fini(), also
 * after a failure.
 */
int tree_writer_finish(struct tree_writer *w, struct artifact *a,
		       struct tree_writer_stats *ret,
		       struct error *err) MUST_CHECK;

#endif
