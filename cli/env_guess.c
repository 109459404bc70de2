// SPDX-License-Identifier: Apache-2.0
#include "cli/env_guess.h"

#include <errno.h>

#include "cli/env_give.h"

/* Only a timeout of the store is kept; other errors are retried once the key is known. */
static void note_store_timeout(struct env_guess *g, int rc,
			       const struct error *why)
{
	if (rc == -ETIMEDOUT)
		g->hangs = *why;
}

static int look_up(struct env_guess *g)
{
	struct error why = ERROR_INIT;
	struct digest key;
	int rc = env_near_get(env_catalog_store(g->catalog), g->near, &key,
			      &why);

	if (rc == 0)
		rc = env_catalog_get(g->catalog, &key, &g->snap, &why);
	note_store_timeout(g, rc, &why);
	if (rc < 0)
		return rc;
	if (!env_key_is_near(&g->snap.key, g->near)) {
		env_snapshot_fini(&g->snap);
		return -ENOENT;
	}
	atomic_store(&g->has_snap, true);
	return 0;
}

static void *guess_main(void *arg)
{
	struct env_guess *g = arg;
	struct env_restore_request q = { .store = env_catalog_store(g->catalog),
					 .snap = &g->snap,
					 .targets = g->job.targets,
					 .stop = &g->stop };
	struct error why = ERROR_INIT;
	int rc;

	if (look_up(g) < 0 || atomic_load(&g->stop))
		return NULL;
	g->job.snap = &g->snap;
	(void)!env_give_open(&g->job, &g->giver, &g->why_not_given);
	/* Do not wait for other processes that restore there: if the guess is right there is time
	 * for that later. */
	if (atomic_load(&g->stop))
		return NULL;
	q.giver = g->giver;
	rc = env_restore_begin(&q, &g->restoring, &why);
	note_store_timeout(g, rc, &why);
	return NULL;
}

void env_guess_begin(struct env_guess *g)
{
	g->is_begun = thread_start(&g->thread, guess_main, g, NULL) == 0;
}

void env_guess_settle(struct env_guess *g, const struct digest *key)
{
	if (!atomic_load(&g->has_snap) ||
	    !digest_equal(&g->snap.key.digest, key))
		env_guess_drop(g);
}

struct env_restoring *env_guess_take(struct env_guess *g,
				     const struct env_snapshot *snap)
{
	if (!g->is_begun)
		return NULL;
	if (digest_equal(&g->snap.manifest, &snap->manifest)) {
		thread_join(&g->thread);
		if (g->restoring)
			return steal_ptr(&g->restoring);
	}
	env_guess_drop(g);
	return NULL;
}

void env_guess_drop(struct env_guess *g)
{
	if (!g->is_begun)
		return;
	atomic_store(&g->stop, true);
	thread_join(&g->thread);
	env_restore_drop(g->restoring);
	env_give_close(g->giver);
	if (atomic_load(&g->has_snap))
		env_snapshot_fini(&g->snap);
	g->restoring = NULL;
	g->giver = NULL;
	atomic_store(&g->has_snap, false);
	g->is_begun = false;
}

int env_guess_check_store(const struct env_guess *g, struct error *err)
{
	return !g->is_begun && g->hangs.code
		       ? error_set(err, g->hangs.code, "%s", g->hangs.msg)
		       : 0;
}
