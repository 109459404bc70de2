// SPDX-License-Identifier: Apache-2.0
/*
 * The plan of a save: one safetensors file with each content once, and the nodes that keep and
 * write each unit. Every node computes the same plan from the same tables, so no node has to
 * send it. Pure: docs/decisions/0027-grouped-write.md.
 */
#ifndef BOOTSEER_GROUPIO_SAVE_PLAN_H
#define BOOTSEER_GROUPIO_SAVE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/digest.h"

#define SAVE_CHUNK (1u << 20) /* bytes of a tensor covered by one digest */
#define SAVE_UNIT \
	(4u \
	 << 20) /* largest unit: bytes of the file that one node writes together */
#define SAVE_NODES_MAX 64u
#define SAVE_RANKS_MAX 4096u
#define SAVE_NAME_MAX 512u        /* bytes of a tensor's name */
#define SAVE_TABLE_MAX (8u << 20) /* bytes of a node's table */
/* Chunks of a node's ranks, as many as a table has room for digests. */
#define SAVE_CHUNKS_MAX (SAVE_TABLE_MAX / DIGEST_SIZE)
/* Tensors of a node's ranks. A limit of its own, since a table of many small tensors would
 * take much more memory than its bytes. */
#define SAVE_TENSORS_MAX (1u << 16)

/* A tensor of one rank. */
struct save_tensor {
	const char *dtype; /* name of the type in safetensors; never freed */
	/* one allocation, with the chunks and the name behind */
	uint64_t *dims;
	size_t n_dims;
	char *name;
	unsigned int rank;
	uint64_t len;
	uint32_t n_chunks;
	struct digest *chunks; /* all bytes 0: the chunk is zeros */
	/* digest over all chunks' digests; for a single chunk, the chunk's own */
	struct digest content;
	/* The bytes, on the node of the rank only. */
	const char *data;
	uint32_t entry; /* index of its entry in the plan */
};

struct save_table {
	struct save_tensor *tensors;
	size_t n, cap;
};

/* Add a tensor whose digests are not known yet; the caller sets `data`. -EINVAL: its length
 * does not fit its type and shape, or its name is not allowed. */
int save_table_add(struct save_table *t, const char *name, const char *dtype,
		   const uint64_t *shape, size_t n_dims, uint64_t len,
		   struct error *err) MUST_CHECK;
/* Compute the digest of a chunk from its bytes. */
int save_tensor_digest(struct save_tensor *t, uint32_t chunk,
		       struct error *err) MUST_CHECK;
/* Compute the digests of contents, once all chunks of all tensors have digests. */
int save_table_finish(struct save_table *t, struct error *err) MUST_CHECK;
void save_table_fini(struct save_table *t);

/* Encode the table for other nodes. -EFBIG: too many tensors or bytes */
int save_table_encode(const struct save_table *t, struct buf *ret,
		      struct error *err) MUST_CHECK;
/* Decode a table. -EBADMSG, -EINVAL: not a valid table; `ret` is empty then */
int save_table_decode(const char *data, size_t len, struct save_table *ret,
		      struct error *err) MUST_CHECK;

static inline uint32_t save_chunk_len(uint64_t len, uint32_t chunk)
{
	const uint64_t left = len - (uint64_t)chunk * SAVE_CHUNK;

	return left < SAVE_CHUNK ? (uint32_t)left : SAVE_CHUNK;
}
bool save_chunk_is_zero(const struct digest *d);

/* A tensor in the file. */
struct save_entry {
	const struct save_tensor *tensor; /* a tensor with this content */
	char *key;                        /* its name in the file */
	const char *data; /* the bytes; NULL: this node does not have them */
	uint64_t start;   /* byte of the file at which it begins */
	uint64_t holders; /* bit mask of the nodes that have the bytes */
	uint32_t first_chunk; /* number of its first chunk in the plan */
	bool is_zero;
};

/* The nodes that keep a unit until it is in the store; copy == writer when there is only one
 * node. */
struct save_unit {
	uint8_t writer, copy;
};

struct save_plan {
	size_t n_nodes;
	struct save_entry *entries; /* by `start` */
	size_t n_entries;
	/* bytes of the file before the tensors: the safetensors header */
	struct buf head;
	uint64_t size; /* of the file */
	uint32_t unit; /* bytes of its units */
	uint64_t n_units;
	/* bytes stored of each unit; 0: it is all zeros, and becomes a hole */
	uint32_t *stored;
	struct save_unit *units;
	uint32_t n_chunks;
	/* bytes of all tensors, of different contents, of units to store */
	uint64_t given, unique, to_store;
};

/* Make the plan for the tables of nodes 0 to n - 1, which must stay as long as the plan;
 * `self` is this node. -EINVAL: tensor names clash with names that the plan makes, or the file
 * is too large. */
int save_plan_make(struct save_table *tables, size_t n, size_t self,
		   struct save_plan **ret, struct error *err) MUST_CHECK;
void save_plan_free(struct save_plan *p);
/* List the units that node `self` keeps, in the order in which it should get them: first
 * units that it has whole, then those of the next node, and so on, so that nodes which start
 * together do not all turn to the same node. The file's last unit, which may be short, is the
 * last. The caller frees *ret. */
int save_plan_order(const struct save_plan *p, size_t self, uint64_t **ret,
		    size_t *ret_n, struct error *err) MUST_CHECK;
/* Feed `h` with everything on which the nodes' plans must agree. */
int save_plan_hash(const struct save_plan *p, struct hasher *h) MUST_CHECK;

/* The digest of a unit. Units with the same digest have the same bytes. Equal bytes may have
 * different digests, if tensors lie differently in the units. */
int save_plan_unit_digest(const struct save_plan *p, uint64_t u,
			  struct digest *ret, struct error *err) MUST_CHECK;

static inline bool save_unit_is_kept(const struct save_unit *u, size_t node)
{
	return u->writer == node || u->copy == node;
}
/* A chunk of the plan, as a chunk of one entry. */
struct save_chunk {
	const struct save_entry *entry;
	uint32_t index;
};
/* Find a chunk by its number, less than n_chunks. */
struct save_chunk save_plan_chunk(const struct save_plan *p, uint32_t c);

/* A row of chunks that one request to another node asks for. */
#define SAVE_PULL_CHUNKS 64u
#define SAVE_PULL_BYTES (4u << 20)
struct save_chunks {
	uint32_t first; /* number in the plan of the first chunk */
	unsigned int n;
	uint64_t bytes;
	uint32_t len[SAVE_PULL_CHUNKS];
};

/* Index of the first entry that has bytes behind `off`, or n_entries. */
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

/* Choose the nodes that keep and write each unit of an otherwise complete plan, so that the
 * transfers between nodes and to the store take all nodes about the same time. */
int save_plan_assign(struct save_plan *p, struct error *err) MUST_CHECK;

#endif
