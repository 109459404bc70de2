// SPDX-License-Identifier: Apache-2.0
/*
 * A snapshot that is mounted, at its targets: in our mount namespace or in that of a
 * container.  As envcache.h otherwise.
 */
#ifndef BOOTSEER_ENVCACHE_JOIN_H
#define BOOTSEER_ENVCACHE_JOIN_H

#include "envcache/envcache.h"

/*
 * The process at the other end of a Unix socket, in another mount namespace: a container
 * that asks for an environment.  Its number may be another's later; it is not looked at
 * again.  One thread, which is all the process has.
 *   -ENOTSUP  the kernel does not tell, or the process has a user namespace of its own
 *   -EPERM    it is in our mount namespace
 */
struct env_asker;
int env_asker_open(int socket, struct env_asker **ret,
		   struct error *err) MUST_CHECK;
/* Give this process a mount namespace of its own, and give up rights that a mount does
 * not need.  Before env_join(), and after the snapshot was mounted. */
int env_asker_isolate(struct env_asker *a, struct error *err) MUST_CHECK;
/* Unmount what env_join() mounted for it. */
void env_asker_undo(struct env_asker *a);
/* Free the asker; mounts stay. NULL is allowed. */
void env_asker_free(struct env_asker *a);

/* A snapshot whose tree is mounted; all is borrowed. */
struct env_join {
	const struct env_targets *targets;
	const char *tree;   /* where it is mounted */
	const char *work;   /* a folder that is there, for what is written */
	const char *source; /* name of the overlays in the table of mounts */
	/* In whose namespace the targets are, which must be there; NULL: in ours. */
	struct env_asker *asker;
};

/*
 * Keep other restores out of the targets, until env_targets_release(): before env_join().
 * Returns 1 when the snapshot is there already.
 * -ESTALE: the targets are not as they were when the snapshot's key was made; -EBUSY:
 * another has had them until `deadline_ns` (CLOCK_MONOTONIC).
 */
struct env_hold;
int env_targets_hold(const struct env_snapshot *snap,
		     const struct env_targets *t, int64_t deadline_ns,
		     struct env_hold **ret, struct error *err) MUST_CHECK;
void env_targets_release(struct env_hold *h); /* NULL is allowed */

/*
 * Mount an overlay at each target in which the snapshot changed something: what is there
 * below, the snapshot above, on top a folder in `work` that takes what is written.  All or
 * none.  -ENOTSUP: it has to be unpacked, the message says why.
 */
int env_join(const struct env_join *j, struct error *err) MUST_CHECK;
/* In the folder `work` of an env_join() whose mounts nobody has found good yet: made
 * before, and removed once they are.  Whoever makes it keeps it locked (flock) as long as
 * it lives. */
#define ENV_UNCONFIRMED "unconfirmed"
/* Unmount what a process that was killed had mounted at the targets, and nobody found
 * good, of sources that begin with `prefix`.  One that lives is waited for, until
 * `deadline_ns`: -EBUSY. */
int env_join_recover(const struct env_targets *t, const char *prefix,
		     int64_t deadline_ns, struct error *err) MUST_CHECK;
/* Unmount all overlays of this source, also those that are in use: whoever works in one
 * keeps it until then.  Goes on when one cannot be unmounted. */
int env_part_all(const char *source, struct error *err) MUST_CHECK;
/* Unmount the overlay at `target`, whose source begins with `prefix`, and the others of
 * the same source, which is the caller's; folders that were made for them go.  -EINVAL:
 * there is none; -EBUSY: it is in use. */
int env_part(const char *target, const char *prefix, char **ret_source,
	     struct error *err) MUST_CHECK;

#endif
