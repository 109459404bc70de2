// SPDX-License-Identifier: Apache-2.0
/* The key of the command, and that nobody else works on its targets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/env_mount.h"
#include "cli/env_run.h"
#include "cli/env_system.h"

/* Beside its words, what the command depends on now. */
int env_run_find_inputs(struct env_run *r, struct error *err)
{
	env_inputs_fini(&r->inputs);
	return env_parts_inputs(&r->cfg->parts, r->command, &r->targets,
				r->made, &r->inputs, err);
}

/* The service says nothing of them, and nobody else is believed beside it. */
static bool may_ask_made(const struct env_run *r)
{
	bool has_file = false;

	for (size_t i = 0; i < r->inputs.n; i++)
		has_file = has_file ||
			   strcmp(r->inputs.items[i].kind, "file") == 0;
	return has_file && !r->made && r->at.catalog && !r->no_store.code &&
	       !r->cfg->service.service;
}

/* Without the files that it makes itself. */
static int find_first_inputs(struct env_run *r, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = env_run_find_inputs(r, err);

	if (rc < 0 || !may_ask_made(r))
		return rc;
	/* A store that is away would be waited for again. */
	if (env_parts_made(&r->cfg->parts, r->command, &r->targets, r->at.store,
			   &r->made, &why) == -ETIMEDOUT)
		r->no_store = why;
	return r->made ? env_run_find_inputs(r, err) : 0;
}

/* A store that the guess has waited for in vain is waited for no more. */
static void note_store(struct env_run *r)
{
	struct error why = ERROR_INIT;

	if (env_guess_check_store(&r->guess, &why) < 0)
		r->no_store = why;
}

/* The snapshot that this command had last is fetched beside the look at the names.  Its folders
 * are made in the system's, where another command's capture would see them. */
static int guess_snapshot(struct env_run *r, struct error *err)
{
	int rc = env_parts_key(&r->cfg->parts, r->command, &r->targets,
			       &r->inputs, NULL, &r->near, err);

	if (rc < 0 || !r->at.catalog || r->no_store.code || r->system < 0)
		return rc;
	r->guess = (struct env_guess){ .catalog = r->at.catalog,
				       .targets = &r->targets,
				       .near = &r->near,
				       .store = r->cfg->store,
				       .socket = r->cfg->socket };
	env_guess_begin(&r->guess);
	return 0;
}

/* The key of how it is now. */
int env_run_find_key(struct env_run *r, struct error *err)
{
	int rc = env_parts_targets(&r->cfg->parts, &r->targets, err);

	if (rc == 0)
		rc = env_join_recover(&r->targets, ENV_MOUNT_PREFIX,
				      r->deadline_ns, err);
	if (rc == 0 && r->system < 0 && !r->is_within)
		r->is_others = !env_system_try(&r->targets, &r->system);
	/* A half restored target may be of the one that has them: we look anew after it. */
	if (rc == 0 && !r->is_others)
		rc = env_recover(&r->targets, r->deadline_ns, err);
	if (rc == 0)
		rc = find_first_inputs(r, err);
	if (rc == 0 && r->targets.is_usual)
		rc = guess_snapshot(r, err);
	if (rc == 0)
		rc = env_scan_new(&r->targets, &r->before, err);
	if (rc == 0)
		rc = env_parts_key(&r->cfg->parts, r->command, &r->targets,
				   &r->inputs, r->before, &r->key, err);
	if (rc < 0)
		return rc;
	env_guess_settle(&r->guess, &r->key.digest);
	note_store(r);
	return 0;
}

/* The other one may need what we have locked. */
static void say_works(void *arg)
{
	struct env_run *r = arg;

	env_guess_drop(&r->guess);
	note_store(r);
	env_run_say_wait(
		r, r->targets.is_usual
			   ? "another 'env run' works on this system: waiting "
			     "for its end"
			   : "another 'env run' works on these targets: "
			     "waiting for its end");
}

/* The process that was waited for may have done the same: 1, and what it did. */
static int find_done(struct env_run *r, struct env_snapshot *ret,
		     struct error *err)
{
	struct env_snapshot snap;
	bool is = false;
	int rc;

	env_scan_free(steal_ptr(&r->before));
	rc = env_scan_new(&r->targets, &r->before, err);
	if (rc < 0 || !r->at.catalog || r->no_store.code ||
	    env_catalog_get(r->at.catalog, &r->key.digest, &snap, NULL) < 0)
		return rc;
	rc = env_scan_is_after(r->before, &snap, &is, err);
	if (rc == 0 && is && !env_run_is_over_age(r, &snap)) {
		*ret = snap;
		return 1;
	}
	env_snapshot_fini(&snap);
	return rc;
}

/* The command finds what another has done to the targets meanwhile. */
static int find_key_anew(struct env_run *r, struct env_snapshot *ret,
			 struct error *err)
{
	int rc = find_done(r, ret, err);

	if (rc > 0)
		return rc;
	env_scan_free(steal_ptr(&r->before));
	env_key_fini(&r->key);
	env_key_fini(&r->near);
	env_targets_fini(&r->targets);
	return rc < 0 ? rc : env_run_find_key(r, err);
}

/* Lock the targets: two commands that change one at once would each capture half of the other's
 * files. */
int env_run_take_targets(struct env_run *r, struct env_snapshot *ret,
			 struct error *err)
{
	int rc;

	/* Another descriptor of the lock, closed, would give it up. */
	if (r->system >= 0)
		return 0;
	rc = env_system_take(&r->targets, r->deadline_ns, say_works, r,
			     &r->system, err);
	if (rc > 0 || (rc == 0 && r->is_others)) {
		r->is_others = false;
		r->is_within = r->system < 0;
		rc = find_key_anew(r, ret, err);
	}
	return rc;
}
