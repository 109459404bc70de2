// SPDX-License-Identifier: Apache-2.0
/* What was in the targets before: a snapshot fits on nothing else. */
#ifndef BOOTSEER_ENVCACHE_BASE_H
#define BOOTSEER_ENVCACHE_BASE_H

#include "envcache/envcache.h"

/* Are the targets now as the snapshot's key says they were, but for the empty folders
 * `made`, which were made for the restore?  1: they are as the command left them;
 * -ESTALE: neither.  The caller has them locked. */
int base_check(const struct env_snapshot *snap, const struct env_targets *t,
	       char *const *made, size_t n_made, struct error *err) MUST_CHECK;

#endif
