// SPDX-License-Identifier: Apache-2.0
/*
 * A restore that is begun before it is known that it is the right one: beside the look at all
 * names of a system, which the key is of and which takes as long as half of the fetching.
 * What was fetched is used when the key is that of the guess, and dropped else.
 */
#ifndef BOOTSEER_CLI_ENV_GUESS_H
#define BOOTSEER_CLI_ENV_GUESS_H

#include "cli/env.h"
#include "cli/env_mount.h"
#include "common/thread.h"

struct env_guess {
	/* The beginner's; all is borrowed, and not used otherwise until
	 * env_guess_settle(). */
	struct env_catalog *catalog;
	const struct env_key *near;
	struct env_mount_job job; /* where; bootseerd may give the blocks */
	/* Its own. */
	struct thread thread;
	bool is_begun;
	atomic_bool stop;
	atomic_bool
		has_snap; /* what follows is set, and `catalog` is free again */
	struct env_snapshot snap;
	struct env_giver *giver;
	struct error why_not_given;      /* code 0: nothing failed */
	struct env_restoring *restoring; /* NULL: it failed; once joined */
	struct error hangs; /* why the store is not asked again; once joined */
};

/* When it cannot be begun there is none. */
void env_guess_begin(struct env_guess *g);
/* The key is known: a guess of another one, or that is not made yet, is dropped. */
void env_guess_settle(struct env_guess *g, const struct digest *key);
/* Wait for what was begun of `snap`, and have it: the caller ends it, while `g` lives.  NULL:
 * there is none. */
struct env_restoring *env_guess_take(struct env_guess *g,
				     const struct env_snapshot *snap);
/* Nothing is left of it, nor in the targets; one that was dropped, or is zero, is no matter. */
void env_guess_drop(struct env_guess *g);
/* Check the store after a guess that was dropped, or that env_guess_take() has nothing
 * of: a store that did not answer it in time would be waited for twice. -ETIMEDOUT; 0: it
 * may be asked. */
int env_guess_check_store(const struct env_guess *g,
			  struct error *err) MUST_CHECK;

#endif
