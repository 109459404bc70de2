// SPDX-License-Identifier: Apache-2.0
/* A snapshot is put into its targets. */
#ifndef BOOTSEER_ENVCACHE_RESTORE_H
#define BOOTSEER_ENVCACHE_RESTORE_H

#include <stdatomic.h>

#include "envcache/envcache.h"

/* Asked once all is in its place and can still be taken back; not 0: take it back. */
struct env_restore_check {
	int (*is_good)(struct env_restore_check *c, struct error *err);
	/* Set by is_good(): it is the snapshot that is no good, here and elsewhere.  The
	 * error alone does not say so: others have the same. */
	bool is_bad;
};

/* Bytes of a snapshot's virtual device (docs/formats/blockmap.md). */
struct env_range {
	uint64_t off;
	uint32_t len;
};
#define ENV_GIVE_BYTES (8u << 20)
#define ENV_GIVE_RANGES 1024u

/* Somebody who has a snapshot's metadata and blocks, or gets them more cheaply than by the
 * store: nothing that comes of it is used before it was compared with its digest, and after a
 * failure, or wrong bytes, the store is read. */
struct env_giver {
	int meta,
		map; /* descriptors of what metadata image and block map unpack to */
	/* Read all of the ranges, one behind the other, into `buf`: ENV_GIVE_BYTES and
	 * ENV_GIVE_RANGES at most. On any thread, one at a time; has a deadline. */
	int (*give)(struct env_giver *g, const struct env_range *ranges,
		    size_t n, void *buf, struct error *err);
	/* Set by env_restore(): bytes of contents that were used; why it was asked no more. */
	uint64_t given;
	struct error failed;
};

/* A snapshot that is to be put into targets; all is borrowed until that ends. */
struct env_restore_request {
	struct object_store *store;
	const struct env_snapshot *snap;
	const struct env_targets *targets;
	unsigned int threads; /* 1 to 64; 0: as many as there are processors */
	/* Another restore there is waited for until then (CLOCK_MONOTONIC). */
	int64_t others_ns;
	struct env_giver *giver; /* NULL: all comes from the store */
	/* NULL, or once it is set the first of two steps fails soon. */
	const atomic_bool *stop;
};

/*
 * Put a snapshot into the targets.  Nothing is put there before all of it was read and
 * checked; when it fails afterwards, all is taken back.  `check` may be NULL; what it returns
 * is returned.
 * Returns 1 when all of it is there already, put by another process; `check` is asked.
 * -ESTALE: the targets are not as they were when the key was made; -EBUSY: another restore
 * works there.
 */
int env_restore(const struct env_restore_request *q,
		struct env_restore_check *check, struct error *err) MUST_CHECK;

/* The same in two steps, of which the first puts only staging folders into the targets, which
 * stay locked. */
struct env_restoring;
int env_restore_begin(const struct env_restore_request *q,
		      struct env_restoring **ret, struct error *err) MUST_CHECK;
/* Frees it, whatever comes of it. */
int env_restore_end(struct env_restoring *r, struct env_restore_check *check,
		    struct error *err) MUST_CHECK;
void env_restore_drop(struct env_restoring *r); /* NULL is allowed */

#endif
