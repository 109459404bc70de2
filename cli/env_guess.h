// SPDX-License-Identifier: Apache-2.0
/*
 * A restore that starts from a guessed key.  It runs while the real key is computed, which lists
 * all files of the system and takes half as long as the fetching.  The fetched data is used if the
 * guess was right, and dropped otherwise.
 */
#ifndef BOOTSEER_CLI_ENV_GUESS_H
#define BOOTSEER_CLI_ENV_GUESS_H

#include "cli/env.h"
#include "cli/env_mount.h"
#include "common/thread.h"

struct env_guess {
	/* Set by the caller; all is borrowed, and not used elsewhere until env_guess_settle(). */
	struct env_catalog *catalog;
	const struct env_key *near;
	struct env_mount_job job; /* where to restore */
	/* Private. */
	struct thread thread;
	bool is_begun;
	atomic_bool stop;
	atomic_bool has_snap; /* the members below are set, and `catalog` may be
	                       * used elsewhere */
	struct env_snapshot snap;
	struct env_giver *giver;
	struct error why_not_given;      /* why `giver` is NULL; code 0: no
	                                  * error */
	struct env_restoring *restoring; /* NULL: the restore failed; valid
	                                  * after the thread was joined */
	struct error hangs; /* timeout of the store; valid after the join */
};

/* Start the guess; if that fails there simply is none. */
void env_guess_begin(struct env_guess *g);
/* Call when the key is known: a guess of another key, or one without a snapshot yet, is dropped. */
void env_guess_settle(struct env_guess *g, const struct digest *key);
/* Wait for the restore of `snap` and take it; the caller has to end it while `g` lives.  NULL:
 * there is none. */
struct env_restoring *env_guess_take(struct env_guess *g,
				     const struct env_snapshot *snap);
/* Drop the guess and all that it restored.  May be called twice, or on a zeroed struct. */
void env_guess_drop(struct env_guess *g);
/* Check whether the store answered during a guess that was dropped or failed.  -ETIMEDOUT: it did
 * not, so do not wait for it again; 0: it may be asked. */
int env_guess_check_store(const struct env_guess *g,
			  struct error *err) MUST_CHECK;

#endif
