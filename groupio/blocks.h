// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks of bytes that programs of a group's nodes keep by name: a KV cache.  Each block has one
 * node, its owner, that every node finds by the block's name: the owner alone reads it from the
 * store and writes it there, so that callers of the same moment cost one read.  Nodes keep
 * blocks in memory up to a budget.  docs/checkpoints.md ("A KV cache") has what users see,
 * docs/formats/blocks.md the messages, SECURITY.md whom a node believes.
 */
#ifndef BOOTSEER_GROUPIO_BLOCKS_H
#define BOOTSEER_GROUPIO_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct blocks;
struct group;
struct object_store;

struct blocks_config {
	struct group *group;
	struct object_store *store;
	uint64_t memory; /* bytes of blocks that this node keeps */
	/* bytes of blocks that the group leaves in the store; 0: no blocks are stored */
	uint64_t stored;
	/* another node that is silent for so long gets no requests for a while */
	int64_t wait_ns;
	bool read_only;
};

/* Borrows group and store. Requests of other nodes are answered only after the first program
 * has connected to the socket of save.h; that module must be given these blocks. */
int blocks_new(const struct blocks_config *cfg, struct blocks **ret,
	       struct error *err) MUST_CHECK;
/* Free the blocks; call it after saves_free(). */
void blocks_free(struct blocks *b);

struct blocks_stats {
	uint64_t members;   /* other nodes that serve blocks */
	uint64_t put_total; /* blocks that programs of this node put */
	/* reads by programs that were served from this node's memory */
	uint64_t memory_total;
	uint64_t member_total; /* reads served from another node's memory */
	uint64_t store_total;  /* reads served from the store */
	uint64_t none_total;   /* reads of blocks that were found nowhere */
	uint64_t received_bytes, sent_bytes;  /* from, to other nodes */
	uint64_t fetched_bytes, stored_bytes; /* from, to the store */
	/* removed from memory and from the store to meet the budgets */
	uint64_t evicted_total, dropped_total;
	uint64_t wrong_total; /* blocks that were not what their seal says */
	uint64_t memory_bytes;
	uint64_t pending; /* blocks on their way to their owner, or the store */
};
void blocks_stats(struct blocks *b, struct blocks_stats *ret);

#endif
