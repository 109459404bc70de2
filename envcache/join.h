// SPDX-License-Identifier: Apache-2.0
/*
 * Join a mounted snapshot to its targets: in our mount namespace or in a container's.  Conventions
 * as in envcache.h.
 */
#ifndef BOOTSEER_ENVCACHE_JOIN_H
#define BOOTSEER_ENVCACHE_JOIN_H

#include "envcache/envcache.h"

/*
 * Open the process at the other end of a Unix socket, a container's process in another mount
 * namespace that asks for an environment.  It is held by descriptors, as its number may be reused
 * later.  This process must have one thread only.
 *   -ENOTSUP  the kernel lacks the means, or the process has its own user namespace
 *   -EPERM    the process is in our own mount namespace
 */
struct env_asker;
int env_asker_open(int socket, struct env_asker **ret,
		   struct error *err) MUST_CHECK;
/* Give this process its own mount namespace, and drop rights that a mount does not need.  Call it
 * after the snapshot was mounted and before env_join(). */
int env_asker_isolate(struct env_asker *a, struct error *err) MUST_CHECK;
/* Unmount the overlays that env_join() mounted for the asker. */
void env_asker_undo(struct env_asker *a);
/* Free the asker; its mounts stay.  NULL is allowed. */
void env_asker_free(struct env_asker *a);

/* A snapshot whose tree is mounted; all is borrowed. */
struct env_join {
	const struct env_targets *targets;
	const char *tree;   /* where the snapshot is mounted */
	const char *work;   /* an existing folder for written files */
	const char *source; /* name of the overlays in the mount table */
	/* The process in whose namespace the targets are (they must exist); NULL: in ours. */
	struct env_asker *asker;
};

/*
 * Lock the targets against other restores, until env_targets_release().  Call it before
 * env_join().  Returns 1 when the snapshot is in the targets already.  -ESTALE: the targets are
 * not as they were when the snapshot's key was made; -EBUSY: another process had them until
 * `deadline_ns` (CLOCK_MONOTONIC).
 */
struct env_hold;
int env_targets_hold(const struct env_snapshot *snap,
		     const struct env_targets *t, int64_t deadline_ns,
		     struct env_hold **ret, struct error *err) MUST_CHECK;
void env_targets_release(struct env_hold *h); /* NULL is allowed */

/*
 * Mount an overlay at each target in which the snapshot changed something: below the present
 * content, above it the snapshot, on top a folder in `work` for written files.  All or none are
 * mounted.  -ENOTSUP: the snapshot has to be unpacked instead; the message says why.
 */
int env_join(const struct env_join *j, struct error *err) MUST_CHECK;
/* File in the folder `work` of an env_join() whose mounts are not confirmed yet: created before
 * the mounts, and removed once they are confirmed.  The process that made it keeps it locked
 * (flock) while it lives. */
#define ENV_UNCONFIRMED "unconfirmed"
/* Unmount unconfirmed mounts that a killed process left at the targets, if their source begins
 * with `prefix`.  Wait for a process that still lives until `deadline_ns`: -EBUSY. */
int env_join_recover(const struct env_targets *t, const char *prefix,
		     int64_t deadline_ns, struct error *err) MUST_CHECK;
/* Unmount all overlays with this source, even those in use: processes in them keep them until they
 * leave.  Goes on after failures. */
int env_part_all(const char *source, struct error *err) MUST_CHECK;
/* Unmount the overlay at `target`, whose source must begin with `prefix`, and all overlays with
 * the same source; remove folders made for them.  `*ret_source`, the source, is the caller's.
 * -EINVAL: there is no such overlay; -EBUSY: it is in use. */
int env_part(const char *target, const char *prefix, char **ret_source,
	     struct error *err) MUST_CHECK;

#endif
