// SPDX-License-Identifier: Apache-2.0
/*
 * A lock made of objects, for stores that cannot write on a condition.  Whoever wants
 * it puts an object of its own into the lock's folder and looks who else is there: the
 * lock is had by whoever is alone.  It needs no more of the store than that a list has
 * each object whose put has ended.
 */
#ifndef BOOTSEER_OBJECTS_STORE_LOCK_H
#define BOOTSEER_OBJECTS_STORE_LOCK_H

#include "objects/store/backend.h"

/* A lock that nobody gave back is broken after this long, as seen by others. */
#define STORE_LOCK_MS 20000u

/* A lock of this age by the store's dates is nobody's: the clocks that date objects may
 * differ by a day. */
#define STORE_LOCK_LEFT_MS (UINT64_C(48) * 3600 * 1000)

struct store_lock {
	char *name;       /* of our object; NULL: not locked */
	int64_t taken_ns; /* before it was put */
};

/* Lock what is done to the object `name`.  -EBUSY after the store's retry_ms. */
int store_lock(struct object_store *s, const char *name, struct store_lock *ret,
	       struct error *err) MUST_CHECK;
/* Is there time enough for one more request, before others may break it? */
int store_lock_check(const struct store_lock *l, struct error *err) MUST_CHECK;
void store_unlock(struct object_store *s, struct store_lock *l);

/* Does the condition of a put hold now?  To be asked under the lock. */
int store_condition(struct object_store *s, const struct object_put *p,
		    struct error *err) MUST_CHECK;

/* Remove the objects of locks that are older: their holders are gone. */
int store_lock_sweep(struct object_store *s, int64_t before_ms, size_t *ret_n,
		     struct error *err) MUST_CHECK;

#endif
