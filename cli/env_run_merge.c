// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer env run --merge`: a cache that all nodes share.  Fetch the cached files that this node
 * lacks, run the command, and add the files that are new in the targets to the cache.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/env_child.h"
#include "cli/env_run.h"
#include "envcache/lock.h"
#include "common/clock.h"

static int find_key(struct env_run_key *k, struct error *err)
{
	int rc = env_work_find_targets(&k->work, err);

	if (rc == 0)
		rc = env_recover(&k->work.targets, k->deadline_ns, err);
	if (rc == 0)
		rc = env_work_find_inputs(&k->work, err);
	return rc < 0 ? rc : env_work_key(&k->work, &k->key, err);
}

/* Get the cache's snapshot from the store.  1: it is in *ret. */
static int get_snapshot(struct env_run *r, struct env_snapshot *ret,
			struct error *err)
{
	int rc = env_catalog_get(r->store.at.catalog, &r->key.key.digest, ret,
				 err);

	return rc == -ENOENT ? 0 : rc < 0 ? rc : 1;
}

static void report_target_wait(void *arg)
{
	env_run_say_wait(arg, "another 'env run' works on these targets: "
			      "waiting for its end");
}

/* Fetch the cache.  Of several processes that start on a node, the first fetches, and the others
 * find the files. */
static int fetch_cache(struct env_run *r, struct error *err)
{
	struct env_run_key *k = &r->key;
	struct env_snapshot snap;
	int rc = find_key(k, err);

	if (rc == 0)
		rc = env_lock_take(&k->work.targets, k->deadline_ns,
				   report_target_wait, k, &k->lock, err);
	if (rc >= 0)
		rc = get_snapshot(r, &snap, err);
	if (rc > 0) {
		rc = env_run_restore(&r->restore, &r->guess, &snap, false,
				     &r->is_bad_for_all, err);
		if (rc > 0)
			env_run_note_name(r);
		env_snapshot_fini(&snap);
	}
	/* Release the lock: the command may take days, and other commands of the node run
	 * meanwhile. */
	if (k->lock >= 0)
		(void)close(steal_fd(&k->lock));
	return rc;
}

static void report_wait_for_merge(void *arg, const char *holder)
{
	const struct env_run_key *k = arg;

	if (!k->quiet)
		fprintf(stderr, "bootseer env run: others add to the cache: "
				"waiting for them\n");
}

static int take_turn(struct env_run *r, struct env_turn **ret,
		     struct error *err)
{
	const struct env_turn_options opts = {
		.ttl_ms = (uint32_t)(r->cfg->lease / NS_PER_MS),
		.deadline_ns = r->key.deadline_ns,
		.may_be_made = true,
		.waits = report_wait_for_merge,
		.arg = &r->key,
	};
	enum env_turn_kind kind = ENV_TURN_MINE;
	int rc = env_turn_take(r->store.at.catalog, &r->key.key.digest, &opts,
			       &kind, ret, err);

	return rc == 0 && kind != ENV_TURN_MINE
		       ? error_set(err, ETIMEDOUT,
				   "others add to the cache for longer than "
				   "--wait")
		       : rc;
}

/* A damaged cache cannot be restored, so it is replaced by the files of this node. */
static void warn_of_damaged_cache(const struct error *why)
{
	fprintf(stderr,
		"bootseer env run: %s: the cache is made anew of what this "
		"node has\n",
		why->msg);
}

/* Publish the union of the files here and those of `has`, which may be NULL. */
static int publish_union(struct env_run *r, const struct env_snapshot *has,
			 struct error *err)
{
	const struct env_capture_options opts = {
		.program = r->key.work.command[0],
		.replaces = has,
	};
	const struct env_run_key *k = &r->key;
	const struct env_restore_request q = { .store = r->store.at.store,
					       .snap = has,
					       .targets = &k->work.targets,
					       .others_ns = k->deadline_ns };
	struct env_snapshot snap;
	int rc = has ? env_restore(&q, NULL, err) : 0;

	if (rc == -EBADMSG) {
		warn_of_damaged_cache(err);
		rc = 0;
	}
	if (rc >= 0)
		rc = env_capture(r->store.at.catalog, &k->key, &k->work.targets,
				 NULL, &opts, &snap, err);
	if (rc < 0)
		return rc;
	env_run_note_name(r);
	if (!k->quiet)
		env_run_say_done("merged", &snap,
				 k->deadline_ns - r->cfg->wait);
	env_snapshot_fini(&snap);
	return 0;
}

/* Add new files to the cache. 1: the store lacks some, and the turn is needed to add them. */
static int add_new_files_once(struct env_run *r, bool has_turn,
			      struct error *err)
{
	struct env_snapshot snap;
	bool has_more = false;
	int found = get_snapshot(r, &snap, err), rc;

	if (found == -EBADMSG) {
		/* The index is damaged, so none of the cached files can be found. */
		if (!has_turn)
			return 1;
		warn_of_damaged_cache(err);
		found = env_snapshot_remove(r->store.at.store,
					    &r->key.key.digest, err);
	}
	rc = found;
	if (rc >= 0)
		rc = env_merge_has_more(r->store.at.store,
					found && !r->is_bad_for_all ? &snap
								    : NULL,
					&r->key.work.targets, &has_more, err);
	if (rc == 0 && has_more && has_turn)
		rc = publish_union(r, found ? &snap : NULL, err);
	else if (rc == 0)
		rc = has_more;
	if (found > 0)
		env_snapshot_fini(&snap);
	return rc;
}

/* Repeated if the targets, or the store, change while the union is made. */
#define ATTEMPTS 3

/* Most nodes of a job compile the same, and have nothing to add once the first node did. */
static int add_to_cache(struct env_run *r, struct error *err)
{
	struct env_turn *turn = NULL;
	int rc;

	r->key.deadline_ns = clock_now_ns() + r->cfg->wait;
	rc = add_new_files_once(r, false, err);
	if (rc > 0)
		rc = take_turn(r, &turn, err);
	for (int i = 0; turn && i < ATTEMPTS; i++) {
		rc = add_new_files_once(r, true, err);
		if (rc != -ESTALE && rc != -EEXIST)
			break;
	}
	env_turn_end(turn, false);
	return rc;
}

int env_run_merge(struct env_run *r, int *ret_status, struct error *err)
{
	bool has_store = !r->store.away.code;
	int told = 0, rc = has_store ? fetch_cache(r, err) : 0;

	if (!has_store)
		*err = r->store.away;
	if (rc < 0 || !has_store)
		fprintf(stderr,
			"bootseer env run: %s: the command is run without the "
			"cache\n",
			err->msg);
	rc = env_child_run(r->key.work.command, -1, NULL, ret_status, &told,
			   err);
	if (rc < 0 || !has_store || !r->key.key.n)
		return rc;
	if (told)
		rc = error_set(err, EINTR,
			       "the command was told to end by signal %d",
			       told);
	else if (*ret_status == 0)
		rc = add_to_cache(r, err);
	if (rc < 0)
		fprintf(stderr, "bootseer env run: not merged: %s\n", err->msg);
	return 0;
}
