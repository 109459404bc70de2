// SPDX-License-Identifier: Apache-2.0
/* Compute the command's key, and keep other processes off its targets. */
#include <errno.h>
#include <string.h>

#include "cli/env_run.h"
#include "envcache/lock.h"

/* May the store be asked for notes of files that the command makes itself?  Not beside a service,
 * which has no such notes, and beside which the store is not trusted. */
static bool may_ask_notes_of_made_files(const struct env_run_key *k,
					const struct env_run_store *s)
{
	bool has_file = false;

	for (size_t i = 0; i < k->work.inputs.n; i++)
		has_file = has_file ||
			   strcmp(k->work.inputs.items[i].kind, "file") == 0;
	return has_file && !k->work.made && !s->away.code && !s->at.client;
}

/* Find the inputs, without the files that the command makes itself. */
static int find_first_inputs(struct env_run_key *k, struct env_run_store *s,
			     struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = env_work_find_inputs(&k->work, err);

	if (rc < 0 || !may_ask_notes_of_made_files(k, s))
		return rc;
	/* A store that timed out is not asked again. */
	if (env_work_find_made(&k->work, s->at.store, &why) == -ETIMEDOUT)
		s->away = why;
	return k->work.made ? env_work_find_inputs(&k->work, err) : 0;
}

/* Start to fetch the snapshot that this command used last, while all names are listed.  The fetch
 * makes folders in the system, which a capture by another command would include. */
static int guess_snapshot(struct env_run_key *k, const struct env_run_store *s,
			  struct env_guess *g, struct error *err)
{
	int rc = env_work_key(&k->work, &k->near, err);

	if (rc == 0 && !s->away.code && k->lock >= 0)
		env_guess_begin(g);
	return rc;
}

int env_run_find_key(struct env_run_key *k, struct env_run_store *s,
		     struct env_guess *g, struct error *err)
{
	int rc = env_work_find_targets(&k->work, err);

	if (rc == 0)
		rc = env_join_recover(&k->work.targets, ENV_MOUNT_PREFIX,
				      k->deadline_ns, err);
	if (rc == 0 && k->lock < 0 && !k->is_within)
		k->is_others = !env_lock_try(&k->work.targets, &k->lock);
	/* A half-restored target may belong to the process that has the lock; after waiting for
	 * it, the key is computed again. */
	if (rc == 0 && !k->is_others)
		rc = env_recover(&k->work.targets, k->deadline_ns, err);
	if (rc == 0)
		rc = find_first_inputs(k, s, err);
	if (rc == 0 && k->work.targets.is_usual)
		rc = guess_snapshot(k, s, g, err);
	if (rc == 0)
		rc = env_scan_new(&k->work.targets, &k->work.scan, err);
	if (rc == 0)
		rc = env_work_key(&k->work, &k->key, err);
	if (rc < 0)
		return rc;
	env_guess_settle(g, &k->key.digest);
	/* If the guess waited for the store in vain, do not wait for it again. */
	(void)!env_guess_check_store(g, &s->away);
	return 0;
}

static void report_wait_for_other_run(void *arg)
{
	const struct env_run_key *k = arg;

	env_run_say_wait(
		k, k->work.targets.is_usual
			   ? "another 'env run' works on this system: waiting "
			     "for its end"
			   : "another 'env run' works on these targets: "
			     "waiting for its end");
}

/* Has the process that was waited for done the same work?  Then 1, and its snapshot. */
static int find_others_snapshot(struct env_run_key *k,
				const struct env_run_store *s,
				struct env_snapshot *ret, struct error *err)
{
	struct env_snapshot snap;
	bool is = false;
	int rc;

	env_scan_free(steal_ptr(&k->work.scan));
	rc = env_scan_new(&k->work.targets, &k->work.scan, err);
	if (rc < 0 || s->away.code ||
	    env_catalog_get(s->at.catalog, &k->key.digest, &snap, NULL) < 0)
		return rc;
	rc = env_scan_is_after(k->work.scan, &snap, &is, err);
	if (rc == 0 && is &&
	    !env_catalog_is_over_age(s->at.catalog, &snap, s->ttl)) {
		*ret = snap;
		return 1;
	}
	env_snapshot_fini(&snap);
	return rc;
}

/* Compute the key again: the other process has changed the targets meanwhile. */
static int find_key_anew(struct env_run_key *k, struct env_run_store *s,
			 struct env_guess *g, struct env_snapshot *ret,
			 struct error *err)
{
	int rc = find_others_snapshot(k, s, ret, err);

	if (rc > 0)
		return rc;
	env_scan_free(steal_ptr(&k->work.scan));
	env_key_fini(&k->key);
	env_key_fini(&k->near);
	env_targets_fini(&k->work.targets);
	return rc < 0 ? rc : env_run_find_key(k, s, g, err);
}

/* Lock the targets: of two commands that change them at once, each would capture some of the
 * other's files. */
int env_run_take_targets(struct env_run_key *k, struct env_run_store *s,
			 struct env_guess *g, struct env_snapshot *ret,
			 struct error *err)
{
	int rc;

	/* A second descriptor of the lock must not be opened: closing it would release the lock. */
	if (k->lock >= 0)
		return 0;
	rc = env_lock_take(&k->work.targets, k->deadline_ns,
			   report_wait_for_other_run, k, &k->lock, err);
	if (rc > 0 || (rc == 0 && k->is_others)) {
		k->is_others = false;
		k->is_within = k->lock < 0;
		rc = find_key_anew(k, s, g, ret, err);
	}
	return rc;
}
