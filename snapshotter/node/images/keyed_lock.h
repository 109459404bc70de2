// SPDX-License-Identifier: Apache-2.0
/*
 * A gate for each image, inside of which one thread works at a time. Work on an
 * image lasts long (transfers, mounts), so a place is taken, and no lock held.
 */
#ifndef BOOTSEER_NODE_KEYED_LOCK_H
#define BOOTSEER_NODE_KEYED_LOCK_H

#include "common/digest.h"
#include "common/pace.h"

struct keyed_lock;

struct keyed_lock *keyed_lock_new(void) MUST_CHECK;
void keyed_lock_free(struct keyed_lock *g); /* with nobody inside */

/* Wait until nobody works on `key`, and be the one.  -ETIMEDOUT, -ENOMEM. */
int keyed_lock_enter(struct keyed_lock *g, const struct digest *key,
		     int64_t timeout_ns, struct error *err) MUST_CHECK;
/* The same; -ECANCELED soon after `pace` (may be NULL) says stop. */
int keyed_lock_enter_paced(struct keyed_lock *g, const struct digest *key,
			   int64_t timeout_ns, struct pace *pace,
			   struct error *err) MUST_CHECK;
/* Does somebody work on it now? */
bool keyed_lock_is_taken(struct keyed_lock *g, const struct digest *key);
void keyed_lock_leave(struct keyed_lock *g, const struct digest *key);

#endif
