// SPDX-License-Identifier: Apache-2.0
/* The content of the targets before the command: a snapshot fits on nothing else. */
#ifndef BOOTSEER_ENVCACHE_BASE_H
#define BOOTSEER_ENVCACHE_BASE_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/thread.h"
#include "envcache/envcache.h"

/* Are the targets now as the snapshot's key says they were?  1: they are as the command left
 * them; -ESTALE: neither.  The caller has them locked. */
int base_check(const struct env_snapshot *snap, const struct env_targets *t,
	       struct error *err) MUST_CHECK;

/* The same by a thread of its own, beside the last of what is read before it has to be known.
 * Who begins one ends it; zero but for what it looks at. */
struct base_look {
	const struct env_snapshot *snap;
	const struct env_targets *targets;
	struct thread thread;
	int rc;
	struct error err;
	_Atomic int64_t ended_ns; /* 0: not yet */
};
/* A look that cannot be begun is taken at the end. */
void base_look_begin(struct base_look *l);
/* The answer of base_check(), at most a second old; else it is asked now. */
int base_look_end(struct base_look *l, struct error *err) MUST_CHECK;
/* End the look without its result. */
void base_look_drop(struct base_look *l);

#endif
