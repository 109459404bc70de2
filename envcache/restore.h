// SPDX-License-Identifier: Apache-2.0
/* Restore a snapshot to its targets by unpacking it. */
#ifndef BOOTSEER_ENVCACHE_RESTORE_H
#define BOOTSEER_ENVCACHE_RESTORE_H

#include <stdatomic.h>

#include "envcache/envcache.h"

/* Called when everything is in place and can still be undone; other than 0: undo it. */
struct env_restore_check {
	int (*is_good)(struct env_restore_check *c, struct error *err);
	/* Set by is_good() if the snapshot itself is bad, for all nodes; an error alone may have
	 * local causes. */
	bool is_bad;
};

/* A range of a snapshot's virtual device (docs/formats/blockmap.md). */
struct env_range {
	uint64_t off;
	uint32_t len;
};
#define ENV_GIVE_BYTES (8u << 20)
#define ENV_GIVE_RANGES 1024u

/* A source of a snapshot's metadata and blocks that is cheaper than the store.  It is not trusted:
 * all data is verified by digest, and after a failure or wrong bytes the store is used instead. */
struct env_giver {
	int meta, map; /* descriptors of the unpacked metadata image and block
	                * map */
	/* Read all the ranges into `buf`, one after the other: at most ENV_GIVE_BYTES and
	 * ENV_GIVE_RANGES. Called on any thread, one call at a time; must have a timeout. */
	int (*give)(struct env_giver *g, const struct env_range *ranges,
		    size_t n, void *buf, struct error *err);
	/* Set by env_restore(): bytes of contents that were used; and the error after which the
	 * giver was not used any more. */
	uint64_t given;
	struct error failed;
};

/* Parameters of a restore; all is borrowed until it ends. */
struct env_restore_request {
	struct object_store *store;
	const struct env_snapshot *snap;
	const struct env_targets *targets;
	unsigned int threads; /* 1 to 64; 0: one for each processor */
	/* Deadline to wait for another restore in the targets (CLOCK_MONOTONIC). */
	int64_t others_ns;
	struct env_giver *giver; /* NULL: all data comes from the store */
	/* May be NULL; when it gets true, the first of the two steps soon fails. */
	const atomic_bool *stop;
};

/*
 * Restore a snapshot to the targets.  Nothing is changed there before all data was read and
 * verified; a later failure undoes everything.  `check` may be NULL; its error is returned.
 * Returns 1 when another process restored it already; `check` is still called.  -ESTALE: the
 * targets are not as they were when the key was made; -EBUSY: another restore is under way there.
 */
int env_restore(const struct env_restore_request *q,
		struct env_restore_check *check, struct error *err) MUST_CHECK;

/* env_restore() in two steps; the first only adds staging folders to the targets, and keeps them
 * locked. */
struct env_restoring;
int env_restore_begin(const struct env_restore_request *q,
		      struct env_restoring **ret, struct error *err) MUST_CHECK;
/* The second step; frees `r` in any case. */
int env_restore_end(struct env_restoring *r, struct env_restore_check *check,
		    struct error *err) MUST_CHECK;
void env_restore_drop(struct env_restoring *r); /* NULL is allowed */

#endif
