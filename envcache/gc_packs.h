// SPDX-License-Identifier: Apache-2.0
/*
 * Which of the packs that snapshots share nothing refers to: such a one is doomed, and
 * deleted by a collection two days later unless something refers to it by then.
 */
#ifndef BOOTSEER_ENVCACHE_GC_PACKS_H
#define BOOTSEER_ENVCACHE_GC_PACKS_H

#include "envcache/gc.h"

/* Grace period of blobs that no index leads to: a capture that shares packs ends within
 * 12 hours, and the clocks that date objects may differ by a day. */
#define ENV_GRACE_MS (INT64_C(48) * 3600 * 1000)

struct gc_pack {
	struct digest digest;
	uint64_t size;
	int64_t put_ms,
		doomed_ms; /* of the store's clock; 0: it is not doomed */
	bool is_there;     /* not only the mark */
	uint32_t n_refs;
};

struct gc_packs {
	struct gc_pack *list; /* by digest */
	size_t n, cap;
	/* Why it is not known what refers to them; code 0: it is known. */
	struct error unknown;
};

/* Before the snapshots are listed: what appears in between refers to no doomed pack. */
int gc_packs_list(struct object_store *s, struct gc_packs *ret,
		  struct error *err) MUST_CHECK;
void gc_packs_fini(struct gc_packs *p);

/* References of a snapshot to packs. */
struct gc_refs {
	uint32_t *packs; /* of gc_packs.list */
	size_t n;
	uint64_t own_bytes; /* in the store, that are its alone */
};
/* Count what the snapshot refers to; of one that cannot be read all is unknown. */
int gc_packs_refer(struct gc_packs *p, struct object_store *s,
		   const struct env_snapshot *snap, struct gc_refs *ret,
		   struct error *err) MUST_CHECK;
/* The bytes of packs that nothing else refers to. */
uint64_t gc_packs_unrefer(struct gc_packs *p, const struct gc_refs *r);
/* The bytes of packs that something refers to. */
uint64_t gc_packs_bytes(const struct gc_packs *p);

int gc_packs_collect(const struct gc_packs *p, struct object_store *s,
		     struct env_gc *gc, struct error *err) MUST_CHECK;

#endif
