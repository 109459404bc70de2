// SPDX-License-Identifier: Apache-2.0
/*
 * Packs that all snapshots of a store share: env/packs/DIGEST.  Who refers to one is in
 * the manifests of snapshots; docs/decisions/0016-environments-by-mount.md has why a pack
 * is doomed two days before it goes.
 */
#ifndef BOOTSEER_ENVCACHE_SHARED_H
#define BOOTSEER_ENVCACHE_SHARED_H

#include "envcache/names.h"
#include "image/artifact/artifact.h"
#include "image/writer/upload.h"

/* Digests, sorted. */
struct env_digests {
	struct digest *list;
	size_t n, cap;
};
/* Add one that is not sorted in; env_digests_sort() after the last. */
int env_digests_add(struct env_digests *d, const struct digest *one,
		    struct error *err) MUST_CHECK;
void env_digests_sort(struct env_digests *d);
bool env_digests_has(const struct env_digests *d, const struct digest *one);
void env_digests_fini(struct env_digests *d);

/* The packs that are to go: nobody begins to refer to one.  -E2BIG: too many. */
int env_doomed_list(struct object_store *s, struct env_digests *ret,
		    struct error *err) MUST_CHECK;

/* Read the pack among those that are shared: is it there, with the right bytes? */
bool env_pack_is_there(struct object_store *s, const struct digest *d,
		       uint64_t size);

/* Just before an index is put: is the pack there, and not doomed?  The list is newer than
 * all that was read.  -EAGAIN */
int env_pack_check(struct object_store *s, const struct env_digests *doomed,
		   const struct oci_descriptor *p,
		   struct error *err) MUST_CHECK;

/*
 * Where packs of a new snapshot go: to the others, but one that is doomed into the
 * snapshot's own folder.  What lies there under a pack's name is read, and replaced where
 * its bytes are others.  All is borrowed.
 */
struct shared_target {
	struct upload_target target;
	struct object_store *store;
	struct oci_store *own; /* the snapshot's folder */
	const struct env_digests *doomed;
	struct env_digests kept; /* packs in the own folder; not sorted */
	uint64_t added;          /* bytes that were put */
};
void shared_target_init(struct shared_target *t, struct object_store *s,
			struct oci_store *own,
			const struct env_digests *doomed);
void shared_target_fini(struct shared_target *t);
/* Does the artifact have packs among those that are shared? */
bool shared_target_shares(const struct shared_target *t,
			  const struct artifact *a);
/* Is the pack in the snapshot's own folder? */
bool shared_target_is_own(const struct shared_target *t,
			  const struct digest *d);
/* env_pack_check() of all packs of the artifact that are shared. */
int shared_target_check(const struct shared_target *t, const struct artifact *a,
			struct error *err) MUST_CHECK;

#endif
