// SPDX-License-Identifier: Apache-2.0
/*
 * Saves of all ranks of a job together: ranks hand tensors to their node's mount, which finds
 * with the mounts of the other nodes what is double, has each byte in the memory of two nodes,
 * and writes each once, to one file that is there whole or not at all.
 * docs/decisions/0027-grouped-write.md has how, docs/checkpoints.md what users see.
 */
#ifndef BOOTSEER_GROUPIO_SAVE_H
#define BOOTSEER_GROUPIO_SAVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

struct blocks;
struct group;
struct object_store;
struct saves;

struct saves_config {
	struct group *group;
	struct object_store *store;
	const char *socket; /* where ranks come */
	const char *mount;  /* the folder that they know the store by */
	uid_t plain_owner;  /* of plain files there */
	uid_t owner;        /* whose ranks may, besides root's */
	uint64_t memory;    /* bytes that are not in the store yet */
	int64_t wait_ns;    /* of silence, after which a node is gone */
	bool read_only;
	bool has_mount;        /* whose files ranks read by themselves */
	bool is_full;          /* units of earlier saves are stored again */
	struct blocks *blocks; /* served at the same places; NULL: none */
};

/* Borrows group, store and blocks, and copies the rest. */
int saves_new(const struct saves_config *cfg, struct saves **ret,
	      struct error *err) MUST_CHECK;
/* Saves that are buffered become durable, or fail, first; others fail, and none is taken any more.
 * NULL is allowed.  How many were buffered, ever, and did not become durable. */
unsigned int saves_end(struct saves *s);
void saves_free(struct saves *s); /* ends them first, if nobody has */

struct saves_stats {
	uint64_t given_bytes;  /* that ranks of this node handed in */
	uint64_t copied_bytes; /* had from other nodes, and checked */
	uint64_t stored_bytes; /* this node wrote */
	uint64_t
		named_bytes; /* of its units, in the store since an earlier save */
	uint64_t memory_bytes; /* not in the store yet */
	uint64_t
		wrong_total; /* chunks of others that were not what they had said */
	uint64_t durable_total, failed_total;
	uint64_t lost_total; /* that failed after they were buffered */
	uint64_t buffered;   /* saves that are buffered, and not durable, now */
	/* Time of all saves until the ranks of this node and their digests were there, then until
	 * the plan, until each byte was in the memory of two nodes, and until the end. */
	uint64_t ranks_ns, plan_ns, buffer_ns, store_ns;
};
void saves_stats(struct saves *s, struct saves_stats *ret);

/* The parts of a save in time, as in saves_stats. */
enum save_phase {
	SAVE_PHASE_RANKS,
	SAVE_PHASE_PLAN,
	SAVE_PHASE_BUFFER,
	SAVE_PHASE_STORE,
	SAVE_PHASES,
};

/* A save that is over.  A phase that it did not come to has 0. */
struct save_report {
	int64_t begin_ns;            /* clock_now_ns() */
	int64_t end_ns[SAVE_PHASES]; /* each begins where the one before ends */
	uint64_t given_bytes, copied_bytes, stored_bytes,
		named_bytes; /* by this node */
	bool is_durable;
};

/* The oldest of the last 16 that nobody has taken; false: there is none. */
bool saves_take_report(struct saves *s, struct save_report *ret);

#endif
