// SPDX-License-Identifier: Apache-2.0
/* Restore a snapshot: by a mount that bootseerd makes if possible, else by unpacking it. */
#include <errno.h>
#include <stdio.h>

#include "cli/env_give.h"
#include "cli/env_run.h"
#include "common/clock.h"

/* After a failed mount, may bootseerd still provide blocks?  Not if it is away, too old, or may
 * not use the store. */
static bool may_node_give_blocks(int code)
{
	static const int no[] = { ENOENT,    ECONNREFUSED, ECONNRESET,
				  ETIMEDOUT, EACCES,       ENOSYS };

	for (size_t k = 0; k < ARRAY_SIZE(no); k++)
		if (code == no[k])
			return false;
	return true;
}

/* The system's folders are never mounted over: all processes write to them. */
static bool may_mount(const struct env_run_restore *q)
{
	return q->may_mount && !q->job.targets->is_usual;
}

/* Try to mount; if bootseerd should mount and does not, a line says why.  True: do not unpack, as
 * the snapshot is mounted or must not be restored (`rc`). */
static bool try_mount(struct env_mount_job job, int *ret_rc, bool *ret_gives,
		      struct error *err)
{
	int rc = env_mount(&job, err);

	*ret_gives = job.is_answered || may_node_give_blocks(-rc);
	if (rc >= 0 || job.is_over || (job.check && job.check->is_bad)) {
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

/* Report an error of getting blocks from bootseerd.  Silent for an older bootseerd, which has no
 * such blocks, and if the reason was reported with the mount. */
static void report_giver_error(const struct env_run_restore *q,
			       const struct env_giver *g,
			       const struct error *why)
{
	if (g && g->failed.code)
		why = &g->failed;
	if (why->msg[0] && (g || (why->code != ENOSYS && !may_mount(q))))
		fprintf(stderr,
			"bootseer env run: not of bootseerd: %s: the store is "
			"read\n",
			why->msg);
}

/* Unpack with blocks from bootseerd, if it provides them; the rest comes from the store. */
static int unpack_snapshot(const struct env_run_restore *q,
			   const struct env_mount_job *job, bool gives,
			   struct error *err)
{
	struct env_restore_request r = { .store = q->at->store,
					 .snap = job->snap,
					 .targets = job->targets,
					 .others_ns = job->others_ns };
	struct error why = ERROR_INIT;
	int rc = gives ? env_give_open(job, &r.giver, &why) : 0;

	rc = env_restore(&r, job->check, err);
	report_giver_error(q, r.giver, &why);
	env_give_close(r.giver);
	return rc;
}

/* Finish the restore that the guess started. 1: done, with the result in `rc`; 0: the guess had
 * not started this one. */
static int finish_guessed_restore(const struct env_run_restore *q,
				  struct env_guess *g,
				  const struct env_mount_job *job, int *ret_rc,
				  struct error *err)
{
	struct env_restoring *begun = env_guess_take(g, job->snap);

	*ret_rc = begun ? env_restore_end(begun, job->check, err)
			: env_guess_check_store(g, err);
	if (begun)
		report_giver_error(q, g->giver, &g->why_not_given);
	return begun || *ret_rc < 0;
}

/* Restore the snapshot.  1: it was in place already. */
static int mount_or_unpack(const struct env_run_restore *q, struct env_guess *g,
			   const struct env_mount_job *job,
			   const char **ret_how, struct error *err)
{
	bool gives = true;
	int rc = 0;

	*ret_how = "mounted";
	if (may_mount(q) && try_mount(*job, &rc, &gives, err))
		return rc;
	*ret_how = "restored";
	return finish_guessed_restore(q, g, job, &rc, err)
		       ? rc
		       : unpack_snapshot(q, job, gives, err);
}

/* Mark the snapshot bad, so that other nodes do not restore it. */
static void mark_bad(struct env_catalog *c, const struct env_snapshot *snap,
		     const char *why)
{
	char host[128] = "";

	(void)gethostname(host, sizeof(host) - 1);
	(void)!env_catalog_mark_bad(c, snap, host, why, NULL);
}

int env_run_restore(const struct env_run_restore *q, struct env_guess *g,
		    const struct env_snapshot *snap, bool is_there,
		    bool *ret_is_bad, struct error *err)
{
	struct env_catalog *catalog = q->at->catalog;
	int64_t begun_ns = clock_now_ns();
	struct env_smoke_check smoke = q->verify;
	struct env_mount_job job = q->job;
	const char *how = "found in place";
	int rc;

	job.snap = snap;
	job.check = smoke.command ? &smoke.base : NULL;
	/* Clear the error of the first look-up, so that it is not reported as the reason for not
	 * mounting. */
	*err = (struct error)ERROR_INIT;
	env_run_say_stage("env.restore", STAGE_BEGIN, STAGE_NONE);
	rc = env_catalog_check_bad(catalog, snap, err);
	if (rc == 0 && !is_there)
		rc = mount_or_unpack(q, g, &job, &how, err);
	else if (rc == 0 && job.check)
		rc = env_smoke_is_good(&smoke.base, err);
	env_run_say_stage("env.restore", STAGE_END, rc < 0);
	if (smoke.base.is_bad)
		mark_bad(catalog, snap, err->msg);
	*ret_is_bad = smoke.base.is_bad || rc == -EBADMSG;
	if (*ret_is_bad && rc >= 0)
		rc = error_set(err, EBADMSG, "the snapshot is bad");
	if (rc < 0)
		return rc;
	env_catalog_touch(catalog, snap, clock_wall_ms());
	if (!q->quiet)
		env_run_say_done(rc > 0 ? "found in place" : how, snap,
				 begun_ns);
	return 1;
}
