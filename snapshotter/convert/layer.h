// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the uncompressed bytes of a stored layer.  A thread of its own reads, hashes and
 * decodes, ahead of the user by a limited amount.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_LAYER_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_LAYER_H

#include "blockstore/blockstore.h"

struct memory_claim;
struct span_set;
struct pace;

/* largest uncompressed layer in bytes */
#define LAYER_PLAIN_MAX (UINT64_C(1) << 40)

struct layer_input {
	struct source *source; /* borrowed until layer_close() */
	uint64_t size;         /* bytes stored, from the descriptor */
	/* digest of the stored bytes, checked at the end */
	struct digest digest;
	/* the stored bytes were verified before and cannot change */
	bool is_checked;
	bool want_diff_id; /* hash the uncompressed bytes too */
	/* file that gets a copy of the stored bytes; -1: none */
	int copy_fd;
	/* memory of large zstd windows, borrowed as the source; NULL: not limited */
	struct memory_claim *windows;
	/* Receives the points where decoding can begin; not to be used otherwise until
	 * layer_close(); or NULL. */
	struct span_set *spans;
	/* may stop the source and layer_read(), until layer_close(); or NULL */
	struct pace *pace;
};

struct layer;

int layer_open(const struct layer_input *in, struct layer **ret,
	       struct error *err) MUST_CHECK;
void layer_close(struct layer *l); /* at any time; NULL is allowed */
static inline void layer_free(struct layer *l)
{
	layer_close(l);
}
DEFINE_AUTO(layer)

/*
 * Get the next bytes, borrowed until the next call; `*ret_n` 0 at the end, which is reached
 * only if size and digest are right.
 *     -EBADMSG  damaged, or not as its descriptor says
 *     -EFBIG    more than LAYER_PLAIN_MAX bytes
 *     -ECANCELED  the pace became PACE_STOP
 *     -EBUSY    as memory_claim_take() and memory_claim_came()
 */
int layer_read(struct layer *l, const void **ret, size_t *ret_n,
	       struct error *err) MUST_CHECK;

/* The digest of the uncompressed bytes, after the end, if want_diff_id. */
const struct digest *layer_diff_id(const struct layer *l);
/* Bytes that were read so far, uncompressed and as stored. */
uint64_t layer_plain_bytes(const struct layer *l);
uint64_t layer_stored_bytes(struct layer *l);

#endif
