// SPDX-License-Identifier: Apache-2.0
/*
 * Saves of all ranks of a job together. Ranks hand tensors to their node's mount. The mounts of
 * all nodes find equal contents, copy each byte into the memory of two nodes, and write each
 * once, to one file that becomes visible whole or not at all.
 * docs/decisions/0027-grouped-write.md explains how, docs/checkpoints.md describes the use.
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
	const char *socket; /* Unix socket to which ranks connect */
	const char *mount;  /* folder at which ranks see the store */
	uid_t plain_owner;  /* owner of the mount's plain files */
	uid_t owner;        /* user whose ranks may save, besides root's */
	uint64_t memory;    /* limit of bytes that are not in the store yet */
	/* a node that is silent for so long is taken for dead */
	int64_t wait_ns;
	bool read_only;
	/* there is a mount point, so that ranks can read files themselves */
	bool has_mount;
	/* store units again that earlier saves have stored */
	bool is_full;
	/* blocks served on the same socket and server; NULL: none */
	struct blocks *blocks;
};

/* Borrows group, store and blocks, and copies the rest. */
int saves_new(const struct saves_config *cfg, struct saves **ret,
	      struct error *err) MUST_CHECK;
/* End all saves. Buffered saves first become durable or fail; others fail, and new ones are
 * refused. NULL is allowed. Returns the number of saves, ever, that were buffered and did not
 * become durable. */
unsigned int saves_end(struct saves *s);
void saves_free(struct saves *s); /* calls saves_end() first if needed */

struct saves_stats {
	uint64_t given_bytes; /* bytes that ranks of this node handed in */
	/* bytes received from other nodes, and verified */
	uint64_t copied_bytes;
	uint64_t stored_bytes; /* bytes that this node wrote to the store */
	uint64_t
		/* bytes of its units that an earlier save has stored already */
		named_bytes;
	/* bytes in memory that are not in the store yet */
	uint64_t memory_bytes;
	uint64_t
		/* chunks from other nodes that did not match their digests */
		wrong_total;
	uint64_t durable_total, failed_total;
	uint64_t lost_total; /* saves that failed after they were buffered */
	uint64_t buffered;   /* saves that are buffered and not durable now */
	/* Time of all saves, by phases: until the ranks of this node and their digests were
	 * there, until the plan, until each byte was in the memory of two nodes, until the end. */
	uint64_t ranks_ns, plan_ns, buffer_ns, store_ns;
};
void saves_stats(struct saves *s, struct saves_stats *ret);

/* The phases of a save, as in saves_stats. */
enum save_phase {
	SAVE_PHASE_RANKS,
	SAVE_PHASE_PLAN,
	SAVE_PHASE_BUFFER,
	SAVE_PHASE_STORE,
	SAVE_PHASES,
};

/* Report on a finished save. Phases that it did not reach have 0. */
struct save_report {
	int64_t begin_ns; /* clock_now_ns() */
	/* end of each phase, which is the begin of the next */
	int64_t end_ns[SAVE_PHASES];
	uint64_t given_bytes, copied_bytes, stored_bytes,
		named_bytes; /* by this node */
	bool is_durable;
};

/* Take the oldest report of the last 16 that was not taken; false: there is none. */
bool saves_take_report(struct saves *s, struct save_report *ret);

#endif
