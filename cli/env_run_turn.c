// SPDX-License-Identifier: Apache-2.0
/* Get the turn to make a key's snapshot, or the snapshot if another node has made it. */
#include <errno.h>

#include "cli/env_run.h"

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
		/* Another node may have published the snapshot just before this process got the
		 * turn. */
		rc = env_catalog_get_fresh(s->at.catalog, key, s->ttl, ret,
					   NULL);
		if (rc > 0)
			env_turn_end(steal_ptr(ret_turn), false);
		return rc > 0;
	case ENV_TURN_MADE:
		rc = env_catalog_get_fresh(s->at.catalog, key, s->ttl, ret,
					   err);
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
