// SPDX-License-Identifier: Apache-2.0
/*
 * Shared packs that no snapshot refers to: such a pack is marked ("doomed"), and deleted by a
 * collection two days later unless a snapshot refers to it by then.
 */
#ifndef BOOTSEER_ENVCACHE_GC_PACKS_H
#define BOOTSEER_ENVCACHE_GC_PACKS_H

#include "envcache/gc.h"

/* Grace period of blobs without an index: a capture with shared packs ends within 12 hours, and
 * the clocks that date objects may differ by a day. */
#define ENV_GRACE_MS (INT64_C(48) * 3600 * 1000)

struct gc_pack {
	struct digest digest;
	uint64_t size;
	int64_t put_ms, doomed_ms; /* by the store's clock; 0: not marked for
	                            * deletion */
	bool is_there; /* the pack itself exists, not only its mark */
	uint32_t n_refs;
};

struct gc_packs {
	struct gc_pack *list; /* sorted by digest */
	size_t n, cap;
	/* Why references are not fully known; code 0: they are. */
	struct error unknown;
};

/* List packs and marks.  Call it before snapshots are listed: a snapshot that appears in between
 * refers to no marked pack. */
int gc_packs_list(struct object_store *s, struct gc_packs *ret,
		  struct error *err) MUST_CHECK;
void gc_packs_fini(struct gc_packs *p);

/* References of a snapshot to packs. */
struct gc_refs {
	uint32_t *packs; /* indexes into gc_packs.list */
	size_t n;
	uint64_t own_bytes; /* bytes that only this snapshot uses */
};
/* Count a snapshot's references.  If it cannot be read, p->unknown is set. */
int gc_packs_refer(struct gc_packs *p, struct object_store *s,
		   const struct env_snapshot *snap, struct gc_refs *ret,
		   struct error *err) MUST_CHECK;
/* Remove a snapshot's references.  Returns the bytes of packs that have no reference left. */
uint64_t gc_packs_unrefer(struct gc_packs *p, const struct gc_refs *r);
/* The bytes of packs with references. */
uint64_t gc_packs_bytes(const struct gc_packs *p);

int gc_packs_collect(const struct gc_packs *p, struct object_store *s,
		     struct env_gc *gc, struct error *err) MUST_CHECK;

#endif
