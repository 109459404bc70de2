// SPDX-License-Identifier: Apache-2.0
/* The only entry to block sources: checks the conditions that every kind relies on. */
#include <errno.h>
#include <inttypes.h>

#include "blockstore/blockstore.h"

static int check_block(const struct block_req *req, size_t k, struct error *err)
{
	const struct block *b = &req->blocks[k];

	if (!b->usize || b->usize > BLOCK_USIZE_MAX || b->csize > b->usize)
		return error_set(err, EINVAL, "a block of %" PRIu32 " bytes",
				 b->usize);
	if (k && (b->poff != b[-1].poff + b[-1].csize || b->pack != b[-1].pack))
		return error_set(err, EINVAL,
				 "the block at %" PRIu64
				 " does not follow the one before",
				 b->poff);
	return 0;
}

int block_source_read(struct block_source *s, const struct block_req *req,
		      struct block_sink *sink, struct error *err)
{
	int rc = req->n_blocks ? 0 : error_set(err, EINVAL, "no block");

	for (size_t k = 0; k < req->n_blocks && rc == 0; k++)
		rc = check_block(req, k, err);
	return rc < 0 ? rc : s->ops->read(s, req, sink, err);
}

void block_source_free(struct block_source *s)
{
	if (s)
		s->ops->free(s);
}
