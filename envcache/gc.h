// SPDX-License-Identifier: Apache-2.0
/*
 * Garbage collection: what has expired by the last use, by the space that all have, and
 * what captures left that nothing leads to. Blocks; one thread. docs/environments.md,
 * "The snapshots".
 */
#ifndef BOOTSEER_ENVCACHE_GC_H
#define BOOTSEER_ENVCACHE_GC_H

#include "envcache/envcache.h"

/* The fate of a snapshot, and why. */
enum env_gc_fate {
	/* Fates of snapshots that are removed. */
	ENV_GC_UNUSED, /* for `older_ms` */
	ENV_GC_BAD,
	ENV_GC_SPACE, /* used longest ago, and all have more than `keep_bytes` */
	/* Fates of snapshots that stay. */
	ENV_GC_IN_USE, /* used since, and there is room */
	ENV_GC_PINNED,
	ENV_GC_CHANGED, /* pinned, used, removed or made anew meanwhile */
	ENV_GC_UNREADABLE,
	ENV_GC_FATES,
};
#define ENV_GC_FIRST_KEPT ENV_GC_IN_USE

struct env_gc_told {
	const struct digest *key;
	enum env_gc_fate fate;
	int64_t used_ms; /* 0: not known */
};

struct env_gc {
	int64_t now_ms;      /* wall clock, the store's if it has one */
	int64_t older_ms;    /* not used for so long; < 0: of any age is kept */
	uint64_t keep_bytes; /* of all, stored; those used last are kept */
	bool dry_run;
	/* Told of each snapshot, of those that are removed afterwards; may be NULL. */
	void (*told)(void *arg, const struct env_gc_told *t);
	void *arg;
	/* Set by env_gc(); zero before. */
	uint64_t n_snapshots, n_leftovers, bytes, kept_bytes;
	uint64_t n_doomed,
		doomed_bytes; /* packs that go with a later collection */
	/* Packs that no snapshot needs, too young to be known for leftovers. */
	uint64_t n_young, young_bytes;
	/* The snapshot that cannot be read, and why: then no shared pack goes; code 0:
	 * none. */
	struct error unknown;
	/* Why it is not known what uploads and locks were left; code 0: they went. */
	struct error unswept;
};
/* Remove what has expired or is bad, but what is pinned; what is older than two days and
 * no index leads to: blobs, leases, notes; packs that snapshots share in two collections,
 * two days apart. */
int env_gc(struct object_store *s, struct env_gc *gc,
	   struct error *err) MUST_CHECK;

#endif
