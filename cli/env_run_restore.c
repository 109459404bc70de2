// SPDX-License-Identifier: Apache-2.0
/* The snapshot of a key, looked up and put into place. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/env_give.h"
#include "cli/env_mount.h"
#include "cli/env_run.h"
#include "common/clock.h"

struct smoke_check {
	struct env_restore_check base;
	const struct env_run *run;
};

static int smoke_is_good(struct env_restore_check *c, struct error *err)
{
	int rc =
		env_run_check_programs(container_of(c, struct smoke_check, base)
					       ->run,
				       err);

	c->is_bad = rc == -ECANCELED;
	return rc;
}

/* Was it made so long ago that it is made anew? */
bool env_run_is_over_age(const struct env_run *r,
			 const struct env_snapshot *snap)
{
	struct env_marks m;

	return r->cfg->ttl &&
	       clock_wall_ms() - snap->made_ms > r->cfg->ttl / NS_PER_MS &&
	       env_catalog_marks(r->at.catalog, snap, &m, NULL) == 0 &&
	       !m.is_pinned;
}

/* Others must not restore what was found bad here. */
static void mark_bad(const struct env_run *r, const struct env_snapshot *snap,
		     const char *why)
{
	char host[128] = "";

	(void)gethostname(host, sizeof(host) - 1);
	(void)!env_catalog_mark_bad(r->at.catalog, snap, host, why, NULL);
}

/* A bootseerd that did not mount the snapshot gives its blocks unless it is not there, or has
 * not the store. */
static bool may_give(int code)
{
	static const int no[] = { ENOENT,    ECONNREFUSED, ECONNRESET,
				  ETIMEDOUT, EACCES,       ENOSYS };

	for (size_t k = 0; k < ARRAY_SIZE(no); k++)
		if (code == no[k])
			return false;
	return true;
}

/* The system's folders get what is written to them, whoever writes it. */
static bool may_be_mounted(const struct env_run *r)
{
	return !r->cfg->unpack && !r->cfg->parts.merge && !r->targets.is_usual;
}

/* By a mount where bootseerd makes one; where it should and does not, a line says why.
 * True: there is nothing to unpack, as it is mounted, or must not be (`rc`). */
static bool try_mount(const struct env_run *r, const struct env_snapshot *snap,
		      struct env_restore_check *check, int *ret_rc,
		      bool *ret_gives, struct error *err)
{
	struct env_mount_job job = { .socket = r->cfg->socket,
				     .store = r->cfg->store,
				     .snap = snap,
				     .targets = &r->targets,
				     .others_ns = r->deadline_ns,
				     .check = check };
	int rc;

	*ret_gives = true;
	if (!may_be_mounted(r))
		return false;
	rc = env_mount(&job, err);
	*ret_gives = job.is_answered || may_give(-rc);
	if (rc >= 0 || job.is_over || (check && check->is_bad)) {
		*ret_rc = rc;
		return true;
	}
	if (err->msg[0])
		fprintf(stderr,
			"bootseer env run: not mounted: %s: it is unpacked\n",
			err->msg);
	*err = (struct error)ERROR_INIT;
	return false;
}

/* An older bootseerd has no such blocks, and nobody expects any; and one that did not mount the
 * snapshot has said why. */
static void say_given(const struct env_run *r, const struct env_giver *g,
		      const struct error *why)
{
	if (g && g->failed.code)
		why = &g->failed;
	if (why->msg[0] && (g || (why->code != ENOSYS && !may_be_mounted(r))))
		fprintf(stderr,
			"bootseer env run: not of bootseerd: %s: the store is "
			"read\n",
			why->msg);
}

/* Bootseerd brings blocks, where there is one; the store has the rest. */
static int unpack_snapshot(struct env_run *r, const struct env_snapshot *snap,
			   struct env_restore_check *check, bool gives,
			   struct error *err)
{
	const struct env_mount_job job = { .socket = r->cfg->socket,
					   .store = r->cfg->store,
					   .snap = snap };
	struct env_restoring *begun = env_guess_take(&r->guess, snap);
	struct env_giver *g = NULL;
	struct error why = ERROR_INIT;
	int rc;

	if (begun) {
		rc = env_restore_end(begun, check, err);
		say_given(r, r->guess.giver, &r->guess.why_not_given);
		return rc;
	}
	rc = env_guess_check_store(&r->guess, err);
	if (rc < 0)
		return rc;
	rc = gives ? env_give_open(&job, &g, &why) : 0;
	rc = env_restore(r->at.store, snap, &r->targets, 0, r->deadline_ns, g,
			 check, err);
	say_given(r, g, &why);
	env_give_close(g);
	return rc;
}

int env_run_restore(struct env_run *r, const struct env_snapshot *snap,
		    bool is_there, struct error *err)
{
	struct smoke_check smoke = { .base.is_good = smoke_is_good, .run = r };
	struct env_restore_check *check = r->cfg->verify ? &smoke.base : NULL;
	bool is_mounted = false, gives = false;
	int rc;

	/* That there was no snapshot before must not pass for why it is not mounted. */
	*err = (struct error)ERROR_INIT;
	r->begun_ns = clock_now_ns();
	env_run_say_stage("env.restore", STAGE_BEGIN, STAGE_NONE);
	rc = env_catalog_check_bad(r->at.catalog, snap, err);
	if (rc == 0 && is_there)
		rc = check ? check->is_good(check, err) : 0;
	if (rc == 0 && !is_there)
		is_mounted = try_mount(r, snap, check, &rc, &gives, err);
	if (rc == 0 && !is_mounted && !is_there)
		rc = unpack_snapshot(r, snap, check, gives, err);
	env_run_say_stage("env.restore", STAGE_END, rc < 0);
	if (smoke.base.is_bad)
		mark_bad(r, snap, err->msg);
	/* A snapshot that nobody can restore is made anew only when it is gone. */
	r->is_bad_for_all = smoke.base.is_bad || rc == -EBADMSG;
	if (r->is_bad_for_all && rc == 0)
		rc = error_set(err, EBADMSG, "the snapshot is bad");
	if (rc < 0)
		return rc;
	env_catalog_touch(r->at.catalog, snap, clock_wall_ms());
	env_run_say_done(r,
			 rc > 0 || is_there ? "found in place"
			 : is_mounted       ? "mounted"
					    : "restored",
			 snap);
	env_run_note_name(r);
	r->now = snap;
	return 0;
}

int env_run_look_up(struct env_run *r, struct env_snapshot *ret,
		    struct error *err)
{
	struct env_snapshot snap;
	int rc = env_catalog_get(r->at.catalog, &r->key.digest, &snap, err);

	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (!env_run_is_over_age(r, &snap)) {
		*ret = snap;
		return 1;
	}
	rc = env_catalog_pass_over(r->at.catalog, &snap, err);
	env_snapshot_fini(&snap);
	return rc;
}
