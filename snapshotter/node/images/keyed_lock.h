// SPDX-License-Identifier: Apache-2.0
/*
 * A gate for each key (an image's id), inside of which one thread works at a time. Such work
 * lasts long (transfers, mounts), so an entry in a list stands for it, and no mutex is held.
 */
#ifndef BOOTSEER_NODE_KEYED_LOCK_H
#define BOOTSEER_NODE_KEYED_LOCK_H

#include "common/digest.h"
#include "common/pace.h"

struct keyed_lock;

struct keyed_lock *keyed_lock_new(void) MUST_CHECK;
void keyed_lock_free(struct keyed_lock *g); /* no thread may be inside */

/* Wait until no other thread works on `key`, then enter.  -ETIMEDOUT, -ENOMEM. */
int keyed_lock_enter(struct keyed_lock *g, const struct digest *key,
		     int64_t timeout_ns, struct error *err) MUST_CHECK;
/* As keyed_lock_enter(), but -ECANCELED soon after `pace` (may be NULL) says stop. */
int keyed_lock_enter_paced(struct keyed_lock *g, const struct digest *key,
			   int64_t timeout_ns, struct pace *pace,
			   struct error *err) MUST_CHECK;
/* Is a thread working on `key` now? */
bool keyed_lock_is_taken(struct keyed_lock *g, const struct digest *key);
void keyed_lock_leave(struct keyed_lock *g, const struct digest *key);

#endif
