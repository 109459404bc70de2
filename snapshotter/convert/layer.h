// SPDX-License-Identifier: Apache-2.0
/*
 * The plain bytes of a stored layer.  A thread of its own reads, hashes and
 * decodes, ahead of the user by a bounded amount.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_LAYER_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_LAYER_H

#include "blockstore/blockstore.h"

struct memory_claim;
struct span_set;
struct pace;

#define LAYER_PLAIN_MAX (UINT64_C(1) << 40) /* bytes of one layer, decoded */

struct layer_input {
	struct source *source; /* borrowed until layer_close() */
	uint64_t size;         /* bytes stored, from the descriptor */
	struct digest digest;  /* of the stored bytes, checked at the end */
	bool is_checked;       /* somebody else did that, and keeps them */
	bool want_diff_id;     /* hash the plain bytes too */
	int copy_fd;           /* stored bytes are also written there; -1 */
	struct memory_claim *windows; /* of large zstd windows, borrowed as the
	                               * source; NULL: no bound */
	/* Takes where it can be entered, and is of no other use until
	 * layer_close(); or NULL. */
	struct span_set *spans;
	struct pace *pace; /* of the source and layer_read(), until
	                    * layer_close(); or NULL */
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
 * The next bytes, borrowed until the next call; `*ret_n` 0 at the end, which is
 * only reached when size and digest were right.
 *   -EBADMSG  not what its descriptor says, or damaged
 *   -EFBIG    more than LAYER_PLAIN_MAX bytes
 *   -ECANCELED  the pace became PACE_STOP
 *   -EBUSY    as memory_claim_take() and memory_claim_came()
 */
int layer_read(struct layer *l, const void **ret, size_t *ret_n,
	       struct error *err) MUST_CHECK;

/* After the end, when it was wanted. */
const struct digest *layer_diff_id(const struct layer *l);
/* Bytes that were read so far, unpacked and as stored. */
uint64_t layer_plain_bytes(const struct layer *l);
uint64_t layer_stored_bytes(struct layer *l);

#endif
