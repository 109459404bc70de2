// SPDX-License-Identifier: Apache-2.0
/*
 * Packs that all snapshots of a store share: env/packs/DIGEST. The manifests of snapshots refer to
 * them. docs/decisions/0016-environments-by-mount.md says why an unused pack is marked for
 * deletion ("doomed") two days before it is deleted.
 */
#ifndef BOOTSEER_ENVCACHE_SHARED_H
#define BOOTSEER_ENVCACHE_SHARED_H

#include "envcache/names.h"
#include "image/artifact/artifact.h"
#include "image/writer/upload.h"

/* A set of digests, sorted. */
struct env_digests {
	struct digest *list;
	size_t n, cap;
};
/* Append a digest; call env_digests_sort() after the last one. */
int env_digests_add(struct env_digests *d, const struct digest *one,
		    struct error *err) MUST_CHECK;
void env_digests_sort(struct env_digests *d);
bool env_digests_has(const struct env_digests *d, const struct digest *one);
void env_digests_fini(struct env_digests *d);

/* List the packs marked for deletion, which no new snapshot may use.  -E2BIG: too many. */
int env_doomed_list(struct object_store *s, struct env_digests *ret,
		    struct error *err) MUST_CHECK;

/* Is the pack in the shared folder, with the right bytes?  Reads all of it. */
bool env_pack_is_there(struct object_store *s, const struct digest *d,
		       uint64_t size);

/* Check just before an index is published that the pack exists and is not marked for deletion by
 * `doomed`, a list made after all else was read.  -EAGAIN: it must be stored again. */
int env_pack_check(struct object_store *s, const struct env_digests *doomed,
		   const struct oci_descriptor *p,
		   struct error *err) MUST_CHECK;

/*
 * Where to store the packs of a new snapshot: in the shared folder, except packs marked for
 * deletion, which go into the snapshot's own folder.  An existing pack is read, and replaced if
 * its bytes are wrong.  All is borrowed.
 */
struct shared_target {
	struct upload_target target;
	struct object_store *store;
	struct oci_store *own; /* the snapshot's folder */
	const struct env_digests *doomed;
	struct env_digests kept; /* packs in `own`; not sorted */
	uint64_t added;          /* bytes that were stored */
};
void shared_target_init(struct shared_target *t, struct object_store *s,
			struct oci_store *own,
			const struct env_digests *doomed);
void shared_target_fini(struct shared_target *t);
/* Does the artifact have packs in the shared folder? */
bool shared_target_shares(const struct shared_target *t,
			  const struct artifact *a);
/* Is the pack in the snapshot's own folder? */
bool shared_target_is_own(const struct shared_target *t,
			  const struct digest *d);
/* env_pack_check() for all packs of the artifact in the shared folder. */
int shared_target_check(const struct shared_target *t, const struct artifact *a,
			struct error *err) MUST_CHECK;

#endif
