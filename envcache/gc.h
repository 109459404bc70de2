// SPDX-License-Identifier: Apache-2.0
/*
 * Garbage collection of a store: snapshots that expired by last use or by space, and leftovers of
 * captures.  Blocks; one thread.  See docs/environments.md, "The snapshots".
 */
#ifndef BOOTSEER_ENVCACHE_GC_H
#define BOOTSEER_ENVCACHE_GC_H

#include "envcache/envcache.h"

/* The fate of a snapshot, and why. */
enum env_gc_fate {
	/* Fates of snapshots that are removed. */
	ENV_GC_UNUSED, /* not used for `older_ms` */
	ENV_GC_BAD,
	ENV_GC_SPACE, /* longest unused, when all take more than `keep_bytes` */
	/* Fates of snapshots that stay. */
	ENV_GC_IN_USE, /* used recently, and there is room */
	ENV_GC_PINNED,
	ENV_GC_CHANGED, /* pinned, used, removed or replaced during the
	                 * collection */
	ENV_GC_UNREADABLE,
	ENV_GC_FATES,
};
#define ENV_GC_FIRST_KEPT ENV_GC_IN_USE

struct env_gc_told {
	const struct digest *key;
	enum env_gc_fate fate;
	int64_t used_ms; /* 0: unknown */
};

struct env_gc {
	int64_t now_ms;      /* the store's time if it has a clock, else ours */
	int64_t older_ms;    /* remove snapshots unused this long; < 0: none */
	uint64_t keep_bytes; /* bound of bytes stored for all snapshots */
	bool dry_run;
	/* Called with the fate of each snapshot; of those to be removed, before the removal.  May
	 * be NULL. */
	void (*told)(void *arg, const struct env_gc_told *t);
	void *arg;
	/* Results, set by env_gc(); zero before. */
	uint64_t n_snapshots, n_leftovers, bytes, kept_bytes;
	uint64_t n_doomed, doomed_bytes; /* packs marked for deletion by a later
	                                  * collection */
	/* Unused packs that are too young to be garbage for certain. */
	uint64_t n_young, young_bytes;
	/* A snapshot that cannot be read, and why; then no shared pack is deleted.  Code 0:
	 * none. */
	struct error unknown;
	/* Why leftover uploads and locks could not be removed; code 0: no error. */
	struct error unswept;
};
/* Remove expired and bad snapshots unless pinned; and blobs, leases and marks without an index if
 * older than two days.  An unused shared pack is marked by one collection, and deleted by another
 * at least two days later. */
int env_gc(struct object_store *s, struct env_gc *gc,
	   struct error *err) MUST_CHECK;

#endif
