// SPDX-License-Identifier: Apache-2.0
/*
 * A lock made of objects, for stores without conditional writes. A process puts an object of its
 * own into the lock's folder and lists it: the process whose object is alone has the lock. The
 * store must only list each object whose put has ended.
 */
#ifndef BOOTSEER_OBJECTS_STORE_LOCK_H
#define BOOTSEER_OBJECTS_STORE_LOCK_H

#include "objects/store/backend.h"

/* A lock that is not given back may be broken after this long. */
#define STORE_LOCK_MS 20000u

/* A lock this old by the store's clock has no holder any more; clocks may differ by a day. */
#define STORE_LOCK_LEFT_MS (UINT64_C(48) * 3600 * 1000)

struct store_lock {
	char *name;       /* name of the lock object; NULL: not locked */
	int64_t taken_ns; /* time before it was put */
};

/* Lock changes of the object `name`. -EBUSY after the store's retry_ms. */
int store_lock(struct object_store *s, const char *name, struct store_lock *ret,
	       struct error *err) MUST_CHECK;
/* Is there time for one more request before others may break the lock? */
int store_lock_check(const struct store_lock *l, struct error *err) MUST_CHECK;
void store_unlock(struct object_store *s, struct store_lock *l);

/* Does a put's condition hold now? Call with the lock taken. */
int store_condition(struct object_store *s, const struct object_put *p,
		    struct error *err) MUST_CHECK;

/* Remove lock objects from before `before_ms`: their holders are gone. */
int store_lock_sweep(struct object_store *s, int64_t before_ms, size_t *ret_n,
		     struct error *err) MUST_CHECK;

#endif
