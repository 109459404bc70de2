// SPDX-License-Identifier: Apache-2.0
/* Small objects of a store, whole. */
#ifndef BOOTSEER_OBJECTS_OBJECT_GET_H
#define BOOTSEER_OBJECTS_OBJECT_GET_H

#include "common/buf.h"
#include "objects/store.h"

/* The whole of an object that is small, in one request where the store can: `ret`, which is
 * empty, and what stat says of it.  -EFBIG: it is longer than `max`.  On failure `ret` holds
 * anything. */
int object_get(struct object_store *s, const char *name, size_t max,
	       struct buf *ret, struct object_stat *ret_stat,
	       struct error *err) MUST_CHECK;

#endif
