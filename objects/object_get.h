// SPDX-License-Identifier: Apache-2.0
/* Objects of a store by fewer requests than object_open() and object_read() take. */
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

/* The first of two names that is there, which a remote server is asked for both at once;
 * -ENOENT: neither was there when the first was not. */
int object_open_first(struct object_store *s, const char *first,
		      const char *second, bool *ret_is_second,
		      struct object **ret, struct error *err) MUST_CHECK;

/* object_get() of `small`, or 1 and `other` opened where that alone is there.  A remote server is
 * asked for both at once.  -ENOENT: the second was not there when the first was not.  Of an
 * `other` that is to be read a bucket sends the first `head` bytes at once; 0: none. */
int object_get_first(struct object_store *s, const char *small, size_t max,
		     struct buf *ret, struct object_stat *ret_stat,
		     const char *other, size_t head, struct object **ret_other,
		     struct error *err) MUST_CHECK;

/* An object as by object_open() that nobody ever replaces: a bucket is asked nothing before the
 * first read, which is -ENOENT if it is not there; object_opened_stat() knows nothing of it. */
int object_open_unasked(struct object_store *s, const char *name,
			struct object **ret, struct error *err) MUST_CHECK;

#endif
