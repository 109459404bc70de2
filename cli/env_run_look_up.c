// SPDX-License-Identifier: Apache-2.0
/* The snapshot of a key is looked up, or the turn is taken to make it. */
#include <errno.h>

#include "cli/env_run.h"
#include "common/clock.h"

bool env_run_is_over_age(const struct env_run_store *s,
			 const struct env_snapshot *snap)
{
	struct env_marks m;

	return s->ttl && clock_wall_ms() - snap->made_ms > s->ttl / NS_PER_MS &&
	       env_catalog_marks(s->at.catalog, snap, &m, NULL) == 0 &&
	       !m.is_pinned;
}

int env_run_look_up(const struct env_run_store *s, const struct digest *key,
		    struct env_snapshot *ret, struct error *err)
{
	struct env_snapshot snap;
	int rc = env_catalog_get(s->at.catalog, key, &snap, err);

	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (!env_run_is_over_age(s, &snap)) {
		*ret = snap;
		return 1;
	}
	rc = env_catalog_pass_over(s->at.catalog, &snap, err);
	env_snapshot_fini(&snap);
	return rc;
}

int env_run_take_turn(const struct env_run_store *s, const struct digest *key,
		      const struct env_turn_options *opts,
		      struct env_turn **ret_turn, struct env_snapshot *ret,
		      struct error *err)
{
	enum env_turn_kind kind = ENV_TURN_MINE;
	int rc;

	env_run_say_stage("env.wait", STAGE_BEGIN, STAGE_NONE);
	rc = env_turn_take(s->at.catalog, key, opts, &kind, ret_turn, err);
	env_run_say_stage("env.wait", STAGE_END, rc < 0);
	if (rc < 0)
		return rc;
	switch (kind) {
	case ENV_TURN_MINE:
		/* The snapshot may have been made just before the turn was ours. */
		rc = env_run_look_up(s, key, ret, NULL);
		if (rc > 0)
			env_turn_end(steal_ptr(ret_turn), false);
		return rc > 0;
	case ENV_TURN_MADE:
		rc = env_run_look_up(s, key, ret, err);
		return rc ? rc
			  : error_set(err, ENOENT,
				      "the snapshot was removed meanwhile");
	case ENV_TURN_FAILED:
		return error_set(err, ECANCELED,
				 "another node that ran it made no snapshot");
	case ENV_TURN_TIMEOUT:
		break;
	}
	return error_set(err, ETIMEDOUT,
			 "another node takes longer than --wait");
}
