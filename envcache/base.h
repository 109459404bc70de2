// SPDX-License-Identifier: Apache-2.0
/* The content of the targets before the command, on which alone a snapshot may be restored. */
#ifndef BOOTSEER_ENVCACHE_BASE_H
#define BOOTSEER_ENVCACHE_BASE_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/thread.h"
#include "envcache/envcache.h"

/* Check that the targets are now as the snapshot's key describes them. 1: they are as the command
 * left them; -ESTALE: neither.  The caller has them locked. */
int base_check(const struct env_snapshot *snap, const struct env_targets *t,
	       struct error *err) MUST_CHECK;

/* base_check() on a thread of its own, in parallel with reading.  Whoever begins it must end or
 * drop it.  Zero it, except for the first two members. */
struct base_look {
	const struct env_snapshot *snap;
	const struct env_targets *targets;
	struct thread thread;
	int rc;
	struct error err;
	_Atomic int64_t ended_ns; /* 0: not ended */
};
/* Start the check; if no thread can be started, base_look_end() does it. */
void base_look_begin(struct base_look *l);
/* The result of base_check(), at most a second old; an older one is replaced by a new check. */
int base_look_end(struct base_look *l, struct error *err) MUST_CHECK;
/* Wait for the check's end and ignore its result. */
void base_look_drop(struct base_look *l);

#endif
