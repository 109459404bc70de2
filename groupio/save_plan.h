// SPDX-License-Identifier: Apache-2.0
/*
 * The plan of a save: one safetensors file, in which each content is once, and which node
 * keeps and which writes each of its units.  Every node makes the same plan of the same
 * tables, so that nobody has to hand it out.  Pure: docs/decisions/0027-grouped-write.md.
 */
#ifndef BOOTSEER_GROUPIO_SAVE_PLAN_H
#define BOOTSEER_GROUPIO_SAVE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/digest.h"

#define SAVE_CHUNK (1u << 20) /* bytes of a tensor that one digest is of */
#define SAVE_UNIT \
	(4u << 20) /* bytes of the file that one node writes, at most */
#define SAVE_NODES_MAX 64u
#define SAVE_RANKS_MAX 4096u
#define SAVE_NAME_MAX 512u        /* bytes of a tensor's name */
#define SAVE_TABLE_MAX (8u << 20) /* bytes of a node's table */
/* Chunks of a node's ranks; more digests are in no such table. */
#define SAVE_CHUNKS_MAX (SAVE_TABLE_MAX / DIGEST_SIZE)
/* Tensors of a node's ranks: a table's bytes alone would let small ones take much memory. */
#define SAVE_TENSORS_MAX (1u << 16)

/* A tensor of one rank. */
struct save_tensor {
	const char *dtype; /* as safetensors has it; never freed */
	uint64_t *dims;    /* with the chunks and the name behind them */
	size_t n_dims;
	char *name;
	unsigned int rank;
	uint64_t len;
	uint32_t n_chunks;
	struct digest *chunks; /* all bytes 0: the chunk is zeros */
	struct digest content; /* of the chunks: that of a single one */
	/* Where the bytes are, on the node that has them alone. */
	const char *data;
	uint32_t entry; /* in the plan */
};

struct save_table {
	struct save_tensor *tensors;
	size_t n, cap;
};

/* Add a tensor whose bytes are at `data`; its digests are not known yet.  -EINVAL: its length is
 * not that of its type and shape, or its name is none. */
int save_table_add(struct save_table *t, const char *name, const char *dtype,
		   const uint64_t *shape, size_t n_dims, uint64_t len,
		   struct error *err) MUST_CHECK;
/* The digest of a chunk, from its bytes. */
int save_tensor_digest(struct save_tensor *t, uint32_t chunk,
		       struct error *err) MUST_CHECK;
/* Once the chunks of all tensors have theirs. */
int save_table_finish(struct save_table *t, struct error *err) MUST_CHECK;
void save_table_fini(struct save_table *t);

/* As other nodes are told of it.  -EFBIG: too many tensors or bytes */
int save_table_encode(const struct save_table *t, struct buf *ret,
		      struct error *err) MUST_CHECK;
/* -EBADMSG, -EINVAL: it is no table; `ret` is empty then */
int save_table_decode(const char *data, size_t len, struct save_table *ret,
		      struct error *err) MUST_CHECK;

static inline uint32_t save_chunk_len(uint64_t len, uint32_t chunk)
{
	const uint64_t left = len - (uint64_t)chunk * SAVE_CHUNK;

	return left < SAVE_CHUNK ? (uint32_t)left : SAVE_CHUNK;
}
bool save_chunk_is_zero(const struct digest *d);

/* A tensor of the file. */
struct save_entry {
	const struct save_tensor *tensor; /* one that has the content */
	char *key;                        /* its name in the file */
	const char *data; /* the bytes on this node; NULL: it has them not */
	uint64_t start;   /* byte of the file */
	uint64_t holders; /* nodes that have the bytes, a bit each */
	uint32_t first_chunk; /* among those of the plan */
	bool is_zero;
};

/* Nodes that keep a unit until it is in the store; copy == writer: there is one node alone. */
struct save_unit {
	uint8_t writer, copy;
};

struct save_plan {
	size_t n_nodes;
	struct save_entry *entries; /* by `start` */
	size_t n_entries;
	struct buf head; /* what stands before the tensors */
	uint64_t size;   /* of the file */
	uint32_t unit;   /* bytes of its units */
	uint64_t n_units;
	uint32_t *stored; /* bytes of each unit; 0: it is zeros, and a hole */
	struct save_unit *units;
	uint32_t n_chunks;
	uint64_t given, unique, to_store; /* bytes of tensors; of units */
};

/* The plan that the tables of nodes 0 to n - 1 give, which stay as long as it; `self` is this node.
 * -EINVAL: ranks name tensors as the plan would, or the file is too large. */
int save_plan_make(struct save_table *tables, size_t n, size_t self,
		   struct save_plan **ret, struct error *err) MUST_CHECK;
void save_plan_free(struct save_plan *p);
/* Units that node `self`, whose plan this is, keeps, in the order in which it is to have them:
 * those of which it has all bytes, then those of the node behind it, of the next one, and so on, so
 * that nodes that begin together do not all ask the same one.  The file's last unit, which may be
 * short, is the last.  The caller frees *ret. */
int save_plan_order(const struct save_plan *p, size_t self, uint64_t **ret,
		    size_t *ret_n, struct error *err) MUST_CHECK;
/* Feed `h` with all that nodes have to have planned alike. */
int save_plan_hash(const struct save_plan *p, struct hasher *h) MUST_CHECK;

/* The digest of a unit's bytes: units that have the same one are equal.  Equal units may have
 * others, as their tensors lie elsewhere in them. */
int save_plan_unit_digest(const struct save_plan *p, uint64_t u,
			  struct digest *ret, struct error *err) MUST_CHECK;

static inline bool save_unit_is_kept(const struct save_unit *u, size_t node)
{
	return u->writer == node || u->copy == node;
}
/* A chunk of the plan: one of an entry's. */
struct save_chunk {
	const struct save_entry *entry;
	uint32_t index;
};
/* `c` is less than n_chunks. */
struct save_chunk save_plan_chunk(const struct save_plan *p, uint32_t c);

/* Chunks in a row that one node asks another for. */
#define SAVE_PULL_CHUNKS 64u
#define SAVE_PULL_BYTES (4u << 20)
struct save_chunks {
	uint32_t first; /* of the plan */
	unsigned int n;
	uint64_t bytes;
	uint32_t len[SAVE_PULL_CHUNKS];
};

/* The first entry that has bytes behind `off`; n_entries: there is none. */
static inline size_t save_plan_find(const struct save_plan *p, uint64_t off)
{
	size_t low = 0, high = p->n_entries;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (p->entries[mid].start + p->entries[mid].tensor->len > off)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* Set the nodes that keep and write each unit of a plan that has all else.  Links between nodes,
 * and those to the store, are to end alike. */
int save_plan_assign(struct save_plan *p, struct error *err) MUST_CHECK;

#endif
